package smi

import (
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// TestChaos checks that, whatever goes wrong in whatever order, a reading returns in time, is consistent, and shows nothing old as fresh;
// afterwards everything works as before. SOAK makes it longer: it is how long the machine is read, such as "2h".
func TestChaos(t *testing.T) {
	last := 2 * time.Minute
	if d, err := time.ParseDuration(os.Getenv("SOAK")); err == nil {
		last = d
	}
	m := machine(t, "blackwell-570")
	if runtime.GOOS == "linux" {
		m.PlugIn()
	}
	s := source(t, m)
	until(t, s, "ok", allOK)
	addresses := m.Addresses()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	change := func() {
		address := pick(addresses...)
		switch random.IntN(8) {
		case 0, 1:
			m.Heal()
			m.Fault("pmon-ms 20")
		case 2:
			m.Fault(pick("hang ", "lost ", "gone ", "cut ", "lost-ends ", "lost-goes-on ") + address)
		case 3:
			m.Fault(pick("die", "once", "no-pmon", "cut-xml", "silent ", "slow 30"))
		case 4:
			m.Fault(pick("fail 9 "+noDriver, "fail 6 No devices were found", "fail 255 Failed to initialize NVML: Unknown Error", "fail 1 "))
		case 5:
			m.Fault("noise " + pick("\x00\xff", "0, GPU-1, 2", "<?xml ?><gpu>", "# gpu pid", noDriver))
		case 6:
			m.Set(address, pick("utilization.gpu", "power.draw", "temperature.gpu", "memory.used", "pstate", "name"),
				pick("[N/A]", "[Unknown Error]", "18446744073709551615", "-1", "99999 %", "7", "a sentence"))
		case 7:
			m.Sleep(address, random.IntN(2) == 0)
		}
	}
	const patience = 400 * time.Millisecond
	longest, readings := time.Duration(0), 0
	for end := clockOf(s).Now().Add(last); clockOf(s).Now().Before(end); readings++ {
		if random.IntN(5) == 0 {
			change()
		}
		begun := clockOf(s).Now()
		snap, took, err := readFor(t, s, patience)
		longest = max(longest, took)
		if err != nil {
			_ = adviceOf(t, err)
		}
		if snap == nil {
			snap = &gpu.Snapshot{}
		}
		for i := range snap.Devices {
			d := &snap.Devices[i]
			for _, problem := range sourcetest.Check(d, clockOf(s).Now()) {
				t.Error(problem)
			}
			if age := begun.Sub(d.SampledAt); d.State == gpu.StateOK && d.Reason.IsZero() && age > 2*testDeadline {
				t.Errorf("%s is ok, %v after it was read", d.UUID, age)
			}
		}
		pass(t, s, time.Duration(random.IntN(3))*step(s))
	}
	if limit := 4 * testDeadline; longest > limit {
		t.Errorf("a reading took %v, more than %v", longest, limit)
	}
	t.Logf("%d readings, the longest in %v", readings, longest)
	m.Heal()
	for _, address := range addresses {
		m.Sleep(address, false)
		for field, value := range map[string]string{
			"utilization.gpu": "0 %", "power.draw": "3.97 W", "temperature.gpu": "24", "memory.used": "3 MiB", "pstate": "P8", "name": "A card",
		} {
			m.Set(address, field, value)
		}
	}
	until(t, s, "both are ok", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == 2 })
	s.mu.Lock()
	flying := s.flying
	s.mu.Unlock()
	if flying > 5 {
		t.Errorf("%d commands run", flying)
	}
}
