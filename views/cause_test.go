//go:build !race

package views

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// exampleCauses are what a sentence about a machine could rest on.
func exampleCauses(s *gpu.Snapshot, now time.Time) []explain.Cause {
	d := &s.Devices[0]
	began := now.Add(-134 * time.Minute)
	return []explain.Cause{
		{ID: "note:0", Sentence: "Processes of other users are listed without their commands.", Confidence: explain.High, Advice: "Start gpuwhy with --show-commands."},
		{
			ID: "work:" + d.UUID, Device: d, Since: began, Confidence: explain.High,
			Sentence: "python (pid 48213, alice) keeps the GPU busy.", Advice: "End it, or let it run with less power (nvidia-smi -pl).",
			Evidence: []explain.Evidence{
				{Name: "utilization", Text: show(num(d.Utilization.GPU), percent).Text, At: now},
				{Name: "temperature", Text: show(num(d.Thermal.GPU), celsius).Text, At: now},
				{Name: "power draw", Text: show(num(d.Power.Draw), watts).Text, At: now},
				{Name: "work began", Text: moment(began), At: began, Moment: true},
			},
		},
		{
			ID: "limited_by_power:" + d.UUID, Device: d, Confidence: explain.Medium,
			Sentence: "GPU 0 is at its power limit, which holds its clocks down.",
			Evidence: []explain.Evidence{{Name: "clocks held down by", Text: "the power limit", At: now}},
		},
		{
			ID: "not_knowable:" + d.UUID, Device: d, Confidence: explain.Low,
			Sentence: "What can't be told: the temperature of its memory, which this product does not report.",
		},
	}
}

func TestCauses(t *testing.T) {
	device := func(node, uuid string) *gpu.Device {
		return &gpu.Device{Identity: gpu.Identity{Node: node, UUID: uuid}}
	}
	causes := []explain.Cause{
		{ID: "note:0", Sentence: "Of the machine.", Confidence: explain.High},
		{ID: "work:GPU-1", Device: device("n", "GPU-1"), Sentence: "p keeps it busy.", Confidence: explain.Medium, Since: noon.Add(-90 * time.Second), Advice: "End it.", Evidence: []explain.Evidence{
			{Name: "power draw", Text: "431\u00a0W", At: noon},
			{Name: "read a second ago", Text: "1", At: noon.Add(-time.Second)},
			{Name: "work began", Text: "11:58:30 UTC", At: noon.Add(-90 * time.Second), Moment: true},
			{Name: "when is not known", Text: "2"},
		}},
		{ID: "limited_by_heat:GPU-1", Device: device("n", "GPU-1"), Sentence: "\u202eIt is hot.", Confidence: explain.Low},
		{ID: "idle:GPU-1", Device: device("other", "GPU-1"), Sentence: "Another machine's.", Confidence: explain.High},
		{ID: "idle:GPU-2", Device: device("n", "GPU-2"), Sentence: "Another GPU's.", Confidence: explain.High},
	}
	want := []CauseRow{
		{
			Key: "work:GPU-1", Sentence: "p keeps it busy.", Advice: "End it.",
			About: "Certainty: medium; another cause could look the same", Began: noon.Add(-90 * time.Second), Lasts: "for 90\u00a0s",
			Evidence: []EvidenceRow{
				{Name: "power draw", Text: "431\u00a0W"}, {Name: "read a second ago", Text: "1"},
				{"work began", "", "1\u00a0min ago", noon.Add(-90 * time.Second)}, {Name: "when is not known", Text: "2"},
			},
		},
		{Key: "limited_by_heat:GPU-1", Sentence: "\ufffdIt is hot.", About: "Certainty: low; the reading that would decide it is missing"},
		{Key: "note:0", Sentence: "Of the machine.", About: "Certainty: high"},
	}
	if diff := cmp.Diff(want, newCauses(causes, noon)); diff != "" {
		t.Error(diff)
	}
	if got := newCauses(nil, noon); got != nil {
		t.Errorf("of none: %v", got)
	}
}

// The dashboard has its causes below the whole sentence; a GPU's own page has that GPU's, whose first is the sentence.
func TestEvidenceOnPages(t *testing.T) {
	s := machine("eight")
	in := input(s, "The whole machine.")
	in.Causes = []explain.Cause{
		{ID: "a", Sentence: "Of the machine.", Confidence: explain.High},
		{ID: "b", Device: &s.Devices[0], Sentence: "Of the first.", Confidence: explain.High, Evidence: []explain.Evidence{{Name: "<i>", Text: "</ul>", At: noon}}},
		{ID: "c", Device: &s.Devices[1], Sentence: "Of the second.", Confidence: explain.High},
	}
	html := render(t, NewPage(in))
	for _, part := range []string{`id="why">The whole machine.</p>`, `<details class="more evidence" id="evidence"><summary>`, "Of the first.", "Of the machine.", "&lt;i&gt;", "&lt;/ul&gt;"} {
		if !strings.Contains(html, part) {
			t.Errorf("the dashboard lacks %q", part)
		}
	}
	if strings.Contains(html, "Of the second.") {
		t.Error("the dashboard has another GPU's causes")
	}
	html = render(t, NewDevicePage(in, &s.Devices[1]))
	for _, part := range []string{`id="evidence"><summary>`, `<p class="says">Of the second.`} {
		if !strings.Contains(html, part) {
			t.Errorf("the page of the second lacks %q", part)
		}
	}
	if strings.Contains(html, "Of the first.") || strings.Contains(html, "Of the machine.") || strings.Contains(html, "The whole machine.") {
		t.Error("the page of the second has others' causes")
	}
	in.Causes = nil
	if html := render(t, NewPage(in)); !strings.Contains(html, `id="evidence" hidden>`) {
		t.Error("evidence is shown where there is none")
	}
}
