package host

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	askFor    = 2 * time.Second // how long a service may take to answer
	restFor   = time.Minute     // the pause before asking again after no answer
	maxAnswer = 4 << 20         // how many bytes of an answer are read
)

// errUnknown means that a service does not know what it was asked about.
var errUnknown = errors.New("the service knows nothing about that")

// An asker asks services of this machine in the background, so that readings wait for no answer, and keeps the answers. One goroutine asks
// one question at a time: a dead socket costs its deadline once.
type asker[K comparable, V any] struct {
	what string           // names the question in the log
	ways func(K) []way[V] // where to ask, likeliest first
	keep time.Duration    // how long an answer is kept
	log  *slog.Logger
	// timeout limits each question.
	timeout timeout
	ctx     context.Context // ends with close
	stop    context.CancelFunc
	failed  map[string]failure // failed ways, until they answer; only the working goroutine uses it

	mu      sync.Mutex
	working chan struct{} // closed when the work is done; nil while none runs
	queue   []K
	known   map[K]*known[V]
}

// A timeout is context.WithTimeout, or a test's replacement.
type timeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)

// A way is one place to ask. Ask returns errUnknown if the service does not know, and fs.ErrNotExist if the service does not exist.
type way[V any] struct {
	name string // after a failure, all ways of this name are unused for a while
	path string // of a socket or a file
	ask  func(ctx context.Context, path string) (V, error)
}

// known is what is known about one key.
type known[V any] struct {
	value   V
	asked   time.Time   // time of the reading that asked for value; zero: there is no value
	quality gpu.Quality // why there is no value
	due     time.Time   // when to ask again
	wanted  time.Time   // when a reading last wanted it
}

type failure struct {
	err   error
	until time.Time // the way is unused until then
}

func newAsker[K comparable, V any](what string, keep time.Duration, log *slog.Logger, ways func(K) []way[V]) *asker[K, V] {
	a := &asker[K, V]{
		what: what, ways: ways, keep: keep, log: log, timeout: context.WithTimeout,
		known: map[K]*known[V]{}, failed: map[string]failure{},
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// lookUp returns what is known, and asks again if that is due.
func (a *asker[K, V]) lookUp(key K, now time.Time) known[V] {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.known[key]
	if k == nil {
		k = &known[V]{}
		a.known[key] = k
	}
	k.wanted = now
	if !now.Before(k.due) && a.ctx.Err() == nil {
		k.due = now.Add(restFor) // unless an answer comes first
		a.queue = append(a.queue, key)
		if a.working == nil {
			a.working = make(chan struct{})
			go a.work(a.working)
		}
	}
	return *k
}

// work asks until the queue is empty.
func (a *asker[K, V]) work(done chan struct{}) {
	defer close(done)
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && a.ctx.Err() == nil {
		key := a.queue[0]
		a.queue = a.queue[1:]
		k := a.known[key]
		if k == nil {
			continue // forgotten
		}
		now := k.wanted
		a.mu.Unlock()
		value, err := a.ask(key, now)
		a.mu.Lock()
		k.quality = absence(err)
		switch {
		case err == nil:
			k.value, k.asked, k.due = value, now, now.Add(a.keep)
		case errors.Is(err, errUnknown):
			k.asked, k.due = time.Time{}, now.Add(max(a.keep, restFor))
		case errors.Is(err, fs.ErrNotExist):
			k.due = now.Add(max(a.keep, restFor))
		default: // the last answer stays until there is a new one
			k.due = now.Add(restFor)
		}
	}
	a.queue, a.working = nil, nil
}

// ask tries each way. The error is errUnknown if no service knows the key, and fs.ErrNotExist if no service exists.
func (a *asker[K, V]) ask(key K, now time.Time) (value V, err error) {
	var failed, unknown error
	for _, w := range a.ways(key) {
		if f := a.failed[w.name]; now.Before(f.until) {
			failed = errors.Join(failed, f.err)
			continue
		}
		ctx, cancel := a.timeout(a.ctx, askFor)
		value, err = w.ask(ctx, w.path)
		cancel()
		switch {
		case err == nil:
			delete(a.failed, w.name)
			return value, nil
		case errors.Is(err, errUnknown):
			unknown = err
		case !errors.Is(err, fs.ErrNotExist):
			failed = errors.Join(failed, err)
			a.note(w.name, failure{err, now.Add(restFor)})
		}
	}
	return value, cmp.Or(failed, unknown, fs.ErrNotExist)
}

// note remembers a failure of a way, unless we gave up ourselves, and logs the first.
func (a *asker[K, V]) note(way string, f failure) {
	if a.ctx.Err() != nil {
		return
	}
	if a.failed[way].err == nil {
		a.log.Info("a service of this machine can't be read", "what", a.what, "from", way, "err", f.err)
	}
	a.failed[way] = f
}

// forget drops keys that no reading has wanted for as long as an answer is kept.
func (a *asker[K, V]) forget(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.known, func(_ K, k *known[V]) bool { return now.Sub(k.wanted).Abs() > a.keep })
}

// settle waits until the current work is done. The error is ctx's.
func (a *asker[K, V]) settle(ctx context.Context) error {
	a.mu.Lock()
	working := a.working
	a.mu.Unlock()
	if working == nil {
		return nil
	}
	select {
	case <-working:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close ends the current work, and waits for its end.
func (a *asker[K, V]) close() {
	a.stop()
	_ = a.settle(context.Background()) // the work ends with a.ctx
}
