package term

import (
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

const noFan = " has no fan of its own: you hear the chassis fans."

// server is an answer about a machine with some GPUs, the first few of them at work.
func server(gpus, working int) *Answer {
	a := &Answer{Source: "simulated"}
	cause := func(kind string, gpu int, sentence string, evidence ...string) {
		uuid := string(rune('a' + gpu))
		c := contract.Cause{Kind: kind, GPUUUID: &uuid, Node: "dgx", Sentence: "GPU " + uuid + sentence, Certainty: "high"}
		for _, e := range evidence {
			name, text, _ := strings.Cut(e, ": ")
			c.Evidence = append(c.Evidence, contract.Evidence{Name: name, Text: text})
		}
		a.Causes = append(a.Causes, c)
	}
	for i := range gpus {
		uuid := string(rune('a' + i))
		g := contract.GPUWhy{GPUUUID: uuid, Node: "dgx"}
		g.Facts = []contract.Fact{{Text: "50 °C"}, {Text: "300 W of 700"}, {Text: "for 3 min"}, {Text: "slowed by heat", Warning: true}}
		g.Rest, g.Headline = "the chassis fans cool it", "GPU "+uuid+" is idle."
		kind := "idle"
		if i < working {
			kind, g.Headline = "work", "train.py (ann) is heating GPU "+uuid+"."
			g.Action = contract.Action{Text: "End it. It is too hot.", Command: "kill 4711"}
		}
		a.GPUs = append(a.GPUs, g)
		cause(kind, i, " does something.", "power: "+uuid)
		cause("chassis_fans", i, noFan, "temperature: "+uuid, "fans of its own: none reported")
	}
	a.Layers = a.GPUs[0].Layers
	return a
}

// A person reads ten lines, whatever the machine: nothing is said of each GPU that is true of all.
func TestBrief(t *testing.T) {
	t.Parallel()
	brief := func(s Screen, a *Answer) string {
		var b strings.Builder
		s.Writer = &b
		if err := Brief(s, a); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := `SIMULATED: none of these readings is real.
train.py (ann) is heating GPU a.
  slowed by heat · 50 °C · 300 W of 700
  to stop it: kill 4711
train.py (ann) is heating GPU b.
  slowed by heat · 50 °C · 300 W of 700
  to stop it: kill 4711
All 8 GPUs have no fan of their own: you hear the chassis fans.
6 other GPUs are idle.
`
	if got := brief(Screen{}, server(8, 2)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for gpus := 1; gpus <= 16; gpus++ {
		for working := 0; working <= gpus; working++ {
			got := brief(Screen{Width: 80, Terminal: true}, server(gpus, working))
			if n := strings.Count(got, "\n"); n > longest {
				t.Errorf("%d lines of %d GPUs, %d of them at work:\n%s", n, gpus, working, got)
			}
			if strings.Count(got, "chassis") > 1 {
				t.Errorf("of %d GPUs, something is said of each:\n%s", gpus, got)
			}
			if working > 0 && !strings.Contains(got, "kill 4711") {
				t.Errorf("of %d GPUs, %d at work, the action is missing:\n%s", gpus, working, got)
			}
		}
	}
	if got := brief(Screen{}, server(16, 16)); !strings.Contains(got, "other GPUs are at work or need somebody.\n") {
		t.Errorf("the GPUs that are not shown are not counted:\n%s", got)
	}
	alone := server(1, 1)
	if got := brief(Screen{}, alone); strings.Count(got, "\n") != 4 || !strings.Contains(got, "the chassis fans cool it") {
		t.Errorf("of one GPU:\n%s", got)
	}
	// What is about the machine comes before its GPUs.
	about := server(2, 1)
	about.Headline, about.Facts = "The fan of the case is loud.", nil
	if got := brief(Screen{}, about); !strings.Contains(got, "\nThe fan of the case is loud.\n") || !strings.Contains(got, "\ntrain.py (ann)") {
		t.Errorf("of another fan:\n%s", got)
	}
	// Of several machines, each GPU says where it is.
	about.GPUs[1].Node, about.Causes[2].Node, about.Causes[3].Node = "other", "other", "other"
	if got := brief(Screen{}, about); !strings.Contains(got, "\ndgx: train.py (ann)") {
		t.Errorf("of two machines:\n%s", got)
	}
	// What the headline of all machines shares with its GPU is said once.
	about.Facts, about.Action = about.GPUs[0].Facts, about.GPUs[0].Action
	if got := brief(Screen{}, about); strings.Count(got, about.Facts[0].Text) != 1 || !strings.Contains(got, "\nThe fan of the case is loud.\ndgx: train.py (ann)") {
		t.Errorf("of two machines with the facts of one:\n%s", got)
	}
}

// The evidence of causes that are the same for several GPUs is printed once, and only what is the same.
func TestEvidence(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := Evidence(Screen{Writer: &b}, server(3, 1)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	if strings.Count(got, "chassis fans.") != 1 || !strings.Contains(got, "\n\nAll 3 GPUs have no fan of their own: you hear the chassis fans.\n  certainty: high\n  fans of its own: none reported\n") {
		t.Error(got)
	}
	for _, part := range []string{"GPU a does something.\n  certainty: high\n  power: a", "power: b", "power: c"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}
