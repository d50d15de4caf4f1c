package views

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

var exampleLayers = contract.Layers{
	Headline: "train.py (ann) is heating GPU 3.",
	Facts:    []contract.Fact{{Text: "85 °C", Warning: true}, {Text: "579 W of 600"}},
	Rest:     "for 12 min · 6 other GPUs busy",
	Action:   contract.Action{Text: "End or pause train.py (pid 4242, ann).", Command: "kill 4242 7 s"},
}

func TestAnswer(t *testing.T) {
	long := strings.Repeat("é", 44) + "."
	for name, c := range map[string]struct {
		of   contract.Layers
		want Answer
	}{
		"nothing": {contract.Layers{}, Answer{}},
		"all layers": {exampleLayers, Answer{
			Headline: "train.py (ann) is heating GPU\u00a03.",
			Chips:    []Chip{{"85\u00a0°C", true}, {"579\u00a0W of 600", false}},
			Rest:     "for 12\u00a0min · 6 other GPUs busy",
			Action:   "End or pause train.py (pid\u00a04242, ann).",
			Command:  "kill 4242 7 s", // a shell does not take the spaces of sentences
		}},
		"broken": {
			contract.Layers{Headline: "GPU 3 is lost.", Broken: true},
			Answer{Headline: "GPU\u00a03 is lost.", Broken: true},
		},
		"not quite long":   {contract.Layers{Headline: long}, Answer{Headline: long}},
		"long":             {contract.Layers{Headline: long + "x"}, Answer{Headline: long + "x", Long: true}},
		"as scripts count": {contract.Layers{Headline: "𝄞" + long[2:]}, Answer{Headline: "𝄞" + long[2:], Long: true}},
		"a hostile name":   {contract.Layers{Headline: "\u202e is heating it."}, Answer{Headline: "\ufffd is heating it."}},
	} {
		if diff := cmp.Diff(c.want, newAnswer(&c.of)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Without a script the dashboard and a GPU's own page have all layers, from the
// shortest text to more.
func TestAnswerOnPages(t *testing.T) {
	s := machine("eight")
	in := input(s, "The whole sentence.")
	in.Layers, in.Causes = exampleLayers, exampleCauses(s, noon)
	in.Layers.Broken = true
	parts := []string{
		`<div id="answer" data-broken>`, "train.py (ann) is heating GPU\u00a03.</p>",
		`<li data-key="0" data-warning>85` + "\u00a0°C</li>", `<li data-key="1">579`, "6 other GPUs busy</p>",
		"(pid\u00a04242, ann).</span>", `data-f="command">kill 4242 7 s</code>`, `id="copy-it"`, `id="evidence"`,
	}
	pages := map[string]Page{"dashboard": NewPage(in), "GPU": NewDevicePage(in, &s.Devices[0])}
	for name, page := range pages {
		html := render(t, page)
		at := 0
		for _, part := range parts {
			next := strings.Index(html[at:], part)
			if next < 0 {
				t.Errorf("the page of the %s lacks %q, or has it earlier", name, part)
				continue
			}
			at += next
		}
	}
}
