package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Kind is what a [Field] holds.
type Kind uint8

// The kinds of fields.
const (
	TextField   Kind = iota // kept as [Text] returns it
	TimeField               // kept in whole milliseconds
	SpanField               // a duration, in nanoseconds
	NumberField             // a whole number
	AmountField             // a sum or a share, not less than 0
	FlagField               // true or false
	MemoryField             // a reading of bytes: its value, and its quality by name
	DataField               // JSON, or nothing
)

// A Field is one value that is kept of each T: what it is called, and where it is in a T. The databases, the messages of a fleet, the socket of the
// writing process, the answers of the API and the tests of stores walk the fields of a [Table]: a field that is declared there is kept, sent and compared.
// Exactly one of the functions is set.
type Field[T any] struct {
	Name             string // in messages; and in databases, unless one of the next two is set
	SQLite, Postgres string // of the column
	// Quality, SQLiteQuality and PostgresQuality are the same of the quality of a [MemoryField]; empty for other kinds.
	Quality, SQLiteQuality, PostgresQuality string
	API                                     string // in JSON and CSV; empty: answers don't have it as it is kept

	Key    bool // it tells one T from another
	Always bool // messages have it also where it is zero
	Unset  bool // a time that may be zero: not known
	Brief  bool // it is read also for [Query.Brief]
	Inline bool // SQLite keeps the text in the row; other texts of a table that shares its texts are kept once for all rows
	Short  bool // a name or a word of a few, of 512 bytes at most

	Text   func(*T) *string
	Time   func(*T) *time.Time
	Span   func(*T) *time.Duration
	Number func(*T) *int
	Amount func(*T) *float64
	Flag   func(*T) *bool
	Memory func(*T) *gpu.Reading[gpu.Bytes]
	Data   func(*T) *[]byte

	Kind Kind // by which of the functions is set
}

// A Table declares what is kept of each T, a row with named columns. Readings are rows of [Columns] instead, which come from the catalog.
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
		set := []bool{f.Text != nil, f.Time != nil, f.Span != nil, f.Number != nil, f.Amount != nil, f.Flag != nil, f.Memory != nil, f.Data != nil}
		kind := slices.Index(set, true)
		if kind < 0 || slices.Contains(set[kind+1:], true) || f.Name == "" || names[f.Name] || (f.Quality != "") != (f.Memory != nil) {
			panic(fmt.Sprintf("store: the field %q of %s is declared wrongly", f.Name, t.Name))
		}
		names[f.Name] = true
		f.Kind = Kind(kind)
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
		switch f := &t.Fields[i]; f.Kind {
		case TextField:
			*f.Text(v) = Text(*f.Text(v))
		case TimeField:
			*f.Time(v) = Stored(*f.Time(v))
		case DataField:
			if len(*f.Data(v)) == 0 {
				*f.Data(v) = nil
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
		{Name: "name", Short: true, Text: func(d *Device) *string { return &d.Name }},
		{Name: "vendor", Short: true, Text: func(d *Device) *string { return &d.Vendor }},
		{Name: "index", SQLite: "place", Postgres: "number", Number: func(d *Device) *int { return &d.Index }},
		{Name: "kind", Short: true, Text: func(d *Device) *string { return (*string)(&d.Kind) }},
	},
})

// Sessions declares what is kept of a [Session].
var Sessions = declare(Table[Session]{
	Name:   "sessions",
	Device: func(s *Session) (node, uuid *string) { return &s.Node, &s.UUID },
	Order:  func(s *Session) *int64 { return &s.Order },
	Fields: []Field[Session]{
		{Name: "boot", Key: true, Text: func(s *Session) *string { return &s.Boot }},
		{Name: "pid", API: "pid", Key: true, Always: true, Brief: true, Number: func(s *Session) *int { return &s.PID }},
		{Name: "started", API: "started", Key: true, Unset: true, Time: func(s *Session) *time.Time { return &s.Started }},
		{Name: "begin", SQLite: "begun", Postgres: "begun", Key: true, Always: true, Time: func(s *Session) *time.Time { return &s.Begin }},
		{Name: "user", Postgres: "user_name", API: "user", Brief: true, Text: func(s *Session) *string { return &s.User }},
		{Name: "name", API: "name", Brief: true, Text: func(s *Session) *string { return &s.Name }},
		{Name: "program", API: "program", Brief: true, Text: func(s *Session) *string { return &s.Program }},
		{Name: "command", API: "command", Text: func(s *Session) *string { return &s.Command }},
		{Name: "container", API: "container", Brief: true, Text: func(s *Session) *string { return &s.Container }},
		{Name: "image", API: "image", Text: func(s *Session) *string { return &s.Image }},
		{Name: "pod", API: "pod", Brief: true, Text: func(s *Session) *string { return &s.Pod }},
		{Name: "unit", API: "unit", Brief: true, Text: func(s *Session) *string { return &s.Unit }},
		{Name: "job", API: "job", Brief: true, Text: func(s *Session) *string { return &s.Job }},
		{Name: "type", Text: func(s *Session) *string { return (*string)(&s.Type) }},
		{
			Name: "from", SQLite: "since", Postgres: "from_time", API: "from", Always: true, Brief: true,
			Time: func(s *Session) *time.Time { return &s.From },
		},
		{
			Name: "to", SQLite: "until", Postgres: "to_time", API: "to", Always: true, Brief: true,
			Time: func(s *Session) *time.Time { return &s.To },
		},
		{
			Name: "outcome", API: "outcome", Always: true, Brief: true, Inline: true, Short: true,
			Text: func(s *Session) *string { return (*string)(&s.Outcome) },
		},
		{Name: "seen", API: "seen_seconds", Brief: true, Span: func(s *Session) *time.Duration { return &s.Seen }},
		{
			Name: "peak_memory", Quality: "peak_quality", SQLiteQuality: "peak_memory_quality", API: "peak_memory_mb", Brief: true,
			Memory: func(s *Session) *gpu.Reading[gpu.Bytes] { return &s.PeakMemory },
		},
		{Name: "memory_seconds", Amount: func(s *Session) *float64 { return &s.MemorySeconds }},
		{Name: "memory_known", Span: func(s *Session) *time.Duration { return &s.MemoryKnown }},
		{Name: "sm_seconds", Brief: true, Amount: func(s *Session) *float64 { return &s.SMSeconds }},
		{Name: "sm_known", Brief: true, Span: func(s *Session) *time.Duration { return &s.SMKnown }},
		{Name: "joules", Brief: true, Amount: func(s *Session) *float64 { return &s.Joules }},
		{Name: "joules_known", API: "energy_known_seconds", Brief: true, Span: func(s *Session) *time.Duration { return &s.JoulesKnown }},
		{Name: "joules_method", API: "energy_method", Brief: true, Text: func(s *Session) *string { return &s.JoulesMethod }},
		{Name: "busy", API: "busy_seconds", Brief: true, Span: func(s *Session) *time.Duration { return &s.Busy }},
		{Name: "accounted", API: "accounted", Brief: true, Flag: func(s *Session) *bool { return &s.Accounted }},
	},
})

// Causes declares what is kept of a [Cause].
var Causes = declare(Table[Cause]{
	Name:   "causes",
	Device: func(c *Cause) (node, uuid *string) { return &c.Node, &c.UUID },
	Order:  func(c *Cause) *int64 { return &c.Order },
	Fields: []Field[Cause]{
		{Name: "id", SQLite: "cause", API: "id", Key: true, Always: true, Text: func(c *Cause) *string { return &c.ID }},
		{
			Name: "from", SQLite: "since", Postgres: "from_time", API: "from", Key: true, Always: true,
			Time: func(c *Cause) *time.Time { return &c.From },
		},
		{Name: "to", SQLite: "until", Postgres: "to_time", API: "to", Always: true, Time: func(c *Cause) *time.Time { return &c.To }},
		{Name: "open", API: "open", Flag: func(c *Cause) *bool { return &c.Open }},
		{Name: "kind", API: "kind", Text: func(c *Cause) *string { return &c.Kind }},
		{Name: "case", SQLite: "kind_case", Text: func(c *Cause) *string { return &c.Case }},
		{Name: "sentence", API: "sentence", Inline: true, Text: func(c *Cause) *string { return &c.Sentence }},
		{Name: "short", Text: func(c *Cause) *string { return &c.Short }},
		{Name: "confidence", API: "confidence", Amount: func(c *Cause) *float64 { return &c.Confidence }},
		{Name: "who", Text: func(c *Cause) *string { return &c.Who }},
	},
})

// Events declares what is kept of an [Event].
var Events = declare(Table[Event]{
	Name: "events", Global: true,
	Device: func(e *Event) (node, uuid *string) { return &e.Node, &e.UUID },
	Fields: []Field[Event]{
		{Name: "id", API: "id", Key: true, Always: true, Inline: true, Text: func(e *Event) *string { return &e.ID }},
		{Name: "time", API: "time", Always: true, Time: func(e *Event) *time.Time { return &e.Time }},
		{Name: "kind", API: "kind", Inline: true, Text: func(e *Event) *string { return &e.Kind }},
		{Name: "severity", API: "severity", Inline: true, Text: func(e *Event) *string { return &e.Severity }},
		{Name: "text", API: "text", Inline: true, Text: func(e *Event) *string { return &e.Text }},
		{Name: "data", Data: func(e *Event) *[]byte { return &e.Data }},
	},
})
