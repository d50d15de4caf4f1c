package store_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
)

// A store that is opened by its first use keeps the promises of the store.
func TestLater(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store {
		return &store.Later{Open: func(context.Context) (store.Store, error) { return storetest.NewModel(), nil }}
	})
}

func TestOpenedWhenItCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, away := 0, true
		l := &store.Later{Open: func(context.Context) (store.Store, error) {
			if tries++; away {
				return nil, store.ErrGone
			}
			return storetest.NewModel(), nil
		}}
		for range 3 {
			if err := l.Write(t.Context(), &store.Batch{}); !errors.Is(err, store.ErrGone) {
				t.Errorf("it can be written to: %v", err)
			}
		}
		for _, err := range l.Rows(t.Context(), store.Query{}) {
			if !errors.Is(err, store.ErrGone) {
				t.Errorf("it can be read: %v", err)
			}
		}
		if away = false; tries != 1 {
			t.Errorf("it was tried %d times at once", tries)
		}
		time.Sleep(5 * time.Second)
		if err := l.Write(t.Context(), &store.Batch{}); err != nil || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Write(t.Context(), &store.Batch{}); !errors.Is(err, store.ErrGone) || tries != 2 {
			t.Errorf("after its end: %v, %d tries", err, tries)
		}
		never := &store.Later{Open: func(context.Context) (store.Store, error) { panic("opened") }}
		if err := never.Close(); err != nil {
			t.Errorf("never used: %v", err)
		}
	})
}

// A stuck store answers nothing until it is let go.
type stuck struct {
	store.Store
	held    chan struct{}
	rows    int // that it yields before that
	closed  bool
	closing chan struct{}
}

func (s *stuck) Devices(context.Context) ([]store.Device, error) { <-s.held; return nil, nil }

func (s *stuck) Rows(context.Context, store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for range s.rows {
			if !yield(store.Row{Readings: 1}, nil) {
				return
			}
		}
		<-s.held
		yield(store.Row{Readings: 2}, nil)
	}
}

func (s *stuck) Close() error {
	if s.closing != nil {
		<-s.closing
	}
	s.closed = true
	return nil
}

// took is how long f takes by the clock of the bubble.
func took(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

func isSlow(t *testing.T, what string, err error) {
	t.Helper()
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok || advice.Try == "" || !errors.Is(err, store.ErrGone) {
		t.Errorf("%s: %v", what, err)
	}
}

// While a store is being opened for ever, nobody waits for long. It is used once it is open, and closed if nobody wants it any more.
func TestOpeningThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ended := range []bool{false, true} {
			inner, tries := &stuck{Store: storetest.NewModel()}, new(atomic.Int32)
			held := make(chan struct{})
			l := &store.Later{Open: func(context.Context) (store.Store, error) {
				tries.Add(1)
				<-held
				return inner, nil
			}}
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					if d := took(func() {
						_, err := l.Document(t.Context(), "alerts")
						isSlow(t, "a document", err)
					}); d != 5*time.Second {
						t.Errorf("a question took %v", d)
					}
				})
			}
			all.Wait()
			if d := took(func() { isSlow(t, "a batch", l.Write(t.Context(), &store.Batch{})) }); d != 0 || tries.Load() != 1 {
				t.Errorf("writing took %v, and it was opened %d times", d, tries.Load())
			}
			if !ended {
				close(held)
				synctest.Wait()
				if err := errors.Join(l.Write(t.Context(), &store.Batch{}), l.Close()); err != nil || !inner.closed {
					t.Errorf("when it is open: %v", err)
				}
				continue
			}
			if d := took(func() { isSlow(t, "closing", l.Close()) }); d != 2*time.Second {
				t.Errorf("closing took %v", d)
			}
			close(held)
			synctest.Wait()
			if !inner.closed {
				t.Error("what was opened too late stays open")
			}
		}
	})
}

// Opening does not end with who asked first.
func TestOpeningIsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &store.Later{Open: func(ctx context.Context) (store.Store, error) {
			select {
			case <-time.After(time.Second):
				return storetest.NewModel(), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := l.Devices(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := l.Devices(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A store that hangs holds up questions for some seconds only, and no more threads than a few.
func TestAnswersThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &stuck{Store: storetest.NewModel(), held: make(chan struct{}), rows: 3, closing: make(chan struct{})}
		l := &store.Later{Open: func(context.Context) (store.Store, error) { return inner, nil }}
		rows := func(ctx context.Context, use func()) (n int, last error) {
			for r, err := range l.Rows(ctx, store.Query{}) {
				if use(); err != nil {
					last = err
				} else if n += r.Readings; r.Readings != 1 {
					t.Errorf("%+v", r)
				}
			}
			return n, last
		}
		if d := took(func() {
			n, err := rows(t.Context(), func() {})
			if isSlow(t, "rows", err); n != 3 {
				t.Errorf("%d rows", n)
			}
		}); d != 24*time.Second {
			t.Errorf("rows took %v", d)
		}
		if d := took(func() { _, _ = rows(t.Context(), func() { time.Sleep(time.Minute) }) }); d < 4*time.Minute || d > 5*time.Minute {
			t.Errorf("rows that are used slowly took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if d := took(func() {
			if n, err := rows(ctx, func() {}); n != 3 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d rows, %v", n, err)
			}
		}); d != time.Second {
			t.Errorf("the question went on for %v", d)
		}
		for r, err := range l.Rows(t.Context(), store.Query{}) {
			if err != nil || r.Readings != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			break // it hangs only after three
		}
		synctest.Wait()
		var all sync.WaitGroup
		var refused atomic.Int32
		for range 100 {
			all.Go(func() {
				var err error
				if took(func() { _, err = l.Devices(t.Context()) }) > 0 {
					isSlow(t, "devices", err)
					return
				}
				refused.Add(1)
				if advice, ok := errors.AsType[*gpu.Advice](err); !ok || advice.Try == "" || !errors.Is(err, store.ErrBusy) {
					t.Errorf("one too many: %v", err)
				}
			})
		}
		all.Wait()
		if n := refused.Load(); n != 100-64+3 { // three are there from before
			t.Errorf("%d questions were refused", n)
		}
		close(inner.held)
		synctest.Wait()
		if _, err := l.Devices(t.Context()); err != nil {
			t.Errorf("when it answers again: %v", err)
		}
		if d := took(func() { isSlow(t, "closing", l.Close()) }); d != 2*time.Second {
			t.Errorf("closing took %v", d)
		}
		close(inner.closing)
	})
}

// What ends the one who reads is not lost with the goroutine that asks.
func TestReadersThatEnd(t *testing.T) { synctest.Test(t, readersThatEnd) }

func readersThatEnd(t *testing.T) {
	l := &store.Later{Open: func(context.Context) (store.Store, error) { return &stuck{Store: storetest.NewModel(), rows: 3}, nil }}
	for name, ends := range map[string]func(){"panic": func() { panic(http.ErrAbortHandler) }, "exit": runtime.Goexit} {
		said, went := make(chan any, 1), false
		go func() {
			defer func() { said <- recover() }()
			for _, err := range l.Rows(t.Context(), store.Query{}) {
				if ends(); err != nil {
					return
				}
			}
			went = true
		}()
		want := map[string]any{"panic": http.ErrAbortHandler}[name]
		if got := <-said; got != want || went {
			t.Errorf("%s: %v, and it went on: %t", name, got, went)
		}
	}
}

// Who leaves in the midst of an answer, as a client does whose context ends and who can't be written to, leaves as it chose to.
func TestReadersThatEndWithTheirContext(t *testing.T) {
	synctest.Test(t, readersThatEndWithTheirContext)
}

func readersThatEndWithTheirContext(t *testing.T) {
	l := &store.Later{Open: func(context.Context) (store.Store, error) { return &stuck{Store: storetest.NewModel(), rows: 3}, nil }}
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		func() {
			defer func() {
				if got := recover(); got != any(http.ErrAbortHandler) {
					t.Errorf("it ended with %v", got)
				}
			}()
			for _, err := range l.Rows(ctx, store.Query{}) {
				cancel()
				panic(cmp.Or(err, http.ErrAbortHandler))
			}
		}()
	}
}
