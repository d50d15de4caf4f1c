// Package catalog declares each reading of a device once. A declaration has the reading's name, its place in a
// [gpu.Device], its meaning, the driver calls that report it, and its names in other systems.
//
// Metrics, the table of facts, the recent past, level rules and the conformance suite walk the catalog. The wire
// contracts name their own fields, because they are promises to clients; they use the catalog to say why a field is null.
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

// A Row describes one reading of a device, or of each part of a device such as a fan.
type Row struct {
	ID   string // stable, such as "thermal.gpu"
	Unit Unit
	// At finds the reading; nil where each part of the device has one. List is then the key of the list of
	// parts in the JSON of a device, such as "fans".
	At   func(*gpu.Device) Ref
	List string
	// each calls visit for each part, with the part's name.
	each func(d *gpu.Device, visit func(part string, r Ref))

	Path    string // in the JSON of a device, or of the part
	Label   string // for people; empty for what the table of facts does not show
	Means   string // what a person should know of it; may be empty
	Instead string // what people read where it is absent; empty: why it is absent
	// From is the call that has it. Measured is that call while traffic over PCIe is measured, see
	// [gpu.Activity.PCIeMeasured]; nil where it is the same.
	From, Measured Origins
	Absent         string // when it is absent, where "the device does not report it" is not all
	Always         bool   // known of a device that is not ok, too

	Metric string // the name of its metric; empty where there is none
	Help   string // the metric's help, a sentence
	DCGM   string // the name of NVIDIA's DCGM
	OTel   string // the name in OpenTelemetry's semantic conventions
	Kept   string // the name under which package recent keeps it; empty where it does not
	Past   Past   // how long history keeps it
}

// Past is how history keeps a reading.
type Past uint8

// The ways to keep a reading. What history keeps is a quantity, and one of the device as a whole.
const (
	Forgotten Past = iota
	AsRead         // each reading, for some days
	InSpans        // also its least, mean and most over spans of time, for months and years
)

// Origins are the calls or files that have a reading, by the name of the source; "" stands for every source.
type Origins map[string]string

// Of is the origin for a source. In a cluster nvidia-smi is what is executed. A simulation invents NVIDIA's devices, and has NVIDIA's origins. Of what is recorded ask for [gpu.Identity.Origin].
func (o Origins) Of(source string) string {
	if source == gpu.SourceKubernetes {
		source = gpu.SourceNvidiaSMI
	}
	if call, ok := o[source]; ok {
		return call
	}
	switch source {
	case gpu.SourceAMD, gpu.SourceIntel, gpu.SourceNvidiaSMI:
		return o[""]
	}
	return o[""] + o[gpu.SourceNVML]
}

// A Group is the readings that belong together, under one title.
type Group struct {
	Title string
	Rows  []*Row
	// order has the IDs of rows in the order for people; "*" stands for all others. Empty: as declared.
	order []string
}

func group(title, order string, rows ...*Row) Group { return Group{title, rows, strings.Fields(order)} }

// Page returns the rows that people see, in their order: the device's own, or those of the parts of a list.
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

// Reading returns the row with an ID. It panics if there is none.
func Reading(id string) *Row {
	for r := range All() {
		if r.ID == id {
			return r
		}
	}
	panic("catalog: there is no reading " + id)
}

// Visit calls visit for the device's reading or, with the part's name, for each part's.
func (r *Row) Visit(d *gpu.Device, visit func(part string, r Ref)) {
	if r.At != nil {
		visit("", r.At(d))
		return
	}
	r.each(d, visit)
}

// Number returns the device's reading as a number; see [Number].
func (r *Row) Number(d *gpu.Device) gpu.Reading[float64] { return Number(r.At(d)) }

// An option sets one more field of a row.
type option func(*Row)

func row(id string, locate func(*gpu.Device) Ref, options ...option) *Row {
	return newRow(Row{ID: id, At: locate, Unit: unitOf(locate(new(gpu.Device)))}, options)
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

// files are the kernel files or program outputs that a source reads, by source and by the ID of the row.
var files = map[string]map[string]string{gpu.SourceAMD: ofAMD, gpu.SourceIntel: ofIntel, gpu.SourceNvidiaSMI: ofNvidiaSMI}

// parts makes rows for each element of a list, given the list's key in the JSON of a device.
func parts[P any](key string, list func(*gpu.Device) []P, name func(int, *P) string) func(string, func(*P) Ref, ...option) *Row {
	return func(id string, locate func(*P) Ref, options ...option) *Row {
		each := func(d *gpu.Device, visit func(string, Ref)) {
			parts := list(d)
			for i := range parts {
				visit(name(i, &parts[i]), locate(&parts[i]))
			}
		}
		return newRow(Row{ID: id, List: key, Unit: unitOf(locate(new(P))), each: each}, options)
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

// wire returns a fact that is not in the table of facts.
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
func origins(o Origins) option      { return func(r *Row) { r.From = o } }
func nvml(call string) option       { return origins(Origins{gpu.SourceNVML: call}) }
func kubernetes(call string) option { return origins(Origins{"": call}) } // whatever the source of the device
func measured(call string) option   { return func(r *Row) { r.Measured = Origins{gpu.SourceNVML: call} } }

// migGPM is gpm for a GPU instance in MIG mode.
func migGPM(name string) option { return nvml("nvmlGpmMigSampleGet (" + name + ")") }

// gpm names a metric of NVML's GPU performance monitoring.
func gpm(name string) option { return nvml("nvmlGpmMetricsGet (" + name + ")") }

func always(r *Row) { r.Always = true }

// moment is absent for the zero time.
func moment(t time.Time) Ref {
	if t.IsZero() {
		return new(gpu.Reading[time.Time])
	}
	return new(gpu.Of(t))
}

// text is absent for an empty text.
func text(s string) Ref {
	if s == "" {
		return new(gpu.Reading[string])
	}
	return new(gpu.Of(s))
}

func byHand(policy string) bool { return policy == "manual" }
