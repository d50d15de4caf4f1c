package picture

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
)

// A Field is one drawing: lanes over a span of time, with bands and flags across them. All fields of a page share one cursor, at the same
// moment.
type Field struct {
	Axis
	ID     string  // ID of its picture; prefix of the IDs of its parts
	Height float64 // height in the units of lane edges; a page may scale it
	Says   string  // the field in words; empty if it adds nothing to the text beside it and has no cursor
	Pixels string  // its height on a page, if its content determines that
	Clock  string  // height of the time at the cursor; empty for none

	Grid  string // path of the lines at round times
	Ticks []Tick // their names
	Foot  string // height of their names
	Shown string // path of the moment that is shown beside the picture
	Bands []Band
	Lanes []Lane
	Flags []Flag
	Ends  []End   // names at the ends of lines, beside it
	Floor float64 // how far down the shades of bands and the lines of flags reach
	Theme *Theme  // colors of an image, which has no style sheet; nil on a page
	Local bool    // a script writes round times in the reader's time zone
}

// A Band is a time in which a program worked. X, Width, Y, Height and Below are in the field's units; Left, Room and Text are in percent.
type Band struct {
	Key, Hue         string
	X, Width         string
	Y, Height        string
	Below            string // height of its shade; "0" for none
	Left, Room, Text string // position and width of the name, and its height
	Began            bool   // it began within the picture
	Accused          bool   // the headline names it
	Name, Owner      string // empty if there is no room for them
	Title            string
}

// A Lane is a quantity over time.
type Lane struct {
	Key          string
	Scale        Scale
	Base         string // height of the line below it, in percent; empty for none
	Layers       []Layer
	Areas, Lines []Path
	Limit        Limit
	Heat         [2]string // steps of the scale between which a heat line turns from ink to amber to red; empty for none
	Quantity     Quantity
}

// A Limit is the limit of a lane, with its name. Heights are in percent.
type Limit struct {
	Y      string // empty for no limit
	Text   string // its name; empty for none in the field
	NameY  string
	X      string // position of the name's anchor; an empty Anchor is its start
	Anchor string
}

// A Path is a path with its look. Key names the device whose values it shows; empty for an area.
type Path struct{ Class, D, Key string }

// A Quantity tells a script how to read a path: a step is Scale units.
type Quantity struct {
	Label, Unit   string
	Scale, Digits string
}

// A Flag marks an alert.
type Flag struct {
	Key, Level string // warn or bad
	Text       string
	Title      string // Text with full names
	Line, X    string
	Y          string
	Left       bool // the text is on its left
	Width      string
}

// An End is a name at the end of one or more lines.
type End struct {
	Key, Name string
	Strong    bool
	At        float64 // height where the line ends, in the field's units
	Y         string  // height of the name, in percent
}

// view returns the visible part of the field's coordinates.
func (f *Field) view() string {
	return strconv.Itoa(f.X(f.From)) + " 0 " + strconv.Itoa(f.Width()) + " " + exact(f.Height)
}

// Part returns a height in percent of the field's height.
func (f *Field) Part(y float64) string { return Percent(y / f.Height) }

// Divide draws lines at round times between two heights, in the time zone of the axis.
func (f *Field) Divide(top, bottom float64) []Tick {
	ticks := Ticks(f.From, f.To)
	var grid strings.Builder
	for _, t := range ticks {
		grid.WriteString("M" + strconv.Itoa(f.X(t.Time)) + " " + exact(top) + "V" + exact(bottom))
	}
	f.Grid = grid.String()
	return ticks
}

// Show draws the moment that is shown beside the picture, if the picture contains it.
func (f *Field) Show(t time.Time) {
	if share := f.Share(t); !t.IsZero() && share >= 0 && share <= 1 {
		f.Shown = "M" + strconv.Itoa(f.X(t)) + " 0V" + exact(f.Height)
	}
}

// Place puts a band between two moments. An open band is wider than the picture, so it doesn't change as time passes; a band that began
// long before starts outside the picture.
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
	if open { // the part right of the picture is not visible
		b.Room = "100%"
	}
}

// Rest puts a band at a height.
func (f *Field) Rest(b *Band, y, height float64) {
	b.Y, b.Height, b.Text, b.Below = exact(y), exact(height), f.Part(y+height/2), "0"
}

// Rows assigns bands to rows so that none covers another.
type Rows struct{ taken [][][2]time.Time }

// NewRows returns a number of free rows.
func NewRows(n int) *Rows { return &Rows{make([][][2]time.Time, n)} }

// Take takes the first row in which all spans are free. It returns -1 if there is none.
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

// look returns the classes of an element, or its attributes in an image.
func (f *Field) look(kind, hue string) templ.OrderedAttributes {
	if f.Theme != nil {
		return f.Theme.attributes(kind, hue)
	}
	if hue != "" {
		kind += " " + hue
	}
	return templ.OrderedAttributes{{Key: "class", Value: kind}}
}

// line returns the look of a line; a temperature's depends on how close it is to its limit.
func (f *Field) line(l *Lane, p Path) templ.OrderedAttributes {
	out := f.look(p.Class, "")
	if p.Class == "heat" && l.Heat[0] != "" {
		out = slices.DeleteFunc(out, func(a templ.KeyValue[string, any]) bool { return a.Key == "stroke" })
		out = append(out, templ.KV[string, any]("stroke", "url(#"+f.ID+"-heat)"))
	}
	return out
}

// attributes returns what a script reads; a lane without a label has nothing for it.
func (l *Lane) attributes() (out templ.OrderedAttributes) {
	if q := &l.Quantity; q.Label != "" {
		for _, a := range [][2]string{{"data-key", "lane-" + l.Key}, {"data-label", q.Label}, {"data-unit", q.Unit}, {"data-scale", q.Scale}, {"data-digits", q.Digits}} {
			out = append(out, templ.KV[string, any](a[0], a[1]))
		}
	}
	return out
}
