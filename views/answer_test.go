//go:build !race

package views

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

var exampleLayers = contract.Layers{
	Headline: "train.py (ann) is heating GPU 3.",
	Facts:    []contract.Fact{{Text: "85 °C", Warning: true}, {Text: "579 W of 600"}},
	Rest:     "for 12 min · 6 other GPUs busy",
	Action:   contract.Action{Text: "End or pause train.py (pid 4242, ann).", Command: "kill 4242 7 s"},
}

func TestAnswer(t *testing.T) {
	short, long := strings.Repeat("é", 43)+".", strings.Repeat("é", 61)+"."
	const ask = "Why is my GPU fan running?"
	causesOf := func(who string) []explain.Cause {
		return []explain.Cause{{ID: "note"}, {Who: who, Device: new(gpu.Device)}}
	}
	for name, c := range map[string]struct {
		layers contract.Layers
		causes []explain.Cause
		want   Answer
	}{
		"nothing": {contract.Layers{}, nil, Answer{Question: ask}},
		"all layers": {exampleLayers, causesOf("train.py (ann)"), Answer{
			Question: ask, Name: "train.py", By: " (ann)", After: " is heating GPU\u00a03.", Hue: (*Hues)(nil).hueOf("ann"),
			Chips: []Chip{{"temp:", "temp", "85\u00a0°C", "", Near}, {"bolt:of 600", "bolt", "579\u00a0W", "of 600", Normal}},
			Rest:  "for 12\u00a0min · 6 other GPUs busy",
			Ways:  []Way{{"End or pause train.py (pid\u00a04242, ann).", "kill 4242 7 s"}}, // a shell does not take the spaces of sentences
		}},
		"a name within": {
			contract.Layers{Headline: "Cooling down after render.py, quiet in about 2 min."}, causesOf("render.py"),
			Answer{Question: ask, Before: "Cooling down after ", Name: "render.py", After: ", quiet in about 2\u00a0min.", Hue: "p6", Size: "long"},
		},
		"two": {
			contract.Layers{Headline: "a.py (ann) and b.py (bob) are heating GPU 3."}, causesOf("a.py (ann) and b.py (bob)"),
			Answer{Question: ask, Name: "a.py", By: " (ann)", After: " and b.py (bob) are heating GPU\u00a03.", Hue: (*Hues)(nil).hueOf("ann")},
		},
		"broken": {
			contract.Layers{Headline: "GPU 3 is lost.", Broken: true, Facts: []contract.Fact{{Text: "fell off the bus"}, {Text: "for 3 min"}}}, nil,
			Answer{
				Question: ask, After: "GPU\u00a03 is lost.", Broken: true,
				Chips: []Chip{{":fell off the bus", "bad", "", "fell off the bus", Bad}, {"clock:", "clock", "for 3\u00a0min", "", Normal}},
			},
		},
		"one warning": {
			contract.Layers{Facts: []contract.Fact{{Text: "85 °C", Warning: true}, {Text: "slowed by heat", Warning: true}, {Text: "fan 41 % falling"}}}, nil,
			Answer{Question: ask, Chips: []Chip{
				{"temp:", "temp", "85\u00a0°C", "", Normal}, {":slowed by heat", "warn", "", "slowed by heat", Near}, {"fan:fan falling", "fan", "41\u00a0%", "fan falling", Normal},
			}},
		},
		"not quite long": {contract.Layers{Headline: short}, nil, Answer{Question: ask, After: short}},
		"long":           {contract.Layers{Headline: short + "x"}, nil, Answer{Question: ask, After: short + "x", Size: "long"}},
		"as long":        {contract.Layers{Headline: long}, nil, Answer{Question: ask, After: long, Size: "long"}},
		"longer":         {contract.Layers{Headline: long + "x"}, nil, Answer{Question: ask, After: long + "x", Size: "longer"}},
		"a hostile name": {contract.Layers{Headline: "\u202e is heating it."}, nil, Answer{Question: ask, After: "\ufffd is heating it."}},
	} {
		if diff := cmp.Diff(c.want, newAnswer(&Input{Layers: c.layers, Causes: c.causes})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Without a script the dashboard and a GPU's own page have all layers, from the
// shortest text to more, and the headline as it is said of what is old.
func TestAnswerOnPages(t *testing.T) {
	s := machine("eight")
	in := input(s, "The whole sentence.")
	in.Layers, in.Causes = exampleLayers, exampleCauses(s, noon)
	in.Layers.Broken, in.Past = true, "train.py (ann) was heating GPU 3."
	parts := []string{
		`data-broken`, "is heating GPU\u00a03.</span>", "was heating GPU\u00a03.</span>",
		`data-level="bad"`, "85\u00a0°C</b>", "579\u00a0W</b>", "6 other GPUs busy</p>",
		"(pid\u00a04242, ann).</b>", "<code>kill 4242 7 s</code>", `data-copy="kill 4242 7 s"`, `id="evidence"`,
	}
	pages := map[string]Page{"dashboard": NewPage(in), "GPU": NewDevicePage(in, &s.Devices[0])}
	for name, page := range pages {
		html := render(t, page)
		place := 0
		for _, part := range parts {
			next := strings.Index(html[place:], part)
			if next < 0 {
				t.Errorf("the page of the %s lacks %q, or has it earlier", name, part)
				continue
			}
			place += next
		}
	}
}

// A name is not broken at its hyphens, and not a letter of a text gets lost.
func TestWholeWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"none is loud.":                      "none is loud.",
		"hall:dgx-1: a runs":                 "[hall:dgx-1:] a runs",
		"1 of 3 machines is loud, gpu-a-17.": "1 of 3 machines is loud, [gpu-a-17.]",
		"a-b c-d e":                          "[a-b] [c-d] e",
		"- -":                                "[-] [-]",
	} {
		var got, plain strings.Builder
		for _, w := range wordsOf(text) {
			plain.WriteString(w.Text)
			got.WriteString(either(w.Whole, "["+w.Text+"]", w.Text))
		}
		if got.String() != want || plain.String() != text {
			t.Errorf("%q is %q", text, got.String())
		}
	}
}
