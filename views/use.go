package views

import (
	"cmp"
	"slices"
	"strings"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// A Use shows who uses one resource of a device.
type Use struct {
	Title string
	Bar   []UseBar
	Facts []UseFact
}

// A UseFact is one part of a resource, with the reason for its value.
type UseFact struct {
	DeviceFact
	Kind string // kind of its part of the bar; empty if it has none
	Why  *DeviceFact
}

// A UseBar reaches from the start of the bar to the end of one part. The
// longest is drawn first, and the others cover it.
type UseBar struct {
	Kind  string
	Width string // "0" to "100"
}

func (b UseBar) attrs() templ.Attributes {
	return attributes("data-kind", b.Kind, "width", b.Width)
}

// A usePart is one part of a resource.
type usePart struct {
	kind, path, label, means string
	value                    number
	format                   string
	orElse                   *string // shown if it is absent
}

// newUses returns who uses the memory, power and time of a device.
func newUses(d *gpu.Device, a *attribute.Attribution) []Use {
	m, p, u := &a.Memory, &a.Power, &a.Utilization
	memoryMeans, powerMeans := "", "An estimate: processes with the same share may draw different power."
	if d.Shared.Unified.Or(false) {
		memoryMeans = "Of the memory reserved for the GPU and the machine’s memory together."
		powerMeans = "An estimate. It includes the CPU cores’ draw where the driver reports both as one."
	}
	power := newUse(d, "Power", num(d.Power.EnforcedLimit), []usePart{
		{"idle", "power.idle_watts", "Without work", "The lowest steady draw seen without work.", num(p.Idle), "watts", new("unknown")},
		{"processes", "power.processes_watts", "Processes", powerMeans, num(p.Processes), "watts", nil},
		{"rest", "power.unexplained_watts", nobody, "", num(p.Remainder), "watts", nil},
	}, p.Reason, p.Coverage)
	power.Facts = append(power.Facts, UseFact{DeviceFact: ownFact(d, DeviceFact{
		Path: "attribution.method", Format: "split", Label: "Split by", Value: shown(gpu.Of(splitBy(p.Method)), longestName), Else: new("not split"),
	})})
	return []Use{
		newUse(d, "Memory", mebi(d.Pool().Total), []usePart{
			{"processes", "memory.processes_mb", "Processes", memoryMeans, mebi(m.Processes), "memory", nil},
			{"orphans", "memory.orphans_mb", "Ended processes", "They no longer exist, but the driver hasn’t freed their memory.", mebi(m.Orphans), "some", new("")},
			{"rest", "memory.unexplained_mb", nobody, "", mebi(m.Remainder), "memory", nil},
		}, m.Reason, m.Coverage),
		power,
		newUse(d, "Utilization", full, []usePart{
			{"processes", "utilization.processes_percent", "Processes", "The sum of their shares, up to the whole.", num(u.Processes), "percent", nil},
			{"rest", "utilization.unexplained_percent", nobody, "", num(u.Remainder), "percent", nil},
		}, u.Reason, u.Coverage),
	}
}

const nobody = "Unaccounted"

// newUse makes a Use of its parts. No process explains the last part.
func newUse(d *gpu.Device, title string, whole number, parts []usePart, reason *attribute.Reason, coverage gpu.Reading[gpu.Percent]) Use {
	const root = "attribution."
	out := Use{Title: title}
	var sum float64
	for _, p := range parts {
		sum += p.value.value
		width := cmp.Or(part(newNumber(sum, gpu.Good), whole), "0")
		out.Bar = slices.Insert(out.Bar, 0, UseBar{p.kind, width})
		out.Facts = append(out.Facts, UseFact{Kind: p.kind, DeviceFact: ownFact(d, DeviceFact{
			Path: root + p.path, Format: p.format, Label: p.label, Value: show(unexplained(p.value), formats[p.format]), Means: p.means, Else: p.orElse,
		})})
	}
	group, _, _ := strings.Cut(parts[0].path, ".")
	out.Facts[len(parts)-1].Why = new(ownFact(d, DeviceFact{
		Path: root + group + ".reason_text", Format: "text", Value: shown(gpu.Of(cmp.Or(reason, new(attribute.Reason)).Text()), longestSentence), Else: new(""),
	}))
	out.Facts = append(out.Facts, UseFact{DeviceFact: ownFact(d, DeviceFact{
		Path: root + group + ".coverage_percent", Format: "percent", Label: "Explained", Value: show(unexplained(num(coverage)), percent), Else: new(""),
	})})
	return out
}

// some writes an amount of memory; empty for 0.
func some(mib float64) string { return either(mib == 0, "", memory(mib)) }
