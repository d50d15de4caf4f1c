package past

import (
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/recent"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Minutes are the last minutes of all nodes, in memory.
type Minutes struct{ *recent.Store }

// NewMinutes returns those of a program that has seen nothing yet.
func NewMinutes() *Minutes { return &Minutes{recent.New()} }

// Name implements [part.Part].
func (*Minutes) Name() string { return "recent" }

// Observe takes in Moments, but for those of nodes of which nothing is heard.
func (m *Minutes) Observe(moments []*insight.Moment) {
	for _, moment := range moments {
		if moment.Link.Silent.IsZero() {
			m.Store.Observe(moment)
		}
	}
}

// Documents has the last minutes.
func (m *Minutes) Documents() []state.Document {
	return []state.Document{state.Of("recent", "the last minutes", state.AtEnd, m.Store)}
}
