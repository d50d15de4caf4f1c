package contract

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// PastSpan is the span of time that an answer is about.
type PastSpan struct {
	From     string `json:"from" format:"date-time"` // when it begins
	To       string `json:"to" format:"date-time"`   // when it ends
	TimeZone string `json:"time_zone"`               // zone used for words such as "last night": a name, or the offset from UTC
	// The kinds of GPUs with readings in the span: simulated and recorded data is not from this machine. If there is
	// more than one kind, sums include all of them.
	Kinds []gpu.Kind `json:"gpu_kinds" enum:"live,simulated,recorded"`
}

// NewPastSpan makes it, in from's time zone.
func NewPastSpan(from, to time.Time, kinds []gpu.Kind) PastSpan {
	zone := from.Location().String()
	if zone == "Local" { // on a system that has no name for its zone
		zone = from.Format("-07:00")
	}
	return PastSpan{timestamp(from), timestamp(to), zone, append([]gpu.Kind{}, kinds...)}
}

// PastGPU names a GPU, even one that is gone.
type PastGPU struct {
	GPUID   int    `json:"gpu_id"`   // last known place by PCI address
	GPUUUID string `json:"gpu_uuid"` // the GPU's key
	GPUName string `json:"gpu_name"` // product name
	Node    string `json:"node"`     // name of the GPU's machine
	// Whether its readings are real; empty if unknown.
	GPUKind gpu.Kind `json:"gpu_kind" enum:"live,simulated,recorded,"`
}

func pastGPU(d *store.Device) PastGPU { return PastGPU{d.Index, d.UUID, d.Name, d.Node, d.Kind} }

// History answers GET /api/gpu/history.
type History struct {
	PastSpan
	Step float64 `json:"step_seconds"` // time between two points; each point covers the step that begins then
	// What the points are made from: single readings, or rows of a minute, a quarter of an hour or six
	// hours.
	Tier   string          `json:"tier" enum:"raw,1m,15m,6h"`
	Start  string          `json:"start" format:"date-time"` // time of the first point, never before from: steps are aligned to multiples of the step since 1970
	Points int             `json:"point_count"`              // the number of points in each list
	GPUs   []HistorySeries `json:"gpus"`                     // one entry per GPU with data, by machine and place
	// One entry per machine, for machine metrics; left out if there is none.
	Machines []HistoryMachine `json:"machines,omitempty"`
}

// HistorySeries is the past of one GPU.
type HistorySeries struct {
	PastGPU
	Metrics map[string]HistoryMetric `json:"metrics"` // by metric name
}

// HistoryMachine is the past of one machine.
type HistoryMachine struct {
	Node    string                   `json:"node"`    // name of the machine
	Metrics map[string]HistoryMetric `json:"metrics"` // by metric name
}

// HistoryMetric is one metric over time: one value per point, null if there was no reading.
type HistoryMetric struct {
	Unit  string  `json:"unit"`             // empty for a plain number
	Mean  []Float `json:"mean" unit:"any"`  // over the readings of the step
	Least []Float `json:"least" unit:"any"` // over the readings of the step
	Most  []Float `json:"most" unit:"any"`  // over the readings of the step
}

// NewHistory makes it from series. devices are the devices that the store knows.
func NewHistory(span PastSpan, g history.Grid, columns store.Columns, devices map[store.Key]store.Device, series []history.Series) History {
	out := History{
		PastSpan: span, Step: inSeconds(g.Step), Tier: g.Tier.String(), Start: timestamp(g.From), Points: g.Len(),
		GPUs: []HistorySeries{},
	}
	for i := range series {
		s := &series[i]
		metrics := make(map[string]HistoryMetric, len(columns))
		for c, column := range columns {
			metrics[column.Name] = newHistoryMetric(column.Unit, s.Values[c])
		}
		d, known := devices[s.Key]
		switch {
		case s.UUID == "":
			out.Machines = append(out.Machines, HistoryMachine{s.Node, metrics})
		case known:
			out.GPUs = append(out.GPUs, HistorySeries{pastGPU(&d), metrics})
		}
	}
	return out
}

func newHistoryMetric(unit string, values []store.Value) HistoryMetric {
	list := func(value func(*store.Value) float64) []Float {
		return listOf(values, func(v *store.Value) Float {
			if v.Count == 0 {
				return Float{}
			}
			return gpu.Of(value(v))
		})
	}
	return HistoryMetric{
		Unit:  unit,
		Mean:  list(func(v *store.Value) float64 { return v.Mean }),
		Least: list(func(v *store.Value) float64 { return v.Least }),
		Most:  list(func(v *store.Value) float64 { return v.Most }),
	}
}

// PastSession is one process on one GPU, from when it was first seen to when it was last seen.
type PastSession struct {
	PastGPU
	PID     int     `json:"pid"`                        // process id; another process may have had it at another time
	Started *string `json:"started" format:"date-time"` // when the process started. Null if unknown
	User    string  `json:"user"`                       // user of the process; empty if unknown
	Name    string  `json:"name"`                       // name of the process
	Program string  `json:"program"`                    // the usual name of what ran; empty if it may not be shown
	Command string  `json:"command"`                    // command line; empty if it may not be shown
	// What it belonged to; empty if none or unknown.
	Container string `json:"container"` // name or ID
	Image     string `json:"image"`     // image of the container
	Pod       string `json:"pod"`       // "namespace/name"
	Unit      string `json:"unit"`      // systemd unit
	Job       string `json:"job"`       // "slurm:1234"

	From    string  `json:"from" format:"date-time"`                   // when it was first seen on the GPU
	To      string  `json:"to" format:"date-time"`                     // when it was last seen
	Outcome string  `json:"outcome" enum:"open,ended,unseen,gpu_lost"` // how it ended
	Seen    float64 `json:"seen_seconds"`                              // how much of that time gpuwhy was reading
	Busy    float64 `json:"busy_seconds"`                              // how much of that time it was seen to work

	PeakMemory Bytes   `json:"peak_memory_mb"`       // the most memory it held. Null if the driver never reported it
	MeanMemory Bytes   `json:"mean_memory_mb"`       // the mean memory it held. Null if the driver never reported it
	SMSeconds  Float   `json:"sm_seconds"`           // the same work expressed as time of all multiprocessors. Null if no driver reported it
	Joules     Joules  `json:"energy_joules"`        // its estimated share of the energy above idle. Null if it was never known
	Known      float64 `json:"energy_known_seconds"` // how much of the time the energy is known for
	// How much of the time the energy is estimated for, because the GPU's idle draw was unknown.
	Estimated float64 `json:"energy_estimated_seconds"`
	Method    string  `json:"energy_method"` // how the power draw was split: sm_share, memory or mixed; estimated if part of it is estimated; empty if it was not split
	Accounted bool    `json:"accounted"`     // whether only the driver's accounting reported it, afterwards: gpuwhy never saw it run
}

// NewPastSession makes it from a session on a device.
func NewPastSession(s *store.Session, d *store.Device) PastSession {
	out := PastSession{PastGPU: pastGPU(d)}
	sessionTold.fill(&out, s)
	if s.MemoryKnown > 0 {
		out.MeanMemory = gpu.Of(gpu.Bytes(s.MemorySeconds / s.MemoryKnown.Seconds()))
	}
	if s.SMKnown > 0 {
		out.SMSeconds = gpu.Of(s.SMSeconds)
	}
	if s.JoulesMethod == store.Estimated {
		out.Known, out.Estimated = 0, out.Known
	}
	if s.JoulesKnown > 0 {
		out.Joules = gpu.Of(gpu.Joules(s.Joules))
	}
	return out
}

// PastUsage answers GET /api/gpu/usage.
type PastUsage struct {
	PastSpan
	By    string     `json:"by" enum:"user,process,job,pod,container,unit,gpu,node,cluster"` // what the sums are grouped by
	Price Float      `json:"price_per_kwh" unit:"any"`                                       // price of electricity. Null if none is set
	Rows  []UsageRow `json:"usage"`                                                          // longest held first
}

// UsageRow is the usage of one user, program, job, pod, container, systemd unit, GPU, machine or
// cluster.
type UsageRow struct {
	Name string   `json:"name"`          // its name; empty if unknown, or for processes outside any job, pod, container or unit
	User string   `json:"user"`          // user of a program; otherwise empty
	GPU  *PastGPU `json:"gpu,omitempty"` // the GPU, in usage by GPU; otherwise left out

	Sessions int      `json:"session_count"` // the number of processes on GPUs
	Devices  int      `json:"gpu_count"`     // the number of GPUs they were on
	Held     float64  `json:"gpu_hours"`     // how long they held GPUs
	Busy     float64  `json:"busy_hours"`    // how much of that time they worked
	Idle     float64  `json:"idle_hours"`    // how much of that time they only held them
	SMHours  *float64 `json:"sm_hours"`      // the same work expressed as time of all multiprocessors. Null if no driver reported it
	KWh      *float64 `json:"energy_kwh"`    // estimated energy above idle; for a GPU, machine or cluster, all energy of its GPUs, unless one user's share is requested. Null if it was never known
	Known    float64  `json:"energy_known"`  // the share of the time, 0 to 1, that the energy is known for
	// The share of the time, 0 to 1, that the energy is estimated for, because the GPUs' idle draw was unknown.
	Estimated float64  `json:"energy_estimated"`
	Cost      *float64 `json:"cost" unit:"any"` // cost of the energy. Null without a price
	Peak      Bytes    `json:"peak_memory_mb"`  // the most memory that one process held. Null if the driver never reported it
}

// NewPastUsage makes it. A price of 0 means no price.
func NewPastUsage(span PastSpan, grouping history.Grouping, price float64, devices map[store.Key]store.Device, list []history.Usage) PastUsage {
	out := PastUsage{PastSpan: span, By: string(grouping)}
	if price > 0 {
		out.Price = gpu.Of(price)
	}
	out.Rows = listOf(list, func(u *history.Usage) UsageRow {
		row := UsageRow{
			Name: u.Name, User: u.User, Sessions: u.Sessions, Devices: u.Devices, Held: inHours(u.Held), Busy: inHours(u.Busy),
			Idle: inHours(u.Held - u.Busy), SMHours: fine(u.SMSeconds, 1.0/3600), KWh: fine(u.KWh(), 1),
			Known: u.JoulesKnown, Estimated: u.JoulesEstimated, Peak: u.PeakMemory,
		}
		if price > 0 {
			row.Cost = fine(u.KWh(), price)
		}
		if grouping == history.ByCluster {
			row.Name = cmp.Or(row.Name, LocalCluster)
		}
		if d, known := devices[u.Key]; known && grouping == history.ByGPU {
			row.Name, row.GPU = d.Name, new(pastGPU(&d))
		}
		return row
	})
	return out
}

// fine is a reading times a factor, to six decimals instead of the usual two; nil if it is absent.
func fine(r Float, factor float64) *float64 {
	return pointer(gpu.Map(r, func(v float64) float64 { return math.Round(v*factor*1e6) / 1e6 }))
}

func inHours(d time.Duration) float64 { return inSeconds(d) / 3600 }

// PastWhy answers GET /api/gpu/why with a span.
type PastWhy struct {
	PastSpan
	Sentence string        `json:"why"`      // what happened, in order of time
	Chapters []PastChapter `json:"chapters"` // work and failures, in order of time; at most a thousand
	Causes   []PastCause   `json:"causes"`   // the causes, with their times; at most a thousand
	// The value of start for the next chapters and causes. Null if there are no more.
	Next *int `json:"next" unit:"any"`
}

// MostCauses is how many causes and how many chapters an answer about the past lists at once.
const MostCauses = 1000

// PastChapter is one thing that happened on a GPU for a while.
type PastChapter struct {
	PastGPU
	From     string  `json:"from" format:"date-time"` // when it began
	To       string  `json:"to" format:"date-time"`   // when it ended
	Kind     string  `json:"kind"`                    // which rule found it
	Who      string  `json:"who"`                     // who worked, or who kept the GPU awake; empty if unknown
	Others   int     `json:"other_count"`             // the number of others who worked at the same time
	Mean     Percent `json:"utilization_percent"`     // mean utilization while it lasted. Null if nothing was read
	Cooled   float64 `json:"cooled_seconds"`          // how long the GPU cooled down afterwards; 0 if not seen
	Sentence string  `json:"sentence"`                // for people
}

// PastCause is a cause with the time during which it stood.
type PastCause struct {
	ID      string  `json:"id"`       // the cause's key, unchanged while it stands
	Kind    string  `json:"kind"`     // which rule found it
	Node    string  `json:"node"`     // name of the machine
	GPUUUID *string `json:"gpu_uuid"` // the GPU's key. Null if it is about the machine
	// Whether the GPU's readings are real; empty if unknown or if it is about the machine.
	GPUKind    gpu.Kind `json:"gpu_kind" enum:"live,simulated,recorded,"`
	From       string   `json:"from" format:"date-time"` // when it began
	To         string   `json:"to" format:"date-time"`   // when it was last seen
	Open       bool     `json:"open"`                    // whether it is still going on
	Sentence   string   `json:"sentence"`                // the sentence from the time of the highest power draw
	Confidence float64  `json:"confidence"`              // how likely it is to be the true cause, 0 to 1
}

// NewPastWhy makes it, skipping the first chapters. causes are already the ones to list, plus one more if there are more.
func NewPastWhy(span PastSpan, s *history.Story, causes []store.Cause, first int, devices map[store.Key]store.Device) PastWhy {
	chapters := s.Chapters[min(first, len(s.Chapters)):]
	out := PastWhy{PastSpan: span, Sentence: s.Sentence}
	if max(len(chapters), len(causes)) > MostCauses {
		out.Next = new(first + MostCauses)
	}
	out.Chapters = listOf(chapters[:min(len(chapters), MostCauses)], func(c *history.Chapter) PastChapter { return NewPastChapter(s, c, devices) })
	out.Causes = listOf(causes[:min(len(causes), MostCauses)], func(c *store.Cause) PastCause { return NewPastCause(c, devices) })
	return out
}

// NewPastChapter makes it from a chapter of a story.
func NewPastChapter(s *history.Story, c *history.Chapter, devices map[store.Key]store.Device) PastChapter {
	d := devices[c.Key]
	return PastChapter{
		PastGPU: pastGPU(&d), From: timestamp(c.From), To: timestamp(c.To), Kind: c.Kind, Who: c.Who, Others: c.Others,
		Mean: c.Utilization, Cooled: inSeconds(c.Cooled), Sentence: s.Tell(c),
	}
}

// NewPastCause makes it.
func NewPastCause(c *store.Cause, devices map[store.Key]store.Device) PastCause {
	out := PastCause{Node: c.Node}
	causeTold.fill(&out, c)
	if c.UUID != "" {
		out.GPUUUID, out.GPUKind = new(c.UUID), devices[c.Key].Kind
	}
	return out
}

// PastMoment answers GET /api/gpu/at.
type PastMoment struct {
	Asked string `json:"asked" format:"date-time"` // the requested time
	Found string `json:"found" format:"date-time"` // when the snapshot was read: the last one up to that time
	Then  Update `json:"then"`                     // the machine as it was then. Its answer is recomputed from the stored data
}

// NewPastMoment makes it.
func NewPastMoment(asked time.Time, m *insight.Moment) PastMoment {
	return PastMoment{timestamp(asked), timestamp(m.Snapshot.Time), NewUpdate(m, nil)}
}

// PastEvent is something that happened.
type PastEvent struct {
	ID       string  `json:"id"`                      // the event's key
	Time     string  `json:"time" format:"date-time"` // when it happened
	Kind     string  `json:"kind"`                    // such as "xid" or "alert_fired"
	Severity string  `json:"severity"`                // "info", "warning" or "critical"; empty if none
	Node     string  `json:"node"`                    // name of the machine
	GPUUUID  *string `json:"gpu_uuid"`                // the GPU's key. Null if it is about the machine
	// Whether the GPU's readings are real; empty if unknown or if it is about the machine.
	GPUKind gpu.Kind `json:"gpu_kind" enum:"live,simulated,recorded,"`
	Text    string   `json:"text"` // for people
}

// NewPastEvent makes it.
func NewPastEvent(e *store.Event, devices map[store.Key]store.Device) PastEvent {
	out := PastEvent{Node: e.Node}
	eventTold.fill(&out, e)
	if e.UUID != "" {
		out.GPUUUID, out.GPUKind = new(e.UUID), devices[e.Key].Kind
	}
	return out
}

// PastSessions answers GET /api/gpu/sessions.
type PastSessions struct {
	PastSpan
	Sessions []PastSession `json:"sessions"` // in the order in which they began
}

// PastEvents answers GET /api/events.
type PastEvents struct {
	PastSpan
	Events []PastEvent `json:"events"` // oldest first
}

// PastCauses answers GET /api/gpu/causes.
type PastCauses struct {
	PastSpan
	Causes []PastCause `json:"causes"` // in the order in which they began
}

// PastReadings answers GET /api/gpu/readings.
type PastReadings struct {
	PastSpan
	Tier     string        `json:"tier" enum:"raw,1m,15m,6h"` // the requested tier
	Readings []PastReading `json:"readings"`                  // in order of time for each GPU and tier
}

// PastReading is one stored reading, or one stored row of a minute, a quarter of an hour or six hours.
type PastReading struct {
	Time string `json:"time" format:"date-time"` // when it began
	// The tier of this row: a span that is not complete yet comes as the finer rows that it is made
	// of.
	Tier string `json:"tier" enum:"raw,1m,15m,6h"`
	PastGPU
	State string           `json:"state" enum:"state"`         // state of the GPU at the end; empty for a machine
	Count int              `json:"reading_count"`              // the number of readings that it is made of
	Mean  map[string]Float `json:"mean" unit:"any"`            // by metric; metrics that were not read are left out
	Least map[string]Float `json:"least,omitempty" unit:"any"` // by metric, for spans
	Most  map[string]Float `json:"most,omitempty" unit:"any"`  // by metric, for spans
	Doubt []string         `json:"doubtful,omitempty"`         // metrics of a reading with impossible values
}

// NewPastReading makes it from the given columns of a row. spans says that rows of spans were requested.
func NewPastReading(r *store.Row, d *store.Device, all store.Columns, columns []int, spans bool) PastReading {
	out := PastReading{
		Time: timestamp(r.Time), Tier: r.Tier.String(), PastGPU: pastGPU(d), State: string(r.State), Count: r.Readings,
		Mean: map[string]Float{},
	}
	if spans {
		out.Least, out.Most = map[string]Float{}, map[string]Float{}
	}
	for _, c := range columns {
		v, name := &r.Values[c], all[c].Name
		if v.Count == 0 {
			continue
		}
		out.Mean[name] = gpu.Of(v.Mean)
		if spans {
			out.Least[name], out.Most[name] = gpu.Of(v.Least), gpu.Of(v.Most)
		}
		if v.Doubtful {
			out.Doubt = append(out.Doubt, name)
		}
	}
	return out
}

// ReadingColumns are the columns of readings as CSV.
func ReadingColumns(all store.Columns, columns []int, spans bool) []string {
	out := []string{"time", "tier", "node", "gpu_uuid", "gpu_id", "gpu_name", "gpu_kind", "state", "reading_count", "doubtful"}
	for _, c := range columns {
		if out = append(out, all[c].Name); spans {
			out = append(out, all[c].Name+"_least", all[c].Name+"_most")
		}
	}
	return out
}

// CSV is the reading as a line of [ReadingColumns].
func (r *PastReading) CSV(all store.Columns, columns []int, spans bool) []string {
	out := []string{
		r.Time, r.Tier, r.Node, r.GPUUUID, cell(r.GPUID), r.GPUName, string(r.GPUKind), r.State, cell(r.Count), strings.Join(r.Doubt, " "),
	}
	for _, c := range columns {
		name := all[c].Name
		if out = append(out, cell(r.Mean[name])); spans {
			out = append(out, cell(r.Least[name]), cell(r.Most[name]))
		}
	}
	return out
}

// PastSize answers GET /api/gpu/history/size.
type PastSize struct {
	Measured string `json:"measured_at" format:"date-time"` // when it was measured
	Bytes    int64  `json:"size_bytes"`                     // total size on disk
	// Estimated total size once --history-retention is reached.
	Full  int64          `json:"full_size_bytes"`
	How   string         `json:"how"`   // how the estimate was made, for people
	Kinds []PastSizeKind `json:"kinds"` // the kinds of stored data
}

// PastSizeKind is one kind of stored data.
type PastSizeKind struct {
	Kind   string   `json:"kind" enum:"raw,1m,15m,6h,frames,sessions,causes,events"` // the kind of data
	Rows   int64    `json:"row_count"`                                               // the number of rows
	Bytes  int64    `json:"size_bytes"`                                              // their size
	Oldest *string  `json:"oldest" format:"date-time"`                               // when the oldest begins. Null if there is none
	Newest *string  `json:"newest" format:"date-time"`                               // when the newest ends; for readings, when it begins. Null if there is none
	For    *float64 `json:"kept_seconds"`                                            // how long they are kept. Null means for ever
	// Estimated number once they are kept for that long. Null if unknown yet.
	FullRows  *int64 `json:"full_row_count"`
	FullBytes *int64 `json:"full_size_bytes"` // the same estimate in bytes
}

// NewPastSize makes it.
func NewPastSize(f *history.Footprint) PastSize {
	return PastSize{
		Measured: timestamp(f.At), Bytes: f.Bytes, Full: f.Full, How: f.How,
		Kinds: listOf(f.Kinds, func(k *history.Kept) PastSizeKind {
			out := PastSizeKind{
				Kind: k.Name, Rows: k.Rows, Bytes: k.Bytes, Oldest: optionalTime(k.Oldest), Newest: optionalTime(k.Newest),
			}
			if k.For > 0 {
				out.For = new(inSeconds(k.For))
			}
			if k.FullRows > 0 {
				out.FullRows, out.FullBytes = &k.FullRows, &k.FullBytes
			}
			return out
		}),
	}
}

// UsageColumns are the columns of usage as CSV.
var UsageColumns = []string{
	"name", "user", "gpu_uuid", "session_count", "gpu_count", "gpu_hours", "busy_hours", "idle_hours", "sm_hours", "energy_kwh", "energy_known",
	"cost", "peak_memory_mb", "gpu_kind", "energy_estimated",
}

// CSV is the row as a line of [UsageColumns]. A sum over GPUs lists all of these kinds.
func (u UsageRow) CSV(kinds []gpu.Kind) []string {
	uuid, kind := "", strings.Join(listOf(kinds, func(k *gpu.Kind) string { return string(*k) }), " ")
	if u.GPU != nil {
		uuid, kind = u.GPU.GPUUUID, string(u.GPU.GPUKind)
	}
	return []string{
		u.Name, u.User, uuid, cell(u.Sessions), cell(u.Devices), cell(u.Held), cell(u.Busy), cell(u.Idle), cell(u.SMHours), cell(u.KWh), cell(u.Known),
		cell(u.Cost), cell(u.Peak), kind, cell(u.Estimated),
	}
}

// cell is a number as in JSON; empty if that is null.
func cell(v any) string {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return ""
	}
	return string(text)
}
