package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Record is an [Answer] for another gpuwhy: with everything that it says and that [Combine] needs, but without the devices, which are in
// the snapshot sent with it. [gpu.AppendRecord] writes it. Other versions rely on its fields.
type Record struct {
	Time     time.Time
	Layers   Layers
	Sentence string
	Traffic  []string
	Machine  []causeRecord
	Devices  []deviceRecord // in the order of the snapshot
	Ranked   []int          // positions in Devices, loudest first
}

type deviceRecord struct {
	Layers          Layers
	Sentence        string
	Causes          []causeRecord
	Cooling, Cooled *Cooldown
	Next            []Prospect
	Asked           bool
	Loudness        float64
	Quiet, HasFan   bool
	Loud            bool
	Off, Led        bool
	Working         bool
	Unknown         bool
}

type causeRecord struct {
	ID         string
	Kind       Kind
	Case       string
	Node       string
	Device     gpu.Reading[int] // its position in the snapshot; absent if the cause is about the machine
	Sentence   string
	Confidence Confidence
	Since      time.Time
	Evidence   []Evidence
	Advice     string
	Headline   string
	Command    string
	Who        string
	Short      string
}

// Record returns the answer about one snapshot, to be sent with that snapshot. The error says that the answer is about another one.
func (a *Answer) Record(s *gpu.Snapshot) (*Record, error) {
	if len(a.Devices) != len(s.Devices) {
		return nil, fmt.Errorf("an answer about %d devices is not about the %d of the snapshot", len(a.Devices), len(s.Devices))
	}
	r := &Record{Time: a.Time, Layers: a.Layers, Sentence: a.Sentence, Traffic: a.traffic}
	position := make(map[*gpu.Device]int, len(s.Devices))
	for i := range a.Devices {
		position[&s.Devices[i]] = i
		if a.Devices[i].Device != &s.Devices[i] {
			return nil, fmt.Errorf("what an answer says of device %d is not about that of the snapshot", i)
		}
	}
	var err error
	cause := func(c Cause) causeRecord {
		out := causeRecord{
			ID: c.ID, Kind: c.Kind, Case: c.Case, Node: c.Node, Sentence: c.Sentence, Confidence: c.Confidence, Since: c.Since,
			Evidence: c.Evidence, Advice: c.Advice, Headline: c.Headline, Command: c.command, Who: c.Who, Short: c.Short,
		}
		if c.Device != nil {
			i, is := position[c.Device]
			if !is {
				err = fmt.Errorf("the cause %s is not about a device of the snapshot", c.ID)
			}
			out.Device = gpu.Of(i)
		}
		return out
	}
	r.Machine = each(a.Machine, cause)
	r.Devices = each(a.Devices, func(d DeviceAnswer) deviceRecord {
		return deviceRecord{
			Layers: d.Layers, Sentence: d.Sentence, Causes: each(d.Causes, cause), Cooling: d.Cooling, Cooled: d.Cooled, Next: d.Next, Asked: d.Asked,
			Loudness: d.loudness, Quiet: d.quiet, HasFan: d.hasFan, Off: d.off, Led: d.led, Working: d.working, Unknown: d.unknown, Loud: d.loud,
		}
	})
	r.Ranked = each(a.ranked, func(d *DeviceAnswer) int { return position[d.Device] })
	return r, err
}

// Answer returns the answer about a snapshot. The error says which part of the record is impossible.
func (r *Record) Answer(s *gpu.Snapshot) (Answer, error) {
	if len(r.Devices) != len(s.Devices) {
		return Answer{}, fmt.Errorf(".Devices: it says something of %d devices, and the snapshot has %d", len(r.Devices), len(s.Devices))
	}
	var err error
	cause := func(c causeRecord) Cause {
		out := Cause{
			ID: c.ID, Kind: c.Kind, Case: c.Case, Node: c.Node, Sentence: c.Sentence, Confidence: c.Confidence, Since: c.Since,
			Evidence: c.Evidence, Advice: c.Advice, Headline: c.Headline, command: c.Command, Who: c.Who, Short: c.Short,
		}
		if i, is := c.Device.Get(); is && (i < 0 || i >= len(s.Devices)) {
			err = fmt.Errorf(".Device: a cause is about device %d of %d", i, len(s.Devices))
		} else if is {
			out.Device = &s.Devices[i]
		}
		return out
	}
	a := Answer{Time: r.Time, Layers: r.Layers, Sentence: r.Sentence, traffic: r.Traffic, Machine: each(r.Machine, cause)}
	a.Devices = each(r.Devices, func(d deviceRecord) DeviceAnswer {
		return DeviceAnswer{
			Layers: d.Layers, Sentence: d.Sentence, Causes: each(d.Causes, cause), Cooling: d.Cooling, Cooled: d.Cooled, Next: d.Next, Asked: d.Asked,
			loudness: d.Loudness, quiet: d.Quiet, hasFan: d.HasFan, off: d.Off, led: d.Led, working: d.Working, unknown: d.Unknown, loud: d.Loud,
		}
	})
	for i := range a.Devices {
		a.Devices[i].Device = &s.Devices[i]
		if len(a.Devices[i].Causes) == 0 && err == nil {
			err = fmt.Errorf(".Devices[%d].Causes: there is none", i)
		}
	}
	if r.Ranked == nil {
		a.rank()
		return a, err
	}
	place := make([]bool, len(a.Devices))
	for _, i := range r.Ranked {
		if i < 0 || i >= len(place) || place[i] {
			return Answer{}, fmt.Errorf(".Ranked: %d is not one of %d devices, or is twice", i, len(place))
		}
		place[i] = true
		a.ranked = append(a.ranked, &a.Devices[i])
	}
	if len(a.ranked) != len(a.Devices) {
		return Answer{}, fmt.Errorf(".Ranked: %d of %d devices", len(a.ranked), len(a.Devices))
	}
	return a, err
}

// each converts every element; nil stays nil.
func each[T, U any](list []T, convert func(T) U) []U {
	if list == nil {
		return nil
	}
	out := slices.Grow([]U{}, len(list))
	for _, v := range list {
		out = append(out, convert(v))
	}
	return out
}
