package term

import (
	"encoding/csv"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Column of a table says what happens where the table is wider than the screen.
type Column struct {
	Title  string
	Rank   int  // columns with a higher rank are left out first; 0 is never left out
	Least  int  // to how many columns of the screen its cells may be shortened; 0: they are not
	Seldom bool // it is only in wide tables
	Right  bool // its cells are figures
}

// A cell is a text in a grid. It may have a style.
type cell struct {
	text  string
	style Style
}

// A grid is a table that fits a screen.
type grid struct {
	columns []Column
	rows    [][]cell
}

func (g *grid) add(cells ...cell) { g.rows = append(g.rows, cells) }

func plainCell(text string) cell { return cell{text: text} }

// gap is the space between columns.
const gap = 2

// lines returns the grid for a screen. A wide grid has all columns, in their full width; it may be wider than the screen.
func (g *grid) lines(s Screen, wide bool) (out []string) {
	widths, kept := g.fitted(s.Width, wide)
	line := func(cells []cell, style Style) {
		var b strings.Builder
		for i, at := range kept {
			text, width := shortened(Printable(cells[at].text), widths[at]), widths[at]
			space := strings.Repeat(" ", width-utf8.RuneCountInString(text))
			if style != Plain {
				cells[at].style = style
			}
			text = s.Styled(cells[at].style, text)
			switch last := i == len(kept)-1; {
			case g.columns[at].Right && last:
				b.WriteString(space + text)
			case g.columns[at].Right:
				b.WriteString(space + text + strings.Repeat(" ", gap))
			case last:
				b.WriteString(text)
			default:
				b.WriteString(text + space + strings.Repeat(" ", gap))
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	titles := make([]cell, len(g.columns))
	for i := range g.columns {
		titles[i].text = g.columns[i].Title
	}
	line(titles, Faint)
	for _, row := range g.rows {
		line(slices.Clone(row), Plain)
	}
	return out
}

// fitted returns the width of each column, and which of them are shown: first long cells are shortened, then columns are left out.
func (g *grid) fitted(width int, wide bool) (widths, kept []int) {
	full := make([]int, len(g.columns))
	for i := range g.columns {
		full[i] = utf8.RuneCountInString(g.columns[i].Title)
		for _, row := range g.rows {
			full[i] = max(full[i], utf8.RuneCountInString(row[i].text))
		}
		if wide || !g.columns[i].Seldom {
			kept = append(kept, i)
		}
	}
	if wide || width <= 0 {
		return full, kept
	}
	for {
		widths = slices.Clone(full)
		over := -gap - width
		for _, i := range kept {
			over += widths[i] + gap
		}
		for over > 0 { // the longest of those that can be shortened gives a column
			longest := -1
			for _, i := range kept {
				if least := g.columns[i].Least; least > 0 && widths[i] > least && (longest < 0 || widths[i]-least > widths[longest]-g.columns[longest].Least) {
					longest = i
				}
			}
			if longest < 0 {
				break
			}
			widths[longest]--
			over--
		}
		least := slices.MaxFunc(kept, func(a, b int) int { return g.columns[a].Rank - g.columns[b].Rank })
		if over <= 0 || g.columns[least].Rank == 0 {
			return widths, kept
		}
		kept = slices.DeleteFunc(kept, func(i int) bool { return i == least })
	}
}

// printCSV prints rows for other programs.
func printCSV(s Screen, rows [][]string) error {
	w := csv.NewWriter(s)
	for _, row := range rows {
		for i := range row {
			row[i] = Printable(row[i])
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

// Rows prints a table that fits the screen.
func Rows(s Screen, columns []Column, rows [][]string) error {
	_, err := io.WriteString(s, strings.Join(linesOf(s, columns, rows), "\n")+"\n")
	return err
}

func linesOf(s Screen, columns []Column, rows [][]string) []string {
	g := &grid{columns: columns}
	for _, row := range rows {
		cells := make([]cell, len(row))
		for i := range row {
			cells[i] = plainCell(row[i])
		}
		g.add(cells...)
	}
	return g.lines(s, false)
}
