package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Chapter is one thing that happened with a device for a while.
type Chapter struct {
	store.Key
	From, To time.Time
	Kind     string // of the cause, as [explain.Kind]
	Who      string // the process that worked, or held the device awake: "train.py of mchen"; empty if unknown
	Others   int    // number of others that worked too
	// Utilization is the mean of its rows; absent if there are none.
	Utilization gpu.Reading[gpu.Percent]
	Cooled      time.Duration // how long the device cooled after that work
}

// A Story explains the state of devices over a span.
type Story struct {
	From, To time.Time
	Sentence string    // the main chapters, in their order
	Chapters []Chapter // work and what was broken, by time
	Tales    []Tale    // the chapters, put together for people
	Causes   []store.Cause

	Names func(store.Key) string // how people call devices
}

const (
	// pause is how long work may stop without becoming another chapter: the end of an epoch, a checkpoint.
	pause = 5 * time.Minute
	// told is how many tales a story's sentence tells.
	told = 3
)

// shown are the kinds that are worth a chapter, and what each says; {gpu}, {who} and, where that is known, {by} are filled in.
var shown = map[explain.Kind]string{
	explain.Work:          "{who} ran on {gpu}",
	explain.Lost:          "{gpu} was lost",
	explain.NotAnswering:  "{gpu} was not answering",
	explain.NeedsAction:   "{gpu} needed attention, according to the driver",
	explain.LimitedByHeat: "heat slowed {gpu} down",
	explain.FanFailing:    "the fan of {gpu} did not turn as it should",
	explain.FanUnreadable: "the driver could not read the fan of {gpu}",
	explain.Unexplained:   "{gpu} drew power that no process explained",
	explain.HeldAwake:     "{gpu} was held awake{by} without work",
	explain.DriverError:   "{gpu} had a driver error",
}

// Why tells what went on between two times. names says how people call a device, such as "GPU 3". Times in sentences are
// in the zone of q.From.
func (p *Past) Why(ctx context.Context, q store.Query, names func(store.Key) string) (s *Story, err error) {
	ctx, done, err := p.lengthy(ctx, q)
	if err != nil {
		return nil, err
	}
	s, err = p.why(ctx, q, names)
	return s, done(err)
}

func (p *Past) why(ctx context.Context, q store.Query, names func(store.Key) string) (*Story, error) {
	t, err := p.plot(ctx, q)
	if err != nil {
		return nil, err
	}
	q.Brief = true
	for s, err := range p.Store.Sessions(ctx, q) {
		if err != nil {
			return nil, err
		}
		t.take(&s)
	}
	return t.tell(ctx, p, names)
}

// long is the longest span whose story always has all causes and measures work by readings. For a longer span with more than many causes, the
// story has only faults and causes that lasted at least a quarter of an hour, because shorter ones of long ago are no longer stored. Utilization
// then comes from the sessions.
const long, many = 31 * 24 * time.Hour, 2500

// broken are the kinds whose causes all count; lasting are the kinds about work and idling.
var broken, lasting = kindsOf(true), append(kindsOf(false), string(explain.CoolingDown))

func kindsOf(brokenOnes bool) (kinds []string) {
	for kind := range shown {
		switch kind {
		case explain.Work, explain.HeldAwake, explain.Unexplained, explain.LimitedByHeat:
			if !brokenOnes {
				kinds = append(kinds, string(kind))
			}
		default:
			if brokenOnes {
				kinds = append(kinds, string(kind))
			}
		}
	}
	slices.Sort(kinds)
	return kinds
}

// A plot is a story that gets its sessions.
type plot struct {
	*Story
	last   map[strand]int // the last chapter of each kind of a device
	cooled map[store.Key][]store.Cause
	*namer
	long bool
}

// plot reads the causes of a span.
func (p *Past) plot(ctx context.Context, q store.Query) (*plot, error) {
	t := &plot{Story: &Story{From: q.From, To: q.To}, last: map[strand]int{}, cooled: map[store.Key][]store.Cause{}}
	queries := []store.Query{q}
	if q.To.Sub(q.From) > long {
		few, long := q, q
		few.First, long.Kinds, long.Lasting = many, lasting, store.Quarter.Span()
		q.Kinds = broken
		queries = []store.Query{few, long, q}
	}
	for i, q := range queries {
		for c, err := range p.Causes(ctx, q) {
			if err != nil {
				return nil, err
			}
			t.Causes = append(t.Causes, c)
		}
		if i == 0 && len(queries) > 1 {
			if len(t.Causes) < many { // these are all
				break
			}
			t.long, t.Causes = true, slices.Clone(t.Causes[:1]) // the first says since when something is known
		}
	}
	for i := range t.Causes {
		if !t.long || i > 0 {
			t.takeCause(t.Causes[i])
		}
	}
	slices.SortStableFunc(t.Chapters, func(a, b Chapter) int { return a.From.Compare(b.From) })
	t.namer = newNamer(t.Chapters, t.long)
	return t, nil
}

func (t *plot) takeCause(c store.Cause) {
	c.From, c.To = latest(c.From, t.From), earliest(c.To, t.To)
	kind := explain.Kind(c.Kind)
	if kind == explain.CoolingDown {
		t.cooled[c.Key] = append(t.cooled[c.Key], c)
	}
	if shown[kind] != "" {
		t.chapter(&c)
	}
}

// take takes a session in.
func (t *plot) take(s *store.Session) { t.namer.take(s) }

// tell tells the story once it has all sessions.
func (t *plot) tell(ctx context.Context, p *Past, names func(store.Key) string) (*Story, error) {
	s := t.Story
	t.finish()
	if !t.long {
		if err := p.measure(ctx, s.Chapters); err != nil {
			return nil, err
		}
	}
	for i := range s.Chapters {
		c := &s.Chapters[i]
		if i&1023 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if c.Kind == string(explain.Work) {
			c.Cooled = after(t.cooled[c.Key], c.To)
		}
	}
	s.Names = names
	s.Tales = s.tales(names)
	s.Sentence = s.sum()
	return s, nil
}

// after is how long a device cooled once its work had ended, of causes by time. A pause within the work is none.
func after(cooled []store.Cause, end time.Time) time.Duration {
	const near = time.Minute
	first, _ := slices.BinarySearchFunc(cooled, end.Add(-near), func(c store.Cause, t time.Time) int { return c.From.Compare(t) })
	for _, c := range cooled[first:] {
		if c.From.Sub(end) >= near {
			break
		}
		if c.From.Sub(end) > -near && c.To.After(end) {
			return c.To.Sub(c.From)
		}
	}
	return 0
}

// A strand is what goes on with a device again and again.
type strand struct {
	store.Key
	kind string
}

// chapter makes a cause a chapter, or more of the one before it. What another process held awake is another chapter.
func (t *plot) chapter(c *store.Cause) {
	key := strand{c.Key, c.Kind}
	if i, some := t.last[key]; some {
		last := &t.Chapters[i]
		other := c.Kind == string(explain.HeldAwake) && c.Who != last.Who
		if c.From.Sub(last.To) <= pause && !other {
			last.To = latest(last.To, c.To)
			return
		}
	}
	t.last[key] = len(t.Chapters)
	t.Chapters = append(t.Chapters, Chapter{Key: c.Key, From: c.From, To: c.To, Kind: c.Kind, Who: c.Who})
}

// A namer says whose work chapters were: of those who were there, the one whose process worked longest.
type namer struct {
	chapters []Chapter
	workers  [][]worked
	work     map[store.Key][]int // the chapters of a device by time; they do not overlap
	measured []measured          // by the sessions; nil: they are measured by readings
}

type worked struct {
	who  string
	busy time.Duration
}

// measured is how long all multiprocessors would have worked in a chapter, in seconds.
type measured struct {
	worked float64
	known  bool
}

func newNamer(chapters []Chapter, measure bool) *namer {
	n := &namer{chapters: chapters, workers: make([][]worked, len(chapters)), work: map[store.Key][]int{}}
	for i := range chapters {
		if c := &chapters[i]; c.Kind == string(explain.Work) {
			n.work[c.Key] = append(n.work[c.Key], i)
		}
	}
	if measure {
		n.measured = make([]measured, len(chapters))
	}
	return n
}

func (n *namer) take(s *store.Session) {
	list := n.work[s.Key]
	first, _ := slices.BinarySearchFunc(list, s.From, func(i int, begin time.Time) int { return n.chapters[i].To.Compare(begin) })
	who, within := "", time.Duration(0)
	if n.measured != nil && s.SMKnown > 0 {
		within = n.during(s, list[first:])
	}
	for _, i := range list[first:] {
		c := &n.chapters[i]
		if !c.From.Before(s.To) {
			break
		}
		overlap := earliest(s.To, c.To).Sub(latest(s.From, c.From))
		if overlap <= 0 || s.Busy <= 0 {
			continue
		}
		part := float64(overlap) / float64(s.To.Sub(s.From))
		busy := time.Duration(float64(s.Busy) * part)
		if within > 0 {
			// It works when there is work: what it does before and after that, such as reading files, is no part of how busy the device was.
			work := s.SMSeconds * s.Seen.Seconds() / s.SMKnown.Seconds()
			n.measured[i].worked += work * float64(overlap) / float64(max(s.Busy, within))
			n.measured[i].known = true
		}
		if who == "" {
			who = whose(s)
		}
		if j := slices.IndexFunc(n.workers[i], func(w worked) bool { return w.who == who }); j >= 0 {
			n.workers[i][j].busy += busy
		} else {
			n.workers[i] = append(n.workers[i], worked{who, busy})
		}
	}
}

// during is how much of a session is in chapters, of those that end after it began.
func (n *namer) during(s *store.Session, chapters []int) (long time.Duration) {
	for _, i := range chapters {
		c := &n.chapters[i]
		if !c.From.Before(s.To) {
			break
		}
		long += max(0, earliest(s.To, c.To).Sub(latest(s.From, c.From)))
	}
	return long
}

func (n *namer) finish() {
	for i, list := range n.workers {
		c := &n.chapters[i]
		if len(list) > 0 {
			slices.SortFunc(list, func(a, b worked) int { return cmp.Or(cmp.Compare(b.busy, a.busy), cmp.Compare(a.who, b.who)) })
			c.Who, c.Others = list[0].who, len(list)-1
		}
		if n.measured != nil && n.measured[i].known && c.From.Before(c.To) {
			c.Utilization = gpu.Of(gpu.Percent(min(100, 100*n.measured[i].worked/c.To.Sub(c.From).Seconds())))
		}
	}
}

func whose(s *store.Session) string {
	who := cmp.Or(s.Program, s.Name, fmt.Sprintf("process %d", s.PID))
	if s.User != "" {
		who += " of " + s.User
	}
	return who
}

// measure sets the mean utilization of the chapters. Each is measured by rows that fit it, so that its figure is the same however
// long a span is asked about.
func (p *Past) measure(ctx context.Context, chapters []Chapter) error {
	type measuredBy struct {
		strand
		tier store.Tier
	}
	// What is not settled is asked for once: of 1,000 GPUs it is much, and a story has hundreds of chapters.
	once := &Past{Store: p.Store, Keeps: p.Keeps, Now: p.Now, Interval: p.Interval, Seldom: p.Seldom, Permits: p.Permits, settling: settling{}}
	groups := map[measuredBy][]*Chapter{} // by time; they do not overlap
	for i := range chapters {
		c := &chapters[i]
		s := measuredBy{strand{c.Key, c.Kind}, p.fits(c)}
		groups[s] = append(groups[s], c)
	}
	for s, list := range groups {
		near := max(400*s.tier.Span(), 15*time.Minute) // to read the rows in between takes no longer than another question
		for len(list) > 0 {
			n := 1
			for n < len(list) && list[n].From.Sub(list[n-1].To) <= near {
				n++
			}
			if err := once.means(ctx, s.Key, s.tier, list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
	}
	return nil
}

// fits is the tier of the longest rows of which at least three lie within a chapter; if they are not kept any more, the next that is.
func (p *Past) fits(c *Chapter) store.Tier {
	tier := store.SixHours
	for tier > store.Raw && 4*tier.Span() > c.To.Sub(c.From) {
		tier--
	}
	for tier < store.Quarter && c.From.Before(p.Keeps.Cutoff(tier, p.Now())) {
		tier++
	}
	return tier
}

// means sets the utilization of chapters of one device and kind, by the rows that lie within each. Where there are none it stays absent:
// a row that begins before the chapter, or ends after it, tells of other work, too.
func (p *Past) means(ctx context.Context, device store.Key, tier store.Tier, chapters []*Chapter) error {
	column := store.DeviceColumns.Find("utilization_gpu")
	all := make([]store.Value, len(chapters))
	q := store.Query{From: chapters[0].From, To: chapters[len(chapters)-1].To, Keys: []store.Key{device}, Tier: tier, Columns: []int{column}, Reuse: true}
	for r, err := range p.filled(ctx, q) {
		if err != nil {
			return err
		}
		i, begins := slices.BinarySearchFunc(chapters, r.Time, func(c *Chapter, t time.Time) int { return c.From.Compare(t) })
		if !begins {
			i--
		}
		v := r.Values[column]
		if i >= 0 && v.Count > 0 && !v.Doubtful && r.Time.Before(chapters[i].To) && !r.Time.Add(r.Tier.Span()).After(chapters[i].To) {
			all[i] = join(all[i], v)
		}
	}
	for i, v := range all {
		if v.Count > 0 {
			chapters[i].Utilization = gpu.Of(gpu.Percent(v.Mean))
		}
	}
	return nil
}

// Tell returns the sentence of a chapter. A year has tens of thousands of chapters, but few are read.
func (s *Story) Tell(c *Chapter) string {
	text := s.when(c.From, c.To, what(c.Kind, c.Who, c.Others, s.Names(c.Key), c.Utilization)) + cooling("it", c.Cooled, c.Cooled)
	return begun(text, c.Kind, c.Who, s.goesOn(c.From, c.To)) + "."
}

// begun begins a text as a sentence does. The name of a program stays unchanged; work begins with one if whatFirst is set.
func begun(text, kind, who string, whatFirst bool) string {
	if named := whatFirst && kind == string(explain.Work) && who != ""; named || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// someone stands for a process that nobody can name.
const someone = "something"

// what says what went on, without when.
func what(kind, who string, others int, devices string, utilization gpu.Reading[gpu.Percent]) string {
	agent := ""
	if who != "" {
		agent = " by " + who
	}
	who = cmp.Or(who, someone)
	if others > 0 {
		who += " and " + explain.Plural(others, "other", "others")
	}
	text := strings.NewReplacer("{who}", who, "{by}", agent, "{gpu}", devices).Replace(shown[explain.Kind(kind)])
	if u, ok := utilization.Get(); ok && kind == string(explain.Work) {
		text += fmt.Sprintf(" at %.0f %%", u)
	}
	return text
}

// clock is how times of a day are written.
const clock = "15:04"

// layout is how times are written: with days where the story has several, and years.
func (s *Story) layout() string {
	if s.From.Year() != s.To.In(s.From.Location()).Year() && s.To.Sub(s.From) > 24*time.Hour {
		return "Mon 2 Jan 2006 15:04"
	}
	if s.To.Sub(s.From) > 24*time.Hour {
		return "Mon 2 Jan 15:04"
	}
	return clock
}

// ends are two times. Where days are not told, one that is more than half a day later says on which it is.
func (s *Story) ends(from, to time.Time) (begin, end string) {
	from, to = from.In(s.From.Location()), to.In(s.From.Location())
	layout := s.layout()
	begin = explain.Clock(from, layout)
	if layout == clock && to.Sub(from) > 12*time.Hour && from.Day() != to.Day() {
		layout = "Mon " + clock
	}
	return begin, explain.Clock(to, layout)
}

// between says when: "between 02:10 and 05:40".
func (s *Story) between(from, to time.Time) string {
	begin, end := s.ends(from, to)
	first, last := from.Sub(s.From) < time.Second, s.To.Sub(to) < time.Second
	switch {
	case first && last:
		return "the whole time"
	case begin == end:
		return "at " + begin
	case first:
		return "until " + end
	case last:
		return "from " + begin + " on"
	default:
		return "between " + begin + " and " + end
	}
}

// when says when something went on. What goes on has its time last: "GPU 7 was lost from 02:47 on".
func (s *Story) when(from, to time.Time, what string) string {
	when := s.between(from, to)
	if s.goesOn(from, to) {
		return what + " " + when
	}
	return when + ", " + what
}

// goesOn reports whether something began in the span and lasts until its end.
func (s *Story) goesOn(from, to time.Time) bool {
	return s.To.Sub(to) < time.Second && from.Sub(s.From) >= time.Second
}

// sum tells the main tales in the order of time.
func (s *Story) sum() string {
	if len(s.Causes) == 0 {
		return "No data for that time: gpuwhy was not reading then, or no longer keeps it."
	}
	if len(s.Tales) == 0 {
		return "No GPU did any work."
	}
	order := make([]int, len(s.Tales))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Tales[b].weight(), s.Tales[a].weight()) })
	main := order[:min(told, len(order))]
	slices.Sort(main)
	var parts []string
	for _, i := range main {
		parts = append(parts, s.sentence(&s.Tales[i]))
	}
	text := strings.Join(parts, "; ")
	if more := len(order) - len(main); more > 0 {
		text += "; and " + explain.Plural(more, "more event", "more events")
	}
	first := &s.Tales[main[0]]
	return begun(text, first.Kind, first.who, first.Times > 1 || s.goesOn(first.From, first.To)) + "."
}

// Names returns how people call devices: by index, plus the node if there are several.
func Names(devices map[store.Key]store.Device) func(store.Key) string {
	nodes := map[string]bool{}
	for k := range devices {
		nodes[k.Node] = true
	}
	return func(k store.Key) string {
		name := "a GPU"
		if d, known := devices[k]; known {
			name = fmt.Sprintf("GPU %d", d.Index)
		}
		if k.UUID == "" {
			name = "the machine"
		}
		if len(nodes) > 1 {
			name += " of " + k.Node
		}
		return name
	}
}
