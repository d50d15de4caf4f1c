package terminal

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
)

// A binding is what keys do. The help and the footer are made of them.
type binding struct {
	keys   []keyName
	footer string // in the footer, after the first key; empty: not there
	help   string
	when   func(m *model) bool // nil: always; while it is false, the keys do nothing and are not in the footer
	do     func(m *model) tea.Cmd
}

// A keyName is a key, as Bubble Tea and as people call it.
type keyName struct{ code, label string }

func key(codes ...string) (all []keyName) {
	labels := map[string]string{
		"up": "↑", "down": "↓", "left": "←", "right": "→", "pgup": "PgUp", "pgdown": "PgDn", "home": "Home", "end": "End", "space": "Space", "tab": "Tab",
		"shift+tab": "Shift+Tab", "enter": "Enter", "esc": "Esc", "ctrl+c": "Ctrl+C", "ctrl+z": "Ctrl+Z",
	}
	for _, code := range codes {
		label := cmp.Or(labels[code], code)
		if len(code) > 1 && code[0] == 'f' {
			label = strings.ToUpper(code)
		}
		all = append(all, keyName{code, label})
	}
	return all
}

// bindings are all keys, in the order of the help.
var bindings []binding

func init() { //nolint:gochecknoinits // the help is one of the bindings, and is made of all
	bindings = []binding{
		{keys: key("f1", "?", "h"), footer: "Help", help: "this help", do: func(m *model) tea.Cmd { m.open(helpPage, ""); return nil }},
		{keys: key("enter", "i"), footer: "Details", help: "everything about the selected machine, GPU or process, with the evidence of the answer", do: (*model).detail},
		{keys: key("a"), footer: "Acknowledge", help: "acknowledge the alert", when: (*model).mayActOnWorst, do: (*model).acknowledge},
		{keys: key("x"), footer: "Silence", help: "silence the alert, for a time that you choose", when: (*model).mayActOnWorst, do: (*model).silenceMenu},
		{keys: key("l"), footer: "Live", help: "back to now", when: (*model).isPast, do: func(m *model) tea.Cmd { m.past = nil; m.page = nil; return nil }},
		{keys: key("c"), footer: "Chapters", help: "what happened in the time that --at names, to jump to", when: (*model).hasChapters, do: (*model).chapterMenu},
		{keys: key("[", "left"), footer: "Earlier", help: "a minute back; { goes back a quarter of an hour", when: (*model).isPast, do: step(-time.Minute)},
		{keys: key("]", "right"), footer: "Later", help: "a minute forward; } goes forward a quarter of an hour", when: (*model).isPast, do: step(time.Minute)},
		{keys: key("f3", "/"), footer: "Search", help: "search: jumps to what has these words; n finds the next", do: func(m *model) tea.Cmd {
			return m.ask("Search", m.search, func(m *model, text string) { m.search = text; m.find(0) })
		}},
		{keys: key("f4", "\\"), footer: "Filter", help: "filter: shows only the processes that have all these words", do: func(m *model) tea.Cmd {
			return m.ask("Filter", m.filter, func(m *model, text string) { m.filter = text })
		}},
		{keys: key("f5", "t"), footer: "Tree", help: "tree: processes below their user, and below the container, pod, job or unit they run in", do: func(m *model) tea.Cmd { m.tree = !m.tree; return nil }},
		{keys: key("f6", "s"), footer: "Sort", help: "choose what to sort processes by", do: (*model).sortMenu},
		{keys: key("W"), help: "sort by watts", do: sortBy(byWatts)},
		{keys: key("P"), help: "sort by GPU %", do: sortBy(byUse)},
		{keys: key("M"), help: "sort by memory", do: sortBy(byMemory)},
		{keys: key("T"), help: "sort by time running", do: sortBy(byTime)},
		{keys: key("N"), help: "sort by process id", do: sortBy(byPID)},
		{keys: key("I"), help: "sort the other way round", do: func(m *model) tea.Cmd { m.upward = !m.upward; return nil }},
		{keys: key("u"), footer: "User", help: "show only one user's processes", do: (*model).userMenu},
		{keys: key("space"), footer: "Pause", help: "pause, and go on", when: (*model).isLive, do: (*model).pause},
		{keys: key("tab", "shift+tab"), footer: "Pane", help: "select the next table: machines, GPUs, processes", do: func(m *model) tea.Cmd { m.nextPane(1); return nil }},
		{keys: key("[", "left"), footer: "Past", help: "into the past, a minute back; { goes back a quarter of an hour", when: (*model).canGoBack, do: step(-time.Minute)},
		{keys: key("{"), help: "a quarter of an hour back", when: (*model).hasPast, do: step(-15 * time.Minute)},
		{keys: key("}"), help: "a quarter of an hour forward", when: (*model).isPast, do: step(15 * time.Minute)},
		{keys: key("up", "k"), help: "one row up", do: move(-1)},
		{keys: key("down", "j"), help: "one row down", do: move(1)},
		{keys: key("pgup"), help: "ten rows up", do: move(-10)},
		{keys: key("pgdown"), help: "ten rows down", do: move(10)},
		{keys: key("home", "g"), help: "the first row", do: move(-1 << 20)},
		{keys: key("end", "G"), help: "the last row", do: move(1 << 20)},
		{keys: key("n"), help: "the next row that the search finds", do: func(m *model) tea.Cmd { m.find(1); return nil }},
		{keys: key("esc"), help: "close, or show all processes again", do: (*model).escape},
		{keys: key("ctrl+z"), help: "back to the shell; fg returns", do: func(m *model) tea.Cmd { return m.leave(tea.Suspend) }},
		{keys: key("q", "f10", "ctrl+c"), footer: "Quit", help: "quit, or close what is open", do: (*model).quit},
	}
}

// key does what a key is bound to.
func (m *model) key(msg tea.KeyPressMsg) tea.Cmd {
	code := msg.String()
	m.noted = ""
	switch {
	case m.input != nil:
		return m.typed(msg)
	case m.menu != nil:
		return m.choice(code)
	case code == "shift+tab":
		m.nextPane(-1)
		return nil
	}
	for i := range bindings {
		b := &bindings[i]
		if slices.ContainsFunc(b.keys, func(k keyName) bool { return k.code == code }) && (b.when == nil || b.when(m)) {
			return b.do(m)
		}
	}
	return nil
}

func (m *model) quit() tea.Cmd {
	if m.page != nil {
		m.page = nil
		return nil
	}
	return m.leave(tea.Quit)
}

func (m *model) escape() tea.Cmd {
	if m.page != nil {
		m.page = nil
		return nil
	}
	m.filter, m.user = "", ""
	return nil
}

// livePanes are the panes that the frame has.
func (m *model) livePanes() []pane {
	if m.shown().several && m.past == nil {
		return []pane{machinePane, gpuPane, processPane}
	}
	return []pane{gpuPane, processPane}
}

func (m *model) nextPane(by int) {
	all := m.livePanes()
	i := slices.Index(all, m.focus)
	m.focus = all[(i+by+len(all))%len(all)]
}

// keysOf are the keys of a pane's rows, in order.
func (m *model) keysOf(p pane) (keys []string) {
	k := m.shown()
	u := k.newest(m.node())
	switch {
	case p == machinePane:
		for i := range k.machines {
			keys = append(keys, k.machines[i].Node)
		}
	case u == nil:
	case p == gpuPane:
		for i := range u.GPUs {
			keys = append(keys, gpuKey(&u.GPUs[i]))
		}
	case p == processPane:
		for _, e := range m.entries(u) {
			keys = append(keys, e.key)
		}
	}
	return keys
}

// move selects the row so many rows further, or scrolls a page.
func move(by int) func(m *model) tea.Cmd {
	return func(m *model) tea.Cmd {
		m.moveIn(m.focus, by)
		return nil
	}
}

func (m *model) moveIn(p pane, by int) {
	if m.page != nil {
		m.page.top = max(0, m.page.top+by)
		return
	}
	keys := m.keysOf(p)
	if len(keys) == 0 {
		return
	}
	i := slices.Index(keys, m.selected[p])
	switch {
	case i >= 0:
		i += by
	case by > 1:
		i = by - 1
	default:
		i = 0
	}
	m.choose(p, keys[max(0, min(i, len(keys)-1))])
}

// find selects the next row of the pane with the words of the search, from the selected one on.
func (m *model) find(from int) {
	texts := m.texts()
	keys := m.keysOf(m.focus)
	if m.search == "" || len(keys) == 0 {
		return
	}
	at := max(0, slices.Index(keys, m.selected[m.focus]))
	for i := range keys {
		n := (at + from + i) % len(keys)
		if matches(m.search, texts[n]) {
			m.choose(m.focus, keys[n])
			m.noted = ""
			return
		}
	}
	if m.input == nil {
		m.note("Nothing here has “" + m.search + "”.")
	}
}

// texts are what a search looks at, by row of the pane.
func (m *model) texts() (texts []string) {
	k := m.shown()
	u := k.newest(m.node())
	switch {
	case m.focus == machinePane:
		for i := range k.machines {
			c := &k.machines[i]
			texts = append(texts, strings.Join([]string{c.Node, c.Cluster, c.State, c.Headline}, " "))
		}
	case u == nil:
	case m.focus == gpuPane:
		for i := range u.GPUs {
			g := &u.GPUs[i]
			texts = append(texts, strings.Join([]string{strconv.Itoa(g.ID), g.Name, g.UUID, g.State, g.Headline}, " "))
		}
	default:
		for _, e := range m.entries(u) {
			if e.group != "" {
				texts = append(texts, e.group)
				continue
			}
			texts = append(texts, strings.Join([]string{strconv.Itoa(e.process.PID), e.user(), place(e.process), e.command(), e.process.Name}, " "))
		}
	}
	return texts
}

func sortBy(o order) func(m *model) tea.Cmd {
	return func(m *model) tea.Cmd {
		m.upward = m.sort == o && !m.upward
		m.sort = o
		return nil
	}
}

func (m *model) sortMenu() tea.Cmd {
	n := &menu{title: "Sort processes by"}
	for i, o := range orders {
		label := o.label
		if o.key != "" {
			label = fit(label, 14, false) + " " + o.key
		}
		n.items = append(n.items, item{label, func(m *model) tea.Cmd { m.sort, m.upward = o.order, false; return nil }})
		if o.order == m.sort {
			n.selected = i
		}
	}
	m.menu = n
	return nil
}

func (m *model) userMenu() tea.Cmd {
	n := &menu{title: "Processes of", items: []item{{"everybody", func(m *model) tea.Cmd { m.user = ""; return nil }}}}
	var users []string
	if u := m.shown().newest(m.node()); u != nil {
		for _, e := range merged(u) {
			if name := e.user(); name != "" && !slices.Contains(users, name) {
				users = append(users, name)
			}
		}
	}
	slices.Sort(users)
	for i, name := range users {
		n.items = append(n.items, item{name, func(m *model) tea.Cmd { m.user = name; return nil }})
		if name == m.user {
			n.selected = i + 1
		}
	}
	m.menu = n
	return nil
}

// done says what came of an action.
type done struct {
	text string
	err  error
}

func (m *model) acted(d done) {
	m.note(d.text)
	if d.err != nil {
		m.note("! " + words(d.err))
	}
}

// mayAct reports whether gpuwhy lets this person act on an alert. It decides again when they do.
func (m *model) mayAct(a *client.Alert) bool {
	c := m.live.machine(a.Node)
	return m.options.Server != nil && m.past == nil && c != nil && c.MayOperate
}

func (m *model) mayActOnWorst() bool {
	a, _ := m.shown().worst()
	return a != nil && m.mayAct(a)
}

// act runs a call that changes something, and asks for the alerts as they are then.
func act[A any](m *model, call client.Call[A], text string) tea.Cmd {
	ctx, server, feed := m.ctx, m.options.Server, m.options.Feed
	return func() tea.Msg {
		_, err := client.Do(ctx, server, call)
		if s, is := feed.(*Server); is {
			s.again()
		}
		return done{text, err}
	}
}

func (m *model) acknowledge() tea.Cmd {
	a, _ := m.shown().worst()
	return act(m, client.AcknowledgeAlert(a.ID, ""), "Acknowledged: "+a.Message)
}

// silences are how long alerts can be silenced for.
var silences = []struct {
	label string
	last  time.Duration
}{{"1 hour", time.Hour}, {"4 hours", 4 * time.Hour}, {"8 hours", 8 * time.Hour}, {"1 day", 24 * time.Hour}, {"1 week", 7 * 24 * time.Hour}}

func (m *model) silenceMenu() tea.Cmd {
	a, _ := m.shown().worst()
	n := &menu{title: "Silence this alert for"}
	for _, s := range silences {
		n.items = append(n.items, item{s.label, func(m *model) tea.Cmd {
			return act(m, client.SilenceAlert(a.ID, "", s.last), "Silenced for "+s.label+": "+a.Message)
		}})
	}
	m.menu = n
	return nil
}

// click selects what the mouse is on; a second click opens it, and one on a title sorts.
func (m *model) click(at tea.Mouse) tea.Cmd {
	h, is := m.hits[at.Y]
	if at.Button != tea.MouseLeft || !is || m.input != nil || m.page != nil {
		return nil
	}
	if m.menu != nil {
		if n, err := strconv.Atoi(h.key); err == nil && h.pane == panes {
			m.menu.selected = n
			return m.choice("enter")
		}
		return nil
	}
	for _, c := range h.columns {
		if h.key == "" && c.sort != nil && at.X >= c.from-1 && at.X < c.to+1 {
			m.focus = h.pane
			return sortBy(*c.sort)(m)
		}
	}
	if h.key == "" {
		return nil
	}
	again := m.focus == h.pane && m.selected[h.pane] == h.key
	m.focus = h.pane
	m.choose(h.pane, h.key)
	if again {
		return m.detail()
	}
	return nil
}

// wheel scrolls what the mouse is on.
func (m *model) wheel(at tea.Mouse) {
	by := map[tea.MouseButton]int{tea.MouseWheelUp: -1, tea.MouseWheelDown: 1}[at.Button]
	if by == 0 {
		return
	}
	switch {
	case m.menu != nil:
		m.menu.selected = max(0, min(m.menu.selected+by, len(m.menu.items)-1))
	default:
		p := m.focus
		if h, is := m.hits[at.Y]; is && h.pane < panes {
			p = h.pane
		}
		m.moveIn(p, 3*by)
	}
}
