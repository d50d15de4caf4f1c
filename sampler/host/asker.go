package host

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// askFor is how long a service may take to answer one question.
	askFor = 2 * time.Second
	// restFor is the pause before asking a service again that is down, refuses us
	// or does not answer, and before repeating a question without an answer.
	restFor = time.Minute
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 4 << 20
)

// An asker asks services of this machine beside the readings, so that no reading
// waits for an answer. At most one goroutine works for it.
type asker struct {
	root string
	log  *slog.Logger
	wait time.Duration // askFor

	ctx  context.Context // ends with close
	stop context.CancelFunc

	mu      sync.Mutex
	working chan struct{}   // closed when the work is done; nil while nobody works
	logged  map[string]bool // services whose failure is in the log
}

func (a *asker) open(root string, log *slog.Logger) {
	a.root, a.log, a.wait, a.logged = root, log, askFor, map[string]bool{}
	a.ctx, a.stop = context.WithCancel(context.Background())
}

// start starts work on a goroutine unless one works already. Work sets working to nil
// under mu when there is nothing left to do. The caller holds mu.
func (a *asker) start(work func()) {
	if a.working != nil || a.ctx.Err() != nil {
		return
	}
	done := make(chan struct{})
	a.working = done
	go func() {
		defer close(done)
		work()
	}()
}

// settle waits until the current work is done. The error is that of ctx.
func (a *asker) settle(ctx context.Context) error {
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
func (a *asker) close() {
	a.stop()
	_ = a.settle(context.Background()) // the work ends with a.ctx
}

// complain logs once what can't be read from a service. The caller holds mu.
func (a *asker) complain(what, service string, err error) {
	if !a.logged[service] && a.log != nil {
		a.log.Info("a service of this machine can't be read", "what", what, "from", service, "err", err)
	}
	a.logged[service] = true
}
