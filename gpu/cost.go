package gpu

import (
	"sync/atomic"
	"time"
)

// A Cost is how long calls of one kind have taken since gpuwhy started, in elapsed time, not
// CPU time. Calls that have not returned are not included.
type Cost struct {
	Source         string // such as SourceNVML
	Call           string // the driver's function, or "reading" for everything the source does for one reading
	Count          uint64
	Total, Longest time.Duration
}

// A Meter measures the calls of one kind, and allocates nothing. The zero Meter is ready; several
// goroutines may use it.
type Meter struct {
	count          atomic.Uint64
	total, longest atomic.Int64
}

var start = time.Now()

// Clock is how long the process has been running. It reads only the monotonic clock; [time.Now] reads two.
func Clock() time.Duration { return time.Since(start) }

// Since records that a call which began at that time, by [Clock], has returned.
func (m *Meter) Since(began time.Duration) {
	took := int64(Clock() - began)
	m.count.Add(1)
	m.total.Add(took)
	for longest := m.longest.Load(); took > longest && !m.longest.CompareAndSwap(longest, took); {
		longest = m.longest.Load()
	}
}

// Cost returns the measurements so far.
func (m *Meter) Cost(source, call string) Cost {
	return Cost{source, call, m.count.Load(), time.Duration(m.total.Load()), time.Duration(m.longest.Load())}
}
