package intel

import (
	"cmp"

	"path/filepath"
	"regexp"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

const (
	// soonest is between two readings of a counter that are compared.
	soonest = 100 * time.Millisecond
	// latest is when two readings of a counter are too far apart: the hardware's counter
	// of energy has 32 bits, which the driver extends only when it is read, and which
	// 1000 W fill in 4.4 minutes.
	latest = 4 * time.Minute
)

// A draw is the power between two readings of a counter of energy.
type draw struct {
	before gpu.Joules
	at     time.Time // zero: there is no reading to compare with
	watts  gpu.Reading[gpu.Watts]
}

// of is the mean power since the reading before; NotReported at the first one, and when
// the counter went back. wrap is where the counter begins anew, 0 where it does not.
func (d *draw) of(energy gpu.Reading[gpu.Joules], wrap gpu.Joules, now time.Time) gpu.Reading[gpu.Watts] {
	e, ok := energy.Trusted()
	if !ok {
		*d = draw{}
		if energy.Present() {
			return gpu.Reading[gpu.Watts]{}
		}
		return gpu.Absent[gpu.Watts](energy.Quality())
	}
	passed := now.Sub(d.at)
	if !d.at.IsZero() && passed >= 0 && passed < soonest {
		return d.watts
	}
	used := e - d.before
	if used < 0 {
		used += wrap
	}
	known := !d.at.IsZero() && passed > 0 && passed <= latest && used >= 0
	*d = draw{before: e, at: now}
	if known {
		d.watts = drm.Of(float64(used)/passed.Seconds(), nil, 1, 0, drm.MostPower)
	}
	return d.watts
}

// A supply is what a card's sensors say of its power.
type supply struct {
	sensors *drm.Hwmon
	energy  string // the file of the counter; empty: there is none
	limits  []string
	rated   string
}

// newSupply chooses the sensors of the whole card, or else those of its chip: the only
// ones of Alchemist under xe.
func newSupply(sensors *drm.Hwmon) supply {
	s := supply{sensors: sensors}
	if sensors == nil {
		return s
	}
	choose := func(kind, what string) (chosen drm.Channel) {
		for _, c := range sensors.Channels(kind) {
			if sensors.Has(c.File(kind, what)) && (chosen.Number == 0 || c.Label == "card") {
				chosen = c
			}
		}
		return chosen
	}
	if c := choose("energy", "input"); c.Number != 0 {
		s.energy = c.File("energy", "input")
	}
	// The limit may be one of another part than the energy is: both are listed then.
	if c := cmp.Or(choose("power", "max"), choose("power", "cap"), choose("power", "crit"), choose("power",
		"rated_max")); c.Number != 0 {
		s.limits = []string{c.File("power", "max"), c.File("power", "cap"), c.File("power", "crit")}
		s.rated = c.File("power", "rated_max")
	}
	return s
}

// limit is the lowest of the limits, where 0 stands for one that is off.
func (s *supply) limit() gpu.Reading[gpu.Watts] {
	lowest := gpu.Absent[gpu.Watts](gpu.NotSupported)
	for _, name := range s.limits {
		if !s.sensors.Has(name) {
			continue
		}
		switch v := s.sensors.Watts(name); {
		case v == gpu.Of[gpu.Watts](0):
		case !lowest.Present(), v.Present() && v.Or(0) < lowest.Or(0):
			lowest = v
		}
	}
	return lowest
}

func (s *supply) ratedLimit() gpu.Reading[gpu.Watts] {
	if s.rated == "" || !s.sensors.Has(s.rated) {
		return gpu.Absent[gpu.Watts](gpu.NotSupported)
	}
	if v := s.sensors.Watts(s.rated); v != gpu.Of[gpu.Watts](0) {
		return v
	}
	return gpu.Absent[gpu.Watts](gpu.NotSupported)
}

func (s *supply) joules() gpu.Reading[gpu.Joules] {
	if s.energy == "" {
		return gpu.Absent[gpu.Joules](gpu.NotSupported)
	}
	return s.sensors.Joules(s.energy)
}

// plausible marks a power far above the limit as doubtful. Short peaks above it are real.
func plausible(watts, limit gpu.Reading[gpu.Watts]) gpu.Reading[gpu.Watts] {
	const far = 3
	if w, ok := watts.Trusted(); ok && limit.Or(0) > 0 && w > far*limit.Or(0) {
		return gpu.DoubtfulOf(w)
	}
	return watts
}

var domain = regexp.MustCompile(`^intel-rapl:[0-9]{1,3}:[0-9]{1,3}$`)

// graphicsDomain finds the domain of the processor's power that its GPU is, which the
// kernel calls "uncore". It belongs to the processor: reading it wakes no GPU. Its path
// is empty where the processor has none, as from Meteor Lake on.
func graphicsDomain(sysfs string, read func(string) ([]byte, error)) drm.Folder {
	class := drm.Folder{Path: filepath.Join(sysfs, "class/powercap"), Read: read}
	for _, f := range folders(class, domain) {
		if name, err := f.Text("name"); err == nil && name == "uncore" {
			return f
		}
	}
	return drm.Folder{}
}

// domainJoules is the counter of a domain, and where it begins anew. A counter that
// stands at 0 is none.
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
