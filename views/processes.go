package views

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// mostProcesses is the number of rows of a page of the table.
const mostProcesses = 200

// fewProcesses is the number of rows on the start page.
const fewProcesses = 8

// A ProcessRow is a row of the table of processes: one process, or a group of related ones.
type ProcessRow struct {
	Key     string
	Hue     string // its color class
	Name    Value
	Many    string // how many processes it stands for; empty for one
	Command Value
	User    Value
	GPUs    string // "0 – 3"
	Power   Value
	Share   string // power as a share of the highest row or of a GPU's limit: "0" to "100"; empty if unknown
	Memory  Value
	Use     Value
	Running Value
	Started string
	Place   Value
	Open    templ.SafeURL
	End     string // command that ends exactly these processes; empty if there is none

	processes            []*Process
	grouping             string // how it was grouped
	watts, memory, share number
	most                 number // the full length of its bar
	began                time.Time
	oldest               *Process // that began then
}

// A ProcessTable is the processes that the address selects.
type ProcessTable struct {
	Rows    []ProcessRow
	Columns []ProcessColumn
	Count   string // "7 processes in 4 groups"
	Missing string // which devices' processes are unknown; empty if none
	Empty   string // shown instead of the rows if there are none
	pages
}

// A ProcessColumn is the heading of a column.
type ProcessColumn struct {
	Key, Label string
	Sort       templ.SafeURL // link that sorts by it; empty if it can't be sorted
	Sorted     string        // "ascending", "descending" or empty
}

// The columns, and whether the first click sorts them in descending order.
var processColumns = []struct {
	key, label string
	down       bool
	compare    func(a, b *ProcessRow) int
}{
	{"name", "Process", false, func(a, b *ProcessRow) int { return compareText(a.Name, b.Name) }},
	{"user", "User", false, func(a, b *ProcessRow) int { return compareText(a.User, b.User) }},
	{"gpu", "GPU", false, func(a, b *ProcessRow) int { return compareDevices(a.processes[0].d, b.processes[0].d) }},
	{"power", "Power", true, func(a, b *ProcessRow) int { return compareNumbers(a.watts, b.watts) }},
	{"memory", "Memory", true, func(a, b *ProcessRow) int { return compareNumbers(a.memory, b.memory) }},
	{"use", "Use", true, func(a, b *ProcessRow) int { return compareNumbers(a.share, b.share) }},
	{"running", "Run time", true, func(a, b *ProcessRow) int { return -a.began.Compare(b.began) }},
	{"place", "Place", false, func(a, b *ProcessRow) int { return compareText(a.Place, b.Place) }},
}

func compareText(a, b Value) int {
	return cmp.Or(strings.Compare(string(a.Mark), string(b.Mark)), strings.Compare(strings.ToLower(a.Text), strings.ToLower(b.Text)))
}

func compareDevices(a, b *gpu.Device) int {
	return cmp.Or(strings.Compare(a.Node, b.Node), a.Index-b.Index)
}

// compareNumbers puts unknown numbers below all others.
func compareNumbers(a, b number) int {
	known := func(n number) int { return either01(n.ok()) }
	return cmp.Or(known(a)-known(b), cmp.Compare(a.value, b.value))
}

// grouped makes rows of processes: by job, container and the like for "", by "user", or ungrouped for "none". The rows are bare: they
// have only what sorting needs, and texts only if the processes are dressed.
func grouped(list []*Process, mode string) []*ProcessRow {
	var groups [][]*Process
	switch mode {
	case "":
		groups = groupedBy(list, func(p *Process) group { return p.main })
	case "user":
		groups = groupedBy(list, func(p *Process) Value { return p.User })
	default:
		type alone struct {
			d        *gpu.Device
			pid, mig int
		}
		groups = groupedBy(list, func(p *Process) alone { return alone{p.d, p.p.PID, p.p.GPUInstance.Or(-1)} })
	}
	rows := make([]*ProcessRow, len(groups))
	var most number
	for i, all := range groups {
		rows[i] = newProcessRow(all, mode)
		if rows[i].watts.over(most) {
			most = rows[i].watts
		}
		for _, p := range all { // 5 W is little even if nobody draws more
			if limit := num(p.d.Power.EnforcedLimit); limit.over(most) {
				most = limit
			}
		}
	}
	for i := range rows {
		rows[i].most = most
	}
	return rows
}

// groupedBy groups processes with the same key, in order of appearance.
func groupedBy[K comparable](list []*Process, key func(*Process) K) (groups [][]*Process) {
	index := map[K]int{}
	for _, p := range list {
		i, found := index[key(p)]
		if !found {
			i, index[key(p)] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

func newProcessRow(all []*Process, mode string) *ProcessRow {
	first := all[0]
	r := &ProcessRow{Name: first.Name, User: first.User, Place: first.Place, processes: all, grouping: mode}
	r.watts, _ = sumOf(all, func(p *Process) number { return p.watts })
	r.memory, _ = sumOf(all, func(p *Process) number { return mebi(p.p.Memory) })
	_, r.share = leastToMost(all, func(p *Process) number { return engineShare(p.p) })
	r.oldest = first
	for _, p := range all {
		if started, ok := p.p.Facts.Started.Get(); ok && (r.began.IsZero() || started.Before(r.began)) {
			r.began, r.oldest = started, p
		}
	}
	if mode == "user" {
		r.Name, r.Place = first.User, Value{Text: either(len(all) == 1, first.Place.Text, "")}
	}
	return r
}

// dress adds the texts of a row and its processes.
func (r *ProcessRow) dress(in *Input) {
	all, first := r.processes, r.processes[0]
	first.dress(in)
	r.oldest.dress(in)
	r.Key, r.Hue, r.Name, r.Command, r.User, r.Place = first.Key, first.Hue, first.Name, first.Command, first.User, first.Place
	r.Running, r.Started = r.oldest.Running, r.oldest.Started
	r.GPUs, r.Open = placesOf(all, len(in.Nodes) > 1), in.Link("process", first.Key)
	r.Power = sumText(all, func(p *Process) number { return p.watts }, watts)
	r.Memory = sumText(all, func(p *Process) number { return mebi(p.p.Memory) }, memory)
	r.Use = rangeText(all, func(p *Process) number { return engineShare(p.p) }, percent)
	r.Share = part(r.watts, r.most)
	r.End = endingOf(all)
	if n := pids(all); n > 1 {
		r.Many = processCount(n)
	}
	if r.grouping == "user" {
		r.Name, r.Command, r.Place, r.End = first.User, Value{}, Value{Text: either(len(all) == 1, first.Place.Text, "")}, ""
		r.Key, r.Many = "of "+first.User.Text, processCount(pids(all))
		r.Open = in.Link("group", "none", "user", first.User.Text, "from", "")
	}
}

// dressed returns rows with their texts.
func dressed(in *Input, rows []*ProcessRow) (out []ProcessRow) {
	for _, r := range rows {
		r.dress(in)
		out = append(out, *r)
	}
	return out
}

// pids counts processes; a process may be on several devices.
func pids(processes []*Process) int {
	type process struct {
		node string
		pid  int
	}
	seen := make(map[process]bool, len(processes))
	for _, p := range processes {
		seen[process{p.d.Node, p.p.PID}] = true
	}
	return len(seen)
}

// endingOf returns the command that ends these processes and nothing else; empty if there is none, as for processes that nobody should end.
func endingOf(processes []*Process) string {
	var list []*gpu.Process
	for i := range processes {
		if gpu.KindOf(processes[i].d.Source) != gpu.Live || processes[i].d.Node != processes[0].d.Node { // it is not live, or not on one machine
			return ""
		}
		list = append(list, processes[i].p)
	}
	return explain.EndCommand(list)
}

// sumOf adds up the known values and counts them. If none is known, it returns the first process's value.
func sumOf(processes []*Process, value func(*Process) number) (sum number, known int) {
	for _, p := range processes {
		if n := value(p); n.ok() {
			sum = newNumber(sum.value+n.value, n.quality)
			known++
		}
	}
	if known == 0 {
		return value(processes[0]), 0
	}
	return sum, known
}

// sumText writes a sum. A sum that lacks values is marked and says how many it has.
func sumText(processes []*Process, value func(*Process) number, format func(float64) string) Value {
	sum, known := sumOf(processes, value)
	if known == 0 || known == len(processes) {
		return show(sum, format)
	}
	return Value{Text: format(sum.value), Mark: Doubtful, Title: "of " + strconv.Itoa(known) + " of " + strconv.Itoa(len(processes)) + "; the others are unknown"}
}

// leastToMost returns the lowest and the highest known value. If none is known, the highest is the first process's value.
func leastToMost(processes []*Process, value func(*Process) number) (least, most number) {
	for _, p := range processes {
		n := value(p)
		if n.over(most) {
			most = n
		}
		if n.ok() && (!least.ok() || n.value < least.value) {
			least = n
		}
	}
	if !most.ok() {
		most = value(processes[0])
	}
	return least, most
}

func rangeText(processes []*Process, value func(*Process) number, format func(float64) string) Value {
	least, most := leastToMost(processes, value)
	if !most.ok() {
		return show(most, format)
	}
	if low := format(least.value); low != format(most.value) {
		low, _, _ = strings.Cut(low, nbsp)
		return Value{Text: low + "–" + format(most.value)}
	}
	return show(most, format)
}

// placesOf names the devices of some processes briefly: "0 – 3", "0, 2", "24 GPUs".
func placesOf(processes []*Process, several bool) string {
	if len(processes) == 1 {
		return processes[0].GPU // it is dressed
	}
	type place struct {
		node  string
		index int
	}
	seen := map[place]bool{}
	for i := range processes {
		seen[place{processes[i].d.Node, processes[i].d.Index}] = true
	}
	list := slices.SortedFunc(maps.Keys(seen), func(a, b place) int { return cmp.Or(strings.Compare(a.node, b.node), a.index-b.index) })
	if len(list) == 1 {
		return either(several, clean(list[0].node, longestName)+"/", "") + strconv.Itoa(list[0].index)
	}
	if list[0].node != list[len(list)-1].node {
		return gpuCount(len(list))
	}
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1].index == list[j].index+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, strconv.Itoa(list[i].index))
		case 1:
			parts = append(parts, strconv.Itoa(list[i].index), strconv.Itoa(list[j].index))
		default:
			parts = append(parts, strconv.Itoa(list[i].index)+nbsp+"–"+nbsp+strconv.Itoa(list[j].index))
		}
		i = j + 1
	}
	if len(parts) > 6 {
		return gpuCount(len(list))
	}
	return either(several, clean(list[0].node, longestName)+"/", "") + strings.Join(parts, ", ")
}

// wanted reports whether the address selects a process.
func (p *Process) wanted(address Choices) bool {
	contains := func(v Value, text string) bool {
		return v.Mark != Missing && strings.Contains(strings.ToLower(v.Text), text)
	}
	for word := range strings.FieldsSeq(strings.ToLower(address.Get("q"))) {
		if p.PID != word && (!strings.Contains(p.GPU, "/") || !strings.Contains(strings.ToLower(p.GPU), word)) && !contains(p.Name, word) && !contains(p.Command, word) && !contains(p.User, word) && !contains(p.Place, word) {
			return false
		}
	}
	same := func(asked string, texts ...string) bool { return asked == "" || slices.Contains(texts, asked) }
	label, _, _ := strings.Cut(p.GPU, " ")
	return same(address.Get("gpu"), label, p.d.UUID) && same(address.Get("user"), p.User.Text) && same(address.Get("place"), p.Place.Text)
}

// newProcessTable groups, sorts and pages processes as the address asks.
func newProcessTable(in *Input, devices []*gpu.Device, all []*Process) ProcessTable {
	list := slices.DeleteFunc(slices.Clone(all), func(p *Process) bool { return !p.wanted(in.Choices) })
	t, rows := sortedTable(in, devices, all, list)
	var from, to int
	t.pages, from, to = paged(in.Choices, "Rows", len(rows), mostProcesses)
	t.Rows = dressed(in, rows[from:to])
	return t
}

// sortedTable returns the table without rows, and the bare rows of all selected processes.
func sortedTable(in *Input, devices []*gpu.Device, all, list []*Process) (ProcessTable, []*ProcessRow) {
	rows := grouped(list, in.Get("group"))
	t := ProcessTable{Missing: newUnlisted(devices, in.name)}
	t.sort(in.Choices, rows)
	t.Count = newProcessCount(all, list, rows, len(devices) > 0, t.Missing != "")
	switch {
	case len(rows) > 0:
	case len(all) > 0:
		t.Empty = "No process matches."
	case t.Missing != "":
		t.Empty = "No process is known."
	case len(devices) == 0:
		t.Empty = "Without a GPU, no process is known."
	default:
		t.Empty = "No process has a context on a GPU."
	}
	return t, rows
}

// sort orders rows as the address asks; by default the highest power draw first.
func (t *ProcessTable) sort(address Choices, rows []*ProcessRow) {
	asked := cmp.Or(address.Get("sort"), "power")
	if !slices.ContainsFunc(processColumns, func(c struct {
		key, label string
		down       bool
		compare    func(a, b *ProcessRow) int
	}) bool {
		return c.key == asked
	}) {
		asked = "power"
	}
	for _, c := range processColumns {
		head, down := ProcessColumn{Key: c.key, Label: c.label}, c.down
		if c.key == asked {
			switch address.Get("dir") {
			case "up":
				down = false
			case "down":
				down = true
			}
			sign := 1
			if down {
				sign = -1
			}
			slices.SortStableFunc(rows, func(a, b *ProcessRow) int {
				return cmp.Or(sign*c.compare(a, b), compareNumbers(b.watts, a.watts), compareNumbers(b.share, a.share), compareNumbers(b.memory, a.memory), compareDevices(a.processes[0].d, b.processes[0].d))
			})
			head.Sorted = either(down, "descending", "ascending")
			down = !down
		}
		dir := ""
		if down != c.down {
			dir = either(down, "down", "up")
		}
		head.Sort = address.Link("sort", either(c.key == "power", "", c.key), "dir", dir, "from", "")
		t.Columns = append(t.Columns, head)
	}
}

// newProcessCount says how many processes there are. If some are unknown, it never says that there are none.
func newProcessCount(all, list []*Process, rows []*ProcessRow, devices, missing bool) string {
	n, count := pids(list), pids(all)
	text := processCount(n)
	if count != n {
		text = strconv.Itoa(n) + " of " + processCount(count)
	}
	if n != len(rows) && len(rows) > 0 {
		text += " in " + strconv.Itoa(len(rows)) + " rows"
	}
	switch {
	case len(all) == 0 && (missing || !devices):
		return "unknown"
	case missing:
		return text + ", others unknown"
	}
	return text
}

// A ProcessBlock is the top of the table on another page.
type ProcessBlock struct {
	ProcessTable
	All      string // address of the page with all of them
	Commands CommandLines
}

// newProcessBlock makes a table of the processes of some devices with the highest draw.
func newProcessBlock(in *Input, devices []*gpu.Device, all []*Process) ProcessBlock {
	plain := *in
	plain.Choices = Choices{}
	t, rows := sortedTable(&plain, devices, all, all)
	b := ProcessBlock{ProcessTable: t, All: in.BasePath + "processes", Commands: newCommandLines(in, "now")}
	b.Rows = dressed(&plain, rows[:min(len(rows), fewProcesses)])
	for i := range b.Rows {
		b.Rows[i].Open = in.Link("process", b.Rows[i].Key)
	}
	for i := range b.Columns {
		b.Columns[i].Sort = ""
	}
	if len(devices) == 1 && in.only != nil {
		b.All += "?gpu=" + devices[0].UUID
	}
	return b
}

// still freezes a table for the past: its rows can't be opened, ended or sorted.
func (t *ProcessTable) still() {
	for i := range t.Rows {
		t.Rows[i].Open, t.Rows[i].End = "", ""
	}
	for i := range t.Columns {
		t.Columns[i].Sort = ""
	}
}

// A ProcessesPage is the view model of /processes.
type ProcessesPage struct {
	in     *Input
	Table  ProcessTable
	GPUs   []Choice // options of the filter; empty if there are too many
	Users  []Choice
	Places []Choice
	Kept   []Choice // parameters that the form keeps
	Dialog *ProcessDialog
	// Commands is the button that shows or hides command lines.
	Commands CommandLines
}

// NewProcessesPage makes the view model of /processes.
func NewProcessesPage(in Input) ProcessesPage {
	in.keep("q", "gpu", "user", "place", "group", "sort", "dir", "from", "process")
	devices := in.devices()
	all := newProcesses(&in, devices)
	p := ProcessesPage{in: &in, Table: newProcessTable(&in, devices, all), Dialog: newProcessDialog(&in, all), Commands: newCommandLines(&in, "processes")}
	if len(devices) <= 64 {
		for _, d := range devices {
			label := strconv.Itoa(d.Index)
			if len(in.Nodes) > 1 {
				label = clean(d.Node, longestName) + "/" + label
			}
			p.GPUs = append(p.GPUs, Choice{label, in.name(d)})
		}
	}
	users, places := map[string]bool{}, map[string]bool{}
	for i := range all {
		users[all[i].User.Text] = true
		places[all[i].Place.Text] = true
	}
	p.Users, p.Places = choicesOf(users), choicesOf(places)
	for _, name := range []string{"dir", "kiosk"} {
		if v := in.Get(name); v != "" {
			p.Kept = append(p.Kept, Choice{name, v})
		}
	}
	return p
}

// choicesOf returns values as options; none if there are too many, which people can search instead.
func choicesOf(values map[string]bool) (out []Choice) {
	if len(values) > 100 {
		return nil
	}
	for _, v := range slices.Sorted(maps.Keys(values)) {
		out = append(out, Choice{v, v})
	}
	return out
}

// Render writes the whole page as HTML, as [Page.Render] does.
func (p ProcessesPage) Render(ctx context.Context, w io.Writer) error {
	return document(p.in.head("Processes · gpuwhy", "Processes"), processesBody(p)).Render(ctx, w)
}

// head returns the head of a page with the shell.
func (in *Input) head(title, current string) head {
	return head{
		Title: title, asset: in.Asset, Manifest: in.manifest(), Styles: []string{"app.css"}, Script: in.Asset("page.js"),
		Lasting: lasting[current], Base: in.BasePath,
	}
}

// A ProcessDialog shows everything known about one process.
type ProcessDialog struct {
	Title  string
	Hue    string
	Ended  bool // it is no longer on a GPU
	Close  templ.SafeURL
	GPU    Link
	Groups []ProcessFacts
	Others []Link // related processes, and the same process on other GPUs
	PID    string
	End    string // command that ends only this process
	EndAll string // command that ends it and its related processes; empty if that is the same
	NoEnd  string // why there is no command
}

// ProcessFacts is a titled group of facts about a process.
type ProcessFacts struct {
	Title string
	Facts []ProcessFact
}

// A ProcessFact is one fact about a process.
type ProcessFact struct {
	Label   string
	Value   Value
	Started time.Time // when the process started, if the fact is a duration; zero otherwise
	Means   string
	Copy    string // text to copy; may be empty
}

// newProcessDialog makes the dialog about the process that the address selects; nil if it selects none.
func newProcessDialog(in *Input, all []*Process) *ProcessDialog {
	key := in.Get("process")
	if key == "" {
		return nil
	}
	for _, p := range all {
		p.dress(in)
	}
	out := &ProcessDialog{Close: in.Link("process", "")}
	i := slices.IndexFunc(all, func(p *Process) bool { return p.Key == key })
	if i < 0 {
		parts := strings.Split(key, "/")
		out.Ended, out.Title, out.GPU = true, "Ended process", Link{in.BasePath + "past", "See what ran before"}
		if len(parts) > 2 {
			out.PID = clean(parts[2], longestName)
		}
		return out
	}
	p := all[i]
	out.Title, out.Hue, out.PID, out.GPU = p.Name.Text, p.Hue, p.PID, Link{p.Device, in.name(p.d)}
	out.Groups = newProcessFacts(p)
	group := []*Process{}
	for j, o := range all {
		if o.main != p.main || o.d.Node == p.d.Node && o.PID == p.PID && o.d == p.d && o.Key != p.Key {
			continue
		}
		group = append(group, o)
		if j != i {
			out.Others = append(out.Others, Link{string(in.Link("process", o.Key)), o.Name.Text + ", pid" + nbsp + o.PID + ", " + in.name(o.d)})
		}
	}
	const most = 20
	if n := len(out.Others); n > most {
		out.Others = append(out.Others[:most], Link{in.BasePath + "processes?group=none", "and " + strconv.Itoa(n-most) + " others"})
	}
	out.End, out.EndAll = endingOf([]*Process{p}), endingOf(group)
	switch {
	case out.EndAll == out.End:
		out.EndAll = ""
	case pids(group) == 1:
		out.EndAll = ""
	}
	if out.End == "" {
		switch gpu.KindOf(p.d.Source) {
		case gpu.Simulated:
			out.NoEnd = "Simulated: there is nothing to end."
		case gpu.Recorded:
			out.NoEnd = "Recorded: there is nothing to end."
		default:
			out.NoEnd = "No command is offered: it might end more than this, or not work from here."
		}
	}
	return out
}

func newProcessFacts(p *Process) []ProcessFacts {
	f, process := &p.p.Facts, p.p
	text := func(label string, r gpu.Reading[string], means string) ProcessFact {
		v := shown(r, longestCommand)
		return ProcessFact{Label: label, Value: v, Means: means, Copy: either(v.Mark == Plain, v.Text, "")}
	}
	fact := func(label string, n number, format func(float64) string, means string) ProcessFact {
		return ProcessFact{Label: label, Value: show(n, format), Means: means}
	}
	command := ProcessFact{Label: "Command", Value: p.Command, Copy: clean(f.Command.Or(""), 1<<16)}
	if p.Command.Mark != Plain {
		command.Means = "Other users’ commands are hidden unless --show-commands shows them."
	}
	what := []ProcessFact{
		command,
		{Label: "PID", Value: Value{Text: p.PID}, Copy: p.PID},
		text("User", f.User, ""),
		{Label: "Running for", Value: p.Running},
		{Label: "Type", Value: Value{Text: p.Type}, Means: "Compute or graphics, according to the driver."},
	}
	if started, ok := f.Started.Get(); ok {
		what[3].Started = started
	}
	if !f.Exists.Or(true) {
		what = append(what, ProcessFact{Label: "Ended", Value: Value{Text: "yes"}, Means: "Its memory belongs to no process now."})
	}
	perDevice := []ProcessFact{
		fact("Memory", mebi(process.Memory), memory, "Allocated on this GPU, used or not."),
		fact("Power", p.watts, watts, "An estimate of its share of the GPU’s power draw."),
		fact("Multiprocessors (SM)", num(process.SM), percent, "Its share of SM time."),
		fact("Memory controller", num(process.MemoryBandwidth), percent, ""),
		fact("Encoder", num(process.Encoder), percent, ""),
		fact("Decoder", num(process.Decoder), percent, ""),
	}
	if n := num(process.Video); n.ok() {
		perDevice = append(perDevice, fact("Video engines", n, percent, ""))
	}
	for _, instance := range []struct {
		label   string
		reading gpu.Reading[int]
	}{{"MIG instance", process.GPUInstance}, {"Compute instance", process.ComputeInstance}} {
		if n := num(instance.reading); n.ok() {
			perDevice = append(perDevice, fact(instance.label, n, whole, ""))
		}
	}
	machine := []ProcessFact{
		fact("CPU", num(f.CPU), percent, "Of one core; several cores add up to more than 100 %."),
		fact("Machine memory", mebi(f.RSS), memory, ""),
	}
	place := []ProcessFact{}
	some := func(label, value string) {
		if value != "" {
			place = append(place, text(label, gpu.Of(value), ""))
		}
	}
	pod, container, job, unit := f.Pod.Or(gpu.Pod{}), f.Container.Or(gpu.Container{}), f.Job.Or(gpu.Job{}), f.Unit.Or(gpu.Unit{})
	some("Pod", pod.Name.Or(pod.UID))
	some("Namespace", pod.Namespace.Or(""))
	some("Container", container.Name.Or(""))
	some("Image", container.Image.Or(""))
	some("Runtime", container.Runtime)
	some("Container ID", container.ID)
	if !job.None() {
		some("Slurm job", strconv.Itoa(job.ID))
	}
	some("Unit", unit.Name)
	if len(place) == 0 {
		place = append(place, ProcessFact{Label: "Runs in", Value: p.Place})
	}
	return []ProcessFacts{{"What runs", what}, {"On the GPU", perDevice}, {"On the machine", machine}, {"Where", place}}
}

// processGroups lists the groupings of the table except the default.
var processGroups = []Choice{{"user", "Grouped by user"}, {"none", "Not grouped"}}

// processSorts lists the orders of the table, for screens without column headings.
func processSorts() (out []Choice) {
	for _, c := range processColumns {
		if c.key != "power" {
			out = append(out, Choice{c.key, "Sort by " + either(c.key == "gpu", c.label, strings.ToLower(c.label))})
		}
	}
	return out
}

func hasChoice(list []Choice, value string) bool {
	return slices.ContainsFunc(list, func(c Choice) bool { return c.Value == value })
}

// widthOf returns the width of a bar.
func widthOf(share string) string { return cmp.Or(share, "0") + "%" }
