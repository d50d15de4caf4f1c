package record

import (
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

const (
	// missed is how many readings in a row a cause may be missing, or name another, and still go on.
	missed = 2
	// retold is how often a cause that goes on is written again.
	retold = time.Minute
)

// causeID is what makes a cause, beside when it began.
type causeID struct {
	store.Key
	id string
}

// An interval is a cause that goes on.
type interval struct {
	store.Cause
	moment    int // the number of the node's newest Moment that has it
	absent    int // readings since then
	written   time.Time
	other     string    // whom it names for some readings now
	otherFrom time.Time // since when
	others    int       // how many readings
	most      gpu.Watts // that the device drew when the sentence was said
}

// observeCauses takes the answer in. What it says is about the time up to the Moment; after a gap all causes are new.
func (r *Recorder) observeCauses(n *node, m *insight.Moment, readAt time.Time, gap bool) {
	if gap {
		for id, c := range n.causes {
			if since := readAt.Sub(c.To); c.moment > 0 || since < 0 || since > r.longest() { // else it is of the run before
				r.endCause(n, id, c)
			}
		}
	}
	for i := range m.Answer.Machine {
		r.observeCause(n, store.Key{Node: n.name}, &m.Answer.Machine[i], readAt)
	}
	for i := range m.Answer.Devices {
		d := &m.Answer.Devices[i]
		for j := range d.Causes {
			r.observeCause(n, store.Key{Node: n.name, UUID: m.Snapshot.Devices[i].UUID}, &d.Causes[j], readAt)
		}
	}
	for id, c := range n.causes {
		if c.moment == n.moments {
			continue
		}
		if c.absent++; c.absent > missed {
			r.endCause(n, id, c)
		}
	}
}

func (r *Recorder) observeCause(n *node, key store.Key, cause *explain.Cause, readAt time.Time) {
	id := causeID{key, cause.ID}
	c := n.causes[id]
	if c == nil {
		c = &interval{Cause: store.Cause{Key: key, ID: cause.ID, From: readAt, Open: true, Who: cause.Who}, moment: n.moments}
		n.causes[id] = c
	}
	changed := c.Case != cause.Case || c.absent > 0
	c.moment, c.absent = n.moments, 0
	switch {
	case cause.Who == c.Who:
		c.others = 0
	case c.others == 0 || cause.Who != c.other:
		c.other, c.otherFrom, c.others = cause.Who, readAt, 1
	default:
		c.others++
	}
	if c.others > missed {
		if c.Who != "" || c.otherFrom.Sub(c.From) > r.longest() {
			before := c.Cause
			before.Open = false
			r.out.cause(before)
			c.From = c.otherFrom
		}
		c.Who, c.others, c.most, changed = c.other, 0, 0, true
	}
	if c.others == 0 {
		c.To = readAt
	}
	if draw := drawn(cause.Device); cause.Case != c.Case || draw >= c.most {
		c.Sentence, c.most = cause.Sentence, draw // its figures are those of when most went on, not of when it ended
	}
	c.Kind, c.Case, c.Short, c.Confidence = string(cause.Kind), cause.Case, cause.Short, float64(cause.Confidence)
	if since := readAt.Sub(c.written); changed || since < 0 || since >= retold {
		c.written = readAt
		r.out.cause(c.Cause)
	}
}

// drawn is what a device draws; 0 where that is not known, and of the machine.
func drawn(d *gpu.Device) gpu.Watts {
	if d == nil {
		return 0
	}
	return d.Power.Draw.Or(0)
}

// endCause ends a cause at when it was found last.
func (r *Recorder) endCause(n *node, id causeID, c *interval) {
	delete(n.causes, id)
	c.Open = false
	r.out.cause(c.Cause)
}
