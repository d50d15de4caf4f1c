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
	toldFor      = time.Minute // how long a process is in the snapshots
	accountEvery = time.Second // how often the driver looks what the processes do
	longestRun   = 10 * 365 * 24 * time.Hour
)

// accounting is what the driver's accounting mode tells of processes that came and went between two readings. It costs one
// call a reading at most: the mode each minute, and where that is on, for how many there is room, the list of pids each ten
// seconds, and then one pid of those that are new in it after the other.
//
// A pid may be used again while the list has it. So where nothing is new, one pid is asked at a time that was asked before.
type accounting struct {
	mode  gpu.Reading[bool]
	room  int                    // for pids in a list; 0: not known
	since time.Time              // of the first list: what ended before is not told; zero before it
	known map[uint32]uint64      // those in the list of which all is known: when they started, 0 where they were not asked
	lived map[uint32]lifetime    // those that were in the device's processes
	ask   []uint32               // what to ask next
	next  int                    // which known one of the list to ask again
	told  []gpu.AccountedProcess // the oldest first; never changed in place
	at    []time.Time            // when each was told
}

// lifetime is from when to when processes of a pid were seen: the first and the last, if it was used again.
type lifetime struct{ from, to time.Time }

// reading is what is told now.
func (a *accounting) reading(now time.Time) gpu.Reading[[]gpu.AccountedProcess] {
	for len(a.at) > 0 && now.Sub(a.at[0]) > toldFor {
		a.at, a.told = a.at[1:], a.told[1:]
	}
	switch on, known := a.mode.Get(); {
	case !known:
		return gpu.Absent[[]gpu.AccountedProcess](a.mode.Quality())
	case !on:
		return gpu.Absent[[]gpu.AccountedProcess](gpu.NotSupported)
	case a.since.IsZero():
		return gpu.Reading[[]gpu.AccountedProcess]{}
	}
	return gpu.Of(append([]gpu.AccountedProcess{}, a.told...))
}

// readAccounting makes one call at most.
func (d *device) readAccounting() {
	a, h := &d.accounting, &d.handle
	if h.fatal != success {
		return
	}
	defer func() { h.fatal = success }() // something else is asked each time: a device that is lost says so to others, too
	on := a.mode.Or(false)
	if on {
		a.see(d.readings.Processes.Or(nil), d.began)
	}
	switch {
	case d.isDue("accounting mode", seldom):
		a.mode = reading(h, "nvmlDeviceGetAccountingMode", nvml.Device.GetAccountingMode, enabled)
		a.room = 0
		if !a.mode.Or(false) {
			*a = accounting{mode: a.mode}
		}
	case !on:
	case a.room == 0:
		room, _ := ask(h, "nvmlDeviceGetAccountingBufferSize", nvml.Device.GetAccountingBufferSize)
		a.room = min(max(room, firstRows), mostRows)
	case len(a.ask) > 0:
		pid := a.ask[0]
		a.ask = a.ask[1:]
		stats, c := ask(h, "nvmlDeviceGetAccountingStats", at(pid, nvml.Device.GetAccountingStats))
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

// see takes note of processes that run.
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

// list takes in for which pids the driver accounts now, and decides what to ask.
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
		case seen && life.to.Equal(now): // it runs
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

// take takes in what the driver says of a pid.
func (a *accounting) take(pid uint32, s *nvml.AccountingStats, memory gpu.Reading[gpu.Bytes], now time.Time) {
	started, ran := time.UnixMicro(int64(min(s.StartTime, 1<<62))).UTC(), time.Duration(min(s.Time, uint64(longestRun/time.Millisecond)+1))*time.Millisecond
	switch {
	case s.IsRunning != 0, s.Time == 0: // it is asked again once it has ended
		return
	case s.StartTime == a.known[pid] && s.StartTime != 0:
		return
	}
	a.known[pid] = s.StartTime
	p := gpu.AccountedProcess{PID: int(pid), Started: started, Ran: ran}
	life, seen := a.lived[pid]
	switch {
	case s.StartTime == 0, ran > longestRun, p.Ended().After(now.Add(time.Minute)): // can't be right
		return
	case p.Ended().Before(a.since), seen && !p.Ended().Before(life.from) && !started.After(life.to):
		return
	}
	p.PeakMemory = nvidia.Within(plain[gpu.Bytes](s.MaxMemoryUsage), memory)
	if s.GpuUtilization > 0 || ran >= accountEvery {
		p.Utilization = share(s.GpuUtilization)
	}
	a.told, a.at = append(slices.Clip(a.told), p), append(a.at, now)
}
