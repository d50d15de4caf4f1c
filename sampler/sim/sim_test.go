package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var start = time.Date(2026, time.March, 5, 9, 30, 0, 0, time.UTC)

// A clock is set by the test.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// newSource returns the first node of a profile.
func newSource(t testing.TB, profile string) (*Source, *clock) {
	t.Helper()
	nodes, c := newNodes(t, profile)
	return nodes[0], c
}

func newNodes(t testing.TB, profile string) ([]*Source, *clock) {
	t.Helper()
	c := &clock{start}
	nodes, err := Nodes(profile, c.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, s := range nodes {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return nodes, c
}

func read(t testing.TB, s *Source) *gpu.Snapshot {
	t.Helper()
	snap, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestUnknownProfiles(t *testing.T) {
	for _, profile := range []string{"", "rtx-5090", "fleet", "fleet:", "fleet:0", "fleet:-3", "fleet:4097", "fleet:ten", "rtx-4090:2"} {
		nodes, err := Nodes(profile, time.Now)
		advice, ok := errors.AsType[*gpu.Advice](err)
		if !ok || nodes != nil {
			t.Errorf("Nodes(%q) = %v, %v; want an advice", profile, nodes, err)
			continue
		}
		for _, want := range []string{"rtx-4090", "dgx-h100", "fleet:N", "4096"} {
			if !strings.Contains(advice.Try, want) {
				t.Errorf("Nodes(%q): %q does not name %q", profile, advice.Try, want)
			}
		}
	}
}

func TestReadAfterContextEnds(t *testing.T) {
	s, _ := newSource(t, "rtx-4090")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if snap, err := s.Read(ctx); !errors.Is(err, context.Canceled) || snap != nil {
		t.Errorf("Read = %v, %v; want the context's error alone", snap, err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if snap, err := s.Read(late); err != nil || len(snap.Devices) == 0 {
		t.Errorf("on a machine that is so busy that it is late already: %v", err)
	}
}

// What the products are known to report, and not to report.
func TestReadingsOfProducts(t *testing.T) {
	type quality = gpu.Quality
	readings := func(d *gpu.Device) map[string]quality {
		return map[string]quality{
			"fan count":          d.Fans.Count.Quality(),
			"fan commanded":      d.Fans.Commanded().Quality(),
			"memory temperature": d.Thermal.Memory.Quality(),
			"memory maximum":     d.Thermal.MemoryMax.Quality(),
			"target temperature": d.Thermal.Target.Quality(),
			"ecc":                d.Health.ECCMode.Quality(),
			"remapped rows":      d.Health.RemappedCorrectable.Quality(),
			"retired pages":      d.Health.RetiredDoubleBit.Quality(),
			"mig":                d.Modes.MIG.Quality(),
			"serial":             d.Serial.Quality(),
			"utilization":        d.Utilization.GPU.Quality(),
			"jpeg":               d.Utilization.JPEG.Quality(),
			"energy":             d.Power.Energy.Quality(),
		}
	}
	const none, good = gpu.NotSupported, gpu.Good
	tests := map[string]struct {
		profile string
		device  int
		want    map[string]quality
		display bool
	}{
		"GeForce": {"rtx-4090", 0, map[string]quality{
			"fan count": good, "fan commanded": good, "memory temperature": none, "memory maximum": none,
			"target temperature": good, "ecc": none, "remapped rows": none, "retired pages": none, "mig": none,
			"serial": none, "utilization": good, "jpeg": good, "energy": good}, true},
		"H100": {"dgx-h100", 0, map[string]quality{
			"fan count": none, "fan commanded": none, "memory temperature": good, "memory maximum": good,
			"target temperature": none, "ecc": good, "remapped rows": good, "retired pages": none, "mig": good,
			"serial": good, "utilization": good, "jpeg": good, "energy": good}, false},
		"H100 in MIG mode": {"dgx-h100", 5, map[string]quality{
			"fan count": none, "fan commanded": none, "memory temperature": good, "memory maximum": good,
			"target temperature": none, "ecc": good, "remapped rows": good, "retired pages": none, "mig": good,
			"serial": good, "utilization": none, "jpeg": none, "energy": good}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, _ := newSource(t, tt.profile)
			d := &read(t, s).Devices[tt.device]
			if got := readings(d); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("qualities = %v\nwant        %v", got, tt.want)
			}
			if active, ok := d.Modes.DisplayActive.Get(); !ok || active != tt.display {
				t.Errorf("display active = %v, want %v", d.Modes.DisplayActive, tt.display)
			}
		})
	}
}

// checkDevice checks for values that no device of that product can report.
func checkDevice(t *testing.T, d *gpu.Device, p *product, now time.Time) {
	t.Helper()
	if d.Source != gpu.SourceSimulated || !strings.HasPrefix(d.UUID, "GPU-") || d.Name != p.Name || d.PCI == "" {
		t.Fatalf("identity = %+v", d.Identity)
	}
	if d.Since.IsZero() || d.Since.After(now) {
		t.Fatalf("%s since %v, at %v", d.State, d.Since, now)
	}
	if d.State != gpu.StateOK {
		if !reflect.DeepEqual(d.Readings, gpu.Readings{}) || !d.SampledAt.IsZero() {
			t.Fatalf("%s, and has readings", d.State)
		}
		if d.Reason.What == "" || d.Reason.Try == "" {
			t.Fatalf("%s without a reason and advice: %+v", d.State, d.Reason)
		}
		return
	}
	hot, ok := d.Thermal.HotSpot.Get()
	if above := hot - d.Thermal.GPU.Or(0); ok != (p == rtx4090) || ok && (above < 0 || above > 18) {
		t.Fatalf("the hot spot is at %v, the sensor at %v", d.Thermal.HotSpot, d.Thermal.GPU)
	}
	within := func(what string, v, low, high float64) {
		t.Helper()
		if v < low || v > high {
			t.Fatalf("%v: %s = %v, not within %v and %v", now, what, v, low, high)
		}
	}
	within("utilization", float64(d.Utilization.GPU.Or(0)), 0, 100)
	within("memory utilization", float64(d.Utilization.Memory.Or(0)), 0, 100)
	within("encoder", float64(d.Utilization.Encoder.Or(0)), 0, 100)
	within("draw", float64(d.Power.Draw.Or(-1)), 0.8*p.Power.Rest, p.limit())
	within("temperature", float64(d.Thermal.GPU.Or(-1)), 26, float64(p.Always.Thermal.Slowdown.Or(0)))
	if left := d.Thermal.Slowdown.Or(0) - d.Thermal.GPU.Or(0); d.Thermal.Margin != gpu.Of(left) {
		t.Fatalf("%v: a margin of %v, where %v °C are left", now, d.Thermal.Margin, left)
	}
	within("memory temperature", float64(d.Thermal.Memory.Or(30)), 20, 95)
	within("graphics clock", float64(d.Clocks.Graphics.Or(-1)), p.Graphics.Idle, float64(p.Always.Clocks.MaxGraphics.Or(0)))
	within("memory clock", float64(d.Clocks.Memory.Or(-1)), p.MemoryClock.Idle, float64(p.Always.Clocks.MaxMemory.Or(0)))
	within("video clock", float64(d.Clocks.Video.Or(-1)), p.Video.Idle, float64(p.Always.Clocks.MaxVideo.Or(0)))
	for _, f := range d.Fans.Fans {
		if speed := f.Commanded.Or(-1); speed != 0 {
			within("fan", float64(speed), p.Fans.Min, 100)
			within("rpm", float64(f.RPM.Or(-1)), 0, p.Fans.RPM) // it may just have started
		} else if f.RPM.Or(-1) > gpu.RPM(p.Fans.Min/100*p.Fans.RPM) { // or just have stopped
			t.Fatalf("a fan told to stand turns at %v", f.RPM)
		}
	}
	m := d.Memory
	if m.Used.Or(0)+m.Free.Or(0)+m.Reserved.Or(0) != m.Total.Or(1) || m.Free.Or(0) > m.Total.Or(0) {
		t.Fatalf("memory does not add up: %+v", m)
	}
	checkProcesses(t, d, now)
}

func checkProcesses(t *testing.T, d *gpu.Device, now time.Time) {
	t.Helper()
	processes, ok := d.Processes.Get()
	if !ok || processes == nil {
		t.Fatalf("processes = %v", d.Processes)
	}
	var memory gpu.Bytes
	var sm gpu.Percent
	for i, p := range processes {
		memory += p.Memory.Or(0)
		sm += p.SM.Or(0)
		if i > 0 && p.SM.Or(0) > processes[i-1].SM.Or(0) {
			t.Fatalf("not busiest first: %+v", processes)
		}
		f := p.Facts
		if f.Exists == gpu.Of(false) { // of a dead process only the pid is known
			if f != (gpu.ProcessFacts{Exists: gpu.Of(false)}) || p.Memory.Or(0) == 0 || p.SM.Or(0) > 0 {
				t.Fatalf("dead: %+v", p)
			}
			continue
		}
		if c := f.Container.Or(gpu.Container{}); !f.Container.Present() || !f.Pod.Present() || !f.Unit.Present() || !f.Job.Present() ||
			!c.None() && (len(c.ID) != 64 || !c.Name.Present() || !c.Image.Present()) {
			t.Fatalf("%d belongs to %+v", p.PID, f)
		}
		if !f.Name.Present() || !f.User.Present() || !f.Program.Present() || !f.Command.Present() || f.CPU.Or(-1) < 0 || f.RSS.Or(0) == 0 {
			t.Fatalf("facts of %d = %+v", p.PID, f)
		}
		if begun := f.Started.Or(now.Add(1)); begun.After(now) || begun.Truncate(10*time.Millisecond) != begun {
			t.Fatalf("%d (%v) started %v, at %v", p.PID, f.Name, begun, now)
		}
	}
	if used := d.Memory.Used.Or(0); memory > used {
		t.Fatalf("processes hold %d of %d bytes used", memory, used)
	}
	if util := d.Utilization.GPU.Or(0); sm > util {
		t.Fatalf("processes have %v %% of %v %%", sm, util)
	}
}

func TestDaysStayWithinBounds(t *testing.T) {
	tests := []struct {
		profile    string
		over, step time.Duration
	}{
		{"rtx-4090", 3 * 24 * time.Hour, 61 * time.Second},
		{"dgx-h100", 3 * 24 * time.Hour, 127 * time.Second},
		{"fleet:128", 24 * time.Hour, 17 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.profile, func(t *testing.T) {
			nodes, c := newNodes(t, tt.profile)
			energy := map[string]gpu.Joules{}
			for ; c.t.Before(start.Add(tt.over)); c.t = c.t.Add(tt.step) {
				for _, s := range nodes {
					checkNode(t, s, c.t, energy)
				}
			}
		})
	}
}

// checkNode reads a node and checks for impossible values. Energy counters only grow.
func checkNode(t *testing.T, s *Source, now time.Time, energy map[string]gpu.Joules) {
	t.Helper()
	snap := read(t, s)
	if snap.Kind() != gpu.Simulated || snap.Time != now || len(snap.Drivers) != 1 || len(snap.Devices) > perNode {
		t.Fatalf("snapshot = %v, %v, %v, %d devices", snap.Source, snap.Time, snap.Drivers, len(snap.Devices))
	}
	pids := map[int]bool{}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		checkDevice(t, d, s.devices[i].product, now)
		if d.VendorIndex != gpu.Of(i) {
			t.Fatalf("device %d of %s has the index %v", i, s.Node(), d.VendorIndex)
		}
		if e, ok := d.Power.Energy.Get(); ok {
			if e <= energy[d.UUID] {
				t.Fatalf("energy went from %v to %v J", energy[d.UUID], e)
			}
			energy[d.UUID] = e
		}
		for _, p := range d.Processes.Or(nil) {
			if pids[p.PID] {
				t.Fatalf("two processes of %s have pid %d", s.Node(), p.PID)
			}
			pids[p.PID] = true
		}
	}
	checkHost(t, snap.Host, s)
}

// TestEncoderSessions expects one session while the encoder works, with a rate and a latency, and zeros at rest; none on a GPU in MIG mode.
func TestEncoderSessions(t *testing.T) {
	s, c := newSource(t, "rtx-4090")
	seen := map[int]int{}
	for range 12 * cycleSeconds / 60 {
		d := &read(t, s).Devices[0]
		sessions, ok := d.Encoding.Sessions.Get()
		working := 0
		if d.Utilization.Encoder.Or(0) > 0 {
			working = 1
		}
		pace, delay := float64(d.Encoding.FrameRate.Or(-1)), float64(d.Encoding.Latency.Or(-1))
		if !ok || sessions != working || (pace > 0) != (working > 0) || (delay > 0) != (working > 0) || pace < 0 || delay < 0 || pace > 400 {
			t.Fatalf("encoder at %v: %+v", d.Utilization.Encoder, d.Encoding)
		}
		seen[sessions]++
		c.t = c.t.Add(time.Minute)
	}
	if seen[0] == 0 || seen[1] == 0 {
		t.Errorf("sessions seen: %v, want with and without", seen)
	}
	parted, _ := newSource(t, "dgx-h100")
	if e := read(t, parted).Devices[5].Encoding; e.Sessions.Quality() != gpu.NotSupported || e.Latency.Quality() != gpu.NotSupported {
		t.Errorf("in MIG mode: %+v", e)
	}
}

func checkHost(t *testing.T, h *gpu.Host, s *Source) {
	t.Helper()
	if h.Hostname != s.Node() || h.Hostname == "" || len(h.Disks) == 0 || len(h.Networks) == 0 {
		t.Fatalf("host = %+v", h)
	}
	if h.MemoryUsed.Or(0)+h.MemoryAvailable.Or(0) != h.MemoryTotal.Or(1) || h.MemoryUsed.Or(0) > h.MemoryTotal.Or(0) {
		t.Fatalf("memory of the host does not add up: %v + %v of %v", h.MemoryUsed, h.MemoryAvailable, h.MemoryTotal)
	}
	if cpu := h.CPU.Or(-1); cpu < 0 || cpu > 100 {
		t.Fatalf("CPU = %v", h.CPU)
	}
	if load := h.Load15.Or(-1); load < 0 || load > float64(h.Cores.Or(0)) {
		t.Fatalf("load = %v on %v cores", h.Load15, h.Cores)
	}
}

func TestSameTimeSameReadings(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:24"} {
		left, right := newNodes(t, profile)
		bs, bt := newNodes(t, profile)
		for k, a := range left {
			right.t = start
			first := read(t, a)
			for i := range 40 {
				right.t = start.Add(time.Duration(i*i) * 37 * time.Second)
				bt.t = right.t
				if !reflect.DeepEqual(read(t, a), read(t, bs[k])) {
					t.Fatalf("%s: two sources differ at %v", profile, right.t)
				}
			}
			right.t = start
			if !reflect.DeepEqual(read(t, a), first) {
				t.Errorf("%s: the same moment reads differently after others were read", profile)
			}
		}
	}
}

// Cards that share a job work together, but none is a copy of another.
func TestCardsDiffer(t *testing.T) {
	s, c := newSource(t, "dgx-h100")
	c.t = c.t.Add(8*time.Minute + 20*time.Second)
	d := read(t, s).Devices
	for i := range 3 {
		a, b := &d[i], &d[i+1]
		if len(a.Processes.Or(nil)) == 0 || a.Processes.Or(nil)[0].Facts.Command != b.Processes.Or(nil)[0].Facts.Command {
			t.Errorf("cards %d and %d do not share their work", i, i+1)
		}
		if a.Power.Draw == b.Power.Draw || a.Power.Energy == b.Power.Energy {
			t.Errorf("cards %d and %d both draw %v, %v J", i, i+1, a.Power.Draw, a.Power.Energy)
		}
	}
}

func TestSnapshotsShareNothing(t *testing.T) {
	s, _ := newSource(t, "dgx-h100")
	a, b := read(t, s), read(t, s)
	want := read(t, s)
	for i := range a.Devices {
		a.Devices[i].UUID = "changed"
		for k := range a.Devices[i].Instances {
			a.Devices[i].Instances[k].UUID = "changed"
		}
		clear(a.Devices[i].Processes.Or(nil))
	}
	a.Host.Disks[0].Device = "changed"
	a.Drivers[0].Source = "changed"
	if !reflect.DeepEqual(b, want) || !reflect.DeepEqual(read(t, s), want) {
		t.Error("changing one snapshot changes another")
	}
}

func TestUUIDsAreStable(t *testing.T) {
	small, _ := newNodes(t, "fleet:9")
	large, c := newNodes(t, "fleet:4096")
	c.t = c.t.Add(99 * 24 * time.Hour)
	for n, s := range small {
		devices := read(t, large[n]).Devices
		for i, d := range read(t, s).Devices {
			if d.UUID != devices[i].UUID || s.Node() != large[n].Node() {
				t.Errorf("device %d is %s on %s in a small fleet, %s on %s in a large one", i, d.UUID, s.Node(), devices[i].UUID, large[n].Node())
			}
		}
	}
	seen := map[string]bool{}
	products := map[string]bool{}
	hosts := map[gpu.Reading[gpu.Bytes]]bool{}
	var names []string
	for _, s := range large {
		names = append(names, s.Node())
		snap := read(t, s)
		hosts[snap.Host.Disks[0].Used] = true
		for _, d := range snap.Devices {
			seen[d.UUID] = true
			products[d.Name] = true
		}
	}
	if len(seen) != MaxFleet || len(products) < 4 || len(hosts) < len(large)/2 {
		t.Errorf("%d UUIDs, products %v, %d different hosts", len(seen), products, len(hosts))
	}
	if len(names) != MaxFleet/perNode || names[0] != "node-001" || names[511] != "node-512" || !slices.IsSorted(names) {
		t.Errorf("nodes %v", names)
	}
	if len(small) != 2 || len(small[0].devices) != 8 || len(small[1].devices) != 1 {
		t.Errorf("9 GPUs are on %d nodes", len(small))
	}
}

// Every state that a page can show comes up on the DGX's last card within half an hour, whenever one starts to watch.
func TestDGXShowsEveryState(t *testing.T) {
	for offset := time.Duration(0); offset < cycle; offset += 7 * time.Minute {
		s, c := newSource(t, "dgx-h100")
		seen := map[gpu.State]bool{}
		var last gpu.Device
		c.t = start.Add(offset)
		for end := c.t.Add(cycle); c.t.Before(end); c.t = c.t.Add(5 * time.Second) {
			d := read(t, s).Devices[7]
			seen[d.State] = true
			if last.State != "" && last.State != d.State && (d.Since.Before(last.Since) || d.Since.After(c.t) || c.t.Sub(d.Since) > 5*time.Second) {
				t.Fatalf("became %s at %v, says since %v", d.State, c.t, d.Since)
			}
			last = d
		}
		for _, state := range []gpu.State{gpu.StateOK, gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep} {
			if !seen[state] {
				t.Errorf("from %v on: never %s", offset, state)
			}
		}
	}
}

// Within 90 minutes everything else has been seen: a roster of two jobs plays each of them in any three cycles.
func TestDGXShowsEverythingElse(t *testing.T) {
	for hour := range 6 {
		t.Run(fmt.Sprint("from hour ", hour), func(t *testing.T) { showsEverything(t, time.Duration(hour)*time.Hour) })
	}
}

func showsEverything(t *testing.T, offset time.Duration) {
	s, c := newSource(t, "dgx-h100")
	c.t = start.Add(offset)
	want := map[string]bool{"power cap": false, "heat": false, "idle": false, "held awake": false, "instances": false, "errors corrected": false,
		"container": false, "pod": false, "job": false, "unit": false, "memory of the dead": false}
	for ; c.t.Before(start.Add(offset + 3*cycle)); c.t = c.t.Add(20 * time.Second) {
		for _, d := range read(t, s).Devices {
			reasons := d.Clocks.EventReasons.Or(0)
			note := func(what string, seen bool) { want[what] = want[what] || seen }
			note("power cap", reasons&gpu.ReasonPowerCap != 0)
			note("heat", reasons&gpu.ReasonThermalSlowdown != 0)
			note("idle", reasons&gpu.ReasonIdle != 0 && len(d.Processes.Or(nil)) == 0)
			note("held awake", d.Utilization.GPU == gpu.Of[gpu.Percent](0) && len(d.Processes.Or(nil)) > 0 && d.Power.Draw.Or(0) > 1.5*gpu.Watts(h100.Power.Rest))
			note("instances", len(d.Instances) == 3)
			note("errors corrected", d.Health.CorrectedVolatile.Or(0) > 0)
			for _, p := range d.Processes.Or(nil) {
				f := &p.Facts
				note("container", !f.Container.Or(gpu.Container{}).None())
				note("pod", f.Pod.Or(gpu.Pod{}).Name.Present())
				note("job", !f.Job.Or(gpu.Job{}).None())
				note("unit", f.Unit.Or(gpu.Unit{}).Name != "")
				note("memory of the dead", !f.Exists.Or(true))
			}
		}
	}
	for what, seen := range want {
		if !seen {
			t.Errorf("never seen: %s", what)
		}
	}
}

// Cards that share a Slurm job are in the same one, and the next job has its own number.
func TestSlurmJobs(t *testing.T) {
	s, c := newSource(t, "dgx-h100")
	jobs := map[int]bool{}
	for ; c.t.Before(start.Add(12 * time.Hour)); c.t = c.t.Add(10 * time.Minute) {
		var ids []int
		for _, d := range read(t, s).Devices[:4] {
			for _, p := range d.Processes.Or(nil) {
				if j := p.Facts.Job.Or(gpu.Job{}); !j.None() {
					ids = append(ids, j.ID)
				}
			}
		}
		for _, id := range ids {
			if id != ids[0] || len(ids) != 4 {
				t.Fatalf("jobs %v on four cards that train together", ids)
			}
			jobs[id] = true
		}
	}
	if len(jobs) < 6 {
		t.Errorf("%d jobs in twelve hours", len(jobs))
	}
}

func TestInstances(t *testing.T) {
	s, c := newSource(t, "dgx-h100")
	both, busy := false, false
	for ; c.t.Before(start.Add(cycle)); c.t = c.t.Add(time.Minute) {
		d := read(t, s).Devices[5]
		held := map[gpu.Reading[int]]gpu.Bytes{}
		for _, p := range d.Processes.Or(nil) {
			if p.SM.Quality() != gpu.NotSupported {
				t.Fatalf("SM share in MIG mode = %v", p.SM)
			}
			held[p.GPUInstance] += p.Memory.Or(0)
		}
		both = both || len(held) == 2
		var total gpu.Bytes
		for _, in := range d.Instances {
			used, size := in.Memory.Used.Or(0), in.Memory.Total.Or(0)
			if used < held[in.GPUInstance] || used > held[in.GPUInstance]+32*mib || used+in.Memory.Free.Or(0) != size {
				t.Fatalf("%s: %v used, %d held", in.Name, in.Memory.Used, held[in.GPUInstance])
			}
			runs := 0
			if held[in.GPUInstance] > 0 {
				runs = 1
			}
			if in.Processes != gpu.Of(runs) || runs == 0 && in.Engine != gpu.Of[gpu.Percent](0) || !in.SM.Present() {
				t.Fatalf("%s has %v processes, want %d; engines %v, SMs %v", in.Name, in.Processes, runs, in.Engine, in.SM)
			}
			busy = busy || in.Engine.Or(0) > 50
			delete(held, in.GPUInstance)
			total += size
		}
		if len(held) > 0 || total > d.Memory.Total.Or(0) {
			t.Fatalf("processes outside the instances: %v; %d bytes in all", held, total)
		}
	}
	if !both || !busy {
		t.Errorf("two instances in use: %v, one busy: %v", both, busy)
	}
	d := read(t, s).Devices[5]
	if d.Modes.Instances != gpu.Of(3) || d.Instances[0].Profile != gpu.Of("3g.40gb") || d.NVLink.Count != gpu.Of(18) || len(d.NVLink.Links) != 18 {
		t.Errorf("%v instances, the first %v; %v links", d.Modes.Instances, d.Instances[0].Profile, d.NVLink.Count)
	}
}

// A process keeps its pid, start and command while it lives, and no other process gets that pid on the same day.
func TestProcessesKeepTheirIdentity(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100"} {
		s, c := newSource(t, profile)
		type life struct {
			facts gpu.ProcessFacts
			last  time.Time
		}
		lives := map[int]life{}
		for ; c.t.Before(start.Add(24 * time.Hour)); c.t = c.t.Add(30 * time.Second) {
			for _, d := range read(t, s).Devices {
				for _, p := range d.Processes.Or(nil) {
					was, known := lives[p.PID]
					if p.Facts.Exists == gpu.Of(false) {
						if !known || was.last.After(c.t) {
							t.Fatalf("%s: pid %d is dead, and was never alive", profile, p.PID)
						}
						continue
					}
					if known && (was.facts.Container != p.Facts.Container || was.facts.Pod != p.Facts.Pod || was.facts.Unit != p.Facts.Unit || was.facts.Job != p.Facts.Job) {
						t.Fatalf("%s: pid %d was in %+v, is in %+v", profile, p.PID, was.facts, p.Facts)
					}
					if known && (was.facts.Started != p.Facts.Started || was.facts.Command != p.Facts.Command) {
						t.Fatalf("%s: pid %d was %v, is %v", profile, p.PID, was.facts, p.Facts)
					}
					if known && c.t.Sub(was.last) > cycle {
						t.Fatalf("%s: pid %d came back after %v", profile, p.PID, c.t.Sub(was.last))
					}
					lives[p.PID] = life{p.Facts, c.t}
				}
			}
		}
		if len(lives) < 30 {
			t.Errorf("%s: only %d processes in a day", profile, len(lives))
		}
	}
}

func TestEnergyIsTheIntegralOfPower(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:2"} {
		s, c := newSource(t, profile)
		begin := read(t, s).Devices[0]
		const step = time.Second / 2
		var joules float64
		last := float64(begin.Power.Draw.Or(0))
		for range int(2 * cycle / step) { // across a change of jobs
			c.t = c.t.Add(step)
			now := milli(float64(s.devices[0].now(c.t).power))
			joules += (last + now) / 2 * step.Seconds()
			last = now
		}
		end := read(t, s).Devices[0]
		got := float64(end.Power.Energy.Or(0) - begin.Power.Energy.Or(0))
		if math.Abs(got-joules) > 0.001*joules {
			t.Errorf("%s: the counter grew by %.0f J, power adds up to %.0f J", profile, got, joules)
		}
	}
}

func (d *device) now(t time.Time) sample {
	m := d.moment(t)
	return m.tape.sampleAt(m.second)
}

func TestTrafficIsTheIntegralOfItsRate(t *testing.T) {
	s, c := newSource(t, "dgx-h100")
	begin := read(t, s).Host.Networks[1]
	var sum float64
	for range 900 {
		sum += float64(read(t, s).Host.Networks[1].Received.Or(0))
		c.t = c.t.Add(time.Second)
	}
	got := float64(read(t, s).Host.Networks[1].ReceivedTotal.Or(0) - begin.ReceivedTotal.Or(0))
	if math.Abs(got-sum) > 0.01*sum {
		t.Errorf("received %.0f bytes, the rate adds up to %.0f", got, sum)
	}
}

func TestBootDependsOnTheDayAlone(t *testing.T) {
	if a, b := bootBefore(start), bootBefore(start.Add(3*time.Hour)); a != b {
		t.Errorf("booted %v or %v", a, b)
	}
	if up := start.Sub(bootBefore(start)); up < 16*24*time.Hour || up > 18*24*time.Hour {
		t.Errorf("up for %v", up)
	}
}

func TestShuffledIsAPermutationThatChanges(t *testing.T) {
	orders := map[order]bool{}
	for round := range int64(50) {
		order := shuffled(maxRoster, 7, round-25)
		orders[order] = true
		sorted := slices.Sorted(slices.Values(order[:]))
		if !slices.Equal(sorted, []uint8{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Fatalf("round %d: %v", round, order)
		}
	}
	if len(orders) < 40 {
		t.Errorf("only %d orders in 50 rounds", len(orders))
	}
}

func BenchmarkReadFleet1000(b *testing.B) {
	nodes, c := newNodes(b, "fleet:1000")
	b.ReportAllocs()
	for b.Loop() {
		c.t = c.t.Add(5 * time.Second)
		for _, s := range nodes {
			read(b, s)
		}
	}
}

func BenchmarkNewFleet1000(b *testing.B) {
	for b.Loop() {
		if _, err := Nodes("fleet:1000", time.Now); err != nil {
			b.Fatal(err)
		}
	}
}

// A demonstration begins with a past that is what reading the machine then would have given, at the same point of its story whenever it begins.
// No other machine has one.
func TestEarlier(t *testing.T) {
	for _, ahead := range []time.Duration{0, 7 * time.Minute, 29*time.Minute + 59*time.Second} {
		c := &clock{start.Add(ahead)}
		nodes, err := Nodes("demo", c.now)
		if err != nil {
			t.Fatal(err)
		}
		begins, n := c.t, 0
		heat := map[string]gpu.Celsius{}
		for past := range nodes[0].Earlier(30 * time.Second) {
			n++
			c.t = past.Time
			if then := read(t, nodes[0]); !reflect.DeepEqual(then, past) {
				t.Fatalf("%v before: it reads %+v, and tells of %+v", begins.Sub(past.Time), then, past)
			}
			for _, d := range past.Devices {
				if d.Source != gpu.SourceSimulated {
					t.Errorf("a device is from %q", d.Source)
				}
				for _, p := range d.Processes.Or(nil) {
					heat[p.Facts.User.Or("")] = max(heat[p.Facts.User.Or("")], d.Thermal.GPU.Or(0))
				}
			}
		}
		if n != 30 || len(heat) != 2 || heat["anna"] > 75 || heat["ben"] < 88 {
			t.Errorf("begun at %v, it has %d readings, with %v", begins, n, heat)
		}
		c.t = begins
		if now := read(t, nodes[0]); now.Devices[2].Clocks.EventReasons.Or(0)&gpu.ReasonThermalSlowdown == 0 {
			t.Errorf("begun at %v, GPU 2 is slowed by %v", begins, now.Devices[2].Clocks.EventReasons)
		}
	}
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:8"} {
		s, _ := newSource(t, profile)
		for range s.Earlier(time.Second) {
			t.Fatalf("%s has a past", profile)
		}
	}
}
