package web

import (
	"net/url"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/recent"
	"github.com/gpuwhy/gpuwhy/views"
	"github.com/gpuwhy/gpuwhy/views/picture"
)

// image returns the picture of a page as an image, in the requested theme.
func (p *Pages) image(f *insight.Fleet, node string, asked url.Values) templ.Component {
	theme := picture.Light
	if asked.Get("theme") == "dark" {
		theme = picture.Dark
	}
	return views.NewShared(p.all(f, node, asked), theme)
}

// recent returns a function for the recent past of a page's devices: of one node, or of all.
func (p *Pages) recent(f *insight.Fleet, page string) func(node, uuid string, step time.Duration) *recent.Table {
	return func(node, uuid string, step time.Duration) *recent.Table {
		if node == "" {
			node = page
		}
		of := f
		if m, ok := f.Node(node); ok {
			of = m.Alone()
		}
		_, every, _ := p.cfg.Monitor.Pace(of)
		return p.cfg.Recent.Table(recent.Question{Node: node, UUID: uuid, Step: step, Interval: every})
	}
}
