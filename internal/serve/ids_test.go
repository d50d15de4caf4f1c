package serve_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

func TestIDs(t *testing.T) {
	st, h := servetest.Serving(t)
	snap := fixture.Server()
	snap.Devices = append(snap.Devices, fixture.Partitioned().Devices...)
	snap.Devices[8].Index = 8
	snap.Devices = append(snap.Devices, gpu.Device{Identity: gpu.Identity{Index: 12, UUID: "amd-0000:03:00.0"}, State: gpu.StateLost})
	st.Show(t, snap)
	for _, tt := range []struct {
		id     string
		status int
		index  int
	}{
		{"0", 200, 0},
		{"7", 200, 7},
		{"12", 200, 12}, // lost, and still there
		{"GPU-800c0de0-0000-4000-8000-000000000001", 200, 1},
		{"gpu-800C0DE0-0000-4000-8000-000000000001", 200, 1},
		{"amd-0000:03:00.0", 200, 12},

		{"9", 404, 0},
		{"-1", 404, 0},
		{"-0", 404, 0},
		{"00", 404, 0},
		{"007", 404, 0},
		{strings.Repeat("9", 30), 404, 0},
		{strings.Repeat("9", 5000), 404, 0},
		{"-" + strings.Repeat("9", 30), 404, 0},
		{"GPU-00000000-0000-4000-8000-000000000000", 404, 0},
		{"5c8f0e9b-0000-4000-8000-000000000000", 404, 0},
		{"MIG-a100c0de-0000-5000-8000-000000000007", 404, 0},
		{"nvml-index-3", 404, 0}, // of a device that was never heard of
		{"MIG-GPU-5c8f0e9b-0000-4000-8000-000000000000/7/0", 404, 0},

		{"zero", 422, 0},
		{"hello-world", 422, 0},
		{"hello-world-1-of-2", 422, 0},
		{"dead-beef", 422, 0}, // words: a UUID has a digit
		{"cafe", 422, 0},
		{"5c8f0e9b", 422, 0},
		{"GPU-1--2", 422, 0},
		{"null", 422, 0},
		{"NaN", 422, 0},
		{"GPU-", 422, 0},
		{"GPU", 422, 0},
		{"-", 422, 0},
		{"+1", 422, 0},
		{"1.0", 422, 0},
		{"0x1", 422, 0},
		{"1e3", 422, 0},
		{" 1", 422, 0},
		{"1\n", 422, 0},
		{"١", 422, 0}, // an Arabic one
		{"GPU-\xff\xfe", 422, 0},
		{"\x00", 422, 0},
		{"<script>", 422, 0},
		{"a/b", 422, 0},
		{"../../0", 422, 0},
		{"%30", 422, 0}, // "0" encoded twice
		{"GPU-" + strings.Repeat("a", 125), 422, 0},
	} {
		for _, path := range []string{"/gpu/metrics/", "/api/gpu/metrics/", "/api/gpu/why/", "/api/gpu/recent?gpu=", "/gpu/"} {
			escaped := url.PathEscape(tt.id)
			if strings.Contains(path, "?") {
				escaped = url.QueryEscape(tt.id)
			}
			w := servetest.Get(h, path+escaped)
			switch {
			case path == "/gpu/" && w.Code == http.StatusTemporaryRedirect && tt.status == 200: // to the page by UUID
			case w.Code != tt.status:
				t.Errorf("%s%q: status %d, want %d: %s", path, tt.id, w.Code, tt.status, w.Body)
			case tt.status == 200 && (path == "/gpu/" || strings.Contains(path, "?")): // the page; a list
			case tt.status == 200:
				if got := servetest.Decode[map[string]any](t, w)["gpu_id"]; got != float64(tt.index) {
					t.Errorf("%q is GPU %v, want %d", tt.id, got, tt.index)
				}
			default:
				if detail := servetest.IsProblem(t, w, tt.status); len(detail) > 400 {
					t.Errorf("%.20q…: the detail has %d bytes", tt.id, len(detail))
				}
			}
		}
	}
	if got, want := servetest.IsProblem(t, servetest.Get(h, "/gpu/metrics/MIG-a100c0de-0000-5000-8000-000000000007"), 404), "this is a MIG instance: request its GPU, GPU-a100c0de-0000-4000-8000-000000000001"; !strings.Contains(got, want) {
		t.Errorf("of an instance: %q, want %q in it", got, want)
	}
	if w := servetest.Get(h, "/gpu/metrics/%31"); w.Code != 200 {
		t.Errorf("an encoded 1 gives status %d", w.Code)
	}
	if w := servetest.Get(h, "/gpu/metrics/1/"); w.Code != 404 {
		t.Errorf("a path below an id gives status %d", w.Code)
	}
}
