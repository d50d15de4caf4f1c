// Package history answers questions about the past of nodes. It says how readings went over time, who used a device, and
// what the machine was like at a time, and why. It reads a [store.Store], stores nothing itself, and changes nothing.
package history

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Past answers questions about the past from a store.
type Past struct {
	Store store.Store
	// Keeps is how long each tier is kept; older data comes from a coarser tier.
	Keeps store.Retention
	Now   func() time.Time
	// Interval is how often devices are read; 0: not known.
	Interval time.Duration
	// Seldom is how often while nobody looks; 0: no more seldom than ever.
	Seldom time.Duration
	// Permits says what may be shown of snapshots; what Store returns is as it is, see [Permits.Store].
	Permits Permits

	// Of histories those that are large; stories are those of long spans, and sums over them.
	histories, moments, stories room
	settling                    settling // of what answers one question with many queries; else nil
}

// Rows yields readings as stored. Only rows of one device and tier are ordered. See [store.Query].
func (p *Past) Rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return p.rows(ctx, q)
}

// Finest is the finest tier that is kept since a query begins, and that has rows since there are any in its time.
func (p *Past) Finest(ctx context.Context, q store.Query) (store.Tier, error) {
	tier := store.Raw
	for tier < store.Quarter && !p.keeps(tier, q.From) {
		tier++
	}
	return p.since(ctx, tier, q)
}

// keeps reports whether a tier still has its rows since a time. Rows that have just become too old count, because time passes while a query
// runs; rows deleted in that minute are answered from a coarser tier.
func (p *Past) keeps(tier store.Tier, since time.Time) bool {
	return !since.Before(p.Keeps.Cutoff(tier, p.Now()).Add(-time.Minute))
}

// rows yields all rows that the query asks for. Spans whose row is not made yet, such as the newest, are
// answered from the finer rows that it will be made of; so one span can have several rows.
func (p *Past) rows(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		unsettled := map[store.Bucket]bool{}
		if q.Tier != store.Raw {
			list, err := p.unsettled(ctx, q)
			if err != nil {
				yield(store.Row{}, err)
				return
			}
			for _, b := range list {
				unsettled[b] = true
			}
		}
		for r, err := range p.Store.Rows(ctx, q) {
			if err == nil && unsettled[store.Bucket{Key: r.Key, Tier: q.Tier, Time: r.Time}] {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
		for begin, keys := range spans(unsettled, q) {
			finer := q
			finer.Tier, finer.Keys, finer.From, finer.To = q.Tier-1, keys, begin, begin.Add(q.Tier.Span())
			for r, err := range p.rows(ctx, finer) {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// unsettled are the spans of a query's tier whose row is not made yet, and maybe others.
func (p *Past) unsettled(ctx context.Context, q store.Query) (list []store.Bucket, err error) {
	if p.settling == nil || len(q.Keys) == 0 {
		return p.Store.Unsettled(ctx, q.Tier, q.To)
	}
	open := p.settling[q.Tier]
	if open == nil {
		all, err := p.Store.Unsettled(ctx, q.Tier, time.Time{})
		if err != nil {
			return nil, err
		}
		open = map[store.Key][]store.Bucket{}
		for _, b := range all {
			open[b.Key] = append(open[b.Key], b)
		}
		p.settling[q.Tier] = open
	}
	for _, key := range q.Keys {
		list = append(list, open[key]...)
	}
	return list, nil
}

// A settling has the spans whose row is not made yet, by device, of the tiers that were asked for. Rows that are made later change no answer:
// what they are made of is still there.
type settling map[store.Tier]map[store.Key][]store.Bucket

// spans yields when the unsettled spans of a query begin, with those who have one then.
func spans(unsettled map[store.Bucket]bool, q store.Query) iter.Seq2[time.Time, []store.Key] {
	keysByTime := map[int64][]store.Key{}
	for b := range unsettled {
		asked := (len(q.Keys) == 0 && (b.UUID == "") == q.Machines) || slices.Contains(q.Keys, b.Key)
		if asked && b.Time.Before(q.To) && b.Time.Add(q.Tier.Span()).After(q.From) {
			keysByTime[b.Time.UnixMilli()] = append(keysByTime[b.Time.UnixMilli()], b.Key)
		}
	}
	return func(yield func(time.Time, []store.Key) bool) {
		for begin, keys := range keysByTime {
			if !yield(time.UnixMilli(begin).UTC(), keys) {
				return
			}
		}
	}
}
