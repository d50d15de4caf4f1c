package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Grouping is a way to sum usage.
type Grouping string

// The ways to sum usage.
const (
	ByUser      Grouping = "user"
	ByProcess   Grouping = "process" // by what a person calls the program, and its user
	ByJob       Grouping = "job"
	ByPod       Grouping = "pod"
	ByContainer Grouping = "container"
	ByUnit      Grouping = "unit" // of systemd
	ByGPU       Grouping = "gpu"
	ByNode      Grouping = "node"
	ByCluster   Grouping = "cluster" // of nodes; those in none are together
)

// Ways lists all groupings.
var Ways = []Grouping{ByUser, ByProcess, ByJob, ByPod, ByContainer, ByUnit, ByGPU, ByNode, ByCluster}

// ofDevices reports whether each device is in one sum as a whole.
func (g Grouping) countsDevices() bool { return g == ByGPU || g == ByNode || g == ByCluster }

// A Usage is the use of devices by one user, program, job, pod, container, unit, device, node or cluster over a span.
type Usage struct {
	Name      string // empty: not known, or none such as of what runs in no job, or of nodes in no cluster
	User      string // of a process
	store.Key        // of a device

	Sessions, Devices int
	// Held is how long its processes had devices, in device-time: two processes on one device at once count
	// once, one process on two devices counts twice. Only the time counts in which gpuwhy looked.
	Held time.Duration
	// Busy is the part of Held in which work was seen. The rest was held idle.
	Busy time.Duration
	// SMSeconds is how long all multiprocessors of a device would have worked for the same; absent where no
	// driver told.
	SMSeconds gpu.Reading[float64]
	// Joules is its part of the draw above rest, an estimate; of a device, and of the devices of a node or cluster, all that they drew,
	// unless only some sessions are asked for. Absent where it was never known.
	Joules gpu.Reading[float64]
	// JoulesKnown is the part of the time, 0 to 1, for which Joules is known, and JoulesEstimated that for which it is estimated, since
	// what the devices draw at rest was not known: see [store.Estimated].
	JoulesKnown, JoulesEstimated float64
	PeakMemory                   gpu.Reading[gpu.Bytes] // the most that one session held
}

// KWh is the energy in kilowatt-hours.
func (u *Usage) KWh() gpu.Reading[float64] {
	return gpu.Map(u.Joules, func(j float64) float64 { return j / 3.6e6 })
}

// A stretch is a part of time in which a session was on a device, in nanoseconds since 1970.
type stretch struct {
	from, to int64
	// The parts, 0 to 1, of it in which gpuwhy looked and in which the session worked. When in the session that was is not kept: it
	// is taken to be even, or the work as its [weight] says.
	seen, busy float64
}

// a group is what is summed up to one Usage.
type group struct {
	Usage
	held map[store.Key][]stretch
	span float64 // seconds that were seen of its sessions
	told float64 // of them those in which the energy is known

	estimated float64 // and those in which it is estimated
}

// Usage sums up who used devices between two times, the longest held first. A session that is only in part within the span
// counts by that part, its energy and work by what its device drew then. Where only some sessions are asked for, the energy of a device is what these had of it.
func (p *Past) Usage(ctx context.Context, grouping Grouping, q store.Query) (list []Usage, err error) {
	ctx, done, err := p.lengthy(ctx, q)
	if err != nil {
		return nil, err
	}
	list, err = p.usage(ctx, grouping, q)
	return list, done(err)
}

func (p *Past) usage(ctx context.Context, grouping Grouping, q store.Query) ([]Usage, error) {
	all := newTotals(grouping, []time.Time{q.From, q.To})
	if err := p.sum(ctx, q, all); err != nil {
		return nil, err
	}
	groups := map[string]*group{}
	for key, g := range all.groups {
		groups[key.name+"\x00"+key.user] = g
	}
	if grouping.countsDevices() && q.User+q.Name+q.Job+q.Pod == "" {
		out, err := p.drawn(ctx, grouping, q, groups)
		slices.SortFunc(out, compareHeld)
		return out, err
	}
	return all.list()[0], nil
}

// Daily is Usage of each of several spans, such as days, of which each ends where the next begins: of span i, from times[i] to
// times[i+1]. The energy of devices is what sessions had of it.
func (p *Past) Daily(ctx context.Context, grouping Grouping, q store.Query, times []time.Time) ([][]Usage, error) {
	all := newTotals(grouping, times)
	if err := p.sum(ctx, q, all); err != nil {
		return nil, err
	}
	return all.list(), nil
}

// sum reads the sessions of a span and sums them up.
func (p *Past) sum(ctx context.Context, q store.Query, x *totals) error {
	q.Brief = true
	for s, err := range p.Store.Sessions(ctx, q) {
		if err != nil {
			return err
		}
		x.take(&s)
	}
	return x.finish(ctx, p)
}

// All is what a page says of a span.
type All struct {
	Story *Story
	Usage []Usage   // as [Past.Usage]
	Daily [][]Usage // as [Past.Daily]
}

// All tells what went on in a span and who used what, in all and in each of several spans, reading each session once. It calls each with
// every one, as [Past.Sessions] yields them in brief.
func (p *Past) All(ctx context.Context, grouping Grouping, q store.Query, times []time.Time, names func(store.Key) string, each func(*store.Session)) (all *All, err error) {
	ctx, done, err := p.lengthy(ctx, q)
	if err != nil {
		return nil, err
	}
	all, err = p.all(ctx, grouping, q, times, names, each)
	return all, done(err)
}

func (p *Past) all(ctx context.Context, grouping Grouping, q store.Query, times []time.Time, names func(store.Key) string, each func(*store.Session)) (*All, error) {
	story, err := p.plot(ctx, q)
	if err != nil {
		return nil, err
	}
	usage, daily := newTotals(grouping, []time.Time{q.From, q.To}), newTotals(grouping, times)
	q.Brief = true
	for s, err := range p.Sessions(ctx, q) {
		if err != nil {
			return nil, err
		}
		each(&s)
		story.take(&s)
		usage.take(&s)
		daily.take(&s)
	}
	out := &All{}
	if out.Story, err = story.tell(ctx, p, names); err != nil {
		return nil, err
	}
	for _, x := range []*totals{usage, daily} {
		if err := x.finish(ctx, p); err != nil {
			return nil, err
		}
	}
	out.Usage, out.Daily = usage.list()[0], daily.list()
	return out, nil
}

// totals add sessions up to the groups of each of several spans. A zero time at the end of the last bounds nothing.
type totals struct {
	grouping Grouping
	times    []time.Time
	groups   map[sumOf]*group
	newest   map[place]*one
	parts    []store.Session
}

// A sumOf names a sum: of a span, and of whom.
type sumOf struct {
	span       int
	name, user string
}

// A place is where one of a group may be.
type place struct {
	name, user string
	store.Key
}

// one is the newest session there, until when there was one, and whether it was beside another.
type one struct {
	store.Session
	until  time.Time
	beside bool
}

func newTotals(grouping Grouping, times []time.Time) *totals {
	return &totals{grouping: grouping, times: times, groups: map[sumOf]*group{}, newest: map[place]*one{}}
}

// without reports whether a session has no part in span i. If there is a single span, every session that was read has a part in it.
func (x *totals) without(s *store.Session, i int) bool {
	if len(x.times) == 2 {
		return false
	}
	return s.To.Before(x.times[i]) || !s.From.Before(x.times[i+1]) || s.To.Equal(x.times[i]) && s.From.Before(s.To)
}

// whole reports whether a session is not cut by a span.
func (x *totals) whole(s *store.Session) bool {
	for i := range len(x.times) - 1 {
		if end := x.times[i+1]; !x.without(s, i) && (s.From.Before(x.times[i]) || !end.IsZero() && s.To.After(end)) {
			return false
		}
	}
	return true
}

// take takes a session in, in the order in which they began. Those that are not whole, and those that were on a device beside another one
// of the same group, wait until it is known when each of them worked.
func (x *totals) take(s *store.Session) {
	name, user := nameOf(x.grouping, s)
	key := place{name, user, s.Key}
	before := x.newest[key]
	if before == nil || !s.From.Before(before.until) {
		if before == nil {
			x.newest[key] = &one{*s, s.To, false}
			return
		}
		x.alone(before)
		*before = one{*s, s.To, false}
		return
	}
	if !before.beside {
		before.beside = true
		x.parts = append(x.parts, before.Session)
	}
	x.parts = append(x.parts, *s)
	before.until = latest(before.until, s.To)
}

func (x *totals) alone(s *one) {
	switch {
	case s.beside:
	case x.whole(&s.Session):
		x.add(&s.Session, nil)
	default:
		x.parts = append(x.parts, s.Session)
	}
}

// finish adds what waits.
func (x *totals) finish(ctx context.Context, p *Past) error {
	for _, s := range x.newest {
		x.alone(s)
	}
	weights, err := p.weights(ctx, x.parts)
	if err != nil {
		return err
	}
	for i := range x.parts {
		x.add(&x.parts[i], &weights[i])
	}
	return ctx.Err()
}

func (x *totals) add(s *store.Session, w *weight) {
	name, user := nameOf(x.grouping, s)
	for i := range len(x.times) - 1 {
		if x.without(s, i) {
			continue
		}
		key := sumOf{i, name, user}
		g := x.groups[key]
		if g == nil {
			g = newGroup(x.grouping, name, user, s)
			x.groups[key] = g
		}
		g.add(s, w, x.times[i], x.times[i+1])
	}
}

// list is the usage of each span, the longest held first.
func (x *totals) list() [][]Usage {
	out := make([][]Usage, max(0, len(x.times)-1))
	for key, g := range x.groups {
		out[key.span] = append(out[key.span], g.sum())
	}
	for _, list := range out {
		slices.SortFunc(list, compareHeld)
	}
	return out
}

func newGroup(grouping Grouping, name, user string, s *store.Session) *group {
	g := &group{held: map[store.Key][]stretch{}}
	g.Name, g.User = name, user
	if grouping == ByGPU {
		g.Key = s.Key
	}
	return g
}

// compareHeld puts the longest held first.
func compareHeld(a, b Usage) int {
	return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Name, b.Name), cmp.Compare(a.User, b.User))
}

func nameOf(grouping Grouping, s *store.Session) (name, user string) {
	switch grouping {
	case ByUser:
		return s.User, ""
	case ByProcess:
		return cmp.Or(s.Program, s.Name), s.User
	case ByJob:
		return s.Job, ""
	case ByPod:
		return s.Pod, ""
	case ByContainer:
		return s.Container, ""
	case ByUnit:
		return s.Unit, ""
	default:
		return nameOfDevice(grouping, s.Key), ""
	}
}

// nameOfDevice is the name of the sum that a device is in.
func nameOfDevice(grouping Grouping, k store.Key) string {
	switch grouping {
	case ByNode:
		return k.Node
	case ByCluster:
		cluster, _, in := strings.Cut(k.Node, ":") // as [insight.Key] makes it
		if !in {
			return ""
		}
		return cluster
	default:
		return k.Node + "/" + k.UUID
	}
}

// Choices lists all groupings for people: "user, process or gpu".
func Choices() string {
	names := make([]string, len(Ways))
	for i, grouping := range Ways {
		names[i] = string(grouping)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// ParseGrouping parses the name of a grouping.
func ParseGrouping(text string) (Grouping, error) {
	if grouping := Grouping(strings.ToLower(text)); slices.Contains(Ways, grouping) {
		return grouping, nil
	}
	return "", fmt.Errorf("%s is not a way to sum usage: use %s", strconv.Quote(text), Choices())
}

// add takes in the part of a session between two times.
func (g *group) add(s *store.Session, w *weight, from, to time.Time) {
	begin, end := latest(s.From, from), s.To
	if !to.IsZero() {
		end = earliest(end, to)
	}
	whole, part := s.To.Sub(s.From), end.Sub(begin)
	if part < 0 {
		return
	}
	g.Sessions++
	held := stretch{from: begin.UnixNano(), to: end.UnixNano()}
	share, work := 1.0, 1.0 // of a session that was seen once
	if whole > 0 {
		share = float64(part) / float64(whole)
		held.seen, held.busy = float64(s.Seen)/float64(whole), float64(s.Busy)/float64(whole)
	}
	if part < whole {
		work = w.share(s, begin, end)
	}
	g.held[s.Key] = append(g.held[s.Key], w.during(held)...)
	g.span += share * s.Seen.Seconds()
	if s.SMKnown > 0 {
		g.SMSeconds = gpu.Of(g.SMSeconds.Or(0) + work*s.SMSeconds)
	}
	if s.JoulesKnown > 0 {
		g.Joules = gpu.Of(g.Joules.Or(0) + work*s.Joules)
		if told := share * s.JoulesKnown.Seconds(); s.JoulesMethod == store.Estimated {
			g.estimated += told
		} else {
			g.told += told
		}
	}
	if m, ok := s.PeakMemory.Get(); ok && m >= g.PeakMemory.Or(0) {
		g.PeakMemory = gpu.Of(m)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// sum is the group's usage.
func (g *group) sum() Usage {
	u := g.Usage
	u.Devices = len(g.held)
	for _, list := range g.held {
		held, busy := heldBy(list)
		u.Held += held
		u.Busy += busy
	}
	if g.span > 0 {
		u.JoulesKnown, u.JoulesEstimated = g.told/g.span, g.estimated/g.span
	}
	return u
}

// heldBy is how long at least one of the sessions on a device was seen, and how long one worked. At each moment gpuwhy looked
// at the device for all of them or for none: so the part that was seen is that of the session of which most was. The parts in
// which they worked add up, as if they took turns, to that at most. So the sums of parts of a span are those of the whole.
func heldBy(list []stretch) (held, busy time.Duration) {
	type change struct {
		time    int64
		stretch *stretch
	}
	changes := make([]change, 0, 2*len(list))
	for i := range list {
		if s := &list[i]; s.from < s.to {
			changes = append(changes, change{s.from, s}, change{s.to, s})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.time, b.time) })
	var running []*stretch
	var heldFor, busyFor float64
	for i, c := range changes {
		if len(running) > 0 {
			length := float64(c.time - changes[i-1].time)
			seen, worked := 0.0, 0.0
			for _, s := range running {
				seen, worked = max(seen, s.seen), worked+s.busy
			}
			heldFor += min(seen, 1) * length
			busyFor += min(worked, seen, 1) * length
		}
		if i := slices.Index(running, c.stretch); i >= 0 {
			running = slices.Delete(running, i, i+1)
		} else {
			running = append(running, c.stretch)
		}
	}
	return time.Duration(math.Round(heldFor)), time.Duration(math.Round(busyFor))
}

// drawn are the sums of groups of devices with the energy of all that these drew, from their power, in place of what sessions had of it.
// Devices that nobody used are added.
func (p *Past) drawn(ctx context.Context, grouping Grouping, q store.Query, groups map[string]*group) (out []Usage, err error) {
	var energy map[store.Key]Energy
	if !q.To.IsZero() && !q.From.IsZero() {
		if energy, err = p.Energy(ctx, q); err != nil {
			return nil, err
		}
		for _, g := range groups {
			g.Joules, g.told, g.estimated, g.span = gpu.Reading[float64]{}, 0, 0, 0
		}
	}
	for k, e := range energy {
		name := nameOfDevice(grouping, k)
		g := groups[name+"\x00"]
		if g == nil {
			g = newGroup(grouping, name, "", &store.Session{SessionKey: store.SessionKey{Key: k}})
			groups[name+"\x00"] = g
		}
		g.held[k] = append(g.held[k], stretch{})
		g.Joules = gpu.Of(g.Joules.Or(0) + e.Joules)
		g.told += e.Known
	}
	for _, g := range groups {
		if energy != nil {
			g.span = float64(len(g.held))
		}
		out = append(out, g.sum())
	}
	return out, nil
}

// An Energy is the energy that a device used.
type Energy struct {
	Joules float64
	Known  float64 // the part of the span, 0 to 1, for which there is a reading of the power
}

// fine is the longest span of which energy is summed by minutes. Of a longer one it is summed by quarters of an hour.
const fine = 50 * time.Hour

// atOnce is of how long a span rows are held at once.
const atOnce = 30 * 24 * time.Hour

// Energy is what the devices drew in all between two times, from their power draw: the mean of each minute, or of each quarter of an
// hour, stands for as long as gpuwhy looked in it. The sums of parts of a span are that of the whole, but for gaps where only one of
// them is summed by minutes. Of what is still to come nothing is known, and nothing is missing.
func (p *Past) Energy(ctx context.Context, q store.Query) (map[store.Key]Energy, error) {
	now := p.Now()
	q.To = earliest(q.To, now)
	q.Tier = store.Minute
	if q.To.Sub(q.From) > fine || !p.keeps(store.Minute, q.From) {
		q.Tier = store.Quarter
	}
	column := store.DeviceColumns.Find("power_draw")
	q.Columns, q.Reuse = []int{column, store.ReadSeconds}, true
	out := map[store.Key]Energy{}
	for from := q.From; from.Before(q.To); from = from.Add(atOnce) {
		to := earliest(from.Add(atOnce), q.To)
		wider := q
		wider.From, wider.To = from.Add(-around).Truncate(q.Tier.Span()), to.Add(around)
		all, err := p.looked(ctx, wider, column)
		if err != nil {
			return nil, err
		}
		for k, rows := range all {
			e, some := out[k]
			for i := range rows {
				r := &rows[i]
				known := part(rows, i, p.paces(), from, to, now).Seconds() * float64(r.count) / float64(r.readings)
				e.Joules, e.Known, some = e.Joules+r.mean*known, e.Known+known, some || known > 0
			}
			if some {
				out[k] = e
			}
		}
	}
	for k, e := range out {
		e.Known = min(e.Known/q.To.Sub(q.From).Seconds(), 1)
		out[k] = e
	}
	return out, nil
}

// looked reads one column of devices: rows of spans by time, of a minute at least.
func (p *Past) looked(ctx context.Context, q store.Query, column int) (map[store.Key][]looked, error) {
	type minute struct {
		store.Key
		begin int64
	}
	out, unmade := map[store.Key][]looked{}, map[minute]looked{} // of minutes whose row is not made yet
	for r, err := range p.filled(ctx, q) {
		if err != nil {
			return nil, err
		}
		is := lookedAt(&r, column)
		if r.Tier != store.Raw {
			out[r.Key] = append(out[r.Key], is)
			continue
		}
		key := minute{r.Key, is.begin.UnixMilli()}
		if sum := unmade[key]; sum.readings > 0 {
			if n := sum.count + is.count; n > 0 {
				is.mean = (sum.mean*float64(sum.count) + is.mean*float64(is.count)) / float64(n)
			}
			is.readings, is.count = is.readings+sum.readings, is.count+sum.count
			is.stood, is.timed = is.stood+sum.stood, is.timed+sum.timed
		}
		unmade[key] = is
	}
	for key, is := range unmade {
		out[key.Key] = append(out[key.Key], is)
	}
	for _, rows := range out {
		slices.SortFunc(rows, func(a, b looked) int { return a.begin.Compare(b.begin) })
	}
	return out, nil
}
