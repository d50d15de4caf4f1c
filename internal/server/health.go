package server

import (
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// probe answers GET /health and /health/live: that there is an answer is what
// they ask for.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) error {
	return serveJSON(w, r, contract.NewProbe(s.cfg.Monitor, s.cfg.Newest()), cacheNever)
}

// ready answers GET /health/ready. The verdict that no GPU can be had is as
// good as a reading: waiting would not help.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	f := s.cfg.Newest()
	if f == nil {
		return s.readable(f)
	}
	return serveJSON(w, r, contract.NewProbe(s.cfg.Monitor, f), cacheNever)
}

// monitorHealth answers GET /api/health and /health/detailed.
func (s *Server) monitorHealth(w http.ResponseWriter, r *http.Request) error {
	return serveJSON(w, r, contract.NewMonitorHealth(s.cfg.Monitor, s.cfg.Newest(), s.cfg.Parts(), time.Now()), cacheNever)
}
