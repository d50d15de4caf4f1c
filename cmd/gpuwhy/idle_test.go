//go:build !race

package main

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// With --idle-interval, the driver is read seldom while nobody looks, at the usual interval as soon as somebody
// does, and seldom again afterwards.
func TestTheDriverIsReadSeldomWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	p := start(t, lib.Env(), fast, "--idle-interval=1m")
	readings := func() int { return m.Calls("nvmlDeviceGetPowerUsage") }
	const span = 1.0 // in seconds: four times the interval
	rests := func(when string) {
		t.Helper()
		uptime := func() float64 { // the program's own clock; nobody looks who asks for this
			var health contract.MonitorHealth
			p.get("/api/health", &health)
			return health.UptimeSeconds
		}
		made := 0
		testkit.Until(t, "the driver is left alone: "+when, func() bool {
			before, until := readings(), uptime()+span
			testkit.Until(t, "a second has passed", func() bool { return uptime() > until })
			made = readings() - before
			return made <= 1 // which may be that of the minute
		}, func() any { return made })
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
	if err := v.stream.Close(); err != nil {
		t.Fatal(err)
	}
	rests("nobody looks any more")
}
