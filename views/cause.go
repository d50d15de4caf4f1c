package views

import (
	"slices"
	"strings"
	"time"
)

// A Cause is one reason why a GPU is hot, loud or busy, or why nobody can tell.
type Cause struct {
	ID         string // the same for as long as the cause stands
	Node, UUID string // of the GPU; UUID is empty where the cause is about the machine
	Sentence   string
	Certainty  string    // "high", "medium" or "low"
	Since      time.Time // when it began; zero where that was not seen
	Evidence   []Evidence
	Advice     string // what would stop it; empty where there is nothing to do
}

// Evidence is one figure that a cause rests on.
type Evidence struct {
	Name   string    // "power draw"
	Text   string    // "431 W"
	At     time.Time // when it was read or happened; zero where that is not known
	Moment bool      // At is the evidence, and Text is the same in words
}

// A CauseRow is a cause as the page shows it.
type CauseRow struct {
	Key, Sentence string
	Evidence      []EvidenceRow
	About         string // how sure it is, and since when
	At            string // the moment in About, for scripts; empty for none
	Advice        string
}

// An EvidenceRow is a figure. Seen is how long before the reading it was seen,
// where that is earlier.
type EvidenceRow struct {
	Name, Text, Seen string
	At               string // the moment in Text, for scripts; empty where it is none
}

// Evidence that is older than the reading by seenApart has a time of its own.
const seenApart = 2 * time.Second

// newCauses are the main causes: first those of the GPU that comes first, then
// those of the machine.
func newCauses(causes []Cause, now time.Time) []CauseRow {
	var lead *Cause
	var own, machine []CauseRow
	for i := range causes {
		c := &causes[i]
		switch {
		case c.UUID == "":
			machine = append(machine, newCause(c, now))
		case lead == nil || c.Node == lead.Node && c.UUID == lead.UUID:
			lead = c
			own = append(own, newCause(c, now))
		}
	}
	return append(own, machine...)
}

func newCause(c *Cause, now time.Time) CauseRow {
	out := CauseRow{
		Key:      c.ID,
		Sentence: sentence(c.Sentence),
		About:    say("sure " + c.Certainty),
		Advice:   sentence(c.Advice),
	}
	if !c.Since.IsZero() {
		out.At = stamp(c.Since)
		out.About += " · " + say("since, for", moment(c.Since), between(c.Since, now))
	}
	out.Evidence = each(c.Evidence, func(e *Evidence) EvidenceRow {
		row := EvidenceRow{Name: clean(e.Name, longestName), Text: sentence(e.Text)}
		if e.At.IsZero() {
			return row
		}
		if e.Moment {
			row.Text, row.At = moment(e.At), stamp(e.At)
		}
		if now.UnixMilli()-e.At.UnixMilli() >= seenApart.Milliseconds() {
			row.Seen = say("ago", between(e.At, now))
		}
		return row
	})
	return out
}

// leadOf is the first cause of the device that the sentence is about; nil where
// it is about none, or about one with nothing to explain.
func leadOf(causes []Cause) *Cause {
	i := slices.IndexFunc(causes, func(c Cause) bool { return c.UUID != "" })
	if i < 0 || strings.HasPrefix(causes[i].ID, "idle:") {
		return nil
	}
	return &causes[i]
}
