package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A counted ledger counts questions, and may fail.
type counted struct {
	Ledger
	asks, looks int
	fails       error
	reading     func() // is called between the answer and its return; nil: nothing is
}

func (c *counted) Get(ctx context.Context, kind, id string) (*Item, error) {
	c.asks++
	it, err := c.Ledger.Get(ctx, kind, id)
	if c.reading != nil {
		c.reading()
	}
	return it, errors.Join(err, c.fails)
}

func (c *counted) Named(ctx context.Context, kind, name string) (*Item, error) {
	c.asks++
	it, err := c.Ledger.Named(ctx, kind, name)
	return it, errors.Join(err, c.fails)
}

func (c *counted) Revision(ctx context.Context) (int64, error) {
	c.looks++
	if c.fails != nil {
		return 0, c.fails
	}
	return c.Ledger.Revision(ctx)
}

// viewed runs a test with a view of a ledger in memory, in which no time passes.
func viewed(t *testing.T, every time.Duration, test func(t *testing.T, v *View, under *counted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		under := &counted{Ledger: opened(t)(InMemory(t.Context()))}
		v := Cached(under, every)
		applies(t, v, add(item("a", "ann", "")), add(item("s", "", "a")))
		test(t, v, under)
	})
}

// tells reports whether a view says that something has changed.
func tells(v *View) bool {
	select {
	case <-v.Changed():
		return true
	default:
		return false
	}
}

// has makes sure of an item's version in a view; 0: there is none.
func has(t *testing.T, v *View, id string, version int64) {
	t.Helper()
	it, err := v.Get(t.Context(), "user", id)
	if err != nil || version == 0 && it != nil || version > 0 && (it == nil || it.Version != version) {
		t.Errorf("%s is %+v, %v, want version %d", id, it, err, version)
	}
}

// A question is asked once, and again after a change.
func TestView(t *testing.T) {
	t.Parallel()
	viewed(t, 0, func(t *testing.T, v *View, under *counted) {
		asks := func(want int, what string) {
			t.Helper()
			if under.asks != want {
				t.Errorf("%s: %d questions, want %d", what, under.asks, want)
			}
			under.asks = 0
		}
		for range 3 {
			has(t, v, "a", 1)
			has(t, v, "s", 1)
			if it, err := v.Named(t.Context(), "user", "ann"); err != nil || it == nil || it.ID != "a" {
				t.Errorf("ann is %+v, %v", it, err)
			}
		}
		asks(2, "all is known")
		for range 3 {
			has(t, v, "forged", 0)
		}
		asks(3, "what is not there takes no memory")
		it, err := v.Get(t.Context(), "user", "a")
		if err != nil {
			t.Fatal(err)
		}
		it.Name = "changed by a caller"
		if again, err := v.Named(t.Context(), "user", "ann"); err != nil || again == nil || again.Name != "ann" {
			t.Errorf("a caller has changed it: %+v, %v", again, err)
		}

		under.asks = 0
		applies(t, v, replace(item("a", "anna", ""), 1))
		if !tells(v) {
			t.Error("nobody is told of a change")
		}
		has(t, v, "a", 2)
		has(t, v, "s", 1)
		asks(1, "one is changed")
		if it, err := v.Named(t.Context(), "user", "ann"); err != nil || it != nil {
			t.Errorf("the former name is %+v, %v", it, err)
		}
		quiet := replace(item("a", "anna", ""), 2)
		quiet.Quiet = true
		applies(t, v, quiet)
		if tells(v) {
			t.Error("all are told of a quiet change")
		}
		has(t, v, "a", 3)
		applies(t, v, removal("user", "a"))
		has(t, v, "a", 0)
		has(t, v, "s", 0)
		if !tells(v) {
			t.Error("nobody is told of a removal")
		}
		conflicts(t, v, "it is not there", replace(item("a", "anna", ""), 3))
		if tells(v) {
			t.Error("all are told of a change that was refused")
		}
		if Cached(v, time.Second) != v || v.Shared() || under.looks != 0 {
			t.Errorf("it was asked for its revision %d times", under.looks)
		}
	})
}

// What has expired is not there, and one that was prolonged elsewhere is.
func TestViewOfExpired(t *testing.T) {
	t.Parallel()
	viewed(t, 0, func(t *testing.T, v *View, under *counted) {
		it := item("a", "ann", "")
		it.Expires = time.Now().Add(time.Minute)
		applies(t, v, replace(it, 1))
		has(t, v, "a", 2)
		it.Expires = time.Now().Add(time.Hour)
		applies(t, under.Ledger, Change{Item: it, Was: 2, Quiet: true})
		has(t, v, "a", 2)
		time.Sleep(time.Minute)
		has(t, v, "a", 3)
		time.Sleep(time.Hour)
		has(t, v, "a", 0)
	})
}

// What others change in a shared ledger is known after 400 ms at most, and those who want to know are told.
func TestSharedView(t *testing.T) {
	t.Parallel()
	viewed(t, Often, func(t *testing.T, v *View, under *counted) {
		has(t, v, "a", 1)
		has(t, v, "s", 1)
		if under.looks != 1 || tells(v) {
			t.Errorf("it was asked for its revision %d times", under.looks)
		}
		applies(t, under.Ledger, removal("user", "a"))
		time.Sleep(Often - 1)
		has(t, v, "a", 1) // as well it may
		time.Sleep(time.Nanosecond)
		has(t, v, "a", 0)
		if under.looks != 2 || !tells(v) {
			t.Errorf("it was asked for its revision %d times", under.looks)
		}
		has(t, v, "s", 0)

		// A ledger that does not answer is no reason to let anybody in.
		applies(t, v, add(item("b", "", "")))
		has(t, v, "b", 1)
		under.fails = errSlow
		time.Sleep(Often)
		looks := under.looks
		for range 3 {
			if it, err := v.Get(t.Context(), "user", "b"); !errors.Is(err, ErrGone) || it != nil {
				t.Errorf("it is %+v, %v", it, err)
			}
		}
		if under.looks != looks+1 || v.Trouble().Err == nil || !v.Trouble().Since.Equal(time.Now()) {
			t.Errorf("it was asked %d times, and is in %+v", under.looks-looks, v.Trouble())
		}
		under.fails = nil
		time.Sleep(Often)
		has(t, v, "b", 1)
		if v.Trouble().Err != nil {
			t.Errorf("it is in %+v", v.Trouble())
		}
	})
}

// An answer that was under way during a change is not kept.
func TestViewDuringAChange(t *testing.T) {
	t.Parallel()
	viewed(t, 0, func(t *testing.T, v *View, under *counted) {
		under.reading = func() {
			under.reading = nil
			applies(t, v, removal("user", "a"))
		}
		has(t, v, "a", 1) // what it was when the question was asked
		has(t, v, "a", 0)
	})
}

// A conflict shows that what is in memory is old.
func TestViewAfterAConflict(t *testing.T) {
	t.Parallel()
	viewed(t, 0, func(t *testing.T, v *View, under *counted) {
		has(t, v, "a", 1)
		quiet := replace(item("a", "ann", ""), 1)
		quiet.Quiet = true
		applies(t, under.Ledger, quiet) // of another program
		conflicts(t, v, "it has another version", quiet)
		has(t, v, "a", 2)
	})
}

// Many items take bounded memory.
func TestViewOfMany(t *testing.T) {
	t.Parallel()
	viewed(t, 0, func(t *testing.T, v *View, _ *counted) {
		for i := range mostItems - 1 {
			v.items[key{"user", fmt.Sprint("of ", i)}] = &Item{}
		}
		has(t, v, "a", 1)
		has(t, v, "s", 1)
		if len(v.items) != 1 {
			t.Errorf("%d items are in memory", len(v.items))
		}
	})
}
