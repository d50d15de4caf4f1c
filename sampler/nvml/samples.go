//go:build linux && cgo

package nvml

import (
	"maps"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

type rawSample = nvml.ProcessUtilizationSample

// samples keeps what each process used last, until that is too old to stand for
// the present: readings can be closer together than the driver's samples, and
// the driver gives each sample out once.
//
// The driver's stamps are of the machine's clock. When that is set back, what
// the driver gives next is from before and after, and nothing tells which: it is
// left out, by its stamps. Until a window has passed, a process without a
// sample may have used something.
type samples struct {
	window time.Duration
	seen   uint64 // the newest stamp, in microseconds since 1970
	newest map[uint32]rawSample

	last     time.Time       // of the clock, when samples were added last
	leftOut  map[uint64]bool // stamps of what came when the clock had been set back
	complete time.Time       // from then on, no sample means that nothing was used
}

func newSamples(window time.Duration) samples {
	return samples{window: window, newest: map[uint32]rawSample{}}
}

// since is the stamp after which the driver is asked for samples: never 0,
// which would bring all that it remembers.
func (s *samples) since(now time.Time) uint64 {
	if s.setBack(now) {
		return s.oldest(now)
	}
	return max(s.seen, s.oldest(now))
}

func (s *samples) oldest(now time.Time) uint64 {
	return uint64(max(now.Add(-s.window).UnixMicro(), 1))
}

// setBack reports whether the clock has been set back since samples were added
// last.
func (s *samples) setBack(now time.Time) bool { return now.Before(s.last) }

// add takes new samples in and drops those that have grown too old. A stamp
// well ahead of our clock is of no use.
func (s *samples) add(now time.Time, rows []rawSample) {
	if s.setBack(now) {
		s.restart(now, rows)
	}
	s.last = now.Round(0) // without the monotonic clock, which is never set back
	oldest, ahead := s.oldest(now), uint64(now.Add(s.window).UnixMicro())
	for _, row := range rows {
		if row.Pid == 0 || row.TimeStamp > ahead || s.leftOut[row.TimeStamp] {
			continue
		}
		s.seen = max(s.seen, row.TimeStamp)
		if row.TimeStamp >= s.newest[row.Pid].TimeStamp {
			s.newest[row.Pid] = row
		}
	}
	maps.DeleteFunc(s.newest, func(_ uint32, row rawSample) bool { return row.TimeStamp < oldest })
	maps.DeleteFunc(s.leftOut, func(stamp uint64, _ bool) bool { return stamp < oldest })
}

// restart forgets everything, and leaves out what the driver gives now.
func (s *samples) restart(now time.Time, rows []rawSample) {
	s.seen, s.complete = 0, now.Add(s.window).Round(0)
	clear(s.newest)
	s.leftOut = make(map[uint64]bool, len(rows))
	for _, row := range rows {
		s.leftOut[row.TimeStamp] = true
	}
}

// fill adds what a process uses: a reported 0 for one without a sample; nothing
// where the device takes no samples, or the missing one may be one left out.
func (s *samples) fill(p *gpu.Process, quality gpu.Quality) {
	row, sampled := s.newest[uint32(p.PID)]
	if quality == gpu.Good && !sampled && s.last.Before(s.complete) {
		quality = gpu.NotReported
	}
	if quality != gpu.Good {
		none := gpu.Absent[gpu.Percent](quality)
		p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder = none, none, none, none
		return
	}
	p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder = share(row.SmUtil), share(row.MemUtil), share(row.EncUtil), share(row.DecUtil)
}
