//go:build !race

package recent

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// The past of a node takes little memory, and that of one which another program reads still less: there may be thousands.
func TestMemoryOfANode(t *testing.T) {
	for remote, most := range map[bool]float64{false: 130e3, true: 30e3} {
		const nodes = 100
		heap := func() float64 {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return float64(m.HeapAlloc)
		}
		before, s := heap(), New()
		for after := time.Duration(0); after < 20*time.Minute; after += 15 * time.Second {
			for i := range nodes {
				s.Observe(full(fmt.Sprint("node-", i), after, remote))
			}
		}
		each := (heap() - before) / nodes
		t.Logf("remote %v: %.1f kB", remote, each/1e3)
		if each > most {
			t.Errorf("remote %v: a node takes %.0f bytes, more than %.0f", remote, each, most)
		}
		runtime.KeepAlive(s)
	}
}
