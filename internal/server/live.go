package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

func (s *Server) snapshot() *gpu.Snapshot {
	snap, _ := s.cfg.Newest()
	return snap
}

// kept answers with what build makes for the key of now, once for each key;
// cache says how long a client may keep it.
func kept[K comparable](key func() K, build func(K) (*body, error), cache func(K) string) handler {
	type made struct {
		of   K
		body *body
	}
	var newest slot[K, made]
	return func(w http.ResponseWriter, r *http.Request) error {
		m, err := newest.get(key, func(k K) (made, error) {
			b, err := build(k)
			return made{k, b}, err
		})
		if err != nil {
			return err
		}
		return m.body.serve(w, r, cache(m.of))
	}
}

// revalidate is for answers that may change at any time.
func revalidate[K any](K) string { return cacheRevalidate }

// untilNext is how long an answer about the snapshot alone may be kept: until
// the next reading is due, since there can be no newer one before that, unless
// a source is about to be tried again. It is rounded down to seconds, the unit
// of the header.
func (s *Server) untilNext(snap *gpu.Snapshot) string {
	if snap == nil || len(snap.Failures) > 0 || len(snap.Devices) == 0 {
		return cacheRevalidate
	}
	left := time.Until(snap.Time.Add(s.cfg.Monitor.Interval))
	if left < time.Second || left > s.cfg.Monitor.Interval { // the clock was set back
		return cacheRevalidate
	}
	return "private, max-age=" + strconv.Itoa(int(left/time.Second))
}

// derived answers with what build makes of the newest snapshot, which may be
// nil.
func (s *Server) derived(build func(*gpu.Snapshot) any) handler {
	return kept(s.snapshot, func(snap *gpu.Snapshot) (*body, error) { return jsonBody(build(snap)) }, s.untilNext)
}

// update answers with the newest snapshot in the bytes that the socket sends.
func (s *Server) update() handler {
	return kept(s.snapshot, func(*gpu.Snapshot) (*body, error) {
		// A newer one may have come since the key was read. It does no harm:
		// its own key is another.
		snap, encoded := s.cfg.Newest()
		if snap == nil {
			return jsonBody(contract.EmptyUpdate(s.cfg.Monitor, s.cfg.Explain(nil).Sentence))
		}
		return newBody(typeJSON, encoded), nil
	}, revalidate)
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
		answer := s.cfg.Explain(of.snap)
		summary := contract.NewSummary(s.cfg.Monitor, of.snap, answer.Sentence, of.alerts)
		summary.Explain(&answer)
		return jsonBody(summary)
	}, revalidate)
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
	}, revalidate)
	return func(w http.ResponseWriter, r *http.Request) error {
		query, err := parseQuery(r)
		if err != nil {
			return err
		}
		if names := query["gpu"]; len(names) > 0 {
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
