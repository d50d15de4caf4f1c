package alert

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// No rule goes by a busy counter that the answer calls stuck, nor takes a fan for failing that turns unasked.
func TestWhatTheAnswerDoesNotBelieve(t *testing.T) {
	for name, tt := range map[string]struct {
		watch Watch
		cause explain.Cause
		fires bool
	}{
		"a counter that is stuck":   {Utilization, explain.Cause{Kind: explain.StuckCounter, Confidence: explain.Medium}, false},
		"a counter that may be":     {Utilization, explain.Cause{Kind: explain.StuckCounter, Confidence: explain.Low}, true},
		"work":                      {Utilization, explain.Cause{Kind: explain.Work, Confidence: explain.High}, true},
		"a fan that turns unasked":  {FanFailing, explain.Cause{Kind: explain.FanFailing, Case: "unasked", Confidence: explain.Medium}, false},
		"a fan that stands still":   {FanFailing, explain.Cause{Kind: explain.FanFailing, Case: "still", Confidence: explain.High}, true},
		"a fan that is slower":      {FanFailing, explain.Cause{Kind: explain.FanFailing, Case: "slow", Confidence: explain.Medium}, true},
		"a fan that is set by hand": {FanFailing, explain.Cause{Kind: explain.FanByHand, Case: "least", Confidence: explain.High}, false},
	} {
		e, fired := New([]Rule{Default("rule", tt.watch)}), false
		for second := 0; second <= 120; second += 5 {
			d := healthy()
			d.Utilization.GPU = gpu.Of(gpu.Percent(100))
			s := snapshotOf(second, d)
			tt.cause.Since = start
			answer := explain.Answer{Devices: []explain.DeviceAnswer{{Device: &s.Devices[0], Causes: []explain.Cause{tt.cause}}}}
			fired = len(turns(e.Observe(&insight.Moment{Snapshot: s, Answer: answer}))) > 0 || fired
		}
		if fired != tt.fires {
			t.Errorf("%s: an alert %v, want %v", name, fired, tt.fires)
		}
	}
}
