package server

import (
	"net/http"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// mostRetry is how far off a client is sent at most: a driver that appears is
// found within 30 s, whatever the interval.
const mostRetry = 30 * time.Second

// readable says why there is no GPU in the snapshot to be read, if so.
func (s *Server) readable(snap *gpu.Snapshot) error {
	e := refuse(http.StatusServiceUnavailable, "no GPU can be read", "")
	e.retryAfter = min(s.cfg.Monitor.Interval, mostRetry)
	switch {
	case snap == nil:
		e.advice = gpu.Advice{What: "the first reading is still under way", Try: "try again in a few seconds"}
	case len(snap.Devices) == 0:
		e.advice.Try = contract.Reason(snap)
	default:
		return nil
	}
	return e
}

// metrics answers with every device, if there is one.
func (s *Server) metrics() handler {
	return kept(s.snapshot, func(snap *gpu.Snapshot) (*body, error) {
		if err := s.readable(snap); err != nil {
			return nil, err
		}
		return jsonBody(contract.NewGPUMetrics(snap))
	}, s.untilNext)
}

// device answers with one device.
func (s *Server) device() handler {
	return s.each(func(snap *gpu.Snapshot) func(i int) any {
		return func(i int) any { return contract.NewOneGPU(snap, &snap.Devices[i]) }
	})
}

// each answers for one device with what build makes of a snapshot and of the
// device's place in it, made when it is first asked for.
func (s *Server) each(build func(*gpu.Snapshot) func(i int) any) handler {
	type devices struct {
		snap   *gpu.Snapshot
		bodies []func() (*body, error)
	}
	var newest slot[*gpu.Snapshot, devices]
	list := func(snap *gpu.Snapshot) (devices, error) {
		if err := s.readable(snap); err != nil {
			return devices{}, err
		}
		all := devices{snap, make([]func() (*body, error), len(snap.Devices))}
		answer := build(snap)
		for i := range all.bodies {
			all.bodies[i] = sync.OnceValues(func() (*body, error) { return jsonBody(answer(i)) })
		}
		return all, nil
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		id, err := parseID(r.PathValue("id"))
		if err != nil {
			return err
		}
		all, err := newest.get(s.snapshot, list)
		if err != nil {
			return err
		}
		i, err := id.find(all.snap)
		if err != nil {
			return err
		}
		b, err := all.bodies[i]()
		if err != nil {
			return err
		}
		return b.serve(w, r, s.untilNext(all.snap))
	}
}
