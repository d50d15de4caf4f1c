package server

import (
	"net/http"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

func (s *Server) snapshot() *gpu.Snapshot {
	snap, _ := s.cfg.Newest()
	return snap
}

// kept answers with what build makes for the key of now, once for each key.
func kept[K comparable](key func() K, build func(K) (*body, error)) handler {
	var made slot[K, *body]
	return func(w http.ResponseWriter, r *http.Request) error {
		b, err := made.get(key, build)
		if err != nil {
			return err
		}
		return b.serve(w, r, cacheRevalidate)
	}
}

// derived answers with what build makes of the newest snapshot, which may be
// nil.
func (s *Server) derived(build func(*gpu.Snapshot) any) handler {
	return kept(s.snapshot, func(snap *gpu.Snapshot) (*body, error) { return jsonBody(build(snap)) })
}

// update answers with the newest snapshot in the bytes that the socket sends.
func (s *Server) update() handler {
	return kept(s.snapshot, func(*gpu.Snapshot) (*body, error) {
		// A newer one may have come since the key was read. It does no harm:
		// its own key is another.
		snap, encoded := s.cfg.Newest()
		if snap == nil {
			return jsonBody(contract.EmptyUpdate(s.cfg.Monitor, s.cfg.Why(nil)))
		}
		return newBody(typeJSON, encoded), nil
	})
}

// summary answers with the totals. Alerts begin and end a moment after the
// snapshot that they are about, so it is made again when their number changes.
func (s *Server) summary() handler {
	type basis struct {
		snap   *gpu.Snapshot
		alerts int
	}
	now := func() basis { return basis{s.snapshot(), s.cfg.ActiveAlerts()} }
	return kept(now, func(of basis) (*body, error) {
		return jsonBody(contract.NewSummary(s.cfg.Monitor, of.snap, s.cfg.Why(of.snap), of.alerts))
	})
}

// past answers with the recent past: of all devices, or of those that the
// request names.
func (s *Server) past() handler {
	type basis struct {
		snap       *gpu.Snapshot
		generation uint64
	}
	now := func() basis { return basis{s.snapshot(), s.cfg.Recent.Generation()} }
	all := kept(now, func(of basis) (*body, error) {
		return jsonBody(contract.NewRecent(s.cfg.Monitor, of.snap, s.cfg.Recent.View(nil)))
	})
	return func(w http.ResponseWriter, r *http.Request) error {
		if names := r.URL.Query()["gpu"]; len(names) > 0 {
			return s.pastOf(names, w, r)
		}
		return all(w, r)
	}
}

func (s *Server) pastOf(names []string, w http.ResponseWriter, r *http.Request) error {
	type key struct{ node, uuid string }
	snap := s.snapshot()
	wanted := make(map[key]bool, len(names))
	for _, name := range names {
		id, err := parseID(name)
		if err != nil {
			return err
		}
		if snap == nil {
			continue // no device is known yet, nor any past
		}
		i, err := id.find(snap)
		if err != nil {
			return err
		}
		wanted[key{snap.Devices[i].Node, snap.Devices[i].UUID}] = true
	}
	view := s.cfg.Recent.View(func(node, uuid string, _ int) bool { return wanted[key{node, uuid}] })
	b, err := jsonBody(contract.NewRecent(s.cfg.Monitor, snap, view))
	if err != nil {
		return err
	}
	return b.serve(w, r, cacheRevalidate)
}
