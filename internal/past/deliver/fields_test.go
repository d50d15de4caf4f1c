//go:build !race

package deliver

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

var update = flag.Bool("update", false, "add new fields to testdata/fields.txt")

// fields lists everything that a message may have: the names and types of fields, and columns with their scale.
func fields() (all []string) {
	var walk func(path string, t reflect.Type)
	walk = func(path string, t reflect.Type) {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("cbor"), ",")
			switch typ := f.Type; {
			case typ.Kind() == reflect.Slice && reflect.PointerTo(typ.Elem()).Implements(reflect.TypeFor[cbor.Unmarshaler]()): // rows
			case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
				walk(path+name+".", typ.Elem())
			default:
				all = append(all, path+name+" "+typ.String())
			}
		}
	}
	walk("", reflect.TypeFor[message]())
	all = slices.Concat(all, declared(store.Devices), declared(store.Sessions), declared(store.Causes), declared(store.Events))
	for kind, columns := range map[string]store.Columns{"device": store.DeviceColumns, "machine": store.MachineColumns} {
		for _, c := range columns {
			all = append(all, fmt.Sprintf("%s column %s 1/%v", kind, c.Name, c.Scale))
		}
	}
	slices.Sort(all)
	return all
}

// declared lists the fields of rows.
func declared[T any](t *store.Table[T]) (all []string) {
	add := func(name, kind string) { all = append(all, t.Name+"."+name+" "+kind) }
	add(uuidName, "string")
	for i := range t.Fields {
		f := &t.Fields[i]
		switch f.Place(new(T)).(type) {
		case *store.Memory:
			add(f.Name, "*uint64")
			add(f.Quality, "string")
		case *time.Time, *time.Duration:
			add(f.Name, "int64")
		default:
			add(f.Name, reflect.TypeOf(f.Place(new(T))).Elem().String())
		}
	}
	return all
}

// Within a version, fields and columns may be added, but not removed or changed, since older and newer programs read each other's
// messages.
func TestFieldsAreOnlyAdded(t *testing.T) {
	const file = "testdata/fields.txt"
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	now, known := fields(), strings.Split(strings.TrimSpace(string(text)), "\n")
	head := fmt.Sprint("version ", Version)
	if known[0] == head {
		for _, f := range known[1:] {
			if !slices.Contains(now, f) {
				t.Errorf("%q is not there any more: this needs another version, and both must be read for a while", f)
			}
		}
	} else if !*update {
		t.Fatalf("%s begins with %q", file, known[0])
	}
	all := strings.Join(append([]string{head}, now...), "\n") + "\n"
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(all), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if all != string(text) {
		t.Error("there are new fields: run this test with -update")
	}
}

var sample = store.Batch{
	Devices: []store.Device{{Node: "n", UUID: "GPU-0", Name: "H100", Vendor: "NVIDIA", Index: 3, Kind: gpu.Live}},
	Rows: []store.Row{
		{Key: store.Key{Node: "n", UUID: "GPU-0"}, Time: sampleTime, Readings: 1, State: gpu.StateOK, Values: []store.Value{{Least: 1, Mean: 1, Most: 1, Count: 1, Doubtful: true}}},
		{Key: store.Key{Node: "n"}, Tier: store.Quarter, Time: sampleTime, Readings: 12, Values: []store.Value{{}, {Least: 1, Mean: 2, Most: 4, Count: 11}}},
	},
	Frames:   []store.Frame{{Node: "n", Time: sampleTime, Snapshot: []byte("{}")}},
	Sessions: []store.Session{{SessionKey: store.SessionKey{Key: store.Key{Node: "n", UUID: "GPU-0"}, PID: 7, Begin: sampleTime}, From: sampleTime, To: sampleTime, PeakMemory: gpu.Of(gpu.Bytes(5)), Joules: 2.5}},
	Causes:   []store.Cause{{Key: store.Key{Node: "n"}, ID: "air", From: sampleTime, To: sampleTime, Confidence: 0.5}},
	Events:   []store.Event{{ID: "e", Key: store.Key{Node: "n"}, Time: sampleTime, Data: []byte(`{"a":1}`)}},
}

var sampleTime = time.Date(2026, 3, 28, 20, 15, 0, 0, time.UTC)

// Whatever the bytes, the data read keeps its promises: it is about the node, has possible times, and is bounded.
func FuzzRead(f *testing.F) {
	c := newCodec()
	parcels, _, err := c.parcels(&sample, "")
	if err != nil || len(parcels) != 1 {
		f.Fatal(len(parcels), err)
	}
	text, err := c.decoder.DecodeAll(parcels[0].Data, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	now := sampleTime.Add(time.Hour)
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := c.unpack(c.encoder.EncodeAll(text, nil))
		var b *store.Batch
		if err == nil {
			b, err = m.read("n", 5, now)
		}
		if err != nil {
			if !errors.Is(err, ErrUnreadable) {
				t.Fatal(err)
			}
			return
		}
		if nodes := splitNodes(b); len(nodes) > 1 || len(nodes) == 1 && nodes["n"] == nil {
			t.Fatalf("it is of %d nodes", len(nodes))
		}
		for i := range b.Rows {
			if r := &b.Rows[i]; r.Time.Before(earliest) || r.Time.After(now.Add(ahead)) || r.UUID == "" && r.State != "" || len(r.Values) == 0 {
				t.Fatalf("a row is %+v", r)
			}
		}
		for i := range b.Sessions {
			if s := &b.Sessions[i]; s.Order != 5 || s.To.After(now.Add(ahead)) || !(s.Joules >= 0) || s.Seen < 0 {
				t.Fatalf("a session is %+v", s)
			}
		}
		again, lost, err := c.parcels(b, "") // what was read can be packed
		if err != nil || lost != (Lost{}) || len(b.Rows)+len(b.Events) > 0 && len(again) == 0 {
			t.Fatal(len(again), lost, err)
		}
	})
}

// Reading a message returns what was packed.
func TestReadBack(t *testing.T) {
	c := newCodec()
	parcels, _, err := c.parcels(&sample, "")
	if err != nil {
		t.Fatal(err)
	}
	if parcels[0].Parts != everything {
		t.Errorf("parts: %b", parcels[0].Parts)
	}
	m, err := c.unpack(parcels[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.read("n", 9, sampleTime)
	if err != nil {
		t.Fatal(err)
	}
	if got.Sessions[0].Order != 9 || got.Causes[0].Order != 9 || got.Devices[0].Order != 9 || !got.Delivered || got.Events[0].ID != "n e" {
		t.Errorf("%+v", got)
	}
	got.Sessions[0].Order, got.Causes[0].Order, got.Devices[0].Order, got.Events[0].ID = 0, 0, 0, "e"
	for _, r := range []*store.Row{&got.Rows[0], &got.Rows[1]} {
		for i := range r.Values {
			if i > 1 && r.Values[i] != (store.Value{}) {
				t.Errorf("column %d is %+v", i, r.Values[i])
			}
		}
	}
	got.Rows[0].Values, got.Rows[1].Values = got.Rows[0].Values[:1], got.Rows[1].Values[:2]
	got.Delivered = false
	if !reflect.DeepEqual(*got, sample) {
		t.Errorf("%+v\nwant\n%+v", *got, sample)
	}
}

// A batch that is too long for a message becomes several, and single items that are too long are counted.
func TestSplit(t *testing.T) {
	noise := make([]byte, longest+longest/2)
	seed := uint64(1)
	for i := range noise {
		seed = seed*6364136223846793005 + 1442695040888963407
		noise[i] = byte(seed >> 56)
	}
	b := sample
	b.Frames = nil
	for i := range 9 {
		b.Frames = append(b.Frames, store.Frame{Node: "n", Time: sampleTime.Add(time.Duration(i) * time.Second), Snapshot: noise[i*1000 : i*1000+longest/3]})
	}
	b.Frames = append(b.Frames, store.Frame{Node: "n", Time: sampleTime, Snapshot: noise})
	c := newCodec()
	parcels, lost, err := c.parcels(&b, "")
	if err != nil || lost != (Lost{Frames: 1}) || len(parcels) < 4 {
		t.Fatal(len(parcels), lost, err)
	}
	read := map[string]int{}
	for _, p := range parcels {
		m, err := c.unpack(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.read("n", 1, sampleTime)
		if err != nil {
			t.Fatal(err)
		}
		read["frames"] += len(got.Frames)
		read["rows"] += len(got.Rows)
		read["sessions"] += len(got.Sessions)
		read["events"] += len(got.Events)
	}
	if want := map[string]int{"frames": 9, "rows": 2, "sessions": 1, "events": 1}; !reflect.DeepEqual(read, want) {
		t.Errorf("%v, want %v", read, want)
	}
}
