package drm

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Info is what a driver reports about one open descriptor of a card, in the "drm-" lines of its fdinfo. Descriptors of the same client (see
// Client) report the same.
type Info struct {
	Driver  string // "amdgpu"
	Address string // on the PCI bus; empty if the driver does not report it
	// Client is the number of the open file: duplicated descriptors, inherited ones and those handed to another process share it. Known is
	// whether the driver reports it.
	Client  uint64
	Known   bool
	Engines map[string]Engine // by the driver's names: "gfx", "render", "rcs"
	Memory  map[string]Memory // by region: "vram", "gtt", "system"
}

// An Engine is what a client has used of a kind of engine since it was opened.
type Engine struct {
	Busy     uint64 // nanoseconds, or cycles out of Total
	Cycles   bool   // the driver counts cycles
	Total    uint64 // cycles in which it could have worked
	Capacity uint64 // number of engines of this kind, at least 1
}

// Memory is what a client holds in a region, in bytes. Drivers differ in which of these they report.
type Memory struct {
	// Used is what is present now, see Resident. Drivers before Linux 6.5 report only Used.
	Used, Total, Shared, Resident, Purgeable, Active uint64
	HasUsed, HasTotal, HasShared, HasResident        bool
}

// Held returns how many bytes the client holds in the region now: the resident bytes, or the used ones as reported by an older driver, or
// all allocated bytes if the driver reports nothing else.
func (m Memory) Held() (bytes uint64, ok bool) {
	switch {
	case m.HasResident:
		return m.Resident, true
	case m.HasUsed:
		return m.Used, true
	default:
		return m.Total, m.HasTotal
	}
}

const (
	mostKinds = 64 // of engines, and of regions
	mostKind  = 32 // bytes in the name of one
	mostUnit  = 1 << 60
)

// ParseInfo reads the lines of an fdinfo; ok is false unless a DRM driver wrote them. It skips lines that it does not understand.
func ParseInfo(text []byte) (info Info, ok bool) {
	info.Engines, info.Memory = map[string]Engine{}, map[string]Memory{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		name, drm := strings.CutPrefix(key, "drm-")
		if drm {
			info.line(name, strings.TrimSpace(value))
		}
	}
	maps.DeleteFunc(info.Engines, func(_ string, e Engine) bool { return e.Cycles && e.Total == 0 || e.Capacity&hasNoBusy != 0 })
	for name, e := range info.Engines {
		e.Capacity = max(e.Capacity, 1)
		info.Engines[name] = e
	}
	return info, info.Driver != ""
}

// hasNoBusy marks the capacity of an engine about which nothing else is known yet.
const hasNoBusy = 1 << 63

func (i *Info) line(name, value string) {
	switch name {
	case "driver":
		i.Driver = Clean(value)
		return
	case "pdev":
		if address.MatchString(value) {
			i.Address = value
		}
		return
	case "client-id":
		n, err := strconv.ParseUint(value, 10, 64)
		i.Client, i.Known = n, err == nil
		return
	}
	for _, k := range kinds {
		if kind, found := strings.CutPrefix(name, k.prefix); found {
			if n, ok := amount(value, k.units); ok && kind != "" && len(kind) <= mostKind && Clean(kind) == kind {
				k.set(i, kind, n)
			}
			return
		}
	}
}

// amount parses a number with one of the units; without a unit the factor is 1.
func amount(value string, units map[string]uint64) (uint64, bool) {
	number, unit, _ := strings.Cut(value, " ")
	factor, known := units[strings.TrimSpace(unit)]
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !known || n > 0 && factor > mostUnit/n && factor > 1 {
		return 0, false
	}
	return n * factor, true
}

var (
	inBytes = map[string]uint64{"": 1, "B": 1, "KiB": 1 << 10, "kB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	inTime  = map[string]uint64{"": 1, "ns": 1}
	inOnes  = map[string]uint64{"": 1}
)

// kinds are the lines with a name in their key. Longer prefixes come before shorter ones.
var kinds = []struct {
	prefix string
	units  map[string]uint64
	set    func(i *Info, name string, n uint64)
}{
	{"engine-capacity-", inOnes, engine(func(e *Engine, n uint64) { e.Capacity = e.Capacity&hasNoBusy | min(n, 1<<16) })},
	{"engine-", inTime, engine(func(e *Engine, n uint64) {
		e.Capacity &^= hasNoBusy
		if !e.Cycles {
			e.Busy = n
		}
	})},
	{"total-cycles-", inOnes, engine(func(e *Engine, n uint64) { e.Total = n })},
	{"cycles-", inOnes, engine(func(e *Engine, n uint64) { e.Capacity, e.Cycles, e.Busy = e.Capacity&^hasNoBusy, true, n })},
	{"memory-", inBytes, region(func(m *Memory, n uint64) { m.Used, m.HasUsed = n, true })},
	{"total-", inBytes, region(func(m *Memory, n uint64) { m.Total, m.HasTotal = n, true })},
	{"shared-", inBytes, region(func(m *Memory, n uint64) { m.Shared, m.HasShared = n, true })},
	{"resident-", inBytes, region(func(m *Memory, n uint64) { m.Resident, m.HasResident = n, true })},
	{"purgeable-", inBytes, region(func(m *Memory, n uint64) { m.Purgeable = n })},
	{"active-", inBytes, region(func(m *Memory, n uint64) { m.Active = n })},
}

func engine(set func(*Engine, uint64)) func(*Info, string, uint64) {
	return func(i *Info, name string, n uint64) {
		e, known := i.Engines[name]
		if !known {
			e.Capacity = hasNoBusy
		}
		set(&e, n)
		if known || len(i.Engines) < mostKinds {
			i.Engines[name] = e
		}
	}
}

func region(set func(*Memory, uint64)) func(*Info, string, uint64) {
	return func(i *Info, name string, n uint64) {
		m, known := i.Memory[name]
		set(&m, n)
		if known || len(i.Memory) < mostKinds {
			i.Memory[name] = m
		}
	}
}

// names returns the keys of a map, in order.
func names[T any](table map[string]T) []string { return slices.Sorted(maps.Keys(table)) }
