package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/fixture"
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
