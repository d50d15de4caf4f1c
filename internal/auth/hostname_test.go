package auth

import (
	"strings"
	"testing"
)

func TestHostName(t *testing.T) {
	for text, want := range map[string]string{
		"gpu.example.org": "gpu.example.org", "GPU.Example.org.": "gpu.example.org", "gpu_1": "gpu_1", "192.0.2.7": "192.0.2.7", "2001:DB8:0::1": "2001:db8::1",
		"münchen.example": "xn--mnchen-3ya.example", "MÜNCHEN.example": "xn--mnchen-3ya.example", "例え.テスト": "xn--r8jz45g.xn--zckzah", "xn--mnchen-3ya.example": "xn--mnchen-3ya.example",
		`"gpu.example"`: "", "'gpu'": "", "“gpu”": "", "gpu.example\r": "", "a.example b.example": "", "a,b": "", "a;b": "", "": "", ".": "", "a..b": "", "-a": "", "a-": "",
		"gpu\x00": "", "a/b": "", "u@h": "", "a:b": "", "gpu[0-9].example": "", strings.Repeat("a", 64): "", strings.Repeat("a.", 130) + "a": "", "0x7f.1": "", "999.1.1.1": "", "010.0.0.1": "", "7": "", "gpu7": "gpu7", "\u202egpu": "",
	} {
		got, err := HostName(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q (%v), want %q", text, got, err, want)
		}
	}
}

// An origin with a name in other letters is compared as browsers send it.
func TestOriginsInOtherLetters(t *testing.T) {
	origins, err := ParseOrigins([]string{"https://münchen.example:8443", "https://*.münchen.example"})
	if err != nil || !origins.Allow("https://xn--mnchen-3ya.example:8443") || !origins.Allow("https://a.xn--mnchen-3ya.example") {
		t.Errorf("%v, %v", origins, err)
	}
	frames, err := ParseFrames([]string{"https://*.münchen.example"})
	if err != nil || len(frames) != 1 || frames[0] != "https://*.xn--mnchen-3ya.example" {
		t.Errorf("%v, %v", frames, err)
	}
	for _, origin := range []string{`"https://a.example"`, "https://a.example\r", "https://a.example https://b.example", "https://a b", "https://“a”"} {
		if got, err := ParseOrigins([]string{origin}); err == nil {
			t.Errorf("%q is taken as %q", origin, got)
		}
	}
}
