package sampler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// fakeSource answers what its function says, and counts.
type fakeSource struct {
	name   string
	mu     sync.Mutex
	answer func(ctx context.Context) (*gpu.Snapshot, error)
	reads  []time.Time
	closed bool
}

func (f *fakeSource) Name() string { return f.name }

func (f *fakeSource) Read(ctx context.Context) (*gpu.Snapshot, error) {
	f.mu.Lock()
	f.reads = append(f.reads, time.Now())
	answer := f.answer
	f.mu.Unlock()
	return answer(ctx)
}

func (f *fakeSource) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *fakeSource) set(answer func(ctx context.Context) (*gpu.Snapshot, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func (f *fakeSource) readTimes() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time{}, f.reads...)
}

func device(uuid, pci string) gpu.Device {
	d := gpu.Device{
		Identity: gpu.Identity{UUID: uuid, PCI: pci, Name: "Card " + uuid, Source: gpu.SourceNVML, Vendor: gpu.NVIDIA},
		State:    gpu.StateOK,
	}
	d.Utilization.GPU = gpu.Of[gpu.Percent](0)
	return d
}

func answers(devices ...gpu.Device) func(context.Context) (*gpu.Snapshot, error) {
	return func(context.Context) (*gpu.Snapshot, error) {
		return &gpu.Snapshot{Source: gpu.SourceNVML, Devices: append([]gpu.Device{}, devices...)}, nil
	}
}

func fails(err error) func(context.Context) (*gpu.Snapshot, error) {
	return func(context.Context) (*gpu.Snapshot, error) { return nil, err }
}

// published collects what a sampler publishes.
type published struct {
	mu    sync.Mutex
	snaps []*gpu.Snapshot
}

func (p *published) add(s *gpu.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snaps = append(p.snaps, s)
}

func (p *published) all() []*gpu.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*gpu.Snapshot{}, p.snaps...)
}

func (p *published) last() *gpu.Snapshot {
	all := p.all()
	return all[len(all)-1]
}

// start runs a sampler with a 5 s interval inside a synctest bubble until the
// test ends.
func start(t *testing.T, host Host, sources ...Source) (*Sampler, *published) {
	t.Helper()
	return startEvery(t, 5*time.Second, host, sources...)
}

func startEvery(t *testing.T, interval time.Duration, host Host, sources ...Source) (*Sampler, *published) {
	t.Helper()
	out := &published{}
	s := New(Config{
		Node: "n1", Interval: interval, Deadline: 2 * time.Second,
		Sources: sources, Host: host, Publish: out.add, Clock: clock.Program(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s, out
}

func TestReadsOnTheGridOfTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvml", answer: answers(device("b", "0000:02:00.0"), device("a", "0000:01:00.0"))}
		begun := time.Now()
		_, out := start(t, nil, src)
		time.Sleep(11 * time.Second)
		var reads []time.Duration
		for _, s := range out.all() {
			reads = append(reads, s.Time.Sub(begun))
		}
		if diff := cmp.Diff([]time.Duration{0, 5 * time.Second, 10 * time.Second}, reads); diff != "" {
			t.Errorf("readings (-want +got):\n%s", diff)
		}
		last := out.last()
		if last.Seq != 3 || last.Node != "n1" || last.Source != "nvml" || last.Status() != gpu.StatusOK {
			t.Errorf("got seq %d node %q source %q status %q", last.Seq, last.Node, last.Source, last.Status())
		}
		if last.Devices[0].UUID != "a" || last.Devices[0].Index != 0 || last.Devices[1].Index != 1 || last.Devices[1].Node != "n1" {
			t.Errorf("devices are not in the order of their PCI addresses: %+v", last.Devices)
		}
	})
}

func TestFollowingLeavesOutWhatHasPassed(t *testing.T) {
	zero := time.Unix(1000, 0)
	for _, tt := range []struct{ now, want time.Duration }{
		{0, 5 * time.Second},
		{4 * time.Second, 5 * time.Second},
		{5 * time.Second, 5 * time.Second},
		{6 * time.Second, 10 * time.Second},
		{time.Hour + time.Second, time.Hour + 5*time.Second},
	} {
		if got := following(zero, 5*time.Second, zero.Add(tt.now)); got.Sub(zero) != tt.want {
			t.Errorf("following at %v = %v, want %v", tt.now, got.Sub(zero), tt.want)
		}
	}
}

func TestRefreshIsSharedPacedAndBegunAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvml", answer: answers(device("a", ""))}
		s, out := start(t, nil, src)
		time.Sleep(time.Second) // the first reading was at 0

		asked := time.Now()
		refresh := func() *gpu.Snapshot {
			snap, err := s.Refresh(t.Context())
			if err != nil {
				t.Errorf("Refresh: %v", err)
			}
			return snap
		}
		first := refresh()
		if first.Time.Before(asked) || time.Since(asked) > 0 {
			t.Errorf("the first reading on demand began at %v, %v after it was asked for", first.Time, time.Since(asked))
		}
		asked = time.Now()
		var wg sync.WaitGroup
		snaps := make([]*gpu.Snapshot, 50)
		for i := range snaps {
			wg.Go(func() { snaps[i] = refresh() })
		}
		wg.Wait()
		for _, snap := range snaps {
			if snap != snaps[0] {
				t.Fatal("those who ask at the same time don't share a reading")
			}
		}
		if took := snaps[0].Time.Sub(asked); took != pace {
			t.Errorf("the next reading on demand began %v later, want %v", took, pace)
		}
		if got := len(src.readTimes()); got != 3 {
			t.Errorf("%d readings, want 3", got)
		}
		if got := len(out.all()); got != 1 {
			t.Errorf("%d snapshots published, want only the periodic one", got)
		}
	})
}

// Two readings are at least 250 ms apart, whoever asks for them.
func TestReadingsOnDemandAndTicksKeepOnePace(t *testing.T) {
	for interval, slow := range map[time.Duration]time.Duration{
		250 * time.Millisecond: 0, 300 * time.Millisecond: 0, 350 * time.Millisecond: 90 * time.Millisecond, time.Second: 200 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &fakeSource{name: "nvml"}
			src.answer = func(ctx context.Context) (*gpu.Snapshot, error) {
				select {
				case <-time.After(slow):
				case <-ctx.Done():
				}
				return answers(device("a", ""))(ctx)
			}
			s, out := startEvery(t, interval, nil, src)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 33 * time.Millisecond)
					for ctx.Err() == nil {
						_, _ = s.Refresh(ctx) // the last one is cut short
					}
				})
			}
			wg.Wait()
			times := src.readTimes()
			for i := range times[1:] {
				if apart := times[i+1].Sub(times[i]); apart < pace {
					t.Fatalf("with an interval of %v, two readings are %v apart", interval, apart)
				}
			}
			if len(times) < 35 {
				t.Errorf("with an interval of %v, only %d readings in 10 s", interval, len(times))
			}
			if n, want := len(out.all()), int(10*time.Second/(interval+pace)); n < want {
				t.Errorf("with an interval of %v, only %d of them were published in 10 s, want %d", interval, n, want)
			}
		})
	}
}

func TestRefreshAfterTheEndSaysSo(t *testing.T) {
	s := New(Config{Interval: time.Second, Clock: clock.Program(), Publish: func(*gpu.Snapshot) {}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Refresh(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Refresh = %v, want ErrStopped", err)
	}
}

func TestNoDriverThenOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		advice := &gpu.Advice{What: "no library", Try: "install it", Err: gpu.ErrNoDriver}
		src := &fakeSource{name: "nvml", answer: fails(fmt.Errorf("open: %w", advice))}
		begun := time.Now()
		_, out := start(t, nil, src)
		synctest.Wait()
		snap := out.last()
		if snap.Status() != gpu.StatusNoGPU || len(snap.Failures) != 1 || snap.Failures[0].Advice.What != "no library" || snap.Source != "nvml" {
			t.Fatalf("got %s %+v", snap.Status(), snap.Failures)
		}
		time.Sleep(5 * time.Minute)
		// Tries are at ticks: the back-off only leaves ticks out.
		times := src.readTimes()
		for i := 1; i < len(times); i++ {
			if gap := times[i].Sub(times[i-1]); gap > lastRetry {
				t.Errorf("try %d came after %v, want %v at most", i, gap, lastRetry)
			}
		}
		if n := len(times); n > 14 {
			t.Errorf("%d tries in 5 minutes: that is no back-off", n)
		}
		if got := out.last().Failures[0].Since; !got.Equal(begun) {
			t.Errorf("failed since %v, want %v", got, begun)
		}
		src.set(answers(device("a", "")))
		time.Sleep(lastRetry + 5*time.Second)
		if got := out.last(); got.Status() != gpu.StatusOK || len(got.Failures) != 0 {
			t.Errorf("after the driver appeared: %s %+v", got.Status(), got.Failures)
		}
	})
}

func TestALongIntervalDoesNotDelayARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvml", answer: fails(&gpu.Advice{What: "no library", Err: gpu.ErrNoDriver})}
		out := &published{}
		s := New(Config{Clock: clock.Program(), Node: "n", Interval: time.Hour, Sources: []Source{src}, Publish: out.add, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(3 * time.Minute)
		src.set(answers(device("a", "")))
		time.Sleep(lastRetry)
		if got := out.last().Status(); got != gpu.StatusOK {
			t.Errorf("%v after the driver appeared: %s", lastRetry, got)
		}
		n := len(out.all())
		time.Sleep(59 * time.Minute)
		if got := len(out.all()); got > n+1 {
			t.Errorf("%d readings in an hour with an interval of one", got-n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestTwoDevicesOfOneUUIDAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvml", answer: answers(device("a", "0000:01:00.0"), device("a", "0000:02:00.0"))}
		_, out := start(t, nil, src)
		time.Sleep(11 * time.Second)
		var got []string
		for _, d := range out.last().Devices {
			got = append(got, fmt.Sprintf("%d %s %s", d.Index, d.UUID, d.State))
		}
		if diff := cmp.Diff([]string{"0 a ok", "1 PCI-0000:02:00.0 ok"}, got); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	})
}

func TestVanishedDevicesStayAndKeepTheirIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := device("a", "0000:01:00.0"), device("b", "0000:02:00.0")
		src := &fakeSource{name: "nvml", answer: answers(a, b)}
		_, out := start(t, nil, src)
		time.Sleep(time.Second)
		src.set(answers(b, device("c", "0000:00:00.0")))
		gone := time.Now().Add(4 * time.Second)
		time.Sleep(10 * time.Second)

		snap := out.last()
		var got []string
		for _, d := range snap.Devices {
			got = append(got, fmt.Sprintf("%d %s %s", d.Index, d.UUID, d.State))
		}
		if diff := cmp.Diff([]string{"0 a lost", "1 b ok", "2 c ok"}, got); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
		lost := snap.Devices[0]
		if !lost.Since.Equal(gone) || lost.Utilization.GPU.Present() || lost.Reason.IsZero() || lost.Name != "Card a" {
			t.Errorf("the lost device: since %v (want %v), %+v", lost.Since, gone, lost)
		}
		if snap.Status() != gpu.StatusDegraded {
			t.Errorf("status %s, want degraded", snap.Status())
		}
		src.set(answers(a, b))
		time.Sleep(5 * time.Second)
		if d := out.last().Devices[0]; d.State != gpu.StateOK || d.Index != 0 || !d.Utilization.GPU.Present() {
			t.Errorf("a came back as %+v", d)
		}
	})
}

func TestAFailedSourceLeavesItsDevicesNotAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvml", answer: answers(device("a", ""))}
		other := device("x", "")
		other.Source = gpu.SourceAMD
		amd := &fakeSource{name: "amdgpu", answer: answers(other)}
		_, out := start(t, nil, src, amd)
		time.Sleep(time.Second)
		if got := out.last().Source; got != gpu.SourceMixed {
			t.Errorf("source %q, want mixed", got)
		}
		src.set(fails(&gpu.Advice{What: "driver unloaded", Try: "load it"}))
		time.Sleep(10 * time.Second)
		snap := out.last()
		if d := snap.Devices[0]; d.State != gpu.StateNotAnswering || d.Reason.What != "driver unloaded" || !d.Since.Equal(snap.Failures[0].Since) {
			t.Errorf("got %s %+v since %v", d.State, d.Reason, d.Since)
		}
		if d := snap.Devices[1]; d.State != gpu.StateOK {
			t.Errorf("the other source's device is %s", d.State)
		}
	})
}

func TestAnEmptyListIsAFailureWithAdvice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out := start(t, nil, &fakeSource{name: "nvml", answer: answers()})
		synctest.Wait()
		snap := out.last()
		if len(snap.Failures) != 1 || !errors.Is(&snap.Failures[0].Advice, gpu.ErrNoDevices) {
			t.Errorf("got %+v", snap.Failures)
		}
	})
}

func TestASourceThatNeverComesBackHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stuck := &fakeSource{name: "nvml"}
		stuck.set(answers(device("a", "")))
		fine := device("x", "")
		fine.Source = gpu.SourceAMD
		other := &fakeSource{name: "amdgpu", answer: answers(fine)}
		_, out := start(t, nil, stuck, other)
		time.Sleep(time.Second)
		stuck.set(func(context.Context) (*gpu.Snapshot, error) {
			<-release
			return &gpu.Snapshot{Devices: []gpu.Device{device("stale", "")}}, nil
		})
		time.Sleep(60 * time.Second)
		snap := out.last()
		if len(snap.Devices) != 2 || snap.Devices[0].State != gpu.StateNotAnswering || snap.Devices[1].State != gpu.StateOK {
			t.Fatalf("devices: %+v", snap.Devices)
		}
		if !errors.Is(&snap.Failures[0].Advice, gpu.ErrNotAnswering) {
			t.Errorf("failure: %+v", snap.Failures[0])
		}
		if n := len(stuck.readTimes()); n != 2 {
			t.Errorf("the stuck source was called %d times, want 2: no second call while one hangs", n)
		}
		stuck.set(answers(device("a", "")))
		close(release)
		time.Sleep(lastRetry + 5*time.Second)
		snap = out.last()
		if snap.Status() != gpu.StatusOK || len(snap.Devices) != 2 {
			t.Errorf("after it came back: %s, %d devices (what came too late must be dropped)", snap.Status(), len(snap.Devices))
		}
	})
}

// If a source did not even get to start in time, as when all CPUs are busy, the failure says so.
func TestASourceThatHadNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out := start(t, nil, &fakeSource{name: "sim", answer: func(context.Context) (*gpu.Snapshot, error) {
			return nil, fmt.Errorf("reading: %w", context.DeadlineExceeded)
		}})
		synctest.Wait()
		snap := out.last()
		if len(snap.Failures) != 1 || !errors.Is(&snap.Failures[0].Advice, gpu.ErrSlow) || !strings.Contains(snap.Failures[0].Advice.Text(), "processors") {
			t.Errorf("%+v", snap.Failures)
		}
	})
}

func TestTheEndDoesNotWaitForAHangingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		src := &fakeSource{name: "nvml", answer: func(context.Context) (*gpu.Snapshot, error) {
			<-release
			return nil, errors.New("too late")
		}}
		out := &published{}
		s := New(Config{Clock: clock.Program(), Node: "n", Interval: time.Second, Sources: []Source{src}, Publish: out.add, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		stopped := time.Now()
		cancel()
		if err := <-done; err != nil || time.Since(stopped) > 0 {
			t.Errorf("Run ended with %v after %v", err, time.Since(stopped))
		}
		if len(out.all()) != 0 {
			t.Error("a reading that was broken off was published")
		}
		if !src.closed {
			t.Error("the source was not closed")
		}
	})
}

// fakeHost knows one process by name.
type fakeHost struct {
	hang chan struct{} // non-nil: Describe waits for it
	err  error
}

func (h *fakeHost) Read(context.Context) (gpu.Host, error) {
	return gpu.Host{Hostname: "h", CPU: gpu.Of[gpu.Percent](0)}, h.err
}

func (h *fakeHost) Describe(_ context.Context, processes []gpu.Process) {
	if h.hang != nil {
		<-h.hang
	}
	for i := range processes {
		processes[i].Facts.Name = gpu.Of("python")
	}
}

func withProcess(d gpu.Device) gpu.Device {
	d.Processes = gpu.Of([]gpu.Process{{PID: 7}})
	return d
}

func TestHostDescribesACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withProcess(device("a", ""))
		_, out := start(t, &fakeHost{err: errors.New("no disks")}, &fakeSource{name: "nvml", answer: answers(d)})
		synctest.Wait()
		snap := out.last()
		if got := snap.Devices[0].Processes.Or(nil)[0].Facts.Name.String(); got != "python" || snap.Host.Hostname != "h" {
			t.Errorf("name %q, host %+v", got, snap.Host)
		}
		if d.Processes.Or(nil)[0].Facts.Name.Present() {
			t.Error("what the source returned was changed")
		}
	})
}

// countingHost counts how often it is asked, and about which processes.
type countingHost struct {
	mu        sync.Mutex
	reads     int
	described map[int]int
}

func (h *countingHost) Read(context.Context) (gpu.Host, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	return gpu.Host{Load1: gpu.Of(float64(h.reads))}, nil
}

func (h *countingHost) Describe(_ context.Context, processes []gpu.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range processes {
		h.described[processes[i].PID]++
		processes[i].Facts.Name = gpu.Of(fmt.Sprint(processes[i].PID, " of ", h.reads))
	}
}

// counts returns the readings of the machine and of one process since the last call.
func (h *countingHost) counts(pid int) (reads, described int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.reads, h.described = 0, map[int]int{} }()
	return h.reads, h.described[pid]
}

// The machine and its processes are read at their own pace, and say when they were read.
func TestTheHostIsReadOnceASecond(t *testing.T) {
	for interval, want := range map[time.Duration]int{250 * time.Millisecond: 10, 500 * time.Millisecond: 10, 2 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			host := &countingHost{described: map[int]int{}}
			src := &fakeSource{name: "nvml", answer: answers(withProcess(device("a", "")), withProcess(device("b", "")))}
			_, out := startEvery(t, interval, host, src)
			time.Sleep(interval / 2)
			first, _ := host.counts(7)
			time.Sleep(10 * time.Second)
			if reads, described := host.counts(7); first != 1 || reads != want || described != want {
				t.Errorf("every %v: %d readings at the start, then %d of the machine and %d of a process on two devices in 10 s, want %d", interval, first, reads, described, want)
			}
			all := out.all()
			if want := int(10*time.Second/interval) + 1; len(all) != want {
				t.Errorf("%d readings, want %d", len(all), want)
			}
			for i, snap := range all {
				if snap.Host == nil {
					t.Fatalf("reading %d has no host", i)
				}
				age := snap.Time.Sub(snap.Host.SampledAt)
				if age < 0 || age >= time.Second || age != 0 && i > 0 && snap.Host.SampledAt != all[i-1].Host.SampledAt {
					t.Errorf("every %v: reading %d has a host that is %v old", interval, i, age)
				}
				for _, d := range snap.Devices {
					if name := d.Processes.Or(nil)[0].Facts.Name.String(); !strings.HasPrefix(name, "7 of ") {
						t.Errorf("the process is %q", name)
					}
				}
			}
		})
	}
}

func TestBetweenTwoReadingsOfTheHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := func(pids ...int) func(context.Context) (*gpu.Snapshot, error) {
			d := device("a", "")
			var ps []gpu.Process
			for _, pid := range pids {
				ps = append(ps, gpu.Process{PID: pid})
			}
			d.Processes = gpu.Of(ps)
			return answers(d)
		}
		host := &countingHost{described: map[int]int{}}
		src := &fakeSource{name: "nvml", answer: running(7)}
		s, out := startEvery(t, 250*time.Millisecond, host, src)
		step := func(pids ...int) {
			t.Helper()
			src.set(running(pids...))
			time.Sleep(250 * time.Millisecond)
			synctest.Wait()
		}
		synctest.Wait()
		host.counts(0)
		step(7, 8)
		for _, p := range out.last().Devices[0].Processes.Or(nil) {
			if !p.Facts.Name.Present() {
				t.Errorf("process %d has no name", p.PID)
			}
		}
		if reads, described := host.counts(8); reads != 0 || described != 1 {
			t.Errorf("%d readings, and the new process was described %d times", reads, described)
		}
		step(8)
		step(7, 8) // it may be another one
		if reads, described := host.counts(7); reads != 0 || described != 1 {
			t.Errorf("%d readings, and the process that came back was described %d times", reads, described)
		}
		step(7, 8)
		host.counts(0)
		time.Sleep(50 * time.Millisecond)
		snap, err := s.Refresh(t.Context())
		if err != nil || snap.Host == nil || snap.Time.After(snap.Host.SampledAt) {
			t.Errorf("who asks gets %+v, %v", snap, err)
		}
		if reads, described := host.counts(7); reads != 1 || described != 1 {
			t.Errorf("for who asks %d readings, the process %d times", reads, described)
		}
	})
}

// Without a GPU, the machine is still read.
func TestAHostWithoutDevicesIsReadAtEachReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &countingHost{described: map[int]int{}}
		src := &fakeSource{name: "nvml", answer: answers()}
		startEvery(t, 500*time.Millisecond, host, src)
		time.Sleep(5*time.Second + 10*time.Millisecond)
		if reads, _ := host.counts(0); reads < 10 {
			t.Errorf("%d readings in 5 s", reads)
		}
	})
}

func TestAHangingHostHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &fakeHost{hang: make(chan struct{})}
		_, out := start(t, host, &fakeSource{name: "nvml", answer: answers(withProcess(device("a", "")))})
		time.Sleep(20 * time.Second)
		snap := out.last()
		if snap.Seq < 4 || snap.Host != nil || snap.Devices[0].Processes.Or(nil)[0].Facts.Name.Present() {
			t.Errorf("seq %d, host %+v", snap.Seq, snap.Host)
		}
		close(host.hang)
		time.Sleep(10 * time.Second)
		if out.last().Host == nil {
			t.Error("the host did not come back")
		}
	})
}

// A busy machine sometimes takes long to read. Then names and figures are the previous ones, with their time, but not for
// long.
func TestASlowHostStaysForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := &fakeHost{hang: make(chan struct{}, 1)}
		host.hang <- struct{}{} // it hangs from the second time on
		_, out := start(t, host, &fakeSource{name: "nvml", answer: answers(withProcess(device("a", "")))})
		time.Sleep(2 * time.Second)
		first := out.last().Host.SampledAt
		for _, stays := range []bool{true, true, false} { // 5, 10 and 15 s after it was read
			time.Sleep(5 * time.Second)
			synctest.Wait()
			snap := out.last()
			if named := snap.Devices[0].Processes.Or(nil)[0].Facts.Name.Present(); named != stays || (snap.Host != nil) != stays {
				t.Errorf("reading %d at %v: named %t, host %+v, want %t", snap.Seq, snap.Time.Sub(first), named, snap.Host, stays)
			} else if stays && !snap.Host.SampledAt.Equal(first) {
				t.Errorf("the host is of %v, want %v", snap.Host.SampledAt, first)
			}
		}
		close(host.hang)
	})
}

func TestASimulatedHostIsNotMixedWithThisOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := withProcess(device("a", ""))
		src := &fakeSource{name: gpu.SourceSimulated, answer: func(context.Context) (*gpu.Snapshot, error) {
			return &gpu.Snapshot{Devices: []gpu.Device{d}, Host: &gpu.Host{Hostname: "sim"}}, nil
		}}
		_, out := start(t, &fakeHost{}, src)
		synctest.Wait()
		snap := out.last()
		if snap.Host.Hostname != "sim" || snap.Devices[0].Processes.Or(nil)[0].Facts.Name.Present() {
			t.Errorf("real facts in a simulated snapshot: %+v", snap)
		}
	})
}

func TestAProvisionalUUIDGivesWayToTheRealOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := device("PCI-0000:01:00.0", "0000:01:00.0")
		asleep.State = gpu.StateAsleep
		src := &fakeSource{name: "nvml", answer: answers(asleep)}
		_, out := start(t, nil, src)
		time.Sleep(time.Second)
		src.set(answers(device("GPU-1", "0000:01:00.0")))
		time.Sleep(10 * time.Second)
		snap := out.last()
		if len(snap.Devices) != 1 || snap.Devices[0].UUID != "GPU-1" || snap.Devices[0].Index != 0 {
			t.Errorf("got %+v", snap.Devices)
		}
	})
}

// If a driver fails to read a device's number when the device comes back, it is still the same device.
func TestADeviceWhoseNumberIsWithheldKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, nameless := device("GPU-1", "0000:01:00.0"), device("PCI-0000:01:00.0", "0000:01:00.0")
		nameless.Name = whole.Name
		src := &fakeSource{name: "nvml", answer: answers(whole)}
		_, out := start(t, nil, src)
		time.Sleep(time.Second)
		for _, d := range []gpu.Device{nameless, whole, nameless} {
			src.set(answers(d))
			time.Sleep(10 * time.Second)
			if snap := out.last(); len(snap.Devices) != 1 || snap.Devices[0].UUID != "GPU-1" {
				t.Errorf("got %+v", snap.Devices)
			}
		}
		nameless.Name = "another product"
		src.set(answers(nameless))
		time.Sleep(10 * time.Second)
		if snap := out.last(); len(snap.Devices) != 2 || snap.Devices[1].UUID != nameless.UUID {
			t.Errorf("another product is %+v", snap.Devices)
		}
	})
}

// A device that hangs from the start may be only a number in the driver's list. It has
// its index from then on, and no other device gets it.
func TestADeviceKnownByItsIndexKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		placed := func(i int, uuid, pci string) gpu.Device {
			d := device(uuid, pci)
			d.VendorIndex = gpu.Of(i)
			if pci == "" {
				d.State = gpu.StateNotAnswering
			}
			return d
		}
		a, b, c, e := placed(0, "GPU-a", "0000:01:00.0"), placed(1, "GPU-b", "0000:02:00.0"), placed(2, "GPU-c", "0000:03:00.0"), placed(3, "GPU-e", "0000:04:00.0")
		nameless := func(i int) gpu.Device { return placed(i, fmt.Sprint("nvml-index-", i), "") }
		src := &fakeSource{name: "nvml", answer: answers(a, nameless(1), nameless(2), e)}
		_, out := start(t, nil, src)
		for _, step := range []struct {
			answer []gpu.Device
			want   []string
		}{
			{[]gpu.Device{a, nameless(1), nameless(2), e}, []string{"GPU-a", "nvml-index-1", "nvml-index-2", "GPU-e"}},
			{[]gpu.Device{a, nameless(1), c, e}, []string{"GPU-a", "nvml-index-1", "GPU-c", "GPU-e"}},
			{[]gpu.Device{a, b, c, e}, []string{"GPU-a", "GPU-b", "GPU-c", "GPU-e"}},
			{[]gpu.Device{a, b, c, e, placed(4, "GPU-f", "0000:00:00.0")}, []string{"GPU-a", "GPU-b", "GPU-c", "GPU-e", "GPU-f"}},
		} {
			src.set(answers(step.answer...))
			time.Sleep(10 * time.Second)
			var got []string
			for i, d := range out.last().Devices {
				got = append(got, d.UUID)
				if d.Index != i {
					t.Errorf("%s has index %d in place %d", d.UUID, d.Index, i)
				}
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("the devices are %q, want %q", got, step.want)
			}
		}
	})
}

// Each snapshot says what a source can't see.
func TestNotesOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "amdgpu"}
		src.set(func(context.Context) (*gpu.Snapshot, error) {
			return &gpu.Snapshot{Devices: []gpu.Device{device("a", "")}, Notes: []gpu.Advice{{What: "theirs"}}}, nil
		})
		_, out := start(t, nil, src)
		time.Sleep(10 * time.Second)
		if got := out.last().Notes; len(got) != 1 || got[0].What != "theirs" {
			t.Errorf("the notes are %v", got)
		}
	})
}

// A recording has the recorded machine's failures and breaks.
func TestFailuresAndBreaksOfARecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: gpu.SourceRecorded}
		since := time.Now().Add(-time.Hour).UTC()
		rounds := 0
		src.set(func(context.Context) (*gpu.Snapshot, error) {
			rounds++
			failed := gpu.Failure{Source: gpu.SourceNVML, Since: since, Advice: gpu.Advice{What: "no library"}}
			return &gpu.Snapshot{Devices: []gpu.Device{device("a", "")}, Failures: []gpu.Failure{failed}, Breaks: rounds}, nil
		})
		_, out := start(t, nil, src)
		time.Sleep(9500 * time.Millisecond) // between two readings
		snap := out.last()
		if snap.Breaks != rounds || len(snap.Failures) != 1 || snap.Failures[0].Source != gpu.SourceNVML || !snap.Failures[0].Since.Equal(since) {
			t.Errorf("%d breaks after %d rounds, failures %+v", snap.Breaks, rounds, snap.Failures)
		}
		if snap.Status() != gpu.StatusDegraded {
			t.Errorf("the status is %s", snap.Status())
		}
	})
}

func TestGuessedSourcesWithoutACard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := func(err error) func(context.Context) (*gpu.Snapshot, error) {
			return fails(&gpu.Advice{What: "there is none", Err: err})
		}
		noCard := errors.Join(gpu.ErrNoCard, gpu.ErrNoDriver)
		nvml := &fakeSource{name: "nvml", answer: none(noCard)}
		amd := &fakeSource{name: "amdgpu", answer: none(noCard)}
		var pub published
		s := New(Config{
			Node: "box", Interval: time.Second, Deadline: time.Second, Guessed: true, Sources: []Source{nvml, amd},
			Publish: pub.add, Log: slog.New(slog.DiscardHandler),
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		after := func() *gpu.Snapshot { time.Sleep(time.Minute); synctest.Wait(); return pub.last() }

		if snap := after(); len(snap.Failures) != 2 || snap.Status() != gpu.StatusNoGPU || len(snap.Tried) != 2 {
			t.Errorf("no card at all: %+v", snap)
		}
		amd.set(none(gpu.ErrNoDriver))
		if snap := after(); len(snap.Failures) != 1 || snap.Failures[0].Source != "amdgpu" {
			t.Errorf("a card without a driver: %+v", snap.Failures)
		}
		amd.set(answers(device("AMD-1", "0000:03:00.0")))
		snap := after()
		if len(snap.Failures) != 0 || snap.Status() != gpu.StatusOK || snap.Tried[0].Advice.IsZero() || snap.Tried[1].Devices != 1 {
			t.Errorf("one card: %+v", snap)
		}
		for _, source := range s.Health().Sources {
			if source.Failure != nil {
				t.Errorf("%s has failed: %v", source.Source, source.Failure)
			}
		}
		amd.set(none(noCard)) // unplugged
		if snap := after(); len(snap.Failures) != 0 || snap.Devices[0].State != gpu.StateLost || snap.Status() != gpu.StatusDegraded {
			t.Errorf("the card is unplugged: %+v", snap)
		}
		amd.set(answers(device("AMD-1", "0000:03:00.0")))
		if snap := after(); snap.Devices[0].State != gpu.StateOK || len(snap.Devices) != 1 {
			t.Errorf("it is back: %+v", snap)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCostsOfReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "amd", answer: func(context.Context) (*gpu.Snapshot, error) {
			time.Sleep(30 * time.Millisecond)
			return &gpu.Snapshot{Devices: []gpu.Device{device("a", "0000:01:00.0")}}, nil
		}}
		s, _ := start(t, nil, src)
		time.Sleep(11 * time.Second)
		want := []gpu.Cost{{Source: "amd", Call: "reading", Count: 3, Total: 90 * time.Millisecond, Longest: 30 * time.Millisecond}}
		if diff := cmp.Diff(want, s.Costs()); diff != "" {
			t.Errorf("costs (-want +got):\n%s", diff)
		}
	})
}

// If a source changes its name, as one with two ways to read does, each way's readings are under its own name.
func TestCostsOfTwoWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &fakeSource{name: "nvidia-smi"}
		src.answer = func(context.Context) (*gpu.Snapshot, error) {
			took := 30 * time.Millisecond
			if len(src.reads) > 1 {
				src.name, took = "nvml", time.Millisecond
			}
			time.Sleep(took)
			return &gpu.Snapshot{Devices: []gpu.Device{device("a", "0000:01:00.0")}}, nil
		}
		s, _ := start(t, nil, src)
		time.Sleep(11 * time.Second)
		want := []gpu.Cost{
			{Source: "nvidia-smi", Call: "reading", Count: 1, Total: 30 * time.Millisecond, Longest: 30 * time.Millisecond},
			{Source: "nvml", Call: "reading", Count: 2, Total: 2 * time.Millisecond, Longest: time.Millisecond},
		}
		if diff := cmp.Diff(want, s.Costs()); diff != "" {
			t.Errorf("costs (-want +got):\n%s", diff)
		}
	})
}

func TestReadsSeldomWhileNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, watched := &published{}, atomic.Bool{}
		s := New(Config{
			Node: "n1", Interval: 5 * time.Second, Idle: time.Minute, Watched: watched.Load, Deadline: 2 * time.Second,
			Sources: []Source{
				&fakeSource{name: "nvml", answer: answers(device("a", "0000:01:00.0"))},
				&fakeSource{name: "amdgpu", answer: func(context.Context) (*gpu.Snapshot, error) { // whose retries would come sooner
					return nil, &gpu.Advice{What: "no card", Err: gpu.ErrNoCard}
				}},
			},
			Guessed: true, Publish: out.add, Clock: clock.Program(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		begun := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = s.Run(ctx) })
		time.Sleep(125 * time.Second)
		s.Watch() // somebody asks once, and the interval is over
		time.Sleep(62 * time.Second)
		s.Watch() // a reading was 2 s ago
		time.Sleep(5 * time.Second)
		watched.Store(true)
		s.Watch()
		time.Sleep(11 * time.Second)
		watched.Store(false)
		time.Sleep(70 * time.Second)
		cancel()
		run.Wait()
		var reads []time.Duration
		for _, snap := range out.all() {
			reads = append(reads, snap.Time.Sub(begun).Round(time.Second)/time.Second)
			if snap.Breaks > 0 {
				t.Errorf("a reading that was put off is taken for a break: %d", snap.Breaks)
			}
		}
		want := []time.Duration{0, 60, 120, 125, 185, 190, 195, 200, 205, 265}
		if diff := cmp.Diff(want, reads); diff != "" {
			t.Errorf("seconds of readings (-want +got):\n%s", diff)
		}
	})
}
