//go:build !race

package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

func view(t *testing.T, file string) *Store {
	t.Helper()
	s, err := View(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func rowsOf(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, err := range s.Rows(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Who only reads sees what another writes meanwhile, and keeps nobody from writing; it changes nothing itself.
func TestView(t *testing.T) {
	file := filepath.Join(t.TempDir(), "past.db")
	filled(t, file, 3)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	reader := view(t, file)
	had := rowsOf(t, reader)
	if err := reader.Check(t.Context()); err != nil || had == 0 {
		t.Errorf("%d rows; %v", had, err)
	}
	for what, err := range map[string]error{
		"write": reader.Write(t.Context(), &store.Batch{}), "compact": reader.Compact(t.Context()),
		"forget": func() error { _, err := reader.Forget(t.Context(), store.Retention{}, time.Now()); return err }(),
	} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("reading has changed the file: %v", err)
	}

	writer := open(t, file)
	r := store.Row{Key: store.Key{Node: "node", UUID: "another"}, Time: time.UnixMilli(1e12), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
	if err := writer.Write(t.Context(), &store.Batch{Rows: []store.Row{r}}); err != nil {
		t.Fatal(err)
	}
	if now := rowsOf(t, reader); now != had+1 {
		t.Errorf("%d rows before and %d after one was written", had, now)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
	if err := writer.Write(t.Context(), &store.Batch{Rows: []store.Row{r}}); err != nil {
		t.Errorf("after the reader has gone: %v", err)
	}
}

// What was written before a program was killed is in the log beside the file, and is read from there.
func TestViewOfWhatAKilledProgramHasLeft(t *testing.T) {
	dir := t.TempDir()
	file, left := filepath.Join(dir, "past.db"), filepath.Join(dir, "left.db")
	writer := open(t, file)
	r := store.Row{Key: store.Key{Node: "node", UUID: "one"}, Time: time.UnixMilli(1e12), Readings: 1, Values: make([]store.Value, len(store.DeviceColumns))}
	if err := writer.Write(t.Context(), &store.Batch{Rows: []store.Row{r}}); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(file + end)
		if err == nil {
			err = os.WriteFile(left+end, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := rowsOf(t, view(t, left)); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// A file of an older gpuwhy can be read before this one has written to it: what the older one did not know is absent.
func TestViewOfFewerColumns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	filled(t, file, 3)
	left := store.ReadSeconds
	for _, table := range []string{"device_raw", "device_1m", "device_15m", "device_6h"} {
		do(t, file, "ALTER TABLE "+table+" DROP COLUMN "+store.DeviceColumns[left].Name)
	}
	s := view(t, file)
	for _, q := range []store.Query{{}, {Columns: []int{left, store.DeviceColumns.Find("power_draw")}}, {Columns: []int{left}, Reuse: true}} {
		n := 0
		for r, err := range s.Rows(t.Context(), q) {
			if err != nil || r.Values[left].Count != 0 {
				t.Errorf("%+v, %v", r.Values[left], err)
			}
			n++
		}
		if n == 0 {
			t.Error("no rows")
		}
	}
}

// Fields that an earlier version did not keep have no value in its file: whoever reads it alone finds them so, and whoever writes adds their columns.
func TestFieldsOfALaterVersion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.db")
	moment := time.UnixMilli(1e12).UTC()
	whole := store.Session{
		SessionKey: store.SessionKey{Key: store.Key{Node: "node", UUID: "one"}, PID: 7, Begin: moment}, User: "ann", Image: "image", From: moment, To: moment,
		Outcome: store.Ended, Seen: time.Second, PeakMemory: gpu.Of(gpu.Bytes(5)), Busy: time.Second, Accounted: true,
	}
	event := store.Event{ID: "e", Key: whole.Key, Time: moment, Kind: "xid", Severity: "warning", Data: []byte("{}")}
	write := func() {
		s := open(t, file)
		if err := errors.Join(s.Write(t.Context(), &store.Batch{Sessions: []store.Session{whole}, Events: []store.Event{event}}), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, s *Store, session store.Session, event store.Event) {
		t.Helper()
		for got, err := range s.Sessions(t.Context(), store.Query{}) {
			if err != nil || !reflect.DeepEqual(got, session) {
				t.Errorf("%s: %v, %+v", what, err, got)
			}
		}
		for got, err := range s.Events(t.Context(), store.Query{Newest: 1}) {
			if err != nil || !reflect.DeepEqual(got, event) {
				t.Errorf("%s: %v, %+v", what, err, got)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	write()
	for _, column := range []string{"image", "seen", "peak_memory", "peak_memory_quality", "busy", "accounted"} {
		do(t, file, "ALTER TABLE sessions DROP COLUMN "+column)
	}
	do(t, file, "ALTER TABLE events DROP COLUMN data")
	lessSession, lessEvent := whole, event
	lessSession.Image, lessSession.Seen, lessSession.PeakMemory, lessSession.Busy, lessSession.Accounted = "", 0, gpu.Reading[gpu.Bytes]{}, 0, false
	lessEvent.Data = nil
	check("read alone", view(t, file), lessSession, lessEvent)
	check("opened", open(t, file), lessSession, lessEvent)
	write()
	check("written again", open(t, file), whole, event)
	do(t, file, "ALTER TABLE devices DROP COLUMN vendor")
	if _, err := View(t.Context(), file); err == nil {
		t.Error("devices without a column are read")
	}
	check("opened without a column of devices", open(t, file), whole, event)
}

// What can't be read is said, with what to do, and stays where it is.
func TestViewOfOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("empty", "")
	write("text", strings.Repeat("no database", 1000))
	write("foreign", "")
	do(t, path("foreign"), "CREATE TABLE x (y)")
	for name, change := range map[string]string{
		"newer": "INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)",
		"older": "DELETE FROM goose_db_version WHERE version_id > 0",
	} {
		filled(t, path(name), 1)
		do(t, path(name), change)
	}
	for name, want := range map[string]string{
		"none": "no history is kept there", "empty": "no history is kept there", ".": "not a regular file",
		"text": "is damaged", "foreign": "another program", "newer": "a newer gpuwhy", "older": "an older gpuwhy",
	} {
		_, err := View(t.Context(), path(name))
		advice, ok := errors.AsType[*gpu.Advice](err)
		if !ok || !strings.Contains(advice.What, want) || advice.Try == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(path("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made")
	}
	if text, err := os.ReadFile(path("text")); err != nil || !strings.HasPrefix(string(text), "no database") {
		t.Errorf("what is damaged was moved: %v", err)
	}
}
