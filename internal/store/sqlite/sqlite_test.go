package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/internal/store/storetest"
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
	for link, to := range map[string]string{
		"b/past.db": "../a/past.db", "b/again.db": "past.db", "b/whole.db": file, "e": "c/d", "c/d/past.db": "../../a/past.db", "b/loop.db": "loop.db",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
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
