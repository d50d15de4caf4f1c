package intel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// use measures who uses a card.
type use struct {
	meter    *drm.Meter
	readings int  // by the meter
	measured bool // a client's engine has been measured
}

// readUse reads the processes, and derives the utilization from what they use.
func (c *card) readUse(now time.Time) {
	r := &c.readings
	bound, bounded := c.idling.busy(c.parts, now)
	held := c.cfg.Holders.Find(c.patience())
	const old = 10 * time.Second
	if held == nil || now.Sub(held.At) > old {
		c.unread(gpu.NotReported)
		return
	}
	if held.Err != nil {
		c.unread(drm.Quality(held.Err))
		return
	}
	if c.use.meter == nil {
		c.use.meter = drm.NewMeter(c.cfg.Clock, c.cfg.ProcRoot, c.Device.Read)
	}
	open := held.Of(c.Nodes...)
	usage := c.use.meter.Read(c.Address, open)
	c.use.readings++
	c.use.measured = c.use.measured || len(usage.Engines) > 0
	whole := held.Hidden == 0 && usage.Denied == 0 && drm.SeesAll(c.cfg.ProcRoot)
	c.hidesProcesses.Store(!whole)
	r.Processes = c.processes(&usage, whole)
	r.ProcessesPartial = gpu.Map(r.Processes, func([]gpu.Process) bool { return !whole })
	r.Utilization.GPU = c.utilization(busiest(usage.Engines), &usage, len(open) > 0, whole)
	r.Utilization.Video = c.utilization(video(usage.Engines), &usage, len(open) > 0, whole)
	const nothing = 1
	for _, u := range []*gpu.Reading[gpu.Percent]{&r.Utilization.GPU, &r.Utilization.Video} {
		if !u.Present() && bounded && bound < nothing {
			*u = gpu.Of(bound)
		}
	}
	r.Shared.Used = c.sharedUsed(&usage, whole)
	if !c.integrated {
		r.Memory.Used, r.Memory.Free = c.memoryUsed(&usage, whole)
	}
}

// unread marks the card's usage as not known.
func (c *card) unread(q gpu.Quality) {
	r := &c.readings
	r.Processes, r.ProcessesPartial = gpu.Absent[[]gpu.Process](q), gpu.Absent[bool](q)
	r.Utilization.GPU, r.Utilization.Video = gpu.Absent[gpu.Percent](q), gpu.Absent[gpu.Percent](q)
	r.Shared.Used = gpu.Absent[gpu.Bytes](q)
}

// patience is how long to wait for the walk over /proc: the previous walk is good enough, except for the first reading.
func (c *card) patience() time.Duration {
	const short = 50 * time.Millisecond
	if c.use.meter == nil {
		return c.cfg.Deadline / 4
	}
	return min(short, c.cfg.Deadline/4)
}

// utilization returns a share of engines, if it is known.
func (c *card) utilization(share gpu.Percent, usage *drm.Usage, open, whole bool) gpu.Reading[gpu.Percent] {
	switch {
	case !whole:
		return gpu.Absent[gpu.Percent](gpu.NotPermitted)
	case slices.ContainsFunc(usage.Processes, func(p drm.Process) bool { return len(p.Used) > 0 && !p.Measured }):
		return gpu.Absent[gpu.Percent](c.unmeasured()) // the share of the visible processes is not all
	case len(usage.Engines) > 0:
		return gpu.Of(share)
	case !open: // nobody can give it work
		return gpu.Of[gpu.Percent](0)
	default:
		return gpu.Absent[gpu.Percent](c.unmeasured())
	}
}

// unmeasured returns why no engine was measured: clients have to be read twice. Kernels before 5.19 (i915) and 6.11 (xe) don't report what
// a client uses, and i915 never does for a GPU older than Broadwell.
func (c *card) unmeasured() gpu.Quality {
	const enough = 3
	if c.use.measured || c.use.readings < enough {
		return gpu.NotReported
	}
	return gpu.NotSupported
}

func busiest(engines map[string]gpu.Percent) (most gpu.Percent) {
	for _, share := range engines {
		most = max(most, share)
	}
	return most
}

// video returns the share of the engines that decode and encode: "video" in i915, "vcs" in xe.
func video(engines map[string]gpu.Percent) gpu.Percent { return max(engines["video"], engines["vcs"]) }

// processes lists the processes that hold something of the card, busiest first. Display managers and similar programs have it open without
// work or memory on it.
func (c *card) processes(usage *drm.Usage, whole bool) gpu.Reading[[]gpu.Process] {
	list := []gpu.Process{}
	for i := range usage.Processes {
		p := &usage.Processes[i]
		held, known := c.memoryOf(p.Memory)
		if !p.Denied && len(p.Used) == 0 && held == 0 {
			continue
		}
		entry := gpu.Process{PID: p.PID}
		gpu.Withdraw(&entry, gpu.NotSupported)
		entry.Type, entry.Facts = typeOf(p.Used), gpu.ProcessFacts{}
		if p.Denied {
			entry.Memory = gpu.Absent[gpu.Bytes](gpu.NotPermitted)
			entry.SM, entry.Video = gpu.Absent[gpu.Percent](gpu.NotPermitted), gpu.Absent[gpu.Percent](gpu.NotPermitted)
		}
		switch {
		case p.Denied:
		case p.Measured:
			entry.SM, entry.Video = gpu.Of(busiest(p.Engines)), gpu.Of(video(p.Engines))
		default:
			entry.SM, entry.Video = gpu.Absent[gpu.Percent](c.unmeasured()), gpu.Absent[gpu.Percent](c.unmeasured())
		}
		if known && !p.Denied {
			entry.Memory = gpu.Of(held)
			if total, ok := c.readings.Memory.Total.Trusted(); ok && held > total {
				entry.Memory = gpu.DoubtfulOf(held)
			}
		}
		list = append(list, entry)
	}
	switch {
	case len(list) == 0 && usage.Mute:
		return gpu.Absent[[]gpu.Process](gpu.NotSupported)
	case len(list) == 0 && !whole:
		return gpu.Absent[[]gpu.Process](gpu.NotPermitted)
	}
	slices.SortFunc(list, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(b.SM.Or(0), a.SM.Or(0)), cmp.Compare(b.Memory.Or(0), a.Memory.Or(0)), cmp.Compare(a.PID, b.PID))
	})
	return gpu.Of(list)
}

// typeOf derives the type from the engines that a process has used. 3D engines also compute if a GPU has no compute engines: there a
// program that computes counts as graphics.
func typeOf(used []string) gpu.ProcessType {
	draws := slices.Contains(used, "render") || slices.Contains(used, "rcs")
	computes := slices.Contains(used, "compute") || slices.Contains(used, "ccs")
	switch {
	case draws && computes:
		return gpu.TypeComputeGraphics
	case draws:
		return gpu.TypeGraphics
	case computes:
		return gpu.TypeCompute
	default:
		return gpu.TypeUnknown
	}
}

// memoryOf returns what is held of the card's own memory or, for an integrated GPU, of the machine's. It is not known if the driver does
// not report it.
func (c *card) memoryOf(regions map[string]gpu.Bytes) (bytes gpu.Bytes, known bool) {
	for region, held := range regions {
		if c.integrated || local(region) {
			bytes += held
		}
	}
	return bytes, len(regions) > 0
}

// local reports whether a region belongs to the card's own memory: "local0" and "stolen-local0" in i915, "vram0" and "stolen" in xe.
func local(region string) bool {
	region = strings.TrimPrefix(region, "stolen-")
	return strings.HasPrefix(region, "local") || strings.HasPrefix(region, "vram") || region == "stolen"
}

// sharedUsed returns what all clients hold of the machine's memory, each counted once, if all may be read and the driver reports it (i915
// from Linux 6.8 on).
func (c *card) sharedUsed(usage *drm.Usage, whole bool) gpu.Reading[gpu.Bytes] {
	var sum gpu.Bytes
	for region, held := range usage.Memory {
		if c.integrated || !local(region) {
			sum += held
		}
	}
	switch {
	case !whole:
		return gpu.Absent[gpu.Bytes](gpu.NotPermitted)
	case len(usage.Memory) == 0 && len(usage.Processes) > 0:
		return gpu.Absent[gpu.Bytes](gpu.NotSupported)
	default:
		return drm.Of(float64(sum), nil, 1, 0, drm.MostMemory)
	}
}

// memoryUsed returns the used and free parts of the card's own memory: as Intel's own builds of i915 report them, or else from what all
// clients hold, if all may be read. Memory that several clients share then counts for each, and the kernel's own is missing.
func (c *card) memoryUsed(usage *drm.Usage, whole bool) (used, free gpu.Reading[gpu.Bytes]) {
	total := c.readings.Memory.Total
	if free = c.DRM().Size("lmem_avail_bytes"); free.Present() {
		t, ok := total.Trusted()
		f, ok2 := free.Trusted()
		switch {
		case !ok || !ok2:
			return gpu.Reading[gpu.Bytes]{}, free
		case f > t:
			return gpu.Reading[gpu.Bytes]{}, gpu.DoubtfulOf(f)
		default:
			return gpu.Of(t - f), free
		}
	}
	free = gpu.Absent[gpu.Bytes](gpu.NotSupported)
	if !whole {
		return gpu.Absent[gpu.Bytes](gpu.NotPermitted), free
	}
	sum, known := c.memoryOf(usage.Memory)
	used = drm.Of(float64(sum), nil, 1, 0, drm.MostMemory)
	switch t, ok := total.Trusted(); {
	case !known && (len(usage.Processes) > 0 || usage.Mute):
		return gpu.Absent[gpu.Bytes](gpu.NotSupported), free
	case ok && sum > t:
		return gpu.DoubtfulOf(sum), free
	default:
		return used, free
	}
}
