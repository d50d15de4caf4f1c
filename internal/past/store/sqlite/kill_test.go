package sqlite

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	writerEnv = "GPUWHY_TEST_WRITE" // the file that this program writes to until it is killed
	fromEnv   = "GPUWHY_TEST_FROM"  // the first batch
	perBatch  = 8                   // devices
)

func TestMain(m *testing.M) {
	if file := os.Getenv(writerEnv); file != "" {
		if err := writeUntilKilled(file); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if file := os.Getenv(readOnlyEnv); file != "" {
		_, _ = fmt.Println(sayHowItOpens(file))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writeUntilKilled says the number of each batch that is written.
func writeUntilKilled(file string) error {
	first, err := strconv.Atoi(os.Getenv(fromEnv))
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, Options{File: file, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Now: time.Now})
	if err != nil {
		return err
	}
	for n := first; ; n++ {
		if err := s.Write(ctx, numbered(n)); err != nil {
			return err
		}
		if n%50 == 0 { // what is removed beside it is killed, too
			if _, err := s.Forget(ctx, store.Retention{store.Minute: 0}, began.Add(time.Duration(n)*time.Second)); err != nil {
				return err
			}
			if err := s.Compact(ctx); err != nil {
				return err
			}
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
}

// numbered is a batch whose parts all tell its number. Some are large, which moves the log into the file.
func numbered(n int) *store.Batch {
	when := began.Add(time.Duration(n) * time.Second)
	b := &store.Batch{
		Events: []store.Event{{ID: strconv.Itoa(n), Key: keyOf(0), Time: when, Kind: "number"}},
		Frames: []store.Frame{{Node: "node", Time: when, Snapshot: fmt.Appendf(nil, `{"number":%0500d}`, n)}},
		Sessions: []store.Session{{SessionKey: store.SessionKey{Key: keyOf(0), PID: 1, Begin: began}, From: began, To: when,
			Outcome: store.Open}},
	}
	for i := range perBatch {
		r := store.Row{Key: keyOf(i), Time: when, Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
		r.Values[0] = store.Value{Mean: float64(n), Count: 1}
		b.Rows = append(b.Rows, r)
	}
	if n%20 == 0 {
		w := newWalk(uint64(n))
		for i := range 400 {
			b.Rows = append(b.Rows, w.span(keyOf(n%perBatch), store.Minute, when.Add(-time.Duration(i)*time.Millisecond), 12))
		}
	}
	return b
}

// whole checks what is in the file, and returns how many batches that is.
func whole(t *testing.T, s *Store) int {
	t.Helper()
	ctx := t.Context()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range s.Events(ctx, store.Query{}) {
		if err != nil || e.ID != strconv.Itoa(n) {
			t.Fatalf("event %d is %q, %v", n, e.ID, err)
		}
		n++
	}
	frames := 0
	for f, err := range s.Frames(ctx, store.Query{}) {
		if err != nil || string(f.Snapshot) != string(numbered(frames).Frames[0].Snapshot) {
			t.Fatalf("frame %d is %q, %v", frames, f.Snapshot, err)
		}
		frames++
	}
	rows := make([]int, perBatch)
	for r, err := range s.Rows(ctx, store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		device := int(r.UUID[len(r.UUID)-1] - '0')
		if r.Values[0].Mean != float64(rows[device]) {
			t.Fatalf("row %d of %s is of %v", rows[device], r.UUID, r.Values[0].Mean)
		}
		rows[device]++
	}
	for _, rows := range rows {
		if rows != n || frames != n {
			t.Fatalf("%d events, %d frames, %v rows", n, frames, rows)
		}
	}
	for e, err := range s.Sessions(ctx, store.Query{}) {
		if want := began.Add(time.Duration(n-1) * time.Second); err != nil || !e.To.Equal(want) {
			t.Fatalf("the session goes to %v, %v; want %v", e.To, err, want)
		}
	}
	return n
}
