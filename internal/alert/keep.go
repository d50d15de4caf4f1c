package alert

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// kept is what is remembered over a restart: all but hold and clear times under
// way, which begin anew as after any time without data.
type kept struct {
	Version  int         `json:"version"`
	Source   string      `json:"source"`
	Node     string      `json:"node"` // the machine's name at that time
	Tracked  []keptThing `json:"tracked"`
	Silences []Silence   `json:"silences"`
	Past     []keptAlert `json:"past"`
}

const keptVersion = 1

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
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Watch    Watch    `json:"watch"`
	Severity Severity `json:"severity"`
	keptIdentity
	Unit         string          `json:"unit,omitzero"`
	Threshold    *float64        `json:"threshold,omitempty"`
	Since        time.Time       `json:"since"`
	Time         time.Time       `json:"time"`
	Message      string          `json:"message"`
	Advice       string          `json:"advice,omitzero"`
	Acknowledged *Acknowledgment `json:"acknowledged,omitempty"`
}

func keepAlert(a *Alert) *keptAlert {
	k := &keptAlert{
		ID: a.ID, Rule: a.Rule, Watch: a.Watch, Severity: a.Severity, keptIdentity: keepIdentity(&a.Device), Unit: a.Unit,
		Since: a.Since, Time: a.Time, Message: a.Message, Advice: a.Advice, Acknowledged: a.Acknowledged,
	}
	if t, ok := a.Threshold.Get(); ok {
		k.Threshold = &t
	}
	return k
}

func (k *keptAlert) alert(s State) *Alert {
	a := &Alert{
		ID: k.ID, Rule: k.Rule, Watch: k.Watch, Severity: k.Severity, State: s, Device: k.identity(), Unit: k.Unit,
		Since: k.Since, Time: k.Time, Message: k.Message, Advice: k.Advice, Acknowledged: k.Acknowledged,
	}
	if k.Threshold != nil {
		a.Threshold = gpu.Of(*k.Threshold)
	}
	return a
}

// Keep returns what is to be remembered over a restart. Source says where
// readings come from: what is kept of one is not for another. Node is the
// machine's name.
func (e *Engine) Keep(source, node string) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := kept{Version: keptVersion, Source: source, Node: node, Tracked: []keptThing{}, Silences: e.silences, Past: []keptAlert{}}
	for _, t := range e.tracked {
		for i := range t.states {
			st := &t.states[i]
			counted := st.counted && !e.watches[i].sinceStart
			if st.alert == nil && !counted && st.over.IsZero() {
				continue
			}
			thing := keptThing{Rule: e.rules[i].Name, Watch: e.rules[i].Watch, keptIdentity: keepIdentity(&t.device), Over: st.over, Told: st.told, Hushed: st.hushed}
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
	return json.Marshal(out)
}

// Restore fills an engine that has seen nothing with what Keep returned for the
// same source; what is another's is an error. What was the machine's is, under
// whatever name it has now. Alerts that stood are in the state [NoData] until
// their device reports again; those whose rule is not in force any more are
// over, which the next Observe says.
func (e *Engine) Restore(text []byte, source, node string, now time.Time) error {
	var in kept
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("alert: what was kept can't be read: %w", err)
	}
	switch {
	case in.Version != keptVersion:
		return fmt.Errorf("alert: what was kept is of version %d, not %d", in.Version, keptVersion)
	case in.Source != source:
		return fmt.Errorf("alert: what was kept is about %q, not %q", in.Source, source)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range in.Past {
		e.past = append(e.past, *in.Past[i].alert(Resolved))
	}
	e.past = e.past[max(0, len(e.past)-keptPast):]
	e.silences = in.Silences[:min(len(in.Silences), mostSilences)]
	for i := range e.silences { // the clock may have been set back
		if last := now.Add(longestSilence); e.silences[i].Until.After(last) {
			e.silences[i].Until = last
		}
	}
	for i := range in.Tracked {
		thing := &in.Tracked[i]
		if thing.Node == in.Node {
			thing.Node = node
		}
		if a := thing.Alert; a != nil && a.Node == in.Node {
			a.Node = node
		}
		e.restore(thing, now)
	}
	return nil
}

func (e *Engine) restore(thing *keptThing, now time.Time) {
	device := thing.identity()
	k := key{node: device.Node, uuid: device.UUID, source: sourceOf(&device)}
	j := slices.IndexFunc(e.rules, func(r Rule) bool { return r.Name == thing.Rule && r.Watch == thing.Watch })
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
