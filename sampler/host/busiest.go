package host

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const (
	lookEvery = 2 * time.Second // least time between two looks for the busiest processes
	lookShare = 500             // a look takes at most 0.2 % of a core
	described = 64              // processes examined closely
	mostBusy  = 8               // processes reported at most
	leastBusy = 1               // percent of one core
)

// busiest finds the processes that use the CPU most.
type busiest struct {
	looked time.Time // of the last look; zero: none yet
	took   time.Duration
	seen   map[int]procStat
	found  gpu.Reading[[]gpu.HostProcess]
}

// readBusiest finds the processes that use the CPU most, from time to time.
func (r *Reader) readBusiest(ctx context.Context, h *gpu.Host) error {
	b := &r.busiest
	if !r.hint.IsZero() {
		h.Busiest = gpu.Absent[[]gpu.HostProcess](gpu.NotPermitted)
		return nil
	}
	now := r.now()
	passed := now.Sub(b.looked)
	if !b.looked.IsZero() && passed >= 0 && passed < max(lookEvery, lookShare*b.took) {
		h.Busiest = b.found
		return nil
	}
	r.describing.Lock()
	defer r.describing.Unlock()
	these, err := r.everyStat(ctx)
	if err != nil {
		*b = busiest{}
		return err
	}
	b.found = gpu.Reading[[]gpu.HostProcess]{}
	if !b.looked.IsZero() && passed > 0 {
		r.sweep(now)
		b.found = gpu.Of(r.group(usedSince(b.seen, these), passed, now))
	}
	b.seen, b.looked, b.took = these, now, r.now().Sub(now)
	h.Busiest = b.found
	return nil
}

// everyStat reads the CPU time of every process.
func (r *Reader) everyStat(ctx context.Context) (map[int]procStat, error) {
	dir, err := os.Open(r.path("proc"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	out := make(map[int]procStat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s, err := r.stat(pid); err == nil { // otherwise it has ended
			out[pid] = s
		}
	}
	return out, nil
}

// A consumer is a process with the CPU time that it used between two looks, in ticks.
type consumer struct {
	pid   int
	ticks uint64
}

// usedSince returns the CPU time of each process since the previous look, busiest first. CPU time of an ended child is added to the parent
// that waited for it.
func usedSince(before, these map[int]procStat) []consumer {
	// CPU time of ended children from before the previous look: their parents' sums include it now.
	old := map[int]uint64{}
	lives := func(pid int) bool { is, there := these[pid]; return there && is.start == before[pid].start }
	for pid, was := range before {
		if lives(pid) {
			continue
		}
		heir := was.parent
		for range len(before) { // stops even if the files describe a cycle
			next, seen := before[heir]
			if !seen || lives(heir) {
				break
			}
			heir = next.parent
		}
		old[heir] += was.ticks + was.waited
	}
	var out []consumer
	for pid, is := range these {
		var was procStat // zero for a new process: all its CPU time is new
		if lives(pid) {
			was = before[pid]
		}
		ticks, waited := less(is.ticks, was.ticks), less(less(is.waited, was.waited), old[pid])
		if ticks += waited; ticks > 0 {
			out = append(out, consumer{pid, ticks})
		}
	}
	slices.SortFunc(out, func(a, b consumer) int { return cmp.Or(cmp.Compare(b.ticks, a.ticks), cmp.Compare(a.pid, b.pid)) })
	return out
}

// less returns a-b, or 0 if that would be negative.
func less(a, b uint64) uint64 { return a - min(a, b) }

// group adds up the processes that a person would call by the same name.
func (r *Reader) group(all []consumer, passed time.Duration, now time.Time) []gpu.HostProcess {
	type key struct{ name, user, container string }
	places := map[key]int{}
	out := []gpu.HostProcess{}
	for _, u := range all[:min(len(all), described)] {
		cpu := shareOfCore(float64(u.ticks) / passed.Seconds())
		if cpu < leastBusy {
			break
		}
		facts := r.describe(u.pid, now)
		if !facts.Exists.Or(true) {
			continue // it ended while being examined
		}
		p := gpu.HostProcess{PID: u.pid, Count: 1, CPU: cpu, Facts: facts}
		k := key{p.Facts.Program.Or(p.Facts.Name.Or("")), p.Facts.User.Or(""), p.Facts.Container.Or(gpu.Container{}).ID}
		if i, known := places[k]; known && k.name != "" {
			out[i].Count++
			out[i].CPU += cpu
			continue
		}
		places[k] = len(out)
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b gpu.HostProcess) int { return cmp.Compare(b.CPU, a.CPU) })
	return out[:min(len(out), mostBusy)]
}
