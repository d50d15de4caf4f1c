package views

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A CauseRow is a cause as a row of the page.
type CauseRow struct {
	Key, Sentence string
	Evidence      []EvidenceRow
	About         string    // how certain it is
	Began         time.Time // when it began; zero if that was not seen
	Lasts         string    // "for 12 min"
	Advice        string
}

// An EvidenceRow is one figure. Seen says how long before the reading it was
// measured; empty if it is about as new.
type EvidenceRow struct {
	Name, Text, Seen string
	Time             time.Time // replaces Text if the evidence is a moment
}

// seenApart is how much older than the reading evidence must be to show its own time.
const seenApart = 2 * time.Second

// newCauses returns the causes of the leading GPU, then those of the machine.
func newCauses(causes []explain.Cause, now time.Time) []CauseRow {
	var lead *gpu.Device
	var own, machine []CauseRow
	for i := range causes {
		c := &causes[i]
		switch {
		case c.Device == nil:
			machine = append(machine, newCause(c, now))
		case lead == nil || same(c.Device, lead):
			lead = c.Device
			own = append(own, newCause(c, now))
		}
	}
	return append(own, machine...)
}

// same reports whether both are one device.
func same(a, b *gpu.Device) bool { return a.Node == b.Node && a.UUID == b.UUID }

func newCause(c *explain.Cause, now time.Time) CauseRow {
	out := CauseRow{
		Key:      c.ID,
		Sentence: sentence(c.Sentence),
		About:    certainty(c.Confidence),
		Advice:   sentence(c.Advice),
	}
	if !c.Since.IsZero() {
		out.Began, out.Lasts = c.Since, forText(lastsFor(c.Since, now))
	}
	out.Evidence = each(c.Evidence, func(e *explain.Evidence) EvidenceRow {
		row := EvidenceRow{Name: clean(e.Name, longestName), Text: sentence(e.Text)}
		if e.At.IsZero() {
			return row
		}
		if e.Moment {
			row.Text, row.Time = "", e.At
		}
		if now.UnixMilli()-e.At.UnixMilli() >= seenApart.Milliseconds() {
			row.Seen = agoText(between(e.At, now))
		}
		return row
	})
	return out
}

// leadOf returns the device that the sentence explains; nil if there is none.
func leadOf(causes []explain.Cause) *gpu.Device {
	i := slices.IndexFunc(causes, func(c explain.Cause) bool { return c.Device != nil })
	if i < 0 || causes[i].Kind == explain.Idle {
		return nil
	}
	return causes[i].Device
}
