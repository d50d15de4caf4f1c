package views

import (
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Value is a reading as text: the value with its unit, or why there is none
// in words.
type Value struct {
	Text  string
	Mark  Mark
	Title string // explains the Mark
	Stamp string // the moment in Text, as RFC 3339; empty if there is none
}

// A Mark flags values that are missing or doubtful.
type Mark string

// The marks of a value.
const (
	Plain    Mark = ""
	Missing  Mark = "absent"
	Doubtful Mark = "doubtful"
)

func show(n number, format func(float64) string) Value {
	switch n.quality {
	case gpu.Good:
		return Value{Text: format(n.value)}
	case gpu.Doubtful:
		return Value{Text: format(n.value) + " ?", Mark: Doubtful, Title: doubtfulWhy}
	default:
		return absent(n.quality)
	}
}

// absent says why a reading has no value.
func absent(q gpu.Quality) Value {
	if q >= gpu.Doubtful { // the value is empty
		q = gpu.NotReported
	}
	return missing(absenceOf(q))
}

// missing returns a Value that says why there is none.
func missing(a absence) Value {
	return Value{Text: a.text, Mark: Missing, Title: a.why}
}

// shown returns a text that a process or a device reports about itself.
func shown(r gpu.Reading[string], limit int) Value {
	if text := clean(r.Or(""), limit); text != "" {
		return Value{Text: text}
	}
	return absent(r.Quality())
}

// split splits the text of a value around its moment.
func (v Value) split() (before, clock, after string) {
	t, err := time.Parse(time.RFC3339, v.Stamp)
	if err != nil {
		return v.Text, "", ""
	}
	clock = moment(t)
	before, after, _ = strings.Cut(v.Text, clock)
	return before, clock, after
}

// parted splits a value into figure and unit, which may be empty.
func (v Value) parted() (figure, unit string) {
	i := strings.LastIndex(v.Text, nbsp)
	if i < 0 || v.Mark != Plain {
		return v.Text, ""
	}
	return v.Text[:i], v.Text[i+len(nbsp):]
}

// attrs returns the attributes of the value's element.
func (v Value) attrs() templ.Attributes {
	return attributes("data-mark", string(v.Mark), "title", v.Title)
}

// attributes makes attributes from pairs of name and value, and drops empty values.
func attributes(pairs ...string) templ.Attributes {
	out := templ.Attributes{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = pairs[i+1]
		}
	}
	return out
}

// A Figure is a fact about a device, about all devices or about the machine. With a
// limit it also has a bar.
type Figure struct {
	Key    string // its name for scripts and styles
	Label  string
	Value  Value
	Remark string // beside the value, such as the limit: "of 450 W"; may be empty
	Fill   string // how much of the bar is filled, "0" to "100"; empty if unknown
	Level  Level
}

// A Level is how close a figure is to its limit.
type Level string

// The levels of a figure.
const (
	Normal Level = ""
	Near   Level = "near"
	AtTop  Level = "over"
	Bad    Level = "bad" // it is broken
)

// part returns the width of a bar for value out of limit; empty if either is absent.
func part(value, limit number) string {
	if !value.ok() || !limit.ok() || limit.value <= 0 {
		return ""
	}
	return width(100 * value.value / limit.value)
}

func (m Figure) attrs() templ.Attributes {
	return attributes("data-meter", m.Key, "data-level", string(m.Level))
}

// bar makes the drawing a meter for screen readers, or hides it if there is no value.
func (m Figure) bar() templ.Attributes {
	if m.Fill == "" {
		return attributes("aria-hidden", "true")
	}
	text := m.Value.Text
	if m.Remark != "" {
		text += ", " + m.Remark
	}
	return attributes("role", "meter", "aria-label", m.Label, "aria-valuenow", m.Fill, "aria-valuetext", text)
}
