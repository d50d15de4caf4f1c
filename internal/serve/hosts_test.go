package serve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/servetest"
)

func TestHosts(t *testing.T) {
	var (
		loopback = []string{"localhost", "localhost:8003", "LOCALHOST", "localhost.", "app.localhost:1", "127.0.0.1", "127.0.0.1:8003", "127.8.9.1", "[::1]", "[::1]:8003", "[::ffff:127.0.0.1]:8003"}
		foreign  = []string{"evil.example", "evil.example:8003", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", ".localhost", "2130706433", "0x7f.1", "127.1", "[::1", "a b", "", ":8003", "éxample"}
		ours     = []string{"192.168.1.5", "192.168.1.5:8003", "10.0.0.1", "[fd00::5]:8003", "0.0.0.0"}
		hostname = []string{"GPUbox", "gpubox:8003", "gpubox.local"}
		allowed  = []string{"gpu.example.org", "GPU.example.org:443", "a.farm.example", "a.b.farm.example:80", "203.0.113.9:80", "[2001:db8::1]"}
	)
	for _, tt := range []struct {
		listen  string
		allow   []string
		yes, no [][]string
	}{
		{"127.0.0.1:8003", nil, [][]string{loopback}, [][]string{foreign, ours, hostname, allowed}},
		{"localhost:0", nil, [][]string{loopback}, [][]string{foreign, ours, hostname, allowed}},
		{":8003", nil, [][]string{loopback, ours, hostname}, [][]string{foreign, {"gpu.example.org", "gpubox.example.org"}}},
		{"0.0.0.0:8003", nil, [][]string{loopback, ours, hostname}, [][]string{foreign}},
		{"[::]:8003", nil, [][]string{loopback, ours, hostname}, [][]string{foreign}},
		{"192.168.1.5:8003", nil, [][]string{loopback, {"192.168.1.5:8003", "[::ffff:192.168.1.5]:8003"}}, [][]string{foreign, {"10.0.0.1"}, hostname}},
		{"[fd00:0::5]:8003", nil, [][]string{loopback, {"[fd00::5]:8003"}}, [][]string{foreign, {"[fd00::6]"}}},
		{"gpubox:8003", nil, [][]string{loopback, {"gpubox:8003"}}, [][]string{foreign, ours}},
		{
			"127.0.0.1:8003", []string{"gpu.example.org", "*.farm.example", "203.0.113.9", "2001:db8:0::1"},
			[][]string{loopback, allowed}, [][]string{foreign, {"farm.example", "sub.gpu.example.org", "evilfarm.example", "203.0.113.8"}},
		},
		{"127.0.0.1:8003", []string{"münchen.example", "*.Bücher.example", "GPU.example:8003", "[2001:db8::1]:80"},
			[][]string{loopback, {"xn--mnchen-3ya.example:8003", "a.xn--bcher-kva.example", "gpu.example", "[2001:db8::1]"}}, [][]string{foreign, {"xn--bcher-kva.example"}}},
	} {
		_, h := servetest.Serving(t, func(c *servetest.Rig) { c.Listen, c.Hostname, c.AllowHosts = tt.listen, "GPUbox", tt.allow })
		for _, hosts := range tt.yes {
			for _, host := range hosts {
				if w := servetest.Get(h, "/api/gpu/devices", "Host: "+host); w.Code != 200 {
					t.Errorf("listening on %s: %q is refused with %d", tt.listen, host, w.Code)
				}
			}
		}
		for _, hosts := range tt.no {
			for _, host := range hosts {
				if w := servetest.Get(h, "/api/gpu/devices", "Host: "+host); w.Code != http.StatusMisdirectedRequest {
					t.Errorf("listening on %s: %q is answered with %d", tt.listen, host, w.Code)
				}
			}
		}
	}
}

// A name that no request can have is refused, with what to write.
func TestNoHosts(t *testing.T) {
	for entry, says := range map[string]string{
		`"gpu.example"`: "leave the quotes out", "'gpu.example'": "leave the quotes out", "a.example b.example": "give each name separately", "a.example;b.example": "give each name separately",
		"gpu.example\r": "letters, digits, dashes and dots", "http://gpu.example": "letters, digits", "gpu[0-9].example": "letters, digits", "*": "letters", "*.": "empty", "": "empty",
		"gpu.*.example": "letters", "gpu:http": "letters",
	} {
		if got, err := serve.ParseHosts([]string{entry}); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--allow-host") {
			t.Errorf("%q: %v, %v", entry, got, err)
		}
	}
}

// Every route is behind the check, and the answer says what to do.
func TestForeignHost(t *testing.T) {
	_, h := servetest.Serving(t)
	for _, path := range []string{"/", "/ws", "/gpu/metrics", "/static/icon.svg", "/health/live", "/nothing"} {
		detail := servetest.IsProblem(t, servetest.Get(h, path, "Host: evil.example:8003"), http.StatusMisdirectedRequest)
		if !strings.Contains(detail, `"evil.example"`) || !strings.Contains(detail, "--allow-host") {
			t.Errorf("%s: %q names neither the host nor the flag", path, detail)
		}
	}
}
