package perdevice

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// card is a device whose driver call can be made slow.
type card struct {
	mu     sync.Mutex
	takes  time.Duration
	asleep bool
	err    error
	calls  int
	busy   int
}

func (c *card) device(key string) Device {
	return Device{
		Key:      key,
		Identity: gpu.Identity{UUID: key},
		Asleep: func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.asleep
		},
		Read: c.read,
	}
}

func (c *card) read() (gpu.Device, error) {
	c.mu.Lock()
	c.calls++
	c.busy++
	takes, err, n := c.takes, c.err, c.calls
	if c.busy > 1 {
		panic("two calls on one device at once")
	}
	c.mu.Unlock()
	time.Sleep(takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	var r gpu.Device
	r.UUID = "GPU-1"
	r.Clocks.PerformanceState = gpu.Of(n)
	return r, err
}

func (c *card) set(change func(*card)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// newSet returns a set; at its end the test waits for its calls.
func newSet(t *testing.T, deadline time.Duration) *Set {
	s := New(clockwork.NewRealClock(), deadline, func() {})
	t.Cleanup(func() {
		for s.Flying() > 0 {
			time.Sleep(time.Second)
		}
	})
	return s
}

// read reads with a patience, and returns the devices and how long it took.
func read(t *testing.T, s *Set, patience time.Duration, devices ...Device) ([]gpu.Device, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := time.Now()
	return s.Read(ctx, devices), time.Since(begun)
}

func TestSlowDeviceHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast, slow := &card{}, &card{}
		s := newSet(t, testDeadline)
		devices := []Device{slow.device("a"), fast.device("b")}
		read(t, s, 250*time.Millisecond, devices...)

		slow.set(func(c *card) { c.takes = time.Hour })
		time.Sleep(5 * time.Second)
		got, took := read(t, s, 250*time.Millisecond, devices...)
		if took != 250*time.Millisecond {
			t.Errorf("took %v, want the patience of 250ms", took)
		}
		if got[0].State != gpu.StateOK || time.Since(got[0].SampledAt) < 5*time.Second {
			t.Errorf("the slow device is %s, sampled %v ago; want ok with its last readings", got[0].State, time.Since(got[0].SampledAt))
		}
		if got[1].State != gpu.StateOK || time.Since(got[1].SampledAt) > time.Second {
			t.Errorf("the fast device is %s, sampled %v ago", got[1].State, time.Since(got[1].SampledAt))
		}

		began := time.Now().Add(-250 * time.Millisecond)
		time.Sleep(5 * time.Second)
		got, took = read(t, s, 250*time.Millisecond, devices...)
		if took != 0 {
			t.Errorf("took %v: a device that hangs was waited for", took)
		}
		if got[0].State != gpu.StateNotAnswering || !got[0].Since.Equal(began) || !got[0].SampledAt.IsZero() {
			t.Errorf("the hanging device is %s since %v, sampled at %v; want not_answering since %v and no readings", got[0].State, got[0].Since, got[0].SampledAt, began)
		}
		if slow.calls != 2 {
			t.Errorf("%d calls of the hanging device, want 2: the good one and the one that hangs", slow.calls)
		}

		// It stops hanging: its result is dropped, and the next reading is live.
		slow.set(func(c *card) { c.takes = 0 })
		time.Sleep(2 * time.Hour)
		got, _ = read(t, s, 250*time.Millisecond, devices...)
		if got[0].State != gpu.StateOK || got[0].Clocks.PerformanceState.Or(0) != 3 || !got[0].Since.Equal(time.Now().UTC()) {
			t.Errorf("after the hang the device is %s since %v with call %v, want ok since now with call 3", got[0].State, got[0].Since, got[0].Clocks.PerformanceState)
		}
	})
}

func TestFirstReading(t *testing.T) {
	t.Run("is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &card{takes: time.Second}
			got, took := read(t, newSet(t, testDeadline), 100*time.Millisecond, c.device("a"))
			if took != time.Second || got[0].State != gpu.StateOK || got[0].UUID != "GPU-1" {
				t.Errorf("%s %q after %v, want ok GPU-1 after 1s", got[0].State, got[0].UUID, took)
			}
		})
	})
	t.Run("up to the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &card{takes: time.Minute}
			got, took := read(t, newSet(t, 3*time.Second), 100*time.Millisecond, c.device("a"))
			if took != 3*time.Second || got[0].State != gpu.StateNotAnswering || got[0].UUID != "a" {
				t.Errorf("%s %q after %v, want not_answering a after 3s", got[0].State, got[0].UUID, took)
			}
		})
	})
	t.Run("not if nobody wants it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			c := &card{takes: time.Minute}
			begun := time.Now()
			got := newSet(t, testDeadline).Read(ctx, []Device{c.device("a")})
			if took := time.Since(begun); took != 0 || got[0].State != gpu.StateNotAnswering {
				t.Errorf("%s after %v, want not_answering at once", got[0].State, took)
			}
		})
	})
	t.Run("not after Close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, c := newSet(t, testDeadline), &card{takes: time.Minute}
			time.AfterFunc(time.Second, s.Close)
			_, took := read(t, s, 100*time.Millisecond, c.device("a"))
			if took != time.Second {
				t.Errorf("came back after %v, want 1s", took)
			}
		})
	})
}

func TestAsleepIsNotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &card{}, newSet(t, testDeadline)
		read(t, s, time.Second, c.device("a"))
		c.set(func(c *card) { c.asleep = true })
		fell := time.Now()
		for range 3 {
			got, _ := read(t, s, time.Second, c.device("a"))
			if got[0].State != gpu.StateAsleep || !got[0].Since.Equal(fell) || got[0].UUID != "GPU-1" {
				t.Errorf("%s since %v of %s, want asleep since %v of GPU-1", got[0].State, got[0].Since, got[0].UUID, fell)
			}
			time.Sleep(time.Minute)
		}
		if c.calls != 1 {
			t.Errorf("%d calls, want none while it slept", c.calls-1)
		}
		c.set(func(c *card) { c.asleep = false })
		got, _ := read(t, s, time.Second, c.device("a"))
		if got[0].State != gpu.StateOK || !got[0].Since.Equal(time.Now()) {
			t.Errorf("awake it is %s since %v", got[0].State, got[0].Since)
		}
	})
}

// TestFallsAsleepDuringACall checks that a failure because the device fell asleep is not a fault.
func TestFallsAsleepDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &card{takes: time.Second, err: errors.New("no line came")}, newSet(t, testDeadline)
		read(t, s, 250*time.Millisecond, c.device("a"), (&card{}).device("b"))
		s.Forget()
		c.set(func(c *card) { c.asleep = true })
		time.Sleep(500 * time.Millisecond)
		got, _ := read(t, s, time.Second, c.device("a"))
		if got[0].State != gpu.StateAsleep || !got[0].Since.Equal(time.Now()) {
			t.Errorf("it is %s since %v: %s", got[0].State, got[0].Since, got[0].Reason.What)
		}
	})
}

func TestLostAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &card{err: ErrLost}, newSet(t, testDeadline)
		got, _ := read(t, s, time.Second, c.device("a"))
		if got[0].State != gpu.StateLost {
			t.Fatalf("state %s, want lost", got[0].State)
		}
		c.set(func(c *card) { c.err = nil })
		time.Sleep(time.Second)
		got, _ = read(t, s, time.Second, c.device("a"))
		if got[0].State != gpu.StateOK || !got[0].Since.Equal(time.Now()) {
			t.Errorf("%s since %v, want ok since now", got[0].State, got[0].Since)
		}
	})
}

func TestForgetsWhatIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, gone, stuck := newSet(t, testDeadline), &card{}, &card{takes: time.Hour}
		read(t, s, time.Second, gone.device("gone"), stuck.device("stuck"))
		read(t, s, time.Second)
		if len(s.slots) != 1 || s.Flying() != 1 {
			t.Errorf("%d slots and %d calls, want those of the stuck device alone", len(s.slots), s.Flying())
		}
		// The same device again: it still has only one call.
		read(t, s, time.Second, stuck.device("stuck"))
		if stuck.calls != 1 {
			t.Errorf("%d calls of the stuck device, want 1", stuck.calls)
		}
	})
}

// TestForget checks that old reports are gone when devices are read again after a time without readers.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := &card{}, newSet(t, testDeadline)
		read(t, s, time.Second, c.device("a"))
		s.Forget()
		c.set(func(c *card) { c.takes = 3 * time.Second })
		got, _ := read(t, s, 100*time.Millisecond, c.device("a"))
		if got[0].State != gpu.StateNotAnswering || !got[0].SampledAt.IsZero() {
			t.Errorf("it is %s, read at %v", got[0].State, got[0].SampledAt)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []time.Duration
		begun := time.Now()
		s, c := New(clockwork.NewRealClock(), testDeadline, func() { ended = append(ended, time.Since(begun)) }), &card{takes: time.Minute}
		read(t, s, time.Second, c.device("a"), (&card{}).device("b"))
		closed := time.Now()
		s.Close()
		s.Close()
		if took := time.Since(closed); took != 0 {
			t.Errorf("Close took %v while a call hangs", took)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if !slices.Equal(ended, []time.Duration{time.Minute}) {
			t.Errorf("idle after %v, want once when the last call ended, after 1m", ended)
		}
		if read(t, s, time.Second, c.device("a")); c.calls != 1 {
			t.Error("a closed set called the device")
		}
	})
}

func TestWithTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		ends func(clock *clockwork.FakeClock, cancel, cancelParent context.CancelFunc)
		want error
	}{
		"not yet":            {func(clock *clockwork.FakeClock, _, _ context.CancelFunc) { clock.Advance(time.Minute - 1) }, nil},
		"late":               {func(clock *clockwork.FakeClock, _, _ context.CancelFunc) { clock.Advance(time.Minute) }, context.DeadlineExceeded},
		"canceled":           {func(_ *clockwork.FakeClock, cancel, _ context.CancelFunc) { cancel() }, context.Canceled},
		"canceled, and late": {func(clock *clockwork.FakeClock, cancel, _ context.CancelFunc) { cancel(); clock.Advance(time.Hour) }, context.Canceled},
		"its parent ended":   {func(_ *clockwork.FakeClock, _, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := clockwork.NewFakeClock()
				parent, cancelParent := context.WithCancel(t.Context())
				defer cancelParent()
				ctx, cancel := WithTimeout(parent, clock, time.Minute)
				defer cancel()
				if deadline, ok := ctx.Deadline(); !ok || !deadline.Equal(clock.Now().Add(time.Minute)) {
					t.Errorf("the deadline is %v", deadline)
				}
				child, cancelChild := context.WithCancel(ctx)
				defer cancelChild()
				tt.ends(clock, cancel, cancelParent)
				synctest.Wait()
				if !errors.Is(ctx.Err(), tt.want) || (child.Err() == nil) != (tt.want == nil) {
					t.Errorf("it ended with %v, its child with %v; want %v", ctx.Err(), child.Err(), tt.want)
				}
			})
		})
	}
}
