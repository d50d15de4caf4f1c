//go:build !race

package views

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

func TestHues(t *testing.T) {
	var h Hues
	for user, want := range map[string]bool{"root": true, "svc-llm": true, "systemd-resolve": true, "_apt": true, "": true, "ann": false, "svetlana": false} {
		if got := h.hueOf(user) == serviceHue; got != want {
			t.Errorf("%q has %s", user, h.hueOf(user))
		}
	}
	h = Hues{}
	users := []string{"ann", "bob", "carol", "dave", "erin"}
	first := map[string]string{}
	var all []string
	for _, user := range users {
		first[user] = h.hueOf(user)
		all = append(all, first[user])
	}
	if slices.Sort(all); !slices.Equal(all, []string{"p1", "p2", "p3", "p4", "p5"}) {
		t.Errorf("five people have %v", first)
	}
	// Whoever comes later, and in whatever order they are asked for: who had a hue keeps it.
	for _, user := range []string{"zoe", "frank", "grace", "heidi"} {
		if got := h.hueOf(user); got == serviceHue || got != h.hueOf(user) {
			t.Errorf("%s has %s and %s", user, got, h.hueOf(user))
		}
	}
	var after Hues
	if err := after.Restore(h.Kept(), time.Now()); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(users)
	for _, user := range users {
		if h.hueOf(user) != first[user] || after.hueOf(user) != first[user] {
			t.Errorf("%s had %s, has %s, and after a restart %s", user, first[user], h.hueOf(user), after.hueOf(user))
		}
	}
	if err := after.Restore(make([]string, people+1), time.Now()); err == nil {
		t.Error("more people than hues were taken")
	}
	if (*Hues)(nil).hueOf("ann") == serviceHue {
		t.Error("without Hues a person is a service")
	}
}

// A person has one color on all pages and in all pictures, also where the answer names them.
func TestAPersonHasOneHue(t *testing.T) {
	in := lab(gpu.SourceNVML)
	in.Hues = new(Hues)
	in.Hues.owners = [people]string{"somebody", "else", "who", "came before"} // the next has what is left
	in.Layers = contract.Layers{Headline: "eval.py (bob) is heating GPU 4."}
	in.Causes = []explain.Cause{{Device: &in.Nodes[0].Devices[4], Who: "eval.py (bob)"}}
	const want = "p5"
	if got := in.Hues.hueOf("bob"); got != want {
		t.Fatalf("bob has %s", got)
	}
	for _, user := range []string{"jane doe", "work", `CORP\jane (doe)`} { // sentences put some into quotation marks
		detail, device := in, in.Nodes[0].Devices[4]
		device.Processes = gpu.Of([]gpu.Process{running(9, user, "eval.py", "eval.py", 1, 0)})
		who := explain.ShortName(&device.Processes.Or(nil)[0])
		detail.Layers = contract.Layers{Headline: who + " is heating GPU 4."}
		detail.Causes = []explain.Cause{{Device: &device, Who: who + " and others"}}
		if got := NewPage(detail).Answer; got.Name == "" || got.Hue != detail.Hues.hueOf(user) {
			t.Errorf("%s has %s in the answer, and %s elsewhere", user, got.Hue, detail.Hues.hueOf(user))
		}
	}
	rows := 0
	for _, r := range NewProcessesPage(in).Table.Rows {
		if r.User.Text == "bob" {
			rows++
			if r.Hue != want {
				t.Errorf("%s of bob is %s", r.Name.Text, r.Hue)
			}
		} else if r.Hue == want && isService(r.User.Text) {
			t.Errorf("%s of %s is %s", r.Name.Text, r.User.Text, r.Hue)
		}
	}
	p := NewPage(in)
	if rows == 0 || p.Answer.Hue != want {
		t.Errorf("%d rows, and the answer has %q", rows, p.Answer.Hue)
	}
	for _, c := range p.GPUs.Cards {
		if c.User == "bob" && c.Hue != want {
			t.Errorf("the card of %s has %s", c.Title, c.Hue)
		}
	}
	past := examplePast()
	past.Hues = in.Hues
	for i := range past.Usage {
		past.Usage[i].Name = "bob"
	}
	for k, sessions := range past.Sessions {
		for i := range sessions.Longest {
			past.Sessions[k].Longest[i].User = "bob"
		}
	}
	html := render(t, NewPastPage(past))
	for _, found := range regexp.MustCompile(`class="(?:\w+ )*(p\d)"`).FindAllStringSubmatch(html, -1) {
		if found[1] != want {
			t.Errorf("the past of bob alone has %s", found[1])
		}
	}
}
