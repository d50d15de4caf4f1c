package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A recorded URL is a form of address, and the requests that a message to it
// makes. They were recorded from shoutrrr v0.13.2, which gpuwhy used before;
// "changed" says where gpuwhy differs on purpose.
type recordedURL struct {
	URL      string            `json:"url"`
	Refused  bool              `json:"refused,omitempty"`
	Changed  string            `json:"changed,omitempty"`
	Requests []recordedRequest `json:"requests,omitempty"`
}

type recordedRequest struct {
	Method string            `json:"method"`
	URL    string            `json:"url"`
	Header map[string]string `json:"header,omitempty"`
	Body   string            `json:"body,omitempty"`
}

// A recorder is a transport that keeps requests and answers as services do.
type recorder struct{ got []recordedRequest }

func (r *recorder) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	var header map[string]string
	for name, values := range q.Header {
		if name != "User-Agent" {
			if header == nil {
				header = map[string]string{}
			}
			header[name] = strings.Join(values, "|")
		}
	}
	target := *q.URL
	target.User = nil
	r.got = append(r.got, recordedRequest{q.Method, target.String(), header, string(body)})
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answerOf(&target))), Request: q}, nil
}

func answerOf(u *url.URL) string {
	switch {
	case u.Host == "hooks.slack.com":
		return "ok"
	case strings.HasSuffix(u.Path, "/joined_rooms"):
		return `{"joined_rooms":["!one:x","!two:x"]}`
	case strings.HasSuffix(u.Path, "/login"):
		return `{"flows":[{"type":"m.login.sso"},{"type":"m.login.password"}],"access_token":"tok en"}`
	case strings.Contains(u.Path, "/join/"):
		return `{"room_id":"!room:x"}`
	}
	return `{"ok":true,"result":{},"code":0,"errcode":0}`
}

func recorded(t testing.TB) (all []recordedURL) {
	t.Helper()
	text, err := os.ReadFile("testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever a URL is: looking at it ends, and says nothing of it.
func FuzzURL(f *testing.F) {
	for _, r := range recorded(f) {
		f.Add(r.URL)
	}
	f.Add("smtp://user:password@mail.example.org:587/?from=gpus@example.org&to=ops@example.org,night@example.org&auth=plain&encryption=auto&timeout=1s")
	f.Fuzz(func(t *testing.T, text string) {
		s := Secret(text)
		service := serviceOf(s)
		if service.escape == nil || service.most == 0 {
			t.Errorf("%q has the service %+v", text, service)
		}
		if s.usable() != nil {
			return
		}
		if got := scrub(s, "it says "+text); len(text) > 40 && strings.Contains(got, text) {
			t.Errorf("%q is in %q", text, got)
		}
		if s.scheme() == "smtp" {
			return // it would look for the server
		}
		if err := (courier{&http.Client{Transport: &recorder{}}}).send(t.Context(), s, letter{"title", "text", ""}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// Each form of address makes the requests that it made through shoutrrr.
func TestRequests(t *testing.T) {
	seen := map[string]bool{"smtp": true}
	for _, want := range recorded(t) {
		s := Secret(want.URL)
		seen[s.scheme()] = true
		rec := &recorder{}
		err := s.usable()
		if len(rec.got) > 0 {
			t.Errorf("%s: looking at the address asked %v", want.URL, rec.got)
		}
		if want.Refused {
			if err == nil {
				t.Errorf("%s is taken", want.URL)
			}
			continue
		}
		if err == nil {
			err = (courier{&http.Client{Transport: rec}}).send(t.Context(), s, letter{"GPU 0 ist <zu> heiß", "It is hot & *bold*.\n\nVery <hot>.", ""})
		}
		if err != nil {
			t.Errorf("%s: %v", want.URL, err)
			continue
		}
		if diff := cmp.Diff(want.Requests, rec.got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Body" }, cmp.Comparer(sameBody))); diff != "" {
			t.Errorf("%s:\n%s", want.URL, diff)
		}
	}
	for name := range services {
		if !seen[name] {
			t.Errorf("no address of %s is recorded", name)
		}
	}
}

// Lark's requests are signed with the time.
func TestSignature(t *testing.T) {
	rec := &recorder{}
	if err := (courier{&http.Client{Transport: rec}}).send(t.Context(), "lark://open.larksuite.com/TOKEN?secret=abc", letter{"a", "b", ""}); err != nil {
		t.Fatal(err)
	}
	var got struct{ Timestamp, Sign string }
	if err := json.Unmarshal([]byte(rec.got[0].Body), &got); err != nil {
		t.Fatal(err)
	}
	sign := hmac.New(sha256.New, []byte(got.Timestamp+"\nabc")).Sum(nil)
	if got.Timestamp == "" || got.Sign != base64.StdEncoding.EncodeToString(sign) {
		t.Errorf("%+v", got)
	}
}

// sameBody compares JSON by what it says, and anything else by its text.
func sameBody(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return a == b
	}
	return cmp.Equal(x, y)
}
