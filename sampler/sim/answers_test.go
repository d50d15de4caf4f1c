//go:build !race

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// In the first ten minutes, from the second reading on, gpuwhy's answer about each simulated device is what the simulator plays, whenever
// one starts to watch.
func TestAnswersNameTheJob(t *testing.T) {
	for _, profile := range []string{"rtx-4090", "dgx-h100", "fleet:64"} {
		for begin := time.Duration(0); begin < cycle; begin += 7*time.Minute + 20*time.Second {
			t.Run(fmt.Sprint(profile, " from ", begin), func(t *testing.T) {
				nodes, c := newNodes(t, profile)
				for _, s := range nodes {
					c.t = start.Add(begin)
					checkAnswers(t, s, c)
				}
			})
		}
	}
}

// A reading is what a device did at one look.
type reading struct{ works, shown bool }

func checkAnswers(t *testing.T, s *Source, c *clock) {
	stage := insight.NewStage()
	past := make([][]reading, len(s.devices))
	for i := range 121 {
		snap := read(t, s)
		for k := range snap.Devices {
			snap.Devices[k].Index = k
		}
		answer := &stage.Next(snap).Answer
		for k, d := range s.devices {
			m := d.moment(c.t)
			l, sample := m.tape.job.loadAt(int(m.second)-1, 0), m.tape.sampleAt(m.second)
			works := l.held && l.gpu+l.enc > 30
			past[k] = append(past[k], reading{works, works && sample.gpu+sample.enc > 5})
			if f, _ := d.fault(&m); f != nil {
				past[k] = nil
			}
			if wrong := d.contradicts(&answer.Devices[k], &m, past[k]); wrong != "" && i > 0 {
				t.Errorf("%s, GPU %d, second %d: %s: %s", s.Node(), k, i*5, wrong, answer.Devices[k].Sentence)
			}
		}
		c.t = c.t.Add(5 * time.Second)
	}
}

// contradicts says what is wrong with an answer; empty if it is right.
func (d *device) contradicts(a *explain.DeviceAnswer, m *moment, past []reading) string {
	if len(past) == 0 {
		f, _ := d.fault(m)
		return wanted(a, explain.Kind(f.State))
	}
	var program string
	for _, p := range m.tape.job.Processes {
		if p.runsAt(m.second) && p.Type != gpu.TypeGraphics && p.Share > 0 {
			program = cmp.Or(program, p.Facts.Program.Or(""))
		}
	}
	// A change needs three readings, or all of them if there were fewer.
	last := func(n int) []reading { return past[max(len(past)-n, 0):] }
	none := func(list []reading, is func(reading) bool) bool { return !slices.ContainsFunc(list, is) }
	missed := 0
	for _, r := range last(7) {
		if !r.shown {
			missed++
		}
	}
	rests := func(r reading) bool { return !r.works }
	pause := 5
	if slices.ContainsFunc(a.Causes, func(c explain.Cause) bool { return c.Case == "bursts" }) {
		pause = 7 // another burst may follow a pause as long as earlier ones
	}
	switch {
	case none(last(3), func(r reading) bool { return !r.shown }),
		len(past) > 7 && none(last(7), rests) && missed < 2 && past[len(past)-8].works: // a reading that does not count it has no effect
		if !strings.Contains(a.Sentence, program) {
			return "does not name " + program
		}
		return wanted(a, explain.Work)
	case len(past) > 4 && program != "" && rests(past[len(past)-1]) && none(past[len(past)-4:len(past)-1], func(r reading) bool { return !r.shown }):
		if !strings.Contains(a.Sentence, program) {
			return "does not name " + program + " in a pause"
		}
	case none(last(pause), func(r reading) bool { return r.works }) && d.instances == nil:
		if wrong := wanted(a, explain.CoolingDown, explain.HeldAwake, explain.FanAtRest, explain.Idle); wrong != "" {
			return wrong
		}
		if wanted(a, explain.Work) == "" {
			return "is work"
		}
	}
	return ""
}

func wanted(a *explain.DeviceAnswer, kinds ...explain.Kind) string {
	if slices.ContainsFunc(a.Causes, func(c explain.Cause) bool { return slices.Contains(kinds, c.Kind) }) {
		return ""
	}
	return fmt.Sprint("is none of ", kinds)
}
