// Package catalog declares each reading of a device once: its name, its place in a [gpu.Device], its meaning,
// the driver call that returns it, and its names in other systems.
//
// Metrics, the table of facts, the recent past, alert rules and the conformance suite walk it. The wire
// contracts are promises to others, so they name their fields themselves; they walk it to say why one is null.
package catalog

import (
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Ref points to a reading: it is a *gpu.Reading[T].
type Ref interface {
	Present() bool
	Quality() gpu.Quality
}

// A Row is one reading of a device, or of each part of a device such as a fan.
type Row struct {
	ID   string // stable, such as "thermal.gpu"
	Unit Unit
	// At returns the reading; nil if each part of the device has one. List is then the key of the list of
	// parts in a device's JSON, such as "fans".
	At   func(*gpu.Device) Ref
	List string
	// each calls visit for each part, with the part's name.
	each func(d *gpu.Device, visit func(part string, r Ref))

	Path    string // path in the JSON of the device or the part
	Label   string // name for people; empty if the table of facts does not show it
	Means   string // explanation for people; may be empty
	Instead string // text for people if it is absent; empty shows why it is absent
	// From is the call that returns it. Measured is the call while PCIe traffic is sampled, see
	// [gpu.Activity.PCIeMeasured]; nil if it is the same.
	From, Measured Origins
	Absent         string // further reasons why it may be absent, besides "the device does not report it"
	Always         bool   // also known for a device that is not ok

	Metric string // name of its metric; empty if there is none
	Help   string // the metric's help, a sentence
	DCGM   string // name in NVIDIA's DCGM
	OTel   string // name in OpenTelemetry's semantic conventions
	Kept   string // name under which package recent keeps it; empty if it does not
	Past   Past   // how long history keeps it
}

// Past says how the history stores a reading.
type Past uint8

// The ways to store a reading. The history stores only quantities of the whole device.
const (
	Forgotten Past = iota
	AsRead         // each reading, for some days
	InSpans        // also minimum, mean and maximum over spans of time, for months and years
)

// Origins maps sources to the call or file that returns a reading; "" stands for every source.
type Origins map[string]string

// Of returns the origin for a source. Clusters run nvidia-smi. A simulation makes up NVIDIA devices, so it has NVIDIA's origins. For recorded data, pass [gpu.Identity.Origin].
func (o Origins) Of(source string) string {
	if source == gpu.SourceKubernetes {
		source = gpu.SourceNvidiaSMI
	}
	if from, ok := o[source]; ok {
		return from
	}
	switch source {
	case gpu.SourceAMD, gpu.SourceIntel, gpu.SourceNvidiaSMI:
		return o[""]
	}
	return o[""] + o[gpu.SourceNVML]
}

// A Group is readings that belong together, with a title.
type Group struct {
	Title string
	Rows  []*Row
	// order lists the IDs of rows in the order for people; "*" stands for all others. Empty means as declared.
	order []string
}

func group(title, order string, rows ...*Row) Group { return Group{title, rows, strings.Fields(order)} }

// Page returns the rows for people in their order: the device's own, or those of a list of parts.
func (g *Group) Page(list bool) []*Row {
	var page []*Row
	for _, r := range g.Rows {
		if r.Label != "" && (r.List != "") == list {
			page = append(page, r)
		}
	}
	place := func(r *Row) int {
		if i := slices.Index(g.order, r.ID); i >= 0 {
			return i
		}
		return slices.Index(g.order, "*")
	}
	slices.SortStableFunc(page, func(a, b *Row) int { return place(a) - place(b) })
	return page
}

// All yields every row, in the order of the groups.
func All() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		for i := range Groups {
			for _, r := range Groups[i].Rows {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// Reading returns the row with that ID. It panics where there is none.
func Reading(id string) *Row {
	for r := range All() {
		if r.ID == id {
			return r
		}
	}
	panic("catalog: there is no reading " + id)
}

// Visit calls visit for the reading of the device, or for that of each part with the part's name.
func (r *Row) Visit(d *gpu.Device, visit func(part string, r Ref)) {
	if r.At != nil {
		visit("", r.At(d))
		return
	}
	r.each(d, visit)
}

// Number is the reading of a device as a number, see [Number].
func (r *Row) Number(d *gpu.Device) gpu.Reading[float64] { return Number(r.At(d)) }

// An option says one more thing of a row.
type option func(*Row)

func of(id string, at func(*gpu.Device) Ref, options ...option) *Row {
	return newRow(Row{ID: id, At: at, Unit: unitOf(at(new(gpu.Device)))}, options)
}

func newRow(r Row, options []option) *Row {
	for _, set := range options {
		set(&r)
	}
	for source, files := range files {
		if file, ok := files[r.ID]; ok {
			r.From = maps.Clone(r.From)
			if r.From == nil {
				r.From = Origins{}
			}
			r.From[source] = file
		}
	}
	return &r
}

// files are what the sources have that read files of the kernel or the output of a program,
// by the ID of the row.
var files = map[string]map[string]string{gpu.SourceAMD: ofAMD, gpu.SourceIntel: ofIntel, gpu.SourceNvidiaSMI: ofNvidiaSMI}

// parts makes rows for each element of a list, by its key in the JSON of a device.
func parts[P any](key string, list func(*gpu.Device) []P, name func(int, *P) string) func(string, func(*P) Ref, ...option) *Row {
	return func(id string, at func(*P) Ref, options ...option) *Row {
		each := func(d *gpu.Device, visit func(string, Ref)) {
			parts := list(d)
			for i := range parts {
				visit(name(i, &parts[i]), at(&parts[i]))
			}
		}
		return newRow(Row{ID: id, List: key, Unit: unitOf(at(new(P))), each: each}, options)
	}
}

var (
	fan = parts("fans", func(d *gpu.Device) []gpu.Fan { return d.Fans.Fans },
		func(i int, _ *gpu.Fan) string { return strconv.Itoa(i) })
	xid = parts("health.xids", func(d *gpu.Device) []gpu.XID { return d.Health.XIDs.Or(nil) },
		func(_ int, x *gpu.XID) string { return strconv.Itoa(x.Code) })
	link = parts("nvlink.links", func(d *gpu.Device) []gpu.Link { return d.NVLink.Links },
		func(_ int, l *gpu.Link) string { return strconv.Itoa(l.Index) })
	fault = parts("health.faults", func(d *gpu.Device) []gpu.Fault { return d.Health.Faults.Or(nil) },
		func(_ int, f *gpu.Fault) string { return string(f.Kind) })
	instance = parts("instances", func(d *gpu.Device) []gpu.Instance { return d.Instances },
		func(_ int, i *gpu.Instance) string { return i.UUID })
)

// wire is a fact that the table of facts does not show.
func wire(path string) option { return fact(path, "", "") }

func fact(path, label, means string) option {
	return func(r *Row) { r.Path, r.Label, r.Means = path, label, means }
}

func metric(name, help string) option { return func(r *Row) { r.Metric, r.Help = name, help } }

func absent(when string) option     { return func(r *Row) { r.Absent = when } }
func instead(text string) option    { return func(r *Row) { r.Instead = text } }
func dcgm(name string) option       { return func(r *Row) { r.DCGM = name } }
func otel(name string) option       { return func(r *Row) { r.OTel = name } }
func kept(name string) option       { return func(r *Row) { r.Kept = name } }
func past(p Past) option            { return func(r *Row) { r.Past = p } }
func unit(u Unit) option            { return func(r *Row) { r.Unit = u } }
func from(o Origins) option         { return func(r *Row) { r.From = o } }
func nvml(call string) option       { return from(Origins{gpu.SourceNVML: call}) }
func kubernetes(call string) option { return from(Origins{"": call}) } // whatever the source of the device
func measured(call string) option   { return func(r *Row) { r.Measured = Origins{gpu.SourceNVML: call} } }

// migGPM is the same of a GPU instance of MIG.
func migGPM(name string) option { return nvml("nvmlGpmMigSampleGet (" + name + ")") }

// gpm is one of the metrics of NVML's GPU performance monitoring.
func gpm(name string) option { return nvml("nvmlGpmMetricsGet (" + name + ")") }

func always(r *Row) { r.Always = true }

// moment is absent for the zero time.
func moment(t time.Time) Ref {
	if t.IsZero() {
		return new(gpu.Reading[time.Time])
	}
	return new(gpu.Of(t))
}

// text is absent where there is none.
func text(s string) Ref {
	if s == "" {
		return new(gpu.Reading[string])
	}
	return new(gpu.Of(s))
}

func byHand(policy string) bool { return policy == "manual" }
