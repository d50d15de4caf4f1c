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
	TimeZone string `json:"time_zone"`               // in which words such as "last night" were understood: a name, or hours from UTC
	// Of which kinds the GPUs are that had readings in the span: what is simulated or recorded is not of this machine. With
	// more than one, sums have both.
	Kinds []gpu.Kind `json:"gpu_kinds" enum:"live,simulated,recorded"`
}

// NewPastSpan makes it. The zone is that of from.
func NewPastSpan(from, to time.Time, kinds []gpu.Kind) PastSpan {
	zone := from.Location().String()
	if zone == "Local" { // as a system without a name for it says
		zone = from.Format("-07:00")
	}
	return PastSpan{timestamp(from), timestamp(to), zone, append([]gpu.Kind{}, kinds...)}
}

// PastGPU names a GPU, also one that is not there any more.
type PastGPU struct {
	GPUID   int    `json:"gpu_id"`   // place by PCI address, when it was seen last
	GPUUUID string `json:"gpu_uuid"` // the GPU's key
	GPUName string `json:"gpu_name"` // product name
	Node    string `json:"node"`     // name of the machine that the GPU is in
	// Whether its readings are real; empty where that is not known.
	GPUKind gpu.Kind `json:"gpu_kind" enum:"live,simulated,recorded,"`
}

func pastGPU(d *store.Device) PastGPU { return PastGPU{d.Index, d.UUID, d.Name, d.Node, d.Kind} }

// History answers GET /api/gpu/history.
type History struct {
	PastSpan
	Step float64 `json:"step_seconds"` // time between two points; each is about the step that begins then
	// What the points are made of: each reading, or those of a minute, a quarter of an hour or six hours.
	Tier   string          `json:"tier" enum:"raw,1m,15m,6h"`
	Start  string          `json:"start" format:"date-time"` // time of the first point, which is not before from: steps begin at whole ones since 1970
	Points int             `json:"point_count"`              // how many points each list has
	GPUs   []HistorySeries `json:"gpus"`                     // one entry a GPU of which something is known, by machine and place
	// One entry a machine, for metrics of machines; left out where there is none.
	Machines []HistoryMachine `json:"machines,omitempty"`
}

// HistorySeries is the past of one GPU.
type HistorySeries struct {
	PastGPU
	Metrics map[string]HistoryMetric `json:"metrics"` // by name
}

// HistoryMachine is the past of one machine.
type HistoryMachine struct {
	Node    string                   `json:"node"`    // name of the machine
	Metrics map[string]HistoryMetric `json:"metrics"` // by name
}

// HistoryMetric is one quantity over time: a value a point, null where there was no reading.
type HistoryMetric struct {
	Unit  string  `json:"unit"`             // empty for a plain number
	Mean  []Float `json:"mean" unit:"any"`  // of the readings of the step
	Least []Float `json:"least" unit:"any"` // of the readings of the step
	Most  []Float `json:"most" unit:"any"`  // of the readings of the step
}

// NewHistory makes it of series. Devices are those that the store knows.
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
	list := func(of func(*store.Value) float64) []Float {
		return listOf(values, func(v *store.Value) Float {
			if v.Count == 0 {
				return Float{}
			}
			return gpu.Of(of(v))
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
	PID     int     `json:"pid"`                        // of the process; another process can have had it at another time
	Started *string `json:"started" format:"date-time"` // of the process. Null where that is not known
	User    string  `json:"user"`                       // empty where that is not known
	Name    string  `json:"name"`                       // of the process
	Program string  `json:"program"`                    // what a person would call what ran; empty where it may not be shown
	Command string  `json:"command"`                    // empty where it may not be shown
	// What it belonged to; empty: to none, or not known.
	Container string `json:"container"` // name or ID
	Image     string `json:"image"`     // of the container
	Pod       string `json:"pod"`       // "namespace/name"
	Unit      string `json:"unit"`      // of systemd
	Job       string `json:"job"`       // "slurm:1234"

	From    string  `json:"from" format:"date-time"`                   // when it was first seen on the GPU
	To      string  `json:"to" format:"date-time"`                     // when it was last seen
	Outcome string  `json:"outcome" enum:"open,ended,unseen,gpu_lost"` // how it ended
	Seen    float64 `json:"seen_seconds"`                              // how much of that time gpuwhy looked
	Busy    float64 `json:"busy_seconds"`                              // in which it was seen to work

	PeakMemory Bytes   `json:"peak_memory_mb"`       // the most that it held. Null where the driver never said
	MeanMemory Bytes   `json:"mean_memory_mb"`       // the same as a mean. Null where the driver never said
	SMSeconds  Float   `json:"sm_seconds"`           // how long all multiprocessors would have worked for the same. Null where no driver told
	Joules     Joules  `json:"energy_joules"`        // its part of the draw above rest, an estimate. Null where that was never known
	Known      float64 `json:"energy_known_seconds"` // for how much of the time the energy is known
	// For how much of the time the energy is estimated, since what the GPU draws at rest was not known.
	Estimated float64 `json:"energy_estimated_seconds"`
	Method    string  `json:"energy_method"` // by what the draw was divided: sm_share, memory or mixed; or estimated, where some of it is; empty where it was not
	Accounted bool    `json:"accounted"`     // the driver's accounting told of it afterwards: gpuwhy never saw it run
}

// NewPastSession makes it of a session on a device.
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
	By    string     `json:"by" enum:"user,process,job,pod,container,unit,gpu,node,cluster"` // what it is summed by
	Price Float      `json:"price_per_kwh" unit:"any"`                                       // of electricity. Null where none is set
	Rows  []UsageRow `json:"usage"`                                                          // the longest held first
}

// UsageRow is what one user, program, job, pod, container, unit of systemd, GPU, machine or cluster had.
type UsageRow struct {
	Name string   `json:"name"`          // empty where that is not known, or for what ran in no job, pod, container or unit
	User string   `json:"user"`          // of a program; else empty
	GPU  *PastGPU `json:"gpu,omitempty"` // left out but for usage by GPU

	Sessions int      `json:"session_count"` // processes on GPUs
	Devices  int      `json:"gpu_count"`     // GPUs that they were on
	Held     float64  `json:"gpu_hours"`     // for how long they had GPUs
	Busy     float64  `json:"busy_hours"`    // in which they worked
	Idle     float64  `json:"idle_hours"`    // in which they only held them
	SMHours  *float64 `json:"sm_hours"`      // how long all multiprocessors would have worked for the same. Null where no driver told
	KWh      *float64 `json:"energy_kwh"`    // above rest, an estimate; of a GPU, and of the GPUs of a machine or a cluster, all that they drew, unless somebody's part is asked for. Null where that was never known
	Known    float64  `json:"energy_known"`  // the part of the time, 0 to 1, for which the energy is known
	// The part of the time, 0 to 1, for which the energy is estimated, since what the GPUs draw at rest was not known.
	Estimated float64  `json:"energy_estimated"`
	Cost      *float64 `json:"cost" unit:"any"` // of the energy. Null without a price
	Peak      Bytes    `json:"peak_memory_mb"`  // the most that one process held. Null where the driver never said
}

// NewPastUsage makes it. A price of 0 is none.
func NewPastUsage(span PastSpan, by history.Grouping, price float64, devices map[store.Key]store.Device, list []history.Usage) PastUsage {
	out := PastUsage{PastSpan: span, By: string(by)}
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
		if by == history.ByCluster {
			row.Name = cmp.Or(row.Name, LocalCluster)
		}
		if d, known := devices[u.Key]; known && by == history.ByGPU {
			row.Name, row.GPU = d.Name, new(pastGPU(&d))
		}
		return row
	})
	return out
}

// fine is a reading times a factor, to six decimals, since others have two; nil where it is absent.
func fine(r Float, factor float64) *float64 {
	return pointer(gpu.Map(r, func(v float64) float64 { return math.Round(v*factor*1e6) / 1e6 }))
}

func inHours(d time.Duration) float64 { return inSeconds(d) / 3600 }

// PastWhy answers GET /api/gpu/why with a span.
type PastWhy struct {
	PastSpan
	Sentence string        `json:"why"`      // what went on, in the order of time
	Chapters []PastChapter `json:"chapters"` // work, and what was broken, by time; a thousand at most
	Causes   []PastCause   `json:"causes"`   // what the answer was, and from when to when; a thousand at most
	// The number of the first chapter and cause after these, for the parameter start. Null where there are no more.
	Next *int `json:"next" unit:"any"`
}

// MostCauses is how many causes, and how many chapters, an answer about the past lists at once.
const MostCauses = 1000

// PastChapter is one thing that went on with a GPU for a while.
type PastChapter struct {
	PastGPU
	From     string  `json:"from" format:"date-time"` // when it began
	To       string  `json:"to" format:"date-time"`   // when it ended
	Kind     string  `json:"kind"`                    // which rule found it
	Who      string  `json:"who"`                     // whose work it was, or who held the GPU awake; empty where nobody can tell
	Others   int     `json:"other_count"`             // who worked beside them
	Mean     Percent `json:"utilization_percent"`     // the mean while it lasted. Null where nothing was read
	Cooled   float64 `json:"cooled_seconds"`          // how long the GPU cooled after it; 0: not seen
	Sentence string  `json:"sentence"`                // for people
}

// PastCause is a cause from when to when it stood.
type PastCause struct {
	ID      string  `json:"id"`       // the same for as long as the cause stands
	Kind    string  `json:"kind"`     // which rule found it
	Node    string  `json:"node"`     // name of the machine
	GPUUUID *string `json:"gpu_uuid"` // the GPU's key. Null where it is about the machine
	// Whether the GPU's readings are real; empty where it is about the machine, or not known.
	GPUKind    gpu.Kind `json:"gpu_kind" enum:"live,simulated,recorded,"`
	From       string   `json:"from" format:"date-time"` // when it began
	To         string   `json:"to" format:"date-time"`   // when it was last so
	Open       bool     `json:"open"`                    // whether it goes on
	Sentence   string   `json:"sentence"`                // as it was said when the device drew most
	Confidence float64  `json:"confidence"`              // how likely it is the true one, 0 to 1
}

// NewPastWhy makes it, without the first chapters and causes. Of the causes those are given already that are listed, and one more where there
// are more.
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

// NewPastChapter makes it of a chapter of a story.
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
	Asked string `json:"asked" format:"date-time"` // the time that was asked for
	Found string `json:"found" format:"date-time"` // when the snapshot was read: the newest that is not later
	Then  Update `json:"then"`                     // the machine as it was then. Its answer is made anew from what was kept
}

// NewPastMoment makes it.
func NewPastMoment(asked time.Time, m *insight.Moment) PastMoment {
	return PastMoment{timestamp(asked), timestamp(m.Snapshot.Time), NewUpdate(m, nil)}
}

// PastEvent is something that happened.
type PastEvent struct {
	ID       string  `json:"id"`                      // the same for the same event
	Time     string  `json:"time" format:"date-time"` // when it happened
	Kind     string  `json:"kind"`                    // such as "xid" or "alert_fired"
	Severity string  `json:"severity"`                // "info", "warning" or "critical"; empty: none
	Node     string  `json:"node"`                    // name of the machine
	GPUUUID  *string `json:"gpu_uuid"`                // the GPU's key. Null where it is about the machine
	// Whether the GPU's readings are real; empty where it is about the machine, or not known.
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
	Sessions []PastSession `json:"sessions"` // by when they began
}

// PastEvents answers GET /api/events.
type PastEvents struct {
	PastSpan
	Events []PastEvent `json:"events"` // the oldest first
}

// PastCauses answers GET /api/gpu/causes.
type PastCauses struct {
	PastSpan
	Causes []PastCause `json:"causes"` // by when they began
}

// PastReadings answers GET /api/gpu/readings.
type PastReadings struct {
	PastSpan
	Tier     string        `json:"tier" enum:"raw,1m,15m,6h"` // what was asked for
	Readings []PastReading `json:"readings"`                  // those of one GPU and tier by time
}

// PastReading is one reading, or those of a minute, a quarter of an hour or six hours, as they are kept.
type PastReading struct {
	Time string `json:"time" format:"date-time"` // when it began
	// What it is: spans that are not complete yet come as what they are made of.
	Tier string `json:"tier" enum:"raw,1m,15m,6h"`
	PastGPU
	State string           `json:"state" enum:"state"`         // of the GPU, at the end; empty for a machine
	Count int              `json:"reading_count"`              // readings that it is made of
	Mean  map[string]Float `json:"mean" unit:"any"`            // by metric; what was not read is left out
	Least map[string]Float `json:"least,omitempty" unit:"any"` // of spans
	Most  map[string]Float `json:"most,omitempty" unit:"any"`  // of spans
	Doubt []string         `json:"doubtful,omitempty"`         // metrics of a reading that can't be right
}

// NewPastReading makes it of a row: its columns with these numbers, or all. Spans says that rows of spans were asked for.
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

// ReadingColumns are those of readings as CSV.
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
	Bytes    int64  `json:"size_bytes"`                     // of all, on disk
	// About what all of it takes once it is kept for as long as --history-retention says.
	Full  int64          `json:"full_size_bytes"`
	How   string         `json:"how"`   // how that was computed, for people
	Kinds []PastSizeKind `json:"kinds"` // what is kept
}

// PastSizeKind is one kind of what is kept.
type PastSizeKind struct {
	Kind   string   `json:"kind" enum:"raw,1m,15m,6h,frames,sessions,causes,events"` // what it is
	Rows   int64    `json:"row_count"`                                               // how many there are
	Bytes  int64    `json:"size_bytes"`                                              // that they take
	Oldest *string  `json:"oldest" format:"date-time"`                               // when the oldest begins. Null where there is none
	Newest *string  `json:"newest" format:"date-time"`                               // when the newest ends, or of readings begins. Null where there is none
	For    *float64 `json:"kept_seconds"`                                            // how long they are kept. Null: for ever
	// Once they are kept for so long. Null where that can't be told yet.
	FullRows  *int64 `json:"full_row_count"`
	FullBytes *int64 `json:"full_size_bytes"` // the same in bytes
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

// UsageColumns are those of usage as CSV.
var UsageColumns = []string{
	"name", "user", "gpu_uuid", "session_count", "gpu_count", "gpu_hours", "busy_hours", "idle_hours", "sm_hours", "energy_kwh", "energy_known",
	"cost", "peak_memory_mb", "gpu_kind", "energy_estimated",
}

// CSV is the row as a line of [UsageColumns]. Of a sum over GPUs its kind is all of these.
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

// cell is a number as in JSON; empty where that is null.
func cell(v any) string {
	text, err := json.Marshal(v)
	if err != nil || string(text) == "null" {
		return ""
	}
	return string(text)
}
