package views

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// What is shared is the picture with the answer above it, as one file that explains itself. It has its own colors, since an
// image has no style sheet.

// shareTokens are the colors of shell.css that it needs, for light and dark.
var shareTokens = map[string][2]string{
	"back": {"#f6f6f3", "#0b0d0e"}, "paper": {"#fff", "#121516"}, "rule": {"#e3e3dd", "#22282a"},
	"ink": {"#14171a", "#f1f3f2"}, "ink-2": {"#474d53", "#b4bcbe"}, "ink-3": {"#656b71", "#8f989b"},
	"warn": {"#9a4700", "#ffb35c"}, "warn-mark": {"#e07b00", "#ff9f33"}, "warn-soft": {"#fff0da", "#33220d"},
	"bad": {"#bd1a2b", "#ff7a7a"}, "bad-mark": {"#d62839", "#ff5c5c"}, "bad-soft": {"#fdebec", "#3a1518"},
	"p1": {"#0d9384", "#35c9b4"}, "p2": {"#5a63d8", "#8f98ff"}, "p3": {"#a04bb5", "#d494ea"},
	"p4": {"#0a7db5", "#5cc0f0"}, "p5": {"#65791a", "#b3cc5c"}, "p6": {"#64707d", "#97a3ad"},
}

// A Theme is light or dark.
type Theme int

// The themes.
const (
	Light Theme = iota
	Dark
)

func (t Theme) color(name string) string { return shareTokens[name][t] }

// mixed is so much of a color, 0 to 1, on the ground.
func (t Theme) mixed(name string, share float64) string {
	parse := func(text string) (rgb [3]float64) {
		text = strings.TrimPrefix(text, "#")
		if len(text) == 3 {
			text = string([]byte{text[0], text[0], text[1], text[1], text[2], text[2]})
		}
		for i := range rgb {
			v, _ := strconv.ParseUint(text[2*i:2*i+2], 16, 8)
			rgb[i] = float64(v)
		}
		return rgb
	}
	a, b := parse(t.color(name)), parse(t.color("back"))
	var out strings.Builder
	out.WriteByte('#')
	for i := range a {
		fmt.Fprintf(&out, "%02x", int(share*a[i]+(1-share)*b[i]+.5))
	}
	return out.String()
}

const shareFont = "-apple-system, 'Segoe UI Variable Text', 'Segoe UI', 'Adwaita Sans', Inter, Cantarell, Ubuntu, Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"

// paint is the palette of a theme.
func (t Theme) paint(kind, hue string) templ.Attributes {
	name := hue
	if !strings.HasPrefix(hue, "p") {
		name = "p6"
	}
	level := func(part string) string { return t.color(either(hue == "bad", "bad", "warn") + part) }
	stroke := func(color string, width string, more ...string) templ.Attributes {
		return attributes(append([]string{"fill", "none", "stroke", color, "stroke-width", width, "vector-effect", "non-scaling-stroke"}, more...)...)
	}
	text := func(color, size, weight string, more ...string) templ.Attributes {
		return attributes(append([]string{"fill", color, "font-size", size, "font-weight", weight}, more...)...)
	}
	switch strings.Fields(kind)[0] {
	case "base", "grid":
		return stroke(t.color("rule"), "1")
	case "limit":
		return stroke(t.color("ink-3"), "1", "stroke-dasharray", "2 4")
	case "tick":
		return text(t.color("ink-3"), "12", "400", "text-anchor", either(kind == "tick middle", "middle", "start"), "paint-order", "stroke", "stroke", t.color("back"), "stroke-width", "4")
	case "shade":
		return attributes("fill", t.color(name), "opacity", ".055")
	case "began":
		return stroke(t.color(name), "1", "stroke-dasharray", "1 3", "opacity", ".6")
	case "band":
		if kind != "band" { // the answer names it
			return attributes("fill", t.mixed(name, .36))
		}
		return attributes("fill", t.mixed(name, .2))
	case "edge":
		return stroke(t.color(name), "6")
	case "name", "us":
		return text(t.color("ink-2"), "13", "400")
	case "nm":
		return text(t.color("ink"), "13", "600")
	case "part":
		if hue == "rest" {
			return attributes("fill", t.mixed("ink-3", .26))
		}
		return attributes("fill", t.mixed(name, .45))
	case "line":
		return stroke(t.color("ink"), "1.6", "stroke-linejoin", "round")
	case "heat":
		return stroke(t.color("ink"), "2.2", "stroke-linejoin", "round")
	case "h0":
		return attributes("stop-color", t.color("ink"))
	case "h1":
		return attributes("stop-color", t.color("warn-mark"))
	case "h2":
		return attributes("stop-color", t.color("bad-mark"))
	case "under":
		return attributes("fill", t.color("ink"), "opacity", ".035")
	case "wave":
		return stroke(t.color("ink"), "2.4", "stroke-linecap", "round", "opacity", ".8")
	case "spread":
		return attributes("fill", t.color("ink-3"), "opacity", ".15", "shape-rendering", "crispEdges")
	case "median":
		return stroke(t.color("ink-2"), "1.2", "stroke-dasharray", "4 3")
	case "hotline":
		return stroke(t.color("ink-3"), "1.1", "opacity", ".8")
	case "raised":
		return stroke(level("-mark"), "1.2")
	case "flag":
		return attributes("fill", level("-soft"))
	case "tri":
		return attributes("fill", level("-mark"))
	case "says":
		return text(level(""), "11.5", "600")
	default:
		return templ.Attributes{}
	}
}

// A Shared is the picture that is saved.
type Shared struct {
	Picture Picture
	Answer  Answer
	theme   Theme
	Size    float64 // of the headline
	Chips   []SharedChip
	Foot    string
}

// A SharedChip is a chip with its place.
type SharedChip struct {
	Chip
	X, Width string
}

// NewShared makes the picture of a page to be saved. Its times are those of now's zone.
func NewShared(in Input, theme Theme) Shared {
	s := Shared{Picture: newPicture(&in), Answer: newAnswer(&in), theme: theme}
	p := &s.Picture
	p.paint = theme.paint
	zone := in.Now.Location()
	for i := range p.Ticks {
		p.Ticks[i].At = p.Ticks[i].At.In(zone)
	}
	s.Size = min(48, 48*1100/max(textWidth(s.headline(), 48)+20, 1))
	x := 44.
	for _, c := range s.Answer.Chips {
		width := 26 + textWidth(c.Figure+" "+c.Text, 15.5)
		if x+width > 1156 {
			break
		}
		s.Chips = append(s.Chips, SharedChip{c, tenth(x), tenth(width)})
		x += width + 8
	}
	s.Foot = p.Place
	if d := in.subject(); d != nil {
		s.Foot = dots(s.Foot, p.Title, clean(d.Name, longestName))
	} else {
		s.Foot = dots(s.Foot, p.Title)
	}
	if !p.Empty {
		from, to := p.From.In(zone), p.To.In(zone)
		s.Foot = dots(s.Foot, from.Format("2 Jan 2006, 15:04")+" – "+to.Format("15:04 MST"))
	}
	return s
}

func (s *Shared) headline() string { return s.Answer.Headline() }

// simulated is what the readings are where they are not of this machine as it is.
func (s *Shared) simulated() string {
	switch gpu.Kind(s.Picture.Kind) {
	case gpu.Simulated:
		return "Simulated"
	case gpu.Recorded:
		return "A recording"
	}
	return ""
}

// parts of the headline, and where each begins.
func (s *Shared) parts() (name, rest float64) {
	const left = 44
	name = left + textWidth(s.Answer.Before, s.Size)
	rest = name
	if s.Answer.Name != "" {
		rest += textWidth(s.Answer.Name, s.Size) + .28*s.Size
	}
	return name, rest
}

// textWidth is about how wide a text is in a usual font of that size; bold is a little wider.
func textWidth(text string, size float64) (width float64) {
	for _, r := range text {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|!()[]/ \u00a0", r):
			width += .31
		case strings.ContainsRune("mwMW%@", r):
			width += .87
		case unicode.IsUpper(r):
			width += .7
		default:
			width += .57
		}
	}
	return width * size
}

// top is where a reading stands, beside its lane.
func (s *Shared) top(i int) int {
	places := []int{206, 268, 362, 452}
	if s.Picture.Crowd {
		places = []int{212, 290, 420}
	}
	return places[min(i, len(places)-1)]
}

func (s *Shared) level(r PictureReading) string {
	switch r.Level {
	case Near:
		return "warn"
	case AtTop:
		return "bad"
	}
	return "ink"
}

// chip is a color of a chip: that of its level, or else another one.
func (s *Shared) chip(c SharedChip, part, other string) string {
	switch c.Level {
	case Near:
		return "warn" + part
	case Bad:
		return "bad" + part
	}
	return other
}
