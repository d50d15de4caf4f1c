package views

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A DeviceFact is one reading, what it means, and where it comes from.
type DeviceFact struct {
	Path   string // of the reading in the JSON of a device
	Format string // how it is written; scripts know the formats by name
	Label  string
	Value  Value
	Means  string
	From   string // the driver's call; empty where there is none
	Or     *Origin
	// Else is what is shown where there is no value; nil: why there is none.
	Else *string
}

// An Origin is the call that a reading comes from while the one at Path is there,
// and another while it is not.
type Origin struct{ Path, Then, Else string }

// fromAttrs are what scripts need to keep the name of the call right.
func (f DeviceFact) fromAttrs() templ.Attributes {
	if f.Or == nil {
		return nil
	}
	return templ.Attributes{"data-when": f.Or.Path, "data-then": f.Or.Then, "data-or": f.Or.Else}
}

// cellAttrs are attrs of a fact that stands in a table.
func (f DeviceFact) cellAttrs() templ.Attributes {
	out := f.attrs()
	out["data-label"] = f.Label
	if f.Format != "text" && f.Format != "moment" {
		out["class"] = "n"
	}
	return out
}

// headAttrs are those of the head over the fact's cells.
func (f DeviceFact) headAttrs() templ.Attributes {
	if class, ok := f.cellAttrs()["class"]; ok {
		return templ.Attributes{"class": class}
	}
	return nil
}

// attrs are what scripts need to keep the fact's value new.
func (f DeviceFact) attrs() templ.Attributes {
	out := f.Value.attrs()
	out["data-path"], out["data-format"] = f.Path, f.Format
	if f.Else != nil {
		out["data-else"] = *f.Else
	}
	return out
}

// A FactGroup is a group of readings, as drivers group them, or a list of
// parts that have the same readings each.
type FactGroup struct {
	Title string
	Facts []DeviceFact
	List  *FactList
}

// A FactList is a table of parts of a device: its fans, say.
type FactList struct {
	Key   string // of the list in the JSON of a device
	Heads []string
	Rows  [][]DeviceFact
	Blank []DeviceFact // a row to be filled in
	Means string
	From  string
}

// A factSpec is what is known of a fact before there is a device.
type factSpec struct {
	path, label, format, means, from string
	value                            func(*gpu.Device) Value
	instead                          *string // see DeviceFact.Else
	then                             string  // the call while the traffic over PCIe is measured; empty: from
}

func reads[T any](path, label string, get func(*gpu.Device) gpu.Reading[T], means, from string) factSpec {
	return factSpec{path: path, label: label, format: formatOf[T](), means: means, from: from, value: func(d *gpu.Device) Value { return written(get(d)) }}
}

// told is for what is always known.
func told(path, label string, get func(*gpu.Device) string, means, from string) factSpec {
	return reads(path, label, func(d *gpu.Device) gpu.Reading[string] { return gpu.Of(get(d)) }, means, from)
}

// formatOf names how a type of reading is written.
func formatOf[T any]() string {
	switch any(*new(T)).(type) {
	case gpu.Percent:
		return "percent"
	case gpu.Celsius:
		return "celsius"
	case gpu.Watts:
		return "watts"
	case gpu.Megahertz:
		return "megahertz"
	case gpu.RPM:
		return "rpm"
	case gpu.Bytes:
		return "memory"
	case gpu.Joules:
		return "energy"
	case gpu.BytesPerSecond:
		return "rate"
	case gpu.FramesPerSecond:
		return "fps"
	case gpu.Microseconds:
		return "delay"
	case time.Time:
		return "moment"
	case gpu.ClockEventReasons:
		return "reasons"
	case []gpu.XID:
		return "kinds"
	case bool:
		return "yesNo"
	case string:
		return "text"
	default:
		return "whole"
	}
}

func written[T any](r gpu.Reading[T]) Value {
	switch r := any(r).(type) {
	case gpu.Reading[gpu.Percent]:
		return show(num(r), percent)
	case gpu.Reading[gpu.Celsius]:
		return show(num(r), celsius)
	case gpu.Reading[gpu.Watts]:
		return show(num(r), watts)
	case gpu.Reading[gpu.Megahertz]:
		return show(num(r), megahertz)
	case gpu.Reading[gpu.RPM]:
		return show(num(r), rpm)
	case gpu.Reading[gpu.Bytes]:
		return show(mebi(r), memory)
	case gpu.Reading[gpu.Joules]:
		return show(num(r), energy)
	case gpu.Reading[gpu.BytesPerSecond]:
		return show(num(r), rate)
	case gpu.Reading[gpu.FramesPerSecond]:
		return show(num(r), fps)
	case gpu.Reading[gpu.Microseconds]:
		return show(num(r), delay)
	case gpu.Reading[int]:
		return show(num(r), whole)
	case gpu.Reading[uint64]:
		return show(newNumber(float64(r.Or(0)), r.Quality()), whole)
	case gpu.Reading[time.Time]:
		v := worded(r, moment)
		v.At = stamp(r.Or(time.Time{}))
		return v
	case gpu.Reading[[]gpu.XID]:
		return worded(r, kinds)
	case gpu.Reading[bool]:
		return worded(r, yesNo)
	case gpu.Reading[gpu.ClockEventReasons]:
		return worded(r, reasonsInWords)
	case gpu.Reading[string]:
		return shown(r, longestSentence)
	default:
		panic("views: no words for this type of reading")
	}
}

func worded[T any](r gpu.Reading[T], format func(T) string) Value {
	if !r.Present() {
		return absent(r.Quality())
	}
	return Value{Text: format(r.Or(*new(T)))}
}

func yesNo(b bool) string {
	if b {
		return say("yes")
	}
	return say("no")
}

func kinds(list []gpu.XID) string {
	if len(list) == 0 {
		return say("none")
	}
	return count("kinds", len(list))
}

func reasonsInWords(r gpu.ClockEventReasons) string {
	var words []string
	for _, name := range r.Names() {
		if text := say("reason " + name); text != "" {
			words = append(words, text)
		}
	}
	return cmp.Or(strings.Join(words, "; "), say("nothing"))
}

func newFacts(d *gpu.Device) []FactGroup {
	groups := make([]FactGroup, len(factSpecs))
	for i, spec := range factSpecs {
		groups[i].Title = spec.title
		for _, f := range spec.facts {
			groups[i].Facts = append(groups[i].Facts, f.of(d))
		}
		if spec.list != nil {
			groups[i].List = spec.list(d)
		}
	}
	return groups
}

func (f factSpec) of(d *gpu.Device) DeviceFact {
	out := DeviceFact{Path: f.path, Format: f.format, Label: f.label, Value: f.value(d), Means: f.means, From: f.from, Else: f.instead}
	if f.then != "" {
		out.Or = &Origin{Path: measuredAt, Then: f.then, Else: f.from}
		if d.Activity.PCIeMeasured() {
			out.From = f.then
		}
	}
	return ownFact(d, out)
}

// ownFact is the fact with what is said of it where it has no value.
func ownFact(d *gpu.Device, f DeviceFact) DeviceFact {
	switch {
	case f.Value.Mark != Missing:
	case f.Else == nil:
		f.Value = onFact(d, f.Value)
	case *f.Else == "":
		f.Value = Value{}
	default:
		f.Value = Value{Text: *f.Else, Mark: Missing}
	}
	return f
}

// onFact says since when a value is missing, where that is known.
func onFact(d *gpu.Device, v Value) Value {
	switch {
	case v.Mark != Missing:
		return v
	case d.State != gpu.StateOK:
		v.Text, v.At = say("not read since", moment(d.Since)), stamp(d.Since)
		v.Title = strings.ToLower(say("state " + string(d.State)))
	case v.Text == say("stale") && !d.SampledAt.IsZero():
		v.Text, v.At = say("stale since", moment(d.SampledAt)), stamp(d.SampledAt)
	}
	return v
}

// parts makes a table of a device's parts. The rows' facts stand for their
// places: their paths begin in the part.
func parts[T any](key string, list []T, columns []column[T], means, from string) *FactList {
	out := &FactList{Key: key, Means: means, From: from}
	for _, c := range columns {
		out.Heads = append(out.Heads, c.label)
		out.Blank = append(out.Blank, DeviceFact{Label: c.label, Path: c.path, Format: c.format})
	}
	for i := range list {
		var row []DeviceFact
		for _, c := range columns {
			row = append(row, DeviceFact{Label: c.label, Path: c.path, Format: c.format, Value: c.value(&list[i])})
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

type column[T any] struct {
	path, label, format string
	value               func(*T) Value
}

func col[T, V any](path, label string, get func(*T) gpu.Reading[V]) column[T] {
	return column[T]{path, label, formatOf[V](), func(t *T) Value { return written(get(t)) }}
}

func fanList(d *gpu.Device) *FactList {
	return parts("fans", d.Fans.Fans, []column[gpu.Fan]{
		col("percent", "Asked for", func(f *gpu.Fan) gpu.Reading[gpu.Percent] { return f.Commanded }),
		col("rpm", "Turns", func(f *gpu.Fan) gpu.Reading[gpu.RPM] { return f.RPM }),
		col("target_percent", "Steers towards", func(f *gpu.Fan) gpu.Reading[gpu.Percent] { return f.Target }),
		col("policy", "Decided", func(f *gpu.Fan) gpu.Reading[string] { return f.Policy }),
	}, "The percentage is what the driver asks for, not what the fan turns: a blocked fan shows it too. Its scale is the maker’s noise limit, so it may pass 100 %. Turns is what the tachometer says.",
		"nvmlDeviceGetFanSpeed_v2, nvmlDeviceGetFanSpeedRPM, nvmlDeviceGetTargetFanSpeed, nvmlDeviceGetFanControlPolicy_v2")
}

func xidList(d *gpu.Device) *FactList {
	return parts("health.xids", d.Health.XIDs.Or(nil), []column[gpu.XID]{
		col("code", "Xid", func(x *gpu.XID) gpu.Reading[int] { return gpu.Of(x.Code) }),
		col("count", "Times", func(x *gpu.XID) gpu.Reading[uint64] { return gpu.Of(x.Count) }),
		col("last", "Last", func(x *gpu.XID) gpu.Reading[time.Time] { return gpu.Of(x.Last) }),
	}, "The kernel log (dmesg) has the same numbers with details.", "")
}

func instanceList(d *gpu.Device) *FactList {
	type in = gpu.Instance
	return parts("instances", d.Instances, []column[in]{
		col("name", "Instance", func(i *in) gpu.Reading[string] { return gpu.Of(i.Name) }),
		col("uuid", "UUID", func(i *in) gpu.Reading[string] { return gpu.Of(i.UUID) }),
		col("memory.used_mb", "Used", func(i *in) gpu.Reading[gpu.Bytes] { return i.Memory.Used }),
		col("memory.total_mb", "Of", func(i *in) gpu.Reading[gpu.Bytes] { return i.Memory.Total }),
		col("multiprocessor_count", "SMs", func(i *in) gpu.Reading[int] { return i.Multiprocessors }),
		col("memory_slice_count", "Memory slices", func(i *in) gpu.Reading[int] { return i.MemorySlices }),
		col("compute_slice_count", "Compute slices", func(i *in) gpu.Reading[int] { return i.ComputeSliceCount }),
	}, "Parts of the GPU with memory and engines of their own. They are not in any total.", "nvmlDeviceGetMigDeviceHandleByIndex")
}

func pstate(p int) string { return "P" + strconv.Itoa(p) }
