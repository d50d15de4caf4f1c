package history

import "github.com/gpuwhy/gpuwhy/internal/lazy"

var (
	spanAgo = lazy.Pattern(`(\d+[ \x{a0}](?:s|min|h|days)) ago\b`)
	justNow = lazy.Pattern(`\b[Jj]ust now\b`)
)

// Earlier rewrites a text written at some time for people who read it later, beside that time: "30 s ago" becomes
// "30 s earlier", and "just now" becomes "at that moment".
func Earlier(text string) string {
	return justNow().ReplaceAllStringFunc(spanAgo().ReplaceAllString(text, "$1 earlier"), func(now string) string {
		if now[0] == 'J' {
			return "At that moment"
		}
		return "at that moment"
	})
}
