//go:build !race

package main

import (
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// With a large heap, less garbage builds up before a collection.
func TestGarbageBesideALargeHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	if small, large := garbageBeside(largeHeap-1), garbageBeside(largeHeap); small != ordinaryGarbage || large != littleGarbage {
		t.Errorf("%d %% beside a small heap, %d %% beside a large one", small, large)
	}
	collectSooner()
	held := make([]byte, 2*largeHeap)
	share := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	testkit.Until(t, "less garbage waits", func() bool {
		runtime.GC()
		metrics.Read(share)
		return share[0].Value.Uint64() == littleGarbage
	}, func() any { return share[0].Value.Uint64() })
	runtime.KeepAlive(held)
}
