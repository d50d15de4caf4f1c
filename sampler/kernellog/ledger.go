package kernellog

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	// slack is how much the log's time of an event and the time when a source learned of it may differ, beyond the time between two
	// readings of the source.
	slack = 5 * time.Second
	// together is how long after a line without a device the driver may name the device, and how long after an event it may name the
	// process.
	together = 10 * time.Second
	// follows is how long lines of NVIDIA's driver without a device are taken to be about the device that it last named.
	follows = time.Second

	mostDevices = 64   // devices known only from log lines
	mostCodes   = 64   // codes of a device, likewise
	mostOpen    = 1024 // events of a code waiting for their counterpart
	mostPending = 64   // events whose device is not known yet
	mostEarlier = 1000 // events of a code from before gpuwhy began
)

// incident is how long after a line another line of the same kind is about the same fault: one fault writes several lines.
var incident = map[gpu.FaultKind]time.Duration{
	gpu.FaultPage: time.Second, gpu.FaultResetFailed: together, gpu.FaultWedged: together, gpu.FaultOffBus: together,
	gpu.FaultInitFailed: together,
}

// fallenOff is the XID with the same meaning as [gpu.FaultOffBus]; if both are logged, the XID is reported.
const fallenOff = 79

// code is an XID or a kind of fault.
type code struct {
	xid  int
	kind gpu.FaultKind
}

// A tally counts the events of one code.
type tally struct {
	count, earlier uint64
	last           time.Time
	engine         string
	culprit        gpu.Culprit
	line           time.Time // time of the newest line, counted or not

	// An XID can come from both the log and the source, in either order.
	heard uint64      // what the source has counted so far
	open  []time.Time // events in the log that the source has not reported
	owed  []span      // events from the source that the log has not shown
}

// A span is the time in which an event that a source reported must have happened, and the time that the source gives for it.
type span struct{ from, to, last time.Time }

type device struct {
	tallies map[code]*tally
	sampled time.Time // as reported by the source in the last reading in which the device answered
	heard   time.Time // time of that reading
}

type pending struct {
	event
	occurred time.Time
}

// A ledger has all events by device, each once.
type ledger struct {
	began   time.Time
	devices map[string]*device // by PCI address
	pending []*pending
	// newest is where to record the process of a driver's newest event.
	newest map[string]newest
	named  newest // the device that NVIDIA's driver last named
}

type newest struct {
	pci      string
	occurred time.Time
	culprit  *gpu.Culprit
}

func newLedger() ledger {
	return ledger{devices: map[string]*device{}, newest: map[string]newest{}}
}

func (l *ledger) begin(now time.Time) {
	if l.began.IsZero() {
		l.began = now
	}
}

// device returns what is known about a device, which may be nothing yet.
func (l *ledger) device(pci string) *device {
	d := l.devices[pci]
	if d == nil {
		d = &device{tallies: map[code]*tally{}}
		l.devices[pci] = d
	}
	return d
}

func (d *device) tally(c code) *tally {
	t := d.tallies[c]
	if t == nil {
		t = &tally{}
		d.tallies[c] = t
	}
	return t
}

// full reports whether a line would add too many devices or codes: lines can contain anything.
func (l *ledger) full(pci string, c code) bool {
	d := l.devices[pci]
	return d == nil && len(l.devices) >= mostDevices || d != nil && d.tallies[c] == nil && len(d.tallies) >= mostCodes
}

// hear takes an event from the log.
func (l *ledger) hear(e event, occurred time.Time) {
	if e.driver == "nvidia" && e.pci == "" && occurred.Sub(l.named.occurred).Abs() <= follows {
		e.pci = l.named.pci
	}
	if e.driver == "nvidia" && e.pci != "" {
		l.named = newest{pci: e.pci, occurred: occurred}
	}
	switch {
	case e.names:
	case e.xid == 0 && e.kind == "":
		n := l.newest[e.driver]
		fits := n.culprit != nil && *n.culprit == gpu.Culprit{} && occurred.Sub(n.occurred) <= together && (e.pci == "" || n.pci == "" || e.pci == n.pci)
		if fits {
			*n.culprit = e.culprit
		}
	case e.pci == "":
		if len(l.pending) < mostPending {
			p := &pending{e, occurred}
			l.pending = append(l.pending, p)
			l.newest[e.driver] = newest{occurred: occurred, culprit: &p.culprit}
		}
	default:
		l.settle(e.driver, e.pci, func(p *pending) bool { return occurred.Sub(p.occurred) <= together })
		l.count(e, occurred)
	}
}

// settle counts a driver's events that fit a device.
func (l *ledger) settle(driver, pci string, fits func(*pending) bool) {
	l.pending = slices.DeleteFunc(l.pending, func(p *pending) bool {
		if p.driver != driver || !fits(p) {
			return false
		}
		p.pci = pci
		l.count(p.event, p.occurred)
		return true
	})
}

func (l *ledger) count(e event, occurred time.Time) {
	c := code{e.xid, e.kind}
	if l.full(e.pci, c) {
		return
	}
	if l.sameTrouble(e, occurred) {
		return
	}
	t := l.device(e.pci).tally(c)
	defer func(before time.Time) { t.line = later(before, occurred) }(t.line)
	if again := incident[e.kind]; again > 0 && !t.line.IsZero() && occurred.Sub(t.line) <= again {
		return
	}
	if e.xid != 0 && t.settles(e, occurred) {
		return
	}
	if e.earlier {
		if t.earlier == mostEarlier {
			return
		}
		t.earlier++
	}
	t.count++
	if !occurred.Before(t.last) {
		t.last, t.engine, t.culprit = occurred, e.engine, e.culprit
		l.newest[e.driver] = newest{e.pci, occurred, &t.culprit}
	}
	if e.xid != 0 && !occurred.Before(l.began.Add(-slack)) && len(t.open) < mostOpen {
		t.open = append(t.open, occurred)
	}
}

// sameTrouble reports whether an event has already been reported in other words: NVIDIA's driver logs both XID 79 and that the device has
// fallen off the bus. If the words came first, the XID replaces them.
func (l *ledger) sameTrouble(e event, occurred time.Time) bool {
	d := l.device(e.pci)
	near := func(c code) bool {
		t := d.tallies[c]
		return t != nil && (occurred.Sub(t.line).Abs() <= together || occurred.Sub(t.last).Abs() <= together)
	}
	words := code{kind: gpu.FaultOffBus}
	switch {
	case e.driver != "nvidia":
	case e.kind == gpu.FaultOffBus:
		return near(code{xid: fallenOff})
	case e.xid == fallenOff && near(words):
		if t := d.tallies[words]; t.count <= 1 {
			delete(d.tallies, words)
		} else {
			t.count--
			t.earlier = min(t.earlier, t.count)
		}
	}
	return false
}

// Suspects returns, by address, the devices that the log reports as off the bus or as impossible to start.
func (l *Log) Suspects() (out []gpu.Suspect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for pci, d := range l.devices {
		var s gpu.Suspect
		for c, t := range d.tallies {
			kind := c.kind
			if c.xid == fallenOff {
				kind = gpu.FaultOffBus
			}
			if (kind == gpu.FaultOffBus || kind == gpu.FaultInitFailed) && t.count > 0 && !t.last.Before(s.Last) {
				s = gpu.Suspect{PCI: pci, Kind: kind, Last: t.last.UTC()}
			}
		}
		if s.PCI != "" {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b gpu.Suspect) int { return cmp.Compare(a.PCI, b.PCI) })
	return out
}

// settles reports whether a source has already reported an event that only now appears in the log. The log's time is better: the source
// only knows when it was asked.
func (t *tally) settles(e event, occurred time.Time) bool {
	i := slices.IndexFunc(t.owed, func(s span) bool { return !occurred.Before(s.from.Add(-slack)) && !occurred.After(s.to.Add(slack)) })
	if i < 0 {
		return false
	}
	if t.last.Equal(t.owed[i].last) || t.last.Before(occurred) {
		t.last, t.culprit = occurred, e.culprit
	}
	t.owed = slices.Delete(t.owed, i, i+1)
	return true
}

// tell takes what a source has counted, as reported between two of its readings.
func (t *tally) tell(x gpu.XID, told span) {
	news := x.Count - t.heard
	if x.Count < t.heard { // the source restarted
		news = x.Count
	}
	t.heard = x.Count
	t.open = slices.DeleteFunc(t.open, func(occurred time.Time) bool { return occurred.Before(told.from.Add(-slack)) })
	t.owed = slices.DeleteFunc(t.owed, func(s span) bool { return s.to.Add(slack).Before(told.from) })
	matched := min(news, uint64(len(t.open)))
	t.open = slices.Delete(t.open, 0, int(matched))
	if news -= matched; news == 0 {
		return
	}
	t.count += news
	t.last, t.culprit = later(t.last, x.Last), gpu.Culprit{}
	told.last = t.last
	for range min(news, uint64(mostOpen-len(t.owed))) {
		t.owed = append(t.owed, told)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// vendors are the vendors of each driver's devices.
var vendors = map[string]gpu.Vendor{"nvidia": gpu.NVIDIA, "amdgpu": gpu.AMD, "i915": gpu.Intel, "xe": gpu.Intel}

// Describe writes into each device, in place, the errors that the log and its source report, each once. It returns notes about errors that
// gpuwhy can't see. now is the time of the reading.
func (l *Log) Describe(now time.Time, devices []gpu.Device) (notes []gpu.Advice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place(now, devices)
	missing := false
	for i := range devices {
		d := &devices[i]
		if d.Vendor == gpu.NVIDIA {
			l.tell(d, now)
		}
		missing = l.write(d) || missing
		d.Blame()
	}
	if missing && !l.state.advice.IsZero() {
		notes = append(notes, l.state.advice)
	}
	return notes
}

// place finds the device of events whose line did not name it: the only device of its vendor. Otherwise the event is dropped after a while.
func (l *ledger) place(now time.Time, devices []gpu.Device) {
	for driver, vendor := range vendors {
		isVendor := func(d gpu.Device) bool { return d.Vendor == vendor && d.PCI != "" }
		if i := slices.IndexFunc(devices, isVendor); i >= 0 && !slices.ContainsFunc(devices[i+1:], isVendor) {
			l.settle(driver, devices[i].PCI, func(*pending) bool { return true })
		}
	}
	l.pending = slices.DeleteFunc(l.pending, func(p *pending) bool { return now.Sub(p.occurred) > together })
}

// tell takes what the source counted for a device.
func (l *ledger) tell(d *gpu.Device, now time.Time) {
	list, ok := d.Health.XIDs.Get()
	if !ok || d.PCI == "" {
		return
	}
	known := l.device(d.PCI)
	told := span{from: later(l.began, known.heard), to: now}
	for _, x := range list {
		known.tally(code{xid: x.Code}).tell(x, told)
	}
	if d.State == gpu.StateOK && !d.SampledAt.Equal(known.sampled) {
		known.sampled, known.heard = d.SampledAt, now
	}
}

// write sets the device's errors, and reports whether some are missing.
func (l *Log) write(d *gpu.Device) (missing bool) {
	var xids []gpu.XID
	var faults []gpu.Fault
	if known := l.devices[d.PCI]; known != nil {
		for c, t := range known.tallies {
			if t.count == 0 {
				continue
			}
			if c.xid != 0 {
				xids = append(xids, gpu.XID{Code: c.xid, Count: t.count, Earlier: t.earlier, Last: t.last.UTC(), Culprit: t.culprit})
				continue
			}
			faults = append(faults, gpu.Fault{Kind: c.kind, Count: t.count, Earlier: t.earlier, Last: t.last.UTC(), Engine: t.engine, Culprit: t.culprit})
		}
	}
	switch {
	case d.PCI == "":
		return false
	case d.Vendor == gpu.NVIDIA:
		slices.SortFunc(xids, func(a, b gpu.XID) int { return cmp.Compare(a.Code, b.Code) })
		d.Health.XIDs = list(l.state, d.Health.XIDs, xids)
		faults = append(faults, d.Health.Standing()...) // reported by the source
		slices.SortFunc(faults, func(a, b gpu.Fault) int { return cmp.Compare(a.Kind, b.Kind) })
		d.Health.Faults = list(l.state, d.Health.Faults, faults)
		return d.State == gpu.StateOK && !d.Health.XIDs.Present() // its driver may not have been asked yet
	default:
		slices.SortFunc(faults, func(a, b gpu.Fault) int { return cmp.Compare(a.Kind, b.Kind) })
		d.Health.Faults = list(l.state, d.Health.Faults, faults)
		return !d.Health.Faults.Present()
	}
}

// list returns the errors or, if they can't be known, why.
func list[T any](s state, source gpu.Reading[[]T], all []T) gpu.Reading[[]T] {
	switch {
	case s.ok || source.Present() || len(all) > 0:
		return gpu.Of(append([]T{}, all...))
	case s.why == gpu.NotReported:
		return source
	default:
		return gpu.Absent[[]T](s.why)
	}
}
