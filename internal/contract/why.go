package contract

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// Cause is one reason why a GPU is hot, loud or busy, or why that is unknown.
type Cause struct {
	ID         string     `json:"id"`                               // the cause's key, unchanged while it stands
	Kind       string     `json:"kind"`                             // which rule found it; docs/why.md lists them
	Node       string     `json:"node"`                             // name of the machine
	GPUID      *int       `json:"gpu_id" unit:"count"`              // place by PCI address. Null if it is about the machine
	GPUUUID    *string    `json:"gpu_uuid"`                         // the GPU's key. Null if it is about the machine
	GPUName    *string    `json:"gpu_name"`                         // product name. Null if it is about the machine
	Sentence   string     `json:"sentence"`                         // for people, in plain English
	Confidence float64    `json:"confidence" unit:"count"`          // how likely it is to be the true cause, 0 to 1: a judgment
	Certainty  string     `json:"certainty" enum:"high,medium,low"` // the same as a word
	Since      *string    `json:"since" format:"date-time"`         // when it began. Null if that was not seen
	Evidence   []Evidence `json:"evidence"`                         // the figures it is based on
	Advice     string     `json:"advice"`                           // what would stop it; empty if there is nothing to do
}

// Evidence is one figure that a cause is based on.
type Evidence struct {
	Name  string  `json:"name"`                  // what was read
	Value Float   `json:"value" unit:"any"`      // the value, in unit. Null if the evidence is text
	Unit  string  `json:"unit"`                  // unit of value; empty for a plain number or text
	Text  string  `json:"text"`                  // the value for people, with its unit
	At    *string `json:"at" format:"date-time"` // when it was read or happened. Null if unknown
	// whether the time in at is the evidence, which text then says in words; left out if false
	Moment bool `json:"moment,omitempty"`
}

// Layers are an answer, from its shortest form to more detail.
type Layers struct {
	Headline string `json:"headline"` // the answer in at most ten words, without figures except the time until it is quiet
	// whether the headline reports something broken: a GPU is lost or does not answer, a fan fails, or no
	// GPU can be read; left out if false
	Broken bool   `json:"broken,omitempty"`
	Facts  []Fact `json:"facts"`  // the main figures, at most four
	Rest   string `json:"rest"`   // what else to know, in one line; may be empty
	Action Action `json:"action"` // what would stop it
	// What comes next, soonest first; left out if there is no forecast. /api/gpu/forecast says how reliable each is.
	Next []Prospect `json:"next,omitempty"`
}

// Prospect is one thing that comes next.
type Prospect struct {
	Kind     string `json:"kind" enum:"memory_full,limit_reached,quiet,energy,cost,usually_free"` // what is forecast
	Text     string `json:"text"`                                                                 // in a few words, such as "memory full in about 26 min"
	Sentence string `json:"sentence"`                                                             // the same, with the GPU and the interval
	Left     Float  `json:"left_seconds"`                                                         // time until then. Null for forecasts without such a time
}

// Fact is a short text for people, such as a reading with its unit.
type Fact struct {
	Text    string `json:"text"`    // such as "85 °C"
	Warning bool   `json:"warning"` // whether it is near or beyond a limit
}

// Action is what a person can do. gpuwhy never does it.
type Action struct {
	Text    string `json:"text"`    // a sentence or two; empty if there is nothing to do
	Command string `json:"command"` // the exact command; empty if there is none
}

// NewLayers makes them of the answer about a machine.
func NewLayers(a *explain.Answer) Layers { return newLayers(&a.Layers, a.Broken()) }

// NewLayersOfOne makes them of the answer about one device.
func NewLayersOfOne(a *explain.DeviceAnswer) Layers {
	l := newLayers(&a.Layers, len(a.Causes) > 0 && a.Causes[0].Broken())
	l.Next = nextOf(a)
	return l
}

// nextOf is what comes next for a device; nil without forecasts.
func nextOf(a *explain.DeviceAnswer) (out []Prospect) {
	for _, p := range a.Next {
		left := gpu.Map(p.Left, func(d time.Duration) float64 { return math.Round(d.Seconds()) })
		out = append(out, Prospect{p.Kind, p.Short, p.Sentence, left})
	}
	return out
}

func newLayers(l *explain.Layers, broken bool) Layers {
	return Layers{l.Headline, broken, listOf(l.Facts, func(f *explain.Fact) Fact { return Fact(*f) }), l.Rest, Action(l.Action), nil}
}

// Why answers GET /api/gpu/why: why the machine's fans run.
type Why struct {
	Timestamp string `json:"timestamp" format:"date-time"` // time of the snapshot; before the first, when the monitor started
	Node      string `json:"node"`                         // name of the machine
	Source    string `json:"source" enum:"source"`         // the source of the readings
	Layers
	Why    string   `json:"why"`    // the answer in one sentence
	Causes []Cause  `json:"causes"` // all causes: first the machine's, then each GPU's, loudest first
	GPUs   []GPUWhy `json:"gpus"`   // each GPU's answer in one sentence, by gpu_id
}

// GPUWhy is the answer about one GPU, in one sentence.
type GPUWhy struct {
	GPUID   int    `json:"gpu_id"`               // place by PCI address
	GPUUUID string `json:"gpu_uuid"`             // the GPU's key
	GPUName string `json:"gpu_name"`             // product name
	Node    string `json:"node"`                 // name of the machine
	Source  string `json:"source" enum:"source"` // the source of the readings
	State   string `json:"state" enum:"state"`   // whether gpuwhy can read the GPU
	Layers
	Why string `json:"why"` // the answer in one sentence
}

// OneWhy answers GET /api/gpu/why/{id}: one GPU's answer with its causes.
type OneWhy struct {
	Timestamp string `json:"timestamp" format:"date-time"` // of the snapshot
	GPUWhy
	Causes []Cause `json:"causes"` // most important first
}

// NewWhy makes it.
func NewWhy(m Monitor, f *insight.Fleet) Why {
	a := f.Answer()
	out := Why{Node: m.node(f), Layers: NewLayers(a), Why: a.Sentence, Causes: m.causes(a.Causes()), GPUs: listOf(a.Devices, newGPUWhy)}
	out.Timestamp, out.Source = m.head(f)
	for i := range a.Devices {
		out.Next = append(out.Next, nextOf(&a.Devices[i])...)
	}
	slices.SortStableFunc(out.Next, func(a, b Prospect) int { return cmp.Compare(a.Left.Or(math.Inf(1)), b.Left.Or(math.Inf(1))) })
	return out
}

// NewOneWhy makes it of the answer about one device.
func NewOneWhy(p insight.Part) OneWhy {
	return OneWhy{timestamp(p.Snapshot.Time), newGPUWhy(p.Why), newCauses(p.Why.Causes)}
}

func newGPUWhy(a *explain.DeviceAnswer) GPUWhy {
	d := a.Device
	return GPUWhy{d.Index, d.UUID, d.Name, d.Node, d.Source, string(d.State), NewLayersOfOne(a), a.Sentence}
}

// mostCauses is how many causes an update lists, those of the loudest GPUs. /api/gpu/why has all.
const mostCauses = 64

// causes are newCauses. Causes about no node get the name of the monitor's node.
func (m Monitor) causes(causes []explain.Cause) []Cause {
	out := newCauses(causes)
	for i := range out {
		out[i].Node = cmp.Or(out[i].Node, m.Node)
	}
	return out
}

func newCauses(causes []explain.Cause) []Cause { return listOf(causes, newCause) }

func newCause(c *explain.Cause) Cause {
	out := Cause{
		ID: c.ID, Kind: string(c.Kind), Node: c.Node, Sentence: c.Sentence,
		Confidence: float64(c.Confidence), Certainty: c.Confidence.String(),
		Since: optionalTime(c.Since), Evidence: listOf(c.Evidence, newEvidence), Advice: c.Advice,
	}
	if d := c.Device; d != nil {
		out.Node, out.GPUID, out.GPUUUID, out.GPUName = d.Node, new(d.Index), new(d.UUID), new(d.Name)
	}
	return out
}

func newEvidence(e *explain.Evidence) Evidence {
	return Evidence{e.Name, e.Value, e.Unit, e.Text, optionalTime(e.At), e.Moment}
}
