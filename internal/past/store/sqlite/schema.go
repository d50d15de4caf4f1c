package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// application marks the files of gpuwhy, in the header of the file: "gpuw".
const application = 0x67707577

// A table has the rows of one tier, of devices or of machines.
type table struct {
	name    string
	tier    store.Tier
	columns store.Columns
	insert  string
	deliver string // the same, unless there is a row of more readings
}

// tables by whether they are of machines, and tier.
var tables = [2][len(store.Tiers)]table{newTables("device"), newTables("machine")}

func newTables(subject string) (tables [len(store.Tiers)]table) {
	for i, tier := range store.Tiers {
		tables[i] = newTable(subject, tier)
	}
	return tables
}

func newTable(subject string, tier store.Tier) table {
	t := table{name: subject + "_" + tier.String(), tier: tier, columns: store.DeviceColumns}
	if subject == "machine" {
		t.columns = store.MachineColumns
	}
	names := append([]string{"device"}, t.fixed()...)
	for i := range t.columns {
		if t.keeps(i) {
			names = append(names, t.columns[i].Name)
		}
	}
	values := " VALUES (?" + strings.Repeat(", ?", len(names)-1) + ")"
	insert := "INSERT OR REPLACE INTO " + t.name + " (" + strings.Join(names, ", ") + ")"
	t.insert, t.deliver = insert+values, insert+values
	if tier != store.Raw {
		t.deliver = insert + " SELECT ?" + strings.Repeat(", ?", len(names)-1) +
			" WHERE NOT EXISTS (SELECT 1 FROM " + t.name + " WHERE device = ?1 AND time = ?2 AND readings > ?4)" // as fixed says
	}
	return t
}

func tableOf(machines bool, tier store.Tier) *table {
	if machines {
		return &tables[1][tier]
	}
	return &tables[0][tier]
}

// fixed are the columns beside the device and the quantities.
func (t *table) fixed() []string {
	if t.tier == store.Raw {
		return []string{"time", "state", "doubtful"}
	}
	return []string{"time", "state", "readings", "counts"}
}

// keeps reports whether the tier has a quantity.
func (t *table) keeps(i int) bool { return t.tier == store.Raw || t.columns[i].Spans }

// migrate brings the file to the structure of this version; version is that of the file, 0 for a new one.
func migrate(ctx context.Context, file string, c *conn, version int64) error {
	knows, err := newest()
	switch {
	case err != nil:
		return err
	case version > knows:
		return newer(file, version, knows)
	case version < knows:
		if err := up(ctx, file); err != nil {
			return err
		}
	}
	return c.transact("BEGIN IMMEDIATE", func() error { return addColumns(ctx, c) })
}

func newer(file string, version, knows int64) error {
	return &gpu.Advice{
		What: fmt.Sprintf("a newer gpuwhy wrote %s: it has version %d, and this gpuwhy knows version %d", file, version, knows),
		Try:  "start the newer gpuwhy, or name another folder with --state-dir", Err: store.ErrNewer,
	}
}

// newest is the version of the last migration.
func newest() (version int64, err error) {
	all, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(all[len(all)-1])
}

// up makes the migrations that the file does not have.
func up(ctx context.Context, file string) (err error) {
	db, err := sql.Open("sqlite", name(file)+"&_pragma=synchronous(normal)") // as we write
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, folder, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// wanted are the columns that this version reads of a table beside those that every version has had.
type wanted struct {
	table   string
	columns []wantedColumn
	many    bool // an empty table has no index, and is made anew with what it lacks
}

type wantedColumn struct {
	name, definition string // in SQL
}

// allWanted are those of all tables: the quantities of the catalog, and the fields that package store declares.
var allWanted = func() (all []wanted) {
	for i := range tables {
		for j := range tables[i] {
			all = append(all, tables[i][j].wanted())
		}
	}
	return append(all, deviceTable.wanted(), sessionTable.wanted(), causeTable.wanted(), eventTable.wanted())
}()

func (t *table) wanted() wanted {
	out := wanted{table: t.name, many: true}
	for _, often := range []bool{true, false} { // SQLite finds the first columns of a row the soonest
		for i := range t.columns {
			if name := t.columns[i].Name; (t.columns[i].Kept != "") == often && t.keeps(i) {
				out.columns = append(out.columns, wantedColumn{name, name + " INTEGER"})
			}
		}
	}
	return out
}

// missing are the columns that the file does not have, by table.
func missing(ctx context.Context, c *conn) (map[string][]wantedColumn, error) {
	names := map[string]string{} // of columns, with commas around them
	const all = "SELECT t.name, (SELECT ',' || group_concat(c.name) || ',' FROM pragma_table_info(t.name) c) FROM sqlite_schema t WHERE t.type = 'table'"
	err := c.query(ctx, all, nil, func(row []driver.Value) error {
		names[text(row[0])] = text(row[1])
		return nil
	})
	missing := map[string][]wantedColumn{}
	for _, w := range allWanted {
		left := names[w.table]
		for _, column := range w.columns {
			name := "," + column.name + ","
			if i := strings.Index(left, name); i >= 0 { // as a rule they are in the same order
				left = left[i+len(name)-1:]
			} else if !strings.Contains(names[w.table], name) {
				missing[w.table] = append(missing[w.table], column)
			}
		}
	}
	return missing, err
}

// addColumns adds the columns that this version wants and the file does not have.
func addColumns(ctx context.Context, c *conn) error {
	missing, err := missing(ctx, c)
	if err != nil {
		return err
	}
	for i := range allWanted {
		if err := allWanted[i].add(ctx, c, missing[allWanted[i].table]); err != nil {
			return err
		}
	}
	return nil
}

func (w *wanted) add(ctx context.Context, c *conn, missing []wantedColumn) error {
	if len(missing) == 0 {
		return nil
	}
	if w.many {
		rows, err := c.number(ctx, "SELECT EXISTS (SELECT 1 FROM "+w.table+")")
		if err != nil {
			return err
		}
		if rows == 0 {
			return w.makeAnew(ctx, c, missing)
		}
	}
	for _, column := range missing {
		if err := c.run("ALTER TABLE " + w.table + " ADD COLUMN " + column.definition); err != nil {
			return err
		}
	}
	return nil
}

// makeAnew makes an empty table with more columns: adding hundreds one by one takes a tenth of a second.
func (w *wanted) makeAnew(ctx context.Context, c *conn, missing []wantedColumn) error {
	var made string
	err := c.query(ctx, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", []any{w.table},
		func(row []driver.Value) error {
			made = text(row[0])
			return nil
		})
	if err != nil {
		return err
	}
	const key = "PRIMARY KEY ("
	before, after, ok := strings.Cut(made, key)
	if !ok {
		return fmt.Errorf("the table %s has no primary key: %q", w.table, made)
	}
	if err := c.run("DROP TABLE " + w.table); err != nil {
		return err
	}
	for _, column := range missing {
		before += column.definition + ", "
	}
	return c.run(before + key + after)
}
