package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// tryOpen opens a file at a time that names what is set aside.
func tryOpen(ctx context.Context, file string, log *bytes.Buffer) (*Store, error) {
	return Open(ctx, Options{
		File: file, Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return began },
	})
}

// filled makes a file with some batches, and closes it.
func filled(t *testing.T, file string, batches int) {
	t.Helper()
	s := open(t, file)
	for n := range batches {
		if err := s.Write(t.Context(), numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// advised returns what the advice that an error is says, and what to try. It has to be of a kind.
func advised(t *testing.T, err, kind error) (what, try string) {
	t.Helper()
	advice, ok := errors.AsType[*gpu.Advice](err)
	if !ok || advice.Try == "" || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("%v is no advice about %v", err, kind)
	}
	return advice.What, advice.Try
}

func TestTwoPrograms(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	s := open(t, file)
	_, err := tryOpen(t.Context(), file, new(bytes.Buffer))
	if what, _ := advised(t, err, store.ErrLocked); !strings.Contains(what, fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("the other program is not named: %s", what)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	advised(t, s.Write(t.Context(), numbered(0)), store.ErrGone)
	for _, err := range s.Rows(t.Context(), store.Query{}) {
		advised(t, err, store.ErrGone)
	}
	if err := open(t, file).Close(); err != nil {
		t.Error(err)
	}
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	noise := make([]byte, 100<<10)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	for name, damage := range map[string]func(whole []byte) []byte{
		"of random bytes":         func([]byte) []byte { return noise },
		"shorter than its header": func(whole []byte) []byte { return whole[:50] },
		"cut off":                 func(whole []byte) []byte { return whole[:len(whole)/2] },
		"cut off in a page":       func(whole []byte) []byte { return whole[:len(whole)-1000] },
		"without its structure":   func(whole []byte) []byte { return slices.Concat(whole[:100], noise, whole[100+len(noise):]) },
		"a text":                  func([]byte) []byte { return []byte("not a database at all\n") },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "past.db")
			filled(t, file, 30)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			damaged := damage(whole)
			if err := errors.Join(os.WriteFile(file, damaged, 0o600), os.WriteFile(file+"-wal", []byte("log"), 0o600)); err != nil {
				t.Fatal(err)
			}
			log := new(bytes.Buffer)
			s, err := tryOpen(t.Context(), file, log)
			if err != nil {
				t.Fatal(err)
			}
			want := file + ".damaged-20260301T000000Z"
			if s.Aside() != want || !strings.Contains(log.String(), want) {
				t.Errorf("it is set aside as %q, and the log says %q", s.Aside(), log)
			}
			if kept, err := os.ReadFile(want); err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("what was set aside has %d bytes, %v; want %d", len(kept), err, len(damaged))
			}
			if err := s.Write(t.Context(), numbered(0)); err != nil {
				t.Error(err)
			}
			if n := whole1(t, s); n != 1 {
				t.Errorf("%d batches in the new file, want 1", n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			// Another one of the same second does not replace it.
			if err := os.WriteFile(file, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err = tryOpen(t.Context(), file, log); err != nil || s.Aside() != want+"-2" {
				t.Fatalf("the second is set aside as %q, %v", s.Aside(), err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func whole1(t *testing.T, s *Store) int {
	t.Helper()
	if err := s.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Events(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Damage in the midst of a file shows when somebody comes there. Reading goes on where it can; writing begins a new file.
func TestDamageThatShowsLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	filled(t, file, 200)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pages := func(page []byte) bool { return bytes.HasPrefix(page, []byte{10}) || bytes.HasPrefix(page, []byte{13}) } // leaves
	for at := 40 * 4096; at < len(whole); at += 4096 {
		if pages(whole[at:]) {
			copy(whole[at:], bytes.Repeat([]byte{0xff}, 200))
		}
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	s, err := tryOpen(t.Context(), file, log)
	if err != nil || s.Aside() != "" {
		t.Fatalf("it does not open: %v, %q", err, log)
	}
	advised(t, s.Check(t.Context()), store.ErrCorrupt)
	var damage error
	for n := 0; n < 200 && damage == nil; n++ { // over what is there
		damage = s.Write(t.Context(), numbered(n))
	}
	if _, try := advised(t, damage, store.ErrCorrupt); !strings.Contains(try, s.Aside()) || s.Aside() == "" {
		t.Errorf("where the damaged file is, is not said: %s", try)
	}
	for n := range 3 {
		if err := s.Write(t.Context(), numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := whole1(t, s); n != 3 {
		t.Errorf("%d batches in the new file, want 3", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Damage that only readers come across is no reason to go on: the next who writes begins a new file.
func TestDamageThatReadersFind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	filled(t, file, 200)
	var pages []int64
	c, err := dial(file)
	if err == nil {
		err = c.query(t.Context(), "SELECT pageno FROM dbstat WHERE name = 'frames' AND pagetype = 'leaf'", nil, func(row []driver.Value) error {
			pages = append(pages, integer(row[0]))
			return nil
		})
	}
	if err := errors.Join(err, c.Close()); err != nil || len(pages) < 3 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages[:len(pages)-2] { // not where the next is written
		copy(whole[(page-1)*4096:], bytes.Repeat([]byte{0xff}, 200))
	}
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	begun := 0
	s, err := Open(t.Context(), Options{File: file, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return began }, Begun: func() { begun++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Write(t.Context(), &store.Batch{}); err != nil || begun != 0 {
		t.Fatalf("nobody has come there: %v, begun %d times", err, begun)
	}
	var damage error
	for _, err := range s.Frames(t.Context(), store.Query{}) {
		damage = err
	}
	advised(t, damage, store.ErrCorrupt)
	advised(t, s.Write(t.Context(), numbered(0)), store.ErrCorrupt)
	if s.Aside() == "" || begun != 1 {
		t.Errorf("it is set aside as %q, and begun %d times", s.Aside(), begun)
	}
	if err := s.Write(t.Context(), numbered(0)); err != nil {
		t.Fatal(err)
	}
	if n := whole1(t, s); n != 1 {
		t.Errorf("%d batches in the new file", n)
	}
}

// do executes statements on a file that nobody has.
func do(t *testing.T, file string, statements ...string) {
	t.Helper()
	c, err := dial(name(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range statements {
		if err := c.run(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreNotOurs(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(file string)
		kind error
		says string
	}{
		"of a newer version": {func(file string) {
			filled(t, file, 3)
			do(t, file, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
		}, store.ErrNewer, "version 9999"},
		"of another program": {func(file string) {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			do(t, file, "CREATE TABLE bookmarks (url TEXT)")
		}, nil, "another program"},
		"a folder": {func(file string) {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		}, store.ErrGone, "can't be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "past.db")
			tt.make(file)
			before, _ := os.ReadFile(file) // a folder has no content
			_, err := tryOpen(t.Context(), file, new(bytes.Buffer))
			if what, _ := advised(t, err, tt.kind); !strings.Contains(what, tt.says) {
				t.Errorf("it says %q", what)
			}
			if after, _ := os.ReadFile(file); !bytes.Equal(before, after) {
				t.Error("the file is changed")
			}
			if others, err := filepath.Glob(file + ".damaged*"); err != nil || len(others) > 0 {
				t.Errorf("it is set aside as %q, %v", others, err)
			}
		})
	}
}

// What the catalog has and the file does not is absent in its old rows.
func TestALaterCatalog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	filled(t, file, 21)
	do(t, file, "ALTER TABLE device_raw DROP COLUMN utilization_gpu", "ALTER TABLE device_1m DROP COLUMN thermal_gpu",
		"ALTER TABLE device_raw ADD COLUMN of_long_ago INTEGER",
		"UPDATE device_raw SET doubtful = 'of_long_ago,power_draw', power_draw = 1")
	s := open(t, file)
	if err := s.Write(t.Context(), numbered(21)); err != nil {
		t.Fatal(err)
	}
	n, watts := 0, store.DeviceColumns.Find("power_draw")
	for r, err := range s.Rows(t.Context(), store.Query{Keys: []store.Key{keyOf(0)}}) {
		if err != nil {
			t.Fatal(err)
		}
		if found := r.Values[0].Count == 1; found != (n == 21) || r.Values[watts].Doubtful == found {
			t.Errorf("row %d: %+v, %+v", n, r.Values[0], r.Values[watts])
		}
		n++
	}
	if n != 22 {
		t.Errorf("%d rows, want 22", n)
	}
	for r, err := range s.Rows(t.Context(), store.Query{Tier: store.Minute}) {
		if v := r.Values[watts]; err != nil || v.Count == 0 {
			t.Fatalf("a span lost its power: %+v, %v", v, err)
		}
	}
}

// A full disk is played by a limit on the file's pages, which SQLite reports in the same way.
func TestFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "past.db"))
	ctx := t.Context()
	if err := s.Write(ctx, numbered(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.db.write.run("PRAGMA max_page_count = 150"); err != nil {
		t.Fatal(err)
	}
	n, full := 1, error(nil)
	for ; full == nil; n++ {
		full = s.Write(ctx, numbered(n))
	}
	advised(t, full, store.ErrFull)
	if had := whole(t, s); had != n-1 {
		t.Errorf("%d batches, want %d: what failed is not there in parts", had, n-1)
	}
	advised(t, s.Write(ctx, numbered(n-1)), store.ErrFull)
	if err := s.db.write.run("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	for i := n - 1; i < n+30; i++ {
		if err := s.Write(ctx, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	if had := whole(t, s); had != n+30 {
		t.Errorf("%d batches, want %d", had, n+30)
	}
}

// What a batch that failed has named, and its key frame, is not taken for written.
func TestWhatFailedIsNotRemembered(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "past.db"))
	ctx := t.Context()
	if err := s.db.write.run("PRAGMA max_page_count = 150"); err != nil {
		t.Fatal(err)
	}
	b := numbered(0)
	b.Documents = map[string][]byte{"large": make([]byte, 1<<20)}
	advised(t, s.Write(ctx, b), store.ErrFull)
	for n := range 3 {
		if err := s.Write(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	if had := whole(t, s); had != 3 {
		t.Errorf("%d batches, want 3", had)
	}
}

// A real one: a file system in memory, which root alone can make.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small disk can't be made: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	s, err := tryOpen(t.Context(), filepath.Join(dir, "past.db"), new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	ctx, n, full := t.Context(), 0, error(nil)
	for ; full == nil; n++ {
		full = s.Write(ctx, numbered(n))
	}
	advised(t, full, store.ErrFull)
	if had := whole(t, s); had != n-1 {
		t.Errorf("%d batches, want %d", had, n-1)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	for i := n - 1; i < n+30; i++ {
		if err := s.Write(ctx, numbered(i)); err != nil {
			t.Fatal(err)
		}
	}
	if had := whole(t, s); had != n+30 {
		t.Errorf("%d batches, want %d", had, n+30)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// Another program may have the file without our lock, such as sqlite3.
func TestLockedByAnother(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	s := open(t, file)
	if err := s.db.write.run("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	other, err := dial(name(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.run("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	advised(t, s.Write(t.Context(), numbered(0)), store.ErrLocked)
	if n := whole1(t, s); n != 0 { // reading goes on
		t.Errorf("%d batches", n)
	}
	if err := errors.Join(other.run("ROLLBACK"), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), numbered(0)); err != nil {
		t.Error(err)
	}
}

// A file that somebody removes is begun anew, and so is its folder when it is there again.
func TestRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(dir, "past.db")
	s := open(t, file)
	ctx := t.Context()
	write := func(n int) {
		t.Helper()
		if err := s.Write(ctx, numbered(n)); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(1)
	if n := whole1(t, s); n != 1 {
		t.Errorf("%d batches after the file was removed, want 1", n)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		advised(t, s.Write(ctx, numbered(2)), store.ErrGone)
	}
	for _, err := range s.Rows(ctx, store.Query{}) {
		advised(t, err, store.ErrGone)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(2)
	if n := whole1(t, s); n != 1 {
		t.Errorf("%d batches in the new folder, want 1", n)
	}
}

// What lies there in place of a file that was removed is set aside, too.
func TestReplacedByAnotherFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(dir, "past.db")
	s := open(t, file)
	if err := errors.Join(os.Rename(dir, dir+"-away"), os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("no database"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), numbered(0)); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(s.Aside()); err != nil || string(kept) != "no database" {
		t.Errorf("it is set aside as %q: %q, %v", s.Aside(), kept, err)
	}
	if n := whole1(t, s); n != 1 {
		t.Errorf("%d batches in the new file, want 1", n)
	}
}

// readOnlyEnv is a file that this program tries to open, as a user who may not.
const readOnlyEnv = "GPUWHY_TEST_OPEN"

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	filled(t, filepath.Join(dir, "past.db"), 1)
	for name, mode := range map[string]os.FileMode{"the folder": 0o555, "the file": 0o777} {
		if err := errors.Join(os.Chmod(dir, mode), os.Chmod(filepath.Join(dir, "past.db"), 0o444),
			os.Chmod(filepath.Join(dir, "past.db.lock"), 0o666)); err != nil {
			t.Fatal(err)
		}
		if out := openAsNobody(t, filepath.Join(dir, "past.db")); !strings.Contains(out, "read-only: ") || !strings.Contains(out,
			"can't be written to") {
			t.Errorf("%s: %s", name, out)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if out := openAsNobody(t, filepath.Join(dir, "new.db")); !strings.Contains(out, "read-only: ") {
		t.Errorf("a new file: %s", out)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// openAsNobody is what this program says of a file when it runs as a user to whom modes apply.
func openAsNobody(t *testing.T, file string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), program)
	child.Env = append(os.Environ(), readOnlyEnv+"="+file)
	if os.Getuid() == 0 {
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		for dir := filepath.Dir(filepath.Dir(file)); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil { // which the tests' folders are not
				t.Fatal(err)
			}
		}
		public := filepath.Join(t.TempDir(), "program")
		if err := testkit.CopyProgram(public, program); err != nil {
			t.Fatal(err)
		}
		for dir := filepath.Dir(public); strings.HasPrefix(dir, os.TempDir()+"/"); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		child.Path, child.Dir = public, "/"
	}
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// sayHowItOpens is what openAsNobody runs.
func sayHowItOpens(file string) string {
	_, err := tryOpen(context.Background(), file, new(bytes.Buffer))
	if errors.Is(err, store.ErrReadOnly) {
		return "read-only: " + err.Error()
	}
	return fmt.Sprint("not read-only: ", err)
}

// Where the program may open no more files, that is said, and not that the disk is gone.
func TestNoFileDescriptorIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	s := open(t, file)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, reading := s.Devices(t.Context())
	_, viewing := View(t.Context(), file)
	_, opening := Open(t.Context(), Options{File: file + ".other", Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"reading": reading, "viewing": viewing, "opening": opening} {
		if advice, ok := errors.AsType[*gpu.Advice](err); !ok || !errors.Is(err, store.ErrGone) || !strings.Contains(advice.Text(), "ulimit -n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Devices(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
