package now_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestPicture(t *testing.T) {
	st, h := servetest.Serving(t)
	if got := servetest.Get(h, "/picture.svg"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first reading: %d", got.Code)
	}
	st.Show(t, fixture.Server())
	first := fixture.Server().Devices[0]
	drawn := map[string]string{}
	for _, address := range []string{
		"/picture.svg", "/picture.svg?theme=light", "/picture.svg?theme=dark", "/picture.svg?gpu=0", "/picture.svg?gpu=" + first.UUID,
		"/picture.svg?gpu=0&theme=dark", "/node/" + first.Node + "/picture.svg?theme=light",
	} {
		w := servetest.Get(h, address)
		if drawn[address] = w.Body.String(); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/svg+xml" || !strings.HasPrefix(drawn[address], "<svg") {
			t.Errorf("%s: %d %s %.80s", address, w.Code, w.Header().Get("Content-Type"), drawn[address])
		}
	}
	for one, other := range map[string]string{
		"/picture.svg": "/picture.svg?theme=light", "/picture.svg?gpu=0": "/picture.svg?gpu=" + first.UUID,
		"/node/" + first.Node + "/picture.svg?theme=light": "/picture.svg",
	} {
		if drawn[one] != drawn[other] {
			t.Errorf("%s is another picture than %s", one, other)
		}
	}
	if drawn["/picture.svg?theme=dark"] == drawn["/picture.svg"] || drawn["/picture.svg?gpu=0"] == drawn["/picture.svg"] || drawn["/picture.svg?gpu=0&theme=dark"] == drawn["/picture.svg?gpu=0"] {
		t.Error("one picture is there for two")
	}
	for address, want := range map[string]int{
		"/picture.svg?theme=pink": http.StatusUnprocessableEntity,
		"/picture.svg?gpu=first":  http.StatusUnprocessableEntity,
		"/picture.svg?gpu=99":     http.StatusNotFound,
	} {
		if got := servetest.Get(h, address); got.Code != want || !strings.Contains(got.Body.String(), "detail") {
			t.Errorf("%s: %d %s, want %d", address, got.Code, got.Body, want)
		}
	}
}

// The pages that may embed a card may embed the picture, as an image and in a frame, and others may not.
func TestEmbeddedPicture(t *testing.T) {
	frames, err := auth.ParseFrames([]string{"https://wiki.example.org", "https://*.farm.example"})
	if err != nil {
		t.Fatal(err)
	}
	st, h := servetest.Serving(t, func(c *servetest.Rig) { c.AllowEmbed = frames })
	st.Show(t, fixture.Server())
	stNone, none := servetest.Serving(t)
	stNone.Show(t, fixture.Server())
	for _, tt := range []struct {
		named   bool
		referer string
		want    string
	}{
		{true, "https://wiki.example.org/", "cross-origin"},
		{true, "https://a.farm.example/page", "cross-origin"},
		{true, "https://farm.example/", "same-origin"},
		{true, "https://wiki.example.org.evil.example/", "same-origin"},
		{true, "https://evil.example/https://wiki.example.org/", "same-origin"},
		{true, "", "same-origin"},
		{false, "https://wiki.example.org/", "same-origin"},
	} {
		handler := none
		if tt.named {
			handler = h
		}
		w := servetest.Get(handler, "/picture.svg", "Referer: "+tt.referer)
		if got := w.Header().Get("Cross-Origin-Resource-Policy"); w.Code != http.StatusOK || got != tt.want {
			t.Errorf("%q: %d, %s", tt.referer, w.Code, got)
		}
		if framed := w.Header().Get("X-Frame-Options") == ""; framed != tt.named || framed != strings.HasSuffix(w.Header().Get("Content-Security-Policy"), "frame-ancestors https://wiki.example.org https://*.farm.example") {
			t.Errorf("%q: in frames %v, %s", tt.referer, framed, w.Header().Get("Content-Security-Policy"))
		}
		if slices.Contains(w.Header().Values("Vary"), "Referer") != tt.named {
			t.Errorf("%q: Vary is %v", tt.referer, w.Header().Values("Vary"))
		}
	}
	if got := servetest.Get(h, "/", "Referer: https://wiki.example.org/").Header().Get("Cross-Origin-Resource-Policy"); got != "same-origin" {
		t.Errorf("the page: %s", got)
	}
}
