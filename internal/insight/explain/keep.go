package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// kept is what is remembered over a restart: what was learned of each device,
// not what was going on.
type kept struct {
	Version int          `json:"version"`
	Devices []keptDevice `json:"devices"`
}

const keptVersion = 1

// A keptDevice is what was learned of one device.
type keptDevice struct {
	Node      string         `json:"node"`
	UUID      string         `json:"uuid"`
	Simulated bool           `json:"simulated,omitzero"`
	Seen      time.Time      `json:"seen"`
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

const (
	// keptFor is how long what was learned is worth keeping of a device that
	// is not seen any more.
	keptFor = 90 * 24 * time.Hour
	// maxKept bounds of how many devices something is kept: those seen last.
	maxKept = 4096
)

// Keep returns what was learned as JSON, for Restore.
func (h *History) Keep() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := kept{Version: keptVersion, Devices: make([]keptDevice, 0, len(h.devices)+len(h.absent))}
	for _, d := range h.absent {
		out.Devices = append(out.Devices, d)
	}
	for k, r := range h.devices {
		out.Devices = append(out.Devices, r.keep(k))
	}
	slices.SortFunc(out.Devices, func(a, b keptDevice) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID))
	})
	out.Devices = out.Devices[:min(len(out.Devices), maxKept)]
	return json.Marshal(out)
}

// Restore takes in what Keep returned in an earlier run, before the first Add.
// What is older than three months at now is left out, and what can't be right;
// the error says so, beside which the rest is good.
func (h *History) Restore(text []byte, now time.Time) error {
	var in kept
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("explain: not what was kept: %w", err)
	}
	if in.Version != keptVersion {
		return fmt.Errorf("explain: kept in version %d, and %d is read", in.Version, keptVersion)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	wrong := 0
	for i := range in.Devices {
		d := &in.Devices[i]
		switch {
		case i >= maxKept || d.Seen.After(now.Add(time.Hour)) || !d.right():
			wrong++
		case now.Sub(d.Seen) <= keptFor:
			h.absent[key{d.Node, d.UUID, d.Simulated}] = *d
		}
	}
	if wrong > 0 {
		return fmt.Errorf("explain: of %d of %d devices, what was kept can't be right", wrong, len(in.Devices))
	}
	return nil
}

func (r *remembered) keep(k key) keptDevice {
	out := keptDevice{Node: k.node, UUID: k.uuid, Simulated: k.simulated, Seen: r.seen}
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

// right reports whether it is what this program could have kept.
func (d *keptDevice) right() bool {
	if d.UUID == "" || len(d.Cooldowns) > maxCooldowns || len(d.Fans) > maxFans {
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
