package sampler

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
)

// fakeLog is a kernel log that says of each device that it was reset at a given time.
type fakeLog struct {
	reset  time.Time
	reads  atomic.Int32
	hang   chan struct{} // non-nil: Read waits for it
	closed bool
}

func (f *fakeLog) Read(context.Context, time.Time) {
	f.reads.Add(1)
	if f.hang != nil {
		<-f.hang
	}
}

func (f *fakeLog) Describe(_ time.Time, devices []gpu.Device) []gpu.Advice {
	for i := range devices {
		devices[i].Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultDeviceReset, Count: 1, Last: f.reset}})
		devices[i].Health.XIDs = gpu.Of([]gpu.XID{{Code: 79, Count: 1, Last: f.reset}})
	}
	return []gpu.Advice{{What: "something is missing"}}
}

func (f *fakeLog) Close() error {
	f.closed = true
	return nil
}

// Errors from the kernel log are in each snapshot, for devices that answer and for those that
// do not, and their times move with the clock.
func TestTheKernelLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64
		started := time.Now()
		log := &fakeLog{reset: started.Add(-time.Minute)}
		src := &fakeSource{name: "amdgpu", answer: answers(device("a", "0000:01:00.0"))}
		out := &published{}
		s := New(Config{
			Node: "n1", Interval: 5 * time.Second, Deadline: 2 * time.Second, Sources: []Source{src}, KernelLog: log, Publish: out.add,
			Notes: []gpu.Advice{{What: "a note of the program"}},
			Clock: clock.Of(func() time.Time { return time.Now().Add(time.Duration(set.Load())) }, func() time.Duration { return time.Since(started) }),
			Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		last := func() time.Time {
			d := out.last().Devices[0]
			if x := d.Health.XIDs.Or(nil); len(x) != 1 || !x[0].Last.Equal(d.Health.Faults.Or(nil)[0].Last) {
				t.Fatalf("the XID's time is not that of the fault: %+v", d.Health)
			}
			return d.Health.Faults.Or(nil)[0].Last
		}
		time.Sleep(time.Second)
		if got := last(); !got.Equal(log.reset) || len(out.last().Notes) != 2 {
			t.Errorf("reset at %v, notes %v", got, out.last().Notes)
		}
		set.Store(int64(time.Hour))
		time.Sleep(5 * time.Second)
		if got := last().Sub(log.reset); got != time.Hour {
			t.Errorf("after the clock was set by an hour it moved by %v", got)
		}
		set.Store(-int64(time.Hour))
		time.Sleep(5 * time.Second)
		if got := last().Sub(log.reset); got != -time.Hour {
			t.Errorf("and after it was set back by two by %v", got)
		}
		src.set(answers()) // it is gone
		time.Sleep(5 * time.Second)
		if d := out.last().Devices[0]; d.State == gpu.StateOK || !d.Health.Faults.Present() {
			t.Errorf("gone: %s, %v", d.State, d.Health.Faults)
		}
		synctest.Wait()
		if f := s.roster.entries[0].device.Health.Faults; f.Present() {
			t.Errorf("the list of devices kept %v", f)
		}
		cancel()
		if err := <-done; err != nil || !log.closed {
			t.Errorf("%v, closed %v", err, log.closed)
		}
	})
}

// A hanging log delays each reading by at most a second, and is not read twice.
func TestAKernelLogThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{hang: make(chan struct{})}
		out := &published{}
		s := New(Config{
			Node: "n1", Interval: 5 * time.Second, Deadline: 2 * time.Second, KernelLog: log, Publish: out.add, Clock: clock.Program(),
			Sources: []Source{&fakeSource{name: "amdgpu", answer: answers(device("a", "0000:01:00.0"))}},
			Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(12 * time.Second)
		if n := len(out.all()); n != 3 || log.reads.Load() != 1 {
			t.Errorf("%d readings, the log was read %d times", n, log.reads.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		close(log.hang)
	})
}
