package gpu

import (
	"reflect"
	"slices"
)

// AllAbsent returns a group of readings, such as [Health], in which every reading
// is absent for one reason.
func AllAbsent[T any](q Quality) (group T) {
	withdraw(reflect.ValueOf(&group).Elem(), q)
	return group
}

// Stale returns the readings, with every reading that had a value absent as
// stale. The lists of the result are its own.
func (r Readings) Stale() Readings {
	r.Fans.Fans = slices.Clone(r.Fans.Fans)
	r.Instances = slices.Clone(r.Instances)
	withdraw(reflect.ValueOf(&r).Elem(), Stale)
	return r
}

// withdraw makes the readings in v absent. Stale concerns only those that have a
// value.
func withdraw(v reflect.Value, q Quality) {
	if r, ok := reflect.TypeAssert[interface{ withdraw(Quality) }](v.Addr()); ok {
		r.withdraw(q)
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			withdraw(v.Index(i), q)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			withdraw(field, q)
		}
	}
}

func (r *Reading[T]) withdraw(q Quality) {
	if q != Stale || r.Present() {
		*r = Absent[T](q)
	}
}
