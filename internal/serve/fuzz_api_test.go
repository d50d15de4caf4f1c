//go:build !race

package serve_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

// Whatever is asked for, by any method, with any headers and any body, of a
// machine in any state: the answer is one that the document has, no error is the server's own
// fault, and what is no GET changes nothing and says which methods there are.
func FuzzAPI(f *testing.F) {
	documented := servetest.NewDocumented(f)
	for path := range documented.Paths {
		if !strings.Contains(path, "/alerts/") { // there {id} is an alert that stands
			path = strings.Replace(path, "{id}", "0", 1)
		}
		path = strings.NewReplacer("{cluster}", "local", "{node}", "workstation").Replace(path)
		f.Add("GET", path, "", "", "", "", "")
		f.Add("HEAD", path, "cluster_id=local", "Accept", "text/html", "", "")
		f.Add("OPTIONS", path, "", "Origin", "https://board.example.org", "", "")
		f.Add("DELETE", path, "", "If-None-Match", "*", "", "")
		f.Add("POST", path, "", "Sec-Fetch-Site", "cross-site", typeJSON, "{}")
		for _, body := range []struct{ contentType, content string }{
			{typeJSON, `{"by":"anna","comment":"\u00e4","duration_seconds":60}`},
			{typeJSON + "; charset=utf-8", `{"rule":"*","node":"[a-","gpu_uuid":"\\","duration_seconds":1e308}`},
			{typeForm, "by=anna&comment=%c3%28&duration_seconds=60&page=gpu/GPU-1"},
			{typeForm, "page=//evil.example&duration_seconds=0x1p-2;by=%"},
			{"text/plain", "{}"},
			{"multipart/form-data; boundary=a; boundary=b", "--a--"},
		} {
			f.Add("POST", path, "", "Accept", "text/html", body.contentType, body.content)
		}
	}
	f.Add("GET", "/api/gpu/recent", "gpu=0&gpu=%ff", "Accept-Encoding", "gzip", "", "")
	f.Add("GET", "/api/v1/gpu/processes", "node_name=dgx-1;cluster_id=", "Accept", "application/openmetrics-text", "", "")
	f.Add("GET", "/api/v1/gpu/nodes/%2e%2e/\x00", "cluster_id=%", "Host", "evil.example", "", "")
	f.Add("BREW", "*", "?", "Range", "bytes=0-1", typeJSON, "null")

	handlers, standing := map[string]http.Handler{}, map[string]string{} // by machine
	for name, snap := range servetest.Machines() {
		st, h := servetest.Serving(f, func(c *servetest.Rig) { c.AllowOrigins = servetest.Origins(f, board) })
		if snap != nil {
			st.Show(f, snap...)
		}
		handlers[name] = h
		for _, a := range st.Engine.Standing() {
			standing[name] = a.ID
		}
	}
	if standing["workstation"] == "" {
		f.Fatal("no alert stands")
	}
	f.Fuzz(func(t *testing.T, method, path, query, name, value, contentType, content string) {
		for machine, h := range handlers {
			r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(content))
			path := strings.Replace(path, "{id}", standing[machine], 1)
			r.Method, r.Host = method, "localhost"
			r.URL = &url.URL{Path: path, RawPath: path, RawQuery: query}
			r.Header.Set("Content-Type", contentType)
			r.Header.Set(name, value)
			if http.CanonicalHeaderKey(name) == "Host" {
				r.Host = value
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			checkDocumented(t, documented, machine, r, w)
		}
	})
}

func checkDocumented(t *testing.T, d *servetest.Documented, machine string, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 500 && (w.Code != http.StatusServiceUnavailable || machine != "starting" && machine != "empty") {
		t.Errorf("%s %s of a machine that is %s: status %d: %s", r.Method, r.URL, machine, w.Code, w.Body)
	}
	method, path, named := strings.Cut(r.Pattern, " ")
	if !named { // the pattern of all other methods
		method, path = "", r.Pattern
	}
	if _, ok := d.Paths[path]; !ok || w.Code == http.StatusTemporaryRedirect { // to the same path, without // and ..
		return
	}
	switch {
	case method == "" && r.Method == http.MethodOptions:
		if w.Code != http.StatusNoContent || w.Header().Get("Allow") == "" {
			t.Errorf("OPTIONS %s: status %d, %v", r.URL, w.Code, w.Header())
		}
	case method == "":
		if allow := w.Header().Get("Allow"); w.Code != http.StatusMethodNotAllowed || !strings.Contains(allow, "OPTIONS") {
			t.Errorf("%s %s: status %d, Allow %q", r.Method, r.URL, w.Code, allow)
		}
	case method == r.Method:
		d.Check(t, method, path, w)
	case method == http.MethodGet && w.Body.Len() > 0:
		t.Errorf("%s %s has a body", r.Method, r.URL)
	}
}
