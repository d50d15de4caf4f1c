package views

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// An Outlook is the forecasts of one device, or of several that can't be forecast for the same reasons.
type Outlook struct {
	Title string
	Told  []Foretold
	Not   string // what can't be forecast yet, and why
	Week  string // SVG path of the hours of a week when the device is usually free, 24 by 7; empty if unknown
	Says  string // the same in words
}

// A Foretold is one shown forecast.
type Foretold struct {
	Kind string
	Text string
	How  string // how far off past forecasts were
}

// forecastNames names kinds of forecasts on the page.
var forecastNames = map[string]string{
	"memory_full": "when its memory is full", "limit_reached": "when heat slows it", "quiet": "when it is quiet",
	"energy": "this month’s energy", "cost": "this month’s cost", "usually_free": "when it is usually free",
}

// newOutlook makes the outlook of a device. Before the first forecast it is not ok.
func newOutlook(title string, g *contract.GPUForecast) (n Outlook, ok bool) {
	n.Title = title
	var not []string
	for i := range g.Forecasts {
		f := &g.Forecasts[i]
		if f.Shown {
			n.Told = append(n.Told, Foretold{f.Kind, sentence(f.Text), errorsOf(f)})
		} else {
			not = append(not, forecastNames[f.Kind]+" ("+f.Reason+")")
		}
	}
	if len(not) > 0 {
		n.Not = sentence("Can’t be forecast yet: " + strings.Join(not, ", ") + ".")
	}
	n.week(g.Hours)
	return n, len(g.Forecasts) > 0
}

// newOutlooks returns the outlook of a device without a title, or none before its first forecast.
func newOutlooks(d *gpu.Device, all []contract.GPUForecast) (out []Outlook) {
	for i := range all {
		if n, ok := newOutlook("", &all[i]); ok && all[i].Node == d.Node && all[i].GPUUUID == d.UUID {
			out = append(out, n)
		}
	}
	return out
}

// errorsOf says how far off past forecasts were, compared with simple guesses.
func errorsOf(f *contract.Forecast) string {
	amount := func(r contract.Float) string {
		v, ok := r.Get()
		if !ok {
			return "unknown"
		}
		switch f.ErrorUnit {
		case "s":
			return span(v)
		case "":
			if f.Kind == "usually_free" {
				return percent(100 * v)
			}
			return hundredth(v)
		case "MiB":
			return memory(v)
		default:
			return strings.TrimSpace(hundredth(v) + nbsp + f.ErrorUnit)
		}
	}
	if f.Trials == 0 {
		return ""
	}
	text := fmt.Sprintf("Off by %s on average over %s; “as now” by %s", amount(f.Error), explain.Plural(f.Trials, "trial", "trials"), amount(f.AsNow.Error))
	if f.Yesterday.Error.Present() {
		text += ", “as yesterday” by " + amount(f.Yesterday.Error)
	}
	return sentence(text + ".")
}

// week draws the hours when a device is usually free, Monday first.
func (n *Outlook) week(hours []contract.FreeHour) {
	const inWeek, inDay = 7 * 24, 24
	if len(hours) != inWeek {
		return
	}
	var out strings.Builder
	free := 0
	for i := range hours {
		if !hours[i].Free {
			continue
		}
		free++
		day := (i/inDay + 6) % 7
		fmt.Fprintf(&out, "M%d %dh.92v.86h-.92z", i%inDay, day)
	}
	n.Week, n.Says = cmp.Or(out.String(), "M0 0"), "Usually free in "+strconv.Itoa(free)+" of the 168 hours of a week"
}

// next returns the forecasts of the devices in the picture, or of all devices without a picture.
func (p *PastPage) next() (out []Outlook) {
	var names [][]string // the devices of each, by name
	for i := range p.in.Forecasts {
		g := &p.in.Forecasts[i]
		drawn := slices.ContainsFunc(p.in.Drawn, func(d store.Device) bool { return d.Node == g.Node && d.UUID == g.GPUUUID })
		if !drawn && len(p.in.Drawn) > 0 {
			continue
		}
		name := "GPU " + strconv.Itoa(g.GPUID)
		if len(p.in.Nodes) > 1 {
			name += " on " + clean(g.Node, longestName)
		}
		n, ok := newOutlook("", g)
		alike := slices.IndexFunc(out, func(o Outlook) bool { return o.saysNothing() && n.saysNothing() && o.Not == n.Not })
		switch {
		case !ok:
		case alike >= 0:
			names[alike] = append(names[alike], name)
		case len(out) < mostForecasts:
			out, names = append(out, n), append(names, []string{name})
		}
	}
	for i := range out {
		out[i].Title = sentence(history.Together(names[i]))
	}
	return out
}

// saysNothing reports whether nothing can be forecast.
func (n *Outlook) saysNothing() bool { return len(n.Told) == 0 && n.Week == "" }

// mostForecasts limits the outlooks on the page.
const mostForecasts = 16
