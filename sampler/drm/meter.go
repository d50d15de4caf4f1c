package drm

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Meter measures what processes use of one card between readings. One goroutine at a time may use it.
type Meter struct {
	proc    string
	read    func(string) ([]byte, error)
	clock   clockwork.Clock
	clients map[client]*counts
}

// A client is an open file of the card. If the driver gives it no number, each descriptor is a client.
type client struct {
	number uint64
	Descriptor
}

// counts are a client's counters as last read.
type counts struct {
	engines map[string]*count
	read    time.Time
	usage   map[string]gpu.Percent // of the engines since the previous reading
	used    bool                   // in this reading
}

type count struct {
	Engine
	sampled time.Time
	odd     time.Time // since when the driver reports impossible values; zero: it does not
}

// NewMeter returns a meter of processes below a root of procfs. It reads files with read; see [Folder].
func NewMeter(clock clockwork.Clock, proc string, read func(file string) ([]byte, error)) *Meter {
	return &Meter{clock: clock, proc: proc, read: read, clients: map[client]*counts{}}
}

// Usage is what is used of a card.
type Usage struct {
	Processes []Process // by pid
	// Engines are the shares of time that all clients together used of each kind of engine since the previous reading, each client counted
	// once. An engine is missing until a client has measured it twice: drivers, new and old, leave out engines that a client has never
	// used.
	Engines map[string]gpu.Percent
	// Memory is what all clients together hold by region, each client counted once; see [Process.Memory].
	Memory map[string]gpu.Bytes
	// Denied counts the processes that have the card open but may not be read.
	Denied int
	// Mute means that the card is open, but its driver reports no usage at all, as drivers before Linux 5.19.
	Mute bool
}

// A Process is what a process uses of a card.
type Process struct {
	PID int
	// Denied means that it has the card open, and nothing else may be known.
	Denied bool
	// Engines are its shares of the time of each kind of engine since the previous reading. In the process's first reading they are
	// missing, and Measured is false.
	Engines  map[string]gpu.Percent
	Measured bool
	// Used are the kinds of engines that it has used since it opened the card.
	Used []string
	// Memory is the memory that it holds by region, see [Memory.Held]. Memory shared by several processes counts for each.
	Memory map[string]gpu.Bytes
}

// Read reads the fdinfo of the descriptors, which asks the driver of the card at the address.
func (m *Meter) Read(address string, descriptors []Descriptor) Usage {
	for _, c := range m.clients {
		c.used = false
	}
	usage := Usage{Engines: map[string]gpu.Percent{}, Memory: map[string]gpu.Bytes{}}
	processes := map[int]*Process{}
	total := map[client]bool{}
	opened, mute := m.opened(address, descriptors)
	usage.Mute = mute
	for _, o := range opened {
		p := processes[o.pid]
		if p == nil {
			p = &Process{PID: o.pid, Engines: map[string]gpu.Percent{}, Memory: map[string]gpu.Bytes{}}
			processes[o.pid] = p
		}
		if o.denied {
			p.Denied = true
			continue
		}
		c := m.count(o.id, o.info)
		if !total[o.id] {
			total[o.id] = true
			add(usage.Engines, c.usage)
			hold(usage.Memory, o.info)
		}
		p.add(c, o.info)
	}
	maps.DeleteFunc(m.clients, func(_ client, c *counts) bool { return !c.used })
	for _, p := range processes {
		usage.Processes = append(usage.Processes, *p)
		if p.Denied {
			usage.Denied++
		}
	}
	slices.SortFunc(usage.Processes, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return usage
}

// An open is one client of one process, or a process that may not be read.
type open struct {
	pid    int
	id     client
	info   Info
	denied bool
}

// opened returns the clients of the card, each once per process. A client that a session manager has opened for another process belongs to
// that process alone. The driver is mute if it reports nothing about any client.
func (m *Meter) opened(address string, descriptors []Descriptor) (all []open, mute bool) {
	silent, told := 0, 0
	holders := map[client]int{} // how many processes have it open
	seen := map[int]map[client]bool{}
	for _, d := range descriptors {
		text, err := m.fdinfo(d)
		if errors.Is(err, fs.ErrPermission) {
			all = append(all, open{pid: d.PID, denied: true})
			continue
		}
		info, ok := ParseInfo(text)
		if err == nil && len(text) > 0 {
			if ok {
				told++
			} else {
				silent++
			}
		}
		if err != nil || !ok || info.Address != "" && info.Address != address {
			continue // it was closed meanwhile, or belongs to another card
		}
		id := client{number: info.Client}
		if !info.Known {
			id.Descriptor = d
		}
		if seen[d.PID] == nil {
			seen[d.PID] = map[client]bool{}
		}
		if !seen[d.PID][id] {
			seen[d.PID][id] = true
			holders[id]++
			all = append(all, open{pid: d.PID, id: id, info: info})
		}
	}
	all = slices.DeleteFunc(all, func(o open) bool {
		if o.denied || holders[o.id] < 2 || !m.opensForOthers(o.pid) {
			return false
		}
		holders[o.id]--
		return true
	})
	return all, silent > 0 && told == 0
}

// openers are programs that open cards for others, and keep them open.
var openers = []string{"systemd-logind", "elogind-daemon", "elogind", "seatd"}

func (m *Meter) opensForOthers(pid int) bool {
	name, err := Folder{filepath.Join(m.proc, strconv.Itoa(pid)), m.read}.Text("comm")
	return err == nil && slices.Contains(openers, name)
}

func (m *Meter) fdinfo(d Descriptor) ([]byte, error) {
	folder := Folder{filepath.Join(m.proc, strconv.Itoa(d.PID), "fdinfo"), m.read}
	return folder.Bytes(strconv.Itoa(d.Number))
}

// count records what a client has used, once per reading.
func (m *Meter) count(id client, info Info) *counts {
	c := m.clients[id]
	if c == nil {
		c = &counts{engines: map[string]*count{}}
		m.clients[id] = c
	}
	if c.used {
		return c
	}
	now := m.clock.Now()
	c.used, c.usage = true, map[string]gpu.Percent{}
	for name, e := range info.Engines {
		last := c.engines[name]
		if last == nil {
			c.engines[name] = &count{Engine: e, sampled: now}
			if !c.read.IsZero() && !e.Cycles {
				// Drivers name an engine only once the client has used it, so before that it had used nothing.
				if share, ok := shareOf(float64(e.Busy), float64(now.Sub(c.read)), e.Capacity); ok {
					c.usage[name] = share
				}
			}
			continue
		}
		if share, ok := last.next(e, now); ok {
			c.usage[name] = share
		}
	}
	c.read = now
	return c
}

// catchUp is how long a counter may be below its last value, or far above any possible value, before it counts as restarted.
const catchUp = 10 * time.Second

// next returns the share of the time since the counter was last read.
func (l *count) next(e Engine, now time.Time) (gpu.Percent, bool) {
	whole := float64(now.Sub(l.sampled))
	if e.Cycles {
		whole = float64(e.Total) - float64(l.Total)
	}
	lower := e.Busy < l.Busy // the driver may take a moment to catch up with an earlier value
	share, ok := shareOf(float64(e.Busy)-float64(l.Busy), whole, e.Capacity)
	switch {
	case whole == 0 && e.Cycles == l.Cycles && !lower:
		return 0, false // the next reading compares with the last good one
	case ok && !lower && e.Cycles == l.Cycles:
		*l = count{Engine: e, sampled: now}
		return share, true
	case l.odd.IsZero():
		l.odd = now
	}
	if e.Cycles != l.Cycles || now.Sub(l.odd).Abs() >= catchUp {
		*l = count{Engine: e, sampled: now}
		return 0, false
	}
	return 0, lower
}

// shareOf returns the share of a time in which engines were busy. A counter is read slightly before or after the time, so a little above
// 100 % counts as 100 %; ok is false if the share is impossible.
func shareOf(busy, whole float64, capacity uint64) (gpu.Percent, bool) {
	const most = 4
	share := busy / (whole * float64(capacity))
	if whole <= 0 || share > most {
		return 0, false
	}
	return gpu.Percent(min(100*share, 100)), true
}

func add(sums, more map[string]gpu.Percent) {
	for name, share := range more {
		sums[name] = min(sums[name]+share, 100)
	}
}

// add adds what a client uses.
func (p *Process) add(c *counts, info Info) {
	add(p.Engines, c.usage)
	p.Measured = p.Measured || len(c.usage) > 0
	for _, name := range names(info.Engines) {
		if info.Engines[name].Busy > 0 && !slices.Contains(p.Used, name) {
			p.Used = append(p.Used, name)
		}
	}
	hold(p.Memory, info)
}

// hold adds what a client holds.
func hold(held map[string]gpu.Bytes, info Info) {
	for name, m := range info.Memory {
		if bytes, ok := m.Held(); ok && gpu.Bytes(bytes) <= MostMemory {
			held[name] += gpu.Bytes(bytes)
		}
	}
}
