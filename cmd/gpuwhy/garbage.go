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
	// largeHeap is more than eight GPUs and their past need. A larger heap means viewers, or hundreds of GPUs.
	largeHeap = 32 << 20
	// ordinaryGarbage is Go's default: as much garbage as memory in use.
	ordinaryGarbage = 100
	littleGarbage   = 50
)

// collectSooner collects garbage earlier in a large heap. Viewers make little garbage, so collections stay rare. In a small
// heap it would cause more collections and save almost nothing. docs/performance.md has the figures. If GOGC is set, it
// stays as it is.
func collectSooner() {
	if os.Getenv("GOGC") == "" {
		afterCollection(ordinaryGarbage)
	}
}

// share leaves the helpers their shares of the memory limit (GOMEMLIMIT), if one is set.
func share(helpers int) {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		_, rest := helper.Share(limit, helpers)
		debug.SetMemoryLimit(rest)
	}
}

// afterCollection sets the limit after each collection, which it detects by the cleanup of an unreachable value.
func afterCollection(percent int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if p := garbageBeside(live[0].Value.Uint64()); p != percent {
		debug.SetGCPercent(p)
		percent = p
	}
	runtime.AddCleanup(new([16]byte), afterCollection, percent)
}

// garbageBeside returns how much garbage may build up before a collection, in percent of the bytes in use.
func garbageBeside(live uint64) int {
	if live >= largeHeap {
		return littleGarbage
	}
	return ordinaryGarbage
}
