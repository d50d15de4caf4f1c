package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// atOnce is how many rows are removed at once where a partition is not dropped whole.
const atOnce = 20_000

// Forget drops a partition whose time is over, or removes some rows of what has no partitions, or of a month that has
// begun before the retention. Where the server's clock is behind now, it counts: one machine whose clock is wrong forgets nothing
// of others. Where another gpuwhy does so just now, there is nothing to do. The error is
// [store.ErrLocked] where somebody reads for so long that writers would have to wait: the next time will do.
func (s *Store) Forget(ctx context.Context, r store.Retention, now time.Time) (more bool, err error) {
	if s.viewed {
		return false, s.advise(ctx, errViewed)
	}
	if err := s.ready(ctx); err != nil {
		return false, s.advise(ctx, err)
	}
	err = pgx.BeginFunc(ctx, s.writer, func(tx pgx.Tx) error {
		var alone bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", int64(forgetting)).Scan(&alone); err != nil || !alone {
			return err
		}
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
		var server time.Time
		if err := tx.QueryRow(ctx, "SELECT now()").Scan(&server); err != nil {
			return err
		}
		if server.Before(now) {
			now = server
		}
		f := forgetter{s, tx}
		more, err = f.some(ctx, r, now)
		return err
	})
	return more, s.advise(ctx, err)
}

type forgetter struct {
	*Store
	tx pgx.Tx
}

// some forgets a part, and reports whether that was one.
func (f *forgetter) some(ctx context.Context, r store.Retention, now time.Time) (bool, error) {
	divided := []*partitioned{&frameTable, &keyFrameTable}
	for i := range ofRows() {
		divided = append(divided, &ofRows()[i])
	}
	for _, t := range divided {
		if done, err := f.partitions(ctx, t, r.Cutoff(t.tier, now)); done || err != nil {
			return done, err
		}
	}
	for _, t := range store.Tiers {
		if done, err := f.rows(ctx, "unsettled", "tier = $2 AND time < $1", r.Cutoff(t, now), int16(t)); done || err != nil {
			return done, err
		}
	}
	// The span finds what has ended, and what goes on has none.
	const ended = "to_time < $1 AND (span IS NULL OR span << tstzrange($1, NULL))"
	if done, err := f.rows(ctx, sessions.name, ended, r.Oldest(now)); done || err != nil {
		return done, err
	}
	for i, lasted := range store.CauseLasts[:len(store.CauseLasts)-1] {
		const lasts = ended + " AND to_time - from_time >= $2 AND to_time - from_time < $3"
		done, err := f.rows(ctx, causes.name, lasts, r.CauseCutoff(lasted, now), lasted, store.CauseLasts[i+1])
		if done || err != nil {
			return done, err
		}
	}
	if done, err := f.rows(ctx, "events", "time < $1 AND severity = $2", r.EventCutoff(store.Info, now), store.Info); done || err != nil {
		return done, err
	}
	return f.rows(ctx, "events", "time < $1", r.EventCutoff("", now))
}

// partitions drops the oldest partition if its time is over. Of a month a part may be: its rows are removed.
func (f *forgetter) partitions(ctx context.Context, t *partitioned, cutoff time.Time) (bool, error) {
	if cutoff.IsZero() {
		return false, nil
	}
	all, err := t.partitions(ctx, f.tx)
	if err != nil || len(all) == 0 {
		return false, err
	}
	oldest := all[0]
	if !oldest.to.After(cutoff) {
		_, err := f.tx.Exec(ctx, "DROP TABLE "+quoted(oldest.name))
		f.know(func(k *known) {
			delete(k.partitions, oldest.name)
			clear(k.keys) // they may have been there
		})
		return err == nil, err
	}
	if cutoff.Sub(oldest.from) < 24*time.Hour {
		return false, nil
	}
	return f.rows(ctx, t.name, "time < $1", cutoff)
}

// rows removes some rows that a condition names, and reports whether there may be more.
func (f *forgetter) rows(ctx context.Context, table, condition string, before time.Time, args ...any) (bool, error) {
	if before.IsZero() {
		return false, nil
	}
	some := "SELECT tableoid, ctid FROM " + table + " WHERE " + condition + " LIMIT " + strconv.Itoa(atOnce)
	tag, err := f.tx.Exec(ctx, "DELETE FROM "+table+" WHERE (tableoid, ctid) IN ("+some+")", append([]any{before}, args...)...)
	return tag.RowsAffected() == atOnce, err
}
