package terminal

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A pane is a part of the frame that can be selected.
type pane int

const (
	machinePane pane = iota
	gpuPane
	processPane
	panes
)

// known is everything that a frame shows of the machines.
type known struct {
	machines []client.Machine // the worst first
	whole    client.Layers    // the answer about all of them, if there are several
	several  bool
	updates  map[string]*client.Update // the newest of each machine that was looked at
	alerts   *client.Alerts            // nil: not known
	series   series
	usual    time.Duration // between readings
	heard    time.Time     // when the newest of it arrived
}

// A model is the state of the view. Only Bubble Tea's goroutine calls it.
type model struct {
	ctx     context.Context //nolint:containedctx // of the requests that keys make
	options *Options
	looks   looks

	width, height int
	printed       bool // it is a print, not a terminal

	live   known  // what arrives
	frozen *known // what is shown while paused; nil: what arrives
	past   *pastView
	lost   error     // why nothing arrives; nil while it does
	noted  string    // what happened, in place of the keys
	until  time.Time // when it is taken away
	stale  string    // the age in words of what is shown, while it is old

	focus    pane
	selected [panes]string // keys of what is selected
	top      [panes]int    // the first row that is seen
	sort     order
	upward   bool // the other way round
	tree     bool
	user     string // whose processes are shown; empty: everybody's
	filter   string
	search   string
	input    *prompt // nil: no text is being typed
	menu     *menu   // nil: none is open
	page     *page   // nil: none is open

	frame tea.View // as drawn last
	drawn bool     // nothing has changed since
	left  bool     // somebody quits, or goes back to the shell for a while
	hits  hits
}

func newModel(ctx context.Context, o *Options) *model {
	m := &model{ctx: ctx, options: o, looks: newLooks(true), live: known{updates: map[string]*client.Update{}, series: series{}}, focus: processPane, sort: byWatts}
	if !o.From.IsZero() {
		m.past = newPastView(o.Machine, o.From)
	}
	return m
}

// shown is what the frame shows.
func (m *model) shown() *known {
	switch {
	case m.past != nil:
		return &m.past.then
	case m.frozen != nil:
		return m.frozen
	default:
		return &m.live
	}
}

// tick looks once a second whether what is shown has become old.
type tick struct{}

func nextTick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }

// leave ends the view.
type leave struct{}

// leave leaves nothing on the screen: some terminals that were resized mix what is on it with what was there before.
func (m *model) leave(cmd tea.Cmd) tea.Cmd {
	m.left = true
	return cmd
}

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd {
	cmds := []tea.Cmd{nextTick(), tea.RequestBackgroundColor}
	if m.past != nil {
		cmds = append(cmds, m.begin())
	}
	return tea.Batch(cmds...)
}

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.drawn
	m.drawn = false
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.BackgroundColorMsg:
		m.looks = newLooks(msg.IsDark())
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		if m.input != nil {
			cmd = m.typed(msg)
		}
	case tea.MouseClickMsg:
		cmd = m.click(msg.Mouse())
	case tea.MouseWheelMsg:
		m.wheel(msg.Mouse())
	case tick:
		cmd = nextTick()
		age := m.age()
		m.drawn = before && age == m.stale
		m.stale = age
		if m.noted != "" && m.options.Now().After(m.until) {
			m.noted, m.drawn = "", false
		}
	case leave:
		cmd = m.leave(tea.Quit)
	case tea.SuspendMsg, tea.ResumeMsg: // after it; the first also comes where nothing can be suspended
		m.left = false
	case pastAnswer:
		m.arrived(msg)
	case done:
		m.acted(msg)
	default:
		m.receive(msg)
		m.drawn = before && (m.past != nil || m.frozen != nil) && m.page == nil // the frame shows something else
	}
	return m, cmd
}

// receive takes in what a feed sends.
func (m *model) receive(msg tea.Msg) {
	if _, is := msg.(lost); !is {
		if _, is := msg.(notice); !is {
			m.lost, m.stale, m.live.heard = nil, "", m.options.Now()
		}
	}
	switch msg := msg.(type) {
	case greeting:
		m.live.several, m.live.usual = msg.several, msg.interval
	case machines:
		m.live.machines, m.live.whole = msg.list, msg.whole
		if m.selected[machinePane] == "" && len(msg.list) > 0 {
			m.choose(machinePane, msg.list[0].Node)
		}
	case update:
		m.live.updates[msg.Node] = msg.Update
		if msg.SilentSince == "" {
			m.live.series.add(msg.Update)
		}
		if !m.live.several && m.selected[machinePane] == "" {
			m.choose(machinePane, msg.Node)
		}
	case recent:
		m.live.series.begin(msg.Recent)
	case alerts:
		m.live.alerts = msg.Alerts
	case lost:
		m.lost = msg.error
		m.stale = m.age()
	case notice:
		m.note(string(msg))
	}
}

// noteFor is how long people can read what happened.
const noteFor = 10 * time.Second

func (m *model) note(text string) { m.noted, m.until = text, m.options.Now().Add(noteFor) }

// complete reports whether everything that a frame shows has arrived.
func (m *model) complete() bool {
	if m.past != nil {
		return m.past.then.updates[m.past.node] != nil
	}
	u := m.live.updates[m.node()]
	return u != nil && len(m.live.machines) > 0 && u.Status != "starting" && (m.options.Server == nil || m.live.alerts != nil)
}

// node is the machine whose GPUs are shown.
func (m *model) node() string {
	if m.past != nil {
		return m.past.node
	}
	return m.selected[machinePane]
}

// choose selects something.
func (m *model) choose(p pane, key string) {
	m.selected[p] = key
	if p == machinePane && m.past == nil {
		m.options.Feed.Look(key)
	}
}

// newest is the newest update of the machine whose GPUs are shown; nil if there is none.
func (k *known) newest(node string) *client.Update {
	if u := k.updates[node]; u != nil {
		return u
	}
	if !k.several {
		for _, u := range k.updates {
			return u
		}
	}
	return nil
}

// machine is the entry of a machine in the list; nil if there is none.
func (k *known) machine(node string) *client.Machine {
	if i := slices.IndexFunc(k.machines, func(c client.Machine) bool { return c.Node == node }); i >= 0 {
		return &k.machines[i]
	}
	return nil
}

// late is how long nothing may arrive before it is said. A feed sends something at each reading.
func (k *known) late() time.Duration { return 3*k.usual + 5*time.Second }

// age is how old what is shown is, if it is older than it should be; empty if it is not, and for what is old on purpose.
func (m *model) age() string {
	if m.past != nil || m.live.heard.IsZero() {
		return ""
	}
	old := m.options.Now().Sub(m.live.heard)
	if m.lost == nil && old < m.live.late() {
		return ""
	}
	return explain.Span(old)
}

// pause holds what is shown, or shows what arrives again.
func (m *model) pause() tea.Cmd {
	if m.frozen != nil {
		m.frozen = nil
		return nil
	}
	held := m.live
	held.updates, held.series = maps.Clone(held.updates), held.series.clone()
	m.frozen = &held
	return nil
}

// A prompt is a text that is being typed.
type prompt struct {
	textinput.Model
	label string
	apply func(m *model, text string) // at each change
	was   string                      // restored by Esc
}

func (m *model) ask(label, value string, apply func(m *model, text string)) tea.Cmd {
	in := textinput.New()
	in.Prompt, in.CharLimit = "", 100
	in.SetVirtualCursor(false)
	in.SetValue(value)
	in.SetWidth(40)
	m.input = &prompt{in, label, apply, value}
	return m.input.Focus()
}

// typed takes a key or a pasted text into the prompt.
func (m *model) typed(msg tea.Msg) (cmd tea.Cmd) {
	if key, is := msg.(tea.KeyPressMsg); is {
		switch key.String() {
		case "enter":
			m.input = nil
			return nil
		case "esc", "ctrl+c":
			m.input.apply(m, m.input.was)
			m.input = nil
			return nil
		}
	}
	m.input.Model, cmd = m.input.Update(msg)
	m.input.apply(m, m.input.Value())
	return cmd
}

// A menu is a list to choose from.
type menu struct {
	title    string
	items    []item
	selected int
}

type item struct {
	label string
	do    func(m *model) tea.Cmd
}

// choice takes a key into the menu.
func (m *model) choice(key string) tea.Cmd {
	n := len(m.menu.items)
	switch key {
	case "up", "k":
		m.menu.selected = max(0, m.menu.selected-1)
	case "down", "j":
		m.menu.selected = min(n-1, m.menu.selected+1)
	case "home", "g", "pgup":
		m.menu.selected = 0
	case "end", "G", "pgdown":
		m.menu.selected = n - 1
	case "enter", "space":
		chosen := m.menu.items[m.menu.selected]
		m.menu = nil
		return chosen.do(m)
	case "esc", "q", "f10", "ctrl+c":
		m.menu = nil
	}
	return nil
}

// matches reports whether a text has all the words of a filter.
func matches(filter string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		if !strings.Contains(all, word) {
			return false
		}
	}
	return true
}
