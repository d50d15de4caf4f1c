package deliver

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// earliest is before all valid times: clocks that are not set start in 1970.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// longestTime is longer than anything measured can last, and mostOf more than any measured sum.
const (
	longestTime = 20 * 365 * 24 * time.Hour
	mostOf      = 1e18
)

// A reader turns a message into a batch, and finds what is wrong with it.
type reader struct {
	*message
	number int64
	now    time.Time
	batch  store.Batch
	items  int
	err    error // the first
}

// read turns a message into a batch. number is its parcel's number. All data is taken to be about that node, whatever the message says. Unknown
// fields are left out.
func (m *message) read(node string, number int64, now time.Time) (*store.Batch, error) {
	if m.Node != node {
		return nil, fmt.Errorf("%w: it claims to be of the node %.100q", ErrUnreadable, m.Node)
	}
	r := &reader{message: m, number: number, now: now, batch: store.Batch{Delivered: true}}
	for i := range m.Tables {
		if r.check(r.table(&m.Tables[i])); r.err != nil {
			return nil, r.err
		}
	}
	for i := range m.Frames {
		f := &m.Frames[i]
		r.text(maxRecord, string(f.Snapshot))
		r.batch.Frames = append(r.batch.Frames, store.Frame{Node: node, Time: r.time(f.Time), Snapshot: f.Snapshot})
	}
	r.batch.Devices, r.batch.Sessions, r.batch.Causes, r.batch.Events = readRows(r, m.Devices), readRows(r, m.Sessions), readRows(r, m.Causes), readRows(r, m.Events)
	for i := range r.batch.Events {
		e := &r.batch.Events[i]
		e.ID = node + " " + e.ID // no node has the events of another one
	}
	if r.count(len(m.Devices) + len(m.Frames) + len(m.Sessions) + len(m.Causes) + len(m.Events)); r.err != nil {
		return nil, r.err
	}
	return &r.batch, nil
}

// maxRecord is how long a snapshot may be.
const maxRecord = 8 << 20

func (r *reader) refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrUnreadable}, args...)...)
}

func (r *reader) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) count(n int) {
	if r.items += n; r.items > mostItems {
		r.check(r.refuse("it has more than %d parts", mostItems))
	}
}

// time converts the time of an event.
func (r *reader) time(ms int64) time.Time {
	t := moment(ms)
	switch {
	case t.Before(earliest):
		r.check(r.refuse("it has an impossible time: %d ms", ms))
	case t.After(r.now.Add(ahead)):
		r.check(&gpu.Advice{
			What: fmt.Sprintf("a part of the past is dated %s ahead of the recorder's clock", t.Sub(r.now).Round(time.Second)),
			Try:  "set the clocks of the node and of the recorder (NTP)", Err: ErrUnreadable,
		})
	}
	return t
}

func (r *reader) text(most int, all ...string) {
	for _, s := range all {
		if len(s) > most {
			r.check(r.refuse("it has a text of %d bytes", len(s)))
		}
	}
}

func (r *reader) key(uuid string) store.Key {
	r.text(longestName, uuid)
	return store.Key{Node: r.Node, UUID: uuid}
}

// table adds rows. An unknown tier is from a newer version.
func (r *reader) table(t *table) error {
	tier, known := store.ParseTier(t.Tier)
	if !known {
		return nil
	}
	n, spans := len(t.Times), tier != store.Raw
	if r.count(n); r.err != nil {
		return r.err
	}
	if !t.Machines && (len(t.Indexes) != n || len(t.States) != n) || spans && len(t.Readings) != n {
		return r.refuse("it has a table with lists of different lengths")
	}
	columns := store.DeviceColumns
	if t.Machines {
		columns = store.MachineColumns
	}
	values := make([]store.Value, n*len(columns))
	rows := make([]store.Row, n)
	readAt := int64(0)
	for i := range rows {
		readAt += t.Times[i]
		row := store.Row{Tier: tier, Time: r.time(readAt), Readings: 1, Values: values[i*len(columns) : (i+1)*len(columns)]}
		row.Key = r.key("")
		if !t.Machines {
			if t.Indexes[i] < 0 || t.Indexes[i] >= len(t.UUIDs) || t.UUIDs[t.Indexes[i]] == "" {
				return r.refuse("it has a row without a device")
			}
			r.text(longestName, t.States[i])
			row.Key, row.State = r.key(t.UUIDs[t.Indexes[i]]), gpu.State(t.States[i])
		}
		if spans {
			if row.Readings = t.Readings[i]; row.Readings < 0 || row.Readings > math.MaxInt32 {
				return r.refuse("it has a row of %d readings", row.Readings)
			}
		}
		rows[i] = row
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		j := columns.Find(c.Name)
		if j < 0 || columns[j].Name != c.Name || spans && !columns[j].Spans {
			continue // of another version
		}
		if !c.fill(&columns[j], j, rows, spans) {
			return r.refuse("its column %.100q does not fit", c.Name)
		}
	}
	r.batch.Rows = append(r.batch.Rows, rows...)
	return r.err
}

// fill sets the values of a column in rows; false: the lists don't fit.
func (c *column) fill(kind *store.Column, j int, rows []store.Row, spans bool) bool {
	present := len(rows) - len(c.Absent)
	if len(c.Mean) != present || len(c.Below) != len(c.Above) || len(c.Below) != 0 && len(c.Below) != present || len(c.Lack) != 0 && len(c.Lack) != present {
		return false
	}
	absent, k := c.Absent, 0
	for i := range rows {
		if len(absent) > 0 && absent[0] == i {
			absent = absent[1:]
			continue
		}
		if k == present {
			return false
		}
		mean := kind.Value(c.Mean[k])
		v := store.Value{Least: mean, Mean: mean, Most: mean, Count: 1}
		if spans {
			v.Count = rows[i].Readings
			if len(c.Lack) > 0 {
				v.Count -= c.Lack[k]
			}
			if len(c.Below) > 0 {
				v.Least, v.Most = kind.Value(c.Mean[k]-c.Below[k]), kind.Value(c.Mean[k]+c.Above[k])
			}
			if v.Count < 1 || v.Count > rows[i].Readings || v.Least > mean || v.Most < mean {
				return false
			}
		}
		rows[i].Values[j] = v
		k++
	}
	for _, i := range c.Doubtful {
		if i < 0 || i >= len(rows) || spans {
			return false
		}
		rows[i].Values[j].Doubtful = rows[i].Values[j].Count > 0
	}
	return len(absent) == 0
}
