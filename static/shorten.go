package static

import (
	"bytes"

	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/js"
)

// shorten writes a script of our own in fewer bytes: without what only people
// need, and with short names inside functions. What other modules import keeps
// its name. A script that is no JavaScript is a mistake of ours.
func shorten(name string, script []byte) []byte {
	var out bytes.Buffer
	if err := js.Minify(minify.New(), &out, bytes.NewReader(script), nil); err != nil {
		panic("static: " + name + ": " + err.Error())
	}
	return out.Bytes()
}
