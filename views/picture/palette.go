package picture

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/a-h/templ"
)

// A color is a color token with its light and dark values.
type color struct{ name, light, dark string }

// colors lists all colors of the pages. Hues show who works: p1 to p5 are people, p6 is services. Amber means slowed or close to a limit, red means broken.
var colors = []color{
	{"back", "#f6f6f3", "#0b0d0e"}, {"paper", "#fff", "#121516"}, {"sunk", "#efefeb", "#1a1e20"}, {"rule", "#e3e3dd", "#22282a"}, {"rule-2", "#cdcdc5", "#363e41"},
	{"ink", "#14171a", "#f1f3f2"}, {"ink-2", "#474d53", "#b4bcbe"}, {"ink-3", "#656b71", "#8f989b"},
	{"warn", "#9a4700", "#ffb35c"}, {"warn-mark", "#e07b00", "#ff9f33"}, {"warn-soft", "#fff0da", "#33220d"},
	{"bad", "#bd1a2b", "#ff7a7a"}, {"bad-mark", "#d62839", "#ff5c5c"}, {"bad-soft", "#fdebec", "#3a1518"}, {"focus", "#1d5fd1", "#8ab4ff"},
	{"p1", "#0d9384", "#35c9b4"}, {"p2", "#5a63d8", "#8f98ff"}, {"p3", "#a04bb5", "#d494ea"},
	{"p4", "#0a7db5", "#5cc0f0"}, {"p5", "#65791a", "#b3cc5c"}, {"p6", "#64707d", "#97a3ad"},
}

// People is the number of hues for people; the next hue is for services and unknown users.
const People = 5

// A look is how elements of a kind look. A paint is a token; "hue", the color of its owner; "mark", "soft" or "words", the colors of its level;
// or one of these with its opacity in percent, as in "hue 20".
type look struct {
	kind               string // a class, or several
	fill, stroke, stop string
	width              float64
	dash, join, cap    string
	opacity            float64
	size, weight       int // type size and weight
	halo, crisp        bool
	yields             bool // on a page, an element's own stroke wins
}

// looks lists the looks of everything that is drawn, general ones first.
var looks = []look{
	{kind: "base", stroke: "rule", width: 1},
	{kind: "grid", stroke: "rule", width: 1, opacity: .7},
	{kind: "limit", stroke: "ink-3", width: 1, dash: "2 4"},
	{kind: "tick", fill: "ink-3", size: 11},
	{kind: "halo", halo: true},
	{kind: "shade", fill: "hue", opacity: .055},
	{kind: "began", stroke: "hue", width: 1, dash: "1 3", opacity: .6},
	{kind: "band", fill: "hue 20"},
	{kind: "band lead", fill: "hue 36"},
	{kind: "edge", stroke: "hue", width: 6},
	{kind: "name", fill: "ink-2", size: 13},
	{kind: "nm", fill: "ink", weight: 600},
	{kind: "part", fill: "hue 45"},
	{kind: "part rest", fill: "ink-3 26"},
	{kind: "line", stroke: "ink", width: 1.6, join: "round"},
	{kind: "heat", stroke: "ink", yields: true},
	{kind: "heat", width: 2.2, join: "round"},
	{kind: "h0", stop: "ink"}, {kind: "h1", stop: "warn-mark"}, {kind: "h2", stop: "bad-mark"},
	{kind: "under", fill: "ink", opacity: .035},
	{kind: "wave", stroke: "ink", width: 2.4, cap: "round", opacity: .8},
	{kind: "spread", fill: "ink-3", opacity: .15, crisp: true},
	{kind: "median", stroke: "ink-2", width: 1.2, dash: "4 3"},
	{kind: "hotline", stroke: "ink-3", width: 1.1, opacity: .8},
	{kind: "hotline first", stroke: "ink-2", opacity: 1},
	{kind: "beside", stroke: "focus", width: 1},
	{kind: "moment", stroke: "ink", width: 1.5},
	{kind: "raised", stroke: "mark", width: 1.2},
	{kind: "flag", fill: "soft"},
	{kind: "tri", fill: "mark"},
	{kind: "says", fill: "words", size: 11, weight: 600},
	{kind: "end", fill: "ink-2", size: 11},
	{kind: "end first", fill: "ink", weight: 600},
}

// Stylesheet returns the style sheet of colors and looks for pages.
func Stylesheet() string {
	var out strings.Builder
	out.WriteString("/* Made of views/picture/palette.go by \"make generate\": the colors of all pages, and how pictures look. */\n\n:root {\n")
	for _, c := range colors {
		fmt.Fprintf(&out, "  --%s: light-dark(%s, %s);\n", c.name, c.light, c.dark)
	}
	out.WriteString("}\n")
	for i := range People + 1 {
		fmt.Fprintf(&out, ".p%d { --hue: var(--p%d); }\n", i+1, i+1)
	}
	for _, level := range []string{"warn", "bad"} {
		fmt.Fprintf(&out, ".%s { --mark: var(--%[1]s-mark); --soft: var(--%[1]s-soft); --words: var(--%[1]s); }\n", level)
	}
	for _, l := range looks {
		fmt.Fprintf(&out, ".plot .%s", strings.ReplaceAll(l.kind, " ", "."))
		if l.yields {
			out.WriteString(":not([stroke])")
		}
		out.WriteString(" {")
		for _, p := range l.properties(func(paint string) string {
			name, percent, mixed := strings.Cut(paint, " ")
			if mixed {
				return "color-mix(in srgb, var(--" + name + ") " + percent + "%, var(--paper))"
			}
			return "var(--" + name + ")"
		}) {
			out.WriteString(" " + p[0] + ": " + p[1] + ";")
		}
		out.WriteString(" }\n")
	}
	return out.String()
}

// properties returns names and values, which style sheets and attributes share.
func (l *look) properties(value func(paint string) string) (out [][2]string) {
	add := func(name, text string, there bool) {
		if there {
			out = append(out, [2]string{name, text})
		}
	}
	paint := func(name, paint string) {
		if paint != "" {
			add(name, value(paint), true)
		}
	}
	paint("fill", l.fill)
	paint("stroke", l.stroke)
	paint("stop-color", l.stop)
	add("stroke-width", exact(l.width), l.width > 0 && l.width != 1)
	add("stroke-dasharray", l.dash, l.dash != "")
	add("stroke-linejoin", l.join, l.join != "")
	add("stroke-linecap", l.cap, l.cap != "")
	add("opacity", exact(l.opacity), l.opacity > 0)
	add("font-size", strconv.Itoa(l.size)+"px", l.size > 0)
	add("font-weight", strconv.Itoa(l.weight), l.weight > 0)
	add("shape-rendering", "crispEdges", l.crisp)
	if l.halo {
		add("paint-order", "stroke", true)
		paint("stroke", "paper")
		add("stroke-width", "4px", true)
		add("stroke-linejoin", "round", true)
	}
	return out
}

// A Theme is light or dark.
type Theme int

// The themes.
const (
	Light Theme = iota
	Dark
)

// Color returns the value of a color token.
func (t Theme) Color(name string) string {
	for _, c := range colors {
		if c.name == name {
			if t == Dark {
				return c.dark
			}
			return c.light
		}
	}
	panic("picture: no color is called " + name)
}

// Mixed returns a color at an opacity of 0 to 1, mixed with the background of an image.
func (t Theme) Mixed(name string, share float64) string {
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
	a, b := parse(t.Color(name)), parse(t.Color("back"))
	var out strings.Builder
	out.WriteByte('#')
	for i := range a {
		fmt.Fprintf(&out, "%02x", int(share*a[i]+(1-share)*b[i]+.5))
	}
	return out.String()
}

// attributes returns the look of an element in an image, which has no style sheet.
func (t Theme) attributes(kind, hue string) (out templ.OrderedAttributes) {
	value := func(paint string) string {
		name, percent, mixed := strings.Cut(paint, " ")
		switch {
		case name == "paper":
			name = "back" // the background of an image
		case name == "hue" && !strings.HasPrefix(hue, "p"):
			name = "p6"
		case name == "hue" || name == "words":
			name = hue
		case name == "mark" || name == "soft":
			name = hue + "-" + name
		}
		if mixed {
			share, _ := strconv.ParseFloat(percent, 64)
			return t.Mixed(name, share/100)
		}
		return t.Color(name)
	}
	set := func(name, value string) {
		i := slices.IndexFunc(out, func(a templ.KeyValue[string, any]) bool { return a.Key == name })
		if i < 0 {
			i, out = len(out), append(out, templ.KV[string, any](name, nil))
		}
		out[i].Value = value
	}
	classes := strings.Fields(kind + " " + hue)
	for i := range looks {
		l := &looks[i]
		if slices.ContainsFunc(strings.Fields(l.kind), func(c string) bool { return !slices.Contains(classes, c) }) {
			continue
		}
		if l.stroke != "" {
			set("fill", "none")
			set("vector-effect", "non-scaling-stroke")
		}
		for _, p := range l.properties(value) {
			set(p[0], p[1])
		}
	}
	return out
}
