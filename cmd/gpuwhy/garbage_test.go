package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

// Beside a large heap less garbage waits for its collection.
func TestGarbageBesideALargeHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	if small, large := garbageBeside(largeHeap-1), garbageBeside(largeHeap); small != ordinaryGarbage || large != littleGarbage {
		t.Errorf("%d %% beside a small heap, %d %% beside a large one", small, large)
	}
	collectSooner()
	held := make([]byte, 2*largeHeap)
	share := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		metrics.Read(share)
		if share[0].Value.Uint64() == littleGarbage {
			break
		} else if time.Since(begun) > patience {
			t.Fatalf("%d %%", share[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(held)
}
