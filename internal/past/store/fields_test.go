package store

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// What a session, a cause, an event or a device has is declared, once: else it would be neither kept nor sent.
func TestAllFieldsAreDeclared(t *testing.T) {
	declared(t, Devices, "First", "Last") // which a store finds out
	declared(t, Sessions)
	declared(t, Causes)
	declared(t, Events)
}

func declared[T any](t *testing.T, table *Table[T], but ...string) {
	t.Helper()
	v := new(T)
	node, uuid := table.Device(v)
	places := map[any]int{node: 1, uuid: 1}
	if table.Order != nil {
		places[table.Order(v)]++
	}
	for i := range table.Fields {
		places[table.Fields[i].Place(v)]++
	}
	var look func(reflect.Value)
	look = func(in reflect.Value) {
		for field, value := range in.Fields() {
			if slices.Contains(but, field.Name) {
				continue
			}
			if field.Anonymous {
				look(value)
				continue
			}
			found := 0
			for place, times := range places {
				if p := reflect.ValueOf(place); p.Pointer() == value.Addr().Pointer() {
					found += times
				}
			}
			if found != 1 {
				t.Errorf("%s.%s is declared %d times", table.Name, field.Name, found)
			}
		}
	}
	look(reflect.ValueOf(v).Elem())
}

func TestClean(t *testing.T) {
	when := time.Date(2026, 3, 28, 20, 15, 0, 1_234_567, time.FixedZone("somewhere", 3600))
	e := Event{ID: "a\xff", Time: when, Data: []byte{}}
	Events.Clean(&e)
	if e.ID != "a\uFFFD" || e.Time.Location() != time.UTC || e.Time.Nanosecond() != 1_000_000 || e.Data != nil {
		t.Errorf("%+v", e)
	}
	s := Session{Order: 7, PeakMemory: gpu.Of(gpu.Bytes(5))}
	if Sessions.Clean(&s); s.Order != 0 || !s.Started.IsZero() || s.PeakMemory != gpu.Of(gpu.Bytes(5)) {
		t.Errorf("%+v", s)
	}
}
