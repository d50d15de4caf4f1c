package static

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// join puts modules together that are loaded together, so that a page asks for
// one file and not for fifteen, which also pack better. What is left are the
// modules that no other imports at its top: the page's own, and those that it
// loads when they are needed. Each has before it what it imports, as far as
// the page's does not have that already; in that case it is imported from
// there. The script of another page has all that it imports in itself: that page
// does not load the first one's.
//
// Top-level names are therefore unique among modules, which a test sees to.
func join(sources map[string][]byte) map[string][]byte {
	imported := map[string]bool{}
	for _, source := range sources {
		for _, m := range importLine.FindAllSubmatch(source, -1) {
			imported[string(m[2])] = true
		}
	}
	j := joiner{sources: sources, home: map[string]string{}}
	joined := map[string][]byte{}
	for _, name := range slices.SortedFunc(maps.Keys(sources), pageFirst) {
		switch {
		case imported[name]:
		case slices.Contains(otherPages, name):
			own := joiner{sources: sources, home: map[string]string{}}
			joined[name] = alone(own.entry(name))
		default:
			joined[name] = j.entry(name)
		}
	}
	return joined
}

// otherPages are the scripts of pages that don't load page.js.
var otherPages = []string{"alertpage.js", "docs.js"}

// alone is a script that nobody imports: in a function, so that its names can be
// shortened too.
func alone(script []byte) []byte {
	at := bytes.LastIndex(script, []byte("export {"))
	if at < 0 {
		at = len(script)
	}
	return slices.Concat([]byte("(async () => {\n"), script[:at], []byte("})();\n"))
}

func pageFirst(a, b string) int {
	if (a == "page.js") != (b == "page.js") {
		if a == "page.js" {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

var (
	importLine = regexp.MustCompile(`(?m)^import \{([^}]*)\} from "\./([a-z]+\.js)";\n`)
	exportLine = regexp.MustCompile(`(?m)^export ((?:async )?(?:function|const|let|class) (\w+))`)
)

type joiner struct {
	sources map[string][]byte
	home    map[string]string // of each module that is placed, the entry that it is in
}

func (j *joiner) entry(name string) []byte {
	var body, head bytes.Buffer
	var exports []string
	j.place(name, name, &head, &body, &exports)
	if len(exports) > 0 {
		body.WriteString("export { " + strings.Join(exports, ", ") + " };\n")
	}
	return append(head.Bytes(), body.Bytes()...)
}

// place writes a module after all that it imports.
func (j *joiner) place(name, entry string, head, body *bytes.Buffer, exports *[]string) {
	j.home[name] = entry
	source := j.sources[name]
	for _, m := range importLine.FindAllSubmatch(source, -1) {
		from := string(m[2])
		switch home := j.home[from]; home {
		case "":
			j.place(from, entry, head, body, exports)
		case entry:
		default:
			head.WriteString("import {" + string(m[1]) + "} from \"./" + home + "\";\n")
		}
	}
	source = importLine.ReplaceAll(source, nil)
	for _, m := range exportLine.FindAllSubmatch(source, -1) {
		*exports = append(*exports, string(m[2]))
	}
	body.Write(exportLine.ReplaceAll(source, []byte("$1")))
}
