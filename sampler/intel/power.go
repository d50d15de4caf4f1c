package intel

import (
	"path/filepath"
	"regexp"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

const (
	// soonest is the least time between two counter readings that are compared.
	soonest = 100 * time.Millisecond
	// latest is the longest time between two counter readings that are compared: the hardware's energy counter has 32 bits, which the
	// driver extends only when it is read. At 1000 W the counter wraps after 4.4 minutes.
	latest = 4 * time.Minute
)

// A draw is the power between two readings of an energy counter.
type draw struct {
	before gpu.Joules
	read   time.Time // zero: nothing to compare with
	watts  gpu.Reading[gpu.Watts]
}

// measure returns the average power since the previous reading; NotReported for the first reading, and if the counter went back or did not move.
// wrap is the value at which the counter restarts from 0, or 0 if it does not.
func (d *draw) measure(energy gpu.Reading[gpu.Joules], wrap gpu.Joules, now time.Time) gpu.Reading[gpu.Watts] {
	e, ok := energy.Trusted()
	if !ok {
		*d = draw{}
		if energy.Present() {
			return gpu.Reading[gpu.Watts]{}
		}
		return gpu.Absent[gpu.Watts](energy.Quality())
	}
	passed := now.Sub(d.read)
	if !d.read.IsZero() && passed >= 0 && passed < soonest {
		return d.watts
	}
	used := e - d.before
	if used < 0 {
		used += wrap
	}
	stands := used == 0 && wrap == 0 // an awake card always draws power; an integrated GPU may be off
	known := !d.read.IsZero() && passed > 0 && passed <= latest && used >= 0 && !stands
	*d = draw{before: e, read: now}
	if known {
		d.watts = drm.Of(float64(used)/passed.Seconds(), nil, 1, 0, drm.MostPower)
	}
	return d.watts
}

// sensors are the sensors of a card that are read. The numbers in their names differ by driver and kernel; their labels are looked up once.
type sensors struct {
	*drm.Hwmon          // nil: the card has none
	energy     string   // the counter's file; empty: none
	chipEnergy string   // the counter of the chip alone, if energy is the whole card's; empty: none
	limits     []string // existing files
	rated      string   // empty: none
	chip       drm.Channel
	memory     drm.Channel // number 0: none
	fans       []string
}

// newSensors chooses the counter of the whole card, otherwise of its chip, the only one of Alchemist under xe. The limits must belong to
// the same part.
func newSensors(h *drm.Hwmon) sensors {
	s := sensors{Hwmon: h}
	if h == nil {
		return s
	}
	var part drm.Channel
	for _, c := range h.Channels("energy") {
		if h.Has(c.File("energy", "input")) && (part.Number == 0 || c.Label == "card") {
			part, s.energy = c, c.File("energy", "input")
		}
	}
	for _, c := range h.Channels("energy") {
		if c.Label == "pkg" && part.Label == "card" && h.Has(c.File("energy", "input")) {
			s.chipEnergy = c.File("energy", "input")
		}
	}
	for _, c := range h.Channels("power") {
		if part.Number == 0 || c.Label != part.Label {
			continue
		}
		for _, what := range []string{"max", "cap", "crit"} {
			if h.Has(c.File("power", what)) {
				s.limits = append(s.limits, c.File("power", what))
			}
		}
		if rated := c.File("power", "rated_max"); h.Has(rated) {
			s.rated = rated
		}
	}
	// i915 gives its only sensor no label. The sensors of the memory channels, which xe also has, take long to answer.
	temperatures := h.Channels("temp")
	for _, c := range temperatures {
		switch {
		case c.Label == "pkg", c.Label == "" && len(temperatures) == 1:
			s.chip = c
		case c.Label == "vram":
			s.memory = c
		}
	}
	const mostFans = 16
	for _, c := range h.Channels("fan") {
		if name := c.File("fan", "input"); h.Has(name) && len(s.fans) < mostFans {
			s.fans = append(s.fans, name)
		}
	}
	return s
}

// temperature returns the temperature of a channel that may not exist.
func (s *sensors) temperature(c drm.Channel) gpu.Reading[gpu.Celsius] {
	if c.Number == 0 {
		return gpu.Absent[gpu.Celsius](gpu.NotSupported)
	}
	return s.Celsius(c.File("temp", "input"))
}

func (s *sensors) temperatureLimit(c drm.Channel, what string) gpu.Reading[gpu.Celsius] {
	if name := c.File("temp", what); c.Number != 0 && s.Has(name) {
		return s.Limit(name)
	}
	return gpu.Absent[gpu.Celsius](gpu.NotSupported)
}

// limit returns the lowest limit; a limit of 0 is off.
func (s *sensors) limit() gpu.Reading[gpu.Watts] {
	lowest := gpu.Absent[gpu.Watts](gpu.NotSupported)
	for _, name := range s.limits {
		switch v := s.Watts(name); {
		case v == gpu.Of[gpu.Watts](0):
		case !lowest.Present(), v.Present() && v.Or(0) < lowest.Or(0):
			lowest = v
		}
	}
	return lowest
}

func (s *sensors) ratedLimit() gpu.Reading[gpu.Watts] {
	if s.rated == "" {
		return gpu.Absent[gpu.Watts](gpu.NotSupported)
	}
	if v := s.Watts(s.rated); v != gpu.Of[gpu.Watts](0) {
		return v
	}
	return gpu.Absent[gpu.Watts](gpu.NotSupported)
}

func (s *sensors) joules() gpu.Reading[gpu.Joules] {
	if s.energy == "" {
		return gpu.Absent[gpu.Joules](gpu.NotSupported)
	}
	return s.Joules(s.energy)
}

// lessThanChip reports whether the card's counter can't be right: it is below the counter of its own chip, although both count from the
// start of the driver, and it does not grow as a card's counter does beside its chip. The power computed from it can't be right either. The
// totals alone prove little: the driver extends a 32-bit register only when it reads it, so that the faster counter loses more.
func (s *sensors) lessThanChip(card gpu.Reading[gpu.Joules], g *growth, now time.Time) bool {
	e, ok := card.Trusted()
	if !ok || s.chipEnergy == "" {
		return false
	}
	const behind = 100 // J: the two are read one after the other
	chip, ok := s.Joules(s.chipEnergy).Trusted()
	if !ok {
		return false
	}
	grow := g.goTogether(e, chip, now)
	return e+behind < chip && !grow
}

// A growth compares the counters of a card and of its chip over some seconds.
type growth struct {
	card, chip gpu.Joules
	read       time.Time // of both; zero: nothing to compare with
	together   bool      // when they were last compared
}

// goTogether reports whether the card's counter grows at least as much as the chip's, and no more than a board's can: the memory, the fans
// and the losses take about as much as the chip, and some watts at rest.
func (g *growth) goTogether(card, chip gpu.Joules, now time.Time) bool {
	const (
		over  = 3 * time.Second
		board = 50 // W
	)
	passed := now.Sub(g.read)
	switch {
	case g.read.IsZero(), passed < 0, passed > latest:
		*g = growth{card: card, chip: chip, read: now}
	case passed >= over:
		grown, ofChip := card-g.card, chip-g.chip
		most := 2*ofChip + gpu.Joules(board*passed.Seconds())
		*g = growth{card, chip, now, ofChip > 0 && grown >= 0.95*ofChip && grown <= most}
	}
	return g.together
}

// The highest possible power draw if no limit is known: of Ponte Vecchio, and of an integrated GPU.
const (
	cardPower       gpu.Watts = 600
	integratedPower gpu.Watts = 100
)

// plausible marks a power draw far above the limit as doubtful. Short peaks above the limit are real.
func plausible(watts, limit gpu.Reading[gpu.Watts]) gpu.Reading[gpu.Watts] {
	const far = 3
	if w, ok := watts.Trusted(); ok && limit.Or(0) > 0 && w > far*limit.Or(0) {
		return gpu.DoubtfulOf(w)
	}
	return watts
}

var domain = regexp.MustCompile(`^intel-rapl:[0-9]{1,3}:[0-9]{1,3}$`)

// graphicsDomain finds the power domain of the processor that covers its GPU, which the kernel calls "uncore". It belongs to the processor:
// reading it wakes no GPU. Its path is empty if the processor has none, as from Meteor Lake on.
func graphicsDomain(sysfs string) drm.Folder {
	class := drm.Folder{Path: filepath.Join(sysfs, "class/powercap")}
	for _, f := range folders(class, domain) {
		if name, err := f.Text("name"); err == nil && name == "uncore" {
			return f
		}
	}
	return drm.Folder{}
}

// domainJoules reads the counter of a domain, and the value at which it wraps. A counter that stays at 0 does not count.
func domainJoules(f drm.Folder) (energy gpu.Reading[gpu.Joules], wrap gpu.Joules) {
	if f.Path == "" {
		return gpu.Absent[gpu.Joules](gpu.NotSupported), 0
	}
	energy = f.Joules("energy_uj")
	if energy == gpu.Of[gpu.Joules](0) {
		return gpu.Absent[gpu.Joules](gpu.NotSupported), 0
	}
	return energy, f.Joules("max_energy_range_uj").Or(0)
}
