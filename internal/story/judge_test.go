//go:build !race

package story

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// meanings are what the words of stories mean: kinds of causes, or a kind and its case.
var meanings = map[string][]string{
	"quiet":           {"idle/idle", "idle/cool"},
	"work":            {"work/processes", "work/guessed", "work/bursts", "work/comes back"},
	"hidden work":     {"work/nobody", "work/unseen", "work/hidden"},
	"bursts":          {"work/bursts", "work/comes back"},
	"cooling":         {"cooling_down/after", "cooling_down/begins"},
	"warm before":     {"cooling_down/before", "idle/still warm"},
	"awake":           {"held_awake"},
	"fan by hand":     {"fan_set_by_hand"},
	"fan broken":      {"fan_failing"},
	"fan floor":       {"fan_at_rest/floor"},
	"fan held":        {"fan_at_rest/held", "fan_at_rest/late", "fan_at_rest/on and off"},
	"fan unexplained": {"fan_at_rest/unexplained", "fan_at_rest/memory", "fan_at_rest/hot spot"},
	"other fan":       {"other_fan"},
	"no fan":          {"chassis_fans"},
	"heat limit":      {"limited_by_heat"},
	"power limit":     {"limited_by_power"},
	"hot":             {"hot_for_its_power"},
	"room":            {"warm_air"},
	"stuck counter":   {"busy_counter_stuck", "work/unproven"},
	"frozen":          {"frozen_sensor"},
	"lost":            {"lost"},
	"hangs":           {"not_answering"},
	"asleep":          {"asleep"},
	"no readings":     {"no_readings", "not_answering"},
	"no driver":       {"no_gpu", "source_failed"},
	"unexplained":     {"unexplained", "idle/stays warm", "idle/unknown"},
	"cpu work":        {"cpu_work/process"},
	"cpu crowd":       {"cpu_work/many"},
	"cpu hidden":      {"cpu_work/nobody"},
	"cpu cooling":     {"cpu_cooling_down"},
	"cpu heat":        {"cpu_limited_by_heat"},
	"hot part":        {"hot_sensor"},
	"fan for nothing": {"machine_fan/nothing", "machine_fan/hot", "machine_fan/untold"},
	"fan stands":      {"machine_fan/still"},
	"no fan shown":    {"no_fan_shown"},
	"machine rests":   {"machine_at_rest"},
	"can't tell yet":  {"idle/can't tell yet", "idle/too early", "idle/first"},
}

func means(word string, c *explain.Cause) bool {
	return slices.ContainsFunc(meanings[word], func(m string) bool {
		kind, what, both := strings.Cut(m, "/")
		return kind == string(c.Kind) && (!both || what == c.Case)
	})
}

// A verdict is whether what was said at a mark is right.
type verdict struct {
	wrong           []string // empty: right
	kind, certainty string   // of the first cause
	said            string
}

func newVerdict(sentence string, first *explain.Cause) verdict {
	return verdict{
		kind: string(first.Kind), certainty: first.Confidence.String(),
		said: fmt.Sprintf("[%s/%s %v] %s", first.Kind, first.Case, first.Confidence, sentence),
	}
}

// lead is what a machine's answer, or that of one device, says first.
func lead(m *insight.Moment, gpu *int) (sentence string, causes []explain.Cause) {
	if gpu != nil {
		a := &m.Answer.Devices[*gpu]
		return a.Sentence, a.Causes
	}
	for _, c := range m.Answer.Main() {
		leads := c.Kind == explain.WarmAir || c.Kind == explain.OtherFan && c.Headline != "" || c.Kind == explain.SourceFailed
		if c.Device != nil || len(m.Answer.Devices) == 0 || leads {
			causes = append(causes, c)
		}
	}
	return m.Answer.Sentence, causes
}

func judge(e *Expectation, host *machine, elapsed time.Duration, m *insight.Moment) (v verdict) {
	sentence, causes := lead(m, e.GPU)
	if len(causes) == 0 {
		return verdict{wrong: []string{"it names no cause"}}
	}
	first := &causes[0]
	v = newVerdict(sentence, first)
	miss := func(format string, args ...any) { v.wrong = append(v.wrong, fmt.Sprintf(format, args...)) }
	if len(e.First) > 0 && !slices.ContainsFunc(e.First, func(w string) bool { return means(w, first) }) {
		miss("the first cause is not %s", strings.Join(e.First, " or "))
	}
	contains := func(in, text string) bool { return strings.Contains(strings.ToLower(in), strings.ToLower(text)) }
	says := func(text string) bool { return contains(sentence, text) }
	for _, text := range slices.Concat(e.Who, e.Says) {
		if !says(text) {
			miss("it does not say %q", text)
		}
	}
	short := m.Answer.Layers
	if e.GPU != nil {
		short = m.Answer.Devices[*e.GPU].Layers
	}
	for _, text := range e.Shown {
		if !contains(short.Headline+"\n"+short.Rest, text) {
			miss("neither the headline %q nor the line %q says %q", short.Headline, short.Rest, text)
		}
	}
	inHeadline := func(text string) bool { return contains(short.Headline, text) }
	if first.Kind == explain.Work && len(e.Who) > 0 && !slices.ContainsFunc(e.Who, inHeadline) {
		miss("the headline %q says none of %q", short.Headline, []string(e.Who))
	}
	if len(e.WhoAny) > 0 && !slices.ContainsFunc(e.WhoAny, says) {
		miss("it says none of %q", []string(e.WhoAny))
	}
	if e.Left != nil {
		left, told := timeLeft(sentence)
		switch {
		case e.Left.none && told:
			miss("it gives a time left")
		case !e.Left.none && !told:
			miss("it gives no time left")
		case !e.Left.none && (left < e.Left.From || left > e.Left.To):
			miss("the time left is not %v", left)
		}
	}
	for _, text := range e.Not {
		if contains(sentence, text) || contains(strings.Join([]string{short.Headline, short.Rest, short.Action.Command}, "\n"), text) {
			miss("it must not say %q", text)
		}
	}
	if e.Since != nil {
		if since := host.clock.back(first.Since).Sub(host.epoch); first.Since.IsZero() {
			if e.Since.Duration > host.story.watchedSince(elapsed) { // of what was so at the first reading nobody knows
				miss("it does not say since when")
			}
		} else if (since - e.Since.Duration).Abs() > 10*time.Second {
			miss("it says since %v, but it is since %v", since, e.Since.Duration)
		}
	}
	sure := first.Confidence.String()
	if not, is := strings.CutPrefix(e.Sure, "not "); is && sure == not || !is && e.Sure != "" && sure != e.Sure {
		miss("its certainty is %s", sure)
	}
	return v
}

// watchedSince is when the program that answers at a time had its first reading.
func (s *Story) watchedSince(elapsed time.Duration) time.Duration {
	since := -s.Before.Duration
	for i := range s.Scenes {
		if s.Scenes[i].Gpuwhy != "" && s.sceneStart[i] <= elapsed {
			since = s.sceneStart[i]
		}
	}
	return since
}

var quietIn = regexp.MustCompile(`quiet in about (\d+) (s|min|h)`)

// timeLeft is the time until it is quiet that a sentence tells.
func timeLeft(sentence string) (time.Duration, bool) {
	m := quietIn.FindStringSubmatch(sentence)
	if m == nil {
		return 0, false
	}
	return time.Duration(num(m[1])) * map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour}[m[2]], true
}

// always judges what no reading of a story may say.
func always(s *Story, m *insight.Moment) (v verdict) {
	sentence, causes := lead(m, nil)
	if len(causes) == 0 {
		return v
	}
	first := &causes[0]
	v = newVerdict(sentence, first)
	for _, w := range s.Never {
		hangs := first.Kind == explain.Kind(gpu.StateNotAnswering) // which only its own word forbids
		if means(w, first) && (!hangs || w != "no readings") {
			v.wrong = append(v.wrong, "the first cause must never be "+w)
		}
	}
	for _, text := range s.NeverSays {
		if strings.Contains(strings.ToLower(sentence), strings.ToLower(text)) {
			v.wrong = append(v.wrong, fmt.Sprintf("it must never say %q", text))
		}
	}
	return v
}
