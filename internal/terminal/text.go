package terminal

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/gpuwhy/gpuwhy/internal/term"
)

// A role says what a text is, and so how it looks. Colors are never the only mark: what is bad also says so, with a sign or a word.
type role int

const (
	plain role = iota
	dim
	strong
	heading
	good // work, and what is drawn of it
	warn
	bad
	heat
	current // energy
	wind
	mark // a word that the whole frame depends on, such as SIMULATED
	roles
)

// looks are the styles of roles.
type looks [roles]lipgloss.Style

// newLooks returns looks for a dark or a light background. All colors are of the palette of 256, and a terminal with 16 shows the nearest of its own.
func newLooks(dark bool) (l looks) {
	pick := func(light, night string) color.Color {
		return lipgloss.LightDark(dark)(lipgloss.Color(light), lipgloss.Color(night))
	}
	colored := func(light, night string) lipgloss.Style { return lipgloss.NewStyle().Foreground(pick(light, night)) }
	l[plain] = lipgloss.NewStyle()
	l[dim] = colored("#6c6c6c", "#8a8a8a")
	l[strong] = lipgloss.NewStyle().Bold(true)
	l[heading] = colored("#4e4e4e", "#b2b2b2").Bold(true)
	l[good] = colored("#008787", "#5fafaf")
	l[warn] = colored("#875f00", "#d7af5f")
	l[bad] = colored("#af0000", "#d75f5f").Bold(true)
	l[heat] = colored("#af5f00", "#d7875f")
	l[current] = colored("#5f5faf", "#87afd7")
	l[wind] = colored("#0087af", "#5fafd7")
	l[mark] = lipgloss.NewStyle().Bold(true).Reverse(true)
	return l
}

// A piece is a text in one role.
type piece struct {
	text string
	role role
}

// A row is a line of the frame, before it has its width.
type row struct {
	pieces   []piece
	selected bool
}

// clean is a text without anything that could control the terminal.
func clean(s string) string { return term.Printable(s) }

// width is how many cells a text takes.
func width(s string) int { return ansi.StringWidth(s) }

// fit is a text in exactly so many cells: with an ellipsis if it is longer, and spaces if it is shorter. Right puts it to the right.
func fit(s string, cells int, right bool) string {
	if cells <= 0 {
		return ""
	}
	if width(s) > cells {
		s = ansi.Truncate(s, cells, "…")
	}
	space := strings.Repeat(" ", max(0, cells-width(s)))
	if right {
		return space + s
	}
	return s + space
}

// add appends a text from anywhere.
func (r *row) add(role role, text string) *row {
	if text != "" {
		r.pieces = append(r.pieces, piece{clean(text), role})
	}
	return r
}

// width is how many cells the row takes.
func (r *row) width() (n int) {
	for _, p := range r.pieces {
		n += width(p.text)
	}
	return n
}

// fill appends spaces up to a width.
func (r *row) fill(cells int) *row { return r.add(plain, strings.Repeat(" ", max(0, cells-r.width()))) }

// render is the row in exactly so many cells.
func (r *row) render(l *looks, cells int) string {
	var b strings.Builder
	left := cells
	put := func(text string, role role) {
		style := l[role]
		if r.selected { // in one color
			style = lipgloss.NewStyle().Reverse(true).Bold(style.GetBold())
		}
		if role == plain && !r.selected {
			b.WriteString(text)
			return
		}
		b.WriteString(style.Render(text))
	}
	for i, p := range r.pieces {
		w := width(p.text)
		if more := i+1 < len(r.pieces); w > left || w == left && more && (&row{pieces: r.pieces[i+1:]}).width() > 0 {
			p.text = fit(p.text+"…", left, false)
			if width(p.text) > 0 {
				put(p.text, p.role)
			}
			left = 0
			break
		}
		left -= w
		put(p.text, p.role)
	}
	if left > 0 {
		put(strings.Repeat(" ", left), plain)
	}
	return b.String()
}

// wrap breaks a text between words into lines of at most so many cells; the last one ends with an ellipsis if there is more.
func wrap(text string, cells, lines int) (out []string) {
	line := ""
	words := strings.Fields(clean(text))
	for i, word := range words {
		next := strings.TrimSpace(line + " " + word)
		if width(next) <= cells {
			line = next
			continue
		}
		if len(out) == lines-1 {
			return append(out, fit(strings.TrimSpace(line+" "+strings.Join(words[i:], " ")), cells, false))
		}
		if line != "" {
			out = append(out, line)
		}
		line = word
	}
	if line != "" {
		out = append(out, fit(line, min(cells, width(line)), false))
	}
	return out
}
