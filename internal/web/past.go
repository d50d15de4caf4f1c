package web

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/internal/when"
	"github.com/gpuwhy/gpuwhy/views"
)

const (
	// pastDrawn limits the devices in a picture to the busiest.
	pastDrawn = 8
	// pastLongest limits the sessions of a device in the picture.
	pastLongest = 1000
	pastEvents  = 2000
)

// past returns the page of the past. A database error is shown on the page and also returned.
func (p *Pages) past(ctx context.Context, q *server.PastQuestion) (templ.Component, error) {
	in := views.PastInput{Input: p.input(p.cfg.Newest(), q.Node), Asked: q.Asked, NotKept: q.NotKept, Trouble: q.Trouble, Unclear: q.Unclear}
	if part := p.cfg.Parts()["history"]; part.LastError != nil {
		in.Unwritten = *part.LastError
	}
	var err error
	if q.Trouble == nil {
		in.From, in.To, in.At, in.Price = q.From, q.To, q.At, p.cfg.Price
		in.Forecasts = p.forecastsOf(q)
		err = p.fillPast(ctx, &in, q)
	}
	if err != nil {
		advice := gpu.AsAdvice(err)
		unclear := errors.Is(err, past.ErrTooFine) || errors.Is(err, past.ErrTooLong)
		if unclear {
			advice = gpu.Advice{What: "the span is too long to draw", Try: "choose a shorter one"}
		}
		in = views.PastInput{Input: in.Input, Asked: q.Asked, Trouble: &advice, Unclear: unclear, Unwritten: in.Unwritten}
	}
	return views.NewPastPage(in), err
}

// forecastsOf returns the forecasts of a node's present devices, or of all.
func (p *Pages) forecastsOf(q *server.PastQuestion) []contract.GPUForecast {
	f := p.cfg.Newest()
	var parts []insight.Part
	for part := range f.Parts() {
		if q.Node == "" || part.Snapshot.Node == q.Node {
			parts = append(parts, part)
		}
	}
	return p.forecasts(f, parts, q.From)
}

// fillPast reads everything that the page shows.
func (p *Pages) fillPast(ctx context.Context, in *views.PastInput, q *server.PastQuestion) error {
	seen := func(d store.Device) bool {
		return d.First.IsZero() || d.First.Before(q.To) && !d.Last.Add(store.Quarter.Span()).Before(q.From)
	}
	named := func(k store.Key) bool { // and not seen under another name of its machine
		return slices.Contains(q.Keys, k) && !slices.ContainsFunc(q.Keys, func(o store.Key) bool { return o.UUID == k.UUID && seen(q.Devices[o]) })
	}
	for k, d := range q.Devices {
		if k.UUID != "" && (seen(d) || named(k)) {
			in.Devices = append(in.Devices, d)
		}
	}
	slices.SortFunc(in.Devices, func(a, b store.Device) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	of := store.Query{From: q.From, To: q.To, Keys: q.Keys}
	if len(of.Keys) == 0 && q.Node != "" {
		of.Keys = append(slices.Collect(maps.Keys(q.Devices)), store.Key{Node: q.Node}) // the machine's events, too
	}
	ask := p.cfg.Past
	in.Times = timesOf(q.From, q.To)
	in.Sessions = map[store.Key]views.PastSessions{}
	sessions := longestSessions{in, map[store.Key]time.Duration{}}
	all, err := ask.All(ctx, past.ByUser, of, in.Times, past.Names(q.Devices), sessions.take)
	if err != nil {
		return err
	}
	in.Story, in.Usage, in.Daily = all.Story, all.Usage, all.Daily
	in.Drawn = drawnOf(in.Devices, q.Keys, sessions.busy)
	ofEvents := of
	ofEvents.Newest = pastEvents
	for e, err := range ask.Store.Events(ctx, ofEvents) {
		if err != nil {
			return err
		}
		in.Events = append(in.Events, e)
	}
	if err := p.fillPicture(ctx, in, q, of.Keys); err != nil {
		return err
	}
	if !q.At.IsZero() {
		return p.fillThen(ctx, in, q)
	}
	return nil
}

// longestSessions fills in the longest sessions of each device, and returns for how long each device worked.
type longestSessions struct {
	in   *views.PastInput
	busy map[store.Key]time.Duration
}

func (x *longestSessions) take(s *store.Session) {
	list := x.in.Sessions[s.Key]
	list.Count++
	if list.Longest = append(list.Longest, *s); len(list.Longest) == 2*pastLongest {
		slices.SortStableFunc(list.Longest, func(a, b store.Session) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
		list.Longest = list.Longest[:pastLongest]
	}
	x.in.Sessions[s.Key] = list
	x.busy[s.Key] += s.Busy
}

// drawnOf returns the devices in the picture: those named, or all. If there are too many, the busiest are drawn.
func drawnOf(all []store.Device, named []store.Key, busy map[store.Key]time.Duration) []store.Device {
	out := slices.DeleteFunc(slices.Clone(all), func(d store.Device) bool { return len(named) > 0 && !slices.Contains(named, d.Key()) })
	if len(out) <= pastDrawn {
		return out
	}
	slices.SortStableFunc(out, func(a, b store.Device) int { return cmp.Compare(busy[b.Key()], busy[a.Key()]) })
	chosen := out[:pastDrawn]
	return slices.DeleteFunc(slices.Clone(all), func(d store.Device) bool {
		return !slices.ContainsFunc(chosen, func(c store.Device) bool { return c.Key() == d.Key() })
	})
}

// fillPicture reads the series of the picture, for the devices of the page (none means all). Steps are long enough to each have a reading while gpuwhy runs.
func (p *Pages) fillPicture(ctx context.Context, in *views.PastInput, q *server.PastQuestion, all []store.Key) error {
	if len(in.Drawn) == 0 {
		return nil
	}
	points := time.Duration(past.FewPoints)
	if len(in.Drawn) > 1 {
		points = 300
	}
	const slowest = 5 * time.Second // snapshots are stored about that often
	step := past.Step(max(q.To.Sub(q.From)/points, 2*p.cfg.Monitor.Interval, 2*slowest))
	var err error
	if in.Grid, err = p.cfg.Past.Grid(q.From, q.To, step); err != nil {
		return err
	}
	keys := make([]store.Key, len(in.Drawn))
	for i := range in.Drawn {
		keys[i] = in.Drawn[i].Key()
	}
	if in.Series, err = p.cfg.Past.History(ctx, in.Grid, keys, false, views.PastColumns); err != nil {
		return err
	}
	if q.Compare == nil {
		return nil
	}
	return p.fillBeside(ctx, in, q, all, keys, step)
}

// fillBeside reads what the span is compared with: usage of all devices, and series of the drawn ones.
func (p *Pages) fillBeside(ctx context.Context, in *views.PastInput, q *server.PastQuestion, all, keys []store.Key, step time.Duration) error {
	b := &views.PastBeside{Name: q.Compare.Name, From: q.From, Series: map[store.Key]past.Series{}}
	if !q.Compare.From.IsZero() {
		b.From = q.Compare.From
	}
	other := func(k store.Key) store.Key { return k }
	if only := q.Compare.Key; only != nil {
		d := q.Devices[*only]
		b.Name = past.Names(q.Devices)(d.Key())
		other = func(store.Key) store.Key { return *only }
		all = []store.Key{*only}
	}
	of := store.Query{From: b.From, To: b.From.Add(q.To.Sub(q.From))}
	for _, k := range keys {
		if k = other(k); !slices.Contains(of.Keys, k) {
			of.Keys = append(of.Keys, k)
		}
	}
	var err error
	if b.Grid, err = p.cfg.Past.Grid(of.From, of.To, step); err != nil {
		return err
	}
	series, err := p.cfg.Past.History(ctx, b.Grid, of.Keys, false, views.PastColumns)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if i := slices.IndexFunc(series, func(s past.Series) bool { return s.Key == other(k) }); i >= 0 {
			b.Series[k] = series[i]
		}
	}
	if b.Story, err = p.cfg.Past.Why(ctx, of, past.Names(q.Devices)); err != nil {
		return err
	}
	of.Keys = all
	b.Usage, err = p.cfg.Past.Usage(ctx, past.ByUser, of)
	in.Beside = b
	return err
}

// fillThen fills in the machine as it was.
func (p *Pages) fillThen(ctx context.Context, in *views.PastInput, q *server.PastQuestion) error {
	node := cmp.Or(q.Node, p.cfg.Monitor.Node)
	switch {
	case len(q.Keys) > 0:
		node = q.Keys[0].Node
	case q.Node == "" && len(in.Drawn) > 0 && !slices.ContainsFunc(in.Devices, func(d store.Device) bool { return d.Node == node }):
		node = in.Drawn[0].Node
	}
	stage := insight.NewStage()
	if p.cfg.Then != nil {
		var err error
		if stage, err = p.cfg.Then(); err != nil {
			return err
		}
	}
	m, err := p.cfg.Past.Moment(ctx, node, q.At, stage)
	if gap, ok := errors.AsType[*past.NotSeenError](err); ok {
		in.ThenTrouble = &gpu.Advice{
			What: "gpuwhy wasn't reading " + node + " at that time",
			Try:  "choose another time: the last snapshot before it is from " + gap.Before.In(q.At.Location()).Format("2006-01-02 15:04:05"),
		}
		return nil
	}
	if errors.Is(err, past.ErrNotSeen) {
		in.ThenTrouble = &gpu.Advice{
			What: "nothing is stored for " + node + " at that time",
			Try:  "choose a later time: whole snapshots are kept only as long as single readings; the picture goes back further",
		}
		return nil
	}
	in.Then = m
	return err
}

// timesOf divides a span into hours, days or months of its time zone.
func timesOf(from, to time.Time) []time.Time {
	next := func(t time.Time) time.Time { // the first round time after t
		switch length := to.Sub(from); {
		case length <= 50*time.Hour:
			// UTC offsets are multiples of a quarter of an hour.
			t = t.Truncate(15 * time.Minute)
			for range 8 { // some zones set clocks back by half an hour
				if t = t.Add(15 * time.Minute); t.Minute() == 0 {
					break
				}
			}
			return t
		case length <= 70*24*time.Hour:
			return when.Day(t, 1)
		default:
			return when.Month(t, 1)
		}
	}
	out := []time.Time{from}
	for t := next(from); t.Before(to); t = next(t) {
		out = append(out, t)
	}
	return append(out, to)
}
