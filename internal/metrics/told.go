package metrics

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Table has the metrics that a part of the program tells of itself. S is what they are read from, all at one time.
type Table[S any] []Row[S]

// Of is the table with what it is read from now.
func (t Table[S]) Of(s S) Told { return told[S]{t, s} }

// Told is a [Table] with what it is read from.
type Told interface {
	collect(b *builder, origin func() (node string, read time.Time))
	// declared are the rows without what they are read from.
	declared() []Row[any]
}

type told[S any] struct {
	rows    Table[S]
	subject S
}

func (t told[S]) collect(b *builder, origin func() (string, time.Time)) {
	collectOf(b, t.rows, []S{t.subject}, func(S) (string, time.Time) { return origin() })
}

func (t told[S]) declared() (rows []Row[any]) {
	for _, r := range t.rows {
		rows = append(rows, Row[any]{name: r.name, unit: r.unit, labels: r.labels, help: r.help, absent: r.absent, each: func(any, Emit) {}})
	}
	return rows
}

// Series is a row of a metric with a series for each set of values of its labels. A name that ends in _total is that of a counter; the
// others are gauges. absent says when it has no series; empty: it always has.
func Series[S any](name string, u Unit, help, absent string, each func(S, Emit), labels ...string) Row[S] {
	return Row[S]{name: name, unit: u, help: help, absent: absent, each: each, labels: labels}
}

// Every calls one for each element of a list.
func Every[T any](one func(*T, Emit)) func([]T, Emit) {
	return Each(func(all []T) []T { return all }, one)
}

// Count is the value of a number.
func Count[T int | uint64](n T) gpu.Reading[float64] { return gpu.Of(float64(n)) }

// Truth is the value of a metric that is 0 or 1.
func Truth(is bool) gpu.Reading[float64] { return gpu.Of(zeroOne(is)) }
