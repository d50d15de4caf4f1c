package smi

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
)

// Commands that run beside the loops: pmon for the processes, and the XML.

// A monitor is a running pmon.
type monitor struct {
	rounds
	ids     string // the devices it was told to read
	stop    context.CancelFunc
	running bool
	began   time.Time
	next    time.Time
	barren  int
	off     bool // the devices or this version don't support it
	lines   int
}

// seconds is pmon's own interval in whole seconds: at most ten, or the Pace of Run if it is set.
func (s *Source) seconds() int {
	if s.cfg.Pace != nil {
		return int(max((s.cfg.Pace()+time.Second-1)/time.Second, 1))
	}
	return int(min(max(s.cfg.period().Round(time.Second)/time.Second, 1), 10))
}

// patience is how old a round of pmon may be.
func (s *Source) patience() time.Duration {
	return time.Duration(2*s.seconds())*time.Second + s.cfg.Deadline
}

// only is the argument that names the devices to read; empty for all.
func (s *Source) only() string {
	var keys []string
	for _, l := range s.loops {
		if l.keys == nil {
			return ""
		}
		if len(l.seen) > 0 && !l.stalled { // it answers
			keys = append(keys, l.keys...)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

// watch keeps pmon running. The caller holds the lock.
func (s *Source) watch(now time.Time) {
	m, ids := &s.pmon, s.only()
	told := ids != "" || len(s.loops) == 1 && s.loops[0].keys == nil
	if m.running {
		late := now.Sub(m.read) > s.patience() && now.Sub(m.began) > s.patience()+5*s.cfg.Deadline
		if ids != m.ids || late {
			m.stop()
		}
		return
	}
	if !told || now.Before(m.next) || s.lingering["pmon"] > 0 || s.flying >= mostCommands {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.running, m.began, m.ids, m.lines, m.off = stop, true, now, ids, 0, false
	m.rounds = rounds{samples: m.samples}
	args := []string{"pmon", "-s", "um", "-d", fmt.Sprint(s.seconds())}
	if ids != "" {
		args = append(args, "-i", ids)
	}
	s.spawn(ctx, "pmon", args, func(text string) {
		if m.add(text, s.cfg.Clock.Now()) {
			m.lines++
		} else if t, ok := sentenceOf(text); ok && t.unsupported {
			m.off = true
		} else if text = clean(text); text != "" {
			s.note(text)
		}
	}, func(err error) {
		stop()
		m.running = false
		m.barren++
		if m.lines > 0 {
			m.barren = 0
		}
		pause := min(firstRetry<<min(m.barren, 8), lastRetry)
		if m.off = m.off || m.barren > 1; m.off {
			pause = seldom
		}
		m.next = s.cfg.Clock.Now().Add(pause)
		s.log.Debug("nvidia-smi pmon ended", "err", err, "supported", !m.off)
	})
}

// beyond reports whether pmon leaves out a device that answers: it lists at most 16 devices, older versions 4.
func (s *Source) beyond(now time.Time) bool {
	round, _ := s.pmon.newest(now)
	for _, h := range s.rows {
		its := func(u usage) bool { return u.gpu == h.index }
		if h.err == nil && len(round) > 0 && !slices.ContainsFunc(round, its) {
			return true
		}
	}
	return false
}

// detail runs the XML query if it is due. The caller holds the lock.
func (s *Source) detail(now time.Time) {
	if s.detailsDue.Sub(now) > sometimes && s.beyond(now) {
		s.detailsDue = now.Add(sometimes)
	}
	if s.stopDetails != nil || now.Before(s.detailsDue) || s.lingering["xml"] > 0 || s.flying >= mostCommands {
		return
	}
	ids := s.only()
	if ids == "" && (len(s.loops) != 1 || s.loops[0].keys != nil) {
		return
	}
	ctx, stop := perdevice.WithTimeout(context.Background(), s.cfg.Clock, lastRetry)
	s.stopDetails = stop
	s.flying++
	s.lingering["xml"]++
	args := []string{"-q", "-x"}
	if ids != "" {
		args = append(args, "--id="+ids)
	}
	go func() {
		defer stop()
		out := &limited{most: longestXML}
		err := s.run(ctx, out, io.Discard, args...)
		now := s.cfg.Clock.Now()
		doc, parseErr := parseXML(out.Bytes())
		all := make(map[string]*details, len(doc.GPUs))
		instances := false
		for _, g := range doc.GPUs {
			all[g.key()] = &details{gpuElement: g, read: now}
			instances = instances || len(g.Instances.List) > 0
		}
		var names map[string]map[string]instanceName
		if instances {
			list := &limited{most: 1 << 20}
			if listErr := s.run(ctx, list, io.Discard, "-L"); listErr != nil {
				s.log.Debug("nvidia-smi -L failed", "err", listErr)
			}
			names = parseList(list.String())
		}
		for _, x := range all {
			x.setInstances(names[strings.TrimSpace(x.UUID)], clean(x.Name))
		}
		if parseErr != nil {
			s.log.Debug("nvidia-smi -q -x can't be read", "err", parseErr, "ended", err, "bytes", out.Len(), "cut", out.cut)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
		delete(s.lingering, "xml")
		s.stopDetails = nil
		s.takeDetails(all, doc.CUDA, now)
		s.wake()
	}()
}

// takeDetails stores the XML's answer, and decides when to run it again.
func (s *Source) takeDetails(all map[string]*details, cuda string, now time.Time) {
	s.detailed = true
	pause := seldom
	if len(all) == 0 {
		pause = sometimes
	}
	for key, x := range all {
		s.details[key] = x
		if h := s.rows[key]; flag(x.MIG).Or(false) || h != nil && h.unread != "" {
			pause = sometimes
		}
		if s.rows[key] == nil && s.trouble[key] == nil && !s.asleep[key] && !s.unlisted[key] && key != "" { // a new device
			for _, l := range s.loops {
				if l.keys == nil && l.running && l.whole(s.count) {
					l.stop()
				}
			}
		}
	}
	if s.pmon.off || s.cfg.PCIeThroughput {
		pause = sometimes
	}
	if v := name(value(cuda)); v.Present() {
		s.driver.CUDA = v
	}
	s.detailsDue = now.Add(pause)
}

// compose builds a device from its newest line, the XML and the processes. The caller holds the lock.
func (s *Source) compose(h *heard, now time.Time) gpu.Device {
	d := s.joined(h, now)
	d.Shared.Unified = nvidia.Unified(&d.Identity, &d.Readings)
	d.PCIe = nvidia.Link(d.PCIe, d.Shared.Unified)
	return d
}

// joined builds the device without the conclusions from all of these together.
func (s *Source) joined(h *heard, now time.Time) gpu.Device {
	r, x := h.row, s.detailsOf(h)
	r.says = slices.Clone(r.says)
	d := &r.device
	d.SampledAt = h.read
	d.Fans.Fans = slices.Clone(d.Fans.Fans)
	if x != nil && h.unread != "" { // the line is unreadable, but the document is not
		x.row(&r)
		d.SampledAt, d.DriverVersion = x.read, s.driver.Version
	}
	s.judgeDevice(&r, x, now)
	if x == nil {
		unread(d)
		setProcesses(d, s.processes(d, nil, now))
		return *d
	}
	x.fill(d)
	if s.cfg.PCIeThroughput {
		x.traffic(&d.Activity)
	}
	if now.Sub(x.read) > 3*seldom {
		staleDetails(d)
	}
	if d.Modes.MIG.Or(false) {
		d.Instances = slices.Clone(x.instances)
	}
	setProcesses(d, s.processes(d, x, now))
	return *d
}

// detailsOf returns what the XML said about the device; nil if there has been none, or if it was about an earlier card at that address.
func (s *Source) detailsOf(h *heard) *details {
	x := s.details[h.key]
	if x != nil && x.UUID != "" && h.device.UUID != gpu.UUIDAt(h.device.PCI) && strings.TrimSpace(x.UUID) != h.device.UUID {
		return nil
	}
	return x
}

// judgeDevice adds the driver's persistent complaints to a device.
func (s *Source) judgeDevice(r *row, x *details, now time.Time) {
	says, known := r.says, r.known
	if x != nil && !known && now.Sub(x.read) <= 3*seldom {
		more, is := x.says()
		for _, kind := range more {
			if !slices.Contains(says, kind) {
				says = append(says, kind)
			}
		}
		known = is
	}
	v := s.verdicts[r.key]
	if v == nil {
		v = &nvidia.Verdicts{}
		s.verdicts[r.key] = v
	}
	v.Note(now, known, says...)
	v.Describe(&r.device)
}

// setProcesses sets the device's complete list of processes.
func setProcesses(d *gpu.Device, all gpu.Reading[[]gpu.Process]) {
	d.Processes = all
	d.ProcessesPartial = gpu.Map(d.Processes, func([]gpu.Process) bool { return false })
	d.CountProcesses()
}

// processes returns those of the newest round of pmon or, if pmon lacks them, of the XML.
func (s *Source) processes(d *gpu.Device, x *details, now time.Time) gpu.Reading[[]gpu.Process] {
	round, read := s.pmon.newest(now)
	index := d.VendorIndex.Or(-1)
	covered := slices.ContainsFunc(round, func(u usage) bool { return u.gpu == index })
	switch {
	case covered && !d.Modes.MIG.Or(false):
		if now.Sub(read) > s.patience() {
			return gpu.Absent[[]gpu.Process](gpu.Stale)
		}
		return gpu.Of(s.pmon.processes(round, d))
	case x == nil:
		return gpu.Reading[[]gpu.Process]{}
	case !s.pmon.off && !d.Modes.MIG.Or(false) && s.pmon.barren == 0 && len(round) == 0: // it has not printed anything yet
		return gpu.Reading[[]gpu.Process]{}
	case now.Sub(x.read) > 3*max(sometimes, s.cfg.period()):
		return gpu.Absent[[]gpu.Process](gpu.Stale)
	default:
		return x.processes(d)
	}
}

// fromXML returns the readings that only the XML has.
func fromXML(d *gpu.Device) []any {
	h, t := &d.Health, &d.Thermal
	return []any{
		&d.Architecture, &d.Memory.BAR1Total, &d.Memory.BAR1Used, &t.Shutdown, &t.Slowdown, &t.MemoryMax, &t.Target,
		&d.Clocks.MaxVideo, &d.PCIe.Replays, &h.RetiredSingleBit, &h.RetiredDoubleBit, &h.RetirementPending,
		&h.RemappedCorrectable, &h.RemappedUncorrectable, &h.RemapPending, &h.RemapFailed,
		&d.Modes.Virtualization, &d.Modes.Instances,
	}
}

// unread marks the readings from the XML as not read yet.
func unread(d *gpu.Device) {
	for _, r := range fromXML(d) {
		gpu.Withdraw(r, gpu.NotReported)
	}
}

// staleDetails marks the readings from the XML as too old.
func staleDetails(d *gpu.Device) {
	for _, r := range fromXML(d)[1:] {
		if r.(interface{ Present() bool }).Present() {
			gpu.Withdraw(r, gpu.Stale)
		}
	}
	if d.Activity.PCIeMeasured() {
		gpu.Withdraw(&d.Activity, gpu.Stale)
	}
}
