package testkit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// failing is a test that fails instead of the real one.
type failing struct {
	testing.TB
	said string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// said is what a wait that fails writes, and how long it took.
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
