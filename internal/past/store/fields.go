package store

import (
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Memory is what a field of bytes holds, which a driver may not tell.
type Memory = gpu.Reading[gpu.Bytes]

// A Field is one value that is kept of each T: what it is called, and where it is in a T. The databases, the messages of a fleet, the socket of the
// writing process, the answers of the API and the tests of stores walk the fields of a [Table]: a field that is declared there is kept, sent and compared.
type Field[T any] struct {
	Name             string // in messages; and in databases, unless one of the next two is set
	SQLite, Postgres string // of the column
	// Quality, SQLiteQuality and PostgresQuality are the same of the quality of [Memory]; empty for other fields.
	Quality, SQLiteQuality, PostgresQuality string
	API                                     string // in JSON and CSV; empty: answers don't have it as it is kept

	Key    bool // it tells one T from another: a text, a number or a time
	Always bool // messages have it also where it is zero
	Unset  bool // a time that may be zero: not known
	Brief  bool // it is read also for [Query.Brief]
	Inline bool // SQLite keeps the text in the row; other texts of a table that shares its texts are kept once for all rows
	Short  bool // a name or a word of a few, of 512 bytes at most

	// Place points to the value: a *string, a *[]byte with JSON or nothing, *int, *bool, *time.Time, *time.Duration, *float64 (a sum or a share, not
	// less than 0) or *[Memory]. Whoever walks fields has a case for each of these.
	Place func(*T) any
}

// A Table declares the stored fields of each T, a row with named columns. Readings are rows of [Columns] instead, which come from the catalog.
type Table[T any] struct {
	Name string // in databases
	// Device is where a T says of which device or machine it is.
	Device func(*T) (node, uuid *string)
	// Order is where a T has its order, see [Batch.Delivered]; nil: it has none.
	Order func(*T) *int64
	// Global says that the key of a T is unique by itself; else it is together with the device.
	Global bool
	Fields []Field[T]
}

// declare completes a table. It panics where a field is declared wrongly.
func declare[T any](t Table[T]) *Table[T] {
	names := map[string]bool{}
	for i := range t.Fields {
		f := &t.Fields[i]
		memory := false
		switch f.Place(new(T)).(type) {
		case *Memory:
			memory = true
		case *string, *[]byte, *int, *bool, *time.Time, *time.Duration, *float64:
		default:
			panic(fmt.Sprintf("store: nobody can keep a %T, as the field %q of %s is", f.Place(new(T)), f.Name, t.Name))
		}
		if f.Name == "" || names[f.Name] || (f.Quality != "") != memory {
			panic(fmt.Sprintf("store: the field %q of %s has no name of its own, or none of its quality", f.Name, t.Name))
		}
		names[f.Name] = true
		for _, column := range []*string{&f.SQLite, &f.Postgres} {
			if *column == "" {
				*column = f.Name
			}
		}
		for _, column := range []*string{&f.SQLiteQuality, &f.PostgresQuality} {
			if *column == "" {
				*column = f.Quality
			}
		}
	}
	return &t
}

// Clean makes a T what a store has of it: texts and times as they are kept, and no order.
func (t *Table[T]) Clean(v *T) {
	node, uuid := t.Device(v)
	*node, *uuid = Text(*node), Text(*uuid)
	if t.Order != nil {
		*t.Order(v) = 0
	}
	for i := range t.Fields {
		switch p := t.Fields[i].Place(v).(type) {
		case *string:
			*p = Text(*p)
		case *time.Time:
			*p = Stored(*p)
		case *[]byte:
			if len(*p) == 0 {
				*p = nil
			}
		}
	}
}

// Stored is a time as it is kept: UTC, in whole milliseconds.
func Stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// MemoryReading is a reading of bytes by its value, nil where there is none, and the name of its quality, as columns and messages have it.
func MemoryReading[N uint64 | int64](bytes *N, quality string) gpu.Reading[gpu.Bytes] {
	switch {
	case bytes != nil && quality == gpu.Doubtful.String():
		return gpu.DoubtfulOf(gpu.Bytes(*bytes))
	case bytes != nil:
		return gpu.Of(gpu.Bytes(*bytes))
	}
	for q := range gpu.Doubtful {
		if q.String() == quality {
			return gpu.Absent[gpu.Bytes](q)
		}
	}
	return gpu.Reading[gpu.Bytes]{}
}

// Devices declares what is kept of a [Device] beside its first and last time.
var Devices = declare(Table[Device]{
	Name:   "devices",
	Device: func(d *Device) (node, uuid *string) { return &d.Node, &d.UUID },
	Order:  func(d *Device) *int64 { return &d.Order },
	Fields: []Field[Device]{
		{Name: "name", Short: true, Place: func(d *Device) any { return &d.Name }},
		{Name: "vendor", Short: true, Place: func(d *Device) any { return &d.Vendor }},
		{Name: "index", SQLite: "place", Postgres: "number", Place: func(d *Device) any { return &d.Index }},
		{Name: "kind", Short: true, Place: func(d *Device) any { return (*string)(&d.Kind) }},
	},
})

// Sessions declares what is kept of a [Session].
var Sessions = declare(Table[Session]{
	Name:   "sessions",
	Device: func(s *Session) (node, uuid *string) { return &s.Node, &s.UUID },
	Order:  func(s *Session) *int64 { return &s.Order },
	Fields: []Field[Session]{
		{Name: "boot", Key: true, Place: func(s *Session) any { return &s.Boot }},
		{Name: "pid", API: "pid", Key: true, Always: true, Brief: true, Place: func(s *Session) any { return &s.PID }},
		{Name: "started", API: "started", Key: true, Unset: true, Place: func(s *Session) any { return &s.Started }},
		{Name: "begin", SQLite: "begun", Postgres: "begun", Key: true, Always: true, Place: func(s *Session) any { return &s.Begin }},
		{Name: "user", Postgres: "user_name", API: "user", Brief: true, Place: func(s *Session) any { return &s.User }},
		{Name: "name", API: "name", Brief: true, Place: func(s *Session) any { return &s.Name }},
		{Name: "program", API: "program", Brief: true, Place: func(s *Session) any { return &s.Program }},
		{Name: "command", API: "command", Place: func(s *Session) any { return &s.Command }},
		{Name: "container", API: "container", Brief: true, Place: func(s *Session) any { return &s.Container }},
		{Name: "image", API: "image", Place: func(s *Session) any { return &s.Image }},
		{Name: "pod", API: "pod", Brief: true, Place: func(s *Session) any { return &s.Pod }},
		{Name: "unit", API: "unit", Brief: true, Place: func(s *Session) any { return &s.Unit }},
		{Name: "job", API: "job", Brief: true, Place: func(s *Session) any { return &s.Job }},
		{Name: "type", Place: func(s *Session) any { return (*string)(&s.Type) }},
		{
			Name: "from", SQLite: "since", Postgres: "from_time", API: "from", Always: true, Brief: true,
			Place: func(s *Session) any { return &s.From },
		},
		{
			Name: "to", SQLite: "until", Postgres: "to_time", API: "to", Always: true, Brief: true,
			Place: func(s *Session) any { return &s.To },
		},
		{
			Name: "outcome", API: "outcome", Always: true, Brief: true, Inline: true, Short: true,
			Place: func(s *Session) any { return (*string)(&s.Outcome) },
		},
		{Name: "seen", API: "seen_seconds", Brief: true, Place: func(s *Session) any { return &s.Seen }},
		{
			Name: "peak_memory", Quality: "peak_quality", SQLiteQuality: "peak_memory_quality", API: "peak_memory_mb", Brief: true,
			Place: func(s *Session) any { return &s.PeakMemory },
		},
		{Name: "memory_seconds", Place: func(s *Session) any { return &s.MemorySeconds }},
		{Name: "memory_known", Place: func(s *Session) any { return &s.MemoryKnown }},
		{Name: "sm_seconds", Brief: true, Place: func(s *Session) any { return &s.SMSeconds }},
		{Name: "sm_known", Brief: true, Place: func(s *Session) any { return &s.SMKnown }},
		{Name: "joules", Brief: true, Place: func(s *Session) any { return &s.Joules }},
		{Name: "joules_known", API: "energy_known_seconds", Brief: true, Place: func(s *Session) any { return &s.JoulesKnown }},
		{Name: "joules_method", API: "energy_method", Brief: true, Place: func(s *Session) any { return &s.JoulesMethod }},
		{Name: "busy", API: "busy_seconds", Brief: true, Place: func(s *Session) any { return &s.Busy }},
		{Name: "accounted", API: "accounted", Brief: true, Place: func(s *Session) any { return &s.Accounted }},
	},
})

// Causes declares what is kept of a [Cause].
var Causes = declare(Table[Cause]{
	Name:   "causes",
	Device: func(c *Cause) (node, uuid *string) { return &c.Node, &c.UUID },
	Order:  func(c *Cause) *int64 { return &c.Order },
	Fields: []Field[Cause]{
		{Name: "id", SQLite: "cause", API: "id", Key: true, Always: true, Place: func(c *Cause) any { return &c.ID }},
		{
			Name: "from", SQLite: "since", Postgres: "from_time", API: "from", Key: true, Always: true,
			Place: func(c *Cause) any { return &c.From },
		},
		{Name: "to", SQLite: "until", Postgres: "to_time", API: "to", Always: true, Place: func(c *Cause) any { return &c.To }},
		{Name: "open", API: "open", Place: func(c *Cause) any { return &c.Open }},
		{Name: "kind", API: "kind", Place: func(c *Cause) any { return &c.Kind }},
		{Name: "case", SQLite: "kind_case", Place: func(c *Cause) any { return &c.Case }},
		{Name: "sentence", API: "sentence", Inline: true, Place: func(c *Cause) any { return &c.Sentence }},
		{Name: "short", Place: func(c *Cause) any { return &c.Short }},
		{Name: "confidence", API: "confidence", Place: func(c *Cause) any { return &c.Confidence }},
		{Name: "who", Place: func(c *Cause) any { return &c.Who }},
	},
})

// Events declares what is kept of an [Event].
var Events = declare(Table[Event]{
	Name: "events", Global: true,
	Device: func(e *Event) (node, uuid *string) { return &e.Node, &e.UUID },
	Fields: []Field[Event]{
		{Name: "id", API: "id", Key: true, Always: true, Inline: true, Place: func(e *Event) any { return &e.ID }},
		{Name: "time", API: "time", Always: true, Place: func(e *Event) any { return &e.Time }},
		{Name: "kind", API: "kind", Inline: true, Place: func(e *Event) any { return &e.Kind }},
		{Name: "severity", API: "severity", Inline: true, Place: func(e *Event) any { return &e.Severity }},
		{Name: "text", API: "text", Inline: true, Place: func(e *Event) any { return &e.Text }},
		{Name: "data", Place: func(e *Event) any { return &e.Data }},
	},
})
