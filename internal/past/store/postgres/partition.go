package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A partition has the rows of a day or of a month.
type partition struct {
	name     string
	from, to time.Time
}

const dayOfName = "20060102"

// covering is the partition for a time.
func (p *partitioned) covering(t time.Time) partition {
	t = t.UTC()
	from := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 0, 1)
	if p.month {
		from = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		to = from.AddDate(0, 1, 0)
	}
	return partition{p.name + "_" + from.Format(dayOfName), from, to}
}

// divide makes the partitions for these times, and the next one, so that nobody waits at midnight.
func (s *Store) divide(ctx context.Context, times map[*partitioned][]time.Time) error {
	wanted := map[*partitioned][]partition{}
	s.know(func(k *known) {
		for t, all := range times {
			var newest partition
			add := func(p partition) {
				if !k.partitions[p.name] {
					k.partitions[p.name] = true // or what is known is forgotten
					wanted[t] = append(wanted[t], p)
				}
			}
			for _, instant := range all {
				p := t.covering(instant)
				if add(p); newest.to.Before(p.to) {
					newest = p
				}
			}
			add(t.covering(newest.to))
		}
	})
	if len(wanted) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, s.writer, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(changing)); err != nil {
			return err
		}
		for t, all := range wanted {
			for _, p := range all {
				if err := t.attach(ctx, tx, p); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// attach makes a partition that is not there yet. It keeps nobody from reading or writing the others.
func (p *partitioned) attach(ctx context.Context, tx pgx.Tx, part partition) error {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", quoted(part.name)).Scan(&there); err != nil || there {
		return err
	}
	name := quoted(part.name)
	from, to := part.from.Format(time.RFC3339), part.to.Format(time.RFC3339)
	_, err := tx.Exec(ctx, "CREATE TABLE "+name+" (LIKE "+p.name+" INCLUDING STORAGE); "+
		"ALTER TABLE "+p.name+" ATTACH PARTITION "+name+" FOR VALUES FROM ('"+from+"') TO ('"+to+"')", pgx.QueryExecModeSimpleProtocol)
	return err
}

// partitions are all that a table has, the oldest first.
func (p *partitioned) partitions(ctx context.Context, q querier) ([]partition, error) {
	rows, err := q.Query(ctx, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::text::regclass ORDER BY c.relname`, p.name)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	var all []partition
	for _, name := range names {
		day, ours := strings.CutPrefix(name, p.name+"_")
		if begin, err := time.Parse(dayOfName, day); ours && err == nil { // others somebody else has made
			all = append(all, p.covering(begin))
		}
	}
	return all, nil
}
