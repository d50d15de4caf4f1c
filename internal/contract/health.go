package contract

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// Service answers GET / for a client that asks for JSON.
type Service struct {
	Service string `json:"service"`              // always "gpuwhy"
	Version string `json:"version"`              // gpuwhy's version
	Status  string `json:"status" enum:"status"` // the machine as a whole
	Source  string `json:"source" enum:"source"` // the source of the readings
	// Time of the newest snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
}

// NewService makes it.
func NewService(m Monitor, f *insight.Fleet) Service {
	p := NewProbe(m, f)
	return Service{Service: "gpuwhy", Version: p.Version, Status: p.Status, Source: p.Source, Timestamp: p.Timestamp}
}

// Probe answers GET /health, /health/ready and /health/live.
type Probe struct {
	Status     string `json:"status" enum:"status"` // the machine as a whole
	InstanceID string `json:"instance_id"`          // name of the machine
	Version    string `json:"version"`              // gpuwhy's version
	Source     string `json:"source" enum:"source"` // the source of the readings
	// Time of the newest snapshot; before the first reading, when the monitor started.
	Timestamp string `json:"timestamp" format:"date-time"`
}

// NewProbe makes it.
func NewProbe(m Monitor, f *insight.Fleet) Probe {
	sampledAt, source := m.head(f)
	return Probe{Status: string(f.Status()), InstanceID: m.Node, Version: m.Version, Source: source, Timestamp: sampledAt}
}

// MonitorHealth answers GET /api/health and GET /health/detailed.
type MonitorHealth struct {
	Probe
	Node              string          `json:"node"`                // name of the machine
	UptimeSeconds     float64         `json:"uptime_seconds"`      // time since gpuwhy started
	Reason            string          `json:"reason"`              // what failed and what to do; empty while all is well
	GPUCount          int             `json:"gpu_count"`           // the number of GPUs
	AnsweringGPUCount int             `json:"answering_gpu_count"` // the number of GPUs that answer
	Parts             map[string]Part `json:"parts"`               // The parts of the program by name: sampler, hub, each source.
}

// Part is one part of the program: the sampler, a source, the hub.
type Part struct {
	State       string  `json:"state" enum:"ok,starting,failed,absent"` // its state; "absent" is a source whose vendor has no GPU here
	LastSuccess *string `json:"last_success" format:"date-time"`        // when it last succeeded. Null before the first time
	// The newest error, even if it is over. Null if there was none.
	LastError   *string `json:"last_error"`
	LastErrorAt *string `json:"last_error_at" format:"date-time"` // when that error began. Null if there was none
	GPUCount    *int    `json:"gpu_count,omitempty"`              // the number of GPUs that a source reads; missing for other parts
	Absent      *string `json:"absent,omitempty"`                 // why a source is absent; otherwise missing
	// What people read as LastError who do not administer gpuwhy; empty: LastError.
	Discreet string `json:"-"`
}

// Nameless returns what strangers may know: everything but names and the texts of errors.
func (p Probe) Nameless() Probe {
	p.InstanceID = ""
	return p
}

// Nameless returns what strangers may know: everything but names and the texts of errors. Parts of a kind, such as clusters, are one:
// the worst.
func (h MonitorHealth) Nameless() MonitorHealth {
	h.Probe, h.Node, h.Reason = h.Probe.Nameless(), "", ""
	parts := map[string]Part{}
	worst := []string{"", "absent", "ok", "starting", "failed"}
	for _, name := range slices.Sorted(maps.Keys(h.Parts)) {
		kind, _, _ := strings.Cut(name, " ")
		p := h.Parts[name]
		if p.LastError, p.Absent = nil, nil; slices.Index(worst, p.State) > slices.Index(worst, parts[kind].State) {
			parts[kind] = p
		}
	}
	h.Parts = parts
	return h
}

// Discreet returns the parts as people may know them who do not administer gpuwhy: some errors name users of the machine.
func Discreet(parts map[string]Part) map[string]Part {
	out := maps.Clone(parts)
	for name, p := range out {
		if p.Discreet != "" {
			p.LastError = &p.Discreet
			out[name] = p
		}
	}
	return out
}

// A Member is the program's role in a fleet, for the page about it.
type Member struct {
	Joins         string            // the URL of its server; empty if another program runs it
	Shows         bool              // whether it shows what others publish
	Nodes, Silent int               // the number of other nodes
	Refused       map[string]uint64 // messages that could not be accepted, by the node that published them
	Publishes     bool              // whether it publishes what it reads
	Events, Past  int               // the numbers waiting to be delivered
}

// NewPart makes a part without an error. Unknown times are zero, here and below.
func NewPart(state string, lastSuccess time.Time) Part {
	return Part{State: state, LastSuccess: optionalTime(lastSuccess)}
}

// Failed returns the part with an error. An error that is not a [gpu.Advice] goes only to the log.
func (p Part) Failed(why error, since time.Time) Part {
	advice := gpu.AsAdvice(why)
	p.State, p.LastError, p.LastErrorAt = "failed", new(advice.Text()), optionalTime(since)
	return p
}

// NewSourcePart makes the part of a source. failure is nil if it has not failed.
func NewSourcePart(tried *gpu.Attempt, failure *gpu.Failure, lastSuccess time.Time) Part {
	p := NewPart("ok", lastSuccess)
	switch {
	case failure != nil:
		p = p.Failed(&failure.Advice, failure.Since)
	case !tried.Advice.IsZero():
		p.State, p.Absent = "absent", new(tried.Advice.What)
	}
	p.GPUCount = new(tried.Devices)
	return p
}

// NewMonitorHealth makes it for a program with this uptime.
func NewMonitorHealth(m Monitor, f *insight.Fleet, parts map[string]Part, uptime time.Duration) MonitorHealth {
	totals := f.Nodes().Totals()
	h := MonitorHealth{
		Probe:         NewProbe(m, f),
		Node:          m.Node,
		UptimeSeconds: inSeconds(uptime),
		Reason:        Reason(f.Nodes()), GPUCount: totals.Devices, AnsweringGPUCount: totals.Answering,
		Parts: parts,
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) { // failed sources are among what the machine says
		if p := parts[name]; p.State == "failed" && h.Status == string(gpu.StatusOK) {
			h.Status, h.Reason = string(gpu.StatusDegraded), *p.LastError
		}
	}
	return h
}
