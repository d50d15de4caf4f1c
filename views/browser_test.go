package views

import "testing"

func TestBrowser(t *testing.T) {
	for agent, want := range map[string]string{
		"": "", "curl/8.14.1": "curl", "Go-http-client/1.1": "Go-http-client/1.1", "<b>x</b>": "<b>x</b>",
		"Mozilla/5.0 (X11; Linux x86_64; rv:152.0) Gecko/20100101 Firefox/152.0":                                                           "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/151.0.0.0 Safari/537.36 Edg/151.0.0.0":    "Edge on Windows",
		"Mozilla/5.0 (Linux; Android 16; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/151.0.0.0 Mobile Safari/537.36":            "Chrome on Android",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Mobile Safari/604.1": "Safari on iPhone",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.1 Safari/605.1.15":            "Safari on macOS",
	} {
		if got := Browser(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}
