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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// The tests drive the real program. TestMain builds it once, with the race
// detector if the tests have it.
var (
	binary     string
	buildFlags []string
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gpuwhy-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// What the drivers of the machine that tests have written is no part of a test.
		// Nor is what another program keeps.
		if err := errors.Join(os.Setenv("GPUWHY_KERNEL_LOG", os.DevNull), os.Setenv("GPUWHY_STATE_DIR", nowhere)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer browsertest.Close()
		binary = filepath.Join(dir, "gpuwhy")
		args := append([]string{"build", "-o", binary}, buildFlags...)
		if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// patience ends a wait for something that does not happen. It is no expectation
// of how long something takes: a test must also pass on a busy machine.
const patience = 3 * time.Minute

// program is a gpuwhy that runs.
type program struct {
	t   testing.TB
	cmd *exec.Cmd
	url string // ends with a slash
	log *logBuffer
	end chan error
}

// logBuffer collects what a program writes.
type logBuffer struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	grown chan struct{} // closed by the next Write; nil where nobody waits
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown != nil {
		close(b.grown)
		b.grown = nil
	}
	return b.buf.Write(p)
}

// await waits until the program has written the text.
func (b *logBuffer) await(t testing.TB, text string) {
	t.Helper()
	late := time.After(patience)
	for {
		b.mu.Lock()
		if strings.Contains(b.buf.String(), text) {
			b.mu.Unlock()
			return
		}
		if b.grown == nil {
			b.grown = make(chan struct{})
		}
		grown := b.grown
		b.mu.Unlock()
		select {
		case <-grown:
		case <-late:
			t.Fatalf("it did not write %q:\n%s", text, b)
		}
	}
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs gpuwhy on a free port with the environment given beside our own,
// and waits until it says where it is. It ends with the test.
func start(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	return launch(t, gpuwhy(env, args...))
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

// launch is start of a command that serves.
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

// attend waits for the end of a program that was started, which comes with that of the test.
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
	select {
	case err := <-p.end:
		return err
	case <-time.After(patience):
		_ = p.cmd.Process.Kill() // the test has failed already
		p.t.Fatalf("it did not end after %v", signal)
		return nil
	}
}

// get asks for a path and decodes the answer; it returns the status.
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
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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

// await reads snapshots as they come over the socket until one satisfies the
// condition, and returns it.
func (p *program) await(what string, condition func(contract.Update) bool) contract.Update {
	p.t.Helper()
	v := p.dial()
	defer v.conn.CloseNow() // so that nobody looks on
	return v.await(what, condition)
}

// viewer is a client of /ws.
type viewer struct {
	t    testing.TB
	conn *websocket.Conn
}

type message struct {
	Event string          `json:"event"`
	ID    json.RawMessage `json:"id"`
	Data  json.RawMessage `json:"data"`
}

func (p *program) dial() *viewer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http")+"ws", nil)
	if err != nil {
		p.t.Fatalf("dial: %v", err)
	}
	conn.SetReadLimit(64 << 20)
	p.t.Cleanup(func() { conn.CloseNow() })
	return &viewer{p.t, conn}
}

func (v *viewer) read() (message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, data, err := v.conn.Read(ctx)
	if err != nil {
		return message{}, err
	}
	var m message
	return m, json.Unmarshal(data, &m)
}

// next returns the next message of an event, whatever comes between.
func (v *viewer) next(event string, into any) message {
	v.t.Helper()
	for {
		m, err := v.read()
		if err != nil {
			v.t.Fatalf("waiting for %s: %v", event, err)
		}
		if m.Event != event {
			continue
		}
		if into != nil {
			if err := json.Unmarshal(m.Data, into); err != nil {
				v.t.Fatalf("%s: %v\n%s", event, err, m.Data)
			}
		}
		return m
	}
}

func (v *viewer) send(text string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := v.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		v.t.Fatal(err)
	}
}

func (v *viewer) await(what string, condition func(contract.Update) bool) contract.Update {
	v.t.Helper()
	deadline := time.Now().Add(patience)
	var u contract.Update
	for time.Now().Before(deadline) {
		v.next("gpu_status_update", &u)
		if condition(u) {
			return u
		}
	}
	v.t.Fatalf("no snapshot in %v in which %s; the last:\n%+v", patience, what, u)
	return u
}

// machine is a fake driver with GPUs, and the arguments that make gpuwhy use
// it: its made-up /sys instead of this machine's is not needed, since the
// addresses on the bus are not found there.
func machine(t testing.TB, gpus ...fakenvml.GPU) (*fakenvml.Library, *fakenvml.Machine) {
	t.Helper()
	lib := fakenvml.Build(t)
	return lib, lib.Machine(t, gpus...)
}

// value is the number of a reading, as on the wire.
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
