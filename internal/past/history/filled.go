package history

import (
	"context"
	"iter"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// filled yields the rows that the query asks for, as [Past.Rows] does, and after them coarser ones where there are no finer ones of the
// device: those were forgotten, or never written. A coarser row may begin before the query's time, and end after it.
//
// There are never rows of six hours without those of the quarters of an hour, so that they fill nothing. Those of them that end
// after the query's time are answered from quarters.
func (p *Past) filled(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	if q.Tier != store.SixHours {
		return p.filledTo(ctx, q)
	}
	whole, rest := q, q
	whole.To = q.To.Truncate(q.Tier.Span())
	rest.Tier, rest.From = store.Quarter, latest(q.From, whole.To)
	return func(yield func(store.Row, error) bool) {
		for _, part := range []iter.Seq2[store.Row, error]{p.rows(ctx, whole), p.filledTo(ctx, rest)} {
			for r, err := range part {
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// filledTo is filled for tiers up to quarters of an hour.
func (p *Past) filledTo(ctx context.Context, q store.Query) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		have := map[store.Bucket]bool{} // the spans of which there is a finer row
		for tier := q.Tier; tier <= store.Quarter; tier++ {
			finer := q
			finer.Tier, finer.From = tier, q.From.Truncate(tier.Span())
			if tier < store.Quarter { // all of the spans that begin or end in between is looked at
				next := (tier + 1).Span()
				finer.From, finer.To = q.From.Truncate(next), q.To.Add(next-1).Truncate(next)
			}
			for r, err := range p.rows(ctx, finer) {
				if err != nil {
					yield(r, err)
					return
				}
				begins := r.Time
				if r.Tier < tier { // a part of a span that is not settled: spans are asked whole
					begins = bucketOf(&r, tier).Time
				}
				wanted := begins.Before(q.To)
				if tier == q.Tier {
					wanted = wanted && !begins.Before(q.From)
				} else {
					wanted = wanted && r.Tier == tier && r.Time.Add(tier.Span()).After(q.From) && !have[bucketOf(&r, tier)]
				}
				for coarser := max(r.Tier, q.Tier) + 1; coarser <= store.Quarter; coarser++ {
					have[bucketOf(&r, coarser)] = true
				}
				if wanted && !yield(r, nil) {
					return
				}
			}
		}
	}
}

// bucketOf is the span of a tier in which a row begins.
func bucketOf(r *store.Row, tier store.Tier) store.Bucket {
	return store.Bucket{Key: r.Key, Tier: tier, Time: r.Time.UTC().Truncate(tier.Span())}
}

// since is the tier, or the next coarser one as long as that has rows of a device from before its first.
func (p *Past) since(ctx context.Context, tier store.Tier, q store.Query) (store.Tier, error) {
	if len(q.Keys) == 0 {
		devices, err := p.Store.Devices(ctx)
		if err != nil {
			return tier, err
		}
		for _, d := range devices {
			if (d.UUID == "") == q.Machines {
				q.Keys = append(q.Keys, d.Key())
			}
		}
	}
	for _, k := range q.Keys {
		for coarser := tier + 1; coarser <= store.Quarter; coarser++ {
			begins, err := p.first(ctx, tier, k, q)
			if err != nil {
				return tier, err
			}
			before, err := p.first(ctx, coarser, k, q)
			if err != nil {
				return tier, err
			}
			if !before.IsZero() && (begins.IsZero() || !before.Add(coarser.Span()).After(begins)) {
				tier = coarser
			}
		}
	}
	return tier, nil
}

// first is when the first row of a device begins; zero: there is none.
func (p *Past) first(ctx context.Context, tier store.Tier, k store.Key, q store.Query) (time.Time, error) {
	q.Tier, q.Keys = tier, []store.Key{k}
	for r, err := range p.Store.Rows(ctx, q) {
		return r.Time, err
	}
	return time.Time{}, nil
}
