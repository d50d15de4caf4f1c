package wire

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/schema.txt")

const schemaFile = "testdata/schema.txt"

// fields lists all fields below a type, by their places in a record, each with what it is.
func fields(t *testing.T, place string, typ reflect.Type) []string {
	t.Helper()
	line := func(what string) []string { return []string{place + " " + what} }
	switch typ {
	case reflect.TypeFor[time.Time]():
		return line("time")
	case reflect.TypeFor[time.Duration]():
		return line("duration")
	case reflect.TypeFor[error]():
		return line("error")
	case reflect.TypeFor[json.RawMessage]():
		return line("any")
	}
	if strings.HasPrefix(typ.String(), "gpu.Reading[") {
		return fields(t, place+"?", typ.Field(0).Type)
	}
	switch typ.Kind() {
	case reflect.Struct:
		var all []string
		for f := range typ.Fields() {
			if f.Tag.Get("record") != "-" { // it is not sent
				all = append(all, fields(t, place+"."+f.Name, f.Type)...)
			}
		}
		return all
	case reflect.Slice:
		return fields(t, place+"[]", typ.Elem())
	case reflect.Pointer:
		return fields(t, place, typ.Elem())
	case reflect.String:
		return line("text")
	case reflect.Float64:
		return line("number")
	case reflect.Int, reflect.Int64:
		return line("whole number")
	case reflect.Uint64:
		return line("count")
	case reflect.Bool:
		return line("truth")
	}
	t.Fatalf("%s is a %s, which no other version would know", place, typ)
	return nil
}

// Fields may be added. Removing or changing a field needs a new major version.
func TestFieldsAreOnlyAdded(t *testing.T) {
	now := fields(t, "", reflect.TypeFor[record]())
	slices.Sort(now)
	text, err := os.ReadFile(schemaFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	lines := strings.Split(rest, "\n")
	var major, minor int
	if _, err := fmt.Sscanf(first, "version %d.%d", &major, &minor); err != nil && !*update {
		t.Fatalf("%s does not begin with the version: %v", schemaFile, err)
	}
	var gone, added []string
	for _, line := range lines {
		if !slices.Contains(now, line) {
			gone = append(gone, line)
		}
	}
	for _, line := range now {
		if !slices.Contains(lines, line) {
			added = append(added, line)
		}
	}
	switch {
	case major == Spoken.Major && len(gone) > 0:
		t.Fatalf("fields went away or became something else, which needs a new major version (Spoken):\n%s", strings.Join(gone, "\n"))
	case major == Spoken.Major && len(added) > 0 && Spoken.Minor == minor:
		t.Fatalf("new fields need a new minor version (Spoken), and then -update:\n%s", strings.Join(added, "\n"))
	case *update:
		if err := os.WriteFile(schemaFile, []byte("version "+Spoken.String()+"\n"+strings.Join(now, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	case first != "version "+Spoken.String(), len(added) > 0:
		t.Fatalf("%s is of another version: go test ./internal/fleet/wire -run %s -update", schemaFile, t.Name())
	}
}
