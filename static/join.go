package static

import (
	"bytes"
	"regexp"
)

// pages are the scripts that pages ask for. All other modules are parts of
// these.
var pages = []string{"page.js", "alertpage.js", "docs.js"}

// join puts each page's script and all that it imports into one, so that a page
// asks for one file and not for twenty, which also pack better.
//
// Top-level names are therefore unique among modules, which a test sees to.
func join(sources map[string][]byte) map[string][]byte {
	joined := map[string][]byte{}
	for _, name := range pages {
		var out bytes.Buffer
		// In a function its names can be shortened too: nobody imports it.
		out.WriteString("(async () => {\n")
		place(name, sources, map[string]bool{}, &out)
		out.WriteString("})();\n")
		joined[name] = out.Bytes()
	}
	return joined
}

var (
	importLine = regexp.MustCompile(`(?m)^import \{[^}]*\} from "\./([a-z]+\.js)";\n`)
	exported   = regexp.MustCompile(`(?m)^export `)
)

// place writes a module after all that it imports and that is not there yet.
func place(name string, sources map[string][]byte, placed map[string]bool, out *bytes.Buffer) {
	if placed[name] {
		return
	}
	placed[name] = true
	source := sources[name]
	for _, m := range importLine.FindAllSubmatch(source, -1) {
		place(string(m[1]), sources, placed, out)
	}
	out.Write(exported.ReplaceAll(importLine.ReplaceAll(source, nil), nil))
}
