//go:build !race && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// accountsIn opens the ledger of a program with a state directory, as the program does.
func accountsIn(t *testing.T, dir string, deadline time.Duration) (*daemon, *ledger.View) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := &daemon{programFlags: &programFlags{}}
	d.StateDir, d.AccountsDeadline = dir, deadline
	release, err := d.takeStateDir(log)
	if err != nil {
		t.Fatal(err)
	}
	l := d.newLedger(log)
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), release()); err != nil {
			t.Error(err)
		}
	})
	return d, l
}

func account(id string) ledger.Change {
	return ledger.Change{Item: ledger.Item{Kind: "user", ID: id, Name: id, Doc: json.RawMessage(`{}`)}, Was: ledger.Any}
}

// advised is what people are told of an error.
func advised(err error) string {
	advice := gpu.AsAdvice(err)
	return advice.Text()
}

// The accounts are in a file that only the helper process touches. If it is killed, it is started again and has them.
func TestAccountsInTheStateDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	d, l := accountsIn(t, dir, testkit.Patience)
	if err := l.Apply(t.Context(), account("ann")); err != nil {
		t.Fatal(err)
	}
	e := ledger.Entry{Action: "x", Result: "done"}
	if err := l.Append(t.Context(), &e); err != nil || e.Number != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	info, err := os.Lstat(filepath.Join(dir, accountsFile))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("this process has opened %s", target)
		}
	}
	pid := d.scribe.Pid()
	if pid == 0 {
		t.Fatal("there is no helper process")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "an entry is added again", func() bool {
		err := l.Append(t.Context(), &e)
		if err != nil && (!errors.Is(err, ledger.ErrGone) || gpu.AsAdvice(err).Try == "") {
			t.Fatalf("meanwhile it says %v", err)
		}
		return err == nil && d.scribe.Pid() != pid
	})
	if c, err := l.Verify(t.Context()); err != nil || c.First != 1 || c.Last != e.Number {
		t.Errorf("%+v, %v", c, err)
	}
	if it, err := l.Named(t.Context(), "user", "ann"); err != nil || it == nil {
		t.Errorf("ann is %+v, %v", it, err)
	}
}

// While the disk is frozen, who is signed in stays so, and what needs the disk fails in time. After the thaw all goes on.
func TestAccountsOnAFrozenDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	_, l := accountsIn(t, filepath.Join(d.dir, "state"), ledger.DefaultDeadline)
	if err := l.Apply(t.Context(), account("ann")); err != nil {
		t.Fatal(err)
	}
	get := func() {
		t.Helper()
		if it, err := l.Get(t.Context(), "user", "ann"); err != nil || it == nil {
			t.Errorf("ann is %+v, %v", it, err)
		}
	}
	get()
	thaw := d.freeze()
	for range 3 {
		err := l.Append(t.Context(), &ledger.Entry{Action: "x", Result: "done"})
		if !errors.Is(err, ledger.ErrGone) || !strings.Contains(gpu.AsAdvice(err).Try, "fsfreeze") {
			t.Errorf("it says %v", err)
		}
		get()
	}
	if l.Trouble().Err == nil {
		t.Error("nobody is told of it")
	}
	thaw()
	testkit.Until(t, "an entry is added again", func() bool { return l.Append(t.Context(), &ledger.Entry{Action: "y", Result: "done"}) == nil })
	if _, err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A file that can't be used stays as it is, and is used once somebody has repaired it.
func TestAccountsThatAreDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, accountsFile)
	if err := os.WriteFile(file, []byte("no accounts"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, l := accountsIn(t, dir, testkit.Patience)
	if _, err := l.Get(t.Context(), "user", "ann"); !errors.Is(err, ledger.ErrGone) || !strings.Contains(advised(err), "damaged: stop gpuwhy and restore") {
		t.Errorf("it says %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "no accounts" {
		t.Errorf("it has %q, %v", text, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is opened", func() bool { return l.Apply(t.Context(), account("ann")) == nil })
}

// Without a place to keep them, accounts end with the program, which says so once somebody makes one.
func TestAccountsInMemory(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	d := &daemon{programFlags: &programFlags{}}
	l := d.newLedger(slog.New(slog.NewTextHandler(&log, nil)))
	session := account("session")
	session.Expires = time.Now().Add(time.Hour)
	if err := l.Apply(t.Context(), session); err != nil || log.Len() > 0 {
		t.Errorf("%v, and the log has %q", err, log.String())
	}
	for _, id := range []string{"ann", "bob"} {
		if err := l.Apply(t.Context(), account(id)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "accounts and tokens end with this program"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// The address of a server is checked before the program starts, and its password is in no error.
func TestAccountsFlag(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"": "", "postgres://ann@db.example/gpuwhy": "", "postgresql://db.example/gpuwhy?sslmode=require": "", "sqlite": "must be the address", "/var/lib/gpuwhy": "must be the address",
		"mysql://ann:hunter2@db/x": "must be the address", "postgres://ann:hunter2@[::1/x": "is invalid", "postgres://ann:hunter2@db/x?sslmode=hunter2": "is invalid",
	} {
		err := (&ledgerFlags{Accounts: address, AccountsDeadline: ledger.DefaultDeadline}).check()
		if (err == nil) != (says == "") || err != nil && (!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--accounts") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%q: %v, want %q", address, err, says)
		}
	}
}

// A program whose server of accounts is away starts, and says what to do.
func TestAccountsOnAServerThatIsAway(t *testing.T) {
	t.Parallel()
	d := &daemon{programFlags: &programFlags{}}
	d.Accounts = "postgres://ann:hunter2@127.0.0.1:1/gpuwhy"
	l := d.newLedger(slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := l.Get(ctx, "user", "ann"); !errors.Is(err, ledger.ErrGone) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(advised(err), "127.0.0.1:1 with the accounts is not answering") {
		t.Errorf("it says %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Accounts that a command of root makes while no gpuwhy runs belong to the owner of the state directory, with all files that the command leaves.
func TestAccountsOfACommandOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	const service = 12345
	dir := filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, service, service)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"user", "add", "ann", "--role=administrator"}, {"user", "list"}} {
		var out, errs strings.Builder
		if code := run(append(args, "--state-dir="+dir), &out, &errs); code != exitOK || !strings.Contains(out.String(), "ann") {
			t.Fatalf("gpuwhy %s: status %d\n%s%s", args, code, &out, &errs)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != service || s.Gid != service || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s belongs to %d:%d and has mode %v", f.Name(), s.Uid, s.Gid, info.Mode())
		}
	}
}

// A state directory that a command of root makes belongs to the owner of the folder above it, and a gpuwhy of that user can use it. If that is
// root, the command says what to do.
func TestAStateDirectoryOfACommandOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	home := publicDir(t)
	add := func(dir, name string) string {
		t.Helper()
		r := command(t, nil, "user", "add", name, "--role=administrator", "--state-dir="+dir)
		if r.code != exitOK {
			t.Fatalf("%+v", r)
		}
		return r.stderr
	}
	roots := filepath.Join(home, "root's")
	if says := add(roots, "ann"); !strings.Contains(says, "chown -R USER "+roots) {
		t.Errorf("it says %q", says)
	}
	if says := add(roots, "bob"); strings.Contains(says, "chown") {
		t.Errorf("of a folder that was there it says %q", says)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, "srv", "state")
	if says := add(dir, "ann"); strings.Contains(says, "chown") {
		t.Errorf("it says %q", says)
	}
	err := filepath.WalkDir(filepath.Join(home, "srv"), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if s, ok := info.Sys().(*syscall.Stat_t); err == nil && (!ok || s.Uid != nobody || s.Gid != nobody || info.Mode().Perm()&0o077 != 0) {
			t.Errorf("%s belongs to %d:%d and has mode %v", path, s.Uid, s.Gid, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := asNobody(t, "user", "list", "--state-dir="+dir).CombinedOutput(); err != nil || !strings.Contains(string(out), "ann") {
		t.Errorf("the user of the service can't use it: %v\n%s", err, out)
	}
}

// A program whose accounts are damaged starts, reads and shows. Health and whatever needs the accounts say what to do, and all is well once the
// file is repaired.
func TestAccountsOfAProgramThatAreDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, accountsFile)
	if err := os.WriteFile(file, []byte("no accounts"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := aSimulation(t, dir)
	p.part("access", "failed", "are damaged: stop gpuwhy and restore that file from a backup")
	p.goesOn()
	if status, _ := p.silence(); status != http.StatusServiceUnavailable {
		t.Errorf("a silence that can't be recorded: status %d", status)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "no accounts" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.part("access", "ok")
	if status, _ := p.silence(); status != http.StatusCreated && status != http.StatusAccepted {
		t.Errorf("a silence: status %d", status)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
