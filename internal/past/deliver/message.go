package deliver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Version is the version of the messages. Fields and columns may be added within a version: readers skip unknown ones, and treat missing
// ones as empty. Changing the meaning of a field needs another version.
const Version = 1

// Bounds of a message.
const (
	// longest is how many bytes a packed message may have: half of a NATS server's default limit.
	longest = 512 << 10
	// unpacked is the limit for an unpacked message, and mostItems the limit for its rows, frames, sessions, causes, events or devices.
	unpacked, mostItems = 16 << 20, 20_000
	// longestText is how long a text may be, and longestName a device's name, in bytes.
	longestText, longestName = 64 << 10, 512
	// ahead is how far times may be ahead of the reader's clock.
	ahead = 5 * time.Minute
)

// ErrUnreadable is the error of a message that can never be read.
var ErrUnreadable = errors.New("the message can't be read")

// A message is a node's batch as it is sent: CBOR with named fields, packed with zstd. Times are milliseconds since 1970, UTC; 0 is
// the zero time. Durations are nanoseconds. Absent values are the zero value of their type.
type message struct {
	Version int    `cbor:"version"`
	Node    string `cbor:"node"`
	// Installation is the ID of the sender's installation; empty if it has none or is of an earlier version.
	Installation string               `cbor:"installation,omitempty"`
	Devices      []row[store.Device]  `cbor:"devices,omitempty"`
	Tables       []table              `cbor:"tables,omitempty"`
	Frames       []frame              `cbor:"frames,omitempty"`
	Sessions     []row[store.Session] `cbor:"sessions,omitempty"`
	Causes       []row[store.Cause]   `cbor:"causes,omitempty"`
	Events       []row[store.Event]   `cbor:"events,omitempty"`
}

// A table has the rows of one tier, for devices or for machines. Each list has one element per row.
type table struct {
	Tier     string   `cbor:"tier"`
	Machines bool     `cbor:"machines,omitempty"`
	UUIDs    []string `cbor:"uuids,omitempty"` // that rows name by number
	Indexes  []int    `cbor:"of,omitempty"`    // the number of the row's UUID; of machines there is no list
	Times    []int64  `cbor:"times"`           // the first, and then by how much each is later than the one before
	States   []string `cbor:"states,omitempty"`
	Readings []int    `cbor:"readings,omitempty"` // of spans
	Columns  []column `cbor:"columns,omitempty"`
}

// A column has the values of one quantity, as whole multiples of 1/Scale of its unit (see [store.Column]). Quantities that no row has are left out.
type column struct {
	Name   string  `cbor:"name"`
	Absent []int   `cbor:"absent,omitempty"` // rows that have none: the other lists leave them out
	Mean   []int64 `cbor:"mean"`
	// For spans: how far the minimum is below and the maximum above, and how many readings lack the value; left out if all are 0.
	Below    []int64 `cbor:"below,omitempty"`
	Above    []int64 `cbor:"above,omitempty"`
	Lack     []int   `cbor:"lack,omitempty"`
	Doubtful []int   `cbor:"doubtful,omitempty"` // rows
}

type frame struct {
	Time     int64  `cbor:"time"`
	Snapshot []byte `cbor:"record"`
}

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// splitNodes divides a batch by node. It leaves out documents, unsettled spans and parcels.
func splitNodes(b *store.Batch) map[string]*store.Batch {
	all := map[string]*store.Batch{}
	batchFor := func(node string) *store.Batch {
		n := all[node]
		if n == nil {
			n = new(store.Batch)
			all[node] = n
		}
		return n
	}
	for _, d := range b.Devices {
		n := batchFor(d.Node)
		n.Devices = append(n.Devices, d)
	}
	for _, r := range b.Rows {
		n := batchFor(r.Node)
		n.Rows = append(n.Rows, r)
	}
	for _, f := range b.Frames {
		n := batchFor(f.Node)
		n.Frames = append(n.Frames, f)
	}
	for _, s := range b.Sessions {
		n := batchFor(s.Node)
		n.Sessions = append(n.Sessions, s)
	}
	for _, c := range b.Causes {
		n := batchFor(c.Node)
		n.Causes = append(n.Causes, c)
	}
	for _, e := range b.Events {
		n := batchFor(e.Node)
		n.Events = append(n.Events, e)
	}
	return all
}

// messageOf returns the message of a batch about one node.
func messageOf(node string, b *store.Batch) *message {
	m := &message{
		Version: Version, Node: node, Devices: rowsOf(b.Devices), Sessions: rowsOf(b.Sessions), Causes: rowsOf(b.Causes), Events: rowsOf(b.Events),
	}
	for _, machines := range []bool{false, true} {
		for _, tier := range store.Tiers {
			var rows []*store.Row
			for i := range b.Rows {
				if r := &b.Rows[i]; r.Tier == tier && (r.UUID == "") == machines {
					rows = append(rows, r)
				}
			}
			if rows != nil {
				m.Tables = append(m.Tables, tableOf(tier, machines, rows))
			}
		}
	}
	for _, f := range b.Frames {
		m.Frames = append(m.Frames, frame{stamp(f.Time), f.Snapshot})
	}
	return m
}

func tableOf(tier store.Tier, machines bool, rows []*store.Row) table {
	t := table{Tier: tier.String(), Machines: machines}
	numbers := map[string]int{}
	before := int64(0)
	columns := store.DeviceColumns
	if machines {
		columns = store.MachineColumns
	}
	for _, r := range rows {
		if !machines {
			n, known := numbers[r.UUID]
			if !known {
				n = len(t.UUIDs)
				numbers[r.UUID] = n
				t.UUIDs = append(t.UUIDs, r.UUID)
			}
			t.Indexes = append(t.Indexes, n)
			t.States = append(t.States, string(r.State))
		}
		readAt := stamp(r.Time)
		t.Times = append(t.Times, readAt-before)
		before = readAt
		if tier != store.Raw {
			t.Readings = append(t.Readings, r.Readings)
		}
	}
	for i := range columns {
		if tier == store.Raw || columns[i].Spans {
			if c := columnOf(i, &columns[i], tier, rows); len(c.Mean) > 0 {
				t.Columns = append(t.Columns, c)
			}
		}
	}
	return t
}

func columnOf(i int, kind *store.Column, tier store.Tier, rows []*store.Row) column {
	c := column{Name: kind.Name}
	spread, lacks := false, false
	for j, r := range rows {
		var v store.Value
		if i < len(r.Values) {
			v = r.Values[i]
		}
		least, hasLeast := kind.Number(v.Least)
		mean, ok := kind.Number(v.Mean)
		most, hasMost := kind.Number(v.Most)
		if v.Count == 0 || !ok || tier != store.Raw && (!hasLeast || !hasMost) {
			c.Absent = append(c.Absent, j)
			continue
		}
		c.Mean = append(c.Mean, mean)
		if tier != store.Raw {
			c.Below, c.Above, c.Lack = append(c.Below, mean-least), append(c.Above, most-mean), append(c.Lack, r.Readings-v.Count)
			spread = spread || least != mean || most != mean
			lacks = lacks || v.Count != r.Readings
		}
		if v.Doubtful {
			c.Doubtful = append(c.Doubtful, j)
		}
	}
	if !spread {
		c.Below, c.Above = nil, nil
	}
	if !lacks {
		c.Lack = nil
	}
	return c
}

const everything = store.WithFrames | store.WithReadings | store.WithSpans | store.WithRest

// parts counts what a message has.
func (m *message) parts() (p store.Parts) {
	if len(m.Frames) > 0 {
		p |= store.WithFrames
	}
	for i := range m.Tables {
		if m.Tables[i].Tier == store.Raw.String() {
			p |= store.WithReadings
		} else {
			p |= store.WithSpans
		}
	}
	if len(m.Sessions)+len(m.Causes)+len(m.Events)+len(m.Devices) > 0 {
		p |= store.WithRest
	}
	return p
}

// without leaves out parts, and counts them.
func (m *message) without(p store.Parts) (lost Lost) {
	if p&store.WithFrames != 0 {
		lost.Frames, m.Frames = len(m.Frames), nil
	}
	m.Tables = slices.DeleteFunc(m.Tables, func(t table) bool {
		switch raw := t.Tier == store.Raw.String(); {
		case raw && p&store.WithReadings != 0:
			lost.Readings += len(t.Times)
		case !raw && p&store.WithSpans != 0:
			lost.Spans += len(t.Times)
		default:
			return false
		}
		return true
	})
	if p&store.WithRest != 0 {
		lost.Rest = len(m.Sessions) + len(m.Causes) + len(m.Events)
		m.Sessions, m.Causes, m.Events, m.Devices = nil, nil, nil, nil
	}
	return lost
}

// A codec packs and unpacks messages. Several goroutines may call its methods.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// decoding reads messages from other programs.
var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{MaxArrayElements: mostItems, MaxMapPairs: 1024, MaxNestedLevels: 8, UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode
}()

func newCodec() *codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<19), zstd.WithLowerEncoderMem(true))
	decoder, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(unpacked), zstd.WithDecoderMaxWindow(1<<20))
	if err := errors.Join(err, err2); err != nil {
		panic(err) // the options are constants
	}
	return &codec{encoder, decoder}
}

// pack also returns how long the message is unpacked.
func (c *codec) pack(m *message) (data []byte, size int, err error) {
	text, err := cbor.Marshal(m)
	if err != nil {
		return nil, 0, fmt.Errorf("can't encode a message of the past: %w", err)
	}
	return c.encoder.EncodeAll(text, nil), len(text), nil
}

// unpack reads a message. Errors wrap [ErrUnreadable], and say what to do if the other side has another version.
func (c *codec) unpack(data []byte) (*message, error) {
	if len(data) > longest {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrUnreadable, len(data))
	}
	text, err := c.decoder.DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	var version struct {
		Version int `cbor:"version"`
	}
	if err := decoding.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if version.Version != Version {
		what := "an older gpuwhy sent a part of the past, in version %d of the messages; this one reads %d"
		try := "update the agent of that node"
		if version.Version > Version {
			what, try = "a newer gpuwhy sent a part of the past, in version %d of the messages; this one reads %d", "update the recorders before the agents"
		}
		return nil, &gpu.Advice{What: fmt.Sprintf(what, version.Version, Version), Try: try, Err: ErrUnreadable}
	}
	m := new(message)
	if err := decoding.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return m, nil
}

// parcels packs a batch into parcels without numbers, none of which is too long. It leaves out and counts single items that are too long.
func (c *codec) parcels(b *store.Batch, installation string) (all []store.Parcel, lost Lost, err error) {
	nodes := splitNodes(b)
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		parcels, less, err := c.split(node, installation, nodes[node])
		if err != nil {
			return nil, lost, err
		}
		all, lost = append(all, parcels...), lost.plus(less)
	}
	return all, lost, nil
}

func (c *codec) split(node, installation string, b *store.Batch) (all []store.Parcel, lost Lost, err error) {
	items := len(b.Devices) + len(b.Rows) + len(b.Frames) + len(b.Sessions) + len(b.Causes) + len(b.Events)
	m := messageOf(node, b)
	m.Installation = installation
	if items <= mostItems {
		data, size, err := c.pack(m)
		if err != nil {
			return nil, lost, err
		}
		if len(data) <= longest && size <= unpacked {
			return []store.Parcel{{Node: node, Parts: m.parts(), Data: data}}, lost, nil
		}
	}
	if items <= 1 {
		return nil, m.without(everything), nil
	}
	for _, half := range halves(b) {
		parcels, less, err := c.split(node, installation, &half)
		if err != nil {
			return nil, lost, err
		}
		all, lost = append(all, parcels...), lost.plus(less)
	}
	return all, lost, nil
}

// halves divides a batch: one of several kinds into rows and frames, and the rest; one of a single kind into halves. Neither part is empty.
func halves(b *store.Batch) [2]store.Batch {
	large := store.Batch{Rows: b.Rows, Frames: b.Frames}
	rest := store.Batch{Devices: b.Devices, Sessions: b.Sessions, Causes: b.Causes, Events: b.Events}
	isLarge, isRest := len(b.Rows)+len(b.Frames) > 0, len(b.Devices)+len(b.Sessions)+len(b.Causes)+len(b.Events) > 0
	switch {
	case isLarge && isRest:
		return [2]store.Batch{rest, large}
	case isLarge && len(b.Rows) > 0 && len(b.Frames) > 0:
		return [2]store.Batch{{Rows: b.Rows}, {Frames: b.Frames}}
	}
	var first, second store.Batch
	first.Rows, second.Rows = half(b.Rows)
	first.Frames, second.Frames = half(b.Frames)
	n := 0 // lists of one element go to either side in turn
	cut(&n, &first.Devices, &second.Devices, b.Devices)
	cut(&n, &first.Sessions, &second.Sessions, b.Sessions)
	cut(&n, &first.Causes, &second.Causes, b.Causes)
	cut(&n, &first.Events, &second.Events, b.Events)
	return [2]store.Batch{first, second}
}

func half[T any](all []T) (first, second []T) { return all[:len(all)/2], all[len(all)/2:] }

// cut divides a list in two. Over several lists, whose items n counts, both parts get about the same number of items.
func cut[T any](n *int, first, second *[]T, all []T) {
	middle := (len(all) + *n&1) / 2
	*first, *second = all[:middle], all[middle:]
	*n += len(all)
}
