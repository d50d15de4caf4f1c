package scribe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/keep"
	"github.com/gpuwhy/gpuwhy/internal/ownfile"
	"github.com/gpuwhy/gpuwhy/internal/store"
)

const (
	command   = "scribe" // with which the program starts itself
	controlFD = 3        // on which the other process gets its connections
	// pause is between two starts, and patience how long the other process has to take a connection or to end.
	pause, patience = time.Second, time.Second
	mostIdle        = 4 // connections that wait for a call
	// memoryLimit is where that process collects garbage harder.
	memoryLimit = 128 << 20
)

// Asked reports whether the arguments of a program are those with which [Start] starts it.
func Asked(args []string) bool { return len(args) == 4 && args[1] == command }

// Start returns a scribe that writes in a process of its own, which runs this same program. Where none can be started it logs
// that, and returns the scribe of [Here].
func Start(dir string, log *slog.Logger) Scribe {
	r := &remote{dir: dir, log: log.With("part", "scribe")}
	if _, err := r.running(); err != nil {
		log.Warn("the past and the state are written by gpuwhy's own process, which a disk that hangs can hold up", "err", err)
		return Here(dir, log)
	}
	return r
}

// remote is a scribe in another process.
type remote struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	process *process // nil: there is none now
	started time.Time
	closed  bool
	calls   atomic.Int64 // that have no answer yet
}

// A process is the other one.
type process struct {
	cmd     *exec.Cmd
	control *net.UnixConn
	ended   chan struct{} // closed when it has ended

	mu    sync.Mutex
	idle  []*link
	begun map[string]uint64 // of databases, as its answers said
}

// A link is a connection to it, for one call at a time.
type link struct {
	net.Conn
	of     *process
	r      *bufio.Reader
	buffer []byte
}

var errEnded = &gpu.Advice{
	What: "the process that keeps the past has ended", Try: "ask again in a few seconds, when gpuwhy has started it again; gpuwhy's log says why it ended", Err: store.ErrGone,
}

var errClosed = &gpu.Advice{What: "the past is closed", Try: "start gpuwhy again", Err: store.ErrGone}

// running is the other process, which is started where there is none.
func (r *remote) running() (*process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, errClosed
	case r.process != nil:
		return r.process, nil
	case time.Since(r.started) < pause:
		return nil, errEnded
	}
	r.started = time.Now()
	p, err := r.start()
	if err != nil {
		return nil, exhausted(err)
	}
	r.process = p
	return p, nil
}

func (r *remote) start() (*process, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	// It is this very program, also where another one lies under its name by now.
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args = []string{"gpuwhy", command, strconv.Itoa(os.Getpid()), r.dir}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !strings.HasPrefix(name, "GO") && name != "TZ" && name != "TMPDIR" // it needs no secrets
	})
	cmd.ExtraFiles = []*os.File{theirs}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	p := &process{cmd: cmd, control: ours, ended: make(chan struct{}), begun: map[string]uint64{}}
	go func() {
		said := r.hear(stderr)
		r.over(p, cmd.Wait(), said)
	}()
	return p, nil
}

// hear logs what the other process logs, until it ends. What else it has written, such as why it crashed, is returned.
func (r *remote) hear(stderr io.Reader) (said string) {
	var rest strings.Builder
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		var record struct {
			Level slog.Level `json:"level"`
			Msg   string     `json:"msg"`
		}
		var attrs map[string]any
		if text := []byte(line); json.Unmarshal(text, &record) == nil && record.Msg != "" && json.Unmarshal(text, &attrs) == nil {
			var list []any
			for _, name := range slices.Sorted(func(yield func(string) bool) {
				for name := range attrs {
					if name != slog.TimeKey && name != slog.LevelKey && name != slog.MessageKey && !yield(name) {
						return
					}
				}
			}) {
				list = append(list, name, attrs[name])
			}
			r.log.Log(context.Background(), record.Level, record.Msg, list...) //nolint:sloglint // the message is the other process's
		} else if rest.Len() < 16<<10 {
			rest.WriteString(line)
		}
		if err != nil {
			return strings.TrimSpace(rest.String())
		}
	}
}

// over is the end of the other process.
func (r *remote) over(p *process, err error, said string) {
	r.mu.Lock()
	if r.process == p {
		r.process = nil
	}
	closed := r.closed
	r.mu.Unlock()
	p.mu.Lock()
	close(p.ended)
	for _, l := range p.idle {
		_ = l.Close() // nobody uses it
	}
	p.idle = nil
	p.mu.Unlock()
	_ = p.control.Close() // the other side is gone
	if !closed {
		r.log.Error("the process that keeps the past has ended, and is started again", "err", err, "said", said)
	}
}

// pair is two ends of a connection: one for this process, and one to give away.
func pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "socket") //nolint:gosec // a descriptor
	if ours, err = connOf(fds[0]); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// connOf makes a connection of a descriptor, which it closes.
func connOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "socket") //nolint:gosec // a descriptor
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("it is no Unix socket"), conn.Close())
	}
	return unix, nil
}

// exhausted says what to do where there is no file descriptor left.
func exhausted(err error) error {
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return err
	}
	return &gpu.Advice{
		What: "gpuwhy has no file descriptor left to reach the database of the past with",
		Try:  "raise the limit of open files (ulimit -n, or LimitNOFILE= of its service), or ask for less at once",
		Err:  fmt.Errorf("%w: %w", store.ErrGone, err),
	}
}

// link returns a connection for a call.
func (r *remote) link() (*link, error) {
	p, err := r.running()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		l := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return l, nil
	}
	p.mu.Unlock()
	ours, theirs, err := pair()
	if err != nil {
		return nil, exhausted(err)
	}
	defer theirs.Close()
	if err = p.control.SetWriteDeadline(time.Now().Add(patience)); err == nil {
		_, _, err = p.control.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(theirs.Fd())), nil) //nolint:gosec // a descriptor
	}
	if err != nil {
		_ = ours.Close() // nothing was written
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, store.ErrSlow
		}
		return nil, errEnded
	}
	return &link{Conn: ours, of: p, r: bufio.NewReaderSize(ours, 16<<10)}, nil
}

// release gives a connection back after a call that has its answer.
func (l *link) release() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	select {
	case <-l.of.ended:
	default:
		if len(l.of.idle) < mostIdle {
			if cap(l.buffer) > 4*bytesAtOnce {
				l.buffer = nil
			}
			l.of.idle = append(l.of.idle, l)
			return
		}
	}
	_ = l.Close() // nothing is under way
}

// errEnough ends a query whose reader wants no more.
var errEnough = errors.New("no more is wanted")

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
	case err != nil:
		_ = l.Close() // what comes of it is for nobody
		if errors.Is(err, errEnough) {
			return nil, err
		}
		select {
		case <-l.of.ended:
		default:
			r.log.Debug("a call of the process that keeps the past failed", "err", err)
		}
		return nil, errEnded
	}
	anew := l.of.knows(q.File, a.Begun)
	l.release()
	if anew && begun != nil {
		begun()
	}
	return a, a.Err.err()
}

// knows notes how often a database has begun anew, and reports whether that is news.
func (p *process) knows(file string, begun uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := begun > p.begun[file]
	if anew {
		p.begun[file] = begun
	}
	return anew
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

// Pid implements [Scribe], as the methods below do.
func (r *remote) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return 0
	}
	return r.process.cmd.Process.Pid
}

func (r *remote) Take(ctx context.Context) error {
	_, err := r.call(ctx, &request{Call: callTake}, nil, nil)
	return err
}

// Read reads in this process: no disk that is frozen holds up who only reads.
func (r *remote) Read(name string) ([]byte, error) { return keep.Folder(r.dir).Read(name) }

func (r *remote) Write(name string, text []byte) error {
	_, err := r.call(context.Background(), &request{Call: callWrite, Name: name, Text: text}, nil, nil)
	return err
}

func (r *remote) Remove(name string) error {
	_, err := r.call(context.Background(), &request{Call: callRemove, Name: name}, nil, nil)
	return err
}

func (r *remote) Open(ctx context.Context, d Database) (Store, error) {
	c := &client{remote: r, Database: d}
	if _, err := c.ask(ctx, &request{Call: callOpen}); err != nil {
		return nil, err
	}
	return c, nil
}

func (r *remote) Close() error {
	r.mu.Lock()
	p := r.process
	r.closed = true
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.control.Close() // on which it ends
	if r.calls.Load() == 0 && p.endsWithin(patience) {
		return nil
	}
	_ = p.cmd.Process.Kill() // a call that hangs is not waited for again
	if p.endsWithin(patience) {
		return nil
	}
	r.log.Warn("the disk holds the process that writes the past and the state: it ends when the disk answers", "pid", p.cmd.Process.Pid, "try", store.TrySlow)
	return ErrStuck
}

func (p *process) endsWithin(span time.Duration) bool {
	late := time.NewTimer(span)
	defer late.Stop()
	select {
	case <-p.ended:
		return true
	case <-late.C:
		return false
	}
}

// Serve is the other process: it does what calls ask for until the one that started it ends, and returns its exit code.
func Serve(args []string) int {
	// One page of arguments: the command, whose process it is, and the folder.
	owner, err := strconv.Atoi(args[2])
	control, connErr := connOf(controlFD)
	if err := errors.Join(err, connErr); err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhy: gpuwhy itself starts this command:", err)
		return 2
	}
	// A terminal and systemd signal all processes of a service: this one ends after what is written last.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_ = os.WriteFile("/proc/self/comm", []byte("gpuwhy"), 0) // else it is "exe"
	if os.Getenv("GOMEMLIMIT") == "" || debug.SetMemoryLimit(-1) > memoryLimit {
		debug.SetMemoryLimit(memoryLimit)
	}
	keep.OnBehalfOf(owner)
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go ownfile.Run(context.Background(), log)
	s := &server{local: &local{dir: args[3], log: log}, log: log, begun: map[string]uint64{}}
	rights := make([]byte, syscall.CmsgSpace(4))
	for {
		_, n, _, _, err := control.ReadMsgUnix(make([]byte, 1), rights)
		if err != nil || n == 0 {
			return 0 // the one that started it has ended, or wants it to
		}
		messages, err := syscall.ParseSocketControlMessage(rights[:n])
		if err != nil {
			continue
		}
		for _, m := range messages {
			fds, err := syscall.ParseUnixRights(&m)
			for _, fd := range fds {
				syscall.CloseOnExec(fd)
				if conn, failed := connOf(fd); failed == nil {
					go s.converse(conn)
				} else {
					err = failed
				}
			}
			if err != nil {
				log.Error("a connection can't be taken", "err", err)
			}
		}
	}
}
