//go:build !race

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
)

// components has for each component of package views a CSS selector of the
// elements that only this component makes.
var components = map[string]string{
	// The shell.
	"document": "html[lang]", "shell": "body > main#main", "mark": "a.brand", "sign": ".brand #blade", "place": "p.host", "shellPages": "nav.nav", "state": "#state",
	"pauseButton": "#pause", "themeButton": "[data-theme-next]", "moreMenu": "#more[open] > div", "foot": "footer.foot", "icon": "svg.i",
	"dashboard": "body:not(.of-past) .lead", "momentIn": "time:not([data-form])", "clockTime": "time[data-form]", "unstyled": "p.unstyled", "blockHead": "#next .sect",
	// The guide.
	"GuideHome": ".guide-home", "guideHome": ".guide-home > section", "GuideContent": ".guide-columns", "guideContent": ".prose", "guideHeadings": ".guide-contents ol",
	"guidePages": ".guide-pages", "GuideFound": ".guide-found", "guideFound": "#guide-count", "guideDocument": "html > .guide", "guideBody": ".guide [role=search]",
	// Signing in.
	"accountLink": ".account-link", "signInBody": ".sign [name=name]", "passkeyTexts": "#passkey-says", "notice": "#trouble", "passwordBody": ".sign [autocomplete='new-password']", "newPassword": "#least",
	"accountBody": ".accounts", "again": ".account .note > [href*='sign-in']",
	// Accounts.
	"accountsFrame": ".tabs [href$='/tokens']", "momentOr": ".administered td time", "optionsOf": "#add-user select[name=role]", "scopeField": "[name=scope]", "scopeHelp": "#scope-help",
	"usersBody": "#add-user", "pressForm": ".administered form.do > button", "removal": ".removal", "tokensBody": "#add-token", "sessionsBody": ".several form", "secretBody": ".secret", "accessTabs": ".tabs [href$='/audit']", "notices": "#notices > .banner",
	"auditBody": "#audit-filter", "auditField": "#audit-filter [name=who]", "auditTable": ".audit table",
	// Now.
	"answer": ".answer .chips", "headline": ".headline .is", "unbroken": ".headline .unbroken", "chip": ".chip", "evidence": "#evidence[open]", "cause": "#evidence[open] #causes > li", "now": "body:not(:has(.of-device)) #now",
	"waiting": "#waiting", "failures": "#failures", "failure": "#failure-list > li", "limitations": "#limits", "machineNow": "#host", "machineRows": "#host-rows", "hostRow": "#host-rows > div",
	"gpuList": "#gpus", "gpuChoices": "#gpus .choices", "options": ".choices select", "reading": ".nums b", "card": "li.card", "num3": ".nums p", "bar": "svg.bar",
	"tileGroup": "li.node", "squares": ".wall > li", "oneGPU": "dl.figs",
	"pictureFigure": "figure.picture", "View": "#picture svg.plot", "Draw": "#picture .lanes", "lane": "#picture [data-scale] path", "Ends": "#charts .ends text", "pictureChoice": "#picture-choice",
	"charts": "#charts .chart", "shared": "svg[width='1200']",
	// Several nodes.
	"aboutNode": "nav.back", "silentNote": "#silent-node", "nodeNoteList": "ul.node-notes", "since": ".since", "standouts": "#standouts", "nodeChoices": ".choices [name=by]",
	"nodeGroups": "ul.node-groups", "nodeTable": "table.nodes-table", "nodeRow": ".nodes-table tbody th a", "listed": "#node-pages", "userTable": "table.users-table",
	// A device's own page.
	"devicePage": "header.of-device", "facts": "#facts", "uses": "#use", "timed": "#facts dd", "means": "#facts dd.note", "callSource": "details.from", "factList": "#facts div.list",
	"outlooks": ".outlooks > div", "deviceNext": "#next li",
	// Processes.
	"processBlock": "section#processes", "processesBody": "h1#processes-title", "processForm": "form.filters", "chooser": ".filters select", "processTable": "table.processes",
	"processRow": ".processes tbody tr", "processDialog": "dialog#process[open]", "endButton": "#end-one", "processFact": "#process dl > div",
	// Alerts.
	"alertLine": "#alerts", "alertButtons": ".alertline form.do", "alertNews": "#alert-news", "alertsBody": "#needs", "alertFilter": "form.alert-filter", "alertList": "#alert-groups",
	"theAlerts": "[name=alert_ids]", "alertDetail": "li.al", "alertFacts": ".al-all dl", "answers": ".al-all [name=comment]", "comment": "[name=comment]", "onPage": ".do > [name=page]",
	"onePress": "form.do[action]:not(.several form) > button", "alertFolds": "#quieter", "alertHistory": "#history", "silences": "#silenced", "silenceRow": "#silences > li",
	"silenceForm": "#new-silence", "choices": "select[name=gpu_uuid]", "wideTable": "table.list > thead", "pastTable": "#history table tr[data-key]", "ruleTable": "#rules tr.off",
	"targetTable": "td.failing",
	// Other pages.
	"aboutBody": ".about", "aboutFacts": ".about dl", "embedBody": "body.embed", "findBody": "form.finder", "foundList": ".found a", "nodesBody": "h1#nodes-title",
	"ErrorPage": "body.error", "errorBody": "body.error", "simulated": "#simulated", "recorded": "#recorded",
	// The past.
	"pastBody": "body.of-past", "pastForm": ".past-form", "pastLinks": ".past-choice", "pastTrouble": "#past-trouble", "pastNothing": "#past-nothing",
	"pastPicture": "#past-picture", "pastDevice": ".past-gpu", "pastName": ".past-lane > h3", "pastHappened": "#past-happened li", "pastThingsOf": "#past-happened ol",
	"pastUse": "#past-use tbody tr", "pastThen": "#past-then", "pastNext": "#past-next li", "pastBoth": "#past-both tbody tr",
	// Documents.
	"docsTop": ".docs > .top", "docsLink": ".docs [aria-current=page]", "docsBody": "body.docs.viewer", "referenceBody": "body.docs main", "operationDoc": ".verb",
	"DocsPage": "body.docs rapi-doc", "ReferencePage": "body.docs h2#types", "EventsPage": "body.docs h2#limits", "docsPage": "body.docs", "answerRow": ".docs td.fact", "socketFacts": ".docs h2#limits ~ * th[scope=row]",
	"typeOf": ".docs td a", "fieldRow": ".docs .facts th > code", "typeDocs": ".docs h2#types", "factTable": "table.facts", "fieldTable": ".docs .scroll > table", "eventsBody": ".docs h2#limits", "messageDoc": ".verb[data-kind]",
	// The gallery.
	"Gallery": "body.gallery", "galleryBody": "body.gallery", "frame": ".gallery iframe",
}

// unseen are components of which nothing is ever visible, where styles are.
var unseen = []string{"unstyled", "onPage", "theAlerts", "alertNews"}

// componentsIn returns the components that the page shows.
func componentsIn(t *testing.T, b *browser.Tab) map[string]bool {
	t.Helper()
	table, err := json.Marshal(components)
	if err != nil {
		t.Fatal(err)
	}
	never, err := json.Marshal(unseen)
	if err != nil {
		t.Fatal(err)
	}
	return browser.Ask[map[string]bool](b, fmt.Sprintf(`Object.fromEntries(Object.entries(%s).filter(([name, selector]) =>
	  [...document.querySelectorAll(selector)].some((e) => %s.includes(name) || e.checkVisibility())).map(([name]) => [name, true]))`, table, never))
}

// allComponents returns the names of the components of package views.
func allComponents(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "views", "*.templ"))
	engine, err2 := filepath.Glob(filepath.Join("..", "..", "views", "picture", "*.templ"))
	if err := errors.Join(err, err2); err != nil || len(files) == 0 || len(engine) == 0 {
		t.Fatalf("%d files, %d of pictures: %v", len(files), len(engine), err)
	}
	files = append(files, engine...)
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
	b := openTab(t, 1440, 900)
	b.Visit(startGallery(t))
	for _, s := range everyState() {
		frame := fmt.Sprintf(`document.getElementById(%q)`, s.ID+"-frame")
		path, _, _ := strings.Cut(s.URL, "#")
		src, press := browser.Ask[string](b, frame+`.getAttribute("src")`), browser.Ask[string](b, frame+`.dataset.press ?? ""`)
		if src != "/"+path || press != s.Press {
			t.Errorf("%s: its frame has %s and presses %q", s.ID, src, press)
		}
	}
	// A socket that a state never answers holds up those of all frames: browsers open one at a time for each host. So only these load.
	tried := []string{"menu", "no-script", "details", "charts", "alerts-refused"}
	browser.Ask[bool](b, `(document.querySelectorAll("iframe:not(#`+strings.Join(tried, "-frame, #")+`-frame)").forEach((f) => f.remove()), true)`)
	for _, id := range tried {
		frame := fmt.Sprintf(`document.getElementById(%q)`, id+"-frame")
		browser.Ask[float64](b, `(`+frame+`.scrollIntoView(), window.readAt = scrollY)`)
		b.Until(fmt.Sprintf(`(() => { const d = %s.contentDocument; return d.readyState === "complete" && d.location.href !== "about:blank" && (%s); })()`, frame, arrived[id]))
		b.Settle()
		if moved := browser.Ask[string](b, `Math.abs(scrollY - window.readAt) < 200 && document.activeElement === document.body ? "" : document.activeElement.id + " " + (scrollY - window.readAt)`); moved != "" {
			t.Errorf("%s: the gallery itself has moved: %s", id, moved)
		}
	}
	// Some of these frames, and those that had begun to load, have servers that refuse something.
	b.Quiet("WebSocket connection to", "status of 503", "status of 404", "Blocked script execution", "the page: Error: 503")
}

// A page opens its dialog before its frame has loaded.
func TestADialogOfAFrameThatLoadsTakesNoFocus(t *testing.T) {
	b := openTab(t, 1440, 900)
	b.Visit(startGallery(t))
	const frame = `document.getElementById("ended-frame")`
	browser.Ask[float64](b, `(document.querySelectorAll("iframe:not(#ended-frame)").forEach((f) => f.remove()), `+
		frame+`.onload = null, `+frame+`.scrollIntoView(), window.readAt = scrollY)`)
	b.Until(fmt.Sprintf(`(() => { const d = %s.contentDocument; return d.location.href !== "about:blank" && (%s); })()`, frame, arrived["ended"]))
	b.Settle()
	if moved := browser.Ask[float64](b, `Math.abs(scrollY - window.readAt)`); moved >= 200 || browser.Ask[bool](b, `document.activeElement !== document.body`) {
		t.Errorf("the gallery has moved by %v, or its frame has the focus", moved)
	}
	b.Quiet("WebSocket connection to", "status of 503", "status of 404", "Blocked script execution", "the page: Error: 503")
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
	own, options := policy(http.MethodGet, newStage(t, "rtx-4090").url)
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
