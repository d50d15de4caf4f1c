package views

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// An Answer is the top of a page, from the headline to the details.
type Answer struct {
	Question string
	// The headline in parts: the text before the name, the working program's name, its user in parentheses, and the rest.
	Before, Name, By, After string
	Hue                     string // color class of the name
	Then                    string // replaces After when the readings are old; empty if it would be the same
	Size                    string // size of the headline's type: empty, "long" or "longer"
	Broken                  bool
	Chips                   []Chip
	Rest                    string
	Ways                    []Way
}

// A Way is one thing to do.
type Way struct {
	Text, Command string // the command to run exactly as it is; empty if there is none
}

// Headline returns the whole headline.
func (a Answer) Headline() string { return a.Before + a.Name + a.By + a.After }

// A Chip is a short fact behind the headline: a figure and its meaning.
type Chip struct {
	Key, Icon, Figure, Text string
	Level                   Level
}

// sizeOf picks the type size at which a headline fits the page.
func sizeOf(headline string) string {
	switch n := utf8.RuneCountInString(headline); {
	case n > 62:
		return "longer"
	case n > 44:
		return "long"
	default:
		return ""
	}
}

func newAnswer(in *Input) Answer {
	l := &in.Layers
	out := Answer{
		Question: in.question(),
		Size:     sizeOf(l.Headline),
		Broken:   l.Broken,
		Rest:     sentence(l.Rest),
		Ways:     each(in.Ways, func(w *explain.Way) Way { return Way{sentence(w.Text), w.Command} }),
	}
	if in.Ways == nil && l.Action.Text != "" {
		out.Ways = []Way{{sentence(l.Action.Text), l.Action.Command}}
	}
	last := -1 // one warning is enough: the last one is the effect of the others
	for i, f := range l.Facts {
		if f.Warning {
			last = i
		}
	}
	if l.Broken && last < 0 {
		last = 0
	}
	for i, f := range l.Facts {
		c := newChip(f.Text)
		if i == last {
			c.Level = Near
			if l.Broken {
				c.Level = Bad
			}
			c.Icon = either(c.Figure == "", either(l.Broken, "bad", "warn"), c.Icon)
		}
		if slices.ContainsFunc(out.Chips, func(other Chip) bool { return other.Key == c.Key }) {
			c.Key += "+"
		}
		out.Chips = append(out.Chips, c)
	}
	out.name(in, l.Headline)
	if then, same := strings.CutPrefix(sentence(in.Past), out.Before+out.Name+out.By); same && then != out.After {
		out.Then = then
	}
	return out
}

// name splits the headline around the program that works.
func (a *Answer) name(in *Input, headline string) {
	a.After = sentence(headline)
	for i := range in.Causes {
		c := &in.Causes[i]
		if c.Who == "" {
			continue
		}
		who := firstNamed(c.Who)
		whole := who.program
		if who.user != "" {
			whole += " (" + who.user + ")"
		}
		before, after, found := strings.Cut(headline, whole)
		user := " (" + clean(who.user, longestName) + ")"
		if owned := who.program + " of " + who.user; !found && who.user != "" { // the form used with several nodes
			before, after, found = strings.Cut(headline, owned)
			user = " of " + clean(who.user, longestName)
		}
		if !found || who.program == "" || strings.HasPrefix(who.program, "a process") || who.program == "unseen work" {
			return
		}
		a.Before, a.Name, a.After, a.Hue = sentence(before), clean(who.program, longestName), sentence(after), in.hueOfNamed(c, who.user)
		if who.user != "" {
			a.By = user
		}
		return
	}
}

// hueOfNamed returns the hue of the program that the headline names for a cause. The headline may have quoted or cut the user's name.
func (in *Input) hueOfNamed(c *explain.Cause, user string) string {
	if c.Device != nil {
		processes := c.Device.Processes.Or(nil)
		for i := range processes {
			if p := &processes[i]; strings.HasPrefix(c.Who, explain.ShortName(p)) {
				return in.hue(p)
			}
		}
	}
	return in.Hues.hueOf(unquoted(user))
}

// A Word is a part of a text. A Whole word must not break at its hyphens.
type Word struct {
	Text  string
	Whole bool
}

// wordsOf splits a text into hyphenated words and the text between them. Joined, they are the text again.
func wordsOf(text string) (out []Word) {
	for len(text) > 0 {
		end := strings.IndexByte(text, '-')
		if end < 0 {
			return append(out, Word{Text: text})
		}
		begin := strings.LastIndexByte(text[:end], ' ') + 1
		if after := strings.IndexByte(text[end:], ' '); after >= 0 {
			end += after
		} else {
			end = len(text)
		}
		if begin > 0 {
			out = append(out, Word{Text: text[:begin]})
		}
		out, text = append(out, Word{text[begin:end], true}), text[end:]
	}
	return out
}

// question returns the question that the page answers; empty on a GPU's own page.
func (in *Input) question() string {
	switch devices := len(in.devices()); {
	case in.only != nil:
		return ""
	case len(in.Nodes) > 1:
		return "What needs attention now?"
	case devices == 0 && len(in.Nodes) > 0:
		return "Why is my fan running?"
	default:
		return "Why is my GPU fan running?"
	}
}

var figureIn = regexp.MustCompile(`^(.*?)\s*(\d[\d.,]*[ \x{a0}](?:°C|k?W|%|MHz|RPM|s|min|h|d)(?: \d+[ \x{a0}](?:min|h))?)\s*(.*)$`)

// chipIcons maps words in a chip's text to its icon.
var chipIcons = []struct{ word, icon string }{
	{"°C", "temp"}, {"fan", "fan"}, {"RPM", "fan"}, {nbsp + "W", "bolt"}, {nbsp + "kW", "bolt"}, {"MHz", "chip"}, {"encoder", "film"}, {"decoder", "film"}, {"video", "film"}, {nbsp + "%", "chip"},
}

// newChip splits a fact into figure and text, such as "579 W of 600" or "fan 58 %".
func newChip(text string) Chip {
	text = sentence(text)
	c := Chip{Text: text}
	for _, i := range chipIcons {
		if strings.Contains(text, i.word) {
			c.Icon = i.icon
			break
		}
	}
	if strings.HasPrefix(text, "for ") {
		c.Icon = "clock"
	}
	if m := figureIn.FindStringSubmatch(text); m != nil {
		c.Figure, c.Text = m[2], strings.TrimSpace(m[1]+" "+m[3])
		if c.Text == "for" { // its word comes first
			c.Figure, c.Text = text, ""
		}
	}
	c.Key = c.Icon + ":" + c.Text
	return c
}

// works reports whether a device is busy, and whether that is known. Everything that counts busy devices uses it.
func (in *Input) works(d *gpu.Device) (works, known bool) {
	if d.State != gpu.StateOK {
		return false, d.State == gpu.StateAsleep
	}
	return worksBy(d, in.said(d))
}

// said returns the answer about a device; nil if there is none.
func (in *Input) said(d *gpu.Device) *explain.DeviceAnswer {
	if in.Said == nil {
		return nil
	}
	return in.Said(d)
}

// worksBy reports the same for a device that answers, given the answer about it.
func worksBy(d *gpu.Device, said *explain.DeviceAnswer) (works, known bool) {
	if said != nil {
		return said.Works()
	}
	engine := topEngine(d).value
	return engine.ok() && engine.value >= gpu.BusyFrom, engine.ok()
}
