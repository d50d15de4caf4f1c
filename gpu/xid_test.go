package gpu

import (
	"regexp"
	"testing"
	"time"
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
	lost := func(codes ...int) string {
		at := time.Now()
		d := Device{State: StateOK}
		d.Health.XIDs = Of([]XID{})
		for i, code := range codes {
			d.Health.XIDs = Of(append(d.Health.XIDs.Or(nil), XID{Code: code, Last: at.Add(time.Duration(i) * time.Second)}))
		}
		d.Enter(StateLost, at.Add(time.Minute), Advice{What: "gone"})
		return d.Reason.What
	}
	for want, codes := range map[string][]int{"gone": {31, 45}, "XID 79: the GPU has fallen off the bus": {79, 45, 154, 7}, "XID 119: the GPU's system processor did not answer": {31, 119}} {
		if got := lost(codes...); got != want {
			t.Errorf("after %v it is lost because %q, want %q", codes, got, want)
		}
	}
	if codes < 30 {
		t.Errorf("%d codes are known", codes)
	}
	if what, try := (XID{Code: 7}).Meaning(); what != "" || try != "" {
		t.Errorf("an unknown code is %q, %q", what, try)
	}
}
