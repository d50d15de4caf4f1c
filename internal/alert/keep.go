package alert

import (
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Kept is what is kept over a restart: all but hold and clear times under way,
// which begin anew as after any time without data.
type Kept struct {
	Node     string      `json:"node"` // the machine's name at that time
	Tracked  []keptThing `json:"tracked"`
	Silences []Silence   `json:"silences"`
	Past     []keptAlert `json:"past"`
}

type keptThing struct {
	Rule  string `json:"rule"`
	Watch Watch  `json:"watch"`
	keptIdentity
	Alert   *keptAlert `json:"alert,omitempty"`
	Over    time.Time  `json:"over,omitzero"`
	Told    time.Time  `json:"told,omitzero"`
	Hushed  bool       `json:"hushed,omitzero"`
	Read    float64    `json:"read,omitzero"`
	Counted bool       `json:"counted,omitzero"`
	Lately  float64    `json:"lately,omitzero"`
	Newest  time.Time  `json:"newest,omitzero"`
}

type keptIdentity struct {
	Node   string     `json:"node"`
	UUID   string     `json:"uuid,omitzero"`
	Index  int        `json:"index"`
	Source string     `json:"source"`
	Name   string     `json:"name,omitzero"`
	PCI    string     `json:"pci,omitzero"`
	Vendor gpu.Vendor `json:"vendor,omitzero"`
}

func keepIdentity(d *gpu.Identity) keptIdentity {
	return keptIdentity{d.Node, d.UUID, d.Index, d.Source, d.Name, d.PCI, d.Vendor}
}

func (k *keptIdentity) identity() gpu.Identity {
	return gpu.Identity{Node: k.Node, UUID: k.UUID, Index: k.Index, Source: k.Source, Name: k.Name, PCI: k.PCI, Vendor: k.Vendor}
}

type keptAlert struct {
	Alert
	keptIdentity
	Threshold *float64 `json:"threshold,omitempty"`
}

func keepAlert(a *Alert) *keptAlert {
	k := &keptAlert{Alert: *a, keptIdentity: keepIdentity(&a.Device)}
	if t, ok := a.Threshold.Get(); ok {
		k.Threshold = &t
	}
	return k
}

func (k *keptAlert) alert(s State) *Alert {
	a := k.Alert
	a.State, a.Device = s, k.identity()
	if k.Threshold != nil {
		a.Threshold = gpu.Of(*k.Threshold)
	}
	return &a
}

// Kept returns what is to be kept over a restart.
func (e *Engine) Kept() Kept {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := Kept{Node: e.Node, Silences: slices.Clone(e.silences)}
	for _, t := range e.tracked {
		for i := range t.states {
			st := &t.states[i]
			counted := st.counted && !e.watches[i].sinceStart
			if st.alert == nil && !counted && st.over.IsZero() {
				continue
			}
			thing := keptThing{
				Rule: e.rules[i].Name, Watch: e.rules[i].Watch, keptIdentity: keepIdentity(&t.device),
				Over: st.over, Told: st.told, Hushed: st.hushed,
			}
			if st.alert != nil {
				thing.Alert = keepAlert(st.alert)
				thing.Lately, thing.Newest = st.lately, st.newest
			}
			if counted {
				thing.Read, thing.Counted = st.read, true
			}
			out.Tracked = append(out.Tracked, thing)
		}
	}
	for i := range e.past {
		out.Past = append(out.Past, *keepAlert(&e.past[i]))
	}
	return out
}

// Restore fills an engine that has seen nothing. What was about the machine is
// about it under the name that it has now. Alerts that stood are in the state
// [NoData] until their device reports again; those whose rule is not in force any
// more are over, which the next Observe says.
func (e *Engine) Restore(kept Kept, now time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range kept.Past {
		e.past = append(e.past, *kept.Past[i].alert(Resolved))
	}
	e.past = e.past[max(0, len(e.past)-keptPast):]
	e.silences = kept.Silences[:min(len(kept.Silences), mostSilences)]
	for i := range e.silences { // the clock may have been set back
		if last := now.Add(longestSilence); e.silences[i].Until.After(last) {
			e.silences[i].Until = last
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
	return nil
}

func (e *Engine) restore(thing *keptThing, now time.Time) {
	device := thing.identity()
	k := key{node: device.Node, uuid: device.UUID, source: sourceOf(&device)}
	j := e.ruleOf(thing.Rule, thing.Watch)
	t := e.track(k)
	t.device = device
	if j < 0 || !t.states[j].covered {
		if thing.Alert != nil {
			e.pending = append(e.pending, e.end(withoutRule(thing.Alert.alert(Firing), now), !thing.Told.IsZero()))
		}
		return
	}
	st := &t.states[j]
	st.over, st.told, st.hushed = thing.Over, thing.Told, thing.Hushed
	defer st.notAfter(now)
	st.read, st.counted, st.lately, st.newest = thing.Read, thing.Counted, thing.Lately, thing.Newest
	if thing.Alert != nil {
		st.alert = thing.Alert.alert(NoData)
		if st.alert.Since.After(now) {
			st.alert.Since = now
		}
		st.alert.SilencedUntil = e.silencedUntil(st.alert)
	}
}
