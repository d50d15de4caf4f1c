package past

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
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/serve"
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

// A Shell fills in what every page shows.
type Shell interface {
	// Input is what a page of a node is made of for somebody who asks, or of all nodes if the name is empty.
	Input(ctx context.Context, f *insight.Fleet, node string) views.Input
}

// Forecasts says what comes next.
type Forecasts interface {
	// Forecast is of parts of a fleet, in the time zone of now; none where none are made.
	Forecast(f *insight.Fleet, parts []insight.Part, now time.Time) []contract.GPUForecast
}

// shown is the page of the past. An error of the database is on the page, and is returned too.
func (s *Site) shown(ctx context.Context, q *Question) (templ.Component, error) {
	in := views.PastInput{Input: s.Shell.Input(ctx, s.Kit.Fleet(ctx), q.Node), Asked: q.Asked, NotKept: q.NotKept, Trouble: q.Trouble, Unclear: q.Unclear}
	if s.Writing != nil && serve.SeesAll(ctx) {
		if part := s.Writing(); part.LastError != nil {
			in.Unwritten = *part.LastError
		}
	}
	var err error
	if q.Trouble == nil {
		in.From, in.To, in.At, in.Price = q.From, q.To, q.At, s.Price
		in.Forecasts = s.forecasts(ctx, q)
		err = s.fillPast(ctx, &in, q)
	}
	if err != nil {
		advice := gpu.AsAdvice(err)
		unclear := errors.Is(err, history.ErrTooFine) || errors.Is(err, history.ErrTooLong)
		if unclear {
			advice = gpu.Advice{What: "the span is too long to draw", Try: "choose a shorter one"}
		}
		in = views.PastInput{Input: in.Input, Asked: q.Asked, Trouble: &advice, Unclear: unclear, Unwritten: in.Unwritten}
	}
	return views.NewPastPage(in), err
}

// forecasts are those of the devices of a node, or of all, that there are now.
func (s *Site) forecasts(ctx context.Context, q *Question) []contract.GPUForecast {
	f := s.Kit.Fleet(ctx)
	var parts []insight.Part
	for part := range f.Parts() {
		if q.Node == "" || part.Snapshot.Node == q.Node {
			parts = append(parts, part)
		}
	}
	return s.Forecasts.Forecast(f, parts, q.From)
}

// fillPast reads everything that the page shows.
func (s *Site) fillPast(ctx context.Context, in *views.PastInput, q *Question) error {
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
	query := store.Query{From: q.From, To: q.To, Keys: q.Keys}
	if len(query.Keys) == 0 && q.Node != "" {
		query.Keys = append(slices.Collect(maps.Keys(q.Devices)), store.Key{Node: q.Node}) // the machine's events, too
	}
	if !serve.SeesAll(ctx) {
		if len(query.Keys) == 0 {
			query.Keys = slices.Collect(maps.Keys(q.Devices))
		}
		query.Keys = append(query.Keys, nobody...)
	}
	ask := s.Past
	in.Times = timesOf(q.From, q.To)
	in.Sessions = map[store.Key]views.PastSessions{}
	sessions := longestSessions{in, map[store.Key]time.Duration{}}
	all, err := ask.All(ctx, history.ByUser, query, in.Times, history.Names(q.Devices), sessions.take)
	if err != nil {
		return err
	}
	in.Story, in.Usage, in.Daily = all.Story, all.Usage, all.Daily
	in.Drawn = drawnOf(in.Devices, q.Keys, sessions.busy)
	events := query
	events.Newest = pastEvents
	for e, err := range ask.Store.Events(ctx, events) {
		if err != nil {
			return err
		}
		in.Events = append(in.Events, e)
	}
	if err := s.fillPicture(ctx, in, q, query.Keys); err != nil {
		return err
	}
	if !q.At.IsZero() {
		return s.fillThen(ctx, in, q)
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
func (s *Site) fillPicture(ctx context.Context, in *views.PastInput, q *Question, all []store.Key) error {
	if len(in.Drawn) == 0 {
		return nil
	}
	points := time.Duration(history.FewPoints)
	if len(in.Drawn) > 1 {
		points = 300
	}
	const slowest = 5 * time.Second // snapshots are stored about that often
	step := history.Step(max(q.To.Sub(q.From)/points, 2*s.Kit.Monitor.Interval, 2*slowest))
	var err error
	if in.Grid, err = s.Past.Grid(q.From, q.To, step); err != nil {
		return err
	}
	keys := make([]store.Key, len(in.Drawn))
	for i := range in.Drawn {
		keys[i] = in.Drawn[i].Key()
	}
	if in.Series, err = s.Past.History(ctx, in.Grid, keys, false, views.PastColumns); err != nil {
		return err
	}
	if q.Compare == nil {
		return nil
	}
	return s.fillBeside(ctx, in, q, all, keys, step)
}

// fillBeside reads what the span is compared with: usage of all devices, and series of the drawn ones.
func (s *Site) fillBeside(ctx context.Context, in *views.PastInput, q *Question, all, keys []store.Key, step time.Duration) error {
	b := &views.PastBeside{Name: q.Compare.Name, Begin: q.From, Series: map[store.Key]history.Series{}}
	if !q.Compare.Begin.IsZero() {
		b.Begin = q.Compare.Begin
	}
	other := func(k store.Key) store.Key { return k }
	if only := q.Compare.Key; only != nil {
		d := q.Devices[*only]
		b.Name = history.Names(q.Devices)(d.Key())
		other = func(store.Key) store.Key { return *only }
		all = []store.Key{*only}
	}
	query := store.Query{From: b.Begin, To: b.Begin.Add(q.To.Sub(q.From))}
	for _, k := range keys {
		if k = other(k); !slices.Contains(query.Keys, k) {
			query.Keys = append(query.Keys, k)
		}
	}
	var err error
	if b.Grid, err = s.Past.Grid(query.From, query.To, step); err != nil {
		return err
	}
	series, err := s.Past.History(ctx, b.Grid, query.Keys, false, views.PastColumns)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if i := slices.IndexFunc(series, func(s history.Series) bool { return s.Key == other(k) }); i >= 0 {
			b.Series[k] = series[i]
		}
	}
	if b.Story, err = s.Past.Why(ctx, query, history.Names(q.Devices)); err != nil {
		return err
	}
	query.Keys = all
	b.Usage, err = s.Past.Usage(ctx, history.ByUser, query)
	in.Beside = b
	return err
}

// fillThen fills in the machine as it was.
func (s *Site) fillThen(ctx context.Context, in *views.PastInput, q *Question) error {
	node := cmp.Or(q.Node, s.Kit.MonitorFor(ctx).Node)
	switch {
	case len(q.Keys) > 0:
		node = q.Keys[0].Node
	case q.Node == "" && len(in.Drawn) > 0 && !slices.ContainsFunc(in.Devices, func(d store.Device) bool { return d.Node == node }):
		node = in.Drawn[0].Node
	}
	stage := insight.NewStage()
	if s.Then != nil {
		var err error
		if stage, err = s.Then(); err != nil {
			return err
		}
	}
	m, err := s.momentOf(ctx, node, q.At, stage)
	if gap, ok := errors.AsType[*history.NotSeenError](err); ok {
		in.ThenTrouble = &gpu.Advice{
			What: "gpuwhy wasn't reading " + node + " at that time",
			Try:  "choose another time: the last snapshot before it is from " + gap.Before.In(q.At.Location()).Format("2006-01-02 15:04:05"),
		}
		return nil
	}
	if errors.Is(err, history.ErrNotSeen) {
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
