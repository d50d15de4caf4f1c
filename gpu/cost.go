package gpu

import (
	"sync/atomic"
	"time"
)

// A Cost is what the calls of one kind have taken since gpuwhy began: waiting, too, and not the
// processor's time alone. A call that has not returned is not in it.
type Cost struct {
	Source         string // such as SourceNVML
	Call           string // the driver's function, or "reading" for all that the source does for one reading
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

// Clock is how long the process runs. It reads the monotonic clock alone, where [time.Now] reads two.
func Clock() time.Duration { return time.Since(start) }

// Since notes that a call has returned that began then, by [Clock].
func (m *Meter) Since(began time.Duration) {
	took := int64(Clock() - began)
	m.count.Add(1)
	m.total.Add(took)
	for longest := m.longest.Load(); took > longest && !m.longest.CompareAndSwap(longest, took); {
		longest = m.longest.Load()
	}
}

// Cost is what was measured so far.
func (m *Meter) Cost(source, call string) Cost {
	return Cost{source, call, m.count.Load(), time.Duration(m.total.Load()), time.Duration(m.longest.Load())}
}
