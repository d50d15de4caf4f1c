package postgres

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A table is what batches are written into.
type table struct {
	name    string
	columns []column
	names   []string // of the columns
	upsert  string   // takes what is new from the table in which it was put
	deliver string   // the same of what was delivered, which may be older than what is there
}

type column struct {
	name, kind string
	shown      bool   // on pages
	zero       string // what rows get that are there when the column is added, in SQL; empty: nothing, the column may be without a value
}

// A partitioned table is divided by time.
type partitioned struct {
	*table
	month bool // by month; else by day
	tier  store.Tier
}

func columns(kind string, names ...string) (out []column) {
	for _, name := range names {
		out = append(out, column{name: name, kind: kind})
	}
	return out
}

// typed are columns that are written as in SQL.
func typed(all ...string) (out []column) {
	for _, c := range all {
		name, kind, _ := strings.Cut(c, " ")
		out = append(out, column{name: name, kind: kind})
	}
	return out
}

func newTable(name string, key []string, parts ...[]column) *table {
	t := &table{name: name}
	var set []string
	for _, part := range parts {
		t.columns = append(t.columns, part...)
	}
	for _, c := range t.columns {
		t.names = append(t.names, c.name)
		if !slices.Contains(key, c.name) {
			set = append(set, quoted(c.name)+" = excluded."+quoted(c.name))
		}
	}
	all := list(t.names)
	t.upsert = "INSERT INTO " + name + " (" + all + ") SELECT " + all + " FROM pg_temp.new_" + name +
		" ON CONFLICT (" + list(key) + ") DO UPDATE SET " + strings.Join(set, ", ")
	t.deliver = t.upsert
	for _, growing := range []string{"ordinal", "readings"} {
		if slices.Contains(t.names, growing) {
			t.deliver += " WHERE excluded." + growing + " >= " + name + "." + growing
		}
	}
	return t
}

// list is names of columns with commas between them.
func list(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = quoted(name)
	}
	return strings.Join(out, ", ")
}

var (
	deviceAndTime = typed("device bigint", "time timestamptz")
	byDeviceTime  = []string{"device", "time"} // their key
)

// readingsTable has single readings: whole numbers of a column's steps.
func readingsTable(name string, kept store.Columns) *table {
	values := columns("text", "state", "doubtful")
	for _, c := range kept {
		values = append(values, column{name: c.Name, kind: "bigint", shown: c.Kept != ""})
	}
	return newTable(name, byDeviceTime, deviceAndTime, values)
}

// spansTable has spans. The least and the most are there only where they are not the mean, and the count where it is not
// that of the row's readings.
func spansTable(name string, kept store.Columns) *table {
	values := typed("state text", "readings bigint")
	for _, c := range kept {
		if c.Spans {
			for _, part := range []string{"_least", "_mean", "_most", "_count"} {
				values = append(values, column{name: c.Name + part, kind: "bigint", shown: c.Kept != ""})
			}
		}
	}
	return newTable(name, byDeviceTime, deviceAndTime, values)
}

// ofRows are the tables of rows: by tier those of devices, then those of machines.
var ofRows = sync.OnceValue(func() []partitioned {
	return []partitioned{
		{readingsTable("device_raw", store.DeviceColumns), false, store.Raw},
		{spansTable("device_1m", store.DeviceColumns), true, store.Minute},
		{spansTable("device_15m", store.DeviceColumns), true, store.Quarter},
		{spansTable("device_6h", store.DeviceColumns), true, store.SixHours},
		{readingsTable("machine_raw", store.MachineColumns), false, store.Raw},
		{spansTable("machine_1m", store.MachineColumns), true, store.Minute},
		{spansTable("machine_15m", store.MachineColumns), true, store.Quarter},
		{spansTable("machine_6h", store.MachineColumns), true, store.SixHours},
	}
})

// tableOf is the table of rows of a tier.
func tableOf(tier store.Tier, machines bool) *partitioned {
	if machines {
		return &ofRows()[len(store.Tiers)+int(tier)]
	}
	return &ofRows()[tier]
}

func columnsOf(machines bool) store.Columns {
	if machines {
		return store.MachineColumns
	}
	return store.DeviceColumns
}

var (
	sessions, causes, events = newStoredTable(store.Sessions), newStoredTable(store.Causes), newStoredTable(store.Events)

	frameTable = partitioned{newTable("frames", byDeviceTime, deviceAndTime, columns("bytea", "record")), false, store.Raw}
	// Key frames are not put into another table first: there are few.
	keyFrameTable = partitioned{newTable("key_frames", byDeviceTime, deviceAndTime, columns("bytea", "record")), false, store.Raw}
)

// written are all tables that batches are put into.
func written() []*table {
	all := []*table{sessions.table, causes.table, events.table, frameTable.table}
	for _, t := range ofRows() {
		all = append(all, t.table)
	}
	return all
}

// stage makes the tables of a connection into which batches are put first.
func stage(ctx context.Context, c *pgx.Conn) error {
	var sql strings.Builder
	for _, t := range written() {
		sql.WriteString("CREATE TEMPORARY TABLE new_" + t.name + " (")
		for i, c := range t.columns {
			if i > 0 {
				sql.WriteString(", ")
			}
			sql.WriteString(quoted(c.name) + " " + c.kind)
		}
		sql.WriteString(") ON COMMIT DELETE ROWS;")
	}
	_, err := c.Exec(ctx, sql.String(), pgx.QueryExecModeSimpleProtocol)
	return err
}

// merge writes rows by their keys. No key may be there twice.
func (t *table) merge(ctx context.Context, tx pgx.Tx, rows [][]any, delivered bool) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", "new_" + t.name}, t.names, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	upsert := t.upsert
	if delivered {
		upsert = t.deliver
	}
	_, err := tx.Exec(ctx, upsert)
	return err
}

// moment is a time as it is kept. A zero time is in the year 1.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
