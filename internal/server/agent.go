package server

import (
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// mostRetry is how far off a client is sent at most: a driver that appears is
// found within 30 s, whatever the interval.
const mostRetry = 30 * time.Second

// readable says why there is no GPU to be read, if so.
func (s *Server) readable(f *insight.Fleet) error {
	e := refuse(http.StatusServiceUnavailable, "no GPU can be read", "")
	e.retryAfter = min(s.cfg.Monitor.Interval, mostRetry)
	switch nodes := f.Nodes(); {
	case len(nodes) == 0:
		e.advice = gpu.Advice{What: "the first reading is still under way", Try: "try again in a few seconds"}
	case nodes.Totals().Devices == 0:
		e.advice.Try = contract.Reason(nodes)
	default:
		return nil
	}
	return e
}

// metrics answers with every device, if there is one.
func (s *Server) metrics() handler {
	return kept(s.fleet, func(f *insight.Fleet) (*body, error) {
		if err := s.readable(f); err != nil {
			return nil, err
		}
		return jsonBody(contract.NewGPUMetrics(s.monitor(f), f))
	}, s.untilNext)
}

// device answers with one device.
func (s *Server) device() handler {
	return s.each(func(p insight.Part) any { return contract.NewOneGPU(p) })
}

// each answers for one device with what build makes of it.
func (s *Server) each(build func(insight.Part) any) handler {
	return s.remembered()(func(of *answers, r *http.Request) (*body, error) {
		id, err := parseID(r.PathValue("id"))
		if err != nil {
			return nil, err
		}
		if err := s.readable(of.fleet); err != nil {
			return nil, err
		}
		p, err := id.find(of.fleet)
		if err != nil {
			return nil, err
		}
		return of.get(p.Device, func() any { return build(p) })
	})
}
