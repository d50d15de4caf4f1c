package web

import (
	"time"

	"github.com/gpuwhy/gpuwhy/internal/recent"
)

// recent answers about the recent past of a page's devices: of one node, or of all.
func (p *Pages) recent(page string) func(node, uuid string, step time.Duration) *recent.Table {
	return func(node, uuid string, step time.Duration) *recent.Table {
		if node == "" {
			node = page
		}
		return p.cfg.Recent.Table(recent.Question{Node: node, UUID: uuid, Step: step, Interval: p.cfg.Monitor.Interval})
	}
}
