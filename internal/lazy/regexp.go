package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// inTest makes patterns compile at once in tests, so that a package's tests find mistakes in all of its patterns.
var inTest = strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// Pattern is a lazy [regexp.MustCompile]: the function that it returns compiles the pattern on its first call. So a package's
// patterns don't slow down the start (docs/performance.md has the figures).
func Pattern(pattern string) func() *regexp.Regexp {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	if inTest {
		compiled()
	}
	return compiled
}
