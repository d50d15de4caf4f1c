package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// inTest finds mistakes in all patterns of a package by its tests: there they are compiled at once.
var inTest = strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// Pattern is [regexp.MustCompile], later: the function that it returns compiles the pattern when it is first called. A package's
// patterns so cost a start nothing (docs/performance.md says what they would).
func Pattern(pattern string) func() *regexp.Regexp {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	if inTest {
		compiled()
	}
	return compiled
}
