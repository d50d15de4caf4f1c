//go:build !race

package views

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A card says what comes soon, where it can be told and the device answers.
func TestACardSaysWhatComesSoon(t *testing.T) {
	e := fixture.Named("one", noon)
	in := input(e.Snapshot, e.Why)
	next := []explain.Prospect{
		{Short: "costs about 12 this month"}, {Short: "memory full in about 26 min", Left: gpu.Of(26 * time.Minute)}, {Short: "quiet in about 30 min", Left: gpu.Of(30 * time.Minute)},
	}
	in.Next = func(*gpu.Device) []explain.Prospect { return next }
	if got := NewPage(in).GPUs.Cards[0].Notice; got != "memory full in about 26 min" {
		t.Errorf("%q", got)
	}
	if html := render(t, NewPage(in)); !strings.Contains(html, ">memory full in about 26 min<") {
		t.Error("it is not on the page")
	}
	next = next[:1]
	if got := NewPage(in).GPUs.Cards[0].Notice; got != "" {
		t.Errorf("what has no time is told: %q", got)
	}
}

// The page of a GPU has what comes next with how wrong such forecasts were, and why the others can't be told.
func TestTheForecastOfAGPUIsOnItsPage(t *testing.T) {
	e := fixture.Named("one", noon)
	in, d := input(e.Snapshot, e.Why), &e.Snapshot.Devices[0]
	before := render(t, NewDevicePage(in, d))
	if !strings.Contains(before, `id="next" aria-labelledby="next-title" hidden`) {
		t.Error("before the first forecast the page has a place for it")
	}
	g := contract.GPUForecast{Forecasts: []contract.Forecast{
		{Kind: "memory_full", Shown: true, Text: "Full in about 26 min (18 min to 41 min).", ErrorUnit: "MiB", Trials: 14, Error: gpu.Of(512.0)}, {Kind: "quiet", Reason: "it is not cooling down now"},
	}}
	other := g
	g.Node, g.GPUUUID = d.Node, d.UUID
	other.Node, other.GPUUUID = d.Node, "GPU-other"
	in.Forecasts = []contract.GPUForecast{other, g}
	html := strings.ReplaceAll(render(t, NewDevicePage(in, d)), nbsp, " ")
	for _, want := range []string{
		"Full in about 26 min (18 min to 41 min).", "Off by 512 MiB on average over 14 trials", "when it is quiet (it is not cooling down now)", "80 of 100 cases",
	} {
		if strings.Count(html, want) != 1 {
			t.Errorf("%q is there %d times", want, strings.Count(html, want))
		}
	}
	if strings.Contains(html, `aria-labelledby="next-title" hidden`) {
		t.Error("it is hidden")
	}
}

// The page of the past says how wrong a forecast was, or why it can't be told.
func TestPastNext(t *testing.T) {
	hours := make([]contract.FreeHour, 168)
	hours[24].Free = true // Monday, 0 o'clock
	hours[5].Free = true  // Sunday, 5 o'clock
	g := contract.GPUForecast{Hours: hours, Forecasts: []contract.Forecast{
		{Kind: "memory_full", Shown: true, Text: "Full soon.", ErrorUnit: "MiB", Trials: 14, Error: gpu.Of(512.0), AsNow: contract.Naive{Error: gpu.Of(2048.0)}},
		{Kind: "energy", Shown: true, Text: "Much.", ErrorUnit: "kWh", Trials: 1, Error: gpu.Of(2.0), AsNow: contract.Naive{Error: gpu.Of(20.5)}, Yesterday: contract.Naive{Error: gpu.Of(6.0)}},
		{Kind: "quiet", Reason: "it is not cooling down now"}, {Kind: "cost", Reason: "no price of electricity is set"},
	}}
	n, ok := newOutlook("GPU 0", &g)
	if !ok || len(n.Told) != 2 {
		t.Fatalf("%+v", n)
	}
	for i, want := range []string{
		"Off by 512 MiB on average over 14 trials; “as now” by 2.0 GiB.", "Off by 2.00 kWh on average over 1 trial; “as now” by 20.50 kWh, “as yesterday” by 6.00 kWh.",
	} {
		if got := strings.ReplaceAll(n.Told[i].How, nbsp, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if want := "Can’t be forecast yet: when it is quiet (it is not cooling down now), this month’s cost (no price of electricity is set)."; n.Not != want {
		t.Errorf("%q, want %q", n.Not, want)
	}
	if n.Week != "M5 6h.92v.86h-.92zM0 0h.92v.86h-.92z" || n.Says != "Usually free in 2 of the 168 hours of a week" {
		t.Errorf("%q, %q", n.Week, n.Says)
	}
	if _, ok := newOutlook("GPU 0", &contract.GPUForecast{}); ok {
		t.Error("before the first forecast there is something to say")
	}
}

// GPUs of which nothing can be told for the same reasons stand together, in few words.
func TestPastNextOfGPUsAlike(t *testing.T) {
	forecast := func(node string, id int, reason string, shown bool) contract.GPUForecast {
		g := contract.GPUForecast{Forecasts: []contract.Forecast{{Kind: "quiet", Reason: reason, Shown: shown, Text: "Quiet in 5 s"}}}
		g.Node, g.GPUID = node, id
		return g
	}
	titles := func(nodes int, forecasts ...contract.GPUForecast) (out []string) {
		in := PastInput{Input: Input{Forecasts: forecasts}}
		for range nodes {
			in.Nodes = append(in.Nodes, &gpu.Snapshot{})
		}
		p := PastPage{in: &in}
		for _, n := range p.next() {
			out = append(out, strings.ReplaceAll(n.Title, nbsp, " "))
		}
		return out
	}
	one := titles(1, forecast("a", 0, "not enough past data", false), forecast("a", 1, "", true), forecast("a", 2, "not enough past data", false), forecast("a", 3, "no growth", false))
	if want := []string{"GPUs 0 and 2", "GPU 1", "GPU 3"}; !slices.Equal(one, want) {
		t.Errorf("%q, want %q", one, want)
	}
	var fleet []contract.GPUForecast
	for node := range 3 {
		for id := range 8 {
			fleet = append(fleet, forecast(fmt.Sprintf("node-%03d", node), id, "not enough past data", false))
		}
	}
	fleet[9].Forecasts[0].Shown = true
	several := titles(3, fleet...)
	want := []string{"GPUs 0–7 on node-000, GPUs 0 and 2–7 on node-001 and GPUs 0–7 on node-002", "GPU 1 on node-001"}
	if !slices.Equal(several, want) {
		t.Errorf("%q, want %q", several, want)
	}
}
