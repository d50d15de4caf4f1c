package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
	"github.com/gpuwhy/gpuwhy/views"
)

var looks = flag.String("looks", "", "folder for pictures of every state; empty for none")

// arrived has for each state a JavaScript condition that holds once the
// document d is in that state.
var arrived = map[string]string{
	"live":       follows("live") + " && " + drawn,
	"connecting": follows("connecting"),
	"polling":    follows("polling"),
	"waiting":    follows("waiting"),
	"stale":      `d.body.hasAttribute("data-stale") && d.getElementById("age").textContent.startsWith("no reading for")`,
	"paused":     `d.body.hasAttribute("data-paused") && d.getElementById("age").textContent.startsWith("paused")`,
	"menu":       `d.querySelector(".menu").open && d.getElementById("copy").checkVisibility()`,
	"no-script": follows("off") + ` && d.querySelector("noscript > .banner").innerText.includes("Without JavaScript")
		&& d.querySelectorAll("#cards > li").length === 8 && d.querySelectorAll("#processes > tr").length > 1`,

	"starting":  follows("live") + ` && d.getElementById("waiting").checkVisibility()`,
	"no-driver": follows("live") + ` && d.querySelectorAll("#failure-list > li").length === 2`,
	"no-card": drawn + ` && d.querySelectorAll("#busiest > [data-key]").length === 3 && d.querySelectorAll(".chart:not([hidden])").length === 7
		&& !d.getElementById("answer").hasAttribute("data-broken") && d.querySelector("#answer .headline").textContent.startsWith("cc1plus (ann)")`,
	"no-card-evidence": `d.querySelector(".evidence").open && d.querySelectorAll("#causes > li").length > 0`,
	"at-rest":          follows("live") + ` && !d.getElementById("busiest").checkVisibility()`,
	"no-fan":           follows("live") + ` && d.querySelector("#answer .headline").textContent === "No fan can be read here."`,
	"evidence":         `d.querySelector(".evidence").open`,
	"eight":            follows("live") + ` && ["not_answering", "lost", "asleep", "busy", "idle"].every((s) => d.querySelector("#cards [data-state=" + s + "]")) && d.querySelector("#alerts > .alert") !== null`,
	"idle":             follows("live") + ` && d.getElementById("no-process").checkVisibility()`,
	"recorded":         follows("live") + ` && d.getElementById("recorded").checkVisibility()`,
	"odd":              follows("live") + ` && d.querySelectorAll("#cards > li").length === 4`,
	"many":             follows("live") + ` && d.querySelectorAll("#cards[data-density=dense] > li").length === 64 && d.getElementById("simulated").checkVisibility()`,

	"charts":     drawn + ` && d.querySelectorAll("#series > li").length > 4`,
	"one-line":   drawn + ` && d.querySelectorAll("#series [aria-pressed=true]").length === 1`,
	"one-chart":  drawn + ` && !d.getElementById("series").checkVisibility()`,
	"no-reading": follows("live") + ` && d.getElementById("cards").innerText.includes("not reported")`,
	"large":      enlarged + ` && d.querySelectorAll("#large-marks > li").length > 1`,
	"over":       enlarged + ` && d.getElementById("large-title").textContent.includes("dashed: Fan")`,

	"wall":             wallBy("utilization", ""),
	"wall-memory":      wallBy("memory", ""),
	"wall-temperature": wallBy("temperature", "value"),
	"wall-power":       wallBy("power", "value"),
	"wall-fan":         wallBy("fan", ""),
	"wall-list":        follows("live") + ` && d.querySelectorAll("#wall-rows > tr").length === 100`,

	"details":      `d.getElementById("process").open && d.querySelector("#process [data-path=pid]").textContent === "9001"`,
	"contained":    `d.getElementById("process").open && d.getElementById("process").innerText.includes("registry.example.org/eval:12")`,
	"little-known": `d.getElementById("process").open && d.getElementById("process-title").textContent === "Process 2"`,
	"ended":        `d.getElementById("process").open && d.getElementById("process-state").textContent.startsWith("It is no longer")`,
	"grouped":      follows("live") + ` && d.querySelectorAll("#processes > .of").length > 2`,
	"narrowed":     follows("live") + ` && d.querySelectorAll("#processes > tr").length === 2 && !d.getElementById("show-all").hidden`,
	"nothing-left": follows("live") + ` && d.querySelectorAll("#processes > tr").length === 0 && !d.getElementById("show-all").hidden`,

	"gpu":        drawn + ` && d.querySelectorAll("[data-path]").length > 50`,
	"gpu-fans":   drawn + ` && d.querySelectorAll("#facts tr[data-key]").length === 2`,
	"gpu-hung":   follows("live") + ` && d.querySelector("#cards [data-state=not_answering]") !== null`,
	"gpu-lost":   follows("live") + ` && d.querySelector("#cards [data-state=lost]") !== null`,
	"gpu-asleep": follows("live") + ` && d.querySelector("#cards [data-state=asleep]") !== null`,
	"gpu-gone":   follows("live") + ` && d.getElementById("gone").checkVisibility()`,

	"standing":       follows("live") + ` && [...d.querySelectorAll("#alerts > .alert")].filter((a) => a.checkVisibility()).length > 2 && ["acknowledged", "silenced"].every((said) => d.getElementById("alerts").textContent.includes(said))`,
	"over-now":       `d.querySelector("#alerts > [data-state=resolved]") !== null`,
	"refused":        follows("live") + ` && d.querySelector("#alerts output").value.includes("alert")`,
	"alerts":         follows("live") + ` && d.querySelectorAll("#firing > li").length > 2 && d.querySelectorAll("#silences > li").length === 1`,
	"silencing":      follows("live") + ` && d.querySelector("#new-silence [name=gpu_uuid]").checkVisibility()`,
	"alerts-refused": follows("live") + ` && d.querySelector("#firing output").value.includes("alert")`,
	"past":           `d.querySelector("#past[open] tr[data-key]") !== null`,
	"rules":          `d.querySelector("#rules[open] tr.off") !== null`,
	"no-alerts":      follows("live") + ` && d.querySelectorAll(".none").length === 2 && d.body.innerText.includes("Nothing fires.") && /\d+ rules are in force/.test(d.body.innerText)`,

	"past-day":      `d.querySelectorAll(".past-gpu").length === 8 && d.getElementById("past-picture").tabIndex === 0 && d.querySelector(".past-axis").textContent.includes("03:00 CEST")`,
	"past-one":      `d.querySelectorAll(".past-gpu").length === 1 && d.getElementById("past-picture").tabIndex === 0 && d.querySelector(".why").textContent.includes("train_sdxl.py of jokafor") && d.querySelectorAll("#past-next li").length === 3`,
	"past-at":       `d.querySelector("#past-then .headline").textContent.length > 5 && d.querySelectorAll("#past-then .card").length === 8 && d.querySelector("#past-then :is(.sort, button.plain)") === null && d.getElementById("past-at").getAttribute("d") !== ""`,
	"past-not-then": `d.querySelector("#past-then .try") !== null && d.querySelectorAll(".past-gpu").length === 8`,
	"past-compare":  `d.querySelectorAll(".beside").length === 4 && d.getElementById("past-beside").textContent.includes("The day before") && d.querySelectorAll("#past-both tbody tr").length > 1`,
	"past-empty":    `d.getElementById("past-nothing").checkVisibility()`,
	"past-next":     `[...d.querySelectorAll("#next li")].filter((l) => l.checkVisibility()).length === 3 && d.querySelector("#next .week") !== null`,
	"past-off":      `d.getElementById("past-trouble").textContent.includes("without --history off")`,
	"past-words":    `d.body.innerText.includes("is not a span of time") && d.getElementById("past-trouble").textContent.includes("write it like") && d.querySelector("[name=from]").value === "soon"`,

	"error":     `d.body.innerText.includes("404")`,
	"api":       `d.querySelector("rapi-doc") !== null`,
	"reference": `d.querySelectorAll("section").length > 5`,
	"events":    `d.querySelectorAll("section").length > 3`,
}

const (
	drawn    = `d.querySelector(".charts .uplot") !== null`
	enlarged = `d.getElementById("large").open && d.querySelector("#large .uplot") !== null`
)

func follows(state string) string {
	return fmt.Sprintf(`d.getElementById("connection").dataset.state === %q`, state)
}

func wallBy(metric, order string) string {
	return follows("live") + fmt.Sprintf(` && d.getElementById("wall-canvas").height > 100 && d.getElementById("wall-by").value === %q && d.getElementById("wall-order").value === %q`, metric, order)
}

// loud are the console messages that belong to states in which a server
// refuses something, by the state.
var loud = map[string][]string{
	"polling":        {"WebSocket connection to"},
	"waiting":        {"WebSocket connection to", "status of 503"},
	"gpu-gone":       {"status of 404", "charts: Error: /state/gone/api/gpu/recent"},
	"refused":        {"status of 404"},
	"alerts-refused": {"status of 404"},
	"error":          {"status of 404"},
	"past-words":     {"status of 422"},
	"past-next":      {"WebSocket connection to"},
}

// unasked are states that the test does not ask axe-core about: to axe-core, a
// wall of another metric is the same page.
var unasked = map[string]bool{"wall-memory": true, "wall-temperature": true, "wall-power": true, "wall-fan": true}

// asked are the widths at which the test asks axe-core, each in one theme.
var asked = map[int64]string{1440: "light", 390: "dark"}

// everyState returns the states of the gallery.
func everyState() []views.Frame {
	var all []views.Frame
	for _, g := range states("state/") {
		all = append(all, g.Frames...)
	}
	return all
}

// This test is the only one that opens every state, each in one page load. The
// page reaches its state, fits every width, has no problem that axe-core finds,
// in light (wide) and in dark (narrow), and the console is quiet. All states
// together show every component of package views.
//
// With -looks it also takes pictures.
func TestEveryState(t *testing.T) {
	address, seen := startGallery(t), map[string]bool{}
	var mu sync.Mutex // of seen
	see := func(names map[string]bool) {
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(seen, names)
	}
	t.Run("the gallery itself", func(t *testing.T) {
		b := browsertest.Open(t, 1440, 900)
		b.Visit(address)
		see(componentsIn(t, b))
		accessible(t, b, 1440, "light")
		accessible(t, b, 390, "dark")
		// The first frames are near enough to load, and some of their servers refuse something.
		b.Quiet("WebSocket connection to", "status of 503", "Blocked script execution")
	})
	t.Run("states", func(t *testing.T) {
		for _, s := range everyState() {
			t.Run(s.ID, func(t *testing.T) {
				t.Parallel()
				b := browsertest.Open(t, 1440, 900)
				if s.ID == "no-script" { // where its server forbids scripts, nothing could ask the page
					scripts := emulation.SetScriptExecutionDisabledParams{Value: true}
					browsertest.Call(b, emulation.SetScriptExecutionDisabled, scripts)
					b.Visit(address + "state/eight/")
					scripts.Value = false
					browsertest.Call(b, emulation.SetScriptExecutionDisabled, scripts)
				} else {
					b.Visit(address + s.URL)
				}
				if s.Press != "" {
					browsertest.Ask[bool](b, fmt.Sprintf(`(document.querySelectorAll(%q).forEach((e) => e.click()), true)`, s.Press))
				}
				b.Until(`((d) => ` + arrived[s.ID] + `)(document)`)
				see(componentsIn(t, b))
				widths := []int64{1440, 768, 390}
				if s.ID == "alerts" {
					widths = append(widths, 3840) // its text has a measure
				}
				for _, width := range widths {
					b.Resize(width, 900)
					if look := asked[width]; look != "" && !unasked[s.ID] {
						accessible(t, b, width, look)
					}
					if got := browsertest.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
						t.Errorf("it is %d wide of %d", got, width)
					}
				}
				if *looks != "" {
					takePictures(t, b, s.ID)
				}
				b.Quiet(loud[s.ID]...)
			})
		}
	})
	t.Run("every component is seen", func(t *testing.T) {
		for _, name := range allComponents(t) {
			if !seen[name] {
				t.Errorf("no state shows the component %s (%s)", name, components[name])
			}
		}
	})
}

// takePictures takes pictures of a state at three widths, in light and in dark.
func takePictures(t *testing.T, b *browsertest.Tab, name string) {
	t.Helper()
	for _, width := range []int64{1440, 768, 390} {
		b.Resize(width, 900)
		for _, look := range []string{"light", "dark"} {
			b.Prefer("prefers-color-scheme: " + look)
			b.Settle()
			picture := browsertest.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
			file := filepath.Join(*looks, fmt.Sprintf("%s-%d-%s.png", name, width, look))
			if err := os.WriteFile(file, picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
