//go:build !race

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// binary is the real program, which the tests drive. TestMain builds it.
var binary string

// racedBinary is the same program with the race detector, for tests with much concurrency. The first of them builds it, with
// the flags of make test.
var racedBinary = sync.OnceValues(func() (string, error) {
	path := binary + "-race"
	return path, buildProgram(path, "-race", "-gcflags=modernc.org/...=-race=false")
})

func buildProgram(path string, flags ...string) error {
	args := append(append([]string{"build", "-o", path}, flags...), ".")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

func TestMain(m *testing.M) {
	if helper.Asked(os.Args) { // of a part of the program that a test runs by itself
		os.Exit(helper.Run(os.Args, helperTasks))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gpuwhy-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		for name, value := range map[string]string{
			// What the drivers of the machine that tests have written is no part of a test, nor what another program keeps.
			"GPUWHY_KERNEL_LOG": os.DevNull, "GPUWHY_STATE_DIR": nowhere,
			// The programs of tests may stand still for seconds, and their devices and disks are well all the same. A test of
			// ones that are not gives a deadline of its own.
			"GPUWHY_DEADLINE": "1m", "GPUWHY_ACCOUNTS_DEADLINE": "1m",
		} {
			if err := os.Setenv(name, value); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		defer browser.Close()
		binary = filepath.Join(dir, "gpuwhy")
		if err := buildProgram(binary); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// program is a running gpuwhy.
type program struct {
	t   testing.TB
	cmd *exec.Cmd
	url string // ends with a slash
	log *logBuffer
	end chan error
}

// logBuffer collects what a program writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// await waits until the program has written the text.
func (b *logBuffer) await(t testing.TB, text string) {
	t.Helper()
	testkit.Until(t, fmt.Sprintf("it writes %q", text), func() bool { return strings.Contains(b.String(), text) }, b)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs gpuwhy on a free port with the given environment in addition to our
// own, and waits until it prints its address. It ends with the test.
func start(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	return launch(t, gpuwhy(env, onFreePort(args)...))
}

// startRaced is like start, with the race detector. The test fails if the detector finds anything.
func startRaced(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	path, err := racedBinary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := gpuwhy(env, onFreePort(args)...)
	cmd.Path, cmd.Args[0] = path, path
	return launch(t, cmd)
}

// A starter is start or startRaced.
type starter func(t testing.TB, env []string, args ...string) *program

// owner is the name of whoever runs the tests, whom programs of the tests know as their owner.
func owner() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("user ", os.Getuid())
}

func onFreePort(args []string) []string {
	if strings.Contains(strings.Join(args, " "), "--listen") {
		return args
	}
	return append(args, "--listen", "127.0.0.1:0")
}

func gpuwhy(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	// The race detector would wait a second before it lets a program end.
	cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), env...)
	return cmd
}

// background starts a gpuwhy that serves nothing. It ends with the test.
func background(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: gpuwhy(env, args...), log: &logBuffer{}, end: make(chan error, 1)}
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.attend()
	return p
}

// launch starts a command that serves.
func launch(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, log: &logBuffer{}, end: make(chan error, 1)}
	p.cmd.Stderr = p.log
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	p.attend()
	if err != nil {
		t.Fatalf("gpuwhy did not say where it listens: %v\n%s", err, p.log)
	}
	_, p.url, _ = strings.Cut(strings.TrimSpace(line), ": ")
	return p
}

// attend waits for the end of a started program, which ends with the test at the latest.
func (p *program) attend() {
	go func() { p.end <- p.cmd.Wait() }()
	p.t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.stop(syscall.SIGKILL) // it ends as one that was killed
		}
		if strings.Contains(p.log.String(), "DATA RACE") {
			p.t.Error("the program has a data race")
		}
		if p.t.Failed() {
			p.t.Logf("gpuwhy said:\n%s", p.log)
		}
	})
}

// stop sends a signal, waits for the end of the program and returns how it
// ended.
func (p *program) stop(signal os.Signal) error {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
	return testkit.Receive(p.t, fmt.Sprint("it ends after the signal ", signal), p.end)
}

// kill ends the program as a power cut would.
func (p *program) kill() {
	p.t.Helper()
	if err := p.stop(syscall.SIGKILL); err == nil {
		p.t.Error("a program that was killed has ended well")
	}
}

// reload sends the signal that makes gpuwhy reread the alert rules.
func (p *program) reload() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
}

// get requests a path and decodes the answer; it returns the status.
func (p *program) get(path string, into any) int {
	p.t.Helper()
	answer, body := p.fetch(path, nil)
	if into != nil {
		if err := json.Unmarshal(body, into); err != nil {
			p.t.Fatalf("GET %s: %v\n%s", path, err, body)
		}
	}
	return answer.StatusCode
}

func (p *program) fetch(path string, header http.Header) (*http.Response, []byte) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.url, "/")+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	maps.Copy(request.Header, header)
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		p.t.Fatalf("GET %s: %v\n%s", path, err, p.log)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer, body
}

// await reads snapshots from a socket until one satisfies the condition, and
// returns it.
func (p *program) await(what string, condition func(contract.Update) bool) contract.Update {
	p.t.Helper()
	v := p.dial()
	defer v.stream.Close() // so that nobody looks on
	return v.await(what, condition)
}

// reads polls the newest reading until it satisfies a condition, and returns it. If the next reading is an hour away, a viewer might
// connect after the reading that it waits for.
func (p *program) reads(what string, condition func(contract.Update) bool) (u contract.Update) {
	p.t.Helper()
	testkit.Until(p.t, what, func() bool {
		u = contract.Update{}
		return p.get("/api/gpu/metrics", &u) == http.StatusOK && condition(u)
	}, func() any { return u })
	return u
}

// viewer is a client of /ws. It reads each message at once, as a page does, since the hub drops viewers that don't.
type viewer struct {
	t      testing.TB
	stream *client.Stream
	come   chan arrival
}

// An arrival is a message, or the end of the connection.
type arrival struct {
	client.Message
	err error
}

// mostUnread is how many messages may wait for a test to read them: more than arrive while it runs.
const mostUnread = 1 << 14

// client asks the program.
func (p *program) client(o client.Options) *client.Client {
	p.t.Helper()
	c, err := client.New(p.url, o)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

func (p *program) dial() *viewer {
	p.t.Helper()
	v, err := p.view(client.Options{})
	if err != nil {
		p.t.Fatalf("dial: %v", err)
	}
	return v
}

func (p *program) view(o client.Options) (*viewer, error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	stream, err := p.client(o).Dial(ctx, "")
	if err != nil {
		return nil, err
	}
	v := &viewer{p.t, stream, make(chan arrival, mostUnread)}
	ended := make(chan struct{})
	p.t.Cleanup(func() {
		stream.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			m, err := stream.Next(context.Background()) // until it is closed
			v.come <- arrival{m, err}
			if err != nil {
				return
			}
		}
	}()
	return v, nil
}

// message returns the next message.
func (v *viewer) message() (client.Message, error) {
	v.t.Helper()
	a := testkit.Receive(v.t, "a message", v.come)
	return a.Message, a.err
}

// next returns the next message with an event, and skips others.
func (v *viewer) next(event string, into any) client.Message {
	v.t.Helper()
	for {
		m, err := v.message()
		if err != nil {
			v.t.Fatalf("waiting for %s: %v", event, err)
		}
		if m.Event != event {
			continue
		}
		if into != nil {
			if err := m.Decode(into); err != nil {
				v.t.Fatalf("%v\n%s", err, m.Data)
			}
		}
		return m
	}
}

func (v *viewer) send(text string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := v.stream.SendText(ctx, text); err != nil {
		v.t.Fatal(err)
	}
}

func (v *viewer) await(what string, condition func(contract.Update) bool) (u contract.Update) {
	v.t.Helper()
	for late := time.After(testkit.Patience); ; {
		u = contract.Update{}
		if v.next("gpu_status_update", &u); condition(u) {
			return u
		}
		select {
		case <-late:
			v.t.Fatalf("in no snapshot %s; the last:\n%+v", what, u)
		default:
		}
	}
}

// request asks for a reading now, and returns it. It passes readings that arrive earlier to each.
func (v *viewer) request(id string, each ...func(contract.Update)) (u contract.Update) {
	v.t.Helper()
	refused := ""
	testkit.Until(v.t, "the answer to request_gpu_update", func() bool {
		v.send(fmt.Sprintf(`{"event":"request_gpu_update","id":%q}`, id))
		for {
			m, err := v.message()
			if err != nil {
				v.t.Fatal(err)
			}
			answers := string(m.ID) == strconv.Quote(id)
			switch {
			case m.Event == "gpu_status_update":
				u = contract.Update{}
				if err := m.Decode(&u); err != nil {
					v.t.Fatal(err)
				}
				if answers {
					return true
				}
				for _, f := range each {
					f(u)
				}
			case answers: // it was asked for too often
				refused = string(m.Data)
				return false
			}
		}
	}, func() string { return refused })
	return u
}

// machine is a fake driver with GPUs, and the arguments that make gpuwhy use it.
// It needs no made-up /sys, since the bus addresses are not found in this
// machine's.
func machine(t testing.TB, gpus ...fakenvml.GPU) (*fakenvml.Library, *fakenvml.Machine) {
	t.Helper()
	lib := fakenvml.Build(t)
	return lib, lib.Machine(t, gpus...)
}

// value returns the number of a reading, as on the wire.
func value[T ~float64 | gpu.Bytes](t testing.TB, what string, r gpu.Reading[T]) float64 {
	t.Helper()
	v, ok := r.Get()
	if !ok {
		t.Fatalf("%s is null", what)
	}
	if amount, ok := any(v).(gpu.Bytes); ok {
		return amount.MiB()
	}
	return float64(v)
}

// moment returns a time as on the wire; zero for null.
func moment(t testing.TB, text *string) time.Time {
	t.Helper()
	if text == nil {
		return time.Time{}
	}
	parsed, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
