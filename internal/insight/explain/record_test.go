package explain

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A stuffer gives every field of a value its own content, whether exported or not.
type stuffer struct {
	t        *testing.T
	snapshot *gpu.Snapshot
	n        int64
}

func (f *stuffer) stuff(v reflect.Value) {
	f.n++
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // it can be set even if its field is not exported
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(1_700_000_000+f.n, f.n).UTC()
		return
	case **gpu.Device:
		*p = &f.snapshot.Devices[f.n%int64(len(f.snapshot.Devices))]
		return
	case *gpu.Reading[float64]:
		*p = gpu.DoubtfulOf(float64(f.n) / 7)
		return
	case *gpu.Reading[time.Duration]:
		*p = gpu.Of(time.Duration(f.n))
		return
	case *[]*DeviceAnswer, *[]Member, *Tally:
		return // they point to the others, or belong to an answer for several nodes, which nobody sends
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			f.stuff(field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range 3 {
			f.stuff(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.stuff(v.Elem())
	case reflect.String:
		v.SetString(strings.Repeat("é", int(f.n%5)) + time.Duration(f.n).String())
	case reflect.Float64:
		v.SetFloat(float64(f.n) / 3)
	case reflect.Bool:
		v.SetBool(true)
	default:
		f.t.Fatalf("a %s is not stuffed", v.Type())
	}
}

func differs(a, b *Answer) string {
	// Devices are equal if they are the same devices, not if they look alike.
	device := cmp.Comparer(func(a, b *gpu.Device) bool { return a == b })
	return cmp.Diff(a, b, device, cmp.AllowUnexported(Answer{}, DeviceAnswer{}, Cause{}, gpu.Reading[float64]{}, gpu.Reading[time.Duration]{}))
}

// Every field of an answer survives, including new ones.
func TestRecordsOfAnswersAreWhole(t *testing.T) {
	s := &gpu.Snapshot{Devices: make([]gpu.Device, 3)}
	var a Answer
	(&stuffer{t: t, snapshot: s}).stuff(reflect.ValueOf(&a).Elem())
	for i := range a.Devices {
		a.Devices[i].Device = &s.Devices[i]
	}
	a.ranked = []*DeviceAnswer{&a.Devices[1], &a.Devices[2], &a.Devices[0]}
	for name, a := range map[string]*Answer{"stuffed": &a, "nothing of three": {Devices: []DeviceAnswer{
		{Device: &s.Devices[0], Causes: []Cause{{}}}, {Device: &s.Devices[1], Causes: []Cause{{}}}, {Device: &s.Devices[2], Causes: []Cause{{}}},
	}}} {
		if a.ranked == nil {
			a.rank()
		}
		r, err := a.Record(s)
		if err != nil {
			t.Fatal(err)
		}
		text, err := gpu.AppendRecord(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		var read Record
		if err := gpu.ReadRecord(&gpu.RecordReader{Room: 1 << 20}, text, &read); err != nil {
			t.Fatal(err)
		}
		back, err := read.Answer(s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := differs(a, &back); diff != "" {
			t.Errorf("%s came back otherwise:\n%s", name, diff)
		}
		for i := range back.ranked {
			if back.ranked[i] != &back.Devices[map[string][]int{"stuffed": {1, 2, 0}, "nothing of three": {0, 1, 2}}[name][i]] {
				t.Errorf("%s: rank %d is another device's, or a copy", name, i)
			}
		}
	}
}

func TestRecordsOfAnotherSnapshot(t *testing.T) {
	s := &gpu.Snapshot{Devices: []gpu.Device{{State: gpu.StateOK}, {State: gpu.StateOK}}}
	a := Explain(s)
	if _, err := a.Record(&gpu.Snapshot{}); err == nil {
		t.Error("an answer about two devices is about none")
	}
	if _, err := a.Record(&gpu.Snapshot{Devices: append([]gpu.Device{}, s.Devices...)}); err == nil {
		t.Error("an answer is about a copy of its devices")
	}
	for says, change := range map[string]func(*Record){
		"Devices: ":         func(r *Record) { r.Devices = r.Devices[:1] },
		"Ranked: 2":         func(r *Record) { r.Ranked[0] = 2 },
		"Ranked: 1":         func(r *Record) { r.Ranked = []int{1, 1} },
		"Ranked: 1 of 2":    func(r *Record) { r.Ranked = r.Ranked[:1] },
		"Ranked: -1":        func(r *Record) { r.Ranked[0] = -1 },
		"about device 7":    func(r *Record) { r.Devices[0].Causes[0].Device = gpu.Of(7) },
		"Devices[1].Causes": func(r *Record) { r.Devices[1].Causes = nil },
	} {
		r, err := a.Record(s)
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		if _, err := r.Answer(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one that says %q", err, says)
		}
	}
	r, err := a.Record(s)
	if err != nil {
		t.Fatal(err)
	}
	r.Ranked = nil // from a sender that does not send it
	if back, err := r.Answer(s); err != nil || differs(&a, &back) != "" {
		t.Errorf("%v: %s", err, differs(&a, &back))
	}
}
