package views

import (
	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Value is a reading as text: the value with its unit, or in words why there
// is none.
type Value struct {
	Text  string
	Mark  Mark
	Title string // says more, where Mark is set
	At    string // the moment in Text, for scripts; empty where there is none
}

// Mark tells values apart that are not simply a value.
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
		return Value{Text: format(n.value) + " ?", Mark: Doubtful, Title: say("doubtful why")}
	default:
		return absent(n.quality)
	}
}

func absent(q gpu.Quality) Value {
	name := "not_reported"
	switch q {
	case gpu.NotSupported:
		name = "not_supported"
	case gpu.NotPermitted:
		name = "not_permitted"
	case gpu.Stale:
		name = "stale"
	}
	return missing(name)
}

// missing says that there is no value, and why.
func missing(name string) Value {
	return Value{Text: say(name), Mark: Missing, Title: say(name + " why")}
}

// shown is text that a process or a device reports about itself.
func shown(r gpu.Reading[string], limit int) Value {
	if text := clean(r.Or(""), limit); text != "" {
		return Value{Text: text}
	}
	return absent(r.Quality())
}

// attrs are what the value's element carries beside its text.
func (v Value) attrs() templ.Attributes {
	out := templ.Attributes{}
	if v.At != "" {
		out["data-at"] = v.At
	}
	if v.Mark != Plain {
		out["data-mark"] = string(v.Mark)
	}
	if v.Title != "" {
		out["title"] = v.Title
	}
	return out
}

// A Meter is a value against its own limit, with a bar.
type Meter struct {
	Key   string // names the meter to scripts and styles
	Label string
	Value Value
	Limit string // what the bar's end stands for, such as "of 450 W"; may be empty
	Fill  string // how much of the bar is filled, "0" to "100"; empty where that is not known
	Level Level
}

// Level is how near a meter is to its limit.
type Level string

// The levels of a meter.
const (
	Normal Level = ""
	Near   Level = "near"
	AtTop  Level = "over"
)

// fill sets the bar to value of limit.
func (m Meter) fill(value, limit number) Meter {
	if value.ok() && limit.ok() && limit.value > 0 {
		m.Fill = width(100 * value.value / limit.value)
	}
	return m
}

// text is the meter in words.
func (m Meter) text() string {
	if m.Limit == "" {
		return m.Value.Text
	}
	return m.Value.Text + ", " + m.Limit
}

func (m Meter) attrs() templ.Attributes {
	out := templ.Attributes{"data-meter": m.Key}
	if m.Level != Normal {
		out["data-level"] = string(m.Level)
	}
	return out
}

// bar makes the drawing a meter to those who can't see it, and nothing at all
// where there is no value.
func (m Meter) bar() templ.Attributes {
	if m.Fill == "" {
		return templ.Attributes{"aria-hidden": "true"}
	}
	return templ.Attributes{
		"role":           "meter",
		"aria-label":     m.Label,
		"aria-valuenow":  m.Fill,
		"aria-valuetext": m.text(),
	}
}

func (m Meter) width() string {
	if m.Fill == "" {
		return "0"
	}
	return m.Fill
}
