package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A DeviceFact is one reading with its meaning and its origin.
type DeviceFact struct {
	Path   string // path of the reading in a device's JSON
	Format string // name of its format
	Label  string
	Value  Value
	Means  string
	Source string // the driver call; empty if there is none
	// Else is shown if there is no value; nil shows why there is none.
	Else *string
}

// class returns the class of the fact's column in a table.
func (f DeviceFact) class() templ.Attributes {
	return attributes("class", either(f.Format == "text" || f.Format == "moment", "", "n"))
}

// A FactGroup is a group of readings, as drivers group them, optionally with a list of
// parts that each have the same readings.
type FactGroup struct {
	Title string
	Facts []DeviceFact
	List  *FactList
}

// A FactList is a table of parts of a device: its fans, say.
type FactList struct {
	Key    string // of the list in the JSON of a device
	Rows   [][]DeviceFact
	Heads  []DeviceFact // of the columns
	Means  string
	Source string
}

// formatOf maps units to the names of their formats.
var formatOf = [...]string{
	catalog.Count: "whole", catalog.Total: "whole", catalog.PerformanceState: "text", catalog.Parts: "parts", catalog.Percent: "percent",
	catalog.Celsius: "celsius", catalog.Watts: "watts", catalog.Joules: "energy", catalog.Megahertz: "megahertz",
	catalog.RPM: "rpm", catalog.Bytes: "memory", catalog.BytesPerSecond: "rate", catalog.FramesPerSecond: "fps",
	catalog.Microseconds: "delay", catalog.Moment: "moment", catalog.Switch: "yesNo", catalog.Text: "text",
	catalog.Reasons: "reasons", catalog.Errors: "kinds",
}

// formats are the functions that write numbers, by name; memory is in MiB.
var formats = map[string]func(float64) string{
	"whole": whole, "parts": parts, "percent": percent, "celsius": celsius, "watts": watts, "energy": energy, "megahertz": megahertz, "rpm": rpm,
	"memory": memory, "some": some, "rate": rate, "fps": fps, "delay": delay,
}

// written returns a reading as text.
func written(u catalog.Unit, ref catalog.Ref) Value {
	switch r := ref.(type) {
	case *gpu.Reading[time.Time]:
		v := worded(*r, moment)
		v.Stamp = stamp(r.Or(time.Time{}))
		return v
	case *gpu.Reading[[]gpu.XID]:
		return worded(*r, kinds)
	case *gpu.Reading[[]gpu.Fault]:
		return worded(*r, kinds)
	case *gpu.Reading[bool]:
		return worded(*r, yesNo)
	case *gpu.Reading[gpu.ClockEventReasons]:
		return worded(*r, reasonsInWords)
	case *gpu.Reading[string]:
		return shown(*r, longestSentence)
	case *gpu.Reading[gpu.Bytes]:
		return show(mebi(*r), memory)
	case *gpu.Reading[int]:
		if u == catalog.PerformanceState {
			return shown(gpu.Map(*r, pstate), longestName)
		}
	}
	return show(num(catalog.Number(ref)), formats[formatOf[u]])
}

// parts writes a number of parts; 0 is "none".
func parts(n float64) string { return either(n == 0, noneText, whole(n)) }

func pstate(p int) string { return "P" + strconv.Itoa(p) }

func worded[T any](r gpu.Reading[T], format func(T) string) Value {
	if !r.Present() {
		return absent(r.Quality())
	}
	return Value{Text: format(r.Or(*new(T)))}
}

func yesNo(b bool) string { return either(b, yesText, noText) }

func kinds[T any](list []T) string {
	if len(list) == 0 {
		return noneText
	}
	return kindCount(len(list))
}

func reasonsInWords(r gpu.ClockEventReasons) string {
	var words []string
	for _, h := range holdsClocks {
		if r&h.reason != 0 {
			words = append(words, h.text)
		}
	}
	return cmp.Or(strings.Join(words, "; "), nothingText)
}

// newFacts returns all readings of a device, in the groups of package gpu.
func newFacts(d *gpu.Device) []FactGroup {
	var groups []FactGroup
	for _, g := range slices.Concat(catalog.Groups[1:], catalog.Groups[:1]) { // identity comes last
		out := FactGroup{Title: g.Title, List: newList(d, g.Page(true))}
		for _, r := range g.Page(false) {
			out.Facts = append(out.Facts, newFact(d, r))
		}
		if len(out.Facts) > 0 {
			groups = append(groups, out)
		}
	}
	return groups
}

func blankFact(r *catalog.Row) DeviceFact {
	return DeviceFact{Path: r.Path, Format: formatOf[r.Unit], Label: r.Label}
}

func newFact(d *gpu.Device, r *catalog.Row) DeviceFact {
	out := blankFact(r)
	out.Value, out.Means, out.Source = written(r.Unit, r.At(d)), r.Means, r.From.Of(d.Origin())
	if r.Instead != "" {
		out.Else = &r.Instead
	}
	if r.Measured != nil {
		measured := cmp.Or(r.Measured.Of(d.Origin()), out.Source)
		if d.Activity.PCIeMeasured() {
			out.Source = measured
		}
	}
	return ownFact(d, out)
}

// aboutLists explains each list of parts and names its driver calls.
var aboutLists = map[string][2]string{
	"fans": {
		"The percentage is what the driver asks for, not how fast the fan turns: a blocked fan shows it too. 100 % is the maker’s noise limit, so values above it are possible. Speed is what the tachometer reports.",
		"nvmlDeviceGetFanSpeed_v2, nvmlDeviceGetFanSpeedRPM, nvmlDeviceGetTargetFanSpeed, nvmlDeviceGetFanControlPolicy_v2",
	},
	"health.xids": {"The kernel log (dmesg) has the same numbers with details.", ""},
	"nvlink.links": {
		"Errors are counted since the driver was loaded. A few damaged parts are normal: the link sends them again. Growing numbers or retrained links mean a bad connector or cable.",
		"nvmlDeviceGetNvLinkState, nvmlDeviceGetNvLinkErrorCounter and others",
	},
	"health.faults": {"The kernel log (dmesg) has the lines with details.", ""},
	"instances": {
		"Parts of the GPU with their own memory and engines. No total includes them. Their utilization is counted from Hopper on.",
		"nvmlDeviceGetMigDeviceHandleByIndex",
	},
}

// newList makes the table of a device's parts; nil without columns.
func newList(d *gpu.Device, columns []*catalog.Row) *FactList {
	if len(columns) == 0 {
		return nil
	}
	key := columns[0].List
	out := &FactList{Key: key, Means: aboutLists[key][0], Source: aboutLists[key][1]}
	for i, r := range columns {
		blank := blankFact(r)
		out.Heads = append(out.Heads, blank)
		row := 0
		r.Visit(d, func(_ string, ref catalog.Ref) {
			if i == 0 {
				out.Rows = append(out.Rows, nil)
			}
			f := blank
			f.Value = written(r.Unit, ref)
			out.Rows[row] = append(out.Rows[row], f)
			row++
		})
	}
	return out
}

// ownFact completes a fact without a value: since when it has been missing, or what is shown instead.
func ownFact(d *gpu.Device, f DeviceFact) DeviceFact {
	v := &f.Value
	switch {
	case v.Mark != Missing:
	case f.Else != nil && *f.Else == "":
		*v = Value{}
	case f.Else != nil:
		*v = Value{Text: *f.Else, Mark: Missing}
	case d.State != gpu.StateOK:
		v.Text, v.Stamp = notReadSince(moment(d.Since)), stamp(d.Since)
		v.Title = strings.ToLower(stateText(string(d.State)))
	case v.Text == stale.text && !d.SampledAt.IsZero():
		v.Text, v.Stamp = staleSince(moment(d.SampledAt)), stamp(d.SampledAt)
	}
	return f
}
