package gpu

import "fmt"

// Quality says how far a reading can be trusted and, where it is absent, why.
type Quality uint8

// The qualities of a reading. Only Good and Doubtful readings have a value.
const (
	NotReported  Quality = iota // nothing is known, and not why; the zero of every Reading
	NotSupported                // the device or its driver does not offer this reading
	NotPermitted                // it exists, but this process may not read it
	Stale                       // it was reported before, and the device does not answer now
	Implausible                 // it was reported, and it can't be: no device has such a value, or others of its readings rule it out
	Doubtful                    // the value may well be wrong; it is as reported, but a utilization is 100 at most
	Good                        // a value as the device reported it
)

var qualityNames = [...]string{"not_reported", "not_supported", "not_permitted", "stale", "implausible", "doubtful", "good"}

// String returns the quality's name on the wire, such as "not_supported".
func (q Quality) String() string { return qualityNames[q] }

// A Reading is a value, or absent with a reason. Its zero is NotReported.
type Reading[T any] struct {
	value   T
	quality Quality
}

// Of returns a good reading of v.
func Of[T any](v T) Reading[T] { return Reading[T]{value: v, quality: Good} }

// DoubtfulOf returns a reading of v that is shown, marked, and decides nothing.
func DoubtfulOf[T any](v T) Reading[T] { return Reading[T]{value: v, quality: Doubtful} }

// Absent returns a reading without a value. It panics if q promises one.
func Absent[T any](q Quality) Reading[T] {
	if q >= Doubtful {
		panic("gpu: an absent reading can't be " + q.String())
	}
	return Reading[T]{quality: q}
}

// Get returns the value, and whether there is one. A doubtful value counts.
func (r Reading[T]) Get() (v T, ok bool) { return r.value, r.Present() }

// Trusted returns the value if it is good, for sums and decisions.
func (r Reading[T]) Trusted() (v T, ok bool) { return r.value, r.quality == Good }

// Or returns the value, or instead where there is none.
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

// String is for logs and tests: the value, or the reason why there is none.
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

// Map returns f of the reading's value, if there is one, with the same quality.
func Map[T, U any](r Reading[T], f func(T) U) Reading[U] {
	if !r.Present() {
		return Reading[U]{quality: r.quality}
	}
	return Reading[U]{value: f(r.value), quality: r.quality}
}
