// Package nearest finds the name that somebody probably meant, for one that does not exist.
package nearest

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longest is the longest name that is compared, in bytes: the time grows with the square of the
// length.
const longest = 64

// Name returns the name most similar to written; "" if none is similar. Case, punctuation and spaces do not
// matter. A name that contains written, or is a prefix of it, is similar too.
func Name(written string, names []string) string {
	given := plain(written)
	if len(given) > longest || !strings.ContainsFunc(given, unicode.IsLetter) { // a number is like no other
		return ""
	}
	best, least := "", max(7, utf8.RuneCountInString(given)/3*4+1) // quarters of a letter
	for _, name := range names {
		candidate := plain(name)
		if len(candidate) == 0 || len(candidate) > longest {
			continue
		}
		far := 4 * distance([]rune(given), []rune(candidate))
		if utf8.RuneCountInString(given) < 3 && !strings.Contains(candidate, given) {
			continue // so short a text is like anything
		}
		switch {
		case len(given) >= 3 && strings.HasPrefix(candidate, given):
			far = min(far, 2)
		case len(given) >= 3 && strings.Contains(candidate, given):
			far = min(far, 3)
		case len(candidate) >= 3 && strings.HasPrefix(given, candidate): // another name may differ by a letter: "history_retenton"
			far = min(far, 6)
		}
		if far < least {
			best, least = name, far
		}
	}
	return best
}

// Hint returns a question to append to an error, with a leading space, such as ` (did you mean "power_draw"?)`; "" if no name
// is similar.
func Hint(written string, names []string) string {
	name := Name(written, names)
	if name == "" {
		return ""
	}
	return ` (did you mean "` + name + `"?)`
}

// plain is a name in lower case, without punctuation and spaces.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(strings.TrimSpace(name)))
}

// distance is how many letters must be changed, removed, inserted or swapped with the next.
func distance(a, b []rune) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := range a {
		before, last, row := rows[i%3], rows[(i+1)%3], rows[(i+2)%3]
		row[0] = i + 1
		for j := range b {
			changed := last[j]
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
