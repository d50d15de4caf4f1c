package static_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

var heating = contract.Layers{
	Headline: "train.py (ann) is heating GPU 3.",
	Facts: []contract.Fact{
		{Text: "85 °C", Warning: true}, {Text: "579 W of 600"}, {Text: "fan 58 %"}, {Text: "slowed by heat", Warning: true},
	},
	Rest: "for 12 min · 6 other GPUs busy",
	Action: contract.Action{
		Text: "End or pause train.py (pid 4242, ann). Or let it run with less heat and noise, and a little more slowly: " +
			"nvidia-smi -i GPU-705fb61f-05a0-de9b-029c-198ecbaba62d -pl 560, as root.",
		Command: "kill 4242 7 s",
	},
}

// answered sends an update with these layers, and waits until they are shown.
func answered(t *testing.T, tab *browsertest.Tab, site *site, n int, of contract.Layers) {
	t.Helper()
	u := newUpdate(exampleNamed(t, "one", site.snapshot.Time.Add(time.Duration(n)*time.Second)).Snapshot, "why")
	of.Facts = append([]contract.Fact{}, of.Facts...)
	u.Layers, u.GPUs[0].Layers = of, of
	u.GPUs[0].UUID = site.snapshot.Devices[0].UUID
	site.send(t, "gpu_status_update", u)
	at := site.snapshot.Time.Add(time.Duration(n) * time.Second).UnixMilli()
	tab.Until(fmt.Sprintf(`document.body.dataset.taken === "%d"`, at))
}

// The answer follows the readings on the dashboard and on a GPU's own page, as text,
// and what is below it stays where it is.
func TestTheAnswerFollows(t *testing.T) {
	e := exampleNamed(t, "one", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 1440, 900)
	const shown = `["headline", "rest", "action", "command"].map((f) => "#answer [data-f=" + f + "]")
	  .map((s) => document.querySelector(s).textContent)
	  .concat([...document.querySelectorAll("#chips > li")].map((li) => ("warning" in li.dataset ? "!" : "") + li.textContent))
	  .join("|").replaceAll("\u00a0", " ")`
	const long = "a_long_name_of_a_script.py (somebody) is probably heating GPU 3."
	hostile := contract.Layers{
		Headline: "<b>x</b>\u202e", Facts: []contract.Fact{{Text: "<i>"}}, Rest: "<i>",
		Action: contract.Action{Text: "<i>", Command: "<i>"},
	}
	const top = `document.getElementById("cards").getBoundingClientRect().top + scrollY`
	for _, path := range []string{"", "gpu/" + e.Snapshot.Devices[0].UUID} {
		for width, height := range map[int64]int64{1440: 900, 768: 1024, 390: 844} {
			tab.Resize(width, height)
			tab.Visit(site.URL + base + path)
			site.await(t)
			tab.Until(`document.getElementById("connection").dataset.state === "live"`)
			tab.Settle()
			before := browsertest.Ask[float64](tab, top)
			for i, c := range []struct {
				of   contract.Layers
				want string
			}{
				{heating, heating.Headline + "|" + heating.Rest + "|" + heating.Action.Text + "|" + heating.Action.Command +
					"|!85 °C|579 W of 600|fan 58 %|!slowed by heat"},
				{contract.Layers{Headline: "Your fan is off.", Facts: []contract.Fact{{Text: "38 °C"}}}, "Your fan is off.||||38 °C"},
				{contract.Layers{Headline: "GPU 5 does not answer.", Broken: true}, "GPU 5 does not answer.|||"},
				{contract.Layers{Headline: long}, long + "|||"},
				{hostile, "<b>x</b>\ufffd|<i>|<i>|<i>|<i>"},
			} {
				answered(t, tab, site, i+1, c.of)
				if got := browsertest.Ask[string](tab, shown); got != c.want {
					t.Errorf("%q shows\n%s\nwant\n%s", path, got, c.want)
				}
				if got := browsertest.Ask[float64](tab, top); got != before {
					t.Errorf("%q, %d wide, %q: the cards are at %v, and were at %v", path, width, c.of.Headline, got, before)
				}
				const cut = `(({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 2)(document.querySelector(".headline"))`
				if browsertest.Ask[bool](tab, cut) {
					t.Errorf("%d wide: %q is cut", width, c.of.Headline)
				}
				const red = `getComputedStyle(document.querySelector(".headline")).color !== getComputedStyle(document.body).color`
				if browsertest.Ask[bool](tab, red) != c.of.Broken {
					t.Errorf("%q is red, or is not", c.of.Headline)
				}
			}
			const aloud = `":is([aria-live], [role]) #answer, #answer :is([aria-live], [role])"`
			if browsertest.Ask[bool](tab, `document.querySelector(`+aloud+`) !== null`) {
				t.Error("the answer is read out whenever it changes")
			}
		}
	}
	tab.Quiet()
}

// A command is copied with the keyboard, exactly as it is. Where the browser does
// not permit that, it is selected.
func TestTheCommandIsCopied(t *testing.T) {
	e := exampleNamed(t, "one", time.Now())
	site := newSite(t, e.Snapshot, e.Why)
	tab := browsertest.Open(t, 390, 844)
	tab.Before(`window.copied = "", window.permitted = true;
	  Object.defineProperty(navigator, "clipboard", { value: {
	    writeText: async (text) => { if (!permitted) throw new Error("no"); copied = text; },
	  } });
	  window.soon = [];
	  const wait = setTimeout;
	  window.setTimeout = (f, ms, ...rest) => ms === 5000 ? soon.push(f) : wait(f, ms, ...rest)`)
	visit(t, tab, site)
	says := func(button, said string) {
		t.Helper()
		const both = `["copy-it", "said"].map((id) => document.getElementById(id).textContent).join()`
		tab.Until(fmt.Sprintf(both+` === %q`, button+","+said))
	}
	answered(t, tab, site, 1, heating)
	width := browsertest.Ask[float64](tab, `document.getElementById("copy-it").offsetWidth`)
	tab.Do(chromedp.Focus("#copy-it"), chromedp.KeyEvent("\r"))
	says("Copied", "Copied")
	if got := browsertest.Ask[string](tab, `copied`); got != heating.Action.Command {
		t.Errorf("it has copied %q", got)
	}
	later := heating
	later.Headline = "train.py (ann) is still heating GPU 3."
	answered(t, tab, site, 2, later)
	says("Copied", "Copied")
	browsertest.Ask[bool](tab, `(soon.splice(0).forEach((f) => f()), true)`)
	says("Copy", "Copied")
	if !browsertest.Ask[bool](tab, `document.activeElement.id === "copy-it"`) {
		t.Error("the focus is elsewhere")
	}

	tab.Do(chromedp.KeyEvent("\r"))
	says("Copied", "Copied")
	later.Action.Command = "kill 1"
	answered(t, tab, site, 3, later)
	says("Copy", "Copied") // another command was not

	browsertest.Ask[bool](tab, `permitted = false, true`)
	tab.Do(chromedp.KeyEvent("\r"))
	says("Selected", "Selected")
	if got := browsertest.Ask[string](tab, `getSelection().toString()`); got != "kill 1" {
		t.Errorf("selected is %q", got)
	}
	if got := browsertest.Ask[float64](tab, `document.getElementById("copy-it").offsetWidth`); got != width {
		t.Errorf("the button is %v wide, and was %v", got, width)
	}
	later.Action.Command = ""
	answered(t, tab, site, 4, later)
	if browsertest.Ask[bool](tab, `document.getElementById("copy-it").checkVisibility()`) {
		t.Error("there is nothing to copy, and a button for it")
	}
	tab.Quiet()
}
