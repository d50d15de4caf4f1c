package apidoc_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/apidoc"
)

// The socket's tables say what docs/protocol.md says.
func TestFactsAreThoseOfTheProtocol(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|`)
	stated := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(strings.ReplaceAll(string(text), "`", ""), -1) {
		stated[m[1]] = m[2]
	}
	for _, facts := range [][]apidoc.Fact{apidoc.Limits, apidoc.CloseCodes} {
		for _, f := range facts {
			if stated[f.Name] != f.Meaning {
				t.Errorf("%s: %q, docs/protocol.md has %q", f.Name, f.Meaning, stated[f.Name])
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
	text, err := apidoc.YAML([]byte(`{"z":{"b":null,"a":["yes",1.5,"1"]},"y":"two\nlines"}`))
	if want := "z:\n  b: null\n  a:\n    - \"yes\"\n    - 1.5\n    - \"1\"\n\"y\": |-\n  two\n  lines\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := apidoc.YAML([]byte("{")); err == nil {
		t.Error("what is no JSON is written as YAML")
	}
}
