package views

import (
	"unicode/utf16"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// An Answer is what a page says first, from the shortest text to more.
type Answer struct {
	Headline string
	Long     bool // the headline takes a smaller type
	Broken   bool
	Chips    []Chip
	Rest     string
	Action   string
	Command  string // exactly as it is to be run
}

// A Chip is a short text that the headline rests on.
type Chip struct {
	Text    string
	Warning bool
}

// longHeadline is above how many characters, as scripts count them, a headline is long.
const longHeadline = 45

func newAnswer(l *contract.Layers) Answer {
	return Answer{
		Headline: sentence(l.Headline),
		Long:     len(utf16.Encode([]rune(l.Headline))) > longHeadline,
		Broken:   l.Broken,
		Chips:    each(l.Facts, func(f *contract.Fact) Chip { return Chip{sentence(f.Text), f.Warning} }),
		Rest:     sentence(l.Rest),
		Action:   sentence(l.Action.Text),
		Command:  l.Action.Command,
	}
}
