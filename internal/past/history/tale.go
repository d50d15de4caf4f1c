package history

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A Tale combines chapters into one: the same work on several devices or repeated work, or the same trouble of one device.
type Tale struct {
	Kind     string        // the kind of its chapters
	Keys     []store.Key   // the devices, by node and UUID
	From, To time.Time     // first start and last end
	Times    int           // number of repetitions
	Lasted   time.Duration // total time in which it applied to any device
	What     string        // "train.py of mchen ran GPUs 0–3 at 96 %"
	// Besides adds a fact about its devices: ", then it cooled for 4 min", or about some of them: ", GPU 3 only until 05:40".
	// It is empty for repeated tales.
	Besides string

	who         string
	others      int
	utilization gpu.Reading[gpu.Percent]
}

// Statement is What as the beginning of a sentence: with a capital letter unless it begins with the name of a process.
func (t *Tale) Statement() string {
	return begun(t.What, t.Kind, t.What, !strings.HasPrefix(t.What, someone+" "))
}

// passing is the shortest trouble that is told: while work begins or ends, an answer may be wrong for a moment.
const passing = time.Minute

// tales tells the chapters, in the order in which they began.
func (s *Story) tales(names func(store.Key) string) (out []Tale) {
	type subject struct {
		kind, who string
		device    store.Key // of trouble
	}
	bySubject := map[subject][]*Chapter{}
	var order []subject
	for i := range s.Chapters {
		c := &s.Chapters[i]
		key := subject{kind: c.Kind, who: c.Who}
		switch kind := explain.Kind(c.Kind); {
		case kind == explain.Work:
		case (kind == explain.HeldAwake || kind == explain.Unexplained) && c.To.Sub(c.From) < passing:
			continue
		default:
			key.device = c.Key
		}
		if bySubject[key] == nil {
			order = append(order, key)
		}
		bySubject[key] = append(bySubject[key], c)
	}
	for _, key := range order {
		t := newTale(bySubject[key], names)
		if t.Times == 1 {
			t.Besides = s.besides(&t, bySubject[key], names)
		}
		out = added(out, t, names)
	}
	return out
}

// added adds a tale. The same trouble of several devices at the same time is one.
func added(list []Tale, t Tale, names func(store.Key) string) []Tale {
	near := func(a, b time.Time) bool { return a.Sub(b).Abs() <= passing }
	i := slices.IndexFunc(list, func(o Tale) bool {
		return o.Kind == t.Kind && o.who == t.who && o.Kind != string(explain.Work) && o.Times == 1 && t.Times == 1 && near(o.From, t.From) && near(o.To, t.To)
	})
	if i < 0 {
		return append(list, t)
	}
	o := &list[i]
	o.Keys = append(o.Keys, t.Keys...)
	o.From, o.To = earliest(o.From, t.From), latest(o.To, t.To)
	o.Lasted = o.To.Sub(o.From)
	o.call(names)
	return list
}

// call says what the tale is, with the names of its devices.
func (t *Tale) call(names func(store.Key) string) {
	slices.SortFunc(t.Keys, func(a, b store.Key) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID)) })
	called := make([]string, len(t.Keys))
	for i, k := range t.Keys {
		called[i] = names(k)
	}
	t.What = what(t.Kind, t.who, t.others, Together(called), t.utilization)
	if len(t.Keys) > 1 && t.Kind != string(explain.Work) {
		t.What = strings.Replace(t.What, " was ", " were ", 1)
	}
}

// newTale puts chapters together that are in the order of time.
func newTale(chapters []*Chapter, names func(store.Key) string) Tale {
	first := chapters[0]
	t := Tale{Kind: first.Kind, From: first.From, To: first.To, Times: 1, who: first.Who}
	begun := first.From
	var worked, seconds float64
	for _, c := range chapters {
		if c.From.Sub(t.To) > pause {
			t.Lasted += t.To.Sub(begun)
			t.Times++
			begun = c.From
		}
		t.To = latest(t.To, c.To)
		t.others = max(t.others, c.Others)
		if !slices.Contains(t.Keys, c.Key) {
			t.Keys = append(t.Keys, c.Key)
		}
		if u, known := c.Utilization.Get(); known {
			length := max(c.To.Sub(c.From).Seconds(), 1)
			worked, seconds = worked+float64(u)*length, seconds+length
		}
	}
	t.Lasted += t.To.Sub(begun)
	if seconds > 0 {
		t.utilization = gpu.Of(gpu.Percent(worked / seconds))
	}
	t.call(names)
	return t
}

// sentence is the tale with when it was so, without its full stop.
func (s *Story) sentence(t *Tale) string {
	if t.Times == 1 {
		return s.when(t.From, t.To, t.What) + t.Besides
	}
	text := t.What + ", " + strconv.Itoa(t.Times) + " times"
	if t.Times == 2 {
		text = t.What + ", twice"
	}
	first, last := t.From.Sub(s.From) < time.Minute, s.To.Sub(t.To) < time.Minute
	switch begin, end := s.ends(t.From, t.To); {
	case first && last:
	case first:
		text += " until " + end
	case last:
		text += " since " + begin
	default:
		text += " between " + begin + " and " + end
	}
	return text + ", " + explain.Span(t.Lasted) + " in all"
}

// besides says of which devices a tale is not true all the time; and if there is none, how long all of them cooled after it.
func (s *Story) besides(t *Tale, chapters []*Chapter, names func(store.Key) string) string {
	byDevice := map[store.Key]*Chapter{} // when each began first and ended last
	for _, c := range chapters {
		if byDevice[c.Key] == nil {
			byDevice[c.Key] = &Chapter{From: c.From, To: c.To, Cooled: c.Cooled}
		}
		all := byDevice[c.Key]
		if all.To = latest(all.To, c.To); all.To.Equal(c.To) {
			all.Cooled = c.Cooled
		}
	}
	slack := max(passing, t.To.Sub(t.From)/20) // a job lets go of its devices one after the other
	before := slack
	if s.To.Sub(t.To) < time.Second { // it goes on with the others
		before = passing
	}
	var apart []*Chapter
	var called []string
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for _, k := range t.Keys {
		c := byDevice[k]
		least, most = min(least, c.Cooled), max(most, c.Cooled)
		if c.From.Sub(t.From) > slack || t.To.Sub(c.To) > before {
			apart, called = append(apart, c), append(called, names(k))
		}
	}
	same := func(c *Chapter) bool {
		return c.From.Sub(apart[0].From).Abs() <= passing && c.To.Sub(apart[0].To).Abs() <= passing
	}
	switch {
	case len(apart) > 0 && !slices.ContainsFunc(apart, func(c *Chapter) bool { return !same(c) }):
		return ", " + Together(called) + " only " + s.between(apart[0].From, apart[0].To)
	case len(apart) > len(t.Keys)/2:
		return ", not all of them all the time"
	case len(apart) > 0:
		return ", " + Together(called) + " not all the time"
	case len(t.Keys) == 1:
		return cooling("it", least, most)
	default:
		return cooling("they", least, most)
	}
}

// cooling says how long devices cooled, if all did.
func cooling(who string, least, most time.Duration) string {
	switch {
	case least <= 0:
		return ""
	case explain.Span(least) == explain.Span(most):
		return ", then " + who + " cooled for " + explain.Span(most)
	default:
		return ", then " + who + " cooled for up to " + explain.Span(most)
	}
}

// weight is how much a tale matters: what is broken more than any work.
func (t *Tale) weight() float64 {
	w := t.Lasted.Seconds() * float64(len(t.Keys))
	switch explain.Kind(t.Kind) {
	case explain.Lost, explain.NotAnswering, explain.NeedsAction, explain.FanFailing, explain.FanUnreadable:
		return w + 1e9
	case explain.Work:
		return w * (0.1 + float64(t.utilization.Or(0))/100)
	default:
		return w / 10
	}
}

// Together names several devices at once: "GPUs 0–3 and 7". Names of another form are listed one by one.
func Together(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	var numbers []int
	place := ""
	for i, name := range names {
		number, rest, _ := strings.Cut(strings.TrimPrefix(name, "GPU "), " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			return listed(names, nil)
		}
		if i > 0 && rest != place {
			return groupPlaces(names)
		}
		numbers, place = append(numbers, n), rest
	}
	slices.Sort(numbers)
	var parts []string
	var sizes []int
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		switch end - i {
		case 0:
		case 1:
			end = i
		default:
			part += "–" + strconv.Itoa(numbers[end])
		}
		parts, sizes = append(parts, part), append(sizes, end-i+1)
		i = end + 1
	}
	return strings.TrimSuffix("GPUs "+listed(parts, sizes)+" "+place, " ")
}

// groupPlaces names devices of several nodes, those of each together; of many nodes it counts them.
func groupPlaces(names []string) string {
	byPlace := map[string][]string{}
	var places []string
	for _, name := range names {
		_, place, _ := strings.Cut(strings.TrimPrefix(name, "GPU "), " ")
		if byPlace[place] == nil {
			places = append(places, place)
		}
		byPlace[place] = append(byPlace[place], name)
	}
	if len(places) > fewNames {
		return strconv.Itoa(len(names)) + " GPUs of " + strconv.Itoa(len(places)) + " machines"
	}
	parts := make([]string, len(places))
	for i, place := range places {
		parts[i] = Together(byPlace[place])
	}
	return listed(parts, nil)
}

// fewNames is how many names stand one after another.
const fewNames = 6

// listed joins some names, and says how many more devices there are. Sizes are how many each name is of; nil: one.
func listed(names []string, sizes []int) string {
	if len(names) > fewNames {
		left := len(names) - fewNames
		if sizes != nil {
			left = 0
			for _, n := range sizes[fewNames:] {
				left += n
			}
		}
		names = append(slices.Clone(names[:fewNames]), strconv.Itoa(left)+" more")
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
