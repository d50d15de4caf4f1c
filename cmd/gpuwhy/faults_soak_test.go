//go:build !race && soak && linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// Makes random faults in every source of a program with the race detector. Every reading must
// satisfy the invariants, and at the end everything is as before: the GPUs, and the program's
// goroutines, descriptors and memory. SOAK=duration makes it longer or shorter than 10 min.
func TestSoakFaults(t *testing.T) {
	t.Parallel()
	span := 10 * time.Minute
	if set := os.Getenv("SOAK"); set != "" {
		var err error
		if span, err = time.ParseDuration(set); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("library", func(t *testing.T) {
		t.Parallel()
		w := newWorkshop(t, startRaced)
		soak(w.stand, span, w.randomFault, w.healAll, gpusOfAll)
	})
	t.Run("nvidia-smi", func(t *testing.T) {
		t.Parallel()
		a := newAsked(t, startRaced)
		soak(a.stand, span, a.randomFault, a.healAll, a.n)
	})
}

// soak makes faults for a time. The program is measured after a quarter of that time, since it
// keeps buffers and threads.
func soak(s *stand, span time.Duration, fault func(*rand.Rand) string, heal func(), gpus int) {
	s.Helper()
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	begun, faults, readings := time.Now(), 0, 0
	settled := func() use {
		heal()
		s.well(gpus)
		for range 8 {
			s.next()
		}
		return s.use()
	}
	var before use
	for time.Since(begun) < span {
		if before.goroutines == 0 && time.Since(begun) > span/4 {
			before = settled()
		}
		if random.IntN(12) == 0 {
			heal()
		}
		what := fault(random)
		faults++
		for range 1 + random.IntN(3) {
			s.next()
			readings++
		}
		if s.Failed() {
			s.Fatalf("after %d faults, the last: %s", faults, what)
		}
	}
	after := settled()
	s.Logf("%d faults, %d readings in %v; before %+v, after %+v",
		faults, readings, time.Since(begun).Round(time.Second), before, after)
	if s.leaks(before, after) {
		s.Errorf("before %+v, after %+v", before, after)
	}
	if after.mebibytes > before.mebibytes+before.mebibytes/4+32 {
		s.Errorf("%d MiB resident, before %d", after.mebibytes, before.mebibytes)
	}
}

func pick[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

var nonsense = []string{
	"", "no data\n", "0\n", "-1\n", "18446744073709551615\n", "9223372036854775808\n", "99999\n", "\x00\xff\x1b[2J\n",
}

// spoiltKeys are the readings of an NVIDIA GPU that become nonsense.
var spoiltKeys = []fakenvml.Key{
	fakenvml.Temperature, fakenvml.Power, fakenvml.Utilization, "memory_used", "energy", "clock1", "memory_total",
}

func (w *workshop) randomFault(random *rand.Rand) string {
	d := pick(random, w.nvidia.GPUs...)
	f := pick(random, d.Functions()...)
	switch n := random.IntN(14); n {
	case 0:
		d.Hang(f)
		return "hang " + f
	case 1, 2:
		code := pick(random, 1, 2, 3, 4, 6, 9, 10, 13, 15, 16, 18, 25, 999, 4711)
		d.Answer(code, f)
		return fmt.Sprint("answer ", code, " ", f)
	case 3:
		d.Slow(time.Duration(random.IntN(1000))*time.Millisecond, f)
		return "slow " + f
	case 4:
		pick(random, d.Lost, w.nvidia.Unload, w.nvidia.Load, w.nvidia.Reload,
			func() { w.nvidia.Answer(999) }, func() { d.RaiseXID(79) })()
		return "driver"
	case 5:
		key := pick(random, spoiltKeys...)
		d.Set(key, pick(random, "18446744073709551615", "9223372036854775808", "99999", "0", "-1", fakenvml.Error(999)))
		return "garbage"
	case 6:
		var all []fakenvml.Process
		for i := range random.IntN(200) {
			all = append(all, fakenvml.Process{PID: uint32(5_000_000 + i), Type: "compute", Memory: random.Uint64()})
		}
		d.SetProcesses(all...)
		return "processes"
	case 7:
		pick(random, d.Sleep, d.Wake)()
		return "sleep"
	default:
		c := pick(random, w.amd, w.intel)
		well := map[string]string{}
		if w.out[c] {
			w.out[c] = false
			c.Plug()
			return "plug"
		}
		for name, text := range w.good(c) {
			if !ofTheKernel(name) {
				well[name] = text
			}
		}
		name := pick(random, sortedKeys(well)...)
		switch n {
		case 8:
			w.out[c] = true
			w.release()
			c.Unplug()
			return "unplug"
		case 9:
			if w.hung[c.File(name)] != "" {
				return "nothing"
			}
			c.Hang(c.File(name))
			w.hung[c.File(name)] = well[name]
			return "hang " + name
		case 10:
			if w.hung[c.File(name)] == "" {
				c.Fail(c.File(name), pick(random, syscall.EIO, syscall.EACCES))
			}
			return "fail " + name
		default:
			if w.hung[c.File(name)] == "" {
				c.Set(map[string]string{name: pick(random, nonsense...)})
			}
			return "nonsense in " + name
		}
	}
}

func sortedKeys(m map[string]string) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

func (w *workshop) good(c *drmtest.Card) map[string]string {
	if c == w.amd {
		return drmtest.Navi31()
	}
	return w.arc
}

func (w *workshop) release() {
	for file, text := range w.hung {
		w.amd.Release(file, text)
	}
	clear(w.hung)
}

func (w *workshop) healAll() {
	w.nvidia.Heal()
	w.nvidia.Load()
	models := []fakenvml.GPU{fakenvml.RTX4090(), fakenvml.H100(), fakenvml.H100(), fakenvml.RTX4090()}
	for i, d := range w.nvidia.GPUs {
		d.Wake()
		d.SetProcesses()
		for _, key := range spoiltKeys {
			d.Set(key, models[i][key])
		}
	}
	w.release()
	for _, c := range []*drmtest.Card{w.amd, w.intel} {
		if w.out[c] {
			c.Plug()
			w.out[c] = false
		}
		c.Set(w.good(c))
	}
}

func (a *asked) randomFault(random *rand.Rand) string {
	address := pick(random, a.m.Addresses()...)
	var fault string
	switch random.IntN(6) {
	case 0:
		a.m.Heal()
		return "heal"
	case 1:
		fault = pick(random, "hang ", "lost ", "cut ", "lost-ends ", "lost-goes-on ") + address
	case 2:
		fault = pick(random, "die", "once", "no-pmon", "cut-xml", "silent", "slow 30", "slow 600")
	case 3:
		fault = pick(random, "fail 9 NVIDIA-SMI has failed", "fail 6 No devices were found",
			"fail 255 Failed to initialize NVML: Unknown Error", "fail 1 ")
	case 4:
		fault = spoils(pick(random, smiCommands...), pick(random, smiFaults...))
	default:
		a.m.Set(address, pick(random, "utilization.gpu", "power.draw", "temperature.gpu", "memory.used", "pstate"),
			pick(random, "[N/A]", "[Unknown Error]", "18446744073709551615", "-1", "99999 %", "7", "a sentence"))
		return "field"
	}
	a.m.Fault(fault)
	return fault
}

func (a *asked) healAll() {
	a.m.Heal()
	a.m.Write("query-gpu", string(fakesmi.File("blackwell-570", "query-gpu")))
}
