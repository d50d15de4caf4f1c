//go:build linux && cgo

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

type rawSample = nvml.ProcessUtilizationSample

// samples keeps what each process used last, until that is too old to stand for
// the present: readings can be closer together than the driver's samples, and
// the driver gives each sample out once.
type samples struct {
	window time.Duration
	seen   uint64 // the newest stamp, in microseconds since 1970
	newest map[uint32]rawSample
}

func newSamples(window time.Duration) samples {
	return samples{window: window, newest: map[uint32]rawSample{}}
}

// since is the stamp after which the driver is asked for samples: never 0,
// which would bring all that it remembers.
func (s *samples) since(now time.Time) uint64 { return max(s.seen, s.oldest(now)) }

func (s *samples) oldest(now time.Time) uint64 {
	return uint64(max(now.Add(-s.window).UnixMicro(), 1))
}

// add takes new samples in and drops those that have grown too old. A stamp
// well ahead of our clock is of no use.
func (s *samples) add(now time.Time, rows []rawSample) {
	oldest, ahead := s.oldest(now), uint64(now.Add(s.window).UnixMicro())
	for _, row := range rows {
		if row.Pid == 0 || row.TimeStamp > ahead {
			continue
		}
		s.seen = max(s.seen, row.TimeStamp)
		if row.TimeStamp >= s.newest[row.Pid].TimeStamp {
			s.newest[row.Pid] = row
		}
	}
	for pid, row := range s.newest {
		if row.TimeStamp < oldest {
			delete(s.newest, pid)
		}
	}
}

// fill adds what a process uses: a reported 0 for one without a sample, nothing
// where the device takes no samples.
func (s *samples) fill(p *gpu.Process, quality gpu.Quality) {
	if quality != gpu.Good {
		none := gpu.Absent[gpu.Percent](quality)
		p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder = none, none, none, none
		return
	}
	row := s.newest[uint32(p.PID)]
	p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder = share(row.SmUtil), share(row.MemUtil), share(row.EncUtil), share(row.DecUtil)
}
