package alerts_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

const (
	typeJSON = "application/json"
	typeForm = "application/x-www-form-urlencoded"
)

func TestAlertsAreAcknowledged(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	path := "/api/alerts/" + id + "/acknowledge"
	const documentedPath = "/api/alerts/{id}/acknowledge"
	before := time.Now().Truncate(time.Second)
	w := servetest.Say(h, "POST", path, "application/json; charset=utf-8", `{"by":"ann","comment":"<b>mine</b>"}`)
	doc.Check(t, "POST", documentedPath, w)
	if a := servetest.Decode[contract.Alert](t, w); w.Code != 200 || a.ID != id || a.Acknowledged == nil || a.Acknowledged.By != "local owner" || a.Acknowledged.Comment != "<b>mine</b>" {
		t.Errorf("status %d: %+v", w.Code, a.Acknowledged)
	}
	if acknowledged, err := time.Parse(time.RFC3339, servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts")).Alerts[0].Acknowledged.Timestamp); err != nil || acknowledged.Before(before) || acknowledged.After(time.Now()) {
		t.Errorf("acknowledged at %v: %v", acknowledged, err)
	}
	w = servetest.Say(h, "DELETE", path, "", "")
	doc.Check(t, "DELETE", documentedPath, w)
	if a := servetest.Decode[contract.Alert](t, w); w.Code != 200 || a.Acknowledged != nil {
		t.Errorf("taken back: status %d, %+v", w.Code, a.Acknowledged)
	}
	if w := servetest.Say(h, "POST", path, "", ""); w.Code != 200 || servetest.Decode[contract.Alert](t, w).Acknowledged == nil {
		t.Errorf("without a body: status %d: %s", w.Code, w.Body)
	}
	for _, method := range []string{"POST", "DELETE"} {
		w := servetest.Say(h, method, "/api/alerts/none/acknowledge", "", "")
		doc.Check(t, method, documentedPath, w)
		servetest.IsProblem(t, w, http.StatusNotFound)
	}
	w = servetest.Say(h, "DELETE", "/api/alerts/"+id, "", "")
	doc.Check(t, "DELETE", "/api/alerts/{id}", w)
	servetest.IsProblem(t, w, http.StatusConflict)
}

func TestAlertsAreSilenced(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	w := servetest.Say(h, "POST", "/api/silences", typeJSON, `{"rule":"bu*","by":"ann","comment":"a test","duration_seconds":3600}`)
	doc.Check(t, "POST", "/api/silences", w)
	made := servetest.Decode[contract.Silence](t, w)
	list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts"))
	doc.Check(t, "GET", "/api/alerts", servetest.Get(h, "/api/alerts"))
	if w.Code != http.StatusCreated || len(list.Silences) != 1 || list.Silences[0] != made || made.ID == "" || made.Since >= made.Until {
		t.Fatalf("status %d: %+v of %+v", w.Code, made, list.Silences)
	}
	if a := list.Alerts[0]; a.ID != id || a.State != "firing" || a.SilencedUntil == nil || *a.SilencedUntil != made.Until {
		t.Errorf("the alert: %+v", a)
	}
	w = servetest.Say(h, "DELETE", "/api/silences/"+made.ID, "", "")
	doc.Check(t, "DELETE", "/api/silences/{id}", w)
	list = servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts"))
	if w.Code != http.StatusNoContent || len(list.Silences) != 0 || list.Alerts[0].SilencedUntil != nil {
		t.Errorf("ended: status %d: %+v", w.Code, list)
	}
	w = servetest.Say(h, "DELETE", "/api/silences/"+made.ID, "", "")
	doc.Check(t, "DELETE", "/api/silences/{id}", w)
	servetest.IsProblem(t, w, http.StatusNotFound)
	for range 500 {
		servetest.Say(h, "POST", "/api/silences", typeJSON, `{"duration_seconds":1}`)
	}
	w = servetest.Say(h, "POST", "/api/silences", typeJSON, `{"duration_seconds":1}`)
	doc.Check(t, "POST", "/api/silences", w)
	servetest.IsProblem(t, w, http.StatusConflict)
}

// Several alerts are acknowledged and silenced at once. Those that are over by then do not matter, unless all are.
func TestSeveralAlerts(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	const acknowledge, silence = "/api/alerts/acknowledge", "/api/alerts/silence"
	for _, step := range []struct {
		path, contentType, content string
		status                     int
	}{
		{acknowledge, typeJSON, `{"alert_ids":["` + id + `","over","` + id + `"],"comment":"all of them"}`, 200},
		{acknowledge, typeJSON, `{"alert_ids":["over"]}`, 404},
		{acknowledge, typeJSON, `{"alert_ids":[]}`, 422},
		{acknowledge, typeJSON, `{"alert_ids":"` + id + `"}`, 422},
		{acknowledge, typeJSON, ``, 422},
		{acknowledge, typeForm, "page=alerts", 422},
		{acknowledge, typeForm, "alert_ids=%ff", 400},
		{acknowledge, typeForm, url.Values{"alert_ids": {id, "over"}, "comment": {"& so on"}}.Encode(), 303},
		{silence, typeJSON, `{"alert_ids":["` + id + `","over","` + id + `"],"duration_seconds":60}`, 201},
		{silence, typeJSON, `{"alert_ids":["` + id + `"],"duration_seconds":0}`, 422},
		{silence, typeJSON, `{"alert_ids":["over"],"duration_seconds":60}`, 404},
		{silence, typeForm, url.Values{"alert_ids": {id}, "duration_seconds": {"3600"}}.Encode(), 303},
	} {
		w := servetest.Say(h, "POST", step.path, step.contentType, step.content)
		doc.Check(t, "POST", step.path, w)
		if w.Code != step.status {
			t.Errorf("%s %s: status %d, want %d: %s", step.path, step.content, w.Code, step.status, w.Body)
		}
	}
	list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts"))
	if ack := list.Alerts[0].Acknowledged; ack == nil || ack.By != "local owner" || ack.Comment != "& so on" {
		t.Errorf("acknowledged: %+v", ack)
	}
	if len(list.Silences) != 2 || list.Silences[0].Rule != list.Alerts[0].Rule || list.Silences[0].GPUUUID != list.Alerts[0].GPUUUID {
		t.Errorf("silences: %+v", list.Silences)
	}
	for _, path := range []string{acknowledge, silence} {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"alert_ids":["`+id+`"],"duration_seconds":60}`))
		r.Host = "localhost"
		r.Header.Set("Content-Type", typeJSON)
		r.Header.Set("Origin", "https://evil.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		servetest.IsProblem(t, w, http.StatusForbidden)
	}
}

// What a browser sends without a script leads back to the page that it is on,
// and to no other site.
func TestForms(t *testing.T) {
	h, _, id := servetest.Alerting(t)
	post := func(path, page string, fields url.Values) {
		t.Helper()
		want := map[string]string{
			"": "/#alerts", "alerts": "/alerts", "alerts?q=a+b&only=info": "/alerts?only=info&q=a+b", "gpu/GPU-1": "/gpu/GPU-1#alerts",
			"//evil.example": "/#alerts", "https://evil.example/": "/#alerts", "gpu///evil.example": "/gpu/%2F%2Fevil.example#alerts",
		}[page]
		fields.Set("page", page)
		w := servetest.Say(h, "POST", path, typeForm, fields.Encode())
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("%s: status %d to %q, want %q: %s", path, w.Code, w.Header().Get("Location"), want, w.Body)
		}
	}
	address := "/api/alerts/" + id
	standing := func() contract.Alerts { return servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts")) }
	post(address+"/acknowledge", "", url.Values{"by": {"ann"}, "comment": {"& so on"}})
	post(address+"/acknowledge", "alerts?q=a+b&only=info", url.Values{"comment": {"& so on"}})
	post("/api/silences", "alerts", url.Values{"gpu_uuid": {"GPU-*"}, "duration_seconds": {"60"}})
	if a := standing().Alerts[0]; a.Acknowledged == nil || a.Acknowledged.Comment != "& so on" || a.SilencedUntil == nil {
		t.Errorf("%+v", a)
	}
	post(address+"/unacknowledge", "gpu/GPU-1", url.Values{})
	post("/api/silences/"+standing().Silences[0].ID+"/end", "//evil.example", url.Values{})
	if list := standing(); list.Alerts[0].Acknowledged != nil || len(list.Silences) != 0 {
		t.Errorf("not taken back: %+v", list)
	}
	post(address+"/silence", "https://evil.example/", url.Values{"duration_seconds": {"60"}, "by": {"bob"}})
	if list := standing(); list.Alerts[0].SilencedUntil == nil || list.Silences[0].Rule != list.Alerts[0].Rule || list.Silences[0].GPUUUID != list.Alerts[0].GPUUUID || list.Silences[0].By != "local owner" {
		t.Errorf("of one alert: %+v", list.Silences)
	}
	post(address+"/acknowledge", "gpu///evil.example", url.Values{})
	if w := servetest.Say(h, "POST", address+"/dismiss", typeForm, "page=alerts"); w.Code != http.StatusConflict {
		t.Errorf("dismissed although it is reported: status %d", w.Code)
	}
	if w := servetest.Say(h, "POST", address+"/acknowledge", typeForm, ""); w.Code != http.StatusSeeOther {
		t.Errorf("an empty form: status %d", w.Code)
	}
}

// What could not be written is done, and is answered with 202: to programs with the
// usual body, to forms with what to do.
func TestWhatCouldNotBeWritten(t *testing.T) {
	h, doc, id := servetest.Alerting(t, func(cfg *servetest.Rig) { cfg.Flush = func(context.Context) error { return syscall.ENOSPC } })
	const documentedPath = "/api/alerts/{id}/acknowledge"
	path := "/api/alerts/" + id + "/acknowledge"
	w := servetest.Say(h, "POST", path, typeJSON, "{}")
	doc.Check(t, "POST", documentedPath, w)
	if w.Code != http.StatusAccepted || servetest.Decode[contract.Alert](t, w).Acknowledged == nil {
		t.Errorf("a program: status %d: %s", w.Code, w.Body)
	}
	if w := servetest.Say(h, "POST", path, typeForm, "page=alerts"); w.Code != http.StatusAccepted || !strings.Contains(w.Body.String(), "check the free space there") {
		t.Errorf("a form: status %d: %s", w.Code, w.Body)
	}
	if w := servetest.Say(h, "POST", "/api/alerts/none/acknowledge", typeForm, "page=alerts"); w.Code != http.StatusNotFound {
		t.Errorf("of an unknown alert: status %d", w.Code)
	}
}

// What can be taken back with DELETE can be with POST.
func TestTakenBackWithPost(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	address := "/api/alerts/" + id
	for _, step := range []struct {
		path, documented, content string
		status                    int
	}{
		{address + "/acknowledge", "/api/alerts/{id}/acknowledge", "", 200},
		{address + "/unacknowledge", "/api/alerts/{id}/unacknowledge", "", 200},
		{address + "/silence", "/api/alerts/{id}/silence", `{"duration_seconds":60}`, 201},
		{address + "/silence", "/api/alerts/{id}/silence", `{"duration_seconds":0}`, 422},
		{address + "/dismiss", "/api/alerts/{id}/dismiss", "", 409},
		{"/api/alerts/none/unacknowledge", "/api/alerts/{id}/unacknowledge", "", 404},
		{"/api/alerts/none/silence", "/api/alerts/{id}/silence", `{"duration_seconds":60}`, 404},
		{"/api/alerts/none/dismiss", "/api/alerts/{id}/dismiss", "", 404},
		{"/api/silences/none/end", "/api/silences/{id}/end", "", 404},
	} {
		w := servetest.Say(h, "POST", step.path, typeJSON, step.content)
		doc.Check(t, "POST", step.documented, w)
		if w.Code != step.status {
			t.Errorf("%s: status %d, want %d: %s", step.path, w.Code, step.status, w.Body)
		}
	}
	list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts"))
	if list.Alerts[0].Acknowledged != nil || len(list.Silences) != 1 {
		t.Fatalf("%+v", list)
	}
	w := servetest.Say(h, "POST", "/api/silences/"+list.Silences[0].ID+"/end", "", "")
	doc.Check(t, "POST", "/api/silences/{id}/end", w)
	if list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts")); w.Code != http.StatusNoContent || len(list.Silences) != 0 {
		t.Errorf("status %d: %+v", w.Code, list.Silences)
	}
}

func TestBadBodies(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	ack := "/api/alerts/" + id + "/acknowledge"
	long := strings.Repeat("x", 201)
	for _, tt := range []struct {
		path, contentType, content string
		status                     int
	}{
		{ack, "text/plain", "hello", http.StatusUnsupportedMediaType},
		{ack, "", `{"by":"ann"}`, http.StatusUnsupportedMediaType},
		{ack, typeJSON, `{"by":`, http.StatusBadRequest},
		{ack, typeJSON, `{} {}`, http.StatusBadRequest},
		{ack, typeJSON, `{"by":7}`, http.StatusUnprocessableEntity},
		{ack, typeJSON, `[]`, http.StatusUnprocessableEntity},
		{ack, typeJSON, `{"who":"ann"}`, http.StatusUnprocessableEntity},
		{ack, typeJSON, `{"comment":"a\nb"}`, http.StatusUnprocessableEntity},
		{ack, typeJSON, `{"comment":"a","comment":"b"}`, http.StatusBadRequest},
		{ack, typeJSON, `{"Comment":"a"}`, http.StatusBadRequest},
		{ack, typeJSON, "{\"comment\":\"\xff\"}", http.StatusBadRequest},
		{ack, typeJSON, `null`, http.StatusUnprocessableEntity},
		{ack, typeForm, "comment=a&comment=b", http.StatusBadRequest},
		{ack, typeForm, "comment=%ff", http.StatusBadRequest},
		{ack, typeForm, "%zz", http.StatusBadRequest},
		{ack, typeForm, "who=ann", http.StatusUnprocessableEntity},
		{"/api/silences", "", "", http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":-1}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":1e-7}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":"60"}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":1e300}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":34000000}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":60,"rule":"["}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeJSON, `{"duration_seconds":60,"comment":"` + long + `"}`, http.StatusUnprocessableEntity},
		{"/api/silences", typeForm, "duration_seconds=NaN", http.StatusUnprocessableEntity},
		{"/api/silences", typeForm, "duration_seconds=soon", http.StatusUnprocessableEntity},
	} {
		w := servetest.Say(h, "POST", tt.path, tt.contentType, tt.content)
		doc.Check(t, "POST", strings.Replace(tt.path, id, "{id}", 1), w)
		if detail := servetest.IsProblem(t, w, tt.status); detail == "" || strings.Contains(detail, "Go ") || strings.Contains(detail, "json:") {
			t.Errorf("%s %.60q: the detail is %q", tt.path, tt.content, detail)
		}
	}
	if list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts")); list.Alerts[0].Acknowledged != nil || len(list.Silences) != 0 {
		t.Errorf("something of that was taken: %+v", list)
	}
	large := httptest.NewServer(h)
	defer large.Close()
	resp, err := large.Client().Post(large.URL+ack, typeJSON, io.LimitReader(endless{}, 256<<10+1))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: status %d", resp.StatusCode)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// A body that does not come in time is answered, and not as one that is too large.
func TestSlowBody(t *testing.T) {
	h, doc, id := servetest.Alerting(t)
	ts := httptest.NewUnstartedServer(h)
	ts.Config.ReadTimeout = time.Second
	ts.Start()
	defer ts.Close()
	never, _ := io.Pipe()
	defer never.Close()
	resp, err := ts.Client().Post(ts.URL+"/api/alerts/"+id+"/acknowledge", typeJSON, io.MultiReader(strings.NewReader("{"), never))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		t.Fatal(err)
	}
	doc.Check(t, "POST", "/api/alerts/{id}/acknowledge", w)
	servetest.IsProblem(t, w, http.StatusRequestTimeout)
}

// A page of another site can't say anything of alerts, whatever it may read.
func TestOnlyOwnPagesAct(t *testing.T) {
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.AllowOrigins = servetest.Origins(t, "https://board.example.org") })
	st.Show(t, fixture.Workstation())
	for _, origin := range []string{"https://evil.example", "https://board.example.org", "null"} {
		r := httptest.NewRequest(http.MethodPost, "/api/silences", strings.NewReader(`{"duration_seconds":60}`))
		r.Host = "localhost"
		r.Header.Set("Content-Type", typeJSON)
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		servetest.IsProblem(t, w, http.StatusForbidden)
	}
	if list := servetest.Decode[contract.Alerts](t, servetest.Get(h, "/api/alerts")); len(list.Silences) != 0 {
		t.Errorf("%+v", list.Silences)
	}
}

func TestMethodsOfActions(t *testing.T) {
	h, _, id := servetest.Alerting(t)
	for path, allow := range map[string]string{
		"/api/alerts":                        "GET, HEAD, OPTIONS",
		"/api/alerts/" + id:                  "DELETE, OPTIONS",
		"/api/alerts/" + id + "/acknowledge": "DELETE, OPTIONS, POST",
		"/api/alerts/" + id + "/dismiss":     "OPTIONS, POST",
		"/api/alerts/acknowledge":            "DELETE, OPTIONS, POST",
		"/alerts":                            "GET, HEAD, OPTIONS",
		"/api/silences":                      "GET, HEAD, OPTIONS, POST",
		"/api/silences/x":                    "DELETE, OPTIONS",
	} {
		if w := servetest.Ask(h, "OPTIONS", path); w.Code != http.StatusNoContent || w.Header().Get("Allow") != allow {
			t.Errorf("OPTIONS %s: status %d, Allow %q, want %q", path, w.Code, w.Header().Get("Allow"), allow)
		}
		w := servetest.Ask(h, "BREW", path)
		servetest.IsProblem(t, w, http.StatusMethodNotAllowed)
		if w.Header().Get("Allow") != allow {
			t.Errorf("BREW %s: Allow %q, want %q", path, w.Header().Get("Allow"), allow)
		}
	}
}

// many has so many GPUs shown, each with an alert, and returns the alerts' IDs, the worst first.
func many(t *testing.T, st *servetest.Stage, n int, severity alert.Severity) (ids []string) {
	t.Helper()
	const rule = "a_rule_whose_name_is_as_long_as_people_make_them_who_like_it"
	st.Engine.SetRules([]alert.Rule{{Name: rule, Watch: alert.Utilization, Threshold: 50, Severity: severity, Enabled: true}}, fixture.Time)
	snap := fixture.Server()
	busy := snap.Devices[0]
	busy.Utilization.GPU = gpu.Of[gpu.Percent](99)
	snap.Devices = nil
	for i := range n {
		d := busy
		d.Index, d.UUID = i, fmt.Sprintf("GPU-%08d-0000-4000-8000-000000000000", i)
		snap.Devices = append(snap.Devices, d)
	}
	st.Show(t, snap)
	for _, a := range st.Engine.Standing() {
		ids = append(ids, a.ID)
	}
	return ids
}

// A thousand alerts can be silenced at once, or none of them is: there may not be so many silences.
func TestAThousandAlerts(t *testing.T) {
	st, h := servetest.Serving(t)
	ids := many(t, st, 1000, alert.Info)
	if len(ids) != 1000 {
		t.Fatalf("%d alerts", len(ids))
	}
	if w := servetest.Say(h, "POST", "/api/alerts/acknowledge", typeForm, url.Values{"alert_ids": ids}.Encode()); w.Code != http.StatusSeeOther {
		t.Errorf("acknowledged: status %d: %s", w.Code, w.Body)
	}
	for _, tt := range []struct{ ask, code, silences int }{{501, 409, 0}, {300, 303, 300}, {201, 409, 300}, {200, 303, 500}} {
		w := servetest.Say(h, "POST", "/api/alerts/silence", typeForm, url.Values{"alert_ids": ids[:tt.ask], "duration_seconds": {"60"}}.Encode())
		if n := len(st.Engine.Silences(time.Now())); w.Code != tt.code || n != tt.silences {
			t.Errorf("of %d: status %d and %d silences, want %d and %d", tt.ask, w.Code, n, tt.code, tt.silences)
		}
	}
}

// A page of the list of alerts has an address of its own.
func TestAlertsPageFrom(t *testing.T) {
	st, h := servetest.Serving(t)
	ids := many(t, st, 101, alert.Warning)
	listed := func(path string) (n int) {
		w := servetest.Get(h, path)
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, w.Code)
		}
		for _, id := range ids {
			if strings.Contains(w.Body.String(), "/api/alerts/"+id+"/acknowledge") {
				n++
			}
		}
		return n
	}
	if first, next := listed("/alerts"), listed("/alerts?from=100"); first != 100 || next != 1 {
		t.Errorf("%d alerts and then %d, want 100 and 1", first, next)
	}
	for _, path := range []string{"/alerts?from=x", "/alerts?from=-1"} {
		if w := servetest.Get(h, path); w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}
