package apidoc_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// The socket's tables say what docs/protocol.md says.
func TestFactsAreThoseOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|`)
	stated := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(strings.ReplaceAll(string(text), "`", ""), -1) {
		stated[m[1]] = m[2]
	}
	socket := apidoc.AsyncAPI("", "")
	for _, facts := range [][]apidoc.Fact{socket.Limits, socket.CloseCodes} {
		if len(facts) == 0 {
			t.Error("a table of the socket is empty")
		}
		for _, f := range facts {
			if stated[f.Name] != f.Meaning {
				t.Errorf("%s: %q, docs/protocol.md has %q", f.Name, f.Meaning, stated[f.Name])
			}
		}
	}
}

// how are the arguments of an action.
type how struct {
	Hard bool `json:"hard" help:"How it is done."`
}

// Each message of events.json, and each that asks for an action, is described, and has its data and its answers.
func TestEvents(t *testing.T) {
	doc := apidoc.AsyncAPI("", "", &apidoc.Event{
		Name: "act", Summary: "Do it", Description: "It is done.", Reply: []string{apidoc.Done, "error"}, Target: new(apidoc.InPath("node", "Name of the machine.", "a")),
		Args: how{},
	})
	names := map[string]bool{}
	for _, e := range doc.Events {
		names[e.Name] = true
	}
	if len(names) != 11 {
		t.Errorf("there are %d events, want 11: %v", len(names), names)
	}
	for _, e := range doc.Events {
		withoutData := e.Name == apidoc.Done || e.Name == "unsubscribe"
		if e.Summary == "" || e.Description == "" || (e.Data == nil) != withoutData || e.Sent != (e.Reply == nil) {
			t.Errorf("%s is not described well: %+v", e.Name, e)
		}
		for _, name := range e.Reply {
			if !names[name] {
				t.Errorf("%s is answered with %s, which there is not", e.Name, name)
			}
		}
	}
}

// An order of members survives JSON and YAML.
func TestOrder(t *testing.T) {
	members := apidoc.Members[int]{{Name: "z", Value: 1}, {Name: "a", Value: 2}, {Name: `"`, Value: 3}}
	encoded, err := json.Marshal(members)
	if err != nil || string(encoded) != `{"z":1,"a":2,"\"":3}` {
		t.Errorf("%s, %v", encoded, err)
	}
	text, err := apidoc.YAML(json.RawMessage(`{"z":{"b":null,"a":["yes",1.5,"1"]},"y":"two\nlines"}`))
	if want := "z:\n  b: null\n  a:\n    - \"yes\"\n    - 1.5\n    - \"1\"\n\"y\": |-\n  two\n  lines\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := apidoc.YAML(json.RawMessage("{")); err == nil {
		t.Error("what is no JSON is written as YAML")
	}
}

// What a reader of YAML 1.1 takes for a number, a date or a truth value is
// quoted where it is text, as a value and as a name.
func TestOldReadersOfYAML(t *testing.T) {
	for text, quoted := range map[string]bool{
		"0000:01:00.0": true, "1:30": true, "-190:20:30": true, "00000000:65:00.0": true, // to the base 60
		"007": true, "0o7": true, "0x1f": true, "0b1": true, "1_000": true, "+12": true, "1e3": true, ".5": true, "-.5": true, "1.": true,
		"2026-11-21": true, "2026-11-21T00:00:00Z": true, "2026-11-21 0:00:00": true,
		"y": true, "No": true, "ON": true, "off": true, "True": true, "null": true, "~": true, "": true, ".inf": true, "-.INF": true, ".NaN": true, "=": true, "<<": true,
		"gpu-0": false, "GPU-5c8f0e9b": false, "Of the die.": false, "Null if not reported.": false, "nobody": false, "v1.2": false,
	} {
		name, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := apidoc.YAML(json.RawMessage(fmt.Sprintf(`{%s:%s}`, name, name)))
		want := fmt.Sprintf("%s: %[1]s\n", text)
		if quoted {
			want = fmt.Sprintf("%q: %[1]q\n", text)
		}
		if err != nil || string(got) != want {
			t.Errorf("%q is written as %q, %v", text, got, err)
		}
	}
	if got, err := apidoc.YAML(json.RawMessage(`{"a":[7,1.5,true,null]}`)); err != nil || string(got) != "a:\n  - 7\n  - 1.5\n  - true\n  - null\n" {
		t.Errorf("what is no text: %q, %v", got, err)
	}
}
