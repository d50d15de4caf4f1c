package explain

import (
	"fmt"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The family of heat that is more than the power explains.

// By how many degrees a card must be hotter: than it was, and than its
// neighbors, which have air of their own.
const (
	hotBy      = 8.0
	hotterThan = 10.0
)

// A peer is a device as its neighbors see it.
type peer struct {
	d           *gpu.Device
	temp, power float64
}

// settled reports whether a device's temperature and power are those of a
// state, not of a change.
func settled(v *vitals, m *memory) bool {
	return has(v.temp) && has(v.power) && m.trail.flat(m.at, 2, 0.1*v.power+5)
}

// peers are the settled devices of the same model in the same machine.
type peers map[peerKey][]peer

type peerKey struct{ node, name string }

func newPeers(s *gpu.Snapshot, memories []*memory) peers {
	out := peers{}
	for i := range s.Devices {
		d := &s.Devices[i]
		v := vitalsOf(d)
		if d.State == gpu.StateOK && settled(&v, memories[i]) {
			k := peerKey{d.Node, d.Name}
			out[k] = append(out[k], peer{d, v.temp, v.power})
		}
	}
	return out
}

// hotForPower compares a card with itself, and with others of its model that
// draw as much.
func hotForPower(c *card) *finding {
	if c.cooling() || c.doing == unknown || !settled(&c.v, c.m) {
		return nil
	}
	usual := c.m.curve.usual(c.v.power)
	neighbors, count := c.neighbors()
	self := c.v.temp - usual
	among := c.v.temp - neighbors
	f := &finding{
		evidence: c.heat(),
		advice:   "Clean its fans and filters, and look whether something blocks the air before or behind it.",
	}
	if has(usual) {
		f.evidence.figure("usual temperature at this power", usual, "°C")
	}
	if has(neighbors) {
		f.evidence.figure("neighbors at this power", neighbors, "°C").figure("neighbors compared with", float64(count), "")
	}
	switch {
	case self >= hotBy && among >= hotterThan:
		f.confidence = High
		f.clause = func(it string) string {
			return fmt.Sprintf("%s is hot for its power: %s hotter than it was at %s, and %s hotter than its neighbors",
				it, withUnit(self, "°C"), withUnit(c.v.power, "W"), withUnit(among, "°C"))
		}
	case self >= hotBy:
		f.confidence = Medium
		f.clause = func(it string) string {
			return fmt.Sprintf("%s is hot for its power: %s hotter than it was at %s", it, withUnit(self, "°C"), withUnit(c.v.power, "W"))
		}
	case among >= hotterThan:
		f.confidence = Medium
		if count < 3 {
			f.confidence = Low
		}
		f.clause = func(it string) string {
			return fmt.Sprintf("%s is hot for its power: %s hotter than its neighbors at %s", it, withUnit(among, "°C"), withUnit(c.v.power, "W"))
		}
		f.advice += " Cards behind others get warmer air: some difference is the chassis' design."
	default:
		return nil
	}
	return f
}

// neighbors is the middle temperature of the other cards of this model in this
// machine that draw about as much, and how many there are.
func (c *card) neighbors() (temp float64, count int) {
	var temps []float64
	for _, p := range c.peers[peerKey{c.d.Node, c.d.Name}] {
		near := 0.15*c.v.power + 5
		if p.d != c.d && p.power >= c.v.power-near && p.power <= c.v.power+near {
			temps = append(temps, p.temp)
		}
	}
	if len(temps) == 0 {
		return none, 0
	}
	slices.Sort(temps)
	return temps[len(temps)/2], len(temps)
}

// chassisFans answers for a card without fans: what is heard is the chassis.
func chassisFans(c *card) *finding {
	if len(c.d.Fans.Fans) > 0 || !c.reportsAnything() {
		return nil
	}
	count, counted := c.d.Fans.Count.Get()
	reported := counted && count == 0
	if !reported && c.d.Fans.Count.Quality() != gpu.NotSupported {
		return nil // not known
	}
	f := &finding{
		confidence: High,
		evidence:   c.heat(),
		advice:     "The chassis' fans follow its hottest part: see the machine's management controller for what they go by.",
		aside:      c.doing != working && !c.cooling(),
	}
	f.evidence.fact("fans of its own", "none reported")
	if !reported {
		f.confidence = Medium // a laptop's driver doesn't offer them either
	}
	f.clause = func(it string) string {
		return it + " has no fan of its own: the chassis fans are what you hear"
	}
	return f
}

// warmAir is a cause of the machine: several cards run hotter than each of them
// did at the same power, so it is not the cards.
func warmAir(s *gpu.Snapshot, devices []DeviceAnswer, memories []*memory) *Cause {
	const least = 2
	known, hot, more := 0, 0, 0.0
	p := &proofs{at: s.Time}
	for i := range devices {
		d := devices[i].Device
		if d.State != gpu.StateOK {
			continue
		}
		v, m := vitalsOf(d), memories[i]
		usual := m.curve.usual(v.power)
		if !has(usual) || !settled(&v, m) {
			continue
		}
		known++
		if v.temp-usual >= hotBy/2 {
			hot++
			more += v.temp - usual
			p.add(figure("above usual: "+DeviceName(d), v.temp-usual, "°C", sampledAt(d, s)))
		}
	}
	if hot < least || hot*4 < known*3 {
		return nil
	}
	return &Cause{
		ID: string(WarmAir), Kind: WarmAir,
		Sentence: sentence(fmt.Sprintf("%d of %d GPUs run hotter than they did at the same power, by %s on average: probably the air that reaches them is warmer",
			hot, known, withUnit(more/float64(hot), "°C"))),
		Confidence: Medium,
		Evidence:   p.list,
		Advice:     "Look at the room's cooling, and at the chassis' fans and filters.",
	}
}
