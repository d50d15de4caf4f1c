package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
)

// advised makes sure that an error is one of a ledger that can't be reached, and says what to do.
func advised(t *testing.T, err error, says string) {
	t.Helper()
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !errors.Is(err, ErrGone) || !ok || !strings.Contains(advice.Text(), says) || advice.Try == "" {
		t.Errorf("it says %v, want %q", err, says)
	}
}

// A file is its owner's alone, and stays as it is where it can't be a ledger.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := filepath.Join(dir, "access.db")
	for range 2 {
		l, err := OpenFile(t.Context(), good)
		if err != nil {
			t.Fatal(err)
		}
		appends(t, l, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if info, err := os.Lstat(name); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
			}
		}
		// Somebody has restored it in a hurry, and a program was killed while it made a file.
		if err := errors.Join(os.Chmod(good, 0o644), os.WriteFile(good+".new", []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	newer := func(name string) error {
		l, err := OpenFile(t.Context(), name)
		if err != nil {
			return err
		}
		_, err = inside(l).db.ExecContext(t.Context(), "INSERT INTO ledger_version (version_id, is_applied) VALUES (99, 1)")
		return errors.Join(err, l.Close())
	}
	foreign := func(name string) error {
		db, err := openSQLite("file:" + name + "?mode=rwc")
		if err != nil {
			return err
		}
		_, err = db.ExecContext(t.Context(), "CREATE TABLE theirs (x)")
		return errors.Join(err, db.Close())
	}
	for _, tt := range []struct {
		name string
		put  func(name string) error
		says string
	}{
		{"nothing in it", func(name string) error { return os.WriteFile(name, nil, 0o600) }, "damaged"},
		{"something else", func(name string) error { return os.WriteFile(name, []byte(strings.Repeat("accounts\n", 1000)), 0o600) }, "damaged"},
		{"the beginning alone", func(name string) error { return os.WriteFile(name, content[:5000], 0o600) }, "damaged"},
		{"pages overwritten", func(name string) error {
			bad := []byte(string(content[:4096]) + strings.Repeat("x", len(content)-4096))
			return os.WriteFile(name, bad, 0o600)
		}, "damaged"},
		{"another program's", foreign, "another program's database"},
		{"a newer version's", newer, "newer gpuwhy"},
		{"a link", func(name string) error { return os.Symlink(good, name) }, "not a regular file"},
		{"a link to nothing", func(name string) error { return os.Symlink(filepath.Join(dir, "planted"), name) }, "not a regular file"},
		{"a folder", func(name string) error { return os.Mkdir(name, 0o700) }, "not a regular file"},
		{"in no folder", func(string) error { return nil }, "can't be used"},
	} {
		name := filepath.Join(t.TempDir(), "access.db")
		if tt.name == "in no folder" {
			name = filepath.Join(name, "access.db")
		}
		if err := tt.put(name); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(name)
		l, err := OpenFile(t.Context(), name)
		if err == nil {
			t.Errorf("%s: it is opened", tt.name)
			_ = l.Close()
			continue
		}
		advised(t, err, tt.says)
		if after, _ := os.ReadFile(name); string(after) != string(before) {
			t.Errorf("%s: it is not what it was", tt.name)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "planted")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
}

// What a command of root makes belongs to the service.
func TestFileOfRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := filepath.Join(t.TempDir(), "state")
	const service = 12345
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, service, service)); err != nil {
		t.Fatal(err)
	}
	l := opened(t)(OpenFile(t.Context(), filepath.Join(dir, "access.db")))
	appends(t, l, 1)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if uid := ownerOf(info); uid != service {
			t.Errorf("%s belongs to %d", f.Name(), uid)
		}
	}
}

// A disk that is full or can't be written to refuses what changes something, says so, and the ledger goes on later.
func TestDiskThatRefuses(t *testing.T) {
	t.Parallel()
	l := opened(t)(OpenFile(t.Context(), filepath.Join(t.TempDir(), "access.db")))
	applies(t, l, add(item("a", "ann", "")))
	pragma := func(text string) {
		t.Helper()
		if _, err := inside(l).db.ExecContext(t.Context(), "PRAGMA "+text); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ refuses, again, says string }{
		{"max_page_count = 1", "max_page_count = 1000000", "is full"}, {"query_only = 1", "query_only = 0", "can't be written"},
	} {
		pragma(tt.refuses)
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = l.Append(t.Context(), &Entry{Action: "x", Detail: strings.Repeat("x", 2000), Result: "done"})
		}
		advised(t, err, tt.says)
		if it, err := l.Get(t.Context(), "user", "a"); err != nil || it == nil {
			t.Errorf("%s: it is %+v, %v", tt.says, it, err)
		}
		pragma(tt.again)
		appends(t, l, 1)
		if _, err := l.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func server(t *testing.T) *pgtest.Server {
	t.Helper()
	if shared == nil {
		t.Skip(pgtest.ErrMissing)
	}
	return shared
}

// Programs that start at the same time make the tables once.
func TestServersThatStartTogether(t *testing.T) {
	t.Parallel()
	address := server(t).Schema()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			l, err := OpenServer(t.Context(), address)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(l.Append(t.Context(), &Entry{Action: "x", Result: "done"}), l.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if c, err := opened(t)(OpenServer(t.Context(), address)).Verify(t.Context()); err != nil || c.Last != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

// Errors of a server say what to do, and have no password.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	srv := server(t)
	const secret = "hunter2"
	with := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), secret)
		return u.String()
	}
	limited := srv.Database(t)
	srv.Exec(t, "postgres", "CREATE ROLE limited LOGIN")
	newer := srv.Schema()
	l := opened(t)(OpenServer(t.Context(), newer))
	if _, err := inside(l).db.ExecContext(t.Context(), "INSERT INTO ledger_version (version_id, is_applied) VALUES (99, true)"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ address, says string }{
		{with(srv.URL("postgres", pgtest.Guarded)), "does not accept the password"}, {with(srv.URL("nothing", "postgres")), "no such database"},
		{with(srv.URL(limited, "limited")), "right to create"}, {"postgres://ann:" + secret + "@[::1/x", "is invalid"}, {"postgres://ann:" + secret + "@127.0.0.1:1/x", "is not answering"},
		{with(newer), "newer gpuwhy"},
	} {
		l, err := OpenServer(t.Context(), tt.address)
		if err == nil {
			t.Errorf("%s is opened", tt.says)
			_ = l.Close()
			continue
		}
		advised(t, err, tt.says)
		if strings.Contains(err.Error(), secret) || strings.Contains(fmt.Sprintf("%+v", err), secret) {
			t.Errorf("it tells the password: %v", err)
		}
	}
}

// A program that was stopped in the middle of a change keeps the others out for a few seconds at most. Meanwhile they get an error in time.
func TestServerThatIsHeldUp(t *testing.T) {
	t.Parallel()
	l := opened(t)(OpenServer(t.Context(), server(t).Schema()))
	d := inside(l)
	tx, err := d.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), d.dialect.lock); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	advised(t, l.Append(ctx, &Entry{Action: "x", Result: "done"}), "is not answering")
	if err := l.Append(t.Context(), &Entry{Action: "x", Result: "done"}); err != nil { // once the server has ended the other transaction
		t.Error(err)
	}
}
