//go:build !race

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// mount mounts one of the kernel's file systems until the test ends. Only root may do that.
func mount(t *testing.T, kind, options string) (dir string) {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	dir = t.TempDir()
	if err := syscall.Mount("gpuwhy-test", dir, kind, 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp writes a file that fills the disk.
func fillUp(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 16, 4096, 1} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func (p *program) silence() (status int, made contract.Silence) {
	p.t.Helper()
	status = p.ask(http.MethodPost, "/api/silences", `{"rule":"ecc","duration_seconds":3600}`, &made)
	return status, made
}

// Two programs never write to the same state directory.
func TestStateDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, nil, "--source=simulate:rtx-4090", "--state-dir="+dir)
	again := command(t, nil, "serve", "--source=simulate:rtx-4090", "--listen=127.0.0.1:0", "--state-dir="+dir)
	if again.code != exitError || !strings.Contains(again.stderr, "another gpuwhy, process ") || !strings.Contains(again.stderr, "its own --state-dir") {
		t.Errorf("the second one: %+v", again)
	}
	first.kill()
	start(t, nil, "--source=simulate:rtx-4090", "--state-dir="+dir) // a lock dies with its program
}

// An acknowledgment is on disk, whatever happens next.
func TestWhatIsAcknowledgedSurvivesAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := func() *program { return start(t, nil, "--source=simulate:rtx-4090", "--state-dir="+dir) }
	silences := func(p *program) (list contract.Silences) {
		p.get("/api/silences", &list)
		return list
	}
	p := begin()
	for round := range 3 {
		status, made := p.silence()
		if status != http.StatusCreated {
			t.Fatalf("status %d", status)
		}
		p.kill()
		p = begin()
		if list := silences(p); len(list.Silences) != 1 || list.Silences[0].ID != made.ID {
			t.Fatalf("round %d: after the kill there are %+v, and there was %+v", round, list, made)
		}
		if status := p.ask(http.MethodDelete, "/api/silences/"+made.ID, "", nil); status != http.StatusNoContent {
			t.Fatalf("status %d", status)
		}
		p.kill()
		p = begin()
		if list := silences(p); len(list.Silences) != 0 {
			t.Fatalf("round %d: a silence that was ended came back: %+v", round, list)
		}
	}
}

// While the disk is full, answers, health, metrics and the log say so, and actions are refused, since they can't be recorded. Once there is
// space again, all is as before.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	dir := mount(t, "tmpfs", "size=256k")
	lib, m := machine(t, fakenvml.RTX4090())
	args := []string{fast, "--history=off", "--state-dir=" + dir, "--alert-rules=" + rulesFile(t, hotRules)}
	p := start(t, lib.Env(), args...)
	p.await("it reads", func(u contract.Update) bool { return u.Devices == 1 })
	health := func() (h contract.MonitorHealth) {
		p.get("/api/health", &h)
		return h
	}
	full := filepath.Join(dir, "full")
	fillUp(t, full)
	if status, made := p.silence(); status != http.StatusServiceUnavailable || made.ID != "" {
		t.Errorf("on a full disk, where nothing can be recorded: %d, %+v", status, made)
	}
	m.GPU(0).Set(fakenvml.Temperature, 88) // an alert fires, which is to be written
	p.log.await(t, "a restart would lose changes")
	h := health()
	if h.Status != "degraded" || h.Parts["state"].State != "failed" || h.Parts["audit"].State != "failed" {
		t.Errorf("on a full disk: %+v", h)
	}
	if _, text := p.fetch("/metrics", nil); !regexp.MustCompile(`(?m)^gpuwhy_state_write_failing\{.*\} 1$`).Match(text) {
		t.Error("no metric says so")
	}
	if _, page := p.fetch("/alerts", nil); !strings.Contains(string(page), "a restart would lose them") {
		t.Error("the page of alerts does not say so")
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	p.log.await(t, "a restart no longer loses anything")
	testkit.Until(t, "its health is good", func() bool {
		h = health()
		return h.Parts["state"].State == "ok" && h.Parts["audit"].State == "ok"
	}, func() any { return h })
	made := silenced(p, http.StatusCreated)
	p.kill()
	p = start(t, lib.Env(), args...)
	var list contract.Silences
	if p.get("/api/silences", &list); len(list.Silences) != 1 || list.Silences[0].ID != made {
		t.Errorf("after the restart: %+v", list)
	}
}

// Pipes that nobody writes to, in place of files, delay neither the start nor
// signals.
func TestPipesInPlaceOfFiles(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), filepath.Join(t.TempDir(), "address")
	for _, name := range []string{"alerts", "notifications", "floors", "baselines", "recent"} {
		if err := syscall.Mkfifo(filepath.Join(dir, "simulated-"+name+".json"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(address, []byte("ntfy://127.0.0.1:1/topic"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := rulesFile(t, "targets: [{name: phone, url_file: "+address+"}]")
	p := start(t, nil, "--source=simulate:rtx-4090", "--state-dir="+dir, "--alert-rules="+rules)
	p.await("it reads", func(u contract.Update) bool { return u.Devices == 1 })
	if err := os.Remove(address); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(address, 0o600); err != nil {
		t.Fatal(err)
	}
	p.reload()
	p.log.await(t, "it is not a regular file")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Errorf("at the end: %v", err)
	}
	if again := inside("check-config", "--alert-rules="+rules); again.code != exitUsage || !strings.Contains(again.stderr, "not a regular file") {
		t.Errorf("check-config: %+v", again)
	}
}

// By default, a real machine's state is kept below the user's home. A second program runs without state, and says so.
// A simulation keeps nothing.
func TestTheUsualStateDirectory(t *testing.T) {
	t.Parallel()
	home, own := t.TempDir(), t.TempDir()
	lib, _ := machine(t, fakenvml.RTX4090())
	usual := func(more ...string) []string {
		return append(append(lib.Env(), "GPUWHY_STATE_DIR=", "STATE_DIRECTORY=", "XDG_STATE_HOME=", "HOME="+home), more...)
	}
	state := func(p *program) contract.Part {
		var h contract.MonitorHealth
		p.get("/api/health", &h)
		return h.Parts["state"]
	}
	first := start(t, usual(), fast)
	first.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	if s := state(first); s.State != "ok" {
		t.Errorf("the first: %+v", s)
	}
	if _, err := os.Stat(filepath.Join(home, ".local/state/gpuwhy/lock")); err != nil {
		t.Error(err)
	}
	second := start(t, usual(), fast)
	second.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	if s := state(second); s.State != "failed" || s.LastError == nil || !strings.Contains(*s.LastError, "another gpuwhy, process ") || !strings.Contains(*s.LastError, "--state-dir none") {
		t.Errorf("the second: %+v", s)
	}
	start(t, usual("STATE_DIRECTORY="+own), fast)
	if _, err := os.Stat(filepath.Join(own, "lock")); err != nil {
		t.Error(err)
	}
	if s := state(start(t, usual("HOME="+own), "--source=simulate:rtx-4090")); s.State != "" {
		t.Errorf("a simulation: %+v", s)
	}
}

// A state directory on a mount whose server is gone makes the start fail, but delays neither
// the start nor a signal.
func TestAStateDirectoryThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0) // which never answers
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	dir := mount(t, "fuse", fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd()))
	r := command(t, nil, "serve", "--source=simulate:rtx-4090", "--listen=127.0.0.1:0", "--state-dir="+filepath.Join(dir, "state"))
	if r.code != exitError || !strings.Contains(r.stderr, "does not answer") {
		t.Errorf("%+v", r)
	}
}
