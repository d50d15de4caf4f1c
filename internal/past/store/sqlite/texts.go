package sqlite

import (
	"context"
	"database/sql/driver"
	"hash/fnv"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Texts of sessions and causes are kept once: programs, users and commands come again and again. A row of the table texts says
// until which day it is used, so that what nothing uses any more is found without a look at all sessions.

const (
	day = 24 * time.Hour
	// mostTexts is how many a writer remembers.
	mostTexts = 4096
)

// A keptText is a row of the table texts.
type keptText struct {
	id, used int64 // used: the day after the last on which it is, since 1970
}

// dayOf is the number of a time's day.
func dayOf(t time.Time) int64 { return t.UnixMilli() / day.Milliseconds() }

func hashOf(text string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it never fails
	return int64(h.Sum64())      //nolint:gosec // any number will do
}

// A teller gives texts their numbers, for what ends at a time.
type teller struct {
	*writer
	used int64
	err  error // the first
}

func (w *writer) teller(until time.Time) *teller { return &teller{writer: w, used: dayOf(until) + 1} }

// number is that of a text; 0 for an empty one.
func (t *teller) number(text string) int64 {
	text = store.Text(text)
	if text == "" || t.err != nil {
		return 0
	}
	known, ok := t.told[text]
	if !ok {
		known, ok = t.texts[text]
	}
	if ok && known.used >= t.used {
		return known.id
	}
	known, t.err = t.keep(text)
	t.told[text] = known
	return known.id
}

func (t *teller) keep(text string) (kept keptText, err error) {
	hash := hashOf(text)
	err = t.write.query(context.Background(), "SELECT id, used FROM texts WHERE hash = ? AND text = ?", []any{hash, text},
		func(row []driver.Value) error {
			kept = keptText{integer(row[0]), integer(row[1])}
			return nil
		})
	switch {
	case err != nil || kept.used >= t.used:
		return kept, err
	case kept.id == 0:
		if _, err = t.write.exec("INSERT INTO texts (hash, used, text) VALUES (?, ?, ?)", hash, t.used, text); err == nil {
			kept.id, err = t.write.number(context.Background(), "SELECT last_insert_rowid()")
		}
	default:
		_, err = t.write.exec("UPDATE texts SET used = ? WHERE id = ?", t.used, kept.id)
	}
	kept.used = t.used
	return kept, err
}

// remember takes over what a batch has told, once that is written.
func (db *database) remember(told map[string]keptText) {
	if len(db.texts)+len(told) > mostTexts || db.texts == nil {
		db.texts = map[string]keptText{}
	}
	for text, kept := range told {
		if len(db.texts) < mostTexts {
			db.texts[text] = kept
		}
	}
}

// A listener reads texts by their numbers, each once.
type listener struct {
	ctx   context.Context //nolint:containedctx // of the query that it is for
	c     *conn
	heard map[int64]string
	err   error // the first
}

func newListener(ctx context.Context, c *conn) *listener {
	return &listener{ctx: ctx, c: c, heard: map[int64]string{0: ""}}
}

func (l *listener) text(v driver.Value) string {
	id := integer(v)
	said, heard := l.heard[id]
	if !heard && l.err == nil {
		l.err = l.c.query(l.ctx, "SELECT text FROM texts WHERE id = ?", []any{id}, func(row []driver.Value) error {
			said = text(row[0])
			return nil
		})
		l.heard[id] = said
	}
	return said
}

// textIs is the condition that a column has a text.
const textIs = " = (SELECT id FROM texts WHERE hash = ? AND text = ?)"
