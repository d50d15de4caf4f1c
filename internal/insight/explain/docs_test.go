package explain

import (
	"os"
	"regexp"
	"testing"
)

// docs/why.md has every kind, and no others.
func TestEveryKindIsDocumented(t *testing.T) {
	kinds := []Kind{WarmAir, OtherFan, NoDevice, SourceFailed, Note, Starting, NoMachine, CPUWork, CPUCooling, CPUHeat, HotSensor, MachineFan, NoFanShown, MachineAtRest}
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
