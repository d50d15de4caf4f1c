// Package storetest tests the promises of every store. [Model] is a store in memory.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Run tests a kind of store. Each store that open returns is empty, and is closed by the tests.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"ReadingsAreReadBack", readingsAreReadBack},
		{"SpansAreReadBack", spansAreReadBack},
		{"ResolutionOfColumns", resolutionOfColumns},
		{"AllElseIsReadBack", allElseIsReadBack},
		{"DevicesThatAreOnlyNamed", devicesThatAreOnlyNamed},
		{"TextOfStrangers", textOfStrangers},
		{"WrittenTwice", writtenTwice},
		{"TheLaterTakesThePlace", theLaterTakesThePlace},
		{"DeliveredLate", deliveredLate},
		{"RangesOfTime", rangesOfTime},
		{"Filters", filters},
		{"StoppedEarly", stoppedEarly},
		{"Documents", documents},
		{"Renamed", renamed},
		{"Unsettled", unsettled},
		{"Forget", forget},
		{"ForgetInAQuarter", forgetInAQuarter},
		{"Sizes", sizes},
		{"CheckAndCompact", checkAndCompact},
		{"ReadersBesideAWriter", readersBesideAWriter},
		{"Canceled", canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			test.run(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("LikeTheModel", func(t *testing.T) { likeTheModel(t, open) })
}

// Begin is when what the tests write begins: the beginning of a quarter of an hour, some hours before midnight.
var Begin = time.Date(2026, 3, 28, 20, 15, 0, 0, time.UTC)

func instant(d time.Duration) time.Time { return Begin.Add(d) }

// Two machines: what is tested is written about them.
var (
	here  = store.Key{Node: "here"}
	there = store.Key{Node: "there"}
	gpu0  = store.Key{Node: "here", UUID: "GPU-0"}
	gpu1  = store.Key{Node: "here", UUID: "GPU-1"}
	far0  = store.Key{Node: "there", UUID: "GPU-0"}
	keys  = []store.Key{here, gpu0, gpu1, there, far0}
)

// A tester is a [testing.T], or that of package rapid.
type tester interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func collect[V any](all iter.Seq2[V, error]) (out []V, err error) {
	for v, err := range all {
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

func read[V any](t tester, all iter.Seq2[V, error]) []V {
	t.Helper()
	out, err := collect(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t tester, s store.Store, b *store.Batch) {
	t.Helper()
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

var byValue = gocmp.Options{
	gocmp.Comparer(func(a, b gpu.Reading[gpu.Bytes]) bool { return a == b }),
	gocmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) && a.Location() == b.Location() }),
	cmpopts.EquateEmpty(),
}

func equal[V any](t tester, what string, want, got V) {
	t.Helper()
	if reflect.DeepEqual(want, got) { // which is quicker
		return
	}
	if diff := gocmp.Diff(want, got, byValue); diff != "" {
		t.Fatalf("%s: what was written (−), and what is read (+):\n%s", what, diff)
	}
}

// reading is a raw row with values by the names of their columns.
func reading(k store.Key, when time.Time, values map[string]float64) store.Row {
	columns, state := store.DeviceColumns, gpu.StateOK
	if k.UUID == "" {
		columns, state = store.MachineColumns, ""
	}
	row := store.Row{Key: k, Time: when, Readings: 1, State: state, Values: make([]store.Value, len(columns))}
	for name, v := range values {
		row.Values[columns.Find(name)] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
	}
	return row
}

var watts, energy, total = store.DeviceColumns.Find("power_draw"), store.DeviceColumns.Find("power_energy"),
	store.DeviceColumns.Find("memory_total")

func readingsAreReadBack(t *testing.T, s store.Store) {
	full := reading(gpu0, instant(time.Second), nil)
	for i := range full.Values {
		v := store.DeviceColumns[i].Value(int64(i*i + 1))
		full.Values[i] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
	}
	doubtful := reading(gpu0, instant(2*time.Second), map[string]float64{"power_draw": 1e6, "thermal_gpu": -273.15, "memory_used": 0})
	doubtful.Values[watts].Doubtful = true
	doubtful.Values[store.DeviceColumns.Find("thermal_gpu")].Doubtful = true
	large := reading(gpu0, instant(3*time.Second), map[string]float64{"power_energy": 9e12, "memory_total": 1 << 52,
		"thermal_margin": -5})
	lost := reading(gpu0, instant(4*time.Second), nil)
	lost.State = gpu.StateLost
	zero := reading(gpu0, instant(5*time.Second), map[string]float64{"utilization_gpu": 0})
	rows := []store.Row{
		reading(here, instant(1500*time.Millisecond), map[string]float64{"cpu_percent": 12.345, "disk_mb_per_second": 0}),
		reading(here, instant(2001*time.Millisecond), nil),
		full, doubtful, large, lost, zero, reading(gpu1, instant(time.Second), map[string]float64{"power_draw": 0.001}),
	}
	write(t, s, &store.Batch{Rows: rows})
	equal(t, "rows of devices", rows[2:], read(t, s.Rows(t.Context(), store.Query{})))
	n := 2
	for r, err := range s.Rows(t.Context(), store.Query{Reuse: true}) {
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "a row with values that are used again", rows[n], r)
		n++
	}
	equal(t, "rows of machines", rows[:2], read(t, s.Rows(t.Context(), store.Query{Machines: true})))
	equal(t, "spans", nil, read(t, s.Rows(t.Context(), store.Query{Tier: store.Minute})))
}

func spansAreReadBack(t *testing.T, s store.Store) {
	for _, tier := range store.Tiers[store.Minute:] {
		row := reading(gpu0, instant(0), nil)
		row.Tier, row.Readings = tier, 12
		for i, c := range store.DeviceColumns {
			if c.Spans {
				row.Values[i] = store.Value{Least: c.Value(int64(i)), Mean: c.Value(int64(i + i%3)), Most: c.Value(int64(i + 2)),
					Count: 12 - i%2}
			}
		}
		row.Values[watts] = store.Value{}
		row.Values[energy] = store.Value{Least: -7, Mean: -7, Most: -7, Count: 12}
		asleep := reading(gpu0, instant(15*time.Minute), nil)
		asleep.Tier, asleep.Readings, asleep.State = tier, 3, gpu.StateAsleep
		machine := reading(here, instant(0), nil)
		machine.Tier, machine.Readings = tier, 60
		machine.Values[2] = store.Value{Least: -1.5, Mean: 0, Most: 1.5, Count: 7}
		write(t, s, &store.Batch{Rows: []store.Row{row, asleep, machine}})
		equal(t, tier.String(), []store.Row{row, asleep}, read(t, s.Rows(t.Context(), store.Query{Tier: tier})))
		equal(t, tier.String()+" of machines", []store.Row{machine},
			read(t, s.Rows(t.Context(), store.Query{Tier: tier, Machines: true})))
	}
	equal(t, "readings", nil, read(t, s.Rows(t.Context(), store.Query{})))
	// What is not in spans is left out of them.
	complete := reading(gpu0, instant(30*time.Minute), map[string]float64{"power_draw": 5, "memory_total": 7})
	complete.Tier = store.Minute
	without := complete
	without.Values = slices.Clone(complete.Values)
	without.Values[total] = store.Value{}
	write(t, s, &store.Batch{Rows: []store.Row{complete}})
	equal(t, "a span", []store.Row{without}, read(t, s.Rows(t.Context(), store.Query{Tier: store.Minute, From: complete.Time})))
}

func resolutionOfColumns(t *testing.T, s store.Store) {
	fine := reading(gpu0, instant(1234567*time.Nanosecond),
		map[string]float64{"power_draw": 71.23456, "thermal_gpu": 0.004, "clocks_sm": 1410.5})
	for i, v := range []float64{math.NaN(), math.Inf(1), 1e300} {
		fine.Values[i] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
	}
	local := time.FixedZone("somewhere", 3*3600)
	fine.Time = fine.Time.In(local)
	write(t, s, &store.Batch{Rows: []store.Row{fine, {Key: gpu1, Time: instant(0), State: gpu.StateOK}}})
	want := []store.Row{
		reading(gpu0, instant(time.Millisecond), map[string]float64{"power_draw": 71.235, "thermal_gpu": 0, "clocks_sm": 1411}),
		reading(gpu1, instant(0), nil), // which had no values at all
	}
	equal(t, "rows", want, read(t, s.Rows(t.Context(), store.Query{})))
}

// session is one with all that a session can have.
func session(k store.Key, pid int, from, to time.Time) store.Session {
	s := store.Session{
		SessionKey: store.SessionKey{Key: k, Boot: "4a5b", PID: pid, Started: from.Add(-10 * time.Millisecond), Begin: from},
		User:       "mchen", From: from, To: to, Outcome: store.Ended, Seen: to.Sub(from) - 1500*time.Microsecond,
	}
	complete(store.Sessions, &s)
	return s
}

func cause(k store.Key, id string, from, to time.Time) store.Cause {
	c := store.Cause{Key: k, ID: id, From: from, To: to}
	complete(store.Causes, &c)
	return c
}

func allElseIsReadBack(t *testing.T, s store.Store) {
	whole := session(gpu0, 100, instant(time.Minute), instant(2*time.Hour))
	little := store.Session{
		SessionKey: store.SessionKey{Key: gpu1, PID: 7, Begin: instant(time.Hour)}, From: instant(time.Hour), To: instant(time.Hour),
		Outcome:    store.Open,
		PeakMemory: gpu.Absent[gpu.Bytes](gpu.NotPermitted), Accounted: true,
	}
	doubted := session(far0, 7, instant(90*time.Minute), instant(3*time.Hour))
	doubted.PeakMemory, doubted.Type, doubted.Outcome = gpu.DoubtfulOf(gpu.Bytes(0)), gpu.TypeUnknown, store.GPULost
	open := cause(gpu0, "work", instant(0), instant(time.Hour))
	open.Open = true
	b := store.Batch{
		Devices: []store.Device{
			{Node: "here", Kind: gpu.Live}, {Node: "here", UUID: "GPU-0", Name: "NVIDIA H100", Vendor: "NVIDIA", Index: 1, Kind: gpu.Live},
			{Node: "here", UUID: "GPU-1", Index: 0, Kind: gpu.Simulated}, {Node: "there", UUID: "GPU-0", Kind: gpu.Recorded},
		},
		Rows: []store.Row{reading(gpu0, instant(5*time.Second), nil), reading(gpu0, instant(0), nil), reading(gpu0, instant(9*time.Second), nil)},
		Frames: []store.Frame{frame("here", instant(0), 1), frame("here", instant(5*time.Second), 2), frame("here", instant(15*time.Minute), 3),
			frame("there", instant(-time.Second), 4)},
		Sessions: []store.Session{whole, little, doubted},
		Causes:   []store.Cause{open, cause(here, "air", instant(time.Minute), instant(time.Minute))},
		Events: []store.Event{
			{ID: "a", Key: gpu0, Time: instant(time.Millisecond)},
			{ID: "b", Key: here, Time: instant(time.Second), Kind: "started"}, {ID: "0", Key: gpu0, Time: instant(time.Second), Kind: "state"},
		},
	}
	complete(store.Events, &b.Events[0])
	complete(store.Devices, &b.Devices[1])
	span := reading(gpu0, instant(-time.Hour), nil)
	span.Tier = store.Quarter
	b.Rows = append(b.Rows, span)
	write(t, s, &b)
	ctx, all := t.Context(), store.Query{}
	equal(t, "frames", b.Frames, read(t, s.Frames(ctx, all)))
	equal(t, "sessions", b.Sessions, slices.SortedFunc(slices.Values(read(t, s.Sessions(ctx, all))), comparePIDs))
	equal(t, "causes", b.Causes, read(t, s.Causes(ctx, all)))
	equal(t, "events", []store.Event{b.Events[0], b.Events[2], b.Events[1]}, read(t, s.Events(ctx, all)))
	devices, err := s.Devices(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Device{b.Devices[0], b.Devices[2], b.Devices[1], {Node: "there"}, b.Devices[3]} // which has a frame
	want[2].First, want[2].Last = instant(-time.Hour), instant(9*time.Second)
	equal(t, "devices", want, devices)
}

func comparePIDs(a, b store.Session) int {
	return cmp.Or(cmp.Compare(b.PID, a.PID), a.From.Compare(b.From))
}

// frame is one that is not a snapshot: a store does not look into frames.
func frame(node string, when time.Time, n int) store.Frame {
	record := fmt.Appendf(nil, `{"frame":%d,"devices":[`, n)
	for i := range 40 {
		record = fmt.Appendf(record, `{"index":%d,"watts":%d,"name":"NVIDIA H100 80GB HBM3"},`, i, 100+(i*n)%300)
	}
	return store.Frame{Node: node, Time: when, Snapshot: append(record, 0, 0xff, '\n')}
}

func devicesThatAreOnlyNamed(t *testing.T, s store.Store) {
	write(t, s, &store.Batch{
		Rows: []store.Row{reading(gpu0, instant(0), nil)}, Frames: []store.Frame{frame("f", instant(0), 1)},
		Sessions:  []store.Session{session(store.Key{Node: "s", UUID: "u"}, 1, instant(0), instant(1))},
		Causes:    []store.Cause{cause(store.Key{Node: "c", UUID: "u"}, "x", instant(0), instant(1))},
		Events:    []store.Event{{ID: "e", Key: store.Key{Node: "e"}, Time: instant(0)}},
		Unsettled: []store.Bucket{{Key: store.Key{Node: "b", UUID: "u"}, Tier: store.Minute, Time: instant(0)}},
	})
	want := []store.Device{
		{Node: "b", UUID: "u"}, {Node: "c", UUID: "u"}, {Node: "e"}, {Node: "f"},
		{Node: "here", UUID: "GPU-0", First: instant(0), Last: instant(0)}, {Node: "s", UUID: "u"},
	}
	got, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "devices", want, got)
	// What becomes known of one later is known then, and is not lost by the next row.
	write(t, s, &store.Batch{Devices: []store.Device{{Node: "here", UUID: "GPU-0", Name: "A", Index: 3}}})
	write(t, s, &store.Batch{Rows: []store.Row{reading(gpu0, instant(time.Second), nil)}})
	want[4].Name, want[4].Index, want[4].Last = "A", 3, instant(time.Second)
	if got, err = s.Devices(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal(t, "devices", want, got)
}

// Text of processes may be anything, and keeps nothing else from being written.
func textOfStrangers(t *testing.T, s store.Store) {
	nasty := "a\x00b\xffc'); DROP TABLE sessions; --\n\U0001F600"
	clean := store.Text(nasty)
	written := session(gpu0, 1, instant(0), instant(time.Hour))
	written.User, written.Name, written.Program, written.Command, written.Pod = nasty, nasty, nasty,
		strings.Repeat("long ", 20000)+nasty, nasty
	e := store.Event{ID: nasty, Key: store.Key{Node: nasty, UUID: nasty}, Time: instant(0), Kind: nasty, Text: nasty,
		Data: []byte("\x00\xff")}
	c := cause(gpu0, nasty, instant(0), instant(time.Second))
	c.Sentence, c.Who = nasty, nasty
	write(t, s, &store.Batch{
		Devices:  []store.Device{{Node: nasty, UUID: nasty, Name: nasty, Vendor: nasty}},
		Sessions: []store.Session{written}, Causes: []store.Cause{c}, Events: []store.Event{e},
		Documents: map[string][]byte{clean: []byte(nasty)},
	})
	written.User, written.Name, written.Program, written.Command, written.Pod = clean, clean, clean, store.Text(written.Command),
		clean
	e.ID, e.Node, e.UUID, e.Kind, e.Text = clean, clean, clean, clean, clean
	c.ID, c.Sentence, c.Who = clean, clean, clean
	ctx := t.Context()
	equal(t, "sessions", []store.Session{written}, read(t, s.Sessions(ctx, store.Query{User: clean})))
	equal(t, "events", []store.Event{e}, read(t, s.Events(ctx,
		store.Query{Keys: []store.Key{{Node: clean, UUID: clean}}, Kinds: []string{clean}})))
	equal(t, "causes", []store.Cause{c}, read(t, s.Causes(ctx, store.Query{})))
	text, err := s.Document(ctx, clean)
	if err != nil || string(text) != nasty {
		t.Errorf("the document is %q, %v", text, err)
	}
}

// some is a batch with everything in it.
func some() *store.Batch {
	span := reading(gpu0, instant(0), map[string]float64{"power_draw": 71})
	span.Tier, span.Readings = store.Minute, 9
	return &store.Batch{
		Devices: []store.Device{{Node: "here", UUID: "GPU-0", Name: "NVIDIA H100", Kind: gpu.Live}},
		Rows: []store.Row{reading(gpu0, instant(0), map[string]float64{"power_draw": 70}), span,
			reading(here, instant(0), map[string]float64{"cpu_percent": 3})},
		Frames: []store.Frame{frame("here", instant(0), 1)}, Sessions: []store.Session{session(gpu0, 1, instant(0), instant(time.Hour))},
		Causes:    []store.Cause{cause(gpu0, "work", instant(0), instant(time.Hour))},
		Events:    []store.Event{{ID: "e", Key: gpu0, Time: instant(0), Kind: "xid"}},
		Documents: map[string][]byte{"floors": []byte("{}")}, Unsettled: []store.Bucket{{Key: gpu0, Tier: store.Quarter, Time: instant(0)}},
	}
}

func writtenTwice(t *testing.T, s store.Store) {
	b := some()
	write(t, s, b)
	before := everything(t, s)
	write(t, s, b)
	equal(t, "after the second time", before, everything(t, s))
	for _, list := range []any{&b.Rows, &b.Frames, &b.Sessions, &b.Causes, &b.Events, &b.Devices, &b.Unsettled} {
		switch l := list.(type) {
		case *[]store.Row:
			*l = append(*l, *l...)
		case *[]store.Frame:
			*l = append(*l, *l...)
		case *[]store.Session:
			*l = append(*l, *l...)
		case *[]store.Cause:
			*l = append(*l, *l...)
		case *[]store.Event:
			*l = append(*l, *l...)
		case *[]store.Device:
			*l = append(*l, *l...)
		case *[]store.Bucket:
			*l = append(*l, *l...)
		}
	}
	write(t, s, b)
	equal(t, "after twice in one batch", before, everything(t, s))
	write(t, s, new(store.Batch))
	equal(t, "after an empty batch", before, everything(t, s))
}

func theLaterTakesThePlace(t *testing.T, s store.Store) {
	b := some()
	write(t, s, b)
	b.Devices[0].Name, b.Devices[0].Index, b.Devices[0].Kind = "NVIDIA H200", 4, gpu.Simulated
	b.Rows[0].State = gpu.StateNotAnswering
	b.Rows[0].Values[watts] = store.Value{}
	b.Rows[0].Values[total] = store.Value{Least: 9, Mean: 9, Most: 9, Count: 1, Doubtful: true}
	b.Rows[1].Readings, b.Rows[1].Values[watts] = 12, store.Value{Least: 60, Mean: 70, Most: 71, Count: 11}
	b.Rows[2].Values[0], b.Rows[2].Values[1] = store.Value{}, store.Value{Least: 4, Mean: 4, Most: 4, Count: 1}
	b.Frames[0] = frame("here", instant(0), 2)
	later := session(gpu0, 1, instant(0), instant(2*time.Hour))
	later.User, later.Outcome, later.PeakMemory = "", store.Unseen, gpu.Reading[gpu.Bytes]{}
	older := later
	older.User = "older" // in the same batch, and before
	b.Sessions = []store.Session{older, later}
	b.Causes[0].To, b.Causes[0].Sentence, b.Causes[0].Open = instant(3*time.Hour), "Otherwise.", true
	b.Documents["floors"] = []byte("[]")
	write(t, s, b)
	m := NewModel()
	write(t, m, b)
	equal(t, "the later", everything(t, m), everything(t, s))
	// Another beginning makes another of the same process, and of the same cause.
	again, same := later, b.Causes[0]
	again.Begin, again.From = instant(5*time.Hour), instant(5*time.Hour)
	again.To, same.From, same.To = instant(6*time.Hour), instant(5*time.Hour), instant(6*time.Hour)
	write(t, s, &store.Batch{Sessions: []store.Session{again}, Causes: []store.Cause{same}})
	equal(t, "sessions", []store.Session{later, again}, read(t, s.Sessions(t.Context(), store.Query{})))
	equal(t, "causes", []store.Cause{b.Causes[0], same}, read(t, s.Causes(t.Context(), store.Query{})))
	// A session of a process whose start is not known is found again as it is, and stays one as it goes on.
	hidden := session(gpu1, 7, instant(0), instant(time.Minute))
	hidden.Boot, hidden.Started, hidden.Outcome = "", time.Time{}, store.Open
	write(t, s, &store.Batch{Sessions: []store.Session{hidden}})
	found := read(t, s.Sessions(t.Context(), store.Query{Open: true}))
	equal(t, "open sessions", []store.Session{hidden}, found)
	found[0].To = instant(7 * time.Hour)
	write(t, s, &store.Batch{Sessions: found})
	hidden.To = found[0].To
	equal(t, "sessions", []store.Session{hidden}, read(t, s.Sessions(t.Context(), store.Query{Keys: []store.Key{gpu1}})))
}

// What is delivered may come again, and after what is newer: then the newer stays, whatever the order is in which it comes.
func deliveredLate(t *testing.T, s store.Store) {
	state := func(order int64) *store.Batch {
		until := instant(time.Duration(order) * time.Minute)
		if order == 3 {
			until = instant(30 * time.Second) // the clock was set back: a later state may seem to be an earlier one
		}
		process, why := session(gpu0, 1, instant(0), until), cause(gpu0, "work", instant(0), until)
		number := 1<<50 + order // about as large as they are
		process.Order, why.Order, why.Open = number, number, order < 3
		span := reading(gpu0, instant(0), map[string]float64{"power_draw": float64(order)})
		span.Tier, span.Readings = store.Minute, int(order)
		span.Values[watts].Count = int(order)
		return &store.Batch{
			Devices:  []store.Device{{Node: "here", UUID: "GPU-0", Name: fmt.Sprint("name ", order), Order: number}},
			Rows:     []store.Row{reading(gpu0, instant(time.Second), map[string]float64{"power_draw": 7}), span},
			Frames:   []store.Frame{frame("here", instant(0), 1)},
			Sessions: []store.Session{process}, Causes: []store.Cause{why}, Delivered: true,
			Events: []store.Event{{ID: "e", Key: gpu0, Time: instant(0), Kind: "state"}},
		}
	}
	want := NewModel()
	newest := state(3)
	newest.Delivered = false
	write(t, want, newest)
	for _, order := range []int64{2, 3, 1, 3, 2} {
		write(t, s, state(order))
	}
	equal(t, "the newest", everything(t, want), everything(t, s))
	// What this program writes by itself takes its place.
	own := session(gpu0, 1, instant(0), instant(time.Hour))
	write(t, s, &store.Batch{Sessions: []store.Session{own}})
	equal(t, "sessions", []store.Session{own}, read(t, s.Sessions(t.Context(), store.Query{})))
}

func rangesOfTime(t *testing.T, s store.Store) {
	var b store.Batch
	for i := range 6 {
		begin := instant(time.Duration(i) * time.Minute)
		span := reading(gpu0, begin, nil)
		span.Tier = store.Minute
		b.Rows = append(b.Rows, reading(gpu0, begin, nil), span, reading(here, begin, nil))
		b.Frames = append(b.Frames, frame("here", begin, i))
		b.Events = append(b.Events, store.Event{ID: fmt.Sprint(i), Key: gpu0, Time: begin})
		b.Sessions = append(b.Sessions, session(gpu0, i, begin, begin.Add(time.Minute)))
		b.Causes = append(b.Causes, cause(gpu0, fmt.Sprint(i), begin, begin.Add(time.Minute)))
	}
	short := session(gpu0, 99, instant(2*time.Minute), instant(2*time.Minute)) // an instant
	b.Sessions = append(b.Sessions, short)
	write(t, s, &b)
	m := NewModel()
	write(t, m, &b)
	ms := time.Millisecond
	for _, r := range [][2]time.Time{
		{}, {instant(2 * time.Minute)}, {{}, instant(2 * time.Minute)}, {instant(2 * time.Minute), instant(4 * time.Minute)},
		{instant(2*time.Minute + ms), instant(4*time.Minute + ms)},
		{instant(2*time.Minute - ms), instant(4*time.Minute - ms)}, {instant(2 * time.Minute), instant(2 * time.Minute)},
		{instant(4 * time.Minute), instant(2 * time.Minute)},
		{instant(-time.Hour), instant(0)}, {instant(time.Hour), instant(2 * time.Hour)},
	} {
		alike(t, m, s, store.Query{From: r[0], To: r[1]})
	}
	// And not only as the model has it.
	q := store.Query{From: instant(2 * time.Minute), To: instant(4 * time.Minute)}
	if n := len(read(t, s.Rows(t.Context(), q))); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
	if n := len(read(t, s.Sessions(t.Context(), q))); n != 3 {
		t.Errorf("%d sessions, want 3: of 2 and 3, and the instant", n)
	}
}

// sameMoment checks that of causes that began at one moment the first few are always the same: so who asks for the next ones has each once.
func sameMoment(t *testing.T, s store.Store) {
	t.Helper()
	const n = 12
	var b store.Batch
	for i := range n {
		c := store.Cause{Key: gpu0, ID: string(rune('a' + (5*i)%n)), From: instant(-5 * time.Hour), To: instant(-4 * time.Hour), Kind: "idle", Case: "idle"}
		if i%3 == 0 {
			c.Key = gpu1
		}
		b.Causes = append(b.Causes, c)
	}
	if err := s.Write(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	q := store.Query{From: instant(-6 * time.Hour), To: instant(-3 * time.Hour), First: n}
	all := read(t, s.Causes(t.Context(), q))
	for first := 1; first < n; first++ {
		q.First = first
		for i, c := range read(t, s.Causes(t.Context(), q)) {
			if c.Key != all[i].Key || c.ID != all[i].ID {
				t.Errorf("of the first %d, number %d is %s, and of all it is %s", first, i, c.ID, all[i].ID)
			}
		}
	}
}

func filters(t *testing.T, s store.Store) {
	m := NewModel()
	both := func(b *store.Batch) { write(t, s, b); write(t, m, b) }
	both(&store.Batch{Devices: []store.Device{{Node: "here", UUID: "GPU-0", Index: 1}, {Node: "here", UUID: "GPU-1", Index: 0}}})
	users, kinds := []string{"mchen", "root", ""}, []string{"xid", "state", "alert_firing"}
	for i := range 30 {
		begin, k := instant(time.Duration(i)*time.Minute), keys[i%len(keys)]
		e := session(k, i, begin, begin.Add(3*time.Minute))
		e.User, e.Name, e.Program, e.Job, e.Pod = users[i%3], []string{"python", "sh"}[i%2], []string{"train.py", "python"}[i/2%2],
			[]string{"", "slurm:7"}[i/3%2], []string{"", "a/b"}[i/5%2]
		c := cause(k, "c", begin, begin.Add(3*time.Minute))
		c.Kind, c.Open = kinds[i%3], i%4 == 0
		if i%4 == 0 {
			e.Outcome = store.Open
		}
		both(&store.Batch{
			Rows: []store.Row{reading(k, begin, map[string]float64{[]string{"power_draw",
				"cpu_percent"}[btoi(k.UUID == "")]: float64(i)})}, Frames: []store.Frame{frame(k.Node, begin, i)},
			Sessions: []store.Session{e}, Causes: []store.Cause{c},
			Events: []store.Event{{ID: fmt.Sprint(i), Key: k, Time: begin, Kind: kinds[i/3%3]}},
		})
	}
	var asked []store.Query
	for _, k := range [][]store.Key{nil, {gpu0}, {here}, {there, far0}, {gpu1, gpu0, gpu0}, {{Node: "nowhere", UUID: "GPU-0"}}} {
		asked = append(asked, store.Query{Keys: k}, store.Query{Keys: k, Machines: true}, store.Query{Keys: k, Open: true},
			store.Query{Keys: k, User: "root", From: instant(5 * time.Minute)},
			store.Query{Keys: k, Newest: 3, Kinds: []string{"xid", "state"}})
	}
	asked = append(asked, store.Query{Name: "python"}, store.Query{Name: "train.py", User: "mchen"}, store.Query{Job: "slurm:7"},
		store.Query{Pod: "a/b", Name: "sh"},
		store.Query{User: "nobody"}, store.Query{Kinds: []string{}}, store.Query{Kinds: []string{"alert_firing"}},
		store.Query{Newest: 1}, store.Query{Newest: 1000},
		store.Query{Newest: 5, From: instant(3 * time.Minute), To: instant(20 * time.Minute), Keys: keys}, store.Query{Columns: []int{}},
		store.Query{Columns: []int{watts}},
		store.Query{Columns: []int{0, 1}, Machines: true}, store.Query{Columns: []int{energy, watts, watts}})
	for _, q := range asked {
		alike(t, m, s, q)
	}
	all := read(t, s.Causes(t.Context(), store.Query{}))
	for _, first := range []int{1, len(all) / 2, len(all), len(all) + 1} {
		some := read(t, s.Causes(t.Context(), store.Query{First: first}))
		if len(some) != min(first, len(all)) || len(some) > 0 && !some[len(some)-1].From.Equal(all[len(some)-1].From) {
			t.Errorf("of the first %d causes there are %d", first, len(some))
		}
	}
	sameMoment(t, s)
	long := read(t, s.Sessions(t.Context(), store.Query{}))
	for i, brief := range read(t, s.Sessions(t.Context(), store.Query{Brief: true})) {
		if brief.Key != long[i].Key {
			t.Errorf("in brief one of %v, want %v", brief.Key, long[i].Key)
		}
		for f := range store.Sessions.Fields {
			f := &store.Sessions.Fields[f]
			if want, got := f.Place(&long[i]), f.Place(&brief); f.Brief && !reflect.DeepEqual(want, got) {
				t.Errorf("in brief %s is %+v, want %+v", f.Name, brief, long[i])
			}
		}
	}
	if n := len(read(t, s.Rows(t.Context(), store.Query{Keys: []store.Key{gpu0}}))); n != 6 {
		t.Errorf("%d rows of one device, want 6", n)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func stoppedEarly(t *testing.T, s store.Store) {
	var b store.Batch
	for i := range 100 {
		begin := instant(time.Duration(i) * time.Second)
		b.Rows, b.Frames = append(b.Rows, reading(gpu0, begin, nil)), append(b.Frames, frame("here", begin, i))
		b.Events = append(b.Events, store.Event{ID: fmt.Sprint(i), Key: gpu0, Time: begin})
		b.Sessions, b.Causes = append(b.Sessions, session(gpu0, i, begin, begin)),
			append(b.Causes, cause(gpu0, fmt.Sprint(i), begin, begin))
	}
	write(t, s, &b)
	ctx := t.Context()
	for range 50 { // more than a store has connections
		for _, first := range []func() bool{
			func() bool { return one(s.Rows(ctx, store.Query{})) }, func() bool { return one(s.Frames(ctx, store.Query{})) },
			func() bool { return one(s.Sessions(ctx, store.Query{})) }, func() bool { return one(s.Causes(ctx, store.Query{})) },
			func() bool { return one(s.Events(ctx, store.Query{})) }, func() bool { return one(s.Events(ctx, store.Query{Newest: 9})) },
		} {
			if !first() {
				t.Fatal("a query yields nothing, or an error")
			}
		}
	}
	write(t, s, &store.Batch{Rows: []store.Row{reading(gpu0, instant(time.Hour), nil)}})
	// A writer may write while it reads.
	for r, err := range s.Rows(ctx, store.Query{To: instant(3 * time.Second)}) {
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, &store.Batch{Rows: []store.Row{reading(gpu1, r.Time, nil)}})
	}
	if n := len(read(t, s.Rows(ctx, store.Query{}))); n != 104 {
		t.Errorf("%d rows, want 104", n)
	}
}

func one[V any](all iter.Seq2[V, error]) bool {
	for _, err := range all {
		return err == nil
	}
	return false
}

func documents(t *testing.T, s store.Store) {
	wantDocument := func(name string, want []byte) {
		t.Helper()
		if got, err := s.Document(t.Context(), name); err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	wantDocument("alerts", nil)
	long := bytes.Repeat([]byte{0, 1, 0xfe}, 1<<19)
	write(t, s, &store.Batch{Documents: map[string][]byte{"alerts": []byte(`{"a":1}`), "floors": long, "none": nil}})
	wantDocument("alerts", []byte(`{"a":1}`))
	wantDocument("floors", long)
	wantDocument("none", nil)
	write(t, s, &store.Batch{Documents: map[string][]byte{"alerts": []byte("2"), "floors": {}}})
	wantDocument("alerts", []byte("2"))
	wantDocument("floors", nil)
	write(t, s, &store.Batch{Documents: map[string][]byte{store.Identity: []byte("first"), store.FleetNames: []byte("first")}})
	write(t, s, &store.Batch{Documents: map[string][]byte{store.Identity: []byte("second"), store.FleetNames: []byte("second")}})
	wantDocument(store.Identity, []byte("first"))
	wantDocument(store.FleetNames, []byte("second"))
}

// A machine that has got another name keeps its past. What both names have stays apart.
func renamed(t *testing.T, s store.Store) {
	row := func(k store.Key, d time.Duration) store.Row {
		return store.Row{Key: k, Time: instant(d), Readings: 1, State: gpu.StateOK, Values: make([]store.Value, len(store.DeviceColumns))}
	}
	write(t, s, &store.Batch{Rows: []store.Row{row(gpu0, 0), row(gpu1, 0), row(far0, 0)}})
	new0, new1 := store.Key{Node: "new", UUID: gpu0.UUID}, store.Key{Node: "new", UUID: gpu1.UUID}
	write(t, s, &store.Batch{Renamed: []store.Renaming{{From: "here", To: "new"}}, Rows: []store.Row{row(new0, time.Minute)}})
	count := func(want map[store.Key]int) {
		t.Helper()
		got := map[store.Key]int{}
		for r, err := range s.Rows(t.Context(), store.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			got[r.Key]++
		}
		if !maps.Equal(got, want) {
			t.Errorf("there are rows of %v, want %v", got, want)
		}
	}
	count(map[store.Key]int{new0: 2, new1: 1, far0: 1})
	write(t, s, &store.Batch{Rows: []store.Row{row(gpu0, 2*time.Minute)}}) // another machine of the former name
	write(t, s, &store.Batch{Renamed: []store.Renaming{{From: "new", To: "there"}, {From: "unknown", To: "there"}}})
	count(map[store.Key]int{new0: 2, {Node: "there", UUID: gpu1.UUID}: 1, far0: 1, gpu0: 1})
}

func unsettled(t *testing.T, s store.Store) {
	b := func(k store.Key, tier store.Tier, d time.Duration) store.Bucket {
		return store.Bucket{Key: k, Tier: tier, Time: instant(d)}
	}
	write(t, s, &store.Batch{Unsettled: []store.Bucket{b(gpu0, store.Minute, 0), b(gpu0, store.Minute, time.Minute),
		b(here, store.Minute, 0), b(gpu0, store.Quarter, 0), b(gpu0, store.SixHours, 0)}})
	wantUnsettled := func(tier store.Tier, before time.Time, want ...store.Bucket) {
		t.Helper()
		got, err := s.Unsettled(t.Context(), tier, before)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "unsettled", want, slices.SortedFunc(slices.Values(got), compareBuckets))
	}
	wantUnsettled(store.Minute, time.Time{}, b(here, store.Minute, 0), b(gpu0, store.Minute, 0), b(gpu0, store.Minute, time.Minute))
	wantUnsettled(store.Minute, instant(time.Minute), b(here, store.Minute, 0), b(gpu0, store.Minute, 0))
	wantUnsettled(store.Minute, instant(0))
	wantUnsettled(store.Quarter, instant(time.Hour), b(gpu0, store.Quarter, 0))
	write(t, s, &store.Batch{
		Settled: []store.Bucket{b(gpu0, store.Minute, 0), b(gpu1, store.Minute, 0), b(gpu0, store.Quarter, 0),
			b(far0, store.Minute, 0)},
		Unsettled: []store.Bucket{b(gpu0, store.Minute, 0), b(gpu1, store.Quarter, 0)},
	})
	wantUnsettled(store.Minute, time.Time{}, b(here, store.Minute, 0), b(gpu0, store.Minute, time.Minute))
	wantUnsettled(store.Quarter, time.Time{}, b(gpu1, store.Quarter, 0))
	wantUnsettled(store.SixHours, time.Time{}, b(gpu0, store.SixHours, 0))
}

func compareBuckets(a, b store.Bucket) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID), a.Time.Compare(b.Time))
}

// forgetAll forgets until there is no more.
func forgetAll(t tester, s store.Store, r store.Retention, now time.Time) {
	t.Helper()
	for range 100_000 {
		more, err := s.Forget(t.Context(), r, now)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
	t.Fatal("there is always more to forget")
}

func forget(t *testing.T, s store.Store) {
	const day = 24 * time.Hour
	var b store.Batch
	for i := range 40 {
		begin := instant(time.Duration(i)*12*time.Hour + time.Duration(i)*time.Second)
		for _, k := range []store.Key{here, gpu0, far0} {
			for _, tier := range store.Tiers {
				r := reading(k, begin, nil)
				r.Tier = tier
				b.Rows, b.Unsettled = append(b.Rows, r), append(b.Unsettled, store.Bucket{Key: k, Tier: tier, Time: begin})
			}
		}
		b.Frames = append(b.Frames, frame("here", begin, i), frame("here", begin.Add(time.Second), i+1))
		b.Sessions = append(b.Sessions, session(gpu0, i, begin, begin.Add(day)))
		for _, severity := range []string{"", store.Info, "critical"} {
			b.Events = append(b.Events, store.Event{ID: fmt.Sprint(i, severity), Key: gpu0, Time: begin, Severity: severity})
		}
		for _, lasts := range []time.Duration{
			0, time.Minute - time.Millisecond, time.Minute, 15*time.Minute - time.Millisecond, 15 * time.Minute, day,
		} {
			b.Causes = append(b.Causes, cause(gpu0, fmt.Sprint(i, lasts), begin, begin.Add(lasts)))
		}
	}
	b.Documents = map[string][]byte{"floors": []byte("{}")}
	write(t, s, &b)
	m := NewModel()
	write(t, m, &b)
	forgetAll(t, s, nil, instant(1000*day))
	equal(t, "without a retention", everything(t, m), everything(t, s))
	for _, r := range []store.Retention{
		{store.Raw: 10 * day}, {store.Raw: 10 * day, store.Minute: 8 * day, store.Quarter: 18 * day},
		{store.Raw: 2 * day, store.Minute: 4 * day, store.Quarter: 7 * day},
		{store.Raw: 0, store.Minute: 0, store.Quarter: 0},
	} {
		now := instant(20 * day)
		forgetAll(t, s, r, now)
		forgetAll(t, m, r, now)
		forgotten(t, m, s, r, now)
	}
	if n := len(read(t, s.Rows(t.Context(), store.Query{To: instant(19 * day)}))); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if text, err := s.Document(t.Context(), "floors"); err != nil || string(text) != "{}" {
		t.Errorf("a document became %q, %v", text, err)
	}
	write(t, s, &b) // and it can be written again
}

// Frames are read after those were forgotten that a store may have compressed them with.
func forgetInAQuarter(t *testing.T, s store.Store) {
	var frames []store.Frame
	for i := range 6 {
		frames = append(frames, frame("here", instant(time.Duration(i)*5*time.Minute), i))
	}
	write(t, s, &store.Batch{Frames: frames})
	for i := range frames {
		r, begin := store.Retention{store.Raw: 0}, frames[i].Time
		forgetAll(t, s, r, begin)
		equal(t, fmt.Sprintf("frames since number %d", i), frames[i:], read(t, s.Frames(t.Context(), store.Query{From: begin})))
	}
}

// forgotten compares a store with the model after both have forgotten. A store may have left what is less than a day older.
func forgotten(t tester, m, s store.Store, r store.Retention, now time.Time) {
	t.Helper()
	want, got := everything(t, m), everything(t, s)
	left := func(what string, when, cutoff time.Time) bool {
		if when.Before(cutoff.Add(-24 * time.Hour)) {
			t.Fatalf("%s of %v is left, and is forgotten before %v", what, when, cutoff)
		}
		return when.Before(cutoff)
	}
	for i := range got.Rows {
		got.Rows[i] = slices.DeleteFunc(got.Rows[i], func(row store.Row) bool {
			return left("a row", row.Time,
				r.Cutoff(row.Tier, now))
		})
		got.Unsettled[i/2] = slices.DeleteFunc(got.Unsettled[i/2],
			func(b store.Bucket) bool { return left("a bucket", b.Time, r.Cutoff(b.Tier, now)) })
	}
	got.Frames = slices.DeleteFunc(got.Frames, func(f store.Frame) bool { return left("a frame", f.Time, r.Cutoff(store.Raw, now)) })
	got.Sessions = slices.DeleteFunc(got.Sessions, func(e store.Session) bool { return left("a session", e.To, r.Oldest(now)) })
	got.Causes = slices.DeleteFunc(got.Causes, func(c store.Cause) bool {
		return left("a cause", c.To, r.CauseCutoff(c.To.Sub(c.From), now))
	})
	got.Events = slices.DeleteFunc(got.Events, func(e store.Event) bool { return left("an event", e.Time, r.EventCutoff(e.Severity, now)) })
	for _, all := range []*contents{&want, &got} {
		for i := range all.Devices {
			all.Devices[i].First, all.Devices[i].Last = time.Time{}, time.Time{}
		}
	}
	equal(t, fmt.Sprintf("after forgetting by %v", r), want, got)
}

func sizes(t *testing.T, s store.Store) {
	names := []string{"raw", "1m", "15m", "6h", "frames", "sessions", "causes", "events"}
	check := func(rows []int64, oldest time.Time, newest ...time.Time) {
		t.Helper()
		size, err := s.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var bytes int64
		for i, table := range size.Tables {
			if i >= len(names) || table.Name != names[i] || table.Rows != rows[i] {
				t.Fatalf("table %d is %+v, want %d of %s", i, table, rows[i], names[i])
			}
			if table.Rows > 0 && !table.Oldest.Equal(oldest) || table.Rows == 0 && !table.Oldest.IsZero() {
				t.Errorf("the oldest of %s is of %v, want %v", table.Name, table.Oldest, oldest)
			}
			if table.Rows > 0 && !table.Newest.Equal(newest[i]) || table.Rows == 0 && !table.Newest.IsZero() {
				t.Errorf("the newest of %s is of %v, want %v", table.Name, table.Newest, newest)
			}
			if table.Rows > 0 && table.Bytes <= 0 {
				t.Errorf("%d rows of %s take %d bytes", table.Rows, table.Name, table.Bytes)
			}
			bytes += table.Bytes
		}
		if len(size.Tables) != len(names) || size.Bytes < bytes {
			t.Errorf("%d tables, %d bytes in all; want %d, and at least %d", len(size.Tables), size.Bytes, len(names), bytes)
		}
	}
	check(make([]int64, len(names)), time.Time{})
	write(t, s, some())
	hour := instant(time.Hour)
	check([]int64{2, 1, 0, 0, 1, 1, 1, 1}, instant(0), instant(0), instant(0), instant(0), instant(0), instant(0), hour, hour, instant(0))
	var b store.Batch
	for i := range 500 {
		b.Rows = append(b.Rows, reading(gpu1, instant(time.Duration(i+1)*time.Second), nil))
	}
	write(t, s, &b)
	check([]int64{502, 1, 0, 0, 1, 1, 1, 1}, instant(0), instant(500*time.Second), instant(0), instant(0), instant(0), instant(0), hour, hour, instant(0))
}

func checkAndCompact(t *testing.T, s store.Store) {
	var b store.Batch
	for i := range 2000 {
		b.Rows = append(b.Rows, reading(gpu1, instant(time.Duration(i)*time.Minute), map[string]float64{"power_draw": float64(i)}))
	}
	write(t, s, &b)
	write(t, s, some())
	forgetAll(t, s, store.Retention{store.Raw: 0, store.Minute: 0, store.Quarter: 0}, instant(30*time.Hour))
	write(t, s, some())
	before := everything(t, s)
	for range 2 {
		if err := s.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "after compacting", before, everything(t, s))
	b.Rows = b.Rows[:10]
	write(t, s, &b)
}

// Readers see each batch whole or not at all, while it is written.
func readersBesideAWriter(t *testing.T, s store.Store) {
	const batches, readers = 60, 6
	pair := func(i int) *store.Batch {
		begin := instant(time.Duration(i) * time.Second)
		return &store.Batch{
			Rows: []store.Row{reading(gpu0, begin, map[string]float64{"power_draw": float64(i)}), reading(gpu1, begin, nil),
				reading(far0, begin, nil)},
			Events: []store.Event{{ID: fmt.Sprint(i), Key: gpu0, Time: begin}, {ID: fmt.Sprint(i, "b"), Key: far0, Time: begin}},
		}
	}
	write(t, s, pair(0))
	ctx, ended := t.Context(), make(chan struct{})
	var running sync.WaitGroup
	for range readers {
		running.Go(func() {
			for last := false; !last; {
				select {
				case <-ended:
					last = true
				default:
				}
				rows, err := collect(s.Rows(ctx, store.Query{}))
				if err != nil || len(rows)%3 != 0 || last && len(rows) != 3*batches {
					t.Errorf("a reader got %d rows, %v; want three of each batch", len(rows), err)
					return
				}
				if events, err := collect(s.Events(ctx, store.Query{})); err != nil || len(events)%2 != 0 {
					t.Errorf("a reader got %d events, %v; want two of each batch", len(events), err)
					return
				}
				if _, err := s.Devices(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := 1; i < batches; i++ {
		if err := s.Write(ctx, pair(i)); err != nil {
			t.Error(err)
		}
	}
	close(ended)
	running.Wait()
	var writers sync.WaitGroup // a store may be written to from several goroutines, too
	for w := range 4 {
		writers.Go(func() {
			for i := range 10 {
				if err := s.Write(ctx, pair(1000*(w+1)+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if n := len(read(t, s.Rows(ctx, store.Query{}))); n != 3*(batches+40) {
		t.Errorf("%d rows, want %d", n, 3*(batches+40))
	}
}

func canceled(t *testing.T, s store.Store) {
	write(t, s, some())
	before := everything(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := some()
	b.Rows[0].Time = instant(time.Hour)
	_, rows := collect(s.Rows(ctx, store.Query{}))
	_, events := collect(s.Events(ctx, store.Query{}))
	for what, err := range map[string]error{"writing": s.Write(ctx, b), "rows": rows, "events": events} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a canceled context: %v", what, err)
		}
	}
	equal(t, "after a canceled write", before, everything(t, s))
	// One that ends amid a query ends that.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	var many store.Batch
	for i := range 5000 {
		many.Rows = append(many.Rows, reading(gpu1, instant(time.Duration(i)*time.Second), nil))
	}
	write(t, s, &many)
	n := 0
	var ended error
	for _, err := range s.Rows(ctx, store.Query{}) {
		n++
		ended = err
		cancel()
	}
	if !errors.Is(ended, context.Canceled) {
		t.Errorf("%d of 5001 rows after the end, %v", n, ended)
	}
	write(t, s, b)
}
