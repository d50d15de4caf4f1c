package static

import (
	"bytes"
	"io/fs"
	"regexp"
	"testing"
)

func TestStrip(t *testing.T) {
	for source, want := range map[string]string{
		"// @ts-check\n\n/** @param {number} a */\nf(a);\n":                        "f(a);\n",
		"/**\n * Long.\n * @returns {string}\n */\n  const a = \"/x\"; // why\n":   "const a = \"/x\"; // why\n",
		"const el = /** @type {HTMLElement} */ (a), b = /** @type {any} */ (c);\n": "const el = (a), b = (c);\n",
		"/* one */\n/* two\n   lines */\nbody { margin: 0; }\n":                    "body { margin: 0; }\n",
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
		if bytes.Contains(strip(source), []byte("@type")) {
			t.Errorf("%s is not stripped", name)
		}
	}
}

func TestJoin(t *testing.T) {
	got := join(map[string][]byte{
		"page.js":      []byte("import { a } from \"./a.js\";\nimport {\n  b,\n} from \"./b.js\";\na(b);\nimport(\"./vendor/late.js\");\n"),
		"a.js":         []byte("import { b } from \"./b.js\";\nexport function a() {}\n"),
		"b.js":         []byte("export const b = 1;\n"),
		"alertpage.js": []byte("import { a } from \"./a.js\";\na();\n"),
		"docs.js":      []byte("docs();\n"),
		"c.js":         []byte("export class c {}\n"), // nobody's
	})
	want := map[string]string{
		"page.js":      "(async () => {\nconst b = 1;\nfunction a() {}\na(b);\nimport(\"./vendor/late.js\");\n})();\n",
		"alertpage.js": "(async () => {\nconst b = 1;\nfunction a() {}\na();\n})();\n",
		"docs.js":      "(async () => {\ndocs();\n})();\n",
	}
	if len(got) != len(want) {
		t.Errorf("%d files", len(got))
	}
	for name, text := range want {
		if string(got[name]) != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
}

// What is put together must not use a name twice.
func TestNamesAreUnique(t *testing.T) {
	names, err := fs.Glob(files, "*.js")
	if err != nil {
		t.Fatal(err)
	}
	top := regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:function|const|let|class) (\w+)`)
	seen := map[string]string{}
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range top.FindAllSubmatch(source, -1) {
			if other := seen[string(m[1])]; other != "" {
				t.Errorf("%s and %s both have %s", name, other, m[1])
			}
			seen[string(m[1])] = name
		}
	}
}
