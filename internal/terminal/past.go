package terminal

import (
	"bytes"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A pastView is a machine at a past time.
type pastView struct {
	node     string    // empty: the only one
	at       time.Time // that is asked for
	then     known
	err      error  // why it is not known
	sentence string // what happened in the span that was named
	chapters []client.PastChapter
}

func newPastView(node string, at time.Time) *pastView {
	return &pastView{node: node, at: at, then: known{updates: map[string]*client.Update{}, series: series{}}}
}

// pastAnswer is what is known of a past time.
type pastAnswer struct {
	of     *pastView
	at     time.Time // that was asked for
	moment *client.PastMoment
	before *client.History // of the charts
	story  *client.PastWhy // of the span, if one was named
	err    error
}

func (m *model) isPast() bool      { return m.past != nil && m.menu == nil }
func (m *model) isLive() bool      { return m.past == nil }
func (m *model) hasPast() bool     { return m.options.Past != nil }
func (m *model) canGoBack() bool   { return m.hasPast() && m.past == nil }
func (m *model) hasChapters() bool { return m.past != nil && len(m.past.chapters) > 0 }

// step goes through time.
func step(by time.Duration) func(m *model) tea.Cmd {
	return func(m *model) tea.Cmd {
		if m.past == nil {
			from := m.end()
			if from.IsZero() {
				from = m.options.Now()
			}
			m.past = newPastView(m.node(), from)
			if u := m.shown().newest(m.node()); u != nil {
				m.past.node = u.Node
			}
		}
		at := m.past.at.Add(by)
		if now := m.options.Now(); at.After(now) {
			at = now
		}
		return m.jump(at)
	}
}

// jump asks for another time. What was shown stays until the answer is here.
func (m *model) jump(at time.Time) tea.Cmd {
	m.past.at = at
	return m.lookUp(false)
}

// begin asks for the time that the command was given, and for what happened if that is a span.
func (m *model) begin() tea.Cmd { return m.lookUp(!m.options.To.IsZero()) }

func (m *model) lookUp(story bool) tea.Cmd {
	p, ctx, options := m.past, m.ctx, m.options
	at, node := p.at, p.node
	return func() tea.Msg {
		out := pastAnswer{of: p, at: at}
		ask := func(r client.Request) ([]byte, error) {
			var b bytes.Buffer
			err := options.Past(ctx, r, &b)
			return b.Bytes(), err
		}
		if story {
			call := client.GetPastWhy(client.Span{From: options.From.Format(time.RFC3339), To: options.To.Format(time.RFC3339), Node: node})
			if out.story, out.err = answered(ask, call); out.err != nil {
				return out
			}
			if len(out.story.Chapters) > 0 { // where something happened
				if t := moment(out.story.Chapters[0].From); t.After(at) {
					at = t
					out.at = t
				}
			}
		}
		if out.moment, out.err = answered(ask, client.GetAt(at.Format(time.RFC3339), "", node)); out.err != nil {
			return out
		}
		out.before, out.err = answered(ask, client.GetHistory(client.Span{
			From: at.Add(-span).Format(time.RFC3339), To: at.Format(time.RFC3339), Node: out.moment.Then.Node,
		}, "", historyNames[:]...))
		return out
	}
}

// historyNames are the metrics of charts, by what the stored past calls them.
var historyNames = [metrics]string{"utilization_gpu", "power_draw", "thermal_gpu", "fans_commanded"}

func answered[A any](ask func(client.Request) ([]byte, error), call client.Call[A]) (*A, error) {
	text, err := ask(call.Request)
	if err != nil {
		return nil, err
	}
	return call.Decode(text)
}

// arrived takes in an answer, unless another time was asked for since.
func (m *model) arrived(a pastAnswer) {
	p := m.past
	if p != a.of {
		return
	}
	if a.story != nil {
		p.sentence, p.chapters = a.story.Sentence, a.story.Chapters
		if a.at.After(p.at) && p.at.Equal(m.options.From) {
			p.at = a.at
		}
	}
	if !p.at.Equal(a.at) {
		return
	}
	p.err = a.err
	if a.moment == nil {
		return
	}
	then := &a.moment.Then
	p.node = then.Node
	p.then = known{updates: map[string]*client.Update{then.Node: then}, series: series{}, heard: m.options.Now()}
	if a.before != nil {
		p.then.series.stored(a.before)
		p.then.usual = time.Duration(a.before.Step * float64(time.Second))
	}
}

// chapterMenu lists what happened, to jump to.
func (m *model) chapterMenu() tea.Cmd {
	n := &menu{title: "What happened"}
	for _, c := range m.past.chapters {
		from := moment(c.From)
		n.items = append(n.items, item{explain.Clock(from.In(m.options.Zone), "Mon 15:04") + "  " + c.Sentence, func(m *model) tea.Cmd { return m.jump(from) }})
		if !from.After(m.past.at) {
			n.selected = len(n.items) - 1
		}
	}
	m.menu = n
	return nil
}
