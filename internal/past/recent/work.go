package recent

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
)

// A Worker is the processes of one user on a device that run the same program.
type Worker struct {
	Name, User string // empty where not known, or not to be shown
	PID        int    // of one of them
	Visits     []Visit
}

// A Visit is a time for which at least one of a worker's processes was on a device.
type Visit struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`   // when it was last seen
	Open bool      `json:"open"` // it was there when last looked
}

// mostWorkers of a device are told apart.
const mostWorkers = 64

// work records the processes on a device and their power draw. Watts are summed by place, over the moments whose watts could be attributed.
type work struct {
	slots   int       // how many places there are
	workers []*worker // in the order in which they came
	known   []float32 // by place: of how many moments
}

type worker struct {
	Worker
	watts []float32 // by place
	here  bool      // in the moment that is taken in
}

// begin makes room for a moment and drops workers that were gone before the oldest moment.
func (w *work) begin(place int, oldest time.Time) {
	if w.known == nil {
		return
	}
	w.known[place] = 0
	w.workers = slices.DeleteFunc(w.workers, func(worker *worker) bool {
		worker.watts[place] = 0
		worker.Visits = slices.DeleteFunc(worker.Visits, func(v Visit) bool { return !v.Open && v.To.Before(oldest) })
		return len(worker.Visits) == 0
	})
}

// forget drops everything later than now.
func (w *work) forget(now time.Time) {
	for _, worker := range w.workers {
		for i := range worker.Visits {
			v := &worker.Visits[i]
			if v.To.After(now) {
				v.To = now
			}
			if v.From.After(v.To) {
				v.From = v.To
			}
		}
	}
}

func (w *work) find(name, user string, pid int) *worker {
	for i, worker := range w.workers {
		if worker.Name == name && worker.User == user || i == mostWorkers {
			return worker
		}
	}
	if w.known == nil {
		w.known = make([]float32, w.slots)
	}
	worker := &worker{Worker: Worker{Name: name, User: user, PID: pid}, watts: make([]float32, w.slots)}
	if len(w.workers) == mostWorkers {
		worker.Name, worker.User = "", ""
	}
	w.workers = append(w.workers, worker)
	return worker
}

// note records the processes on a device at the moment stored in place. before is the time of its node's previous moment; zero if there is none.
func (w *work) note(d *gpu.Device, a *attribute.Attribution, place int, before, now time.Time) {
	for _, worker := range w.workers {
		worker.here = false
	}
	defer func() {
		for _, worker := range w.workers {
			worker.Visits[len(worker.Visits)-1].Open = worker.here
		}
	}()
	list, listed := d.Processes.Get()
	if !listed || d.State != gpu.StateOK { // who is there is not known
		return
	}
	for i := range list {
		p := &list[i]
		if a.Shares[i].Repeated || a.Shares[i].Orphan {
			continue
		}
		worker := w.find(cmp.Or(p.Facts.Program.Or(""), p.Facts.Name.Or("")), p.Facts.User.Or(""), p.PID)
		if !worker.here {
			worker.visit(p.Facts.Started.Or(time.Time{}), before, now)
			worker.here = true
		}
		worker.watts[place] += max(float32(a.Shares[i].Power.Or(0)), 0)
	}
	if w.known != nil && d.Power.Draw.Present() {
		w.known[place]++
	}
}

// visit says that the worker is on the device now. Its process may have been there all the time since it was last seen.
func (w *worker) visit(started, before, now time.Time) {
	if n := len(w.Visits); n > 0 {
		if last := &w.Visits[n-1]; last.Open || !started.IsZero() && !started.After(last.To) {
			last.To, last.Open = now, true
			return
		}
	}
	begin := now
	if !started.IsZero() && started.Before(now) && (before.IsZero() || started.After(before)) {
		begin = started
	}
	w.Visits = append(w.Visits, Visit{begin, now, true})
}

// KeptWork is who was on a device, as it is kept over a restart.
type KeptWork struct {
	Name   string                 `json:"name,omitempty"`
	User   string                 `json:"user,omitempty"`
	Visits []Visit                `json:"visits"`
	Watts  []gpu.Reading[float64] `json:"watts"` // by time; absent where it is not known whose they are
}

func (w *work) kept(first, end int) (out []KeptWork) {
	for _, worker := range w.workers {
		k := KeptWork{Name: worker.Name, User: worker.User, Visits: slices.Clone(worker.Visits), Watts: make([]gpu.Reading[float64], end-first)}
		for i := range k.Watts {
			if n := w.known[(first+i)%w.slots]; n > 0 {
				k.Watts[i] = gpu.Of(float64(worker.watts[(first+i)%w.slots] / n))
			}
		}
		out = append(out, k)
	}
	return out
}

// restore takes in one moment of what was kept.
func (w *work) restore(list []KeptWork, i, place int) {
	for _, k := range list {
		if len(k.Visits) == 0 {
			continue
		}
		worker := w.find(k.Name, k.User, 0)
		if worker.Visits == nil {
			worker.Visits = slices.Clone(k.Visits)
			for j := range worker.Visits {
				worker.Visits[j].Open = false
			}
		}
		if v, ok := valueAt(k.Watts, i).Get(); ok {
			worker.watts[place], w.known[place] = float32(max(v, 0)), 1
		}
	}
}
