package alert

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Kept is the state that survives a restart: everything except running hold and clear times, which
// restart as after any time without data.
type Kept struct {
	Node     string      `json:"node"` // the machine's name at that time
	Tracked  []keptThing `json:"tracked"`
	Silences []Silence   `json:"silences"`
	Past     []keptAlert `json:"past"`
	Ended    tally       `json:"ended,omitempty"` // recent counts per node; absent in files of earlier versions
}

type keptThing struct {
	Rule  string `json:"rule"`
	Watch Watch  `json:"watch"`
	gpu.Identity
	Alert *keptAlert `json:"alert,omitempty"`
	record
}

type keptAlert struct {
	Alert
	gpu.Identity
	Threshold *float64 `json:"threshold,omitempty"`
	Peak      *float64 `json:"peak,omitempty"`
}

func keepAlert(a *Alert) *keptAlert {
	k := &keptAlert{Alert: *a, Identity: a.Device}
	if t, ok := a.Threshold.Get(); ok {
		k.Threshold = &t
	}
	if p, ok := a.Peak.Get(); ok {
		k.Peak = &p
	}
	return k
}

func (k *keptAlert) alert(s State) *Alert {
	a := k.Alert
	a.State, a.Device = s, k.Identity
	if k.Threshold != nil {
		a.Threshold = gpu.Of(*k.Threshold)
	}
	if k.Peak != nil {
		a.Peak = gpu.Of(*k.Peak)
	}
	return &a
}

// Kept returns the state to keep over a restart.
func (e *Engine) Kept() Kept {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := Kept{Node: e.Node, Silences: slices.Clone(e.silences)}
	for _, t := range e.all() {
		for i := range t.states {
			st := &t.states[i]
			thing := keptThing{Rule: st.Name, Watch: st.Watch, Identity: t.device, record: st.record}
			if st.SinceStart {
				thing.Read, thing.Counted = 0, false
			}
			if st.alert != nil {
				thing.Alert = keepAlert(st.alert)
			} else {
				thing.Lately, thing.Newest = 0, time.Time{}
			}
			if thing.Alert != nil || thing.Counted || !thing.Over.IsZero() {
				out.Tracked = append(out.Tracked, thing)
			}
		}
	}
	for i := range e.past {
		out.Past = append(out.Past, *keepAlert(&e.past[i]))
	}
	out.Ended = e.ended.clone()
	return out
}

// Restore adds saved state to an engine. What the engine already has is newer: its open alerts and silences stay, beside the
// saved ones. Alerts about the machine, and silences of it alone, move to the machine's current name. Open alerts are in the
// state [NoData] until their device reports again; alerts whose rule is no longer in force are over, which the next Observe
// reports.
func (e *Engine) Restore(kept Kept, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	newer, made := e.past, e.silences
	e.past = nil
	for i := range kept.Past {
		a := kept.Past[i].alert(Resolved)
		if late := a.Time.Sub(now); late > 0 { // the clock was ahead
			a.shift(-late)
		}
		e.past = append(e.past, *a)
		if kept.Ended == nil {
			e.ended.add(a.Device.Node, a.Time)
		}
	}
	for node, list := range kept.Ended {
		if node == kept.Node {
			node = e.Node
		}
		e.ended[node] = append(e.ended[node], list...)
		slices.SortFunc(e.ended[node], func(a, b tallied) int { return int(a.Minute - b.Minute) })
	}
	e.past = append(e.past, newer...)
	e.past = e.past[max(0, len(e.past)-keptPast):]
	e.silences = append(kept.Silences[:min(len(kept.Silences), mostSilences-len(made))], made...)
	e.moveSilences(now)
	if kept.Node != "" && kept.Node != e.Node {
		e.renameSilences(Literally(kept.Node), Literally(e.Node))
		for i := range e.past {
			if a := &e.past[i]; a.Device.Node == kept.Node {
				a.Device.Node = e.Node
			}
		}
	}
	for i := range kept.Tracked {
		thing := &kept.Tracked[i]
		if thing.Node == kept.Node {
			thing.Node = e.Node
		}
		if a := thing.Alert; a != nil && a.Node == kept.Node {
			a.Node = e.Node
		}
		e.restore(thing, now)
	}
	e.pending = append(e.pending, e.markSilenced()...)
	return nil
}

// renameSilences makes silences of one machine cover it under its new name. Patterns that cover several machines stay
// unchanged.
func (e *Engine) renameSilences(oldName, newName string) {
	for i := range e.silences {
		if x := &e.silences[i]; x.Node == oldName {
			x.Node = newName
		}
	}
}

func (e *Engine) restore(thing *keptThing, now time.Time) {
	st := state{record: thing.record}
	if thing.Alert != nil {
		st.alert = thing.Alert.alert(NoData)
		if st.alert.Since.After(now) {
			st.alert.Since = now
		}
		st.alert.SilencedUntil = e.silencedUntil(st.alert)
	}
	st.notAfter(now)
	t := e.track(&thing.Identity)
	if !t.put(thing.Rule, thing.Watch, &st) && st.alert != nil {
		e.pending = append(e.pending, e.withoutRule(&st, now))
	}
	e.light(t)
}
