package alert

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the tables of docs/alerts.md")

// The tables of docs/alerts.md are the rules and watches that there are.
func TestDocumentedRules(t *testing.T) {
	const name = "../../../docs/alerts.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for section, table := range map[string]string{"rules": rulesTable(), "watches": watchesTable()} {
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
		t.Errorf("%s is not up to date: go test ./internal/alerts/alert -update", name)
	}
}

func rulesTable() string {
	var b strings.Builder
	b.WriteString("| rule | fires when | for | over after | severity | enabled |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range Defaults() {
		s := watches[r.Watch]
		when := "`" + string(r.Watch) + "`"
		if !s.Condition {
			side := "above"
			if s.Below {
				side = "below"
			}
			when += " is " + side + " " + amount(r.Threshold, s.Unit)
		}
		if len(r.Codes) > 0 {
			when += ", of a program"
		}
		if len(r.IgnoreCodes) > 0 {
			when += ", not of a program"
		}
		enabled := "yes"
		if !r.Enabled {
			enabled = "no"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, when, short(r.Hold), short(r.Clear), r.Severity, enabled)
	}
	return b.String()
}

func watchesTable() string {
	var b strings.Builder
	b.WriteString("| watch | unit | an alert says |\n| --- | --- | --- |\n")
	for _, w := range Watches() {
		s := watches[w]
		text := telling{watch: s, rule: new(Rule), value: map[string]float64{"%": 97, "°C": 92, "W": 390, "MiB": 20480, "min": 24}[s.Unit]}
		says := text.reads
		if s.Counter {
			text.value, says = 2, text.howMany
		}
		subject := "GPU 0"
		switch s.About {
		case aSource:
			subject = "The driver"
		case aNode:
			subject = "The machine"
		}
		unit := s.Unit
		switch {
		case s.Condition:
			unit = "is so or not"
		case s.Counter:
			unit = "how many more"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s %s |\n", w, unit, subject, says())
	}
	return b.String()
}

// short is a time as the file of rules has it: "30s", "5m".
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return strings.Replace(text, "h0m", "h", 1)
}
