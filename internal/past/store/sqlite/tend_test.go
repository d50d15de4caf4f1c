//go:build !race

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// However much is too old, a part of it is removed at a time. The room is used again, or given back by compacting.
func TestForgetAndCompact(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	s := open(t, file)
	ctx := t.Context()
	const rows = 3*part + 100
	write := func() {
		t.Helper()
		b, w := new(store.Batch), newWalk(1)
		for i := range rows {
			b.Rows = append(b.Rows, w.row(keyOf(i%2), began.Add(time.Duration(i)*time.Second), 1))
		}
		if err := s.Write(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		t.Helper()
		for _, err := range s.Rows(ctx, store.Query{Columns: []int{0}}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	bytes := func() int64 {
		t.Helper()
		if _, err := s.db.write.exec("PRAGMA wal_checkpoint(truncate)"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	write()
	full := bytes()
	kept := store.Retention{store.Raw: 0}
	for want := rows - part; want > 0; want -= part {
		if more, err := s.Forget(ctx, kept, began.Add(24*time.Hour)); !more || err != nil || count() != want {
			t.Fatalf("%d rows are left, want %d; more: %t, %v", count(), want, more, err)
		}
	}
	if more, err := s.Forget(ctx, kept, began.Add(24*time.Hour)); more || err != nil || count() != 0 {
		t.Fatalf("%d rows are left at the end; more: %t, %v", count(), more, err)
	}
	write()
	if again := bytes(); again > full+full/20 {
		t.Errorf("the file had %d bytes, and %d with the same again", full, again)
	}
	for more := true; more; {
		var err error
		if more, err = s.Forget(ctx, kept, began.Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if left := bytes(); left > full/2 {
		t.Errorf("the file had %d bytes, and %d when compacted", full, left)
	}
}
