package gpu

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each known code has a meaning and says what to do.
func TestXIDs(t *testing.T) {
	codes := 0
	for _, group := range xidGroups() {
		for code := range group.Codes {
			codes++
			what, try := XID{Code: code}.Meaning()
			severity := XID{Code: code}.Severity()
			if !slices.Contains([]Severity{SeverityInformation, SeverityWarning, SeverityError, SeverityCritical}, severity) {
				t.Errorf("%d: severity %q", code, severity)
			}
			if !regexp.MustCompile(`^[^.]+[^.]$`).MatchString(what) || !regexp.MustCompile(`^[A-Z].+\.$`).MatchString(try) {
				t.Errorf("%d: %q, %q", code, what, try)
			}
		}
	}
	lost := func(codes ...int) string {
		now := time.Now()
		d := Device{State: StateOK}
		d.Health.XIDs = Of([]XID{})
		for i, code := range codes {
			d.Health.XIDs = Of(append(d.Health.XIDs.Or(nil), XID{Code: code, Last: now.Add(time.Duration(i) * time.Second)}))
		}
		d.Enter(StateLost, now.Add(time.Minute), Advice{What: "gone"})
		return d.Reason.What
	}
	for want, codes := range map[string][]int{"gone": {31, 45}, "XID 79: the GPU has fallen off the bus": {79, 45, 154, 7}, "XID 119: the GPU's system processor did not answer": {31, 119}} {
		if got := lost(codes...); got != want {
			t.Errorf("after %v it is lost because %q, want %q", codes, got, want)
		}
	}
	for _, k := range []FaultKind{
		FaultEngineHang, FaultEngineReset, FaultDeviceReset, FaultResetFailed, FaultWedged, FaultPage, FaultMemory, FaultOffBus,
	} {
		if what, try := k.Meaning(); what == "" || try == "" || k.Severity() == "" {
			t.Errorf("%s: %q, %q, %q", k, what, try, k.Severity())
		}
	}
	if codes < 30 {
		t.Errorf("%d codes are known", codes)
	}
	if x := (XID{Code: 7}); x.Severity() != "" {
		t.Errorf("an unknown code has the severity %q", x.Severity())
	}
	if what, try := (XID{Code: 7}).Meaning(); what != "" || try != "" {
		t.Errorf("an unknown code is %q, %q", what, try)
	}
}

var update = flag.Bool("update", false, "write the tables of docs/errors.md")

// The tables in docs/errors.md match xid.json and fault.json.
func TestDocumentedErrors(t *testing.T) {
	const name = "../docs/errors.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for section, table := range map[string]string{"xids": documented(xidGroups()), "faults": documented(faultGroups())} {
		begin, end := "<!-- "+section+" -->\n", "<!-- /"+section+" -->"
		before, rest, ok := strings.Cut(got, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for the %s", name, section)
		}
		got = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("%s is not up to date: go test ./gpu -update", name)
	}
}

func documented[K cmp.Ordered](groups []known[K]) string {
	var b strings.Builder
	b.WriteString("| code | severity | what it is | what to do |\n| --- | --- | --- | --- |\n")
	rows := map[K]string{}
	for _, g := range groups {
		for code, what := range g.Codes {
			rows[code] = fmt.Sprintf("| `%v` | %s | %s | %s |\n", code, g.Severity, what, g.Try)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[code])
	}
	return b.String()
}
