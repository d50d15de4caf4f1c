package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// part is how many rows are removed at a time: some tens of milliseconds.
const part = 2000

// Forget implements [store.Store], as the methods below do.
func (s *Store) Forget(ctx context.Context, r store.Retention, now time.Time) (more bool, err error) {
	err = s.change(ctx, func(db *database) error {
		left := int64(part)
		err := db.write.transact("BEGIN IMMEDIATE", func() error { return forget(ctx, db, r, now, &left) })
		db.frames.forget() // key frames may be gone, and texts
		db.texts = nil
		more = left <= 0
		return err
	})
	return more, err
}

// forget removes at most so many rows as are left to remove.
func forget(ctx context.Context, db *database, r store.Retention, now time.Time, left *int64) error {
	// A statement removes some rows of a table: %[1]s is its name.
	remove := func(statement, table string, before time.Time, args ...any) error {
		if before.IsZero() || *left <= 0 {
			return ctx.Err()
		}
		n, err := db.write.exec(fmt.Sprintf(statement, table), append(args, ceiling(before), *left)...)
		*left -= n
		return err
	}
	raw := r.Cutoff(store.Raw, now)
	for _, id := range db.devices {
		for _, tier := range store.Tiers {
			for _, machines := range []bool{false, true} {
				t := tableOf(machines, tier).name
				if err := remove(oldRows, t, r.Cutoff(tier, now), id); err != nil {
					return err
				}
			}
			if err := remove(oldBuckets, "unsettled", r.Cutoff(tier, now), tier.String(), id); err != nil {
				return err
			}
		}
		if err := remove(oldFrames, "frames", raw, id); err != nil {
			return err
		}
		if err := remove(oldFrames, "key_frames", lastQuarter(raw), id); err != nil {
			return err
		}
	}
	if err := remove(oldEnded, "sessions", r.Oldest(now)); err != nil {
		return err
	}
	for i, lasted := range store.CauseLasts[:len(store.CauseLasts)-1] {
		shorter := store.CauseLasts[i+1]
		if err := remove(oldCauses, "causes", r.CauseCutoff(lasted, now), lasted.Milliseconds(), shorter.Milliseconds()); err != nil {
			return err
		}
	}
	if err := remove(longCauses, "causes", r.Cutoff(store.Minute, now), int64(nearest)); err != nil {
		return err
	}
	if err := remove(oldInfos, "events", r.EventCutoff(store.Info, now)); err != nil {
		return err
	}
	if err := remove(oldEvents, "events", r.EventCutoff("", now)); err != nil || r.Oldest(now).IsZero() || *left <= 0 {
		return err
	}
	// All that ended before is gone, and with it what used these.
	n, err := db.write.exec("DELETE FROM texts WHERE id IN (SELECT id FROM texts WHERE used < ? LIMIT ?)", dayOf(r.Oldest(now)), *left)
	*left -= n
	return err
}

// What is removed of a table, by its time and at most so much.
const (
	oldRows = "DELETE FROM %[1]s WHERE device = ?1 AND time IN " +
		"(SELECT time FROM %[1]s WHERE device = ?1 AND time < ?2 ORDER BY time LIMIT ?3)"
	oldBuckets = "DELETE FROM %[1]s WHERE tier = ?1 AND device = ?2 AND time IN " +
		"(SELECT time FROM %[1]s WHERE tier = ?1 AND device = ?2 AND time < ?3 LIMIT ?4)"
	oldFrames = "DELETE FROM %[1]s WHERE id IN (SELECT id FROM %[1]s WHERE device = ? AND time < ? ORDER BY time LIMIT ?)"
	oldEnded  = "DELETE FROM %[1]s WHERE id IN (SELECT id FROM %[1]s WHERE until < ? ORDER BY until LIMIT ?)"
	oldCauses = "DELETE FROM %[1]s WHERE id IN " +
		"(SELECT id FROM %[1]s WHERE until - since >= ? AND until - since < ? AND until < ? ORDER BY until LIMIT ?)"
	// longCauses moves what is left of old causes together, below the numbers of those that are new: they would stay alone in pages
	// that were full of short ones.
	longCauses = "UPDATE %[1]s SET id = id - ?1 WHERE id IN " +
		"(SELECT id FROM %[1]s WHERE +id > 0 AND until < ?2 AND NOT open ORDER BY until LIMIT ?3)"
	oldInfos = "DELETE FROM %[1]s WHERE number IN " +
		"(SELECT number FROM %[1]s WHERE severity = '" + store.Info + "' AND time < ? ORDER BY time LIMIT ?)"
	oldEvents = "DELETE FROM %[1]s WHERE number IN (SELECT number FROM %[1]s WHERE time < ? ORDER BY time LIMIT ?)"
)

// nearest is by how much the numbers of causes are less that were moved together.
const nearest = 1 << 40

// lastQuarter is the time before which key frames begin whose quarter of an hour has no frames any more; a zero time stays zero.
func lastQuarter(cutoff time.Time) time.Time {
	if cutoff.IsZero() {
		return cutoff
	}
	return cutoff.Add(-store.Quarter.Span() + time.Millisecond)
}

// Size reads the whole file.
func (s *Store) Size(ctx context.Context) (size store.Size, err error) {
	for _, end := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(s.File + end)
		switch {
		case err == nil:
			size.Bytes += info.Size()
		case end == "" || !errors.Is(err, fs.ErrNotExist):
			return size, advise(s.File, err)
		}
	}
	err = s.view(ctx, func(c *conn) error {
		trees, err := trees(ctx, c)
		if err != nil {
			return err
		}
		add := func(name string, least, most string, names ...string) error {
			t := store.TableSize{Name: name}
			for _, tree := range names {
				t.Rows, t.Bytes = t.Rows+trees[tree].rows, t.Bytes+trees[tree].bytes
			}
			oldest, err := c.number(ctx, least)
			if err != nil {
				return err
			}
			newest, err := c.number(ctx, most)
			t.Oldest, t.Newest = moment(oldest), moment(newest)
			size.Tables = append(size.Tables, t)
			return err
		}
		for _, tier := range store.Tiers {
			a, b := tableOf(false, tier).name, tableOf(true, tier).name
			if err := add(tier.String(), endOf("min", a, b), endOf("max", a, b), a, b); err != nil {
				return err
			}
		}
		keys := trees["key_frames"]
		keys.rows = 0 // which are no frames of their own
		trees["key_frames"] = keys
		texts := trees["texts"]
		texts.rows = 0 // which are no sessions
		trees["texts"] = texts
		for _, kind := range []struct{ name, least, most, trees string }{
			{"frames", endOf("min", "frames"), endOf("max", "frames"), "frames key_frames"},
			{"sessions", "SELECT min(since) FROM sessions", "SELECT max(until) FROM sessions", "sessions texts"},
			{"causes", "SELECT min(since) FROM causes", "SELECT max(until) FROM causes", "causes"},
			{"events", "SELECT min(time) FROM events", "SELECT max(time) FROM events", "events"},
		} {
			if err := add(kind.name, kind.least, kind.most, strings.Fields(kind.trees)...); err != nil {
				return err
			}
		}
		return nil
	})
	return size, err
}

// endOf asks for the time of the first (min) or last (max) row of tables: that of each device, which needs no look at the others.
func endOf(end string, tables ...string) string {
	var each []string
	for _, t := range tables {
		each = append(each, "SELECT (SELECT "+end+"(time) FROM "+t+" WHERE device = d.id) AS time FROM devices d")
	}
	return "SELECT " + end + "(time) FROM (" + strings.Join(each, " UNION ALL ") + ")"
}

type tree struct{ rows, bytes int64 }

// trees are the rows of tables, and the bytes of them and of their indexes.
func trees(ctx context.Context, c *conn) (map[string]tree, error) {
	out := map[string]tree{}
	const pages = "SELECT s.tbl_name, s.name, sum(p.pgsize), sum(p.ncell), " +
		"sum(CASE p.pagetype WHEN 'leaf' THEN p.ncell ELSE 0 END), instr(s.sql, 'WITHOUT ROWID') FROM dbstat p JOIN sqlite_schema s ON s.name = p.name GROUP BY s.name"
	err := c.query(ctx, pages, nil, func(row []driver.Value) error {
		table := text(row[0])
		t := out[table]
		t.bytes += integer(row[2])
		switch {
		case text(row[1]) != table: // an index
		case integer(row[5]) > 0: // whose rows are in all pages
			t.rows = integer(row[3])
		default:
			t.rows = integer(row[4])
		}
		out[table] = t
		return nil
	})
	return out, err
}

// Check reads the whole file, and compares tables with their indexes.
func (s *Store) Check(ctx context.Context) error {
	return s.view(ctx, func(c *conn) error {
		var found []error
		err := c.query(ctx, "PRAGMA integrity_check(10)", nil, func(row []driver.Value) error {
			if says := text(row[0]); says != "ok" {
				found = append(found, errors.New(says))
			}
			return nil
		})
		if err == nil && found != nil {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, errors.Join(found...))
		}
		return err
	})
}

// Compact moves what is at the end of the file to where there is room, a part at a time, and shortens the file. Readers and
// writers go on.
func (s *Store) Compact(ctx context.Context) error {
	for {
		var before, free int64
		err := s.change(ctx, func(db *database) (err error) {
			if before, err = db.write.number(ctx, "PRAGMA freelist_count"); err != nil || before == 0 {
				return err
			}
			if err = db.write.run("PRAGMA incremental_vacuum(1000)"); err != nil {
				return err
			}
			free, err = db.write.number(ctx, "PRAGMA freelist_count")
			return err
		})
		if err != nil {
			return err
		}
		if free == 0 || free >= before {
			break
		}
	}
	return s.change(ctx, func(db *database) error { return db.write.run("PRAGMA wal_checkpoint(truncate)") })
}
