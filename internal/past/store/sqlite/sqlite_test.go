package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
)

func open(t testing.TB, file string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{File: file, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	dir := t.TempDir() // making each of hundreds of databases takes longer than to copy one
	empty := filepath.Join(dir, "empty.db")
	if err := open(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	storetest.Run(t, func(t *testing.T) store.Store {
		n++
		file := filepath.Join(dir, fmt.Sprint(n, ".db"))
		if err := os.WriteFile(file, made, 0o600); err != nil {
			t.Fatal(err)
		}
		return open(t, file)
	})
}

// A file is one file by whatever link: the second program is refused, also where the file was not there at first.
func TestALinkToAFile(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"a", "b", "c/d"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "a", "past.db")
	for link, target := range map[string]string{
		"b/past.db": "../a/past.db", "b/again.db": "past.db", "b/whole.db": file, "e": "c/d", "c/d/past.db": "../../a/past.db", "b/loop.db": "loop.db",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	first := open(t, filepath.Join(dir, "b", "past.db"))
	for _, name := range []string{"a/past.db", "b/past.db", "b/again.db", "b/whole.db", "e/past.db"} {
		s, err := Open(t.Context(), Options{File: filepath.Join(dir, name), Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if !errors.Is(err, store.ErrLocked) {
			t.Errorf("%s: %v", name, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
	if _, err := Open(t.Context(), Options{File: filepath.Join(dir, "b/loop.db"), Log: slog.New(slog.DiscardHandler), Now: time.Now}); !errors.Is(err, store.ErrGone) {
		t.Errorf("a link to itself: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v", info, err)
	}
	_ = open(t, file).Close()
}

// What a link leads to is used only where it is ours, and is left as it is where it is not.
func TestALinkToAnotherProgramsFile(t *testing.T) {
	dir := t.TempDir()
	sqliteOf := func(file string, statements ...string) {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := dial(name(file), statements...)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.run("CREATE TABLE theirs (x)"), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	path := func(what string) string { return filepath.Join(dir, what) }
	sqliteOf(path("marked"), "application_id = 7")
	sqliteOf(path("plain"))
	sqliteOf(path("damaged"))
	if err := errors.Join(os.Truncate(path("damaged"), 5000), os.WriteFile(path("text"), bytes.Repeat([]byte("root:x:0:0\n"), 1000), 0o600), os.WriteFile(path("short"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"marked", "plain", "damaged", "text", "short"} {
		before, err := os.ReadFile(path(what))
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Join(t.TempDir(), "state")
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Symlink(path(what), filepath.Join(folder, "past.db"))); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), Options{File: filepath.Join(folder, "past.db"), Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err == nil {
			t.Errorf("%s is opened, and set aside as %q", what, s.Aside())
			_ = s.Close()
		}
		if advice, ok := errors.AsType[*gpu.Advice](err); err != nil && (!ok || !strings.Contains(advice.Try, "--state-dir")) {
			t.Errorf("%s: %v", what, err)
		}
		after, err := os.ReadFile(path(what))
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s was changed: %v", what, err)
		}
	}
	// A link to our own, damaged or not, is fine.
	file := path("past.db")
	filled(t, file, 30)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(file, whole[:len(whole)/2], 0o600), os.Symlink(file, path("link.db"))); err != nil {
		t.Fatal(err)
	}
	s := open(t, path("link.db"))
	if s.Aside() == "" {
		t.Error("our own damaged file was not set aside")
	}
	_ = s.Close()
}
