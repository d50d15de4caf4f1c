package alert

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Nobody saw begin what was so at the first reading, or at the first after a break or a time
// without readings.
func TestWhatWasSoBefore(t *testing.T) {
	const rose, been = "; 10 s ago it rose above 50 %.", "; it has been above 50 % for at least 10 s."
	type look struct {
		second, breaks int
		util           float64
	}
	for name, tt := range map[string]struct {
		looks []look
		want  string
	}{
		"it rises":             {[]look{{0, 0, 3}, {5, 0, 99}, {15, 0, 99}}, rose},
		"the first reading":    {[]look{{5, 0, 99}, {15, 0, 99}}, been},
		"after a break":        {[]look{{0, 0, 3}, {5, 1, 99}, {15, 1, 99}}, been},
		"rises after a break":  {[]look{{0, 0, 3}, {2, 1, 3}, {5, 1, 99}, {15, 1, 99}}, rose},
		"it was not reported":  {[]look{{0, 0, 3}, {2, 0, absent}, {5, 0, 99}, {15, 0, 99}}, been},
		"it was missing":       {[]look{{0, 0, 3}, {2, 0, missing}, {5, 0, 99}, {15, 0, 99}}, been},
		"once more, seen":      {[]look{{0, 0, 99}, {2, 0, 3}, {5, 0, 99}, {15, 0, 99}}, rose},
		"after another alert":  {[]look{{-60, 0, 99}, {-40, 0, 99}, {-30, 0, 3}, {0, 0, 3}, {5, 0, 99}, {15, 0, 99}}, rose},
		"between alerts a gap": {[]look{{-60, 0, 99}, {-40, 0, 99}, {-30, 0, 3}, {0, 0, 3}, {1, 0, absent}, {5, 0, 99}, {15, 0, 99}}, been},
	} {
		t.Run(name, func(t *testing.T) {
			e := New([]Rule{usage()})
			for _, l := range tt.looks {
				s := snapshotAt(l.second, l.util)
				s.Breaks = l.breaks
				e.Observe(&insight.Moment{Snapshot: s})
			}
			all := e.Standing()
			if want := "GPU 0 (Card) is 99 % busy" + tt.want; len(all) != 1 || all[0].Message != want {
				t.Fatalf("standing is %+v, want %q", all, want)
			}
			if want := start.Add(5 * time.Second); !all[0].Since.Equal(want) || all[0].Before != (tt.want == been) {
				t.Errorf("since %s, before %v, want %s", all[0].Since, all[0].Before, want)
			}
			again := New([]Rule{usage()})
			restore(t, again, keptOf(t, e), start.Add(20*time.Second))
			again.Observe(&insight.Moment{Snapshot: snapshotAt(25, 99)})
			if got, want := again.Standing()[0].Message, strings.ReplaceAll("GPU 0 (Card) is 99 % busy"+tt.want, "10 s", "20 s"); got != want {
				t.Errorf("after a restart %q, want %q", got, want)
			}
		})
	}
}

// Each threshold has words for what was so before.
func TestWordsForWhatWasSoBefore(t *testing.T) {
	for name, w := range watches {
		level := !w.Condition && !w.Counter
		if words := &w.words; level != (words.now != nil) || level != (words.line.side != nil) || (words.subject != "") != (words.line.moves != "") ||
			w.Counter != (words.one != "" && words.many != "") || w.Condition != (words.is != "") {
			t.Errorf("%s has not the words of what it is: %+v", name, *words)
		}
	}
	say := func(w Watch, threshold float64, s State, lasts time.Duration) string {
		rule := Default("rule", w)
		rule.Threshold = threshold
		a := Alert{Watch: w, State: s, Device: healthy().Identity, Since: start, Before: true, Time: start.Add(lasts)}
		text := telling{Alert: &a, rule: &rule, watch: watches[w], value: -7, beyond: true}
		return text.first()
	}
	for want, got := range map[string]string{
		"fan speed has been above 90 % for at least 30 s":         say(Fan, 90, Firing, 30*time.Second),
		"it has been within 5 °C of it for at least 12 min":       say(TemperatureMargin, 5, Firing, 12*time.Minute),
		"it has been more than 5 °C above it for at least 30 s":   say(TemperatureMargin, -5, Firing, 30*time.Second),
		"it has been above it for at least 30 s":                  say(TemperatureMargin, 0, Firing, 30*time.Second),
		"this has been the case for at least 30 s":                say(Lost, 0, Firing, 30*time.Second),
		"this was the case at the first reading, just now":        say(Lost, 0, Firing, 0),
		"fan speed was above 90 % at the first reading, 30 s ago": say(Fan, 90, NoData, 30*time.Second),
		"this was the case at the first reading, 30 s ago":        say(FanFailing, 0, NoData, 30*time.Second),
	} {
		if got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// A fan that fails is a cause after ten seconds. The alert begins when the fan did, and its hold
// counts from there.
func TestAFanFailsSince(t *testing.T) {
	for name, tt := range map[string]struct {
		good  int // second until which the fan turns
		since int
		fires int
		says  string
	}{
		"it stops":                 {60, 60, 90, "; this began 30 s ago."},
		"it has always been still": {0, 0, 30, "; this has been the case for at least 30 s."},
	} {
		t.Run(name, func(t *testing.T) {
			e, history := New([]Rule{Default("fan_failing", FanFailing)}), explain.NewHistory()
			for second := 0; second <= tt.fires; second += 5 {
				d := healthy()
				d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(80)), RPM: gpu.Of(gpu.RPM(1500))}}
				if second >= tt.good {
					d.Fans.Fans[0].RPM = gpu.Of(gpu.RPM(0))
				}
				s := snapshotOf(second, d)
				changes := e.Observe(&insight.Moment{Snapshot: s, Answer: history.Add(s)})
				if second < tt.fires {
					if len(changes) > 0 {
						t.Fatalf("at %d s: %+v", second, changes)
					}
					continue
				}
				if want := start.Add(time.Duration(tt.since) * time.Second); len(changes) != 1 || !changes[0].Since.Equal(want) || !strings.HasSuffix(changes[0].Message, tt.says) {
					t.Fatalf("said %+v, want since %s, %q", changes, want, tt.says)
				}
			}
		})
	}
}

// After an alert and after a break a cause is not older than that.
func TestACauseOfAnEarlierAlert(t *testing.T) {
	rule := Default("fan_failing", FanFailing)
	rule.Hold, rule.Clear, rule.Cooldown = 0, 0, 0
	e := New([]Rule{rule})
	see := func(second, breaks int, fails bool) []Change {
		d := healthy()
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of(gpu.Percent(80)), RPM: gpu.Of(gpu.RPM(1500))}}
		s := snapshotOf(second, d)
		s.Breaks = breaks
		answer := explain.Answer{Devices: []explain.DeviceAnswer{{Device: &s.Devices[0]}}}
		if fails {
			answer.Devices[0].Causes = []explain.Cause{{Kind: explain.FanFailing, Since: start}}
		}
		return e.Observe(&insight.Moment{Snapshot: s, Answer: answer})
	}
	ids := map[string]bool{}
	for i, tt := range []struct {
		second, breaks int
		fails          bool
		since          int // of what fires
	}{{10, 0, true, 0}, {20, 0, false, -1}, {30, 0, true, 20}, {40, 0, false, -1}, {50, 1, true, 50}} {
		changes := turns(see(tt.second, tt.breaks, tt.fails))
		if len(changes) != 1 {
			t.Fatalf("%d: %+v", i, changes)
		}
		if c := changes[0]; tt.since >= 0 && (!c.Since.Equal(start.Add(time.Duration(tt.since)*time.Second)) || ids[c.ID]) {
			t.Errorf("%d: since %s, want %d s; %s", i, c.Since, tt.since, c.ID)
		}
		ids[changes[0].ID] = true
	}
}

// The clear time is not of an alert's: it ends when it was so no more.
func TestHowLongItLasted(t *testing.T) {
	e := New([]Rule{usage()})
	play(e, []step{{5, 99}, {65, 3}}, 100)
	past := e.Past()
	if len(past) != 1 || past[0].Lasted() != time.Minute || !past[0].Ended.Equal(start.Add(65*time.Second)) || !past[0].Time.Equal(start.Add(80*time.Second)) ||
		!strings.HasSuffix(past[0].Message, "The alert is over after 60 s.") {
		t.Fatalf("past is %+v", past)
	}
	again := New([]Rule{usage()})
	restore(t, again, keptOf(t, e), start.Add(40*time.Second)) // the clock was ahead by 40 s
	if got := again.Past()[0]; got.Lasted() != time.Minute || !got.Time.Equal(start.Add(40*time.Second)) {
		t.Errorf("restored: %+v", got)
	}
	s := snapshotAt(200, 3)
	s.Breaks, s.ClockSet = 1, time.Hour
	e.Observe(&insight.Moment{Snapshot: s})
	if got := e.Past()[0]; got.Lasted() != time.Minute || !got.Ended.Equal(start.Add(time.Hour+65*time.Second)) {
		t.Errorf("after the clock was set: %+v", got)
	}
	e = New([]Rule{usage()})
	play(e, []step{{0, 99}, {30, 3}}, 40)
	e.SetRules(nil, start.Add(time.Hour))
	if got := e.Past()[0]; !got.Ended.Equal(start.Add(30 * time.Second)) {
		t.Errorf("the rule is gone: %+v", got)
	}
}

// A clock that is set while something lasts changes nothing about how long it lasts, and the answer tells the same time.
func TestTheClockIsSetMeanwhile(t *testing.T) {
	for _, set := range []time.Duration{time.Hour, -3 * time.Hour, 25 * time.Second} {
		for _, when := range []int{10, 65} { // before the alert fires, and after
			e, history := New([]Rule{usage()}), explain.NewHistory()
			var answer explain.Answer
			for second := 0; second <= 130; second += 5 {
				util := gpu.Percent(2)
				if second >= 5 {
					util = 99
				}
				d := healthy()
				d.Utilization.GPU, d.Power.Draw, d.Power.EnforcedLimit = gpu.Of(util), gpu.Of[gpu.Watts](250), gpu.Of[gpu.Watts](300)
				s := snapshotOf(second, d)
				if second > when {
					s.Breaks, s.ClockSet, s.Time = 1, set, s.Time.Add(set)
					s.Devices[0].SampledAt = s.Time
				}
				answer = history.Add(s)
				e.Observe(&insight.Moment{Snapshot: s, Answer: answer})
			}
			all := e.Standing()
			if want := "; 2 min ago it rose above 50 %."; len(all) != 1 || !strings.HasSuffix(all[0].Message, want) {
				t.Errorf("set by %v after %d s, standing is %+v, want %q", set, when, all, want)
			}
			if !strings.Contains(answer.Sentence, "for 2 min") {
				t.Errorf("set by %v after %d s, the answer is %q", set, when, answer.Sentence)
			}
		}
	}
}

// After a pause the alert is another one, and the answer tells the same time of it.
func TestAPauseOfBoth(t *testing.T) {
	for _, tt := range []struct {
		pause         int // seconds
		alert, answer string
	}{
		{10, "4 min ago it rose above 50 %", "for 4 min"},
		{20, "90 s ago it rose above 50 %", "again for 90 s, 3 min in all"},
	} {
		e, history := New([]Rule{usage()}), explain.NewHistory()
		var answer explain.Answer
		const begins, ends = 5, 155
		for second := 0; second <= ends+tt.pause+90; second += 5 {
			util := gpu.Percent(99)
			if second < begins || second >= ends && second < ends+tt.pause {
				util = 0
			}
			d := healthy()
			d.Utilization.GPU, d.Power.Draw, d.Power.EnforcedLimit = gpu.Of(util), gpu.Of[gpu.Watts](250), gpu.Of[gpu.Watts](300)
			s := snapshotOf(second, d)
			answer = history.Add(s)
			e.Observe(&insight.Moment{Snapshot: s, Answer: answer})
		}
		all := e.Standing()
		if len(all) != 1 || !strings.Contains(all[0].Message, tt.alert) || !strings.Contains(answer.Sentence, tt.answer) {
			t.Errorf("a pause of %d s: %+v, %q", tt.pause, all, answer.Sentence)
		}
	}
}
