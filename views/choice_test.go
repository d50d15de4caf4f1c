//go:build !race

package views

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// What a page does not know is in none of its links, and nothing that is asked makes a page long.
func TestPagesKeepWhatTheyKnow(t *testing.T) {
	var many []string
	for i := range 5000 {
		many = append(many, strconv.Itoa(i))
	}
	long := strings.Repeat("é", 30_000)
	cards, squares := working(8, nil), working(300, nil)
	for name, page := range map[string]func(Input) templ.Component{
		"dashboard": func(in Input) templ.Component { return NewPage(in) },
		"squares":   func(in Input) templ.Component { in.Nodes = gpu.Nodes{squares}; return NewPage(in) },
		"GPU":       func(in Input) templ.Component { return NewDevicePage(in, &cards.Devices[0]) },
		"processes": func(in Input) templ.Component { return NewProcessesPage(in) },
		"alerts":    func(in Input) templ.Component { return NewAlertsPage(AlertsInput{Input: in}) },
		"find":      func(in Input) templ.Component { return NewFindPage(in) },
		"nodes":     func(in Input) templ.Component { return NewNodesPage(in) },
		"about":     func(in Input) templ.Component { return NewAboutPage(in) },
		"embedded":  func(in Input) templ.Component { return NewEmbedPage(in, &cards.Devices[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			in := input(cards, "why")
			in.Choices = Choices{Path: "/here", Asked: url.Values{"strange": {long}, "unknown": {"1"}}}
			plain := len(render(t, page(Input{Nodes: in.Nodes, Asset: in.Asset, BasePath: "/", Now: noon, Choices: Choices{Path: "/here"}})))
			for _, known := range []string{"q", "sort", "gpu", "user", "process", "group", "show", "tab", "from"} {
				in.Asked.Set(known, long)
			}
			in.Asked["pin"] = []string{strings.Join(many, ","), "7", long}
			html := render(t, page(in))
			if strings.Contains(html, "unknown=") || strings.Contains(html, "strange=") {
				t.Error("it repeats what it does not know")
			}
			if n := len(html); n > plain+500_000 {
				t.Errorf("it has %d bytes, and %d where nothing is asked", n, plain)
			}
		})
	}
	in := input(cards, "why")
	in.Choices = Choices{Path: "/", Asked: url.Values{"pin": {strings.Join(many, ","), "7"}}}
	if pins := NewPage(in).in.pins(); len(pins) != mostPins || !slices.Equal(pins, many[:mostPins]) {
		t.Errorf("%d devices are pinned", len(pins))
	}
}
