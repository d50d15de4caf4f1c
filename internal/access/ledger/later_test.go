package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A slow ledger answers once it may.
type slow struct {
	Ledger
	may chan struct{}
}

func (s *slow) Append(ctx context.Context, e *Entry) error {
	<-s.may // whatever becomes of the context, as a disk does
	return s.Ledger.Append(ctx, e)
}

func (s *slow) Close() error {
	<-s.may
	return s.Ledger.Close()
}

// A ledger that can't be opened is tried again, and nobody waits long for one that hangs.
func TestLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var opens atomic.Int64
		may := make(chan struct{})
		l := &Later{Open: func(ctx context.Context) (Ledger, error) {
			if opens.Add(1) == 1 {
				return nil, &gpu.Advice{What: "the file is damaged", Try: "restore it", Err: ErrGone}
			}
			<-may
			return InMemory(ctx)
		}}
		get := func() error {
			_, err := l.Get(t.Context(), "user", "a")
			return err
		}
		for range 3 {
			advised(t, get(), "the file is damaged")
		}
		if n := opens.Load(); n != 1 {
			t.Errorf("it was opened %d times", n)
		}
		time.Sleep(again)
		began := time.Now()
		advised(t, get(), "is not answering")
		if took := time.Since(began); took != DefaultDeadline {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Get(ctx, "user", "a"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrGone) {
			t.Errorf("a caller who left: %v", err)
		}
		close(may)
		synctest.Wait()
		if err := errors.Join(get(), l.Close()); err != nil || opens.Load() != 2 {
			t.Errorf("%v, after opening it %d times", err, opens.Load())
		}
		advised(t, get(), "is closed")
	})
}

// A call that hangs ends in time for its caller, and the end of the program does not wait for it.
func TestLaterThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		may := make(chan struct{})
		l := &Later{Open: func(ctx context.Context) (Ledger, error) {
			m, err := InMemory(ctx)
			return &slow{m, may}, err
		}}
		e := Entry{Action: "x", Result: "done"}
		began := time.Now()
		advised(t, l.Append(t.Context(), &e), "is not answering")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		advised(t, l.Append(ctx, &e), "is not answering")
		if took := time.Since(began); took != DefaultDeadline+time.Millisecond || e.Number != 0 {
			t.Errorf("it took %s, and the entry is %+v", took, e)
		}
		if it, err := l.Get(t.Context(), "user", "a"); err != nil || it != nil {
			t.Errorf("another call: %+v, %v", it, err)
		}
		if err := l.Close(); !errors.Is(err, ErrGone) {
			t.Errorf("its end: %v", err)
		}
		close(may)
		synctest.Wait()
	})
}

// Errors are what they were, to programs and to people.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		ErrConflict, ErrGone, &BrokenError{7, "entry 7"}, &gpu.Advice{What: "the disk is full", Try: "free some", Err: ErrGone}, &gpu.Advice{What: "it is away", Try: "wait", Err: &gone{errors.New("disk I/O error")}}, &gpu.Advice{What: "it is so", Try: "live with it"},
		context.Canceled, errors.New("another"), errors.Join(ErrGone, context.Canceled), nil,
	} {
		text, failed := json.Marshal(&reply{Fault: faultOf(err)})
		var r reply
		if failed = errors.Join(failed, json.Unmarshal(text, &r)); failed != nil {
			t.Fatal(failed)
		}
		got := r.Fault.err()
		if (got == nil) != (err == nil) {
			t.Fatalf("%v became %v", err, got)
		}
		if err == nil {
			continue
		}
		for _, is := range []error{ErrConflict, ErrGone} {
			if errors.Is(err, is) != errors.Is(got, is) {
				t.Errorf("%v is %v: %t", got, is, errors.Is(got, is))
			}
		}
		if want, got := gpu.AsAdvice(err), gpu.AsAdvice(got); got.Text() != want.Text() {
			t.Errorf("%+v became %+v", want, got)
		}
		if got.Error() != err.Error() {
			t.Errorf("the log says %q of what was %q", got, err)
		}
		if broken, ok := errors.AsType[*BrokenError](err); ok {
			if now, ok := errors.AsType[*BrokenError](got); !ok || *now != *broken {
				t.Errorf("%+v became %+v", broken, got)
			}
		}
	}
}

// A carrier that fails is a ledger that does not answer, and says why.
func TestCarrierThatFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		answer string
		says   string
	}{
		{err: &gpu.Advice{What: "the helper has ended", Try: "wait", Err: errors.New("EOF")}, says: "the helper has ended: wait"}, {err: context.DeadlineExceeded, says: "is not answering"}, {answer: "{", says: "see gpuwhy's log"},
	} {
		l := Apart(carrier{tt.answer, tt.err})
		_, err := l.Get(t.Context(), "user", "a")
		advised(t, err, tt.says)
		if line := err.Error(); strings.Count(line, "the ledger of accounts") != 1 && tt.err != context.DeadlineExceeded || strings.Count(line, "has ended") > 1 {
			t.Errorf("the log says %q", line)
		}
		advised(t, l.Append(t.Context(), &Entry{}), tt.says)
	}
	if _, err := Apart(carrier{err: context.Canceled}).Get(t.Context(), "user", "a"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrGone) {
		t.Errorf("a caller who left: %v", err)
	}
	if _, err := new(Opened).Call(t.Context(), "get", []byte("{")); err == nil {
		t.Error("it understands half a call")
	}
	there := &Opened{Open: InMemory}
	if text, err := there.Call(t.Context(), "nothing", []byte("{}")); err != nil || !strings.Contains(string(text), `no call \"nothing\"`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := errors.Join(there.Close(), there.Close()); err != nil {
		t.Error(err)
	}
}

type carrier struct {
	answer string
	err    error
}

func (c carrier) Call(context.Context, string, []byte) ([]byte, error) {
	return []byte(c.answer), c.err
}
func (carrier) Close() error { return nil }
