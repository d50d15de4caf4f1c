package scribe

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/ownfile"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	// Name is that of the helper that writes, see [helper.Run].
	Name = "scribe"
	// goodbye is how long it has to end.
	goodbye  = 3 * time.Second
	mostIdle = 4 // connections that wait for a call
	// memoryLimit is where it collects garbage harder.
	memoryLimit = 128 << 20
)

// Start returns a scribe that writes in a separate process. If none can be started, it logs that and returns the scribe of
// [Here]; only Linux has such processes. The kinds are those that the other process is given ([Serve]).
func Start(dir string, log *slog.Logger, kinds Kinds) Scribe {
	log = log.With("part", "scribe")
	r := &remote{dir: dir, log: log, helper: helper.New(Name, []string{dir}, log)}
	switch _, err := r.helper.Begin(); {
	case err == nil:
		return r
	case !errors.Is(err, errors.ErrUnsupported):
		log.Warn("gpuwhy writes history and state in its own process, so a hanging disk can block it", "err", errors.Join(err, r.helper.Close(0)))
	}
	return Here(dir, log, kinds)
}

// remote is a scribe in another process.
type remote struct {
	dir    string
	log    *slog.Logger
	helper *helper.Helper
	calls  atomic.Int64 // that have no answer yet

	mu      sync.Mutex
	process *helper.Process // to which the idle links lead
	idle    []*link
	begun   map[string]uint64 // of databases, as its answers said
}

// A link is a connection to the process, for one call at a time.
type link struct {
	net.Conn
	process *helper.Process
	r       *bufio.Reader
	buffer  []byte
}

var errEnded = &gpu.Advice{
	What: "the process that writes the state directory has ended", Try: "try again in a few seconds, when gpuwhy has restarted it; gpuwhy's log says why it ended", Err: store.ErrGone,
}

var errClosed = &gpu.Advice{What: "the state directory is closed", Try: "start gpuwhy again", Err: store.ErrGone}

// adviceOf says what an error of the helper means.
func adviceOf(err error) error {
	switch {
	case errors.Is(err, helper.ErrClosed):
		return errClosed
	case errors.Is(err, helper.ErrEnded):
		return errEnded
	case errors.Is(err, helper.ErrSlow):
		return store.ErrSlow
	}
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return &gpu.Advice{What: advice.What, Try: advice.Try, Err: errors.Join(store.ErrGone, advice.Err)}
	}
	return err
}

// link returns a connection for a call.
func (r *remote) link() (*link, error) {
	p, err := r.helper.Running()
	if err != nil {
		return nil, adviceOf(err)
	}
	r.mu.Lock()
	if r.process != p { // it was started again
		for _, l := range r.idle {
			_ = l.Close() // nobody uses it
		}
		r.process, r.idle, r.begun = p, nil, map[string]uint64{}
		go r.takeAgain(p)
	}
	if n := len(r.idle); n > 0 {
		l := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		return l, nil
	}
	r.mu.Unlock()
	conn, err := p.Dial()
	if err != nil {
		return nil, adviceOf(err)
	}
	return &link{Conn: conn, process: p, r: bufio.NewReaderSize(conn, 16<<10)}, nil
}

// again is how long after the end of a process the next one is started.
const again = time.Second + 50*time.Millisecond

// takeAgain has the folder taken again when a process has ended: until then another program could have it.
func (r *remote) takeAgain(after *helper.Process) {
	<-after.Ended()
	if r.dir == "" {
		return
	}
	soon := time.NewTimer(again)
	defer soon.Stop()
	<-soon.C
	if err := r.Take(context.Background()); err != nil && !errors.Is(err, errClosed) {
		r.log.Debug("the state directory can't be reopened yet", "err", err) // what needs it tries, and tells
	}
}

// take takes a connection back after a call that has its answer, and reports whether the database has begun anew since the call
// before.
func (r *remote) take(l *link, file string, begun uint64) (anew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != l.process || len(r.idle) == mostIdle {
		_ = l.Close() // nothing is under way
		return false
	}
	if cap(l.buffer) > 4*bytesAtOnce {
		l.buffer = nil
	}
	r.idle = append(r.idle, l)
	anew = begun > r.begun[file]
	r.begun[file] = max(begun, r.begun[file])
	return anew
}

// errEnough ends a query whose reader wants no more.
var errEnough = errors.New("no more is needed")

// call asks the other process, and calls items with what a query finds.
func (r *remote) call(ctx context.Context, q *request, begun func(), items func(content []byte) error) (*answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l, err := r.link()
	if err != nil {
		return nil, err
	}
	r.calls.Add(1)
	defer r.calls.Add(-1)
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // which ends the call there, too
	a, err := l.call(q, items)
	switch {
	case !stop():
		return nil, context.Cause(ctx)
	case errors.Is(err, errEnough):
		_ = l.Close() // what comes of it is for nobody
		return nil, err
	case err != nil:
		_ = l.Close()
		r.log.Debug("a call to the process that writes the state directory failed", "err", err)
		return nil, errEnded
	}
	if r.take(l, q.File, a.Begun) && begun != nil {
		begun()
	}
	return a, a.Err.err()
}

func (l *link) call(q *request, items func(content []byte) error) (*answer, error) {
	b, err := send(l, l.buffer, 0, reflect.ValueOf(q).Elem())
	if l.buffer = b[:0]; err != nil {
		return nil, err
	}
	for {
		kind, content, err := readMessage(l.r, l.buffer)
		if l.buffer = content[:0]; err != nil {
			return nil, err
		}
		if kind == someItems {
			if err := items(content); err != nil {
				return nil, err
			}
			continue
		}
		a, d := &answer{}, decoder{b: content}
		d.decode(reflect.ValueOf(a).Elem())
		return a, d.err
	}
}

// Pid implements [Scribe].
func (r *remote) Pid() int { return r.helper.Pid() }

// Take implements [Scribe].
func (r *remote) Take(ctx context.Context) error {
	_, err := r.call(ctx, &request{Call: callTake}, nil, nil)
	return err
}

// Read implements [Scribe].
func (r *remote) Read(name string) ([]byte, error) {
	return regular.InTime(func() ([]byte, error) { // as whoever reads a file there expects
		a, err := r.call(context.Background(), &request{Call: callRead, Name: name}, nil, nil)
		if err != nil {
			return nil, err
		}
		return a.Text, nil
	})
}

// Write implements [Scribe].
func (r *remote) Write(name string, text []byte) error {
	_, err := r.call(context.Background(), &request{Call: callWrite, Name: name, Text: text}, nil, nil)
	return err
}

// Remove implements [Scribe].
func (r *remote) Remove(name string) error {
	_, err := r.call(context.Background(), &request{Call: callRemove, Name: name}, nil, nil)
	return err
}

// Open implements [Scribe].
func (r *remote) Open(ctx context.Context, d Database) (Store, error) {
	c := &client{remote: r, Database: d}
	if _, err := c.ask(ctx, &request{Call: callOpen}); err != nil {
		return nil, err
	}
	return c, nil
}

// Other implements [Scribe].
func (r *remote) Other(kind, file string) Other { return &otherThere{r, place{kind, file}} }

// otherThere is a database of another kind in the other process.
type otherThere struct {
	*remote
	place
}

// Call implements [Other].
func (o *otherThere) Call(ctx context.Context, method string, args []byte) ([]byte, error) {
	a, err := o.call(ctx, &request{Call: callOther, Kind: o.kind, File: o.file, Name: method, Text: args}, nil, nil)
	if errors.Is(err, store.ErrSlow) { // which tells of the history
		return nil, context.DeadlineExceeded
	}
	if err != nil {
		return nil, err
	}
	return a.Text, nil
}

// Close implements [Other].
func (o *otherThere) Close() error {
	_, err := o.call(context.Background(), &request{Call: callShut, Kind: o.kind, File: o.file}, nil, nil)
	return err
}

// Close implements [Scribe].
func (r *remote) Close() error {
	if r.calls.Load() > 0 { // which hang: they were waited for
		return r.helper.Close(time.Millisecond)
	}
	return r.helper.Close(goodbye)
}

// Serve returns what the other process does: it carries out calls until the process that started it ends.
func Serve(kinds Kinds) func(*helper.Task) {
	return func(t *helper.Task) { serve(t, kinds) }
}

func serve(t *helper.Task, kinds Kinds) {
	debug.SetMemoryLimit(min(memoryLimit, debug.SetMemoryLimit(-1)))
	state.OnBehalfOf(t.Owner)
	go ownfile.Run(context.Background(), t.Log)
	s := &server{local: &local{dir: t.Args[0], log: t.Log, kinds: kinds}, log: t.Log, begun: map[string]uint64{}}
	for {
		conn, err := t.Accept()
		if err != nil {
			return
		}
		go s.converse(conn)
	}
}
