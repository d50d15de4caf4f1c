package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// ask returns a client for a gpuwhy at http://h.
func ask(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New("http://h", o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// transport answers with a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The client waits for a long answer while the server is alive, and an answer that makes progress may be of any length.
func TestPatience(t *testing.T) {
	t.Parallel()
	after := func(r *http.Request, d time.Duration, body io.Reader) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(d):
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {TypeJSON}}, Body: io.NopCloser(body), Request: r}, nil
	}
	drip := func(every time.Duration, times int) func(*http.Request) io.Reader {
		return func(r *http.Request) io.Reader {
			out, in := io.Pipe()
			go func() {
				for range times {
					select {
					case <-r.Context().Done():
						in.CloseWithError(r.Context().Err())
						return
					case <-time.After(every):
					}
					_, _ = in.Write([]byte("x"))
				}
				in.Close()
			}()
			return out
		}
	}
	nothing := func(*http.Request) io.Reader { return strings.NewReader("") }
	for _, tt := range []struct {
		name           string
		answers, lives time.Duration
		body           func(*http.Request) io.Reader
		says           string // in the error
		took           time.Duration
	}{
		{"at once", 0, 0, nothing, "", 0},
		{"slowly, and lives", time.Minute, time.Second, nothing, "", time.Minute},
		{"slowly, and does not live", time.Minute, time.Minute, nothing, "does not answer within 10s", 10 * time.Second},
		{"never, and lives", time.Hour, time.Second, nothing, "is running but has not begun to answer within 2m0s", 2 * time.Minute},
		{"just in time", 9 * time.Second, time.Minute, nothing, "", 9 * time.Second},
		{"for an hour", 0, 0, drip(20*time.Second, 180), "", time.Hour},
		{"and stops", 0, 0, drip(40*time.Second, 3), "stopped in the middle of its answer", 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := ask(t, Options{Transport: transport(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/health/live") {
						return after(r, tt.lives, strings.NewReader(""))
					}
					return after(r, tt.answers, tt.body(r))
				})})
				begun := time.Now()
				err := c.Copy(t.Context(), io.Discard, Request{Path: "/x"})
				if took := time.Since(begun); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				advice, ok := errors.AsType[*gpu.Advice](err)
				if tt.says == "" && err != nil || tt.says != "" && (!ok || !strings.Contains(advice.Text(), tt.says)) {
					t.Errorf("%v, want %q", err, tt.says)
				}
			})
		})
	}
}

// replies answers each request with the next text, repeats the last one, and collects the requests.
func replies(all *[]*http.Request, texts ...string) transport {
	return func(r *http.Request) (*http.Response, error) {
		text := texts[min(len(*all), len(texts)-1)]
		*all = append(*all, r)
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", TypeJSON)
		if strings.Contains(text, "detail") {
			w.Header().Set("Content-Type", typeProblem)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, text)
		return w.Result(), nil
	}
}

// If gpuwhy can't answer yet, the request is repeated as long as the client's options say; other answers and changes are never repeated.
func TestRetry(t *testing.T) {
	t.Parallel()
	const late, starts, answers = `{"detail":"not yet"}`, `{"why":"x","causes":[{"kind":"starting"}]}`, `{"why":"done"}`
	for name, tt := range map[string]struct {
		retry time.Duration
		texts []string
		asked int
		took  time.Duration
		says  string
	}{
		"at once":           {5 * time.Second, []string{answers}, 1, 0, "done"},
		"after a while":     {5 * time.Second, []string{late, starts, answers}, 3, 2 * time.Second, "done"},
		"never":             {5 * time.Second, []string{late}, 6, 5 * time.Second, "not yet"},
		"starts for ever":   {5 * time.Second, []string{starts}, 6, 5 * time.Second, "x"},
		"without patience":  {0, []string{late, answers}, 1, 0, "not yet"},
		"is another thing":  {5 * time.Second, []string{`{}`, answers}, 1, 0, "the server at http://h is not gpuwhy"},
		"is no JSON at all": {5 * time.Second, []string{`<p>`, answers}, 1, 0, "the server at http://h is not gpuwhy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked []*http.Request
				c := ask(t, Options{Retry: tt.retry, Transport: replies(&asked, tt.texts...)})
				begun := time.Now()
				why, err := Do(t.Context(), c, GetWhy())
				said := fmt.Sprint(err)
				if err == nil {
					said = why.Why
				}
				if took := time.Since(begun); took != tt.took || len(asked) != tt.asked || !strings.Contains(said, tt.says) {
					t.Errorf("asked %d times in %v: %s", len(asked), took, said)
				}
			})
		})
	}
	var asked []*http.Request
	if _, err := Do(t.Context(), ask(t, Options{Retry: time.Hour, Transport: replies(&asked, late)}), DismissAlert("a")); err == nil || len(asked) != 1 {
		t.Errorf("a change was asked for %d times: %v", len(asked), err)
	}
}

// A token is sent with every request, but only to its own address.
func TestToken(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	lead := func(r *http.Request) (*http.Response, error) {
		seen[r.URL.String()] = r.Header.Get("Authorization")
		w := httptest.NewRecorder()
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, "http://elsewhere/", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://h/leaked", http.StatusFound)
		default:
			w.Header().Set("Content-Type", TypeJSON)
		}
		return w.Result(), nil
	}
	c, err := New("https://h", Options{Token: "secret", Transport: transport(lead)})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/x": "", "/plain": "", "/other": "redirects to http://elsewhere, as a sign-in would: give an address of gpuwhy that needs no sign-in"} {
		err := c.Copy(t.Context(), io.Discard, Request{Path: path})
		advice := gpu.AsAdvice(err)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrForeign) || !strings.Contains(advice.Text(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for address, want := range map[string]string{"https://h/x": "Bearer secret", "https://h/plain": "Bearer secret", "http://h/leaked": "", "https://h/other": "Bearer secret"} {
		if token, asked := seen[address]; !asked || token != want {
			t.Errorf("%s got %q", address, token)
		}
	}
	if len(seen) != 4 {
		t.Errorf("asked %v", seen)
	}
}

// Requests are sent as intended: names in an address, lists, and bodies.
func TestRequests(t *testing.T) {
	t.Parallel()
	var asked []*http.Request
	c := ask(t, Options{Transport: replies(&asked, `{}`)})
	send := func(r Request) *http.Request {
		t.Helper()
		if err := c.Copy(t.Context(), io.Discard, r); err != nil {
			t.Fatal(err)
		}
		return asked[len(asked)-1]
	}
	if r := send(GetWhyOfOne("a/b c").Request); r.URL.String() != "http://h/api/gpu/why/a%2Fb%20c" {
		t.Errorf("asked %v", r.URL)
	}
	sessions := ListSessions(Span{From: "last night", GPU: []string{"0", ""}, Node: "n"}, "")
	if r := send(sessions.Request); r.URL.RawQuery != "from=last+night&gpu=0&gpu=&node=n" {
		t.Errorf("asked %v", r.URL)
	}
	if table := sessions.Table(); table.Query.Get("format") != "csv" || sessions.Query.Has("format") || table.Type != TypeCSV {
		t.Errorf("the table is %v, the list %v", table, sessions.Query)
	}
	r := send(SilenceAlert("a", "why", time.Hour).Request)
	var body SilenceSpan
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPost || body.Duration != 3600 || body.Comment != "why" {
		t.Errorf("%s %v: %+v, %v", r.Method, r.URL, body, err)
	}
}

// An answer with a status other than the operation's is an error: it is neither taken for an empty table nor for a completed change.
func TestStatusOfAnswers(t *testing.T) {
	t.Parallel()
	question, change := GetHistorySize().Request, EndSilence("a").Request
	table := ListCauses(Span{}).Table()
	for _, tt := range []struct {
		request Request
		status  int
		kind    string
		good    bool
	}{
		{question, http.StatusOK, "application/json; charset=utf-8", true},
		{question, http.StatusNoContent, "", false},
		{question, http.StatusCreated, TypeJSON, false},
		{question, http.StatusOK, TypeCSV, false},
		{table, http.StatusOK, TypeCSV, true},
		{table, http.StatusNoContent, "", false},
		{table, http.StatusPartialContent, TypeCSV, false},
		{change, http.StatusOK, TypeJSON, true},
		{change, http.StatusCreated, TypeJSON, true},
		{change, http.StatusNoContent, "", true},
		{change, http.StatusAccepted, TypeJSON, true}, // with ErrUnsaved
		{change, http.StatusAccepted, "", true},
		{change, http.StatusAccepted, "text/html", false},
		{question, http.StatusAccepted, TypeJSON, false},
		{change, http.StatusOK, "text/html", false},
	} {
		c := ask(t, Options{Transport: transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Type": {tt.kind}}, Body: http.NoBody}, nil
		})})
		err := c.Copy(t.Context(), io.Discard, tt.request)
		if unsaved := errors.Is(err, ErrUnsaved); unsaved {
			if tt.status != http.StatusAccepted || !tt.good {
				t.Errorf("%s %s is answered by %d %q: %v", tt.request.Method, tt.request.Path, tt.status, tt.kind, err)
			}
		} else if (err == nil) != tt.good || err != nil && !errors.Is(err, ErrForeign) {
			t.Errorf("%s %s is answered by %d %q: %v", tt.request.Method, tt.request.Path, tt.status, tt.kind, err)
		}
	}
}

// A redirected change, for example from http to https, is not made, and is an error.
func TestChangesAreNotLedElsewhere(t *testing.T) {
	t.Parallel()
	for status, asked := range map[int]string{
		http.StatusMovedPermanently: "redirects to https://h/api/silences and changes nothing", http.StatusFound: "and changes nothing", http.StatusSeeOther: "and changes nothing",
		http.StatusTemporaryRedirect: "", http.StatusPermanentRedirect: "",
	} {
		c := ask(t, Options{Flag: "--url", Transport: transport(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if r.URL.Scheme == "http" {
				http.Redirect(w, r, "https://h"+r.URL.Path, status)
				return w.Result(), nil
			}
			w.Header().Set("Content-Type", TypeJSON)
			fmt.Fprintf(w, `{"silence_id":%q}`, r.Method)
			return w.Result(), nil
		})})
		made, err := Do(t.Context(), c, SilenceAlerts(SilenceRequest{}))
		if asked == "" && (err != nil || made.ID != http.MethodPost) || asked != "" && (!errors.Is(err, ErrForeign) || !strings.Contains(fmt.Sprint(err), asked)) {
			t.Errorf("%d: %+v, %v", status, made, err)
		}
		if _, err := Do(t.Context(), c, GetSilences()); err != nil { // a query follows redirects
			t.Errorf("%d: %v", status, err)
		}
	}
}
