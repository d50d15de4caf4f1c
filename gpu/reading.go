package gpu

import "fmt"

// Quality says how far a reading can be trusted and, if it is absent, why.
type Quality uint8

// The qualities of a reading. Only Good and Doubtful readings have a value.
const (
	NotReported  Quality = iota // absent for an unknown reason; the zero value of every Reading
	NotSupported                // the device or its driver does not offer this reading
	NotPermitted                // it exists, but this process may not read it
	Stale                       // it was reported before, but the device does not answer now
	Implausible                 // it was reported, but is impossible: no device has such a value, or the device's other readings rule it out
	Doubtful                    // the value may well be wrong; it is as reported, except that a utilization is at most 100
	Good                        // a value as the device reported it
)

var qualityNames = [...]string{"not_reported", "not_supported", "not_permitted", "stale", "implausible", "doubtful", "good"}

// String returns the quality's name on the wire, such as "not_supported".
func (q Quality) String() string { return qualityNames[q] }

// A Reading is a value, or absent with a reason. The zero Reading is NotReported.
type Reading[T any] struct {
	value   T
	quality Quality
}

// Of returns a good reading of v.
func Of[T any](v T) Reading[T] { return Reading[T]{value: v, quality: Good} }

// DoubtfulOf returns a doubtful reading of v: it is shown with a mark, and decides nothing.
func DoubtfulOf[T any](v T) Reading[T] { return Reading[T]{value: v, quality: Doubtful} }

// Absent returns a reading without a value. It panics if q is Good or Doubtful.
func Absent[T any](q Quality) Reading[T] {
	if q >= Doubtful {
		panic("gpu: an absent reading can't be " + q.String())
	}
	return Reading[T]{quality: q}
}

// Get returns the value, and whether there is one. A doubtful value counts.
func (r Reading[T]) Get() (v T, ok bool) { return r.value, r.Present() }

// Trusted returns the value if it is Good, for sums and decisions.
func (r Reading[T]) Trusted() (v T, ok bool) { return r.value, r.quality == Good }

// Or returns the value, or instead if there is none.
func (r Reading[T]) Or(instead T) T {
	if r.Present() {
		return r.value
	}
	return instead
}

// Present reports whether there is a value.
func (r Reading[T]) Present() bool { return r.quality >= Doubtful }

// Quality says how far the reading can be trusted, or why it is absent.
func (r Reading[T]) Quality() Quality { return r.quality }

// String returns the value, or the reason why there is none, for logs and tests.
func (r Reading[T]) String() string {
	switch r.quality {
	case Good:
		return fmt.Sprint(r.value)
	case Doubtful:
		return fmt.Sprint(r.value) + " (doubtful)"
	default:
		return r.quality.String()
	}
}

// Map returns a reading of f(value) with the same quality, or an absent one if there is no value.
func Map[T, U any](r Reading[T], f func(T) U) Reading[U] {
	if !r.Present() {
		return Reading[U]{quality: r.quality}
	}
	return Reading[U]{value: f(r.value), quality: r.quality}
}
