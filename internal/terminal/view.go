package terminal

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// The smallest terminal with room for an answer, and the height from which there is room for more than the figures.
const (
	leastWidth  = 40
	leastHeight = 10
	roomy       = 20
)

// hits are what the mouse can meet, by line.
type hits map[int]hit

type hit struct {
	pane    pane
	key     string       // of the row; empty: it is a header
	columns []titlePlace // of a header
}

// View implements [tea.Model]. It draws again only if something has changed.
func (m *model) View() tea.View {
	if m.drawn {
		return m.frame
	}
	m.hits = hits{}
	var b strings.Builder
	for i, r := range m.compose() {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(r.render(&m.looks, m.width))
	}
	m.frame = tea.NewView(b.String())
	m.frame.AltScreen, m.frame.MouseMode = true, tea.MouseModeCellMotion
	if m.input != nil {
		if c := m.input.Cursor(); c != nil {
			c.X += width(m.input.label) + 3
			c.Y = m.height - 1
			m.frame.Cursor = c
		}
	}
	m.drawn = true
	return m.frame
}

// compose is the frame, line by line.
func (m *model) compose() []row {
	switch {
	case m.width == 0, m.left:
		return nil // nor is the size known at first
	case m.width < leastWidth || m.height < leastHeight:
		return m.tooSmall()
	}
	rows := m.bar()
	room := m.height - 1
	if m.page != nil {
		rows = append(rows, m.page.rows(m, room-len(rows))...)
	} else {
		rows = append(rows, m.answer()...)
		rows = append(rows, m.body(room-len(rows), len(rows))...)
	}
	for len(rows) < room {
		rows = append(rows, row{})
	}
	rows = append(rows[:room], m.footer())
	if m.menu != nil {
		m.menu.over(m, rows)
	}
	return rows
}

func (m *model) tooSmall() []row {
	lines := wrap(fmt.Sprintf("This window has %d×%d cells. gpuwhy top needs %d×%d: make it larger, or press q to quit.", m.width, m.height, leastWidth, leastHeight), max(m.width, 1), max(m.height, 1))
	rows := make([]row, m.height)
	for i := range lines {
		rows[i].add(plain, lines[i])
	}
	return rows
}

// bar is the top: of what this is, when it was, and whatever keeps it from being the state of a real machine now.
func (m *model) bar() []row {
	k := m.shown()
	var r row
	r.add(plain, " ").add(strong, "gpuwhy").add(plain, "  ")
	u := k.newest(m.node())
	switch {
	case m.past != nil:
		r.add(plain, cmp.Or(m.past.node, m.options.Machine))
	case k.several:
		r.add(plain, explain.Plural(len(k.machines), "machine", "machines"))
	case u != nil:
		r.add(plain, u.Node)
	}
	tell := func(text string) { r.add(plain, "  ").add(mark, " "+text+" ") }
	switch m.kind() {
	case gpu.Simulated:
		tell("SIMULATED")
	case gpu.Recorded:
		tell("RECORDED")
	}
	if m.past != nil {
		tell("PAST")
	} else if m.stale != "" {
		tell("OLD: " + m.stale)
	}
	if m.frozen != nil && m.past == nil {
		tell("PAUSED")
	}
	right := ""
	switch {
	case m.past != nil:
		right = explain.Clock(m.past.at.In(m.options.Zone), "Mon 2006-01-02 15:04:05")
	case u != nil:
		right = moment(u.Timestamp).In(m.options.Zone).Format(time.TimeOnly)
	}
	if space := m.width - r.width() - width(right) - 1; space > 0 {
		r.fill(m.width-width(right)-1).add(dim, right)
	}
	rows := []row{r}
	if m.lost != nil && m.past == nil {
		var why row
		why.add(warn, " ! "+happened(m.lost)+"; trying again")
		rows = append(rows, why)
	}
	return rows
}

// kind is whether readings are of real machines.
func (m *model) kind() gpu.Kind {
	k := m.shown()
	for i := range k.machines {
		if kind := gpu.KindOf(k.machines[i].Source); kind != gpu.Live {
			return kind
		}
	}
	if u := k.newest(m.node()); u != nil {
		return gpu.KindOf(u.Source)
	}
	return gpu.Live
}

// answer is why the fans run, and the worst alert.
func (m *model) answer() (rows []row) {
	k := m.shown()
	u := k.newest(m.node())
	layers := &k.whole
	switch {
	case m.past != nil && m.past.err != nil:
		return m.sentence(bad, "! "+words(m.past.err), 3)
	case u == nil && (!k.several || layers.Headline == ""):
		return m.sentence(dim, either(m.past != nil, "Looking it up.", "Waiting for the first reading."), 1)
	case !k.several || m.past != nil:
		layers = &u.Layers
	}
	rows = m.layers(layers)
	if m.past != nil && m.past.sentence != "" && m.height >= roomy {
		rows = append(rows, m.sentence(dim, m.past.sentence, 1)...)
	}
	if a, more := k.worst(); a != nil && m.past == nil {
		rows = append(rows, m.alert(a, more))
	}
	if m.height >= roomy {
		rows = append(rows, row{})
	}
	return rows
}

func (m *model) sentence(role role, text string, lines int) (rows []row) {
	for _, line := range wrap(text, m.width-2, lines) {
		var r row
		r.add(plain, " ").add(role, line)
		rows = append(rows, r)
	}
	return rows
}

// layers are an answer: the headline, its figures, and what would stop it.
func (m *model) layers(l *client.Layers) []row {
	headline := l.Headline
	role := strong
	if m.stale != "" && m.past == nil {
		headline = "Last known: " + headline
	}
	if l.Broken {
		headline, role = "! "+headline, bad
	}
	rows := m.sentence(role, headline, 2)
	var facts row
	facts.add(plain, " ")
	for i, f := range l.Facts {
		if i > 0 {
			facts.add(dim, " · ")
		}
		facts.add(roleIf(f.Warning, warn, plain), either(f.Warning, "! ", "")+f.Text)
	}
	if rest := clean(l.Rest); rest != "" && facts.width()+3+width(rest) < m.width {
		facts.add(dim, either(len(l.Facts) > 0, " · ", "")+rest)
	}
	if facts.width() > 1 {
		rows = append(rows, facts)
	}
	if m.height < roomy {
		return rows
	}
	switch {
	case l.Action.Command != "":
		var do row
		rows = append(rows, *do.add(dim, " to stop it: ").add(plain, l.Action.Command))
	case l.Action.Text != "":
		rows = append(rows, m.sentence(dim, l.Action.Text, 2)...)
	}
	if len(l.Next) > 0 {
		var next row
		next.add(dim, " next: ")
		for i, p := range l.Next[:min(3, len(l.Next))] {
			next.add(dim, either(i > 0, " · ", "")+p.Text)
		}
		rows = append(rows, next)
	}
	return rows
}

// alert is the line of the worst alert. Its whole sentence is there only if there is room for it.
func (m *model) alert(a *client.Alert, more int) (r row) {
	sign, role := "! Warning", warn
	if a.Severity == "critical" {
		sign, role = "!! Critical", bad
	}
	r.add(plain, " ").add(role, sign).add(plain, "  "+strings.ReplaceAll(a.Rule, "_", " "))
	if a.GPUUUID != "" {
		r.add(plain, " on GPU "+strconv.Itoa(a.GPUID))
	}
	if m.shown().several && a.Node != "" {
		r.add(plain, either(a.GPUUUID != "", ", ", " on ")+a.Node)
	}
	rest := ""
	if more > 0 {
		rest = fmt.Sprintf("  +%d more", more)
	}
	for _, text := range []string{" since " + moment(a.Since).In(m.options.Zone).Format(time.TimeOnly), " · " + clean(a.Message)} {
		if r.width()+width(text)+width(rest) < m.width {
			r.add(dim, text)
		}
	}
	return *r.add(plain, rest)
}

// body is the panes, in so many lines. above are the lines over it.
func (m *model) body(room, above int) (rows []row) {
	k := m.shown()
	u := k.newest(m.node())
	several := k.several && m.past == nil
	list := m.entries(u)
	space := 0
	if m.height >= roomy {
		space = 1
	}
	sections := []*section{}
	if several {
		sections = append(sections, m.machineSection())
	}
	if u != nil {
		sections = append(sections, m.gpuSection(u, several))
		if u.Available {
			sections = append(sections, m.processSection(u, list))
		}
	}
	share(sections, room, space)
	for i, s := range sections {
		if s.height == 0 {
			continue
		}
		if i > 0 && space > 0 && len(rows) > 0 {
			rows = append(rows, row{})
		}
		rows = append(rows, s.draw(m, above+len(rows))...)
	}
	if left := room - len(rows) - space; u != nil && u.Available && left >= leastChart {
		if space > 0 {
			rows = append(rows, row{})
		}
		rows = append(rows, m.charts(u, left)...)
	}
	return rows
}

// A section is a table of the frame.
type section struct {
	pane   pane
	top    []row // above the rows
	header int   // which of top has the titles of columns; -1: none
	places []titlePlace
	keys   []string
	line   func(i int) row
	least  int // rows that it should have at least
	height int // lines that it gets
}

// share gives sections their lines: at first the least, then what they can use, the GPUs before the processes, and both before the machines. What does
// not fit at all is left out, from the end.
func share(sections []*section, room, space int) {
	want := func(s *section) int { return len(s.top) + len(s.keys) }
	left := room
	for i, s := range sections {
		least := min(want(s), len(s.top)+s.least)
		gap := 0
		if i > 0 {
			gap = space
		}
		if least+gap > left && i > 0 && left-gap < len(s.top)+1 {
			continue
		}
		s.height = max(0, min(least, left-gap))
		left -= s.height + gap
	}
	order := sections
	if len(sections) == 3 { // machines last
		order = []*section{sections[1], sections[2], sections[0]}
	}
	if len(sections) == 3 && left > 0 { // but a third of the room is theirs
		s := sections[0]
		more := max(0, min(room/3-s.height, want(s)-s.height, left))
		s.height += more
		left -= more
	}
	for _, s := range order {
		if s.height == 0 {
			continue
		}
		more := min(left, want(s)-s.height)
		s.height += more
		left -= more
	}
}

// draw draws the rows that fit, with the selected one among them.
func (s *section) draw(m *model, y int) (rows []row) {
	rows = append(rows, s.top[:min(len(s.top), s.height)]...)
	if s.header >= 0 && s.header < len(rows) {
		m.hits[y+s.header] = hit{s.pane, "", s.places}
	}
	n := s.height - len(rows)
	if n <= 0 {
		return rows
	}
	first := m.top[s.pane]
	for i, key := range s.keys {
		if key == m.selected[s.pane] {
			first = max(min(first, i), i-n+1)
		}
	}
	first = max(0, min(first, len(s.keys)-n))
	m.top[s.pane] = first
	for i := first; i < min(first+n, len(s.keys)); i++ {
		m.hits[y+len(rows)] = hit{s.pane, s.keys[i], nil}
		rows = append(rows, s.line(i))
	}
	if hidden := len(s.keys) - n; hidden > 0 && s.header >= 0 {
		rows[s.header].note(m.width, fmt.Sprintf("%d–%d of %d", first+1, first+n, len(s.keys)))
	}
	return rows
}

// note puts a text at the right edge of a header, if there is room.
func (r *row) note(cells int, text string) {
	last := len(r.pieces) - 1
	if last < 0 || r.width()-width(r.pieces[last].text)+width(strings.TrimRight(r.pieces[last].text, " "))+width(text)+3 > cells {
		return
	}
	r.pieces = append([]piece{}, r.pieces...)
	r.pieces[last].text = strings.TrimRight(r.pieces[last].text, " ")
	r.fill(cells-width(text)-1).add(dim, text)
}

func (m *model) machineSection() *section {
	k := m.shown()
	s := &section{pane: machinePane, least: 4}
	var list []*client.Machine
	for i := range k.machines {
		list = append(list, &k.machines[i])
		s.keys = append(s.keys, k.machines[i].Node)
	}
	t := newTable(m, machineColumns, m.width, list)
	var header row
	header, s.places = t.header(m, m.focus == machinePane)
	s.top = []row{header}
	s.line = func(i int) row { return m.marked(machinePane, s.keys[i], t.line(m, list[i], false, "", nil)) }
	return s
}

// marked marks a row if it is selected; in the pane that has the keys, all of it.
func (m *model) marked(p pane, key string, r row) row {
	if key != m.selected[p] {
		return r
	}
	r.pieces[0].text = "▸"
	r.selected = m.focus == p
	return r
}

func gpuKey(g *client.UpdateGPU) string { return g.UUID }

func (m *model) gpuSection(u *client.Update, several bool) *section {
	s := &section{pane: gpuPane, least: 3, header: -1}
	if several {
		var title row
		title.add(plain, " ").add(heading, u.Node)
		if u.SilentSince != "" {
			title.add(warn, "  ? silent since "+moment(u.SilentSince).In(m.options.Zone).Format("15:04:05")).add(dim, "  "+u.Reason)
		} else {
			title.add(dim, "  "+u.Headline)
		}
		s.top = append(s.top, title)
	}
	if !u.Available {
		s.top = append(s.top, m.machine(u)...)
		s.line = func(int) row { return row{} }
		return s
	}
	var list []*client.UpdateGPU
	for i := range u.GPUs {
		list = append(list, &u.GPUs[i])
		s.keys = append(s.keys, gpuKey(&u.GPUs[i]))
	}
	t := newTable(m, gpuColumns, m.width, list)
	var header row
	header, s.places = t.header(m, m.focus == gpuPane)
	s.header = len(s.top)
	s.top = append(s.top, header)
	s.line = func(i int) row {
		g := &u.GPUs[i]
		return m.marked(gpuPane, s.keys[i], t.line(m, g, false, "UTIL", gpuNote(g, u.SilentSince != "", m.options.Zone)))
	}
	return s
}

// machine is a machine without a GPU.
func (m *model) machine(u *client.Update) (rows []row) {
	if u.Reason != "" {
		rows = append(rows, m.sentence(plain, u.Reason, 4)...)
	}
	for _, note := range u.Notes {
		rows = append(rows, m.sentence(dim, note, 2)...)
	}
	h := u.Host
	if h == nil {
		return rows
	}
	rows = append(rows, row{})
	say := func(name, text string) {
		var r row
		r.add(plain, " ").add(dim, fit(clean(name), 24, false)+"  ")
		rows = append(rows, *r.add(plain, text))
	}
	say("CPU", shown(h.CPU, percent))
	say("CPU power", shown(h.CPUPower, watts))
	say("memory", shown(h.MemoryUsed, gibi)+"/"+shown(h.MemoryTotal, gibi)+" GiB")
	for _, f := range h.Fans {
		say(f.Name, shown(f.RPM, rpm))
	}
	for _, t := range h.Temperatures {
		say(t.Name, shown(t.Celsius, celsius))
	}
	for i, p := range h.Busiest {
		if i == 0 {
			rows = append(rows, row{})
		}
		say(cmp.Or(pointed(p.Program), p.Name, absent), fmt.Sprintf("%.0f %% of a core  %s", p.CPU, pointed(p.User)))
	}
	return rows
}

func rpm(v gpu.RPM) string { return fmt.Sprintf("%.0f RPM", float64(v)) }

func (m *model) processSection(u *client.Update, list []entry) *section {
	s := &section{pane: processPane, least: 4}
	var entries []*entry
	for i := range list {
		entries = append(entries, &list[i])
		s.keys = append(s.keys, list[i].key)
	}
	t := newTable(m, processColumns, m.width, entries)
	var narrowed []string
	if m.filter != "" {
		narrowed = append(narrowed, "with “"+m.filter+"”")
	}
	if m.user != "" {
		narrowed = append(narrowed, "of "+m.user)
	}
	if len(narrowed) > 0 {
		var r row
		r.add(plain, " ").add(warn, "Only processes "+strings.Join(narrowed, ", ")).add(dim, "  Esc shows all")
		s.top = append(s.top, r)
	}
	var header row
	header, s.places = t.header(m, m.focus == processPane)
	s.header = len(s.top)
	s.top = append(s.top, header)
	s.line = func(i int) row { return m.marked(processPane, list[i].key, t.line(m, &list[i], false, "", nil)) }
	if len(list) == 0 {
		s.keys = []string{""}
		s.line = func(int) row {
			var r row
			return *r.add(plain, " ").add(dim, noProcesses(u, len(narrowed) > 0))
		}
	}
	return s
}

// noProcesses says why there is no process to show.
func noProcesses(u *client.Update, narrowed bool) string {
	switch {
	case u.SilentSince != "":
		return "Its processes are not known while it is silent."
	case narrowed:
		return "No process is like that."
	}
	for i := range u.GPUs {
		if why := u.GPUs[i].Quality["processes"]; why != "" {
			return "The processes can't be listed (" + strings.ReplaceAll(why, "_", " ") + ")."
		}
	}
	return "No process uses a GPU."
}

// footer is the last line: what is being typed, what happened, or the keys.
func (m *model) footer() (r row) {
	switch {
	case m.printed:
		return r
	case m.input != nil:
		r.add(plain, " ").add(strong, m.input.label+": ").add(plain, m.input.Value())
		return *r.fill(m.width-28).add(dim, "  Enter keeps  Esc undoes")
	case m.noted != "":
		return *r.add(plain, " ").add(warn, m.noted)
	}
	r.add(plain, " ")
	last := &bindings[len(bindings)-1] // to quit, which is always there
	room := m.width - width(last.keys[0].label+" "+last.footer) - 2
	for i := range bindings {
		b := &bindings[i]
		if b.footer == "" || b.when != nil && !b.when(m) {
			continue
		}
		if b != last && r.width()+width(b.keys[0].label+" "+b.footer)+2 > room {
			continue
		}
		r.add(strong, b.keys[0].label).add(dim, " "+b.footer).add(plain, "  ")
	}
	return r
}

// over draws the menu over the middle of a frame.
func (n *menu) over(m *model, rows []row) {
	inner := width(n.title)
	for _, i := range n.items {
		inner = max(inner, width(clean(i.label)))
	}
	inner = min(inner+2, m.width-6)
	visible := min(len(n.items), len(rows)-4)
	first := max(0, min(n.selected-visible/2, len(n.items)-visible))
	y, x := (len(rows)-visible-2)/2, (m.width-inner-4)/2
	line := func(left, text, right string, role role, selected bool) (r row) {
		r.add(plain, strings.Repeat(" ", x)).add(dim, left).add(role, fit(text, inner+2, false)).add(dim, right)
		if selected {
			r.pieces[len(r.pieces)-2].role = mark
		}
		return r
	}
	edge := strings.Repeat("─", inner+2)
	title := fit("─ "+n.title+" ", min(width(n.title)+3, inner+2), false)
	rows[y] = line("┌", title+strings.Repeat("─", inner+2-width(title)), "┐", heading, false)
	for i := range visible {
		at := first + i
		rows[y+1+i] = line("│", either(at == n.selected, "▸ ", "  ")+clean(n.items[at].label), "│", plain, at == n.selected)
		m.hits[y+1+i] = hit{panes, fmt.Sprint(at), nil}
	}
	rows[y+1+visible] = line("└", edge, "┘", dim, false)
}

// tall is how many lines show everything, for a print.
func (m *model) tall() int {
	k := m.shown()
	lines := 12 + len(k.machines)
	if u := k.newest(m.node()); u != nil {
		lines += 2*len(u.GPUs) + len(m.entries(u)) + 12
	}
	return min(lines, 200)
}
