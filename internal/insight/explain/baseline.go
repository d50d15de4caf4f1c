package explain

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A baseline is what was learned about a device, including in earlier runs.
type baseline struct {
	Rest      rest        `json:"rest,omitzero"`
	Curve     curve       `json:"curve,omitzero"`
	Cooldowns []cooldown  `json:"cooldowns,omitempty"` // newest last
	Fans      []fanMemory `json:"fans,omitempty"`
	Stops     stops       `json:"stops,omitzero"`
}

// A rest is what a device is like without work. Its power draw then is its idle floor.
type rest struct {
	Celsius *float64 `json:"celsius,omitempty"`           // the lowest seen
	Fan     *float64 `json:"fan_percent,omitempty"`       // the lowest seen
	State   *float64 `json:"performance_state,omitempty"` // the slowest seen
}

func (r *rest) learn(d *device) {
	r.Celsius = optional(lowest(value(r.Celsius), d.temp))
	r.Fan = optional(lowest(value(r.Fan), d.fan))
	r.State = optional(highest(value(r.State), d.state))
}

// optional converts a number for JSON, which has no NaN.
func optional(v float64) *float64 {
	if !present(v) {
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

// A cooldown is a cool-down that was seen from start to end.
type cooldown struct {
	From    *float64 `json:"from_celsius,omitempty"` // when work ended
	Seconds float64  `json:"seconds"`
}

const maxCooldowns = 8

// usualCooldown returns the median of the cool-downs that began within 10 °C of a temperature, otherwise of all.
func (b *baseline) usualCooldown(celsius float64) (seconds float64, seen int) {
	past := those(b.Cooldowns, func(c *cooldown) bool { return math.Abs(value(c.From)-celsius) <= 10 })
	if len(past) == 0 {
		past = those(b.Cooldowns, func(*cooldown) bool { return true })
	}
	if len(past) == 0 {
		return 0, 0
	}
	slices.SortFunc(past, func(a, b *cooldown) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return past[(len(past)-1)/2].Seconds, len(past)
}

// A curve is how hot a device runs at a given power: a mean temperature for each step of power.
type curve struct {
	Step    float64   `json:"step_watts"`
	Celsius []float64 `json:"celsius"`
	Seconds []float64 `json:"seconds"` // that went into each mean
}

const (
	curveSteps = 24
	// A mean counts after five minutes. It follows changes with a time constant of two hours, so that a change stands out.
	curveKnown = 5 * 60
	curveSlow  = 2 * 3600
)

// place returns the step that a power belongs to, or -1.
func (c *curve) place(power float64) int {
	if !present(power) || c.Step <= 0 {
		return -1
	}
	return min(int(power/c.Step), curveSteps-1)
}

func (c *curve) learn(d *device, since time.Duration) {
	if c.Step == 0 {
		*c = curve{orElse(d.limit/(curveSteps-4), 25), make([]float64, curveSteps), make([]float64, curveSteps)}
	}
	i := c.place(d.power)
	follow(&c.Celsius[i], &c.Seconds[i], d.temp, since)
}

// follow adds a value, which lasted for some time, to a mean.
func follow(mean, seconds *float64, v float64, since time.Duration) {
	if *seconds = min(*seconds+since.Seconds(), curveSlow); *seconds > 0 {
		*mean += (v - *mean) * since.Seconds() / *seconds
	}
}

// usual returns the usual temperature at a power, if known.
func (c *curve) usual(power float64) float64 {
	if i := c.place(power); i >= 0 && c.Seconds[i] >= curveKnown {
		return c.Celsius[i]
	}
	return none
}

// Kept is what was learned about each device, without what is in progress.
type Kept struct {
	Devices []keptDevice `json:"devices"`
}

type keptDevice struct {
	state.Learned
	baseline
}

// Kept returns what was learned.
func (h *History) Kept() Kept {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]keptDevice, 0, len(h.devices))
	for k, m := range h.devices {
		all = append(all, keptDevice{state.Learned{Device: k, Seen: m.seen}, m.copied().baseline})
	}
	return Kept{state.Newest(all)}
}

// Restore replaces what this run has learned so far with what an earlier run had learned.
func (h *History) Restore(kept Kept, now time.Time) error {
	fresh, err := state.Fresh(kept.Devices, now, (*keptDevice).plausible)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range fresh {
		h.devices[d.Device] = &memory{seen: d.Seen, baseline: d.baseline}
	}
	return err
}

// plausible reports whether this program could have stored these values.
func (d *keptDevice) plausible() bool {
	celsius := func(v float64) bool { return within(v, coldest, hottest) }
	seconds := func(v float64) bool { return within(v, 0, curveSlow) }
	r, c := &d.Rest, &d.Curve
	steps := curveSteps
	if c.Celsius == nil && c.Seconds == nil && c.Step == 0 {
		steps = 0 // no curve
	}
	return celsius(value(r.Celsius)) && within(value(r.Fan), 0, mostPercent) && within(value(r.State), 0, mostState) &&
		(steps == 0 || c.Step > 0 && c.Step <= mostWatts) &&
		len(c.Celsius) == steps && every(c.Celsius, celsius) && len(c.Seconds) == steps && every(c.Seconds, seconds) &&
		len(d.Cooldowns) <= maxCooldowns && every(d.Cooldowns, func(c cooldown) bool {
		return celsius(value(c.From)) && c.Seconds > 0 && c.Seconds <= longestCooling.Seconds()
	}) && len(d.Fans) <= maxFans && every(d.Fans, func(f fanMemory) bool {
		return within(f.PerPercent, 0, mostRPM) && seconds(f.Seconds)
	}) && len(d.Stops.Starts) <= maxStops && every(d.Stops.Starts, celsius) && len(d.Stops.Ends) <= maxStops &&
		every(d.Stops.Ends, celsius) && within(value(d.Stops.Least), 0, mostPercent)
}

// within is also true for missing values, since JSON has no NaN.
func within(v, least, most float64) bool { return !present(v) || v >= least && v <= most }

func every[T any](list []T, so func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !so(v) })
}
