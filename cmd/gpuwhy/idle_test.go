package main

import (
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// With --idle-interval the driver is left alone while nobody looks, read at the usual interval as soon as somebody
// does, and left alone again afterwards.
func TestTheDriverIsReadSeldomWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast, "--idle-interval=1m")
	readings := func() int { return m.Calls("nvmlDeviceGetPowerUsage") }
	const span = 2 * time.Second // eight times the interval
	rests := func(when string) {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			before := readings()
			time.Sleep(span)
			// One may be that of the minute.
			if n := readings() - before; n <= 1 {
				return
			} else if time.Now().After(end) {
				t.Fatalf("%s: %d readings in %v", when, n, span)
			}
			var health contract.MonitorHealth // nobody looks who asks for this
			p.get("/api/health", &health)
		}
	}
	m.Await("it was read", func() bool { return readings() > 0 })
	rests("nobody has looked")

	before := readings() // before somebody looks: many may have been made once the test goes on
	v := p.dial()
	var u contract.Update
	for seen := map[uint64]bool{}; len(seen) < 6; {
		v.next("gpu_status_update", &u)
		seen[u.Seq] = true
	}
	if n := readings() - before; n < 4 { // the first can be the newest there was, the last may not have ended
		t.Errorf("%d readings of six that somebody got", n)
	}
	if err := v.conn.CloseNow(); err != nil {
		t.Fatal(err)
	}
	rests("nobody looks any more")
}
