package history

import "github.com/gpuwhy/gpuwhy/internal/lazy"

var (
	spanAgo = lazy.Pattern(`(\d+[ \x{a0}](?:s|min|h|days)) ago\b`)
	justNow = lazy.Pattern(`\bjust now\b`)
)

// Earlier is a text that was said at some time, for people who read it later beside that time: "30 s ago" becomes
// "30 s earlier", and "just now" becomes "at that moment".
func Earlier(text string) string {
	return justNow().ReplaceAllString(spanAgo().ReplaceAllString(text, "$1 earlier"), "at that moment")
}
