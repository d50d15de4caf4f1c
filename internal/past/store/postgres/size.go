package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// large is from how many bytes on the rows of a table are not counted: the server's own estimate does.
const large = 64 << 20

// Size returns how much is stored. The row counts of large tables are estimates.
func (s *Store) Size(ctx context.Context) (size store.Size, err error) {
	err = s.reading(ctx, func() error {
		return pgx.BeginTxFunc(ctx, s.asker(ctx), snapshot, func(tx pgx.Tx) error {
			size, err = measure(ctx, tx)
			return err
		})
	})
	return size, err
}

func measure(ctx context.Context, tx pgx.Tx) (size store.Size, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
		WHERE relnamespace = current_schema()::text::regnamespace AND relkind = 'r'`).Scan(&size.Bytes)
	if err != nil {
		return size, err
	}
	add := func(name, ends string, tables ...string) error {
		sum := store.TableSize{Name: name}
		for _, table := range tables {
			if err := addTable(ctx, tx, &sum, table, ends); err != nil {
				return err
			}
		}
		size.Tables = append(size.Tables, sum)
		return nil
	}
	for _, tier := range store.Tiers {
		if err := add(tier.String(), byDevice, tableOf(tier, false).name, tableOf(tier, true).name); err != nil {
			return size, err
		}
	}
	if err := add("frames", byDevice, "frames", "key_frames"); err != nil {
		return size, err
	}
	for _, t := range []struct{ name, ends string }{
		{"sessions", "SELECT min(from_time), max(to_time) FROM %s"},
		{"causes", "SELECT min(from_time), max(to_time) FROM %s"},
		{"events", "SELECT min(time), max(time) FROM %s"},
	} {
		if err := add(t.name, t.ends, t.name); err != nil {
			return size, err
		}
	}
	return size, nil
}

// byDevice finds the times of the oldest and the newest row of a table with the key (device, time).
const byDevice = `SELECT min(o.time), max(n.time) FROM devices d,
	LATERAL (SELECT time FROM %[1]s WHERE device = d.id ORDER BY time LIMIT 1) o,
	LATERAL (SELECT time FROM %[1]s WHERE device = d.id ORDER BY time DESC LIMIT 1) n`

// addTable adds a table with its partitions. Key frames are no rows of their own.
func addTable(ctx context.Context, tx pgx.Tx, sum *store.TableSize, table, ends string) error {
	rows, err := tx.Query(ctx, `SELECT c.relname::text, pg_total_relation_size(c.oid), pg_relation_size(c.oid), c.reltuples::bigint
		FROM pg_class c WHERE c.oid = $1::text::regclass AND c.relkind = 'r'
			OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::text::regclass)`, table)
	if err != nil {
		return err
	}
	type part struct {
		Name             string
		Total, Own, Rows int64
	}
	parts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[part])
	if err != nil {
		return err
	}
	for _, p := range parts {
		sum.Bytes += p.Total
		if table == "key_frames" {
			continue
		}
		if p.Own < large || p.Rows < 0 {
			if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+quoted(p.Name)).Scan(&p.Rows); err != nil {
				return err
			}
		}
		sum.Rows += p.Rows
	}
	if table == "key_frames" {
		return nil
	}
	var first, last *time.Time
	if err := tx.QueryRow(ctx, fmt.Sprintf(ends, table)).Scan(&first, &last); err != nil {
		return err
	}
	if first != nil && (sum.Oldest.IsZero() || first.Before(sum.Oldest)) {
		sum.Oldest = first.UTC()
	}
	if last != nil && last.After(sum.Newest) {
		sum.Newest = last.UTC()
	}
	return nil
}

// Check reads all there is, so that the server finds what is damaged, and asks whether it has found damage before.
func (s *Store) Check(ctx context.Context) error {
	return s.reading(ctx, func() error {
		var failures int64
		err := s.asker(ctx).QueryRow(ctx, `SELECT coalesce(sum(checksum_failures), 0)::bigint FROM pg_stat_database
			WHERE datname = current_database()`).Scan(&failures)
		if err != nil {
			return err
		}
		if failures > 0 {
			return fmt.Errorf("%w: %d pages have a wrong checksum", store.ErrCorrupt, failures)
		}
		for _, t := range append(written(), keyFrameTable.table) {
			// The length of a row reads all of it.
			if _, err := s.asker(ctx).Exec(ctx, "SELECT sum(length(t::text)) FROM "+t.name+" t"); err != nil {
				return err
			}
		}
		for _, err := range s.Frames(ctx, store.Query{}) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Compact lets the server use room again that is not used. It gives the disk only what is at the end of a table: partitions
// that are dropped are given back by [Store.Forget].
func (s *Store) Compact(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return s.advise(ctx, err)
	}
	for _, t := range append(written(), keyFrameTable.table) {
		if _, err := s.writer.Exec(ctx, "VACUUM (ANALYZE) "+t.name); err != nil {
			return s.advise(ctx, err)
		}
	}
	return nil
}
