package serve

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestPicture(t *testing.T) {
	st, h := serving(t)
	if got := get(h, "/picture.svg"); got.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first reading: %d", got.Code)
	}
	st.show(t, fixture.Server())
	first := fixture.Server().Devices[0]
	for address, want := range map[string]string{
		"/picture.svg":                                     "<svg></svg>",
		"/picture.svg?gpu=0&theme=dark":                    "<svg>gpu=" + first.UUID + "&theme=dark</svg>",
		"/picture.svg?gpu=" + first.UUID:                   "<svg>gpu=" + first.UUID + "</svg>",
		"/node/" + first.Node + "/picture.svg?theme=light": "<svg>" + first.Node + "theme=light</svg>",
	} {
		got := get(h, address)
		if got.Code != http.StatusOK || got.Body.String() != want || got.Header().Get("Content-Type") != typeSVG {
			t.Errorf("%s: %d %s %s, want %s", address, got.Code, got.Header().Get("Content-Type"), got.Body, want)
		}
	}
	for address, want := range map[string]int{
		"/picture.svg?theme=pink": http.StatusUnprocessableEntity,
		"/picture.svg?gpu=first":  http.StatusUnprocessableEntity,
		"/picture.svg?gpu=99":     http.StatusNotFound,
	} {
		if got := get(h, address); got.Code != want || !strings.Contains(got.Body.String(), "detail") {
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
	st, h := serving(t, func(c *Config) { c.AllowEmbed = frames })
	st.show(t, fixture.Server())
	stNone, none := serving(t)
	stNone.show(t, fixture.Server())
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
		of := none
		if tt.named {
			of = h
		}
		w := get(of, "/picture.svg", "Referer: "+tt.referer)
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
	if got := get(h, "/", "Referer: https://wiki.example.org/").Header().Get("Cross-Origin-Resource-Policy"); got != "same-origin" {
		t.Errorf("the page: %s", got)
	}
}
