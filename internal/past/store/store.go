// Package store defines the data stored about the past, and how to query it. A [Store] is a database: in a file (package
// sqlite) or on a server (package postgres). Both pass the same tests (package storetest).
//
// A store computes nothing: package record turns Moments into a [Batch], and package
// history answers questions.
//
// fields.go declares each stored field once: the databases, the messages of a fleet, the helper's socket, JSON, CSV and the tests walk its
// tables (docs/adr/0026-stored-fields.md).
package store

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Tier is how long a span one row of readings is about.
type Tier uint8

// The tiers, the finest first.
const (
	Raw     Tier = iota // one reading
	Minute              // all readings of a minute, UTC
	Quarter             // of a quarter of an hour
	// SixHours are all of a quarter of a day, from 0:00, 6:00, 12:00 or 18:00 UTC: for pictures of a year. They are made of rows of
	// [Quarter], kept as long as those, and say nothing that those don't.
	SixHours
)

// Tiers are all of them, the finest first.
var Tiers = [...]Tier{Raw, Minute, Quarter, SixHours}

// Span is the time that a row of the tier is about; 0 for a reading.
func (t Tier) Span() time.Duration {
	return [...]time.Duration{0, time.Minute, 15 * time.Minute, 6 * time.Hour}[t]
}

// String is the tier's name in flags and tables: "raw", "1m", "15m" or "6h".
func (t Tier) String() string { return [...]string{"raw", "1m", "15m", "6h"}[t] }

// ParseTier is the tier of a name.
func ParseTier(name string) (t Tier, ok bool) {
	for _, t := range Tiers {
		if t.String() == name {
			return t, true
		}
	}
	return 0, false
}

// A Device is one GPU of one node, or with an empty UUID the machine itself.
type Device struct {
	Node, UUID   string
	Name, Vendor string
	Index        int
	Kind         gpu.Kind // what is simulated or recorded says so in the past, too
	Order        int64    // see [Batch.Delivered]; a store does not read it back
	// First and Last are the times of its first and last row, but for those of [SixHours], which begin long before what they are
	// about. A store fills them in.
	First, Last time.Time
}

// Key is the device's identity.
func (d *Device) Key() Key { return Key{d.Node, d.UUID} }

// A Key names a device. With an empty UUID it is the machine itself.
type Key struct{ Node, UUID string }

// A Row has the readings of a device, or of a machine, at a time or over a span.
type Row struct {
	Key
	Tier     Tier
	Time     time.Time // when the reading began; of a span, when that begins; UTC, whole milliseconds
	Readings int       // that the row is about; 1 for a reading
	// Values by the columns of its kind: [DeviceColumns] or [MachineColumns]; those of a span are [Columns.Spans].
	Values []Value
	State  gpu.State // of a device: at the time, or at the span's end; empty for a machine
}

// A Value is one quantity of a row, in the unit of its column. Where Count is 0 it is absent.
type Value struct {
	Least, Mean, Most float64 // all the same for a single reading
	Count             int     // readings that had it and were not doubtful; 1 for a single reading
	Doubtful          bool    // of a single reading: it can't be right. Spans leave such readings out
}

// A Frame is a whole snapshot with all that it says, as [gpu.MarshalRecord] writes it. It is kept as long as raw rows are.
type Frame struct {
	Node     string
	Time     time.Time
	Snapshot []byte
}

// An Outcome is how a session ended.
type Outcome string

// The outcomes of a session.
const (
	Open    Outcome = "open"     // it goes on
	Ended   Outcome = "ended"    // the process let go of the device, or ended, while gpuwhy looked
	Unseen  Outcome = "unseen"   // gpuwhy did not look, and did not find it again afterwards: To is when it was last seen
	GPULost Outcome = "gpu_lost" // the device was lost or did not answer, and the process was not seen again
)

// A Session is one process on one device, from when it was first seen to when it was last seen.
type Session struct {
	SessionKey
	// Who it is, as [gpu.ProcessFacts] says; empty where that is not known, or may not be shown.
	User, Name, Program, Command string
	Container, Image, Pod, Unit  string // the container's name, or its ID; a pod as "namespace/name"
	Job                          string // "slurm:1234"
	Type                         gpu.ProcessType

	From, To time.Time
	Outcome  Outcome
	// Seen is the part of To−From in which gpuwhy looked, or in which the driver accounted. The rest is a gap.
	Seen time.Duration

	PeakMemory gpu.Reading[gpu.Bytes]
	// Sums over the time in which there was a reading of it, and that time. Their quotient is a mean.
	MemorySeconds float64 // byte-seconds
	MemoryKnown   time.Duration
	SMSeconds     float64 // of all SMs of the device: 0.5 for a second at 50 %
	SMKnown       time.Duration
	Joules        float64 // its part of the device's draw above rest, as package attribute divides it
	JoulesKnown   time.Duration
	JoulesMethod  string        // by what it was divided; "mixed" where that changed; or [Estimated]
	Busy          time.Duration // in which its SMs or engines worked
	// Accounted: all that is known comes from the driver's accounting (see [gpu.AccountedProcess]), and gpuwhy never saw it run.
	// It has no user and no name; its From is when it began to use the device; SMSeconds and Busy are its mean utilization
	// times its time.
	Accounted bool
	Order     int64 // see [Batch.Delivered]; a store does not read it back
}

// Estimated is the JoulesMethod of a session while the idle floor of its device is not known: what the device draws at rest is estimated,
// and its joules with that. JoulesKnown is then for how long there is an estimate, or more that is known.
const Estimated = "estimated"

// SessionKey is what makes a session: a pid that is used again has another start, and a machine
// that starts again another boot.
type SessionKey struct {
	Key
	Boot    string // of the machine, such as its boot ID; empty where that is not known
	PID     int
	Started time.Time // of the process; zero where that is not known
	Begin   time.Time // of the first session of this process there; later ones of the same process have their own
}

// A Cause is what the answer said for a while.
type Cause struct {
	Key               // with an empty UUID: about the machine
	ID         string // as [explain.Cause].ID
	From, To   time.Time
	Open       bool // it stood when last looked
	Kind, Case string
	Sentence   string // as it was said when the device drew most
	Short      string
	Confidence float64
	Who        string // the process that it names, as the answer calls it; empty where it names none
	Order      int64  // see [Batch.Delivered]; a store does not read it back
}

// EventKinds are the kinds of events.
var EventKinds = []string{
	"alert_fired", "alert_data_gone", "alert_data_back", "alert_marked", "alert_over",
	"state", "xid", "fault", "throttling", "clock_set", "started", "stopped",
}

// An Event is something that happened at a time.
type Event struct {
	ID   string // the same for the same event, so that it is kept once
	Key         // with an empty UUID: of the machine
	Time time.Time
	// Kind is one of EventKinds.
	Kind     string
	Severity string // "info", "warning", "critical"; empty: none
	Text     string // a sentence
	Data     []byte // JSON, or nothing
}

// A Batch is written whole or not at all. Everything is written by key: writing the same twice changes nothing, and an entry that is written
// later, or is later in the batch, replaces the one with the same key. A device that rows, frames, sessions, causes, events or
// unsettled spans name is created; nothing more is known about it until Devices has it.
//
// Times are kept in whole milliseconds. Text is kept as [Text] returns it.
type Batch struct {
	// Renamed are machines whose past becomes that of another name, before all else of the batch, which has nothing of the old names. A device
	// that both names have stays with the old one, and so does all while another program writes as the old one.
	Renamed  []Renaming
	Devices  []Device
	Rows     []Row // of all tiers
	Frames   []Frame
	Sessions []Session
	Causes   []Cause
	Events   []Event
	// Documents are small state, by name. An empty text removes one.
	Documents map[string][]byte
	// Unsettled are spans that have got readings, and whose row is not written yet; Settled are those whose row now is, also
	// where it is in both.
	Unsettled, Settled []Bucket

	// Delivered says that the batch comes from elsewhere, perhaps a second time, or after newer data. Then a session, a cause or
	// a device replaces the one with the same key only if its Order, which grows with each change, is not less, and the row of
	// a span only if it has no fewer readings. Data that was not delivered has the order 0, and always replaces.
	Delivered bool
	// Parcels are put into the outbox with the rest of the batch. They are for a store that is an [Outbox].
	Parcels []Parcel
}

// Identity is the document that tells a database from every other. All who write into a database read the same, whoever they are; the
// first that is written stays.
const Identity = "identity of the database"

// FleetNames is the document in which recorders keep which installation of gpuwhy has which name.
const FleetNames = "names of the fleet"

// Shared reports whether a document is that of all who write into a database, and not of one of them.
func Shared(document string) bool { return document == Identity || document == FleetNames }

// A Renaming says that a machine has got another name.
type Renaming struct{ From, To string }

// A Parcel is a part of the past of one node, packed to be delivered elsewhere.
type Parcel struct {
	Number int64 // larger than that of every parcel before
	Node   string
	Parts  Parts
	Data   []byte
}

// Parts are kinds of what a parcel has, those that are worth the least first.
type Parts uint8

// The parts of a parcel.
const (
	WithFrames   Parts = 1 << iota
	WithReadings       // raw rows
	WithSpans
	WithRest // sessions, causes, events, devices
)

// An Outbox keeps parcels until they are delivered. Its methods may be called at the same time; errors are those of a [Store].
type Outbox interface {
	// LastParcel is the largest number that a parcel ever had, 0 if there was none, and how many bytes are kept in how many parcels.
	LastParcel(ctx context.Context) (number int64, parcels int, bytes int64, err error)
	// Parcels are some of those that have any of the parts, the oldest first.
	Parcels(ctx context.Context, parts Parts, most int) ([]Parcel, error)
	// Repack gives a parcel that is still there other data; without data it is removed.
	Repack(ctx context.Context, p Parcel) error
	// Posted removes parcels, and returns how many bytes of how many that were.
	Posted(ctx context.Context, numbers []int64) (parcels int, bytes int64, err error)
}

// A Bucket is a span of a device or machine whose row has to be made.
type Bucket struct {
	Key
	Tier Tier
	Time time.Time
}

// A Query asks for what overlaps From ≤ t < To; what ends at From does not, unless it began there, too. Rows are asked
// for by when they begin, also those of spans. A zero time does not bound it. Empty keys stand for all.
type Query struct {
	From, To time.Time
	Keys     []Key
	Machines bool // rows of machines in place of those of devices
	Tier     Tier
	Columns  []int // of rows, by number; nil for all. The other values are absent
	Reuse    bool  // the next row may have its values where those of this one were, which takes half of the time

	User, Name, Job, Pod string   // of sessions; empty: any. Name may be that of the program
	Open                 bool     // only sessions and causes that go on
	Kinds                []string // of events and causes; nil for all
	Newest               int      // only that many events, the newest; 0: all
	First                int      // only that many causes, those that began first, in an order that is the same for every number; 0: all
	// Lasting narrows causes to those that have lasted at least so long.
	Lasting time.Duration
	// Brief says that sessions may lack what sums over many of them don't need: Boot, Started, Begin, Command, Image, Type and their
	// memory but for its peak. It takes half of the time.
	Brief bool
}

// Errors that a store returns, wrapped with what to do.
var (
	ErrFull     = errors.New("the disk is full")
	ErrReadOnly = errors.New("the database can't be written to")
	ErrCorrupt  = errors.New("the database is damaged")
	ErrLocked   = errors.New("another program has the database")
	ErrGone     = errors.New("the database can't be reached")
	ErrNewer    = errors.New("a newer gpuwhy wrote the database")
	ErrBusy     = errors.New("too many queries") // ask again in a few seconds
)

// A Store is a database of the past. Its methods may be called at the same time. What can't be read or written
// now is one of the errors above, a [gpu.Advice]; the store is used again as soon as it can be. A query sees each batch
// whole or not at all.
type Store interface {
	// Write writes a batch, and returns when a program that is killed then does not lose it.
	Write(ctx context.Context, b *Batch) error

	// Devices are all that were ever written, machines too, by node, index and UUID.
	Devices(ctx context.Context) ([]Device, error)
	// Rows yields rows of a tier by device, in the order of Devices, and time. A reader that stops early ends the query.
	Rows(ctx context.Context, q Query) iter.Seq2[Row, error]
	// Frames yields snapshots of the nodes of the keys by node and time.
	Frames(ctx context.Context, q Query) iter.Seq2[Frame, error]
	// Sessions yields sessions by when they began.
	Sessions(ctx context.Context, q Query) iter.Seq2[Session, error]
	// Causes yields causes by when they began.
	Causes(ctx context.Context, q Query) iter.Seq2[Cause, error]
	// Events yields events, the oldest first, and those of one time by ID.
	Events(ctx context.Context, q Query) iter.Seq2[Event, error]
	// Document returns small state, and nil where there is none of that name.
	Document(ctx context.Context, name string) ([]byte, error)
	// Unsettled are spans of all devices that have readings and no row yet, or a row that lacks some; of the tier, before a
	// time. A zero time does not bound it.
	Unsettled(ctx context.Context, tier Tier, before time.Time) ([]Bucket, error)

	// Forget deletes data older than the retention, a bounded part at a time, and reports whether there is more. It may
	// leave data that is less than a day older. Spans that are not settled go with the rows of their tier.
	Forget(ctx context.Context, r Retention, now time.Time) (more bool, err error)
	// Size says how much there is.
	Size(ctx context.Context) (Size, error)
	// Check looks for damage: nil where there is none.
	Check(ctx context.Context) error
	// Compact gives room back that is not used.
	Compact(ctx context.Context) error
	Close() error
}

// A Retention is how long each tier is kept. Frames are kept as long as raw rows; sessions as long as the longest, as are
// causes and events but for those of [Retention.CauseCutoff] and [Retention.EventCutoff]. What it does not name is kept for ever. It does
// not name [SixHours].
type Retention map[Tier]time.Duration

// Kept is how long rows of a tier are kept, and whether that is named.
func (r Retention) Kept(t Tier) (kept time.Duration, named bool) {
	kept, named = r[min(t, Quarter)]
	return kept, named
}

// Cutoff is the time before which rows of a tier are forgotten; zero: none are.
func (r Retention) Cutoff(t Tier, now time.Time) time.Time {
	kept, named := r.Kept(t)
	if !named {
		return time.Time{}
	}
	return now.Add(-kept)
}

// CauseLasts are the shortest durations of the causes that are forgotten together, see [Retention.CauseCutoff], and the end.
var CauseLasts = [...]time.Duration{0, Minute.Span(), Quarter.Span(), math.MaxInt64}

// CauseCutoff is the time before which a cause must have ended to be forgotten that lasted so long; zero: none is. One that is shorter
// than the rows of a tier goes with the rows of the finer one: what would show it is gone then.
func (r Retention) CauseCutoff(lasted time.Duration, now time.Time) time.Time {
	switch {
	case lasted < Minute.Span():
		return r.Cutoff(Raw, now)
	case lasted < Quarter.Span():
		return r.Cutoff(Minute, now)
	default:
		return r.Oldest(now)
	}
}

// Info is the severity of events that are kept only as long as rows of minutes.
const Info = "info"

// EventCutoff is the time before which an event of that severity is forgotten; zero: none is.
func (r Retention) EventCutoff(severity string, now time.Time) time.Time {
	if severity == Info {
		return r.Cutoff(Minute, now)
	}
	return r.Oldest(now)
}

// Oldest is the time before which sessions, and the last causes and events, are forgotten; zero: none are.
func (r Retention) Oldest(now time.Time) (oldest time.Time) {
	for _, t := range Tiers {
		cutoff := r.Cutoff(t, now)
		if cutoff.IsZero() {
			return time.Time{}
		}
		if oldest.IsZero() || cutoff.Before(oldest) {
			oldest = cutoff
		}
	}
	return oldest
}

// Text returns text as it is stored: invalid UTF-8, and NUL, which some databases don't accept, become U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Size is how much a store holds.
type Size struct {
	Bytes  int64 // of all, on disk
	Tables []TableSize
}

// TableSize is the size of one kind of stored data. Rows are those of devices and machines.
type TableSize struct {
	Name        string // "raw", "1m", "15m", "6h", "frames", "sessions", "causes", "events"
	Rows, Bytes int64
	// When the oldest begins and the newest ends or, of rows, begins; zero where there is none.
	Oldest, Newest time.Time
}
