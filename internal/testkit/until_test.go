package testkit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// failing is a test that fails in place of the real one.
type failing struct {
	testing.TB
	said string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// said returns what a failing wait writes, and how long it took.
func said(t *testing.T, wait func(tb testing.TB)) (text string, took time.Duration) {
	t.Helper()
	f, begun, done := &failing{TB: t}, time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		wait(f)
	}()
	<-done
	return f.said, time.Since(begun)
}

func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		testkit.Until(t, "the fourth question", func() bool { asked++; return asked == 4 })
		if asked != 4 {
			t.Errorf("asked %d times, want 4", asked)
		}
		text, took := said(t, func(tb testing.TB) {
			testkit.Until(tb, "pigs fly", func() bool { return false }, 7, func() string { return "on the ground" }, func() any { return []int{1} })
		})
		if !strings.HasSuffix(text, "still not: pigs fly\n7\non the ground\n[1]") {
			t.Errorf("it says %q", text)
		}
		if took < testkit.Patience || took > testkit.Patience+time.Second {
			t.Errorf("it waited %v, want %v", took, testkit.Patience)
		}
	})
}

func TestReceive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int)
		go func() {
			time.Sleep(time.Minute)
			values <- 5
			close(values)
		}()
		if v := testkit.Receive(t, "a value", values); v != 5 {
			t.Errorf("received %d, want 5", v)
		}
		if v := testkit.Receive(t, "the end", values); v != 0 {
			t.Errorf("received %d from a closed channel", v)
		}
		text, took := said(t, func(tb testing.TB) { testkit.Receive(tb, "nothing", make(chan int), "empty") })
		if !strings.HasSuffix(text, "still not: nothing\nempty") || took < testkit.Patience {
			t.Errorf("after %v it says %q", took, text)
		}
	})
}

func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := testkit.NewClock()
		check := func(when string, waited, settled bool) {
			t.Helper()
			synctest.Wait()
			if c.Waited() != waited || c.Settled() != settled {
				t.Errorf("%s somebody waits: %v, all have returned: %v; want %v, %v", when, c.Waited(), c.Settled(), waited, settled)
			}
		}
		check("at first", false, true)
		a, b := c.NewTimer(time.Second), c.NewTimer(time.Minute)
		check("with two timers", true, true)
		c.Advance(time.Second)
		<-a.Chan()
		a.Stop()
		check("with the other", true, true)
		b.Stop()
		check("with both stopped", false, true)
		b.Reset(time.Second)
		check("with one again", true, true)
		c.Advance(time.Second)
		check("when it is due", false, true)

		calls, goOn := 0, make(chan struct{})
		var f clockwork.Timer
		f = c.AfterFunc(time.Second, func() {
			if calls++; calls == 1 {
				f.Reset(time.Second)
			}
			<-goOn
		})
		check("with a function", false, true)
		c.Advance(time.Second - 1)
		check("before it is due", false, true)
		c.Advance(1)
		check("while it runs, set again", false, true)
		goOn <- struct{}{}
		check("when it has returned", false, true)
		c.Advance(time.Second)
		check("while it runs once more", false, false)
		goOn <- struct{}{}
		check("when it has returned once more", false, true)
		f.Reset(time.Second)
		f.Stop()
		c.Advance(time.Second)
		check("when it was stopped", false, true)
		if calls != 2 {
			t.Errorf("the function was called %d times, want 2", calls)
		}
	})
}
