package gpu

import (
	"reflect"
	"slices"
)

// A withdrawable is a *[Reading].
type withdrawable interface {
	Present() bool
	withdraw(q Quality)
}

func (r *Reading[T]) withdraw(q Quality) { *r = Absent[T](q) }

// Withdraw makes every reading in a group absent for one reason. The group is a pointer
// to a reading, or to a struct of readings, such as a [Health].
func Withdraw(group any, q Quality) {
	eachReading(reflect.ValueOf(group).Elem(), func(r withdrawable) { r.withdraw(q) })
}

// Stale returns a copy of the readings in which every reading that had a value is
// absent as Stale. The copy shares no lists with r.
func (r Readings) Stale() Readings {
	r.Fans.Fans = slices.Clone(r.Fans.Fans)
	r.Instances = slices.Clone(r.Instances)
	r.NVLink.Links = slices.Clone(r.NVLink.Links)
	eachReading(reflect.ValueOf(&r).Elem(), func(r withdrawable) {
		if r.Present() {
			r.withdraw(Stale)
		}
	})
	return r
}

func eachReading(v reflect.Value, visit func(withdrawable)) {
	if r, ok := reflect.TypeAssert[withdrawable](v.Addr()); ok {
		visit(r)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			eachReading(v.Index(i), visit)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			eachReading(field, visit)
		}
	}
}
