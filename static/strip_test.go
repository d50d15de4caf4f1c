package static

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"testing"
)

func TestStrip(t *testing.T) {
	for source, want := range map[string]string{
		"// @ts-check\n\n/** @param {number} a */\nf(a);\n":                        "\n\n\nf(a);\n",
		"/**\n * Long.\n * @returns {string}\n */\n  const a = \"/x\"; // why\n":   "\n\n\n\nconst a = \"/x\"; // why\n",
		"const el = /** @type {HTMLElement} */ (a), b = /** @type {any} */ (c);\n": "const el = (a), b = (c);\n",
		"/* one */\n/* two\n   lines */\nbody { margin: 0; }\n":                    "\n\n\nbody { margin: 0; }\n",
		"a = b / c * d; // 1\nre = /[/*]/;":                                        "a = b / c * d; // 1\nre = /[/*]/;\n",
	} {
		if got := string(strip([]byte(source))); got != want {
			t.Errorf("%q becomes %q, want %q", source, got, want)
		}
	}
}

// Our files hold nothing that strip would take for something else.
func TestStripKnowsOurFiles(t *testing.T) {
	names, err := fs.Glob(files, "*.*s")
	if err != nil || len(names) < 10 {
		t.Fatalf("%v, %v", names, err)
	}
	text := regexp.MustCompile("\"[^\"\n]*(/\\*|\\*/)[^\"\n]*\"|`[^`\n]*(/\\*|\\*/)[^`\n]*`")
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range bytes.Split(source, []byte("\n")) {
			if bytes.Count(line, []byte("`"))%2 != 0 && !bytes.Contains(line, []byte("//")) && !bytes.HasPrefix(bytes.TrimSpace(line), []byte("*")) {
				t.Errorf("%s:%d: a text that spans lines", name, n+1)
			}
			if found := text.Find(line); found != nil {
				t.Errorf("%s:%d: a text that looks like a comment: %s", name, n+1, found)
			}
		}
		if stripped := strip(source); bytes.Contains(stripped, []byte("@type")) || bytes.Count(stripped, []byte("\n")) != bytes.Count(source, []byte("\n")) {
			t.Errorf("%s is not stripped, or its lines moved", path.Base(name))
		}
	}
}
