package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/browsertest"
)

// arrived is by when a page of the gallery is in its state, as JavaScript of
// its document d; by the state.
var arrived = map[string]string{
	"live":       follows("live") + " && " + drawn,
	"connecting": follows("connecting"),
	"polling":    follows("polling"),
	"waiting":    follows("waiting"),
	"stale":      `d.body.hasAttribute("data-stale") && d.getElementById("age").textContent.startsWith("no reading for")`,
	"paused":     `d.body.hasAttribute("data-paused") && d.getElementById("age").textContent.startsWith("paused")`,
	"menu":       `d.querySelector(".menu").open && d.getElementById("copy").checkVisibility()`,
	"no-script":  follows("off") + ` && d.querySelector("noscript > .banner") !== null`,

	"starting":  follows("live") + ` && d.getElementById("waiting").checkVisibility()`,
	"no-driver": follows("live") + ` && d.querySelectorAll("#failure-list > li").length === 2`,
	"eight":     follows("live") + ` && ["not_answering", "lost", "asleep", "busy", "idle"].every((s) => d.querySelector("#cards [data-state=" + s + "]")) && d.querySelector("#alerts > .alert") !== null`,
	"idle":      follows("live") + ` && d.getElementById("no-process").checkVisibility()`,
	"odd":       follows("live") + ` && d.querySelectorAll("#cards > li").length === 4`,
	"many":      follows("live") + ` && d.querySelectorAll("#cards[data-density=dense] > li").length === 64 && d.getElementById("simulated").checkVisibility()`,

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
	"no-alerts":      follows("live") + ` && d.querySelectorAll(".none").length === 2`,

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

// loud is what browsers say of states whose server refuses something.
var loud = []string{
	"WebSocket connection to",
	"status of 503", "status of 404", // where it is to refuse
	"charts: Error: /state/gone/api/gpu/recent", // of a GPU that is gone
	"Blocked script execution",                  // where none is to run
}

// components says by what each component of package views is known where it is
// shown, as a CSS selector.
var components = map[string]string{
	"alertRow": "div.alert", "momentIn": "#past-title ~ * time, #firing time", "answers": "#firing .say [formaction]", "onPage": ".say > [name=page]", "alertsBody": "body.of-alerts", "alertCard": "li.firing", "comment": "[name=comment]",
	"onePress": ".say[action] > button", "silenceRow": "#silences > li", "silenceForm": "#new-silence", "choices": "select[name=gpu_uuid]",
	"wideTable": "table.list > thead", "pastTable": "table[aria-labelledby=past-title] tr[data-key]", "ruleTable": "table[aria-labelledby=rules-title] tr.off",
	"targetTable": "table[aria-labelledby=targets-title] .failing",
	"card":        "li.card", "meter": ".card .meter", "evidence": "details#evidence[open]", "cause": "#causes > li", "evidenceRow": "#causes li li",
	"docsTop": ".docs > .top", "docsLink": ".docs [aria-current=page]", "docsBody": "body.docs.viewer", "referenceBody": "body.docs main", "operationDoc": ".verb",
	"typeRef": ".docs td a", "typeDoc": ".docs h3[id]", "fieldTable": ".docs .scroll > table", "eventsBody": ".verb[data-kind]",
	"document": "html[lang]", "mark": "svg.mark", "errorBody": "body.error", "facts": "#facts", "uses": "#use", "means": "dd.note", "meansBy": "#facts dd.note", "factList": "#facts div.list", "factRow": "#facts tr[data-key]",
	"galleryBody": "body.gallery", "galleryAlerts": ".gallery #firing", "frame": ".gallery iframe", "hostRow": "#host-rows > [data-key]",
	"dashboard": "body[data-status]", "deviceHead": "#device", "gone": "body[data-gpu] #gone", "pageTools": "#page-tools", "menu": ".menu[open] > div", "anchor": "a.anchor",
	"templates": "template#t-card", "totals": "#totals", "failure": "#failure-list > li", "charts": "#charts .uplot", "largeChart": "dialog#large[open]", "series": "#series > li",
	"simulated": "#simulated", "waiting": "#waiting", "note": "#notes > li", "processTable": "table:has(> #processes)", "processRow": "#processes > tr[data-key]", "processGroup": "tr.of",
	"processTools": "#process-tools", "processDialog": "dialog#process[open]", "wall": "#wall-canvas", "wallRow": "#wall-rows > tr",
}

// seenIn returns the components that are to be seen in a document, but for
// those of which nothing is.
func seenIn(t *testing.T, b *browsertest.Tab, document string) []string {
	t.Helper()
	table, err := json.Marshal(components)
	if err != nil {
		t.Fatal(err)
	}
	return browsertest.Ask[[]string](b, fmt.Sprintf(`Object.entries(%s).filter(([name, selector]) =>
	  [...%s.querySelectorAll(selector)].some((e) => ["onPage", "templates"].includes(name) || e.checkVisibility())).map(([name]) => name)`, table, document))
}

// unasked are states of which axe-core is not asked: a wall that shows another
// metric is the same to it.
var unasked = map[string]bool{"wall-memory": true, "wall-temperature": true, "wall-power": true, "wall-fan": true}

// elsewhere are states that TestEveryState looks at.
var elsewhere = map[string]bool{
	"live": true, "polling": true, "waiting": true, "stale": true, "paused": true, "menu": true, "no-script": true,
	"starting": true, "no-driver": true, "eight": true, "many": true, "wall": true, "grouped": true, "nothing-left": true,
	"gpu": true, "gpu-lost": true, "gpu-asleep": true, "gpu-gone": true, "no-alerts": true, "error": true,
}

// everyState returns the states of the gallery.
func everyState() []state {
	var all []state
	for _, g := range galleryStates() {
		all = append(all, g.states...)
	}
	return all
}

// The gallery has each state in a frame, and the frame reaches it. In them, and
// beside them, each component of package views can be seen.
func TestGalleryReachesEveryState(t *testing.T) {
	b := browsertest.Open(t, 1440, 900)
	b.Visit(startGallery(t))
	missing := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^templ (\w+)\(`).FindAllStringSubmatch(allTemplates(t), -1) {
		name := found[1]
		if missing[name] = components[name]; missing[name] == "" {
			t.Errorf("the component %s is not among those of this test: how is it known where it is shown?", name)
		}
	}
	look := func(document string) {
		for _, name := range seenIn(t, b, document) {
			delete(missing, name)
		}
	}
	look("document")
	for _, s := range everyState() {
		frame := fmt.Sprintf(`document.getElementById(%q)`, s.id+"-frame")
		browsertest.Ask[float64](b, `(`+frame+`.scrollIntoView(), window.readAt = scrollY)`)
		b.Until(fmt.Sprintf(`(() => { const d = %s.contentDocument; return d.readyState === "complete" && d.location.href !== "about:blank" && (%s); })()`, frame, arrived[s.id]))
		look(frame + ".contentDocument")
		b.Settle()
		if moved := browsertest.Ask[string](b, `Math.abs(scrollY - window.readAt) < 200 && document.activeElement === document.body ? "" : document.activeElement.id + " " + (scrollY - window.readAt)`); moved != "" {
			t.Errorf("%s: the gallery itself has moved: %s", s.id, moved)
		}
	}
	for name, selector := range missing {
		t.Errorf("the component %s (%s) can't be seen in any state", name, selector)
	}
	b.Visit("about:blank")
	b.Quiet(loud...)
}

// allTemplates is the text of all of package views.
func allTemplates(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "views", "*.templ"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// axe-core finds nothing in those states of the gallery that no other test
// shows. `make looks` keeps the pictures.
func TestGalleryStatesAreAccessible(t *testing.T) {
	address, dir := startGallery(t), t.ArtifactDir()
	for _, s := range everyState() {
		if elsewhere[s.id] {
			continue
		}
		t.Run(s.id, func(t *testing.T) {
			b := browsertest.Open(t, 1440, 900)
			b.Visit(address + "state/" + s.scene + "/" + s.path)
			if s.press != "" {
				browsertest.Ask[bool](b, fmt.Sprintf(`(document.querySelectorAll(%q).forEach((e) => e.click()), true)`, s.press))
			}
			b.Until(`((d) => ` + arrived[s.id] + `)(document)`)
			lookAt(t, b, dir, s.id, !unasked[s.id])
			b.Quiet(loud...)
		})
	}
}

// Pages may stand in frames in the gallery, and in its own alone.
func TestOnlyTheGalleryHasFrames(t *testing.T) {
	policy := func(method, url string) (csp, options string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s", method, url, answer.Status)
		}
		return answer.Header.Get("Content-Security-Policy"), answer.Header.Get("X-Frame-Options")
	}
	own, options := policy(http.MethodGet, newStage(t).url)
	if !strings.Contains(own, "default-src 'none'") || !strings.HasSuffix(own, "frame-ancestors 'none'") || strings.Contains(own, "frame-src") || options != "DENY" {
		t.Errorf("the dashboard: %s; %s", own, options)
	}
	want := strings.Replace(own, "frame-ancestors 'none'", "frame-src 'self'; frame-ancestors 'self'", 1)
	address := startGallery(t)
	for path, more := range map[string]string{"": "", "state/one/": "", "state/no-script/": "; sandbox allow-same-origin"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if got, options := policy(method, address+path); got != want+more || options != "SAMEORIGIN" {
				t.Errorf("%s %q: %s; %s", method, path, got, options)
			}
		}
	}
}
