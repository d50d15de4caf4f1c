package lazy

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// A Regexp is a regular expression of a package that is compiled when it is first used, so that
// it costs nothing at the start of the program. Several goroutines may use it.
type Regexp struct {
	pattern string
	once    sync.Once
	re      *regexp.Regexp
}

// inTest finds mistakes in all patterns of a package by its tests: there they are compiled at once.
var inTest = strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")

// Pattern is [regexp.MustCompile], later: a mistake in the pattern panics at the first use.
func Pattern(pattern string) *Regexp {
	r := &Regexp{pattern: pattern}
	if inTest {
		r.Regexp()
	}
	return r
}

// Regexp returns the compiled expression.
func (r *Regexp) Regexp() *regexp.Regexp {
	r.once.Do(func() { r.re = regexp.MustCompile(r.pattern) })
	return r.re
}

func (r *Regexp) String() string { return r.pattern }

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool {
	return r.Regexp().MatchString(s)
}

// FindString is that of [regexp.Regexp].
func (r *Regexp) FindString(s string) string {
	return r.Regexp().FindString(s)
}

// FindStringIndex is that of [regexp.Regexp].
func (r *Regexp) FindStringIndex(s string) []int {
	return r.Regexp().FindStringIndex(s)
}

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string {
	return r.Regexp().FindStringSubmatch(s)
}

// FindStringSubmatchIndex is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.Regexp().FindStringSubmatchIndex(s)
}

// ReplaceAllString is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllString(s, with string) string {
	return r.Regexp().ReplaceAllString(s, with)
}

// NumSubexp is that of [regexp.Regexp].
func (r *Regexp) NumSubexp() int {
	return r.Regexp().NumSubexp()
}

// Split is that of [regexp.Regexp].
func (r *Regexp) Split(s string, n int) []string {
	return r.Regexp().Split(s, n)
}

// FindAllString is that of [regexp.Regexp].
func (r *Regexp) FindAllString(s string, n int) []string {
	return r.Regexp().FindAllString(s, n)
}

// FindAllStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.Regexp().FindAllStringSubmatch(s, n)
}

// ReplaceAllStringFunc is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllStringFunc(s string, with func(string) string) string {
	return r.Regexp().ReplaceAllStringFunc(s, with)
}

// FindAllStringIndex is that of [regexp.Regexp].
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.Regexp().FindAllStringIndex(s, n)
}
