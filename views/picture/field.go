package picture

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
)

// A Field is one drawing: lanes over one span of time, and what stands across them. All fields of a page have one cursor, which is at one
// moment in all of them.
type Field struct {
	Axis
	ID     string  // of the picture that it belongs to: those of its parts begin with it
	Height float64 // in units, in which edges of lanes are given; a page may show it higher or lower
	Says   string  // the field in words; empty: it adds nothing to what stands beside it, and has no cursor
	Pixels string  // its height on a page, where what it shows decides that
	Clock  string  // at which height of it the time at the cursor stands; empty: nowhere in it

	Grid  string // the path of round times
	Ticks []Tick // their names
	Foot  string // at which height these stand
	Shown string // the path of a moment that is shown beside the picture
	Bands []Band
	Lanes []Lane
	Flags []Flag
	Ends  []End   // names at the ends of lines, beside it
	Floor float64 // how far down bands shade, and flags reach
	Theme *Theme  // of an image, which has no style sheet; nil on a page
	Local bool    // names of round times are those of the reader's clock, which writes them
}

// A Band is a time for which somebody was at work. X, Width, Y, Height and Below are in the field's units, Left, Room and Text in percent.
type Band struct {
	Key, Hue         string
	X, Width         string
	Y, Height        string
	Below            string // the height of its shade; 0 for none
	Left, Room, Text string // Text is the height of the name
	Began            bool   // within the picture
	Accused          bool   // the answer names it
	Name, Owner      string // empty where there is no room for them
	Title            string
}

// A Lane is a quantity over time.
type Lane struct {
	Key          string
	Scale        Scale
	Base         string // the height of the line below it, in percent; empty: none
	Layers       []Layer
	Areas, Lines []Path
	Limit        Limit
	Heat         [2]string // between which steps of the scale a line of the class heat turns from ink over amber to red; empty: nowhere
	Quantity     Quantity
}

// A Limit is a value that a lane is held against, with its name. Heights are in percent.
type Limit struct {
	Y      string // empty: there is none
	Text   string // empty: it has no name in the field
	NameY  string
	X      string // where the name stands, and with which end; an empty Anchor: where it begins
	Anchor string
}

// A Path is a path with its look. Its Key is that of whose values it has, empty for an area.
type Path struct{ Class, D, Key string }

// A Quantity is what a script needs to read a path: a step of it is Scale units.
type Quantity struct {
	Label, Unit   string
	Scale, Digits string
}

// A Flag is an alert.
type Flag struct {
	Key, Level string // warn or bad
	Text       string
	Title      string // Text with whole names
	Line, X    string
	Y          string
	Left       bool // the text stands left of it
	Width      string
}

// An End is a name at the end of lines.
type End struct {
	Key, Name string
	Strong    bool
	At        float64 // the height where the line ends, in the field's units
	Y         string  // where the name stands, in percent
}

// view is the part of the field's coordinates that is seen.
func (f *Field) view() string {
	return strconv.Itoa(f.X(f.From)) + " 0 " + strconv.Itoa(f.Width()) + " " + exact(f.Height)
}

// Part is a height in percent of the field's.
func (f *Field) Part(y float64) string { return Percent(y / f.Height) }

// Divide draws round times from one height to another, by the clocks of the axis' zone.
func (f *Field) Divide(top, bottom float64) []Tick {
	ticks := Ticks(f.From, f.To)
	var grid strings.Builder
	for _, t := range ticks {
		grid.WriteString("M" + strconv.Itoa(f.X(t.Time)) + " " + exact(top) + "V" + exact(bottom))
	}
	f.Grid = grid.String()
	return ticks
}

// Show draws the moment that is shown beside the picture, if it lies in it.
func (f *Field) Show(t time.Time) {
	if share := f.Share(t); !t.IsZero() && share >= 0 && share <= 1 {
		f.Shown = "M" + strconv.Itoa(f.X(t)) + " 0V" + exact(f.Height)
	}
}

// Place gives a band the time from a moment to another. One that goes on is wider than the picture, so that it stays as it is; one that began
// long before begins before it.
func (f *Field) Place(b *Band, from, to time.Time, open bool) {
	const before, after = -3600, 99990
	x := f.X(from)
	if x < f.X(f.From)+before {
		x = before
	}
	width := max(f.X(to)-x, 1)
	goesOn := open && !to.Before(f.To)
	if goesOn {
		width = after
	}
	b.X, b.Width, b.Began = strconv.Itoa(x), strconv.Itoa(width), from.After(f.From)
	if from.Before(f.From) {
		from = f.From
	}
	b.Left, b.Room = f.Percent(from), Percent(max(f.Share(to)-f.Share(from), 0))
	if open { // what is to the right of the picture is not seen
		b.Room = "100%"
	}
}

// Rest puts a band at a height.
func (f *Field) Rest(b *Band, y, height float64) {
	b.Y, b.Height, b.Text, b.Below = exact(y), exact(height), f.Part(y+height/2), "0"
}

// A Rows gives bands rows, so that none covers another.
type Rows struct{ taken [][][2]time.Time }

// NewRows are so many rows.
func NewRows(n int) *Rows { return &Rows{make([][][2]time.Time, n)} }

// Take takes the first row in which all spans are free; -1: there is none.
func (r *Rows) Take(spans ...[2]time.Time) int {
	for row, taken := range r.taken {
		if !slices.ContainsFunc(taken, func(t [2]time.Time) bool {
			return slices.ContainsFunc(spans, func(s [2]time.Time) bool { return s[0].Before(t[1]) && t[0].Before(s[1]) })
		}) {
			r.taken[row] = append(taken, spans...)
			return row
		}
	}
	return -1
}

// Blank reports whether no lane has anything to draw.
func (f *Field) Blank() bool {
	drawn := func(p Path) bool { return p.D != "" }
	return !slices.ContainsFunc(f.Lanes, func(l Lane) bool { return slices.ContainsFunc(l.Lines, drawn) || slices.ContainsFunc(l.Areas, drawn) })
}

// look is how an element looks: its classes, or its attributes.
func (f *Field) look(kind, hue string) templ.OrderedAttributes {
	if f.Theme != nil {
		return f.Theme.attributes(kind, hue)
	}
	if hue != "" {
		kind += " " + hue
	}
	return templ.OrderedAttributes{{Key: "class", Value: kind}}
}

// line is how a line looks: that of a temperature by how near it is to its limit.
func (f *Field) line(l *Lane, p Path) templ.OrderedAttributes {
	out := f.look(p.Class, "")
	if p.Class == "heat" && l.Heat[0] != "" {
		out = slices.DeleteFunc(out, func(a templ.KeyValue[string, any]) bool { return a.Key == "stroke" })
		out = append(out, templ.KV[string, any]("stroke", "url(#"+f.ID+"-heat)"))
	}
	return out
}

// attributes are what a script reads; in a lane without a label there is nothing for it.
func (l *Lane) attributes() (out templ.OrderedAttributes) {
	if q := &l.Quantity; q.Label != "" {
		for _, a := range [][2]string{{"data-key", "lane-" + l.Key}, {"data-label", q.Label}, {"data-unit", q.Unit}, {"data-scale", q.Scale}, {"data-digits", q.Digits}} {
			out = append(out, templ.KV[string, any](a[0], a[1]))
		}
	}
	return out
}
