package amd

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

const (
	walkFor = 100 * time.Millisecond // how long a reading waits for the list of processes
	walkOld = 10 * time.Second       // after that a list is no longer shown
)

// readProcesses lists who uses the card: the processes that have it open (fdinfo), and those that compute on it (the compute driver's list,
// which everybody may read).
func (d *device) readProcesses(now time.Time) {
	r := &d.readings
	none := func(q gpu.Quality) {
		d.computes = false
		r.Processes, r.ProcessesPartial = gpu.Absent[[]gpu.Process](q), gpu.Absent[bool](q)
		d.hidden.Store(q == gpu.NotPermitted)
		r.Utilization.Encoder, r.Utilization.Decoder = gpu.Absent[gpu.Percent](q), gpu.Absent[gpu.Percent](q)
		r.Utilization.JPEG = gpu.Absent[gpu.Percent](q)
		d.busy(gpu.Absent[gpu.Percent](q))
		d.video(gpu.Absent[gpu.Percent](q))
		r.CountProcesses()
	}
	users, computing := d.kfd.users()
	if !drm.HostPIDs(d.cfg.ProcRoot) {
		users, computing = nil, false // in this pid namespace its pids mean other processes
	}
	held := d.cfg.Holders.Find(walkFor)
	switch {
	case held == nil:
		none(gpu.NotReported)
		return
	case now.Sub(held.At) > walkOld:
		none(gpu.Stale)
		return
	case held.Err != nil && !computing:
		none(drm.Quality(held.Err))
		return
	}
	// On an APU, compute memory may be in the host's memory alone.
	users = slices.DeleteFunc(users, func(u user) bool { return !d.apu && !u.uses() })
	usage := d.meter.Read(d.card.Address, held.Of(d.nodes...))
	list := d.merge(usage.Processes, users)
	partly := held.Hidden > 0 || usage.Denied > 0 || held.Err != nil || !drm.SeesAll(d.cfg.ProcRoot)
	d.hidden.Store(partly)
	r.Processes, r.ProcessesPartial = gpu.Of(list), gpu.Of(partly)
	if partly && len(list) == 0 {
		r.Processes, r.ProcessesPartial = gpu.Absent[[]gpu.Process](gpu.NotPermitted), gpu.Absent[bool](gpu.NotPermitted)
	}
	if usage.Mute && len(list) == 0 {
		r.Processes, r.ProcessesPartial = gpu.Absent[[]gpu.Process](gpu.NotSupported), gpu.Absent[bool](gpu.NotSupported)
	}
	r.CountProcesses()
	room := d.roomFor()
	for i := range list {
		list[i].Memory = within(list[i].Memory, room)
	}
	r.Utilization.Encoder = d.engine(usage, partly, "enc", "enc_1")
	if strings.HasPrefix(d.known().Architecture.Or(""), "CDNA") {
		r.Utilization.Encoder = gpu.Absent[gpu.Percent](gpu.NotSupported) // the card has no encoder
	}
	r.Utilization.Decoder = d.engine(usage, partly, "dec")
	r.Utilization.JPEG = d.engine(usage, partly, "jpeg")
	d.video(d.engine(usage, partly, "enc", "enc_1", "dec"))
	d.busy(d.ofClients(usage, partly, users))
}

// busy sets the GPU's utilization to its clients' share, if the driver does not report it.
func (d *device) busy(byClients gpu.Reading[gpu.Percent]) {
	u := &d.readings.Utilization
	asked := u.GPU.Quality() == gpu.NotSupported
	if asked {
		u.GPU = byClients
	}
	d.untold.Store(asked && d.computes)
}

// ofClients returns the share of time in which clients drew or computed: the share of the busier of the two engines, since both may use the
// same units at once. fdinfo lacks the compute driver's work, so with one of its processes the utilization is not known. Nor is it known in
// the first reading of a process, which may account for all of it.
func (d *device) ofClients(usage drm.Usage, partly bool, computing []user) gpu.Reading[gpu.Percent] {
	unmeasured := func(p drm.Process) bool { return len(p.Used) > 0 && !p.Measured }
	d.computes = len(computing) > 0
	switch {
	case d.computes:
		return gpu.Absent[gpu.Percent](gpu.NotSupported)
	case !partly && slices.ContainsFunc(usage.Processes, unmeasured):
		return gpu.Reading[gpu.Percent]{}
	}
	return d.engine(usage, partly, "gfx", "compute")
}

// video sets the utilization of the video engines: from VCN 4 on there is one, whose utilization the driver also reports; before, encoder
// and decoder are reported separately.
func (d *device) video(byClients gpu.Reading[gpu.Percent]) {
	u, none := &d.readings.Utilization, gpu.Absent[gpu.Percent](gpu.NotSupported)
	if !d.oneVideo {
		u.Video = none
		return
	}
	u.Encoder, u.Decoder = none, none
	if u.Video = d.driver().Percent("vcn_busy_percent"); u.Video.Quality() == gpu.NotSupported {
		u.Video = byClients
	}
}

// roomFor returns the most that a process can hold: on an APU that may include the host's memory.
func (d *device) roomFor() gpu.Reading[gpu.Bytes] {
	total, ok := d.readings.Memory.Total.Trusted()
	if !ok {
		return gpu.Of(drm.MostMemory)
	}
	shared, _ := d.driver().Size("mem_info_gtt_total").Get() // 0 if missing
	return gpu.Of(total + shared)
}

// engine returns the share of time in which an engine worked for any process. It is known if all processes are visible. The driver leaves
// out an engine that nobody has used.
func (d *device) engine(usage drm.Usage, partly bool, names ...string) gpu.Reading[gpu.Percent] {
	switch {
	case usage.Mute:
		return gpu.Absent[gpu.Percent](gpu.NotSupported)
	case partly:
		return gpu.Absent[gpu.Percent](gpu.NotPermitted)
	}
	if d.began.IsZero() {
		return gpu.Reading[gpu.Percent]{} // the first reading
	}
	var most gpu.Percent
	for _, name := range names {
		most = max(most, usage.Engines[name])
	}
	return gpu.Of(most)
}

// merge merges both lists, busiest first.
func (d *device) merge(open []drm.Process, computing []user) []gpu.Process {
	list := make([]gpu.Process, 0, len(open)+len(computing))
	for _, p := range open {
		computes := func(u user) bool { return u.pid == p.PID }
		if process, uses := d.processOf(&p); uses || slices.ContainsFunc(computing, computes) {
			list = append(list, process)
		}
	}
	for _, u := range computing {
		i := slices.IndexFunc(list, func(p gpu.Process) bool { return p.PID == u.pid })
		if i < 0 {
			p := gpu.Process{PID: u.pid}
			gpu.Withdraw(&p, gpu.NotSupported)
			p.Facts = gpu.ProcessFacts{}
			p.Type, p.Memory = gpu.TypeCompute, u.memory
			list = append(list, p)
			continue
		}
		p := &list[i]
		switch p.Type {
		case gpu.TypeGraphics, gpu.TypeComputeGraphics:
			p.Type = gpu.TypeComputeGraphics
		default:
			p.Type = gpu.TypeCompute
		}
		if bytes, ok := u.memory.Get(); ok && bytes > p.Memory.Or(0) {
			p.Memory = u.memory
		}
		if share, ok := p.SM.Get(); ok && share == 0 {
			p.SM = gpu.Absent[gpu.Percent](gpu.NotSupported) // fdinfo lacks the compute driver's work
		}
	}
	slices.SortFunc(list, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(b.SM.Or(0), a.SM.Or(0)), cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
	})
	return list
}

// processOf returns what is known about a process that has the card open, and whether it uses the card: a session manager has a card open
// and never uses it.
func (d *device) processOf(p *drm.Process) (out gpu.Process, uses bool) {
	out = gpu.Process{PID: p.PID, Type: gpu.TypeUnknown}
	gpu.Withdraw(&out, gpu.NotSupported)
	out.Facts = gpu.ProcessFacts{}
	if p.Denied {
		engines := []any{&out.Memory, &out.SM, &out.Encoder, &out.Decoder}
		if d.oneVideo {
			engines = []any{&out.Memory, &out.SM, &out.Video}
		}
		for _, r := range engines {
			gpu.Withdraw(r, gpu.NotPermitted)
		}
		return out, true
	}
	used := func(name string) bool { return slices.Contains(p.Used, name) }
	switch graphics, compute := used("gfx"), used("compute"); {
	case graphics && compute:
		out.Type = gpu.TypeComputeGraphics
	case compute:
		out.Type = gpu.TypeCompute
	case graphics:
		out.Type = gpu.TypeGraphics
	}
	// Memory that is only in the host's memory (gtt, cpu) is not a card's. On an APU all memory is the host's.
	if bytes, ok := p.Memory["vram"]; ok {
		if d.apu {
			bytes += p.Memory["gtt"]
		}
		out.Memory = gpu.Of(bytes)
	}
	share := func(names ...string) gpu.Reading[gpu.Percent] {
		if !p.Measured && len(p.Used) > 0 {
			return gpu.Reading[gpu.Percent]{} // its first reading
		}
		var sum gpu.Percent
		for _, name := range names {
			sum += p.Engines[name]
		}
		return gpu.Of(min(sum, 100))
	}
	out.SM = share("gfx", "compute")
	if d.oneVideo {
		out.Video = share("enc", "enc_1", "dec", "jpeg")
	} else {
		out.Encoder, out.Decoder = share("enc", "enc_1"), share("dec", "jpeg")
	}
	return out, len(p.Used) > 0 || p.Memory["vram"]+p.Memory["gtt"] > 0
}
