package views

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCauses(t *testing.T) {
	causes := []Cause{
		{ID: "note:0", Sentence: "Of the machine.", Certainty: "high"},
		{ID: "work:GPU-1", Node: "n", UUID: "GPU-1", Sentence: "p keeps it busy.", Certainty: "medium", Since: noon.Add(-90 * time.Second), Advice: "End it.", Evidence: []Evidence{
			{"power draw", "431\u00a0W", noon, false},
			{"read a second ago", "1", noon.Add(-time.Second), false},
			{"work began", "11:58:30 UTC", noon.Add(-90 * time.Second), true},
			{"when is not known", "2", time.Time{}, false},
		}},
		{ID: "limited_by_heat:GPU-1", Node: "n", UUID: "GPU-1", Sentence: "\u202eIt is hot.", Certainty: "low"},
		{ID: "idle:GPU-1", Node: "other", UUID: "GPU-1", Sentence: "Another machine's.", Certainty: "high"},
		{ID: "idle:GPU-2", Node: "n", UUID: "GPU-2", Sentence: "Another GPU's.", Certainty: "high"},
	}
	want := []CauseRow{
		{
			Key: "work:GPU-1", Sentence: "p keeps it busy.", Advice: "End it.",
			About: "Certainty: medium, something else could look the same · since 2026-01-02 11:58:30 UTC, for 1\u00a0min", At: "2026-01-02T11:58:30Z",
			Evidence: []EvidenceRow{
				{"power draw", "431\u00a0W", "", ""}, {"read a second ago", "1", "", ""},
				{"work began", "2026-01-02 11:58:30 UTC", "1\u00a0min ago", "2026-01-02T11:58:30Z"}, {"when is not known", "2", "", ""},
			},
		},
		{Key: "limited_by_heat:GPU-1", Sentence: "\ufffdIt is hot.", About: "Certainty: low, what would decide is not reported"},
		{Key: "note:0", Sentence: "Of the machine.", About: "Certainty: high"},
	}
	if diff := cmp.Diff(want, newCauses(causes, noon)); diff != "" {
		t.Error(diff)
	}
	if got := newCauses(nil, noon); got != nil {
		t.Errorf("of none: %v", got)
	}
}

// The dashboard has its causes closed; a GPU's own page has that GPU's open,
// and the first of them above.
func TestEvidenceOnPages(t *testing.T) {
	s := machine("eight")
	in := input(s, "The whole machine.")
	in.Causes = []Cause{
		{ID: "a", Sentence: "Of the machine.", Certainty: "high"},
		{ID: "b", Node: s.Node, UUID: s.Devices[0].UUID, Sentence: "Of the first.", Certainty: "high", Evidence: []Evidence{{"<i>", "</ul>", noon, false}}},
		{ID: "c", Node: s.Node, UUID: s.Devices[1].UUID, Sentence: "Of the second.", Certainty: "high"},
	}
	html := render(t, NewPage(in))
	for _, part := range []string{`id="why">The whole machine.</p>`, `<details class="evidence" id="evidence"><summary>`, "Of the first.", "Of the machine.", "&lt;i&gt;", "&lt;/ul&gt;"} {
		if !strings.Contains(html, part) {
			t.Errorf("the dashboard lacks %q", part)
		}
	}
	if strings.Contains(html, "Of the second.") {
		t.Error("the dashboard has another GPU's causes")
	}
	html = render(t, NewDevicePage(in, &s.Devices[1]))
	for _, part := range []string{`id="why">Of the second.</p>`, `id="evidence" open><summary>`, `data-f="sentence">Of the second.`} {
		if !strings.Contains(html, part) {
			t.Errorf("the page of the second lacks %q", part)
		}
	}
	if strings.Contains(html, "Of the first.") || strings.Contains(html, "Of the machine.") {
		t.Error("the page of the second has others' causes")
	}
	in.Causes = nil
	if html := render(t, NewPage(in)); !strings.Contains(html, `id="evidence" hidden>`) {
		t.Error("evidence is shown where there is none")
	}
}
