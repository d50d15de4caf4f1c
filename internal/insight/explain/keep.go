package explain

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/keep"
)

// Kept is what is kept over a restart: what was learned of each device, and not
// what was going on.
type Kept struct {
	Devices []keptDevice `json:"devices"`
}

// A keptDevice is what was learned of one device.
type keptDevice struct {
	keep.Learned
	Rest      *keptRest      `json:"rest,omitempty"`
	Curve     *keptCurve     `json:"curve,omitempty"`
	Cooldowns []keptCooldown `json:"cooldowns,omitempty"`
	Fans      []keptFan      `json:"fans,omitempty"`
}

// A keptRest is a rest; what is not known is left out.
type keptRest struct {
	Celsius *float64 `json:"celsius,omitempty"`
	Fan     *float64 `json:"fan_percent,omitempty"`
	State   *float64 `json:"performance_state,omitempty"`
}

type keptCurve struct {
	Step    float64   `json:"step_watts"`
	Celsius []float64 `json:"celsius"`
	Seconds []float64 `json:"seconds"` // that went into each
}

type keptCooldown struct {
	From    float64 `json:"from_celsius"`
	Seconds float64 `json:"seconds"`
}

type keptFan struct {
	PerPercent float64 `json:"rpm_per_percent"`
	Seconds    float64 `json:"seconds"` // that went into it
}

// Kept returns what was learned.
func (h *History) Kept() Kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := slices.Collect(maps.Values(h.absent))
	for k, r := range h.devices {
		all = append(all, r.keep(k))
	}
	return Kept{keep.Newest(all)}
}

// Restore takes what was learned in an earlier run, before the first Add.
func (h *History) Restore(kept Kept, now time.Time) error {
	fresh, err := keep.Fresh(kept.Devices, now, (*keptDevice).plausible)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range fresh {
		h.absent[d.Device] = d
	}
	return err
}

func (r *remembered) keep(k keep.Device) keptDevice {
	out := keptDevice{Learned: keep.Learned{Device: k, Seen: r.seen}}
	if r.rest.known {
		out.Rest = &keptRest{optional(r.rest.temp), optional(r.rest.fan), optional(r.rest.state)}
	}
	if r.curve.step > 0 {
		out.Curve = &keptCurve{r.curve.step, slices.Clone(r.curve.mean[:]), slices.Clone(r.curve.held[:])}
	}
	for _, c := range r.cooling.learned {
		if c.took > 0 && has(c.from) {
			out.Cooldowns = append(out.Cooldowns, keptCooldown{c.from, c.took.Seconds()})
		}
	}
	for _, f := range r.fans {
		out.Fans = append(out.Fans, keptFan{f.perPercent, f.learned})
	}
	for len(out.Fans) > 0 && out.Fans[len(out.Fans)-1].Seconds == 0 {
		out.Fans = out.Fans[:len(out.Fans)-1]
	}
	return out
}

// memory is that of a device of which this was learned, and nothing was read
// yet.
func (d *keptDevice) memory() memory {
	var m memory
	if d.Rest != nil {
		m.rest = rest{true, value(d.Rest.Celsius), value(d.Rest.Fan), value(d.Rest.State)}
	}
	if d.Curve != nil {
		m.curve.step = d.Curve.Step
		copy(m.curve.mean[:], d.Curve.Celsius)
		copy(m.curve.held[:], d.Curve.Seconds)
	}
	for i, c := range d.Cooldowns {
		m.cooling.learned[maxCooldowns-len(d.Cooldowns)+i] = cooldown{c.From, time.Duration(c.Seconds * float64(time.Second))}
	}
	for i, f := range d.Fans {
		m.fans[i].perPercent, m.fans[i].learned = f.PerPercent, f.Seconds
	}
	return m
}

// plausible reports whether it is what this program could have kept.
func (d *keptDevice) plausible() bool {
	if len(d.Cooldowns) > maxCooldowns || len(d.Fans) > maxFans {
		return false
	}
	if r := d.Rest; r != nil && !(within(value(r.Celsius), coldest, hottest) && within(value(r.Fan), 0, mostPercent) && within(value(r.State), 0, mostState)) {
		return false
	}
	if c := d.Curve; c != nil {
		if !(c.Step > 0 && c.Step <= mostWatts) || len(c.Celsius) != curveSteps || len(c.Seconds) != curveSteps {
			return false
		}
		for i := range curveSteps {
			if !within(c.Celsius[i], coldest, hottest) || !within(c.Seconds[i], 0, curveSlow) {
				return false
			}
		}
	}
	return !slices.ContainsFunc(d.Cooldowns, func(c keptCooldown) bool {
		return !within(c.From, coldest, hottest) || !(c.Seconds > 0 && c.Seconds <= longestCooling.Seconds())
	}) && !slices.ContainsFunc(d.Fans, func(f keptFan) bool {
		return !within(f.PerPercent, 0, mostRPM) || !within(f.Seconds, 0, curveSlow)
	})
}

// within is also true of what is not known. JSON has no number that is none.
func within(v, least, most float64) bool { return !has(v) || v >= least && v <= most }

func optional(v float64) *float64 {
	if !has(v) {
		return nil
	}
	return &v
}

func value(v *float64) float64 {
	if v == nil {
		return none
	}
	return *v
}
