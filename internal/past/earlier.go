package past

import "github.com/gpuwhy/gpuwhy/internal/lazy"

var spanAgo = lazy.Pattern(`(\d+[ \x{a0}](?:s|min|h|days)) ago\b`)

// Earlier is a text that was said at some time, for people who read it later beside that time: "30 s ago" becomes
// "30 s earlier".
func Earlier(text string) string { return spanAgo.ReplaceAllString(text, "$1 earlier") }
