package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// Whatever is asked for, and however it is to be answered: the answer is one
// that the contract has for it, and what is no success is a valid problem.
func FuzzRequest(f *testing.F) {
	for _, id := range []string{"0", "-1", "99999999999999999999", "GPU-800c0de0-0000-4000-8000-000000000001", "GPU-\xff", "a/b", "", "..", "%2e%2e", "{id}", "0?x", "\x00"} {
		f.Add(id, "text/html;q=0.1, application/json", "gzip;q=1, *", `"tag", *`, "localhost:8003")
	}
	f.Add("1", "*/*;q=", ";;,,q=", "W/", "[::1]:x")
	f.Add("1", "text/html", "", "", "evil.example")
	st, h := servetest.Serving(f)
	st.Show(f, fixture.Server())
	_, before := servetest.Serving(f)

	f.Fuzz(func(t *testing.T, id, accept, encoding, ifNoneMatch, host string) {
		for _, target := range []url.URL{
			{Path: "/gpu/metrics/" + id, RawPath: "/gpu/metrics/" + url.PathEscape(id)},
			{Path: "/api/gpu/recent", RawQuery: url.Values{"gpu": {id}}.Encode()},
			{Path: "/api/gpu/recent", RawQuery: id},
			{Path: "/static/" + id, RawPath: "/static/" + url.PathEscape(id)},
			{Path: "/" + id},
		} {
			for starting, handler := range map[bool]http.Handler{false: h, true: before} {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r.URL, r.Host = &target, host
				r.Header = http.Header{"Accept": {accept}, "Accept-Encoding": {encoding}, "If-None-Match": {ifNoneMatch}}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				checkAnswer(t, w, starting)
			}
		}
	})
}

func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, starting bool) {
	t.Helper()
	contentType := w.Header().Get("Content-Type")
	switch {
	case w.Code == http.StatusOK, w.Code == http.StatusNotModified, w.Code == http.StatusTemporaryRedirect:
	case w.Code == http.StatusServiceUnavailable && starting,
		w.Code == http.StatusNotFound, w.Code == http.StatusUnprocessableEntity, w.Code == http.StatusMisdirectedRequest:
		if contentType != typeProblem && contentType != typeHTML {
			t.Errorf("status %d as %q", w.Code, contentType)
		}
		if contentType == typeProblem {
			var p struct {
				Status int
				Detail string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Detail == "" {
				t.Errorf("the problem %s has %v", w.Body, err)
			}
		}
	default:
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w.Code == http.StatusOK && strings.HasPrefix(contentType, typeJSON) && w.Header().Get("Content-Encoding") == "" && !json.Valid(w.Body.Bytes()) {
		t.Errorf("no JSON: %s", w.Body)
	}
}
