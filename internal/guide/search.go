package guide

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/views"
)

// mostResults is how many places a search lists. longestQuestion is how much of a question is used, in bytes, and mostWords how many of
// its words: anybody may search.
const mostResults, longestQuestion, mostWords = 30, 100, 8

// isWord reports whether words have such a character.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

// wordsOf returns the words of a question in lower case. A word may have what flags and names have inside: --base-path, gpuwhy.yaml.
func wordsOf(question string) []string {
	words := strings.FieldsFunc(strings.ToLower(question), func(r rune) bool { return !isWord(r) && !strings.ContainsRune("-_./", r) })
	words = slices.DeleteFunc(words, func(w string) bool { return strings.IndexFunc(w, isWord) < 0 })
	return words[:min(len(words), mostWords)]
}

// clip returns the beginning of a question, as valid text.
func clip(question string) string {
	question = strings.ToValidUTF8(strings.TrimSpace(question), "�")
	for len(question) > longestQuestion {
		_, size := utf8.DecodeLastRuneInString(question)
		question = question[:len(question)-size]
	}
	return question
}

// search finds the passages that have all words of a question, the best first: words in titles and headings count most, then how often
// the text has them.
func (b *book) search(question string) (list []views.GuideResult, more int) {
	words := wordsOf(question)
	if len(words) == 0 {
		return nil, 0
	}
	type match struct {
		*passage
		score int
	}
	var found []match
	for i := range b.passages {
		p := &b.passages[i]
		if score := p.score(words); score > 0 {
			found = append(found, match{p, score})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	for _, m := range found[:min(len(found), mostResults)] {
		path := b.place.page(searchName, m.page.name)
		if m.anchor != "" {
			path += "#" + m.anchor
		}
		list = append(list, views.GuideResult{Path: path, Page: m.page.title, Heading: m.heading, Text: excerpt(m.text, words)})
	}
	return list, len(found) - len(list)
}

// What a word is worth in a title, in a heading, and each time in the text, up to a number of times.
const inTitle, inHeading, mostTimes = 12, 9, 4

// score is how well a passage matches; 0 if it lacks a word.
func (p *passage) score(words []string) (score int) {
	title, heading, text := strings.ToLower(p.page.title), strings.ToLower(p.heading), strings.ToLower(p.text)
	for _, w := range words {
		times := min(strings.Count(text, w), mostTimes)
		worth := times
		if strings.Contains(heading, w) {
			worth += inHeading
		}
		if strings.Contains(title, w) {
			if worth += 1; p.heading == "" {
				worth += inTitle
			}
		}
		if worth == 0 {
			return 0
		}
		score += worth
	}
	return score
}

// The length of an excerpt, in bytes, and how much of it comes before the first word that is found.
const excerptLength, excerptBefore = 220, 60

// excerpt returns the text around the first of the words, with all of them marked.
func excerpt(text string, words []string) (pieces []views.Piece) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) { // a letter whose other case is longer: nothing is marked
		lower = ""
	}
	first := len(lower)
	for _, w := range words {
		if i := strings.Index(lower, w); i >= 0 {
			first = min(first, i)
		}
	}
	if first == len(lower) {
		first = 0
	}
	from, to := max(0, first-excerptBefore), 0
	if from > 0 {
		if space := strings.IndexByte(text[from:], ' '); space >= 0 && from+space < first {
			from += space + 1
		}
		for !utf8.RuneStart(text[from]) {
			from++
		}
		pieces = append(pieces, views.Piece{Text: "… "})
	}
	if to = min(len(text), from+excerptLength); to < len(text) {
		if space := strings.LastIndexByte(text[from:to], ' '); space > 0 {
			to = from + space
		}
		for !utf8.RuneStart(text[to]) {
			to--
		}
	}
	for at := from; at < to; {
		next, word := to, ""
		for _, w := range words {
			if lower == "" {
				break
			}
			if i := strings.Index(lower[at:to], w); i >= 0 && at+i < next {
				next, word = at+i, w
			}
		}
		if next > at {
			pieces = append(pieces, views.Piece{Text: text[at:next]})
		}
		if word == "" {
			break
		}
		pieces = append(pieces, views.Piece{Text: text[next : next+len(word)], Marked: true})
		at = next + len(word)
	}
	if to < len(text) {
		pieces = append(pieces, views.Piece{Text: " …"})
	}
	return pieces
}
