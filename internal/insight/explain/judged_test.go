package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// told returns the cause of a kind in the answer to the last of some readings, a second apart; its confidence is 0 if there is none.
func told(kind explain.Kind, seconds int, change func(second int, d *gpu.Device)) explain.Cause {
	began, history := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), explain.NewHistory()
	var out explain.Cause
	for s := range seconds {
		d := gpu.Device{State: gpu.StateOK, SampledAt: began.Add(time.Duration(s) * time.Second)}
		d.UUID, d.Vendor = "GPU-1", gpu.AMD
		change(s, &d)
		out = explain.Cause{}
		answer := history.Add(&gpu.Snapshot{Time: d.SampledAt, Devices: []gpu.Device{d}})
		for _, c := range answer.Devices[0].Causes {
			if c.Kind == kind && out.Confidence == 0 {
				out = c
			}
		}
	}
	return out
}

// If no reading could confirm a reason of throttling, it rests on the driver's word, and is a guess.
func TestTheDriversWordAlone(t *testing.T) {
	for reason, kind := range map[gpu.ClockEventReasons]explain.Kind{gpu.ReasonThermalSlowdown: explain.LimitedByHeat, gpu.ReasonPowerCap: explain.LimitedPower} {
		flagged := func(temp gpu.Reading[gpu.Celsius]) explain.Cause {
			return told(kind, 20, func(_ int, d *gpu.Device) {
				d.Utilization.GPU, d.Clocks.EventReasons, d.Thermal.GPU = gpu.Of[gpu.Percent](97), gpu.Of(reason), temp
			})
		}
		if got := flagged(gpu.Reading[gpu.Celsius]{}); got.Confidence != explain.Low {
			t.Errorf("%s by its word alone is %v sure", kind, got.Confidence)
		}
		if got := flagged(gpu.Of[gpu.Celsius](88)); got.Confidence != explain.High {
			t.Errorf("%s at 88 °C is %v sure", kind, got.Confidence)
		}
	}
	doubted := told(explain.LimitedByHeat, 20, func(_ int, d *gpu.Device) {
		d.Utilization.GPU, d.Clocks.EventReasons = gpu.Of[gpu.Percent](97), gpu.DoubtfulOf(gpu.ReasonThermalSlowdown)
	})
	if doubted.Confidence != 0 {
		t.Errorf("a doubtful reason: %s", doubted.Sentence)
	}
}

// A tachometer's doubtful 0 counts for a fan that has turned before, on a hot card, but not for one that nobody has seen turn, nor on a
// cool card.
func TestADoubtful0OfAFan(t *testing.T) {
	for name, tt := range map[string]struct {
		turned int // seconds
		temp   gpu.Celsius
		fails  bool
	}{
		"has turned, and is hot":    {70, 78, true},
		"has turned, and is cool":   {70, 41, false},
		"was never seen to turn":    {0, 78, false},
		"was seen for a short time": {20, 78, false},
	} {
		got := told(explain.FanFailing, 100, func(s int, d *gpu.Device) {
			d.Utilization.GPU, d.Thermal.GPU = gpu.Of[gpu.Percent](97), gpu.Of(tt.temp)
			d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](50), RPM: gpu.DoubtfulOf[gpu.RPM](0)}}
			if s < tt.turned {
				d.Fans.Fans[0].RPM = gpu.Of[gpu.RPM](1700)
			}
		})
		if (got.Confidence > 0) != tt.fails {
			t.Errorf("a fan that %s: %v", name, got.Sentence)
		}
	}
}

// A fan at 0 % that keeps its lowest speed does not fail, whoever has set it; a fast one does what nobody commands.
func TestAFanThatDoesNotStop(t *testing.T) {
	fan := func(rpm gpu.RPM, policy string) func(int, *gpu.Device) {
		return func(_ int, d *gpu.Device) {
			d.Utilization.GPU, d.Thermal.GPU = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Celsius](48)
			d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](0), RPM: gpu.Of(rpm), Policy: gpu.Of(policy)}}
		}
	}
	for name, tt := range map[string]struct {
		rpm    gpu.RPM
		policy string
		kind   explain.Kind
		what   string
	}{
		"set by hand":              {1062, "manual", explain.FanByHand, "least"},
		"a small fan, set by hand": {2100, "manual", explain.FanByHand, "least"},
		"by itself":                {980, "automatic", explain.FanFailing, ""},
		"fast, by itself":          {3310, "automatic", explain.FanFailing, "unasked"},
	} {
		if got := told(tt.kind, 90, fan(tt.rpm, tt.policy)); got.Case != tt.what {
			t.Errorf("%s: %q, want %q", name, got.Case, tt.what)
		}
		if got := told(explain.FanFailing, 90, fan(tt.rpm, tt.policy)); tt.policy == "manual" && got.Confidence > 0 {
			t.Errorf("%s: %s", name, got.Sentence)
		}
	}
}

// If all of a fan's tachometers read 0, it is not said to turn, whatever its command.
func TestAFanThatNobodyCountsAtRest(t *testing.T) {
	rests := func(rpm gpu.Reading[gpu.RPM]) explain.Cause {
		return told(explain.FanAtRest, 90, func(_ int, d *gpu.Device) {
			d.Utilization.GPU, d.Thermal.GPU, d.Power.Draw = gpu.Of[gpu.Percent](0), gpu.Of[gpu.Celsius](35), gpu.Of[gpu.Watts](12)
			d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](30), RPM: rpm}}
		})
	}
	if got := rests(gpu.DoubtfulOf[gpu.RPM](0)); got.Confidence > 0 {
		t.Error(got.Sentence)
	}
	if got := rests(gpu.Of[gpu.RPM](1050)); got.Confidence == 0 {
		t.Error("a fan that turns at rest is not told")
	}
}

// Impossible and probably wrong readings are described as such.
func TestHowWrongAReadingIs(t *testing.T) {
	said := func(temp gpu.Reading[gpu.Celsius], draw gpu.Reading[gpu.Watts]) string {
		got := told(explain.Doubtful, 20, func(_ int, d *gpu.Device) { d.Thermal.GPU, d.Power.Draw = temp, draw })
		return got.Sentence + " " + got.Confidence.String()
	}
	impossible, doubtful := gpu.Absent[gpu.Celsius](gpu.Implausible), gpu.DoubtfulOf[gpu.Watts](2000)
	for _, tt := range []struct{ got, want string }{
		{said(impossible, gpu.Of[gpu.Watts](20)), "reports impossible values, ignored here: temperature (an impossible value). high"},
		{said(gpu.Of[gpu.Celsius](40), doubtful), "reports values that are probably wrong, and no cause here relies on them: power draw (2000 W). medium"},
		{said(impossible, doubtful), "ignored here: temperature (an impossible value); and values that are probably wrong: power draw (2000 W). high"},
	} {
		if !strings.HasSuffix(tt.got, tt.want) {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
