package app

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// guarded wires a program without sources, to which people sign in.
func guarded(t *testing.T, change ...func(*Options)) *App {
	t.Helper()
	accounts, err := ledger.InMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := sim.Nodes("dgx-h100", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{
		Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, Access: &access.Options{Ledger: accounts},
	}
	for _, c := range change {
		c(&opt)
	}
	a, err := New(opt, []*reading.Inputs{{Node: "box", Origin: "auto", Sources: []sampler.Source{nodes[0]}}}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// What each action needs is said here too, so that a new one is decided on twice: "own" are those that somebody with an account may do to
// what is theirs, and an administrator to what is others'.
var actionsNeed = map[string]string{
	"acknowledgeAlert": "operate", "acknowledgeAlerts": "operate", "silenceSeveralAlerts": "operate", "withdrawAcknowledgment": "operate",
	"dismissAlert": "operate", "silenceAlert": "operate", "silenceAlerts": "operate", "endSilence": "operate", "testTarget": "operate", "alert": "operate",
	"refresh": "read",
	"addUser": "administer", "changeUser": "administer", "removeUser": "administer", "resetUser": "administer",
	"showCommands": "administer", "hideCommands": "administer",
	"endSessions": "own", "endSession": "own", "addToken": "own", "removeToken": "own",
}

// So are addresses for which reading is too much, or not enough. Everything else with GET needs "read".
var (
	routesOpen = []string{
		"GET /health", "GET /health/live", "GET /health/ready", "GET /api/health", "GET /manifest.webmanifest",
		"GET /guide", "GET /guide/{page...}", "GET /guide/search",
		"GET /sign-in", "POST /sign-in", "GET /sign-in/code", "POST /sign-in/code", "POST /sign-in/passkey/begin", "POST /sign-in/passkey", "POST /sign-out",
		"GET /sign-in/with/{provider}", "GET /sign-in/with/{provider}/callback", "GET /sign-in/with/{provider}/end",
		"GET /setup", "POST /setup", "GET /reset", "POST /reset",
	}
	routesForMetrics = []string{"GET /metrics", "GET /api/account"}
	routesAdminister = []string{"GET /users", "GET /api/users", "GET /audit", "GET /api/audit", "GET /api/audit.csv", "GET /api/audit/check"}
	routesOfOneself  = []string{"POST /account/password", "POST /account/passkeys/begin", "POST /account/passkeys", "POST /account/passkeys/remove", "POST /account/codes", "POST /account/sessions/end"}
)

// people are one of each kind: nobody, and somebody with each access, with and without an account.
func people() []auth.Principal {
	all := []auth.Principal{{}}
	for _, level := range []auth.Access{auth.Metrics, auth.Read, auth.Operate, auth.Administer} {
		all = append(all, auth.Principal{Name: level.String(), Access: level, Audience: auth.Everything, Way: auth.Open},
			auth.Principal{Name: level.String(), Access: level, Audience: auth.Everything, Way: auth.Password, ID: "user:" + level.String(), Key: "s"})
	}
	return all
}

func levelOf(t *testing.T, name string) (level auth.Access) {
	t.Helper()
	if _ = level.UnmarshalText([]byte(name)); level == 0 {
		t.Fatalf("%q is no access", name)
	}
	return level
}

// asked is the status of a request by a principal.
func asked(a *App, who *auth.Principal, method, path string) int {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1"
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), who)))
	return w.Code
}

// Every action through each of its addresses, and every address, is there for those who have what the tables above say, and refused to all
// others: 401 to whoever has not signed in, 403 to whoever has too little.
func TestRolesAndAddresses(t *testing.T) {
	a := guarded(t)
	inPath := strings.NewReplacer("{$}", "", "{path...}", "x", "{id}", "none", "{name}", "none", "{cluster}", "local", "{node}", "none")
	check := func(what, pattern string, who auth.Principal, may bool) {
		t.Helper()
		method, path, _ := strings.Cut(pattern, " ")
		status := asked(a, &who, method, inPath.Replace(path))
		want := http.StatusForbidden
		if who == (auth.Principal{}) {
			want = http.StatusUnauthorized
		}
		if denied := status == http.StatusForbidden || status == http.StatusUnauthorized; denied == may || denied && status != want {
			t.Errorf("%s by %q (%s): status %d, and may: %t", what, who.Name, who.Way, status, may)
		}
	}
	seen := map[string]bool{}
	for declared := range a.desk.Actions() {
		seen[declared.ID] = true
		needs, known := actionsNeed[declared.ID]
		if !known {
			t.Errorf("%s is in no table: who may do it?", declared.ID)
			continue
		}
		if (needs == "own") != declared.Own {
			t.Errorf("%s is for what is one's own: %t", declared.ID, declared.Own)
		}
		for _, pattern := range []string{declared.HTTP, declared.Form.HTTP} {
			if pattern == "" {
				continue
			}
			for _, who := range people() {
				level := auth.Administer
				if needs != "own" {
					level = levelOf(t, needs)
				}
				may := who.Access >= level
				if declared.ID == "addToken" && who.Account() != "" && who.May(auth.Read) {
					may = true // whatever it is then refused for
				}
				check(declared.ID, pattern, who, may)
			}
		}
	}
	for id := range actionsNeed {
		if !seen[id] {
			t.Errorf("there is no action %s", id)
		}
	}
	for p := range offers[part.Server](a) {
		for _, r := range p.Routes() {
			pattern := r.Method + " " + r.Path
			needs := auth.Read
			switch {
			case slices.Contains(routesOpen, pattern):
				needs = auth.Anyone
			case slices.Contains(routesForMetrics, pattern):
				needs = auth.Metrics
			case slices.Contains(routesAdminister, pattern):
				needs = auth.Administer
			case slices.Contains(routesOfOneself, pattern):
			case r.Method != http.MethodGet:
				t.Errorf("%s changes something, and is in no table: who may?", pattern)
			}
			if r.Needs != needs {
				t.Errorf("%s needs %q (%d), and should %q (%d)", pattern, r.Needs, r.Needs, needs, needs)
				continue
			}
			for _, who := range people() {
				if needs == auth.Anyone || slices.Contains(routesOfOneself, pattern) && who.May(auth.Read) {
					continue // they have reasons of their own
				}
				check(pattern, pattern, who, who.May(needs))
			}
		}
	}
}

// Strangers learn from health whether gpuwhy works, and no name, no path and no error: no text that those who may read find in it, or in
// the readings, apart from the words that answers are made of.
func TestStrangersLearnNoNames(t *testing.T) {
	a := guarded(t)
	snap := fixture.BrokenServer()
	a.Publish(snap)
	texts := map[string]bool{}
	var walk func(v any, visit func(string))
	walk = func(v any, visit func(string)) {
		switch v := v.(type) {
		case string:
			visit(v)
		case []any:
			for _, e := range v {
				walk(e, visit)
			}
		case map[string]any:
			for name, e := range v {
				visit(name)
				walk(e, visit)
			}
		}
	}
	get := func(path string, who auth.Principal) any {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &who)))
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: status %d, %v", path, w.Code, err)
		}
		return v
	}
	owner := auth.LocalOwner()
	probes := []string{"/health", "/health/live", "/health/ready", "/api/health", "/manifest.webmanifest"}
	for _, path := range append(probes, "/api/gpu/metrics", "/api/gpu/summary") {
		walk(get(path, owner), func(text string) { texts[text] = true })
	}
	// The words of the contract: names of members, states, sources and times.
	words := map[string]bool{}
	member := func(v any) {
		for name := range v.(map[string]any) {
			words[name] = true
		}
	}
	whole := get("/api/health", owner).(map[string]any)
	member(whole)
	member(get("/manifest.webmanifest", owner))
	for name, p := range whole["parts"].(map[string]any) {
		words[name] = true
		member(p)
		for _, field := range []string{"state", "last_success", "last_error_at"} {
			text, _ := p.(map[string]any)[field].(string)
			words[text] = true
		}
	}
	for _, field := range []string{"status", "source", "timestamp", "version"} {
		words[whole[field].(string)] = true
	}
	manifest, _ := json.Marshal(get("/manifest.webmanifest", auth.Principal{}))
	if strings.Contains(string(manifest), "box") {
		t.Errorf("the manifest is %s", manifest)
	}
	for _, path := range probes[:4] {
		walk(get(path, auth.Principal{}), func(text string) {
			if texts[text] && !words[text] {
				t.Errorf("%s tells strangers %q", path, text)
			}
			for known := range texts {
				if !words[text] && len(known) > 3 && !words[known] && strings.Contains(text, known) {
					t.Errorf("%s tells strangers %q, with %q in it", path, text, known)
				}
			}
		})
		for name := range get(path, owner).(map[string]any) {
			if _, there := get(path, auth.Principal{}).(map[string]any)[name]; !there {
				t.Errorf("%s has no %s for strangers", path, name)
			}
		}
	}
}

// /metrics is for tokens with that access, unless it is open.
func TestMetricsNeedAToken(t *testing.T) {
	a := guarded(t)
	for _, who := range people() {
		if got := asked(a, &who, http.MethodGet, "/metrics"); (got == http.StatusOK) != who.May(auth.Metrics) {
			t.Errorf("%q: status %d", who.Name, got)
		}
	}
	open := guarded(t, func(o *Options) { o.OpenMetrics = true })
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Host = "127.0.0.1"
	answer := httptest.NewRecorder()
	open.Handler().ServeHTTP(answer, request.WithContext(auth.NewContext(request.Context(), &auth.Principal{})))
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "\ngpuwhy_") {
		t.Errorf("open: status %d: %.200s", answer.Code, answer.Body)
	}
	if got := asked(open, &auth.Principal{}, http.MethodGet, "/api/alerts"); got != http.StatusUnauthorized {
		t.Errorf("the rest: status %d", got)
	}
}

// Forms make, show and remove what there is, where no script runs. A secret is shown once, and is in no address.
func TestFormsOfAccounts(t *testing.T) {
	a := guarded(t)
	owner := auth.LocalOwner()
	send := func(method, path, form string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &owner)))
		return w
	}
	shown := func(w *httptest.ResponseRecorder, says string) string {
		t.Helper()
		text := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(text, says) || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Location") != "" {
			t.Errorf("status %d, %v: %.300s", w.Code, w.Header(), text)
		}
		return text
	}
	leads := func(w *httptest.ResponseRecorder, to string) {
		t.Helper()
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
			t.Errorf("status %d, to %q: %.300s", w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	shown(send("POST", "/api/users", "name=ann&role=operator&scope=&unix_user="), "http://127.0.0.1/reset?link=")
	shown(send("POST", "/api/users/ann/reset", ""), "http://127.0.0.1/reset?link=")
	leads(send("POST", "/api/users/ann", "role=viewer&scope=node%3Abox&unix_user=ann&disabled=true"), "/users")
	if page := send("GET", "/users", "").Body.String(); !strings.Contains(page, "node:box") || !strings.Contains(page, "Disabled") || strings.Contains(page, "reset?link=") {
		t.Errorf("after the change: %s", page)
	}
	text := shown(send("POST", "/api/tokens", "title=T&access=read&scope=&expires_in_days=&never_expires=false&path="), "gpw_")
	value := text[strings.Index(text, "gpw_"):][:63]
	if page := send("GET", "/tokens", "").Body.String(); !strings.Contains(page, "T") || strings.Contains(page, value) {
		t.Errorf("the list of tokens: %s", page)
	}
	var list struct {
		Tokens []struct {
			ID string `json:"token_id"`
		}
	}
	if err := json.Unmarshal(send("GET", "/api/tokens", "").Body.Bytes(), &list); err != nil || len(list.Tokens) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	leads(send("POST", "/api/tokens/"+list.Tokens[0].ID+"/remove", ""), "/tokens")
	leads(send("POST", "/api/users/ann/remove", ""), "/users")
	if page := send("GET", "/sessions", ""); page.Code != http.StatusOK {
		t.Errorf("sessions: status %d", page.Code)
	}
	var doc struct{ Paths map[string]any }
	if err := json.Unmarshal(send("GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil || doc.Paths["/api/users/{name}"] == nil || doc.Paths["/api/account"] == nil {
		t.Errorf("the document of the API: %d paths, %v: %.300s", len(doc.Paths), err, send("GET", "/openapi.json", "").Body)
	}
}

// A token in the address of a picture shows strangers that picture, and nothing else.
func TestPicturesOfStrangers(t *testing.T) {
	a := guarded(t)
	a.Publish(fixture.Workstation())
	owner := auth.LocalOwner()
	get := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		return w
	}
	token := func(path string) string {
		made, err := a.desk.Run(t.Context(), action.Call{Action: "addToken", Principal: owner, Args: contract.TokenRequest{Title: path, Path: path}})
		if err != nil {
			t.Fatal(err)
		}
		return made.(contract.AddedToken).Value
	}
	card := "/embed/gpu/" + fixture.Workstation().Devices[0].UUID
	picture, framed := token("/picture.svg?gpu=0"), token(card)
	if w := get("/picture.svg?gpu=0&token=" + picture); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || strings.Contains(w.Body.String(), picture) {
		t.Errorf("the picture: status %d, %.200s", w.Code, w.Body)
	}
	if w := get(card + "?token=" + framed); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `http-equiv="refresh"`) || strings.Contains(w.Body.String(), "page.js") || strings.Contains(w.Body.String(), framed) {
		t.Errorf("the card: status %d, %s", w.Code, w.Body)
	}
	for _, path := range []string{
		"/picture.svg?gpu=0", "/picture.svg?token=" + picture, card + "?token=" + picture, "/picture.svg?gpu=0&token=" + framed, "/api/gpu/metrics?token=" + picture,
		"/?gpu=0&token=" + picture, "/ws?token=" + framed, "/node/workstation/picture.svg?gpu=0&token=" + picture, "//picture.svg?gpu=0&token=" + picture,
	} {
		if w := get(path); w.Code == http.StatusOK {
			t.Errorf("%.30s: status %d", path, w.Code)
		}
	}
}
