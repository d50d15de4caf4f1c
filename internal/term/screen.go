package term

import (
	"io"
	"os"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A Screen is where a command prints: a terminal, with a width and perhaps colors, or a file or pipe, which has neither.
type Screen struct {
	io.Writer
	Width    int  // in columns; 0 if there is no limit
	Terminal bool // a person looks at it, and the cursor can be moved
	Color    bool
}

// ScreenOf returns what w is. Colors are only for a terminal, and not if the variable NO_COLOR has a value or TERM is dumb.
func ScreenOf(w io.Writer) Screen {
	s := Screen{Writer: w}
	file, is := w.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return s
	}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil {
		s.Width = width
	}
	return s.withVariables(os.Getenv, runtime.GOOS)
}

// withVariables says what a terminal can do. Old consoles of Windows print control sequences as text.
func (s Screen) withVariables(get func(string) string, system string) Screen {
	s.Terminal = get("TERM") != "dumb" && (system != "windows" || get("WT_SESSION") != "" || get("TERM") != "")
	s.Color = s.Terminal && get("NO_COLOR") == ""
	return s
}

// A Style is how a text stands out on a [Screen] with colors.
type Style string

// The styles, as ECMA-48 numbers them.
const (
	Plain  Style = ""
	Strong Style = "1"
	Faint  Style = "2"
	Good   Style = "32"
	Warn   Style = "33"
	Bad    Style = "1;31"
)

// Styled returns a text for the screen. Only the style can control the terminal: the text can't.
func (s Screen) Styled(style Style, text string) string {
	text = Printable(text)
	if !s.Color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Wrapped returns a text in as many lines as it takes on the screen, the second and later ones with an indentation.
func Wrapped(s Screen, text, indent string) []string { return wrap(Printable(text), s.Width, indent) }

// wrap breaks a text between words into lines of at most width columns, the second and later ones with an indentation. A word that is
// longer stays whole. With a width of 0 there is one line.
func wrap(text string, width int, indent string) (lines []string) {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	front := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line, used, empty := front, len(front), true
	for _, word := range together(strings.Split(text[len(front):], " ")) {
		n := utf8.RuneCountInString(word)
		if !empty && used+1+n > width {
			lines = append(lines, line)
			line, used, empty = indent, len(indent), true
		}
		if !empty {
			line, used = line+" ", used+1
		}
		line, used, empty = line+word, used+n, false
	}
	return append(lines, line)
}

// together joins figures and their units, which stay on one line.
func together(words []string) (out []string) {
	for _, word := range words {
		last := len(out) - 1
		if last >= 0 && out[last] != "" && unicode.IsDigit(rune(out[last][len(out[last])-1])) && unit().MatchString(word) {
			out[last] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

var unit = lazy.Pattern(`^(?:%|°C|W|MHz|RPM|[kMG]i?B|ms|s|min|h|d)[.,;:)]*$`)
