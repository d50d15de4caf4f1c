package static

import (
	"bytes"
	"regexp"
)

// strip leaves comments and indentation out of a script or style sheet of our
// own, which are a third of what would be sent. Lines stay lines.
//
// It knows just what our files hold: comments that begin a line, and types in
// one-line comments that begin with two stars. No text in them spans lines or
// holds such a comment; a test sees to that.
func strip(source []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(source))
	inside := false
	for line := range bytes.Lines(source) {
		text := bytes.TrimSpace(line)
		switch {
		case inside:
			inside = !bytes.HasSuffix(text, []byte("*/"))
		case bytes.HasPrefix(text, []byte("//")):
		case bytes.HasPrefix(text, []byte("/*")) && !bytes.Contains(text, []byte("*/")):
			inside = true
		default:
			if text = comment.ReplaceAll(text, nil); len(text) > 0 {
				out.Write(text)
				out.WriteByte('\n')
			}
		}
	}
	return out.Bytes()
}

// comment is a whole line's, or a type.
var comment = regexp.MustCompile(`^/\*[^*].*\*/$|/\*\*.*?\*/ ?`)
