package notify

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// part is what stands between two marks of the document.
func part(t *testing.T, name string) string {
	t.Helper()
	_, rest, begins := strings.Cut(document(t), "<!-- "+name+" -->")
	text, _, ends := strings.Cut(rest, "<!-- /"+name+" -->")
	if !begins || !ends {
		t.Fatalf("the document has no part %q", name)
	}
	return text
}

// The addresses in the document are understood by their services.
func TestDocumentedAddresses(t *testing.T) {
	found := 0
	for _, m := range regexp.MustCompile("`([a-z]+://[^`]+)`").FindAllStringSubmatch(part(t, "services"), -1) {
		if strings.HasPrefix(m[1], "https://") {
			continue
		}
		found++
		if err := Secret(m[1]).usable(); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	if found < 19 {
		t.Errorf("%d addresses were found", found)
	}
}

// Who names a service that is gone is told an address that is understood.
func TestReplacedServices(t *testing.T) {
	text := part(t, "replaced")
	for name, instead := range replaced {
		err := (&Config{Targets: []Target{{Name: "a", URL: Secret(name + "://SECRET@example.org/")}}}).Resolve()
		if err == nil || !strings.Contains(err.Error(), instead) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
		address := regexp.MustCompile(`[a-z]+://\S+`).FindString(instead)
		if err := Secret(address).usable(); err != nil {
			t.Errorf("in place of %s: %s: %v", name, address, err)
		}
		if !strings.Contains(text, "`"+name+"://") || !strings.Contains(text, "`"+address+"`") {
			t.Errorf("the document does not say that %s is in place of %s", address, name)
		}
	}
}

// The document's example is good.
func TestDocumentedFile(t *testing.T) {
	_, rest, _ := strings.Cut(document(t), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the document has no example")
	}
	c := load(t, text)
	if _, err := c.templates(); err != nil {
		t.Error(err)
	}
}

// What templates can see is in the document, and nothing else is.
func TestDocumentedFields(t *testing.T) {
	for name, typ := range map[string]reflect.Type{"fields": reflect.TypeFor[Message](), "event": reflect.TypeFor[Event]()} {
		var actual, says []string
		for field := range typ.Fields() {
			actual = append(actual, field.Name)
		}
		for method := range typ.Methods() {
			actual = append(actual, method.Name)
		}
		for row := range strings.Lines(part(t, name)) {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
			for _, m := range regexp.MustCompile("`\\.(\\w+)`").FindAllStringSubmatch(first, -1) {
				says = append(says, m[1])
			}
		}
		slices.Sort(actual)
		slices.Sort(says)
		if !slices.Equal(actual, says) {
			t.Errorf("templates see %v, the document has %v", actual, says)
		}
	}
}
