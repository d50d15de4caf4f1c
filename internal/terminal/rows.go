package terminal

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
)

// absent stands for a reading that there is not. It is no zero.
const absent = "–"

func shown[T any](r gpu.Reading[T], format func(T) string) string {
	if v, ok := r.Get(); ok {
		return format(v)
	}
	return absent
}

func percent(p gpu.Percent) string { return fmt.Sprintf("%.0f %%", float64(p)) }
func celsius(c gpu.Celsius) string { return fmt.Sprintf("%.0f °C", float64(c)) }
func watts(w gpu.Watts) string     { return fmt.Sprintf("%.0f W", float64(w)) }
func megahertz(f gpu.Megahertz) string {
	return fmt.Sprintf("%.0f MHz", float64(f))
}

// size is memory in at most eight cells.
func size(b gpu.Bytes) string {
	if b.MiB() < 1000 {
		return fmt.Sprintf("%.0f MiB", b.MiB())
	}
	return gibi(b) + " GiB"
}

func gibi(b gpu.Bytes) string {
	if g := b.MiB() / 1024; g < 99.95 {
		return fmt.Sprintf("%.1f", g)
	}
	return fmt.Sprintf("%.0f", b.MiB()/1024)
}

// running is how long something has run, in at most six cells.
func running(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Hour:
		return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02d", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// An entry is one process, on one GPU or several of its machine. The head of a group stands for several.
type entry struct {
	key     string
	depth   int    // in the tree
	group   string // what the head of a group stands for; empty for a process
	count   int    // the processes of the group
	process *client.Process
	gpus    []int // indexes
	memory  gpu.Reading[gpu.Bytes]
	power   gpu.Reading[gpu.Watts]
	use     gpu.Reading[gpu.Percent] // the most of its GPUs
	at      time.Time                // of the reading
}

func (e *entry) user() string { return pointed(e.process.User) }

// command is what the process runs, as far as that is known.
func (e *entry) command() string {
	if e.ended() {
		return "(ended; its memory is still held)"
	}
	return cmp.Or(pointed(e.process.Command), e.program())
}

// program is its usual name.
func (e *entry) program() string {
	if e.ended() {
		return "(ended)"
	}
	return cmp.Or(pointed(e.process.Program), e.process.Name, absent)
}

func (e *entry) ended() bool { return e.process.Exists != nil && !*e.process.Exists }

// place is where the process runs: its pod, container, job or unit; empty if it is in none or that is unknown.
func place(p *client.Process) string {
	switch {
	case p.Pod != nil && p.Pod.UID != "":
		name := p.Pod.Name.Or(p.Pod.UID[:min(12, len(p.Pod.UID))])
		if space := p.Pod.Namespace.Or(""); space != "" {
			name = space + "/" + name
		}
		return name
	case p.Container != nil && p.Container.ID != "":
		return p.Container.Name.Or(p.Container.ID[:min(12, len(p.Container.ID))])
	case p.SlurmJob != nil && p.SlurmJob.ID != 0:
		return "job " + strconv.Itoa(p.SlurmJob.ID)
	case p.Unit != nil && p.Unit.Name != "":
		return strings.TrimSuffix(p.Unit.Name, ".service")
	}
	return ""
}

func pointed(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// started is how long ago the process started.
func (e *entry) started() gpu.Reading[time.Duration] {
	return gpu.Map(e.process.StartedAt, func(t time.Time) time.Duration { return e.at.Sub(t) })
}

// An order is by what processes are sorted.
type order int

const (
	byWatts order = iota
	byUse
	byMemory
	byTime
	byGPU
	byUser
	byPlace
	byPID
	byCommand
)

// An ordering says how processes are sorted.
type ordering struct {
	order   order
	label   string
	key     string // chooses it at once; empty: none
	compare func(a, b *entry) int
}

// orders are how processes are sorted, in the order of the menu. The first of them is the usual one.
var orders = []ordering{
	{byWatts, "watts", "W", func(a, b *entry) int { return most(number(a.power), number(b.power)) }},
	{byUse, "GPU %", "P", func(a, b *entry) int { return most(number(a.use), number(b.use)) }},
	{byMemory, "memory", "M", func(a, b *entry) int { return most(number(a.memory), number(b.memory)) }},
	{byTime, "time running", "T", func(a, b *entry) int { return most(seconds(a.started()), seconds(b.started())) }},
	{byGPU, "GPU", "", func(a, b *entry) int { return slices.Compare(a.gpus, b.gpus) }},
	{byUser, "user", "", func(a, b *entry) int { return strings.Compare(a.user(), b.user()) }},
	{byPlace, "container", "", func(a, b *entry) int { return strings.Compare(place(a.process), place(b.process)) }},
	{byPID, "process id", "N", func(a, b *entry) int { return cmp.Compare(a.process.PID, b.process.PID) }},
	{byCommand, "command", "", func(a, b *entry) int { return strings.Compare(a.command(), b.command()) }},
}

func (o order) ordering() *ordering {
	return &orders[slices.IndexFunc(orders, func(w ordering) bool { return w.order == o })]
}

func seconds(r gpu.Reading[time.Duration]) gpu.Reading[float64] {
	return gpu.Map(r, time.Duration.Seconds)
}

// most puts the highest first, and what is absent last.
func most(a, b gpu.Reading[float64]) int {
	x, known := a.Get()
	y, other := b.Get()
	switch {
	case known && other:
		return cmp.Compare(y, x)
	case known:
		return -1
	case other:
		return 1
	}
	return 0
}

func sum[T ~float64 | ~uint64](a, b gpu.Reading[T]) gpu.Reading[T] {
	x, known := a.Get()
	y, other := b.Get()
	switch {
	case known && other:
		return gpu.Of(x + y)
	case known:
		return a
	default:
		return b
	}
}

// entries are the processes of a machine that the filters keep, sorted, in groups if there is a tree.
func (m *model) entries(u *client.Update) []entry {
	if u == nil {
		return nil
	}
	list := merged(u)
	list = slices.DeleteFunc(list, func(e entry) bool {
		if m.user != "" && e.user() != m.user {
			return true
		}
		return !matches(m.filter, strconv.Itoa(e.process.PID), e.user(), place(e.process), e.command(), e.process.Name)
	})
	compare := m.sort.ordering().compare
	slices.SortStableFunc(list, func(a, b entry) int {
		c := compare(&a, &b)
		if m.upward {
			c = -c
		}
		return cmp.Or(c, slices.Compare(a.gpus, b.gpus), cmp.Compare(a.process.PID, b.process.PID))
	})
	if m.tree {
		return grouped(list)
	}
	return list
}

// merged are the processes of a machine, each once, however many of its GPUs it uses.
func merged(u *client.Update) (list []entry) {
	index := map[int]int{}
	at := moment(u.Timestamp)
	for i := range u.GPUs {
		g := &u.GPUs[i]
		for j := range g.Processes {
			p := &g.Processes[j]
			n, seen := index[p.PID]
			if !seen {
				index[p.PID] = len(list)
				list = append(list, entry{key: strconv.Itoa(p.PID), process: p, gpus: []int{g.ID}, memory: p.UsedMemory, power: p.Power, use: p.SM, at: at})
				continue
			}
			e := &list[n]
			if !slices.Contains(e.gpus, g.ID) { // MIG instances of one GPU list a process twice
				e.gpus = append(e.gpus, g.ID)
			}
			e.memory, e.power = sum(e.memory, p.UsedMemory), sum(e.power, p.Power)
			if most(number(p.SM), number(e.use)) < 0 {
				e.use = p.SM
			}
		}
	}
	return list
}

// grouped puts processes below their user, and there below the container, pod, job or unit that they run in. The groups are in the order of their
// first processes.
func grouped(list []entry) (out []entry) {
	users := groupBy(list, func(e *entry) string { return cmp.Or(e.user(), "unknown user") })
	for _, g := range users {
		out = append(out, head(g.name, 0, g.list))
		for _, in := range groupBy(g.list, func(e *entry) string { return place(e.process) }) {
			depth := 1
			if in.name != "" {
				h := head(in.name, 1, in.list)
				h.key = g.name + "/" + in.name
				out = append(out, h)
				depth = 2
			}
			for _, e := range in.list {
				e.depth = depth
				out = append(out, e)
			}
		}
	}
	return out
}

type entryGroup struct {
	name string
	list []entry
}

func groupBy(list []entry, name func(*entry) string) (out []entryGroup) {
	index := map[string]int{}
	for _, e := range list {
		n := name(&e)
		i, seen := index[n]
		if !seen {
			i, index[n] = len(out), len(out)
			out = append(out, entryGroup{name: n})
		}
		out[i].list = append(out[i].list, e)
	}
	return out
}

// head is the row of a group, with its sums.
func head(name string, depth int, list []entry) entry {
	h := entry{key: name, depth: depth, group: name, count: len(list), process: list[0].process, at: list[0].at}
	for i := range list {
		h.memory, h.power = sum(h.memory, list[i].memory), sum(h.power, list[i].power)
		for _, id := range list[i].gpus {
			if !slices.Contains(h.gpus, id) {
				h.gpus = append(h.gpus, id)
			}
		}
	}
	slices.Sort(h.gpus)
	return h
}

// indexes are numbers in short: "0–3,6".
func indexes(list []int) string {
	list = slices.Sorted(slices.Values(list))
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		switch j {
		case i:
			parts = append(parts, strconv.Itoa(list[i]))
		case i + 1:
			parts = append(parts, strconv.Itoa(list[i]), strconv.Itoa(list[j]))
		default:
			parts = append(parts, strconv.Itoa(list[i])+"–"+strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// worst is the alert that needs somebody first, and how many more do. Those that somebody has acknowledged or silenced don't, nor those that only
// inform.
func (k *known) worst() (first *client.Alert, more int) {
	if k.alerts == nil {
		return nil, 0
	}
	for i := range k.alerts.Alerts { // the worst first
		a := &k.alerts.Alerts[i]
		switch {
		case a.Severity == "info" || a.Acknowledged != nil || a.SilencedUntil != nil || a.State == "resolved":
		case first == nil:
			first = a
		default:
			more++
		}
	}
	return first, more
}
