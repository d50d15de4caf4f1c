//go:build !race

package main

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	past "github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// aSimulation starts a program that keeps its past in a folder.
func aSimulation(t *testing.T, dir string, more ...string) *program {
	t.Helper()
	return start(t, nil, append([]string{"--source=simulate:rtx-4090", fast, "--state-dir=" + dir}, more...)...)
}

// fails waits until the past can't be written. Health, the page and answers say why and what to do, and readings go on.
func (p *program) fails(why string) {
	p.t.Helper()
	if part := p.part("history", "failed", why); !strings.Contains(*part.LastError, "nothing lost so far") {
		p.t.Errorf("it says %q", *part.LastError)
	}
	var h contract.MonitorHealth
	testkit.Until(p.t, "the program says that it is degraded", func() bool {
		p.get("/api/health", &h) // which is "starting" at first
		return h.Status == "degraded" && h.Reason != ""
	}, func() any { return h })
	if _, page := p.fetch("/past", nil); !strings.Contains(string(page), "The past can&#39;t be written") {
		p.t.Error("the page does not say so")
	}
	p.goesOn()
}

// goesOn waits for a newer reading.
func (p *program) goesOn() {
	p.t.Helper()
	var first uint64
	p.await("there is a newer reading", func(u contract.Update) bool {
		first = cmp.Or(first, u.Seq)
		return u.Seq > first
	})
}

// silenced is a program with one silence.
func silenced(p *program, want ...int) string {
	p.t.Helper()
	status, made := p.silence()
	if !slices.Contains(want, status) {
		p.t.Errorf("a silence: status %d, want one of %d", status, want)
	}
	return made.ID
}

// killAndLook kills a program, restarts it, and makes sure that the silence is still there.
func killAndLook(p *program, dir, silence string) *program {
	p.t.Helper()
	p.kill()
	t, ok := p.t.(*testing.T)
	if !ok {
		p.t.Fatal("not in a test")
	}
	next := aSimulation(t, dir)
	var list contract.Silences
	if next.get("/api/silences", &list); len(list.Silences) != 1 || list.Silences[0].ID != silence {
		p.t.Errorf("after a kill there are %+v, want %s", list.Silences, silence)
	}
	return next
}

// While the disk is full, readings wait. Once there is space again, all of them are written.
func TestThePastOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := mount(t, "tmpfs", "size=12m")
	p := aSimulation(t, dir)
	p.remembered()
	full := filepath.Join(dir, "full")
	fillUp(t, full)
	p.fails("is full")
	silence := silenced(p, http.StatusServiceUnavailable, http.StatusAccepted, http.StatusCreated) // which may fit into what the files have
	if status := p.get("/api/gpu/sessions", nil); status != http.StatusOK {
		t.Errorf("what is there can't be asked for: %d", status)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	p.remembered()
	p.whole(0)
	p.part("state", "ok")
	if silence == "" {
		p.part("audit", "ok")
		silence = silenced(p, http.StatusCreated)
	}
	killAndLook(p, dir, silence)
}

// A disk that is full at the start does no lasting harm either: once there is space, the past is kept.
func TestAFullDiskAtTheStart(t *testing.T) {
	t.Parallel()
	dir := mount(t, "tmpfs", "size=1m")
	full := filepath.Join(dir, "full")
	if err := os.WriteFile(full, make([]byte, 1<<20-64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	p := aSimulation(t, dir)
	p.fails("is full")
	if err := errors.Join(os.Remove(full), syscall.Mount("gpuwhy-test", dir, "tmpfs", syscall.MS_REMOUNT, "size=12m")); err != nil {
		t.Fatal(err)
	}
	p.remembered()
	p.whole(0)
	killAndLook(p, dir, silenced(p, http.StatusCreated))
}

// sqlite opens the database as another program would.
func database(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, historyFile)+"?_pragma=busy_timeout(60000)") // the program may be writing
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func do(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Another program that writes to the file delays only the past.
func TestALockedPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir)
	p.remembered()
	other := database(t, dir)
	do(t, other, "BEGIN IMMEDIATE")
	p.fails("another program has")
	silence := silenced(p, http.StatusAccepted)
	if status := p.get("/api/gpu/sessions", nil); status != http.StatusOK {
		t.Errorf("what is there can't be asked for: %d", status)
	}
	do(t, other, "ROLLBACK")
	p.remembered()
	p.whole(0)
	p.part("state", "ok")
	killAndLook(p, dir, silence)
}

// nobody is a user who is subject to file modes.
const nobody = 65534

// publicDir is a folder of the test that other users may enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asNobody starts the program as a user who is subject to file modes.
func asNobody(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		return exec.CommandContext(t.Context(), binary, args...)
	}
	public := filepath.Join(publicDir(t), "gpuwhy")
	if err := testkit.CopyProgram(public, binary); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), public, args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "GORACE=atexit_sleep_ms=0"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

// gpuwhy reports a file that it may not write to, and uses it as soon as it may.
func TestAReadOnlyPast(t *testing.T) {
	t.Parallel()
	dir := publicDir(t)
	file := filepath.Join(dir, historyFile)
	if err := errors.Join(os.WriteFile(file, nil, 0o444), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	p := launch(t, asNobody(t, "--listen=127.0.0.1:0", "--source=simulate:rtx-4090", fast, "--state-dir="+dir))
	p.fails("can't be written to")
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	p.remembered()
	p.whole(0)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	cmd := asNobody(t, "--listen=127.0.0.1:0", "--source=simulate:rtx-4090", "--state-dir="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "can't be written to") {
		t.Errorf("a folder that it may not write to: %v: %s", err, out)
	}
}

// If the file is removed while gpuwhy runs, gpuwhy creates a new one with everything that must not be lost.
func TestARemovedPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir)
	p.remembered()
	silence := silenced(p, http.StatusCreated)
	file := filepath.Join(dir, historyFile)
	for _, text := range []string{"", "no database"} { // in its place; "": nothing
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, "there is a new database", func() bool {
			info, err := os.Stat(file)
			return err == nil && info.Size() > int64(len(text))
		})
		var before int
		testkit.Until(t, "the old database is done with", func() bool {
			p.remembered()
			now := p.missing()
			same := now == before
			before = now
			return same
		})
		p.remembered()
		p.whole(before)
		p = killAndLook(p, dir, silence)
		p.remembered()
	}
	if aside, err := filepath.Glob(file + ".damaged-*"); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}

// Damage inside the file is found while gpuwhy runs: the file is set aside, and the new one has everything that must not be lost.
func TestDamageInMidRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir)
	p.remembered()
	silence := silenced(p, http.StatusCreated)
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	db := database(t, dir)
	var pages []int64
	rows, err := db.QueryContext(t.Context(), "SELECT pageno FROM dbstat WHERE name = 'device_raw' AND pagetype = 'leaf'")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var page int64
		if err := rows.Scan(&page); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	file := filepath.Join(dir, historyFile)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(content[16])<<8 | int64(content[17]) // as the header says
	for _, page := range pages {
		copy(content[(page-1)*size:], slices.Repeat([]byte{0xff}, 200))
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	p = aSimulation(t, dir)
	p.log.await(t, "the past is damaged, and begins anew")
	p.remembered()
	aside, err := filepath.Glob(file + ".damaged-*")
	if err != nil || len(aside) == 0 {
		t.Fatalf("set aside: %v, %v", aside, err)
	}
	if kept, err := os.ReadFile(aside[0]); err != nil || len(kept) < len(content) {
		t.Errorf("what is set aside has %d bytes of %d, %v", len(kept), len(content), err)
	}
	p = killAndLook(p, dir, silence)
	p.remembered()
}

// A past of a later version stays as it is: the program runs without a past, and says so.
func TestAPastOfALaterVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir)
	p.remembered()
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	db := database(t, dir)
	do(t, db, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, historyFile))
	if err != nil {
		t.Fatal(err)
	}
	p = aSimulation(t, dir)
	p.fails("version 9999")
	if status := p.get("/api/gpu/sessions", nil); status != http.StatusServiceUnavailable {
		t.Errorf("it answers about the past: %d", status)
	}
	if err := p.stop(syscall.SIGTERM); err == nil { // the state of alerts is not kept
		t.Error("it ends as if all were kept")
	}
	if after, err := os.ReadFile(filepath.Join(dir, historyFile)); err != nil || string(after) != string(before) {
		t.Errorf("the file is changed: %v", err)
	}
}

// die replaces a folder by a disk that never answers, until live is called.
func die(t *testing.T, dir string) (live func()) {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("gpuwhy-test", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(server.Close(), syscall.Unmount(dir, syscall.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	}
}

// A disk that stops answering while gpuwhy runs delays neither readings nor answers. When it answers again, the past goes on.
func TestAPastThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir, recordedSoon)
	p.remembered()
	live := die(t, dir)
	p.fails("is not answering")
	silenced(p, http.StatusServiceUnavailable) // since it can't be recorded
	var all sync.WaitGroup
	for range 3 { // at once, more than there are open readers
		for _, path := range []string{"/api/gpu/sessions", "/api/gpu/history?from=-1h", "/past", "/api/gpu/at", "/api/health"} {
			all.Go(func() {
				// On a busy machine no snapshot may have been written before: then nothing is kept of now.
				codes := []int{http.StatusOK, http.StatusServiceUnavailable, http.StatusNotFound}
				if answer, _ := p.fetch(path, nil); !slices.Contains(codes[:2], answer.StatusCode) && (path != "/api/gpu/at" || answer.StatusCode != codes[2]) {
					t.Errorf("%s: %d", path, answer.StatusCode)
				}
			})
		}
	}
	all.Wait()
	live()
	p.remembered()
	p.whole(0)
	p.part("state", "ok")
	p.part("audit", "ok")
	killAndLook(p, dir, silenced(p, http.StatusCreated))
}

// Nor does it delay the shutdown.
func TestTheEndOfAPastThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := aSimulation(t, dir, recordedSoon)
	p.remembered()
	defer die(t, dir)()
	if err := p.stop(syscall.SIGTERM); err == nil {
		t.Error("it ends as if all were kept")
	}
}

// train runs a program as a user until the test ends.
func train(t *testing.T, uid uint32, args ...string) (pid uint32) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", "while :; do sleep 60; done", "train"}, args...)...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with what it sleeps in
		_ = cmd.Wait()                                      // it ends as one that was killed
	})
	return uint32(cmd.Process.Pid)
}

// framed waits until the sessions of so many processes are stored, and a whole snapshot with their details. It returns the
// snapshot's time.
func (p *program) framed(t *testing.T, processes int) string {
	t.Helper()
	known := func(u *contract.Update) bool {
		return len(u.GPUs) == 1 && len(u.GPUs[0].Processes) == processes &&
			!slices.ContainsFunc(u.GPUs[0].Processes, func(c contract.Process) bool { return c.User == nil })
	}
	p.await("all processes are known", func(u contract.Update) bool { return known(&u) })
	p.remembered()
	var then contract.PastMoment
	testkit.Until(t, "a snapshot has all processes", func() bool {
		return p.get("/api/gpu/at", &then) == http.StatusOK && known(&then.Then)
	}, func() any { return then })
	var list contract.PastSessions
	testkit.Until(t, "each process has a session", func() bool {
		p.get("/api/gpu/sessions?from=10m", &list)
		return len(list.Sessions) == processes
	}, func() any { return list })
	return then.Found
}

// Command lines of other users are stored only as far as they may be shown, in sessions and in whole snapshots.
func TestCommandLinesInThePast(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may start programs of others")
	}
	const others, password = "of-another-user", "hunter2-s3cret"
	theirs, ours := train(t, nobody, "--data="+others), train(t, 0, "--data=of-ours", "--password="+password)
	for _, tt := range []struct {
		show  string
		other bool
	}{{"names", false}, {"own", false}, {"none", false}, {"all", true}} {
		t.Run(tt.show, func(t *testing.T) {
			t.Parallel()
			lib, m := machine(t, fakenvml.RTX4090())
			m.GPU(0).SetProcesses(fakenvml.Process{PID: theirs, Type: "compute", Memory: 1 << 30, SM: 40},
				fakenvml.Process{PID: ours, Type: "compute", Memory: 1 << 30, SM: 40})
			dir := t.TempDir()
			p := start(t, lib.Env(), fast, "--state-dir="+dir, "--show-commands="+tt.show)
			p.framed(t, 2)
			if err := p.stop(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(dir, historyFile), Log: slog.New(slog.DiscardHandler), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var kept strings.Builder // all that is text
			sessions := 0
			for e, err := range s.Sessions(t.Context(), past.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				sessions++
				fmt.Fprintf(&kept, "%+v\n", e)
			}
			for f, err := range s.Frames(t.Context(), past.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				kept.Write(f.Snapshot)
			}
			for c, err := range s.Causes(t.Context(), past.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&kept, "%+v\n", c)
			}
			text := kept.String()
			if kept := strings.Contains(text, others); kept != tt.other || sessions != 2 {
				t.Errorf("of %d sessions another user's command line is kept: %t", sessions, kept)
			}
			if kept := strings.Contains(text, "of-ours"); kept != (tt.show != "none") || strings.Contains(text, password) {
				t.Errorf("our own command line is kept: %t, or with its password", kept)
			}
		})
	}
}

// Data stored with --show-commands all is shown only as far as the current setting allows.
func TestCommandLinesOfBefore(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may start programs of others")
	}
	const others, own = "of-another-user", "of-ours"
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).SetProcesses(
		fakenvml.Process{PID: train(t, nobody, "--data="+others), Type: "compute", Memory: 1 << 30, SM: 40},
		fakenvml.Process{PID: train(t, 0, "--data="+own), Type: "compute", Memory: 1 << 30, SM: 40},
	)
	dir := t.TempDir()
	p := start(t, lib.Env(), fast, "--state-dir="+dir, "--show-commands=all")
	then := url.QueryEscape(p.framed(t, 2))
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.GPU(0).SetProcesses()
	for _, tt := range []struct {
		show                   string
		theirs, ours, programs bool
	}{{"all", true, true, true}, {"names", false, true, true}, {"own", false, true, false}, {"none", false, false, false}} {
		p := start(t, lib.Env(), fast, "--state-dir="+dir, "--show-commands="+tt.show)
		p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
		for _, path := range []string{"/api/gpu/sessions?from=10m", "/api/gpu/at?time=" + then, "/past?from=10m&at=" + then} {
			answer, body := p.fetch(path, nil)
			text := string(body)
			if answer.StatusCode != http.StatusOK || strings.Contains(text, others) != tt.theirs || strings.Contains(text, own) != tt.ours {
				t.Errorf("%s of %s: %s, another user's command line: %t, our own: %t",
					tt.show, path, answer.Status, strings.Contains(text, others), strings.Contains(text, own))
			}
		}
		var list contract.PastSessions
		p.get("/api/gpu/sessions?from=10m&user=nobody", &list)
		if len(list.Sessions) == 0 || (list.Sessions[0].Program != "") != tt.programs {
			t.Errorf("%s: another user's program: %+v", tt.show, list.Sessions)
		}
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if r := command(t, nil, "sessions", "10m", "--json", noServer, "--state-dir="+dir, "--show-commands="+tt.show); r.code != exitOK ||
			strings.Contains(r.stdout, others) != tt.theirs || strings.Contains(r.stdout, own) != tt.ours {
			t.Errorf("%s without a server: %+v", tt.show, r)
		}
	}
}
