//go:build linux && cgo

package nvml

import (
	"maps"
	"slices"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

const (
	toldFor      = time.Minute // how long an ended process stays in the snapshots
	accountEvery = time.Second // how often the driver checks what the processes use
	longestRun   = 10 * 365 * 24 * time.Hour
)

// accounting reads the driver's accounting mode, which remembers processes that started and ended between two readings. It makes at most
// one call per reading: the mode once a minute and, while it is on, how many processes the driver remembers, the list of pids every ten
// seconds, and then each new pid of the list, one after the other.
//
// A pid may be reused while it is in the list. So if nothing is new, the pids already asked are asked again, one at a time.
type accounting struct {
	mode  gpu.Reading[bool]
	room  int                    // how many pids the list may have; 0: not known
	since time.Time              // when the first list came; earlier processes are not reported. Zero before the first list
	known map[uint32]uint64      // pids in the list that are fully known: when they started, 0 if not asked
	lived map[uint32]lifetime    // pids seen among the device's processes
	ask   []uint32               // pids to ask next
	next  int                    // the known pid to ask again next
	told  []gpu.AccountedProcess // oldest first; never changed in place
	added []time.Time            // when each was added to told
}

// lifetime spans all processes seen with one pid: from the first to the last, if the pid was reused.
type lifetime struct{ from, to time.Time }

// reading returns the ended processes to report now.
func (a *accounting) reading(now time.Time) gpu.Reading[[]gpu.AccountedProcess] {
	for len(a.added) > 0 && now.Sub(a.added[0]) > toldFor {
		a.added, a.told = a.added[1:], a.told[1:]
	}
	switch active, known := a.mode.Get(); {
	case !known:
		return gpu.Absent[[]gpu.AccountedProcess](a.mode.Quality())
	case !active:
		return gpu.Absent[[]gpu.AccountedProcess](gpu.NotSupported)
	case a.since.IsZero():
		return gpu.Reading[[]gpu.AccountedProcess]{}
	}
	return gpu.Of(append([]gpu.AccountedProcess{}, a.told...))
}

// readAccounting makes at most one call.
func (d *device) readAccounting() {
	a, h := &d.accounting, &d.handle
	if h.fatal != success {
		return
	}
	defer func() { h.fatal = success }() // each call is about another pid; other readings notice a lost device
	active := a.mode.Or(false)
	if active {
		a.see(d.readings.Processes.Or(nil), d.began)
	}
	switch {
	case d.isDue("accounting mode", seldom):
		a.mode = reading(h, "nvmlDeviceGetAccountingMode", nvml.Device.GetAccountingMode, enabled)
		a.room = 0
		if !a.mode.Or(false) {
			*a = accounting{mode: a.mode}
		}
	case !active:
	case a.room == 0:
		room, _ := ask(h, "nvmlDeviceGetAccountingBufferSize", nvml.Device.GetAccountingBufferSize)
		a.room = min(max(room, firstRows), mostRows)
	case len(a.ask) > 0:
		pid := a.ask[0]
		a.ask = a.ask[1:]
		stats, c := ask(h, "nvmlDeviceGetAccountingStats", bind(pid, nvml.Device.GetAccountingStats))
		if c == success {
			a.take(pid, &stats, d.readings.Memory.Total, d.began)
		}
	case d.isDue("accounted processes", sometimes):
		pids, c := askRaw(h, "nvmlDeviceGetAccountingPids", func(function, device unsafe.Pointer) ([]uint32, code) {
			return rawPIDs(function, device, a.room)
		})
		switch {
		case c == success:
			a.list(pids, d.began)
		case c == insufficientSize && a.room < mostRows:
			a.room = min(2*a.room, mostRows)
			delete(d.due, "accounted processes")
		}
	}
}

// see records running processes.
func (a *accounting) see(running []gpu.Process, now time.Time) {
	if a.lived == nil {
		a.lived = map[uint32]lifetime{}
	}
	for i := range running {
		pid := uint32(running[i].PID)
		life, known := a.lived[pid]
		if !known {
			life.from = now
		}
		life.to = now
		a.lived[pid] = life
	}
}

// list takes the pids that the driver accounts for now, and decides which to ask next.
func (a *accounting) list(pids []uint32, now time.Time) {
	first := a.since.IsZero()
	if first {
		a.since, a.known = now, map[uint32]uint64{}
	}
	listed := make(map[uint32]bool, len(pids))
	for _, pid := range pids {
		_, known := a.known[pid]
		life, seen := a.lived[pid]
		switch {
		case listed[pid], pid == 0, pid > mostPID:
		case seen && life.to.Equal(now): // still running
		case known:
		case first || seen:
			a.known[pid] = 0
		default:
			a.ask = append(a.ask, pid)
		}
		listed[pid] = true
	}
	maps.DeleteFunc(a.known, func(pid uint32, _ uint64) bool { return !listed[pid] })
	maps.DeleteFunc(a.lived, func(pid uint32, life lifetime) bool { return !listed[pid] && !life.to.Equal(now) })
	if len(a.ask) > 0 || len(pids) == 0 {
		return
	}
	a.next = (a.next + 1) % len(pids)
	again := pids[a.next]
	if _, known := a.known[again]; known && !a.lived[again].to.Equal(now) {
		a.ask = append(a.ask, again)
	}
}

// take records the driver's answer about a pid.
func (a *accounting) take(pid uint32, s *nvml.AccountingStats, memory gpu.Reading[gpu.Bytes], now time.Time) {
	started, ran := time.UnixMicro(int64(min(s.StartTime, 1<<62))).UTC(), time.Duration(min(s.Time, uint64(longestRun/time.Millisecond)+1))*time.Millisecond
	switch {
	case s.IsRunning != 0, s.Time == 0: // ask again once it has ended
		return
	case s.StartTime == a.known[pid] && s.StartTime != 0:
		return
	}
	a.known[pid] = s.StartTime
	p := gpu.AccountedProcess{PID: int(pid), Started: started, Ran: ran}
	life, seen := a.lived[pid]
	switch {
	case s.StartTime == 0, ran > longestRun, p.Ended().After(now.Add(time.Minute)): // impossible
		return
	case p.Ended().Before(a.since), seen && !p.Ended().Before(life.from) && !started.After(life.to):
		return
	}
	p.PeakMemory = nvidia.Within(plain[gpu.Bytes](s.MaxMemoryUsage), memory)
	if s.GpuUtilization > 0 || ran >= accountEvery {
		p.Utilization = share(s.GpuUtilization)
	}
	a.told, a.added = append(slices.Clip(a.told), p), append(a.added, now)
}
