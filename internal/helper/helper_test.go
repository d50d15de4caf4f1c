//go:build linux

package helper_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	if helper.Asked(os.Args) {
		os.Exit(helper.Run(os.Args, map[string]func(*helper.Task){
			"tells": tells, "panics": func(*helper.Task) { panic("of the helper") }, "hangs": func(*helper.Task) { select {} }, "starts": starts, "is full": isFull,
		}))
	}
	os.Exit(m.Run())
}

// tells writes its environment and its arguments to each connection, and logs that.
func tells(t *helper.Task) {
	for {
		conn, err := t.Accept()
		if err != nil {
			return
		}
		text := strings.Join(append(append(os.Environ(), fmt.Sprint("limit ", debug.SetMemoryLimit(-1))), t.Args...), "\n")
		if _, err := io.WriteString(conn, text); err != nil {
			t.Log.Error("nobody listens", "err", err)
		}
		t.Log.Warn("told", "owner", t.Owner, "bytes", len(text))
		_ = conn.Close() // it is written
	}
}

// starts starts a helper of its own, and writes its number to the first connection.
func starts(t *helper.Task) {
	h := helper.New("hangs", nil, t.Log)
	if _, err := h.Begin(); err != nil {
		t.Log.Error("no helper", "err", err)
	}
	if conn, err := t.Accept(); err == nil {
		fmt.Fprintln(conn, h.Pid())
	}
	select {}
}

// isFull can take no connection at first, since it may open no file. Then it does what tells does.
func isFull(t *helper.Task) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Log.Error("no limit", "err", err)
	}
	few := limit
	few.Cur = 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Log.Error("no limit", "err", err)
	}
	log := t.Log
	t.Log = slog.New(again{log.Handler(), limit})
	tells(t)
	log.Warn("no more connections")
}

// again is a log that lets a process open files again once it is told of one that it could not open.
type again struct {
	slog.Handler
	limit syscall.Rlimit
}

func (a again) Handle(ctx context.Context, r slog.Record) error {
	return errors.Join(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &a.limit), a.Handler.Handle(ctx, r))
}

// A buffer takes what is logged.
type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func says(t *testing.T, log *buffer, text string) {
	t.Helper()
	testkit.Until(t, "the log says "+text, func() bool { return strings.Contains(log.String(), text) }, log)
}

// A helper gets connections, its arguments and no secrets; what it logs is in the log of the program, and what it costs is known.
func TestHelper(t *testing.T) {
	t.Setenv("GPUWHY_SECRET", "hunter2")
	t.Setenv("GOOGLE_API_KEY", "hunter2")
	t.Setenv("GOGC", "73")
	t.Setenv("GOMEMLIMIT", "400MiB") // of which a helper has a quarter
	var log buffer
	h := helper.New("tells", []string{"an argument"}, slog.New(slog.NewTextHandler(&log, nil)))
	p, err := h.Running()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, err := p.Dial()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
		if s := string(text); strings.Contains(s, "hunter2") || !strings.Contains(s, "GOGC=73") || !strings.Contains(s, "limit 104857600\n") || !strings.HasSuffix(s, "an argument") {
			t.Errorf("it was given %q", s)
		}
	}
	says(t, &log, "level=WARN msg=told bytes=")
	says(t, &log, "owner=")
	if resident, _, err := helper.Cost(h.Pid()); err != nil || resident < 1<<20 {
		t.Errorf("it has %d bytes, %v", resident, err)
	}
	if err := h.Close(testkit.Patience); err != nil {
		t.Error(err)
	}
	if _, err := h.Running(); !errors.Is(err, helper.ErrClosed) {
		t.Errorf("after its end: %v", err)
	}
	if strings.Contains(log.String(), "has ended") {
		t.Errorf("an end that was asked for is told as a fault:\n%s", log.String())
	}
}

// What people allow gpuwhy is for all its processes together.
func TestShare(t *testing.T) {
	for helpers := range 4 {
		if each, rest := helper.Share(400, helpers); each*int64(helpers)+rest != 400 || rest < each {
			t.Errorf("with %d helpers each has %d, and the program %d of 400", helpers, each, rest)
		}
	}
}

// Why a helper has crashed is logged, and it can be started again.
func TestCrash(t *testing.T) {
	t.Parallel()
	var log buffer
	h := helper.New("panics", nil, slog.New(slog.NewTextHandler(&log, nil)))
	defer h.Close(0)
	if _, err := h.Running(); err != nil {
		t.Fatal(err)
	}
	says(t, &log, "panic: of the helper")
	testkit.Until(t, "it is started again", func() bool {
		_, err := h.Running()
		return err == nil
	})
}

// One that does not end when it is told to is killed.
func TestKilled(t *testing.T) {
	t.Parallel()
	h := helper.New("hangs", nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	p, err := h.Running()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(time.Millisecond); err != nil && !errors.Is(err, helper.ErrStuck) { // a machine may be slow to kill it
		t.Error(err)
	}
	testkit.Receive(t, "its end", p.Ended())
}

// A process that ends before it begins is none to count on.
func TestBegin(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler) // an end may be told after the test
	for _, tt := range []struct {
		name   string
		begins bool
	}{{"hangs", true}, {"nobody knows this one", false}} {
		h := helper.New(tt.name, nil, log)
		if _, err := h.Begin(); (err == nil) != tt.begins {
			t.Errorf("%s: %v", tt.name, err)
		}
		_ = h.Close(0) // a machine may be slow to kill it
	}
}

// A helper ends with the program that has started it, however both are stopped before: it would have its locks for ever.
func TestAStoppedHelperEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	h := helper.New("starts", nil, slog.New(slog.DiscardHandler)) // its end may be told after the test
	p, err := h.Running()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := p.Dial()
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	inner, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Kill(inner, syscall.SIGSTOP), syscall.Kill(h.Pid(), syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end of the program", p.Ended())
	testkit.Until(t, "the end of its helper", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", inner))
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may ask how it ended
	})
}

// A helper that may open no more files refuses a connection, and stays.
func TestNoFileDescriptorIsLeft(t *testing.T) {
	t.Parallel()
	var log buffer
	h := helper.New("is full", nil, slog.New(slog.NewTextHandler(&log, nil)))
	p, err := h.Begin()
	if err != nil {
		t.Fatal(err)
	}
	ask := func() string {
		conn, err := p.Dial()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := ask(); text != "" {
		t.Errorf("it says %q", text)
	}
	says(t, &log, "gpuwhy has no file descriptor left")
	if ask() == "" {
		t.Error("it says nothing later")
	}
	if err := h.Close(testkit.Patience); err != nil {
		t.Error(err)
	}
}
