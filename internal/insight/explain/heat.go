package explain

import (
	"fmt"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// These rules are about heat that the power draw does not explain.

// By how many degrees a device must be hotter: than it was, and than its
// neighbors, which have air of their own.
const (
	hotBy      = 8.0
	hotterThan = 10.0
)

// settled reports whether a device's temperature and power are those of a
// state, not of a change.
func (v *vitals) settled(m *memory) bool {
	return has(v.temp) && has(v.power) && m.trail.flat(m.at, 2, 0.1*v.power+5)
}

// peers are the settled devices by model and machine.
type peers map[peerKey][]*device

type peerKey struct{ node, name string }

// hotForPower compares a device with its own past, and with others of its model
// that draw as much.
func hotForPower(d *device) *finding {
	if d.cooling() || d.doing == unknown || !d.steady {
		return nil
	}
	usual := d.m.curve.usual(d.power)
	neighbors, count := d.neighbors()
	self, among := d.temp-usual, d.temp-neighbors
	if !(self >= hotBy) && !(among >= hotterThan) {
		return nil
	}
	f := &finding{
		confidence: Medium,
		clause:     it + " is hot for its power: ",
		advice:     "Clean its fans and filters, and look whether something blocks the air before or behind it.",
		evidence:   d.heat(),
	}
	f.figure("usual temperature at this power", usual, "°C")
	if has(neighbors) {
		f.figure("neighbors at this power", neighbors, "°C").figure("neighbors compared with", float64(count), "")
	}
	than := withUnit(among, "°C") + " hotter than its neighbors"
	if self >= hotBy {
		f.clause += withUnit(self, "°C") + " hotter than it was at " + withUnit(d.power, "W")
		if among >= hotterThan {
			f.confidence = High
			f.clause += ", and " + than
		}
		return f
	}
	f.clause += than + " at " + withUnit(d.power, "W")
	f.advice += " Cards behind others get warmer air: some difference is the chassis' design."
	if count < 3 {
		f.confidence = Low
	}
	return f
}

// neighbors returns the middle temperature of the other devices of this model
// in this machine that draw about as much, and their number.
func (d *device) neighbors() (temp float64, count int) {
	var temps []float64
	for _, p := range d.peers[peerKey{d.Node, d.Name}] {
		near := 0.15*d.power + 5
		if p != d && p.power >= d.power-near && p.power <= d.power+near {
			temps = append(temps, p.temp)
		}
	}
	if len(temps) == 0 {
		return none, 0
	}
	slices.Sort(temps)
	return temps[len(temps)/2], len(temps)
}

// chassisFans is about a device without fans: people hear those of the chassis.
func chassisFans(d *device) *finding {
	count, counted := d.Fans.Count.Get()
	reported := counted && count == 0
	known := reported || d.Fans.Count.Quality() == gpu.NotSupported
	if len(d.Fans.Fans) > 0 || !known || !d.reportsAnything() {
		return nil
	}
	f := &finding{
		clause:     it + " has no fan of its own: the chassis fans are what you hear",
		confidence: High,
		advice:     "The chassis' fans follow its hottest part: see the machine's management controller for what they go by.",
		minor:      d.doing != working && !d.cooling(),
		evidence:   d.heat(),
	}
	if !reported {
		f.confidence = Medium // a laptop's driver doesn't offer them either
	}
	f.fact("fans of its own", "none reported")
	return f
}

// warmAir is a cause of the machine: several devices run hotter than each of
// them did at the same power, so the devices are not the reason.
func warmAir(devices []*device) (c Cause, ok bool) {
	const least = 2
	known, more := 0, 0.0
	var hot []Evidence
	for _, d := range devices {
		above := d.temp - d.m.curve.usual(d.power)
		if !d.steady || !has(above) {
			continue
		}
		known++
		if above >= hotBy/2 {
			more += above
			hot = append(hot, figure("above usual: "+d.name, above, "°C", d.at))
		}
	}
	n := len(hot)
	if n < least || n*4 < known*3 {
		return Cause{}, false
	}
	text := fmt.Sprintf("%d of %d GPUs run hotter than they did at the same power, by %s on average: "+
		"probably the air that reaches them is warmer", n, known, withUnit(more/float64(n), "°C"))
	c = machineCause(WarmAir, "", text, "Look at the room's cooling, and at the chassis' fans and filters.")
	c.Confidence, c.Evidence = Medium, hot
	return c, true
}
