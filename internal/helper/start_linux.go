package helper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	command   = "helper" // with which the program starts itself; the name, whose helper it is and its arguments follow
	controlFD = 3        // on which a helper gets its connections
	// pause is between two starts, and patience how long a helper has to take a connection, or to end after it was killed.
	pause, patience = time.Second, time.Second
	toBegin         = 5 * time.Second // how long a process may take to begin
)

// A Helper is a process that is started when first needed. Its methods may be called concurrently.
type Helper struct {
	name string
	args []string
	log  *slog.Logger

	mu      sync.Mutex
	process *Process // nil: there is none now
	started time.Time
	closed  bool
}

// New returns a helper with a name, see [Run]. It has no process before [Helper.Running].
func New(name string, args []string, log *slog.Logger) *Helper {
	return &Helper{name: name, args: args, log: log}
}

// A Process is one that runs, or did.
type Process struct {
	cmd     *exec.Cmd
	control *net.UnixConn
	ended   chan struct{}
}

// Running returns the process and starts it if needed. It is not started twice within a second: the error is then
// [ErrEnded].
func (h *Helper) Running() (*Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case h.process != nil:
		return h.process, nil
	case time.Since(h.started) < pause:
		return nil, ErrEnded
	}
	h.started = time.Now()
	p, err := h.start()
	if err != nil {
		return nil, withAdvice(err)
	}
	h.process = p
	return p, nil
}

func (h *Helper) start() (*Process, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	// It is this very program, also where another one lies under its name by now.
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args = append([]string{"gpuwhy", command, h.name, strconv.Itoa(os.Getpid())}, h.args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(inherited, name)
	})
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a helper that is stopped sees no socket end
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	p := &Process{cmd: cmd, control: ours, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills a helper when the thread ends that has started it, so that thread is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			said := h.hear(stderr)
			h.over(p, cmd.Wait(), said)
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return p, nil
}

// inherited are the variables of the environment that a helper gets: those of Go's runtime, and none that may be a secret.
var inherited = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "TMPDIR", "TZ"}

// Begin is like [Helper.Running] but waits until the process has begun. An error means that it ended before that: no such
// process can run here, for example because this program was started through the dynamic loader.
func (h *Helper) Begin() (*Process, error) {
	p, err := h.Running()
	if err != nil {
		return nil, err
	}
	err = p.control.SetReadDeadline(time.Now().Add(toBegin))
	if err == nil {
		_, err = p.control.Read(make([]byte, 1))
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // a machine may be slow
		return nil, fmt.Errorf("the helper process %s ended before it started: %w", h.name, err)
	}
	return p, nil
}

// hear logs what the helper logs, until it ends. What else it has written, such as why it crashed, is returned.
func (h *Helper) hear(stderr io.Reader) (said string) {
	var rest strings.Builder
	lines := bufio.NewReader(stderr)
	for {
		line, err := lines.ReadString('\n')
		if !h.tell(line) && rest.Len() < 16<<10 {
			rest.WriteString(line)
		}
		if err != nil {
			return strings.TrimSpace(rest.String())
		}
	}
}

// tell logs a record, if the line is one.
func (h *Helper) tell(line string) bool {
	var attrs map[string]any
	var level slog.Level
	if json.Unmarshal([]byte(line), &attrs) != nil {
		return false
	}
	message, _ := attrs[slog.MessageKey].(string)
	name, _ := attrs[slog.LevelKey].(string)
	if message == "" || level.UnmarshalText([]byte(name)) != nil {
		return false
	}
	for _, key := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(attrs, key)
	}
	var list []any
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		list = append(list, key, attrs[key])
	}
	h.log.Log(context.Background(), level, message, list...) //nolint:sloglint // the message is the helper's
	return true
}

// over is the end of a process.
func (h *Helper) over(p *Process, err error, said string) {
	h.mu.Lock()
	if h.process == p {
		h.process = nil
	}
	closed := h.closed
	h.mu.Unlock()
	close(p.ended)
	_ = p.control.Close() // the other side is gone
	if !closed {
		h.log.Error("a helper process of gpuwhy has ended and is being restarted", "helper", h.name, "err", err, "said", said)
	}
}

// Pid is the number of the process; 0: there is none now.
func (h *Helper) Pid() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.process == nil {
		return 0
	}
	return h.process.cmd.Process.Pid
}

// Close ends the process: it is asked to end, and killed after the given time. Close returns [ErrStuck] if it does not end
// even then. No process is started any more.
func (h *Helper) Close(within time.Duration) error {
	h.mu.Lock()
	p := h.process
	h.closed = true
	h.mu.Unlock()
	if p == nil {
		return nil
	}
	_ = p.control.Close() // on which it ends
	if p.endsWithin(within) {
		return nil
	}
	_ = p.cmd.Process.Kill() // it may have ended
	if p.endsWithin(patience) {
		return nil
	}
	h.log.Warn("a helper process of gpuwhy is stuck on the disk: it ends when the disk answers", "helper", h.name, "pid", p.cmd.Process.Pid,
		"try", "check the disk; if a backup has frozen the file system, thaw it (fsfreeze -u)")
	return ErrStuck
}

// Cost is the resident memory of a process, in bytes, and the processor time that it has used.
func Cost(pid int) (resident int64, cpu time.Duration, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, err
	}
	// Numbered as in proc_pid_stat(5); the first after the name, which ends with the last parenthesis, is 3.
	const first, user, system, pages = 3, 14, 15, 24
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= pages-first {
		return 0, 0, fmt.Errorf("the stat of process %d is short", pid)
	}
	var ticks int64
	for number, value := range map[int]*int64{user: &ticks, system: &ticks, pages: &resident} {
		n, err := strconv.ParseInt(fields[number-first], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		*value += n
	}
	const ofSecond = 100 // ticks, on every Linux that Go runs on
	return resident * int64(os.Getpagesize()), time.Duration(ticks) * time.Second / ofSecond, nil
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// looks is how often it is looked whether a process has ended: of the time in which this one is stopped, one look passes at most.
const looks = 10

func (p *Process) endsWithin(span time.Duration) bool {
	passes := time.NewTicker(max(span/looks, 1))
	defer passes.Stop()
	for range looks {
		select {
		case <-p.ended:
			return true
		case <-passes.C:
		}
	}
	return false
}

// Dial returns a new connection to the process.
func (p *Process) Dial() (net.Conn, error) {
	ours, theirs, err := pair()
	if err != nil {
		return nil, withAdvice(err)
	}
	defer theirs.Close()
	if err = p.control.SetWriteDeadline(time.Now().Add(patience)); err == nil {
		_, _, err = p.control.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(theirs.Fd())), nil) //nolint:gosec // a descriptor
	}
	if err != nil {
		_ = ours.Close() // nothing was written
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, ErrSlow
		}
		return nil, ErrEnded
	}
	return ours, nil
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
	if file == nil {
		return nil, fmt.Errorf("there is no descriptor %d", fd)
	}
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("it is not a Unix socket"), conn.Close())
	}
	return unix, nil
}

func withAdvice(err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return exhausted(err)
	}
	return err
}

// A Task is the job that a helper was started for.
type Task struct {
	Args    []string
	Owner   int // the process that has started it
	Log     *slog.Logger
	control *net.UnixConn
}

// Asked reports whether a program's arguments are those of a helper.
func Asked(args []string) bool { return len(args) >= 4 && args[1] == command }

// Run runs the helper that a program's arguments ask for. It returns its exit code.
func Run(args []string, tasks map[string]func(*Task)) int {
	task := tasks[args[2]]
	owner, err := strconv.Atoi(args[3])
	control, failed := connOf(controlFD)
	if task == nil || err != nil || failed != nil {
		fmt.Fprintln(os.Stderr, "gpuwhy: only gpuwhy itself may start its helpers")
		return 2
	}
	// A terminal and systemd signal all processes of a service: helpers end when the one ends that has started them.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = control.Write([]byte{0})                          // see [Helper.Begin]; whoever has started this may have ended
	_ = os.WriteFile("/proc/self/comm", []byte("gpuwhy"), 0) // else it is "exe"
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		each, _ := Share(limit, 1)
		debug.SetMemoryLimit(each)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	task(&Task{Args: args[4:], Owner: owner, Log: log, control: control})
	return 0
}

// Accept returns the next connection. An error means that the helper should end.
func (t *Task) Accept() (net.Conn, error) {
	rights := make([]byte, syscall.CmsgSpace(4))
	for {
		n, size, _, _, err := t.control.ReadMsgUnix(make([]byte, 1), rights)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.EOF
		}
		conn, err := received(rights[:size])
		if err == nil {
			return conn, nil
		}
		t.Log.Error("a connection can't be accepted", "err", err)
	}
}

func received(rights []byte) (net.Conn, error) {
	if len(rights) == 0 {
		return nil, exhausted(syscall.EMFILE) // the kernel leaves out what does not fit
	}
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("%d control messages", len(messages))
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	if len(fds) != 1 {
		return nil, fmt.Errorf("%d descriptors", len(fds))
	}
	syscall.CloseOnExec(fds[0])
	return connOf(fds[0])
}
