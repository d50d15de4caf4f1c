//go:build !race

package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Whatever is asked for, a connection keeps no more statements: who asks chooses columns, kinds and devices.
func TestStatementsAreNotKeptForEver(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "past.db"))
	b := new(store.Batch)
	for i := range 4 {
		b.Events = append(b.Events, store.Event{ID: fmt.Sprint(i), Key: keyOf(i), Time: began, Kind: "xid"})
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ask := func(n int) {
		t.Helper()
		q := store.Query{}
		for i := range n {
			q.Columns, q.Kinds = append(q.Columns, i), append(q.Kinds, fmt.Sprint(i))
			q.Keys = append(q.Keys, keyOf(i))
		}
		for _, err := range s.Rows(t.Context(), q) {
			t.Fatal(err)
		}
		for _, err := range s.Events(t.Context(), q) {
			t.Fatal(err)
		}
		for _, err := range s.Causes(t.Context(), q) {
			t.Fatal(err)
		}
		for _, err := range s.Sessions(t.Context(), q) {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		s.db.readers.mu.Lock()
		defer s.db.readers.mu.Unlock()
		for _, c := range s.db.readers.idle {
			n += len(c.prepared)
		}
		return n
	}
	ask(1)
	ask(2) // one device is looked up, of several all are read
	before := kept()
	if before == 0 {
		t.Fatal("no connection is kept")
	}
	for n := range min(12, len(store.DeviceColumns)) {
		ask(n + 1)
	}
	if after := kept(); after != before {
		t.Errorf("%d statements are kept, and %d after other questions", before, after)
	}
}
