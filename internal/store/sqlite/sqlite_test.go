package sqlite

import (
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
