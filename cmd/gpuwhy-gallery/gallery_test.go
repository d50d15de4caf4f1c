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

// components has for each component of package views a CSS selector of the
// elements that only this component makes.
var components = map[string]string{
	"alertRow": "div.alert", "momentIn": "#past-title ~ * time, #firing time", "answers": "#firing .say [formaction]", "onPage": ".say > [name=page]", "alertsBody": "body.of-alerts", "alertDetail": "li.firing", "comment": "[name=comment]",
	"onePress": ".say[action] > button", "silenceRow": "#silences > li", "silenceForm": "#new-silence", "choices": "select[name=gpu_uuid]",
	"wideTable": "table.list > thead", "pastTable": "table[aria-labelledby=past-title] tr[data-key]", "ruleTable": "table[aria-labelledby=rules-title] tr.off",
	"targetTable": "table[aria-labelledby=targets-title] .failing",
	"tile":        "li.card", "meter": ".card .meter", "evidence": "details#evidence[open]", "cause": "#causes > li", "evidenceRow": "#causes li li",
	"docsTop": ".docs > .top", "docsLink": ".docs [aria-current=page]", "docsBody": "body.docs.viewer", "referenceBody": "body.docs main", "operationDoc": ".verb",
	"DocsPage": "body.docs rapi-doc", "ReferencePage": "body.docs h2#types", "EventsPage": "body.docs h2#limits", "docsPage": "body.docs", "answerRow": ".docs td.fact", "socketFacts": ".docs h2#limits ~ * th[scope=row]",
	"typeOf": ".docs td a", "fieldRow": ".docs .facts th > code", "typeDocs": ".docs h2#types", "factTable": "table.facts", "fieldTable": ".docs .scroll > table", "eventsBody": ".docs h2#limits", "messageDoc": ".verb[data-kind]",
	"document": "html[lang]", "ErrorPage": "body.error", "Gallery": "body.gallery", "answer": "#answer", "chip": "#chips > li", "mark": "svg.mark", "errorBody": "body.error", "facts": "#facts", "uses": "#use", "means": "dd.note", "meansBy": "#facts dd.note", "factList": "#facts div.list", "factRow": "#facts tr[data-key]",
	"galleryBody": "body.gallery", "frame": ".gallery iframe", "hostRow": "#host-rows > [data-key]",
	"dashboard": "body[data-status]", "deviceHead": "#device", "gone": "body[data-gpu] #gone", "pageTools": "#page-tools", "menu": ".menu[open] > div", "anchor": "a.anchor",
	"templates": "template#t-card", "totals": "#totals", "failure": "#failure-list > li", "charts": "#charts .uplot", "largeChart": "dialog#large[open]", "series": "#series > li",
	"simulated": "#simulated", "notLive": "#recorded", "recorded": "#recorded", "waiting": "#waiting", "limitation": "#notes > li", "blockHead": ".head > h2", "processTable": "table:has(> #processes)", "processColumn": "th > .sort", "processFact": "#process dd[data-path=pid]", "processRow": "#processes > tr[data-key]", "processGroup": "tr.of",
	"failures": "#failures", "cards": "#cards", "limitations": "#limits", "machineNow": "#host",
	"pages": "nav.pages", "pastBody": "body.of-past", "pastForm": ".past-form", "pastLinks": ".past-choice", "pastTrouble": "#past-trouble", "pastNothing": "#past-nothing",
	"pastPicture": "#past-picture", "pastDevice": ".past-gpu", "pastName": ".past-lane > h3", "pastMarks": ".past-lane use", "pastHappened": "#past-happened li", "pastThingsOf": "#past-happened ol", "pastUse": "#past-use tbody tr", "pastThen": "#past-then", "pastNext": "#past-next li", "pastBoth": "#past-both tbody tr", "outlooks": ".outlooks > div", "deviceNext": "body[data-gpu] #next li",
	"processTools": "#process-tools", "processDialog": "dialog#process[open]", "wall": "#wall-canvas", "wallRow": "#wall-rows > tr",
}

// componentsIn returns the components that the page shows. Two of them are
// never visible: it is enough that the page has them.
func componentsIn(t *testing.T, b *browsertest.Tab) map[string]bool {
	t.Helper()
	table, err := json.Marshal(components)
	if err != nil {
		t.Fatal(err)
	}
	return browsertest.Ask[map[string]bool](b, fmt.Sprintf(`Object.fromEntries(Object.entries(%s).filter(([name, selector]) =>
	  [...document.querySelectorAll(selector)].some((e) => ["onPage", "templates"].includes(name) || e.checkVisibility())).map(([name]) => [name, true]))`, table))
}

// allComponents returns the names of the components of package views.
func allComponents(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "views", "*.templ"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^templ (\w+)\(`).FindAllSubmatch(text, -1) {
			name := string(found[1])
			if components[name] == "" {
				t.Errorf("this test does not know how to find the component %s", name)
			}
			names = append(names, name)
		}
	}
	return names
}

// The gallery has a frame for each state. Frames load when somebody scrolls to
// them; the gallery presses what the state needs pressed. A page that jumps to a
// heading or opens a dialog neither scrolls the gallery nor takes its focus.
func TestTheGalleryHasEveryStateInAFrame(t *testing.T) {
	b := browsertest.Open(t, 1440, 900)
	b.Visit(startGallery(t))
	for _, s := range everyState() {
		frame := fmt.Sprintf(`document.getElementById(%q)`, s.ID+"-frame")
		path, _, _ := strings.Cut(s.URL, "#")
		src, press := browsertest.Ask[string](b, frame+`.getAttribute("src")`), browsertest.Ask[string](b, frame+`.dataset.press ?? ""`)
		if src != "/"+path || press != s.Press {
			t.Errorf("%s: its frame has %s and presses %q", s.ID, src, press)
		}
	}
	for _, id := range []string{"menu", "no-script", "one-line", "large", "alerts-refused"} {
		frame := fmt.Sprintf(`document.getElementById(%q)`, id+"-frame")
		browsertest.Ask[float64](b, `(`+frame+`.scrollIntoView(), window.readAt = scrollY)`)
		b.Until(fmt.Sprintf(`(() => { const d = %s.contentDocument; return d.readyState === "complete" && d.location.href !== "about:blank" && (%s); })()`, frame, arrived[id]))
		b.Settle()
		if moved := browsertest.Ask[string](b, `Math.abs(scrollY - window.readAt) < 200 && document.activeElement === document.body ? "" : document.activeElement.id + " " + (scrollY - window.readAt)`); moved != "" {
			t.Errorf("%s: the gallery itself has moved: %s", id, moved)
		}
	}
	// These frames and their neighbors have servers that refuse something.
	b.Quiet("WebSocket connection to", "status of 503", "status of 404", "Blocked script execution")
}

// Pages of the gallery may stand in frames of the gallery alone.
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
