package notify

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostBytes is the length of a message. Phones and chats cut or refuse longer ones.
const mostBytes = 3500

func serviceOf(s Secret) service {
	svc := services[s.scheme()]
	svc.most = cmp.Or(svc.most, mostBytes)
	if svc.escape == nil {
		svc.escape = breakMarkup
	}
	if a, err := s.parse(); err == nil && svc.adjust != nil {
		svc.adjust(a, &svc)
	}
	return svc
}

func asIs(text string) string { return text }

const apart = "\u200b" // a space without width

var markup = strings.NewReplacer("@", "@"+apart, "<", "<"+apart, "](", "]"+apart+"(")

// breakMarkup disarms mentions and links that hide their target, and leaves the text readable.
// Chats differ in what they can escape.
func breakMarkup(text string) string { return markup.Replace(text) }

// clean makes one line of a text, without characters that hide or turn text.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}), " ")
}

// lines cleans a text, and leaves its lines.
func lines(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\t' {
				return -1
			}
			return r
		}, strings.TrimRight(line, " \t\r\n")))
	}
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// cut shortens a text to a number of characters.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// shorten cuts a text to a number of bytes.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, most-len("…"))], "") + "…"
}
