package views

import (
	"strings"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// The shared picture is one file with the answer above the picture, so it explains itself. An image has no style sheet: it contains
// its colors.

const shareFont = "-apple-system, 'Segoe UI Variable Text', 'Segoe UI', 'Adwaita Sans', Inter, Cantarell, Ubuntu, Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"

// A Shared is the view model of the saved picture.
type Shared struct {
	Picture Picture
	Answer  Answer
	theme   picture.Theme
	Size    float64 // type size of the headline
	Chips   []SharedChip
	Foot    string
}

// A SharedChip is a chip with its position.
type SharedChip struct {
	Chip
	X, Width string
}

// NewShared makes the saved picture of a page. Its times are in the time zone of in.Now.
func NewShared(in Input, theme picture.Theme) Shared {
	s := Shared{Picture: newPicture(&in), Answer: newAnswer(&in), theme: theme}
	p := &s.Picture
	zone := in.Now.Location()
	p.Field.Theme, p.Field.Local, p.Field.Foot = &theme, false, "98%"
	for i := range p.Field.Ticks {
		t := &p.Field.Ticks[i]
		t.Label = t.Time.In(zone).Format("15:04")
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

// simulated says what kind of data it shows if that is not live.
func (s *Shared) simulated() string {
	switch gpu.Kind(s.Picture.Kind) {
	case gpu.Simulated:
		return "Simulated"
	case gpu.Recorded:
		return "Recorded"
	}
	return ""
}

// parts returns where the name and the rest of the headline begin.
func (s *Shared) parts() (name, rest float64) {
	const left = 44
	name = left + textWidth(s.Answer.Before, s.Size)
	rest = name
	if s.Answer.Name != "" {
		rest += textWidth(s.Answer.Name, s.Size) + .28*s.Size
	}
	return name, rest
}

// textWidth estimates the width of a text in a common font of that size; bold is a little wider.
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

// top returns the position of a reading beside its lane.
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

// chip returns a color of a chip: that of its level, or else other.
func (s *Shared) chip(c SharedChip, part, other string) string {
	switch c.Level {
	case Near:
		return "warn" + part
	case Bad:
		return "bad" + part
	}
	return other
}
