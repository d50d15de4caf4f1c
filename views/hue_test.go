//go:build !race

package views

import "testing"

func TestHueOf(t *testing.T) {
	for user, want := range map[string]bool{"root": true, "svc-llm": true, "systemd-resolve": true, "_apt": true, "": true, "ann": false, "svetlana": false} {
		if got := hueOf(user) == "p6"; got != want {
			t.Errorf("hueOf(%q) = %s", user, hueOf(user))
		}
	}
	seen := map[string]int{}
	for _, user := range []string{"ann", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan", "judy", "mallory", "niaj", "olivia", "peggy", "rupert", "sybil"} {
		seen[hueOf(user)]++
	}
	if len(seen) != 4 || seen[culprit] > 0 {
		t.Errorf("the hues of people are %v, want p2 to p5", seen)
	}
}
