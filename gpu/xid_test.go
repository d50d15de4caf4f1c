package gpu

import (
	"regexp"
	"testing"
)

// Each code that is known says what it means and what to do.
func TestXIDs(t *testing.T) {
	codes := 0
	for _, group := range xidGroups() {
		for code := range group.Codes {
			codes++
			what, try := XID{Code: code}.Meaning()
			if !regexp.MustCompile(`^[^.]+[^.]$`).MatchString(what) || !regexp.MustCompile(`^[A-Z].+\.$`).MatchString(try) {
				t.Errorf("%d: %q, %q", code, what, try)
			}
		}
	}
	if codes < 30 {
		t.Errorf("%d codes are known", codes)
	}
	if what, try := (XID{Code: 7}).Meaning(); what != "" || try != "" {
		t.Errorf("an unknown code is %q, %q", what, try)
	}
}
