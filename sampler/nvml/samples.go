//go:build linux && cgo

package nvml

import (
	"maps"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

type rawSample = nvml.ProcessUtilizationSample

// samples keeps the newest sample of each process until it is too old: the driver returns each sample only once, and readings can be closer
// together than samples.
//
// The driver stamps samples with the machine's clock. After that clock is set back, the next samples can be from before and after: they are
// ignored. Until a window has passed, a process without a sample may still have used something.
type samples struct {
	window time.Duration
	seen   uint64 // the newest stamp, in microseconds since 1970
	newest map[uint32]rawSample

	last     time.Time       // when samples were last added, by the clock
	ignored  map[uint64]bool // stamps of samples that came after the clock was set back
	complete time.Time       // from then on, no sample means no usage
}

func newSamples(window time.Duration) samples {
	return samples{window: window, newest: map[uint32]rawSample{}}
}

// since is the stamp from which samples are requested; 0 would request all.
func (s *samples) since(now time.Time) uint64 {
	if s.setBack(now) {
		return s.oldest(now)
	}
	return max(s.seen, s.oldest(now))
}

func (s *samples) oldest(now time.Time) uint64 {
	return uint64(max(now.Add(-s.window).UnixMicro(), 1))
}

// setBack reports whether the clock was set back since samples were last added.
func (s *samples) setBack(now time.Time) bool { return now.Before(s.last) }

// add ignores stamps far ahead of our clock, and drops old samples.
func (s *samples) add(now time.Time, rows []rawSample) {
	if s.setBack(now) {
		s.restart(now, rows)
	}
	s.last = now.Round(0) // drops the monotonic clock, which is never set back
	oldest, ahead := s.oldest(now), uint64(now.Add(s.window).UnixMicro())
	for _, row := range rows {
		if row.Pid == 0 || row.TimeStamp > ahead || s.ignored[row.TimeStamp] {
			continue
		}
		s.seen = max(s.seen, row.TimeStamp)
		if row.TimeStamp >= s.newest[row.Pid].TimeStamp {
			s.newest[row.Pid] = row
		}
	}
	maps.DeleteFunc(s.newest, func(_ uint32, row rawSample) bool { return row.TimeStamp < oldest })
	maps.DeleteFunc(s.ignored, func(stamp uint64, _ bool) bool { return stamp < oldest })
}

// restart forgets everything, and ignores what the driver returns now.
func (s *samples) restart(now time.Time, rows []rawSample) {
	s.seen, s.complete = 0, now.Add(s.window).Round(0)
	clear(s.newest)
	s.ignored = make(map[uint64]bool, len(rows))
	for _, row := range rows {
		s.ignored[row.TimeStamp] = true
	}
}

// fill sets what a process uses: a reported 0 without a sample; nothing if the device takes no samples, or if the missing sample may have
// been ignored.
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
