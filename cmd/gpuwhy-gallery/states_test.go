//go:build !race

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

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/views"
)

var looks = flag.String("looks", "", "folder for pictures of every state; empty for none")

// arrived has for each state a JavaScript condition that holds once the
// document d is in that state.
var arrived = map[string]string{
	"heat":      says("live", "train_sdxl.py (jokafor) heats GPU 6 until it slows down.") + ` && d.querySelectorAll(".card").length === 8`,
	"video":     says("live", "ffmpeg (alex) is encoding video, so the fan is running.") + ` && d.querySelector(".figs dd b").textContent !== ""`,
	"busy":      says("live", "train.py (alice) is heating the GPU.") + ` && d.querySelectorAll("#picture .band").length > 0`,
	"quiet":     says("live", "Your fan is off."),
	"cooling":   says("live", "Cooling down after blender (alex)"),
	"lost":      says("live", "GPU 7 is lost.") + broken,
	"hangs":     says("live", "GPU 7 is not answering.") + broken,
	"only-lost": says("live", "The GPU is lost.") + broken + ` && !/no process has/i.test(d.getElementById("processes").textContent)`,
	"awake":     says("live", "The GPU is awake, and nothing explains it."),
	"by-hand":   says("live", "Someone set your fan by hand."),
	"power-cap": says("live", "train.py (alice)") + ` && d.querySelector(".chips").textContent.includes("at its power limit")`,
	"weak-fan":  says("live", "Fan 1 of the GPU turns more slowly than it should."),
	"warm-room": says("live", "train.py (user0)") + ` && d.getElementById("causes").textContent.includes("the air that reaches them is probably warmer")`,
	"no-driver": says("none", "No GPU can be read here.") + ` && d.querySelectorAll("#failure-list > li").length === 2`,
	"no-card":   says("none", "cc1plus (ann) keeps the CPU busy, so the fans are running.") + ` && d.querySelectorAll("#busiest > [data-key]").length === 3`,
	"at-rest":   says("none", "The machine is idle") + ` && d.getElementById("busiest") === null`,
	"no-fan":    says("none", "No fan can be read here."),
	"evidence":  says("live", "train_sdxl.py (jokafor)") + ` && d.getElementById("evidence").open && d.querySelector("#causes dd").checkVisibility()`,

	"starting":   follows("starting") + ` && d.getElementById("waiting").checkVisibility()`,
	"connecting": follows("connecting"),
	"polling":    follows("polling"),
	"away":       follows("lost"),
	"stale":      follows("silent") + ` && d.body.hasAttribute("data-stale") && d.querySelector(".headline .was").checkVisibility()`,
	"paused":     follows("paused") + ` && d.body.hasAttribute("data-paused") && d.getElementById("pause").innerText.includes("Resume")`,
	"menu":       `d.getElementById("more").open && d.getElementById("copy").checkVisibility()`,
	"no-script": follows("still") + ` && d.querySelector("noscript > .banner").innerText.includes("Without JavaScript")
		&& d.querySelectorAll(".card").length === 8 && d.querySelectorAll("#processes tbody tr").length > 1 && d.querySelectorAll("#picture .line").length > 0`,
	"recorded": follows("live") + ` && d.getElementById("kind").innerText.startsWith("Recorded")`,

	"odd":           follows("live") + ` && d.querySelectorAll(".card").length === 4`,
	"silent":        follows("live") + ` && d.querySelector(".headline").textContent.includes("has no readings now")`,
	"eight":         follows("live") + ` && ["not_answering", "lost", "asleep"].every((s) => d.querySelector(".card[data-state=" + s + "]")) && d.getElementById("gpus").textContent.includes("1 not reporting") === false`,
	"eight-busy":    cards(`length > 2`) + ` && d.querySelector(".seg [aria-current]").textContent.startsWith("Busy")`,
	"eight-problem": cards(`length > 1`) + ` && d.querySelector(".seg [aria-current]").textContent.startsWith("Problem")`,
	"eight-sorted":  cards(`length === 8`) + ` && d.querySelector(".card h3").textContent.endsWith("4") && d.querySelectorAll(".pin[aria-current=true]").length === 1`,
	"no-problem":    cards(`length === 0`) + ` && d.getElementById("gpus").innerText.includes("No GPU has a problem")`,
	"many":          follows("live") + ` && d.querySelectorAll(".tile").length === 64 && d.getElementById("kind").checkVisibility()`,
	"many-problem":  follows("live") + ` && d.querySelectorAll(".tile.dim").length > 30`,
	"fleet":         follows("live") + ` && d.querySelectorAll(".nodes > li").length === 12 && d.querySelectorAll(".tile").length === 96`,
	"fleet-memory":  follows("live") + ` && d.querySelector("[name=color]").value === "memory"`,
	"fleet-node":    cards(`length === 8`) + ` && d.querySelector(".host").textContent.includes("node-002")`,
	"fleet-well":    says("live", "27 of 40 machines are busy, and none is loud.") + ` && d.querySelector("#standouts tbody") === null && d.querySelectorAll("#users tbody tr").length > 1`,
	"fleet-partly": says("live", "1 of 40 machines is silent, render:gpu-0002.example.org") + ` && d.querySelectorAll("#standouts tbody tr").length === 3 && d.querySelector("#standouts [data-silent] .since").innerText.includes("min")
		&& d.querySelectorAll(".node-groups li").length === 6 && d.querySelector(".node[data-silent] .tile") !== null && d.querySelectorAll(".wall-part").length === 6`,
	"fleet-silent":     follows("silent") + ` && d.getElementById("silent-node").checkVisibility() && d.querySelector(".headline").innerText.includes("was") && d.querySelector(".back a") !== null`,
	"fleet-note":       follows("live") + ` && d.querySelector(".node-notes").innerText.includes("clock") && d.getElementById("silent-node").hidden`,
	"fleet-nodes":      follows("live") + ` && d.querySelectorAll("tbody").length === 2 && d.querySelectorAll("tbody tr:not(.group)").length === 40 && d.querySelectorAll("[data-silent]").length === 1`,
	"nodes-many":       `d.querySelectorAll("tbody tr:not(.group)").length === 200 && d.getElementById("node-pages").innerText.includes("1 to 200 of 1000")`,
	"thousand":         follows("live") + ` && d.querySelectorAll(".wall > li").length === 125 && [...d.querySelectorAll(".wall path")].flatMap((p) => p.getAttribute("d").match(/M/g)).length === 1000`,
	"thousand-problem": follows("live") + ` && [...d.querySelectorAll(".wall path.dim")].flatMap((p) => p.getAttribute("d").match(/M/g)).length > 500`,

	"picture-of":      drawn + ` && d.getElementById("picture-title").textContent.replaceAll("\u00a0", " ").includes("GPU 1")`,
	"picture-found":   drawn + ` && d.querySelector("[name=gpu]").value.includes("node-003") && d.querySelectorAll("#picture .band").length > 0`,
	"picture-unknown": follows("live") + ` && d.getElementById("picture-unknown").checkVisibility()`,
	"picture-empty":   follows("live") + ` && d.querySelector("#picture .none") !== null`,
	"share":           `d.documentElement.localName === "svg" && d.querySelector("title").textContent.includes("GPU")`,
	"charts":          drawn + ` && d.querySelectorAll(".chart").length > 1`,

	"processes":         follows("live") + ` && d.querySelectorAll("tbody tr").length > 2 && d.querySelector("h1").textContent === "Processes"`,
	"processes-many":    follows("live") + ` && d.querySelectorAll("tbody tr").length > 20`,
	"grouped":           follows("live") + ` && d.querySelectorAll("tbody tr").length > 2 && d.querySelector("[name=group]").value === "user"`,
	"alone":             follows("live") + ` && d.querySelector("[name=group]").value === "none"`,
	"searched":          follows("live") + ` && d.querySelectorAll("tbody tr").length > 0 && d.querySelector("[name=q]").value === "carol"`,
	"nothing-found":     follows("live") + ` && d.querySelectorAll("tbody tr").length === 0 && d.getElementById("no-process").checkVisibility()`,
	"unknown-processes": follows("live") + ` && d.getElementById("unlisted").checkVisibility() && !/has a context/.test(d.body.innerText)`,
	"details":           `d.querySelector("#process:modal") !== null && d.getElementById("process").innerText.includes("9001")`,
	"contained":         `d.querySelector("#process:modal") !== null && d.getElementById("process").innerText.includes("registry.example.org/eval:12")`,
	"little-known":      `d.querySelector("#process:modal") !== null && d.getElementById("process").textContent.includes("PID")`,
	"ended":             `d.querySelector("#process:modal") !== null && d.getElementById("process-ended").checkVisibility()`,

	"gpu":        drawn + ` && d.querySelectorAll("#facts tr").length + d.querySelectorAll("#facts dt").length > 30`,
	"gpu-fans":   drawn + ` && d.getElementById("facts").textContent.includes("Fan")`,
	"gpu-hung":   follows("live") + broken + ` && d.querySelector(".headline").textContent.includes("is not answering")`,
	"gpu-lost":   follows("live") + broken + ` && d.querySelector(".headline").textContent.includes("is lost")`,
	"gpu-asleep": follows("live") + ` && d.querySelector(".headline").textContent.includes("is asleep")`,
	"gpu-gone":   follows("gone"),

	"alerts":         follows("live") + ` && d.querySelectorAll("#alert-groups li").length > 0 && d.getElementById("needs").checkVisibility()`,
	"alert-line":     follows("live") + ` && d.querySelector("#alerts [formaction]") !== null`,
	"alerts-grouped": follows("live") + ` && d.querySelectorAll("#alert-groups > section h2").length > 0`,
	"alerts-found":   follows("live") + ` && d.querySelectorAll("#alert-groups li").length > 0 && d.getElementById("all-alerts").checkVisibility()`,
	"alerts-nothing": follows("live") + ` && d.getElementById("no-alert").checkVisibility()`,
	"alerts-many":    follows("live") + ` && d.querySelectorAll("#quieter details").length > 0`,
	"no-alerts":      follows("live") + ` && d.getElementById("no-alert").checkVisibility()`,
	"silenced":       follows("live") + ` && d.querySelectorAll("#silences > li").length === 1 && d.querySelector("#new-silence [name=gpu_uuid]").checkVisibility()`,
	"history":        `d.querySelector("#history tr[data-key], #history li[data-key]") !== null`,
	"rules":          follows("live") + ` && d.querySelectorAll("#rules tr").length > 3`,
	"told":           follows("live") + ` && d.getElementById("told-of").checkVisibility()`,
	"refused":        follows("live") + ` && d.querySelector("#alerts output").value.includes("alert")`,
	"alerts-refused": follows("live") + ` && d.querySelector("#alert-groups output").value.includes("alert")`,

	"past-day":      `d.querySelectorAll(".past-gpu").length === 8 && d.getElementById("past-picture").dataset.picture === "past" && d.querySelector(".past-axis").textContent.includes("03:00 CEST")`,
	"past-one":      `d.querySelectorAll(".past-gpu").length === 1 && d.getElementById("past-picture").dataset.picture === "past" && d.querySelector(".why").textContent.includes("train_sdxl.py of jokafor") && d.querySelectorAll("#past-next li").length === 3`,
	"past-at":       `d.querySelector("#past-then .headline").textContent.length > 5 && d.querySelectorAll("#past-then .card").length === 8 && d.querySelector("#past-then :is(.pin, .seg)") === null && d.querySelectorAll("#past-picture .moment").length > 8`,
	"past-not-then": `d.querySelector("#past-then .try") !== null && d.querySelectorAll(".past-gpu").length === 8`,
	"past-compare":  `d.querySelectorAll(".beside").length === 4 && d.getElementById("past-beside").textContent.includes("The day before") && d.querySelectorAll("#past-both tbody tr").length > 1`,
	"past-empty":    `d.getElementById("past-nothing").checkVisibility()`,
	"past-next":     `[...d.querySelectorAll("#next li")].filter((l) => l.checkVisibility()).length === 3 && d.querySelector("#next .week") !== null`,
	"past-off":      `d.getElementById("past-trouble").textContent.includes("without --history off")`,
	"past-words":    `d.body.innerText.includes("is not a span of time") && d.getElementById("past-trouble").textContent.includes("Write it like") && d.querySelector("[name=from]").value === "soon"`,

	"sign-in":         `d.querySelectorAll("main li a.btn").length === 2 && d.querySelector("[name=password]").checkVisibility() && d.querySelector("#passkey button").checkVisibility()`,
	"sign-in-wrong":   `d.getElementById("trouble").textContent.includes("wrong") && d.querySelector("[name=name]").value === "ann"`,
	"sign-in-code":    `d.querySelector("[name=code]").checkVisibility() && d.querySelector("[name=password]") === null`,
	"setup":           `d.querySelector("h1").textContent.includes("first administrator") && d.querySelector("[name=password]").minLength === 15`,
	"reset":           `d.querySelector("[name=name]").readOnly && d.querySelector("[name=password]").checkVisibility()`,
	"link-used":       `d.querySelector("form") === null && d.getElementById("trouble").textContent.includes("does not work any more")`,
	"account":         `d.querySelectorAll("#passkeys li").length === 2 && d.querySelectorAll("#sessions li").length === 3 && d.getElementById("add-passkey").checkVisibility() && d.querySelector(".account-link").textContent === "Account"`,
	"account-old":     `d.querySelector("[name=old]").checkVisibility() && d.getElementById("add-passkey") === null && d.getElementById("notice") !== null`,
	"account-codes":   `d.querySelectorAll("#new-codes code").length === 4`,
	"account-refused": `d.getElementById("trouble").textContent.includes("15 characters")`,
	"account-without": `d.querySelectorAll("main form").length === 0 && d.body.innerText.includes("from this machine")`,

	"users":         `d.querySelectorAll("tbody tr").length === 3 && d.querySelectorAll(".tabs a").length === 5 && d.querySelectorAll("#more [href$='/audit']").length === 1 && d.body.innerText.includes("Disabled")`,
	"users-add":     `d.querySelector("#add-user [name=name]").checkVisibility()`,
	"users-change":  `d.querySelector("tbody [name=role]").checkVisibility() && d.querySelector("tbody [name=role]").value === "administrator"`,
	"users-none":    `d.querySelector("#add-user").open && d.querySelector("table") === null`,
	"link-made":     `d.querySelector(".secret input").value.includes("/reset?link=")`,
	"tokens":        `d.querySelectorAll("tbody tr").length === 3 && d.querySelector("tbody b") === null`,
	"tokens-none":   `d.querySelectorAll("#add-token [name=access] option").length === 3 && d.querySelectorAll(".tabs a").length === 3 && d.querySelector("#more [href$='/users'], .tabs [href$='/users']") === null`,
	"token-made":    `d.querySelector(".secret input").value.startsWith("gpw_")`,
	"sessions":      `d.querySelectorAll("tbody tr").length === 3 && d.querySelectorAll(".several button").length === 1`,
	"sessions-none": `d.querySelector("table") === null`,

	"audit":          `d.querySelectorAll("tbody tr").length === 7 && d.querySelector(".audit b + .note") !== null && d.querySelector("tbody b > *") === null`,
	"audit-details":  `d.querySelector(".audit [open] dd").checkVisibility() && d.querySelector(".audit [open]").textContent.includes("operator")`,
	"audit-filtered": `d.querySelectorAll("tbody tr").length === 2 && d.querySelector("[name=result]").value === "failed"`,
	"audit-nothing":  `d.getElementById("no-entry").textContent.includes("matches")`,
	"audit-empty":    `d.getElementById("no-entry").textContent.includes("Nothing")`,
	"audit-checked":  `d.getElementById("audit-checked").textContent.includes("9f86d081") && !d.querySelector("#audit-checked[data-broken]")`,
	"audit-broken":   `d.querySelector("#audit-checked[data-broken]").textContent.includes("1203")`,
	"audit-words":    `d.getElementById("audit-trouble") !== null && d.querySelector("[name=from]").value === "soon" && d.querySelector("table") === null`,

	"nodes":           follows("live") + ` && d.querySelectorAll("tbody tr").length === 12`,
	"about":           follows("live") + ` && d.querySelectorAll(".about dl").length > 2 && !d.getElementById("about-kind").checkVisibility()`,
	"about-simulated": follows("live") + ` && d.getElementById("about-kind").checkVisibility()`,
	"find":            `d.querySelectorAll(".found a").length > 3`,
	"found":           `d.querySelectorAll(".found a").length > 0 && d.querySelector("[name=q]").value === "carol"`,
	"found-nothing":   `d.querySelector(".found").textContent.includes("Nothing matches")`,
	"palette":         follows("live") + ` && d.querySelector("#palette:modal .found a") !== null`,
	"kiosk":           says("live", "train_sdxl.py (jokafor)") + ` && d.querySelector(".nav") === null && d.querySelectorAll(".card").length === 8`,
	"kiosk-one":       says("live", "ffmpeg (alex)") + ` && d.querySelector(".nav") === null`,
	"embed":           follows("live") + ` && d.querySelectorAll(".card").length === 1`,

	"error":          `d.body.innerText.includes("404") && d.getElementById("simulated") !== null`,
	"error-recorded": `d.body.innerText.includes("404") && d.getElementById("recorded") !== null`,
	"api":            `d.querySelector("rapi-doc") !== null`,
	"reference":      `d.querySelectorAll("section").length > 5`,
	"events":         `d.querySelectorAll("section").length > 3`,

	"guide":         `d.querySelectorAll(".guide-home section").length > 5`,
	"guide-page":    `d.querySelectorAll(".prose table").length > 1 && d.querySelector(".code > .copy").textContent === "Copy" && d.querySelector(".guide-pages [aria-current]").textContent === "Alerts"`,
	"guide-picture": `d.querySelector(".prose img").naturalWidth > 1000`,
	"guide-tables":  `d.querySelectorAll(".prose table").length > 3`,
	"guide-found":   `d.querySelectorAll("#guide-results mark").length > 10`,
	"guide-nothing": `d.getElementById("guide-count").textContent.includes("Try fewer")`,
}

const (
	broken = ` && d.querySelector(".answer[data-broken]") !== null`
	drawn  = `d.querySelectorAll("#picture .line").length > 0`
)

func follows(state string) string {
	return fmt.Sprintf(`d.getElementById("state").dataset.state === %q`, state)
}

// says is a condition that the page follows, and that its answer begins with some words.
func says(state, words string) string {
	return follows(state) + fmt.Sprintf(` && d.querySelector(".headline").innerText.replaceAll("\u00a0", " ").startsWith(%q)`, words)
}

func cards(that string) string {
	return follows("live") + ` && d.querySelectorAll(".cards > .card").` + that
}

// loud are the console messages that belong to states in which a server
// refuses something, by the state.
var loud = map[string][]string{
	"polling":        {"WebSocket connection to"},
	"away":           {"WebSocket connection to", "status of 503", "the page: Error: 503"},
	"gpu-gone":       {"status of 404"},
	"refused":        {"status of 404"},
	"alerts-refused": {"status of 404"},
	"error":          {"status of 404"},
	"error-recorded": {"status of 404"},
	"past-words":     {"status of 422"},
	"audit-words":    {"status of 422"},
	"past-next":      {"WebSocket connection to", "the page: "},
}

// asked are the widths at which axe-core is asked about a state, each in one theme: a sixth of the states is asked in light and
// wide, another sixth in dark and narrow. 'make soak' has each asked in both. Most of the time goes into contrasts of colors.
func asked(number int) map[int64]string {
	themes := map[int64]string{1440: "light", 390: "dark"}
	switch {
	case thorough:
	case number%6 == 0:
		delete(themes, 390)
	case number%6 == 3:
		delete(themes, 1440)
	default:
		clear(themes)
	}
	return themes
}

// everyState returns the states of the gallery.
func everyState() []views.Frame {
	var all []views.Frame
	for _, g := range states("state/") {
		all = append(all, g.Frames...)
	}
	return all
}

// enter opens a state of the gallery, and waits until the page is in it.
func enter(b *browser.Tab, address string, s *views.Frame) {
	if s.ID == "no-script" { // where its server forbids scripts, nothing could ask the page
		scripts := emulation.SetScriptExecutionDisabledParams{Value: true}
		browser.Call(b, emulation.SetScriptExecutionDisabled, scripts)
		b.Visit(address + "state/eight/")
		scripts.Value = false
		browser.Call(b, emulation.SetScriptExecutionDisabled, scripts)
	} else {
		b.Visit(address + s.URL)
	}
	if s.Press != "" {
		browser.Ask[bool](b, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, s.Press))
	}
	b.Until(`((d) => ` + arrived[s.ID] + `)(document)`)
}

// This test is the only one that opens every state, each in one page load. The
// page reaches its state, fits every width, has no problem that axe-core finds,
// in light (wide) and in dark (narrow), and the console is quiet. All states
// together show every component of package views.
//
// With -looks it takes pictures in place of that.
func TestEveryState(t *testing.T) {
	address, seen := startGallery(t), map[string]bool{}
	var mu sync.Mutex // of seen
	see := func(names map[string]bool) {
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(seen, names)
	}
	t.Run("the gallery itself", func(t *testing.T) {
		b := openTab(t, 1440, 900)
		b.Visit(address)
		see(componentsIn(t, b))
		accessible(t, b, 1440, "light")
		accessible(t, b, 390, "dark")
		// The first frames are near enough to load.
		b.Quiet("Blocked script execution")
	})
	t.Run("states", func(t *testing.T) {
		all := everyState()
		const lanes = 4
		for lane := range lanes {
			t.Run(fmt.Sprintf("lane %d", lane+1), func(t *testing.T) {
				t.Parallel()
				shared := openTab(t, 1440, 900)
				for i := lane; i < len(all); i += lanes {
					t.Run(all[i].ID, func(t *testing.T) {
						b := shared
						if loud[all[i].ID] != nil || all[i].ID == "no-script" { // it would be heard in the next state
							b = openTab(t, 1440, 900)
						} else {
							b.Lend(t)
						}
						b.Resize(1440, 900)
						see(lookAt(t, b, address, &all[i], asked(i)))
					})
				}
			})
		}
	})
	if *looks != "" {
		return
	}
	t.Run("every component is seen", func(t *testing.T) {
		for _, name := range allComponents(t) {
			if !seen[name] {
				t.Errorf("no state shows the component %s (%s)", name, components[name])
			}
		}
	})
}

// lookAt opens a state in a tab that is 1440 wide and looks for what is wrong with it. It returns the components that the state shows.
func lookAt(t *testing.T, b *browser.Tab, address string, s *views.Frame, themes map[int64]string) map[string]bool {
	t.Helper()
	enter(b, address, s)
	if *looks != "" {
		takePictures(t, b, s.ID)
		return nil
	}
	seen := componentsIn(t, b)
	if s.ID == "share" {
		return seen // no page
	}
	for _, width := range []int64{1440, 768, 390} {
		b.Resize(width, 900)
		if look := themes[width]; look != "" {
			accessible(t, b, width, look)
		}
		if got := browser.Ask[int64](b, `document.documentElement.scrollWidth`); got > width {
			t.Errorf("it is %d wide of %d: %s", got, width, browser.Ask[string](b, widest))
		}
	}
	if utc := browser.Ask[string](b, inUTC); utc != "" && s.ID != "no-script" {
		t.Errorf("a time is not in the reader's zone: %s", utc)
	}
	b.Quiet(loud[s.ID]...)
	return seen
}

// inUTC is a time that no script has rewritten; empty for none. The page of the past names the zone of its times.
const inUTC = `document.body?.matches(".of-past, .docs") ? "" : [...document.querySelectorAll("main time")].map((e) => e.textContent).find((text) => /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(text)) ?? ""`

// widest are elements that go beyond the window.
const widest = `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && e.checkVisibility()).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join("\n")`

// takePictures takes pictures of a state at four widths, in light and in dark.
func takePictures(t *testing.T, b *browser.Tab, name string) {
	t.Helper()
	for _, screen := range []struct{ width, height int64 }{{1440, 1600}, {768, 1600}, {390, 2400}, {3840, 1600}} {
		b.Resize(screen.width, screen.height)
		for _, look := range []string{"light", "dark"} {
			b.Prefer("prefers-color-scheme: " + look)
			b.Settle()
			picture := browser.Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
			file := filepath.Join(*looks, fmt.Sprintf("%s-%d-%s.png", name, screen.width, look))
			if err := os.WriteFile(file, picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
