//go:build !race

package static_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// atOnce makes alerts fire, and end, with the reading that shows it.
func (s *site) atOnce() {
	rules := alert.Defaults()
	for i := range rules {
		rules[i].Hold, rules[i].Clear, rules[i].Cooldown = 0, 0, 0
	}
	app.Find[*alerts.Room](s.App).Book.SetRules(rules, s.time())
}

// stubs stand for what a browser tells people with. What is said stays until hush is called.
const stubs = `{ const after = setTimeout; window.setTimeout = (f, ms, ...more) => (ms < 1500 ? after(f, ms, ...more) : (window.hush = f, 0)); }
window.told = [], window.tones = 0, window.copied = [], window.permitted = true;
window.Notification = class { static permission = "granted"; static requestPermission = async () => "granted"; constructor(title, o) { told.push([title, o.body, o.tag]); } };
OscillatorNode.prototype.start = function () { tones++; }, OscillatorNode.prototype.stop = () => {};
Object.defineProperty(navigator, "clipboard", { configurable: true, value: { writeText: async (text) => { if (!permitted) throw new Error("no"); copied.push(text); } } });`

// Whoever asks for it is told of each alert that fires from then on, once, on whatever page.
func TestTellsOfAlerts(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", "processes"} {
		t.Run("page "+page, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.atOnce()
			lost := func(which ...int) *gpu.Snapshot {
				snap := s.example("eight")
				snap.Devices = snap.Devices[:5]
				for _, i := range which {
					snap.Devices[i].State, snap.Devices[i].Since, snap.Devices[i].Readings = gpu.StateLost, s.time(), gpu.Readings{}
				}
				return snap
			}
			s.publish(lost(0))
			tab := s.open(t, page, 1440, 900, stubs)
			tab.Do(chromedp.Click("#more summary"), chromedp.Click("#notify"), chromedp.Click("#sound"))
			tab.Until(`localStorage.getItem("gpuwhy notify") === "on" && localStorage.getItem("gpuwhy sound") === "on" && tones === 2`)
			for _, which := range [][]int{{0}, {0, 1}, {0, 1}, {1}} {
				s.next(lost(which...))
				sameAsServed(t, tab)
			}
			told := browser.Ask[[][]string](tab, `told`)
			if len(told) != 1 || !strings.Contains(told[0][0], "GPU 1") || told[0][1] == "" {
				t.Errorf("it tells %q", told)
			}
			if n := browser.Ask[int](tab, `tones`); n != 4 {
				t.Errorf("%d tones, want two when it was asked for, and two for the alert", n)
			}
			// It is told over a reload, and not again of what stands.
			tab.Do(chromedp.Reload())
			tab.Until(`wire.open === 1 && document.getElementById("notify").checked && document.body.hasAttribute("data-told")`)
			s.next(lost(1, 2))
			sameAsServed(t, tab)
			if told := browser.Ask[[][]string](tab, `told`); len(told) != 1 || !strings.Contains(told[0][0], "GPU 2") {
				t.Errorf("after a reload it tells %q", told)
			}
			quiet(tab)
		})
	}
}

// Where a browser lets no page tell of anything, as on phones, the sound is heard all the same.
func TestTellsByAWorkerAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.atOnce()
	s.publish(s.example("one"))
	tab := s.open(t, "", 1440, 900, stubs, `Notification = class { static permission = "granted"; static requestPermission = async () => "granted"; constructor() { throw new TypeError("Illegal constructor"); } };`)
	tab.Do(chromedp.Click("#more summary"), chromedp.Click("#notify"), chromedp.Click("#sound"))
	tab.Until(`tones === 2`)
	snap := s.example("one")
	snap.Devices[0].State, snap.Devices[0].Since, snap.Devices[0].Readings = gpu.StateLost, s.time(), gpu.Readings{}
	s.next(snap)
	tab.Until(`tones === 4`)
	quiet(tab)
}

// says is what is said of a button, beside it and aloud, where a person can get it.
const says = `(window.says = (button) => {
  const aloud = [...document.querySelectorAll("[role=status]")].filter((p) => p.matches("#told, .told") && p.checkVisibility() && p.textContent && (!document.querySelector("dialog:modal") || p.closest("dialog:modal")));
  const beside = getComputedStyle(button, "::after").content;
  return aloud.length === 1 && beside === JSON.stringify(aloud[0].textContent) && (button.dataset.done ?? button.dataset.failed) === aloud[0].textContent ? aloud[0].textContent : "";
})`

// Commands are copied exactly as they are, also where the browser has no Clipboard API, as over http. Where it permits
// neither, it is said. All of that is said beside the button and aloud, also in a dialog.
func TestCopies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.publish(s.example("eight"))
	for _, page := range []string{"", "processes?process=dgx-07/GPU-00000000-0000-4000-8000-000000000000/9001"} {
		tab := s.open(t, page, 1440, 900, stubs)
		do(tab, says)
		buttons := browser.Ask[int](tab, `(window.buttons = [...document.querySelectorAll("[data-copy]")].filter((b) => b.checkVisibility() && (!document.querySelector("dialog:modal") || b.closest("dialog")))).length`)
		if buttons == 0 {
			t.Errorf("%q has nothing to copy", page)
			continue
		}
		do(tab, `buttons[0].focus()`)
		tab.Do(chromedp.KeyEvent("\r"))
		tab.Until(`says(buttons[0]) === "Copied"`)
		s.next(s.example("eight"))
		sameAsServed(t, tab)
		if got := browser.Ask[string](tab, `JSON.stringify(copied) === JSON.stringify([buttons[0].dataset.copy]) && document.activeElement === buttons[0] ? "" : JSON.stringify(copied)`); got != "" {
			t.Errorf("%q copies %s", page, got)
		}
		do(tab, `hush()`)
		if got := browser.Ask[string](tab, `says(buttons[0]) || buttons[0].dataset.done || ""`); got != "" {
			t.Errorf("%q goes on saying %q", page, got)
		}

		// What the browser copies is what a person pastes then.
		do(tab, `Object.defineProperty(navigator, "clipboard", { value: undefined })`)
		tab.Do(chromedp.KeyEvent("\r"))
		tab.Until(`says(buttons[0]) === "Copied" && document.activeElement === buttons[0]`)
		do(tab, `(window.into = document.createElement("textarea"), (document.querySelector("dialog:modal .told") ?? document.getElementById("told")).append(into), into.focus())`)
		browser.Call(tab, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Commands: []string{"paste"}})
		if got := browser.Ask[string](tab, `into.value === buttons[0].dataset.copy ? "" : "«" + into.value + "»"`); got != "" {
			t.Errorf("%q copies %s over http", page, got)
		}
		do(tab, `(into.remove(), buttons[0].focus(), document.execCommand = () => false)`)
		sameAsServed(t, tab)
		tab.Do(chromedp.KeyEvent("\r"))
		tab.Until(`says(buttons[0]) === document.getElementById("told").dataset.blocked && buttons[0].hasAttribute("data-failed")`)
		quiet(tab)
	}

	tab := s.open(t, "", 1440, 900, stubs)
	do(tab, says)
	s.away.Store(true)
	tab.Do(chromedp.Click("#more summary"))
	do(tab, `(window.fetch = async () => { throw new TypeError("away"); }, document.getElementById("copy").click())`)
	tab.Until(`says(document.getElementById("copy")) === document.getElementById("told").dataset.away`)
	do(tab, `document.querySelector("#more").open = false`)
	if !browser.Ask[bool](tab, `document.getElementById("told").checkVisibility()`) {
		t.Error("nobody hears what is said once the menu is closed")
	}
	quiet(tab, expected...)
}

// Whatever an update has, and will have, only these texts of it are in a report: those that name no person,
// process or machine.
func TestAReportHasOnlyWhatIsListed(t *testing.T) {
	t.Parallel()
	var u contract.Update
	fill(reflect.ValueOf(&u).Elem(), "")
	filled, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	s, tab := shown(t, "eight", "")
	report := browser.Ask[string](tab, fmt.Sprintf(`(async () => {
	  const { report } = await import(%q);
	  window.fetch = async () => new Response(JSON.stringify(%s));
	  return report();
	})()`, base+"source/report.js", filled))
	var got []string
	for _, m := range regexp.MustCompile(`«([^»]*)»`).FindAllStringSubmatch(report, -1) {
		got = append(got, m[1])
	}
	slices.Sort(got)
	want := []string{
		"drivers.cuda_driver_version", "drivers.driver_version", "failures.source", "failures.what",
		"gpus.architecture", "gpus.clock_event_reasons", "gpus.driver_version", "gpus.fans.policy", "gpus.gpu_name",
		"gpus.health.faults.advice", "gpus.health.faults.engine", "gpus.health.faults.kind", "gpus.health.faults.last",
		"gpus.health.faults.meaning", "gpus.health.faults.severity", "gpus.health.xids.advice", "gpus.health.xids.last",
		"gpus.health.xids.meaning", "gpus.health.xids.severity", "gpus.modes.compute",
		"gpus.modes.compute_partition", "gpus.modes.memory_partition", "gpus.modes.virtualization", "gpus.performance_state", "gpus.quality", "gpus.sampled_at", "gpus.source", "gpus.state",
		"gpus.state_reason", "gpus.state_since", "gpus.vbios_version", "gpus.vendor", "host.kernel", "host.os", "notes", "source", "status", "timestamp",
	}
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("it has %q,\nwant %q", got, want)
	}

	// The page's own, of a machine that has names.
	tab = s.open(t, "", 1440, 900, stubs)
	tab.Do(chromedp.Click("#more summary"), chromedp.Click("#copy"))
	tab.Until(`document.getElementById("told").textContent.startsWith("Copied.")`)
	text := browser.Ask[string](tab, `copied[0]`)
	for _, part := range []string{"gpuwhy v1, Mozilla", "driver 550.54.15, CUDA 12.4", "Debian", `"state":"lost"`, `"processes":1`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing", part)
		}
	}
	for _, part := range []string{"carol", "dgx-07", "GPU-0000"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in it", part)
		}
	}
	quiet(tab)
}

// fill makes every text in v one that says where it stands.
func fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("«" + path + "»")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path)
	case reflect.Map:
		text := reflect.New(v.Type().Elem()).Elem()
		fill(text, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(path), text)
	case reflect.Struct:
		if r, ok := reflect.TypeAssert[json.Unmarshaler](v.Addr()); ok { // a reading, of a text or of something else
			text, err := json.Marshal("«" + path + "»")
			if err != nil || r.UnmarshalJSON(text) != nil {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			place := path
			if f := v.Type().Field(i); !f.Anonymous {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				place = strings.TrimPrefix(path+"."+name, ".")
			}
			fill(v.Field(i), place)
		}
	default: // numbers name nobody
	}
}
