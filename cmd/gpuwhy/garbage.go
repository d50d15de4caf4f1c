package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/gpuwhy/gpuwhy/internal/helper"
)

const (
	// largeHeap is more than eight GPUs and their past need. What is in use beyond is viewers, or hundreds of GPUs.
	largeHeap = 32 << 20
	// ordinaryGarbage is Go's own: there may be as much garbage as there is memory in use.
	ordinaryGarbage = 100
	littleGarbage   = 50
)

// collectSooner lets less garbage wait beside a large heap. Viewers make little, so collections stay rare. In a small
// heap there would be more collections, for next to nothing. docs/performance.md has the figures.
// GOGC, where somebody has set it, stays.
func collectSooner() {
	if os.Getenv("GOGC") == "" {
		afterCollection(ordinaryGarbage)
	}
}

// share leaves to helpers their shares of the memory that somebody has set a limit for (GOMEMLIMIT).
func share(helpers int) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		_, rest := helper.Share(limit, helpers)
		debug.SetMemoryLimit(rest)
	}
}

// afterCollection decides with each collection, which a value that nobody holds tells.
func afterCollection(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if p := garbageBeside(live[0].Value.Uint64()); p != percent {
		debug.SetGCPercent(p)
		percent = p
	}
	runtime.AddCleanup(new([16]byte), afterCollection, percent)
}

// garbageBeside is how much garbage there may be before it is collected, in percent of so many bytes in use.
func garbageBeside(live uint64) int {
	if live >= largeHeap {
		return littleGarbage
	}
	return ordinaryGarbage
}
