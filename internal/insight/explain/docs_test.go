package explain

import (
	"os"
	"regexp"
	"testing"
)

// docs/why.md has every kind, and none that there is not.
func TestEveryKindIsDocumented(t *testing.T) {
	kinds := []Kind{WarmAir, OtherFan, NoDevice, SourceFailed, Note, Starting, CPUWork, CPUCooling, CPUHeat, HotSensor, MachineFan, NoFanShown, MachineAtRest}
	for _, state := range absences {
		kinds = append(kinds, Kind(state))
	}
	for _, r := range rules {
		kinds = append(kinds, r.kind)
	}
	text, err := os.ReadFile("../../../docs/why.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[Kind]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z_`, ]+`) \\|").FindAllSubmatch(text, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(row[1], -1) {
			documented[Kind(name[1])] = true
		}
	}
	for _, c := range []Confidence{High, Medium, Low} {
		delete(documented, Kind(c.String())) // of the other table
	}
	for _, kind := range kinds {
		if !documented[kind] {
			t.Errorf("%s is not in docs/why.md", kind)
		}
	}
	for _, kind := range kinds { // some rules have two places
		delete(documented, kind)
	}
	for kind := range documented {
		t.Errorf("docs/why.md has %s, which no rule finds", kind)
	}
}

// words.json has words for each kind that a device can have, and for no other.
func TestWords(t *testing.T) {
	all := wordings()
	kinds := map[Kind]bool{}
	for _, state := range absences {
		kinds[Kind(state)] = true
	}
	for _, r := range rules {
		kinds[r.kind] = true
		if all[r.kind] == nil {
			t.Errorf("%s has no words", r.kind)
		}
	}
	if len(all) != len(kinds) {
		t.Errorf("there are words of %d kinds, want %d", len(all), len(kinds))
	}
	for kind, cases := range all {
		for name, w := range cases {
			if (w.Clause == "") != (name == "*") || !regexp.MustCompile(`^[^{}]*$`).MatchString(w.Clause) {
				t.Errorf("%s, %s: the clause is %q", kind, name, w.Clause)
			}
			if !regexp.MustCompile(`^([A-Z].+\.)?$`).MatchString(w.Advice) {
				t.Errorf("%s, %s: the advice is %q", kind, name, w.Advice)
			}
		}
	}
}
