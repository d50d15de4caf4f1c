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

// Cause is one reason why a GPU is hot, loud or busy, or why that can't be told.
type Cause struct {
	ID         string     `json:"id"`                               // the same for as long as the cause stands
	Kind       string     `json:"kind"`                             // which rule found it; docs/why.md lists them
	Node       string     `json:"node"`                             // name of the machine
	GPUID      *int       `json:"gpu_id" unit:"count"`              // place by PCI address. Null where it is about the machine
	GPUUUID    *string    `json:"gpu_uuid"`                         // the GPU's key. Null where it is about the machine
	GPUName    *string    `json:"gpu_name"`                         // product name. Null where it is about the machine
	Sentence   string     `json:"sentence"`                         // for people, in plain English
	Confidence float64    `json:"confidence" unit:"count"`          // how likely it is the true one, 0 to 1: a judgment
	Certainty  string     `json:"certainty" enum:"high,medium,low"` // the same as a word
	Since      *string    `json:"since" format:"date-time"`         // when it began. Null where that was not seen
	Evidence   []Evidence `json:"evidence"`                         // the figures that it rests on
	Advice     string     `json:"advice"`                           // what would stop it; empty where there is nothing to do
}

// Evidence is one figure that a cause rests on.
type Evidence struct {
	Name  string  `json:"name"`                  // what was read
	Value Float   `json:"value" unit:"any"`      // in the unit beside it. Null where the evidence is a text
	Unit  string  `json:"unit"`                  // empty for a plain number or a text
	Text  string  `json:"text"`                  // the value for people, with its unit
	At    *string `json:"at" format:"date-time"` // when it was read or happened. Null where that is not known
	// whether the time in at is the evidence, and text has the same in words; left out where not
	Moment bool `json:"moment,omitempty"`
}

// Layers are an answer from the shortest text to more.
type Layers struct {
	Headline string `json:"headline"` // the answer in at most ten words, without figures but for the time until it is quiet
	// whether something is broken, and the headline says so: a GPU is lost or does not answer, a fan fails, or
	// no GPU can be read; left out where not
	Broken bool   `json:"broken,omitempty"`
	Facts  []Fact `json:"facts"`  // what it rests on, at most four
	Rest   string `json:"rest"`   // what else there is to know, in a line; may be empty
	Action Action `json:"action"` // what would stop it
	// What comes next, what is soonest first; left out where nothing can be told. /api/gpu/forecast says how well it is known.
	Next []Prospect `json:"next,omitempty"`
}

// Prospect is one thing that comes next.
type Prospect struct {
	Kind     string `json:"kind" enum:"memory_full,limit_reached,quiet,energy,cost,usually_free"` // what is forecast
	Text     string `json:"text"`                                                                 // in a few words, such as "memory full in about 26 min"
	Sentence string `json:"sentence"`                                                             // the same with the GPU and the interval
	Left     Float  `json:"left_seconds"`                                                         // time until it comes. Null of what has no such time
}

// Fact is a short text for people, such as a reading with its unit.
type Fact struct {
	Text    string `json:"text"`    // such as "85 °C"
	Warning bool   `json:"warning"` // whether it is near a limit, or beyond it
}

// Action is what a person can do. gpuwhy never does it.
type Action struct {
	Text    string `json:"text"`    // a sentence or two; empty where there is nothing to do
	Command string `json:"command"` // the exact command for it; empty where there is none
}

// NewLayers makes them of the answer about a machine.
func NewLayers(a *explain.Answer) Layers { return newLayers(&a.Layers, a.Broken()) }

// NewLayersOfOne makes them of the answer about one device.
func NewLayersOfOne(a *explain.DeviceAnswer) Layers {
	l := newLayers(&a.Layers, len(a.Causes) > 0 && a.Causes[0].Broken())
	l.Next = nextOf(a)
	return l
}

// nextOf is what comes next of a device; nil where nothing can be told.
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
	Timestamp string `json:"timestamp" format:"date-time"` // of the snapshot; the monitor's start, before the first
	Node      string `json:"node"`                         // name of the machine
	Source    string `json:"source" enum:"source"`         // where the readings come from
	Layers
	Why    string   `json:"why"`    // the answer in one sentence
	Causes []Cause  `json:"causes"` // all causes: of the machine, then of each GPU, the loudest first
	GPUs   []GPUWhy `json:"gpus"`   // each GPU's answer in one sentence, by gpu_id
}

// GPUWhy is the answer about one GPU, in one sentence.
type GPUWhy struct {
	GPUID   int    `json:"gpu_id"`               // place by PCI address
	GPUUUID string `json:"gpu_uuid"`             // the GPU's key
	GPUName string `json:"gpu_name"`             // product name
	Node    string `json:"node"`                 // name of the machine
	Source  string `json:"source" enum:"source"` // where the readings come from
	State   string `json:"state" enum:"state"`   // whether the GPU can be read
	Layers
	Why string `json:"why"` // the answer in one sentence
}

// OneWhy answers GET /api/gpu/why/{id}: one GPU's answer with its causes.
type OneWhy struct {
	Timestamp string `json:"timestamp" format:"date-time"` // of the snapshot
	GPUWhy
	Causes []Cause `json:"causes"` // the most important first
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

// mostCauses is how many causes an update has: those of the loudest GPUs. /api/gpu/why has all.
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
