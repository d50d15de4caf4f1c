package server

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

type nodeKey struct{}

// nodeOf is the node that a request is about, empty for all of them.
func nodeOf(r *http.Request) string {
	name, _ := r.Context().Value(nodeKey{}).(string)
	return name
}

// base is where the pages begin that are about what the request is about.
func (s *Server) base(r *http.Request) string {
	if name := nodeOf(r); name != "" {
		return s.cfg.BasePath + "/node/" + url.PathEscape(name)
	}
	return s.cfg.BasePath
}

// ofNode answers below /node/{node} about that node alone, with the handlers that
// routes has below the base path.
func (s *Server) ofNode(routes http.Handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, path := r.PathValue("node"), "/"+r.PathValue("path")
		if nodeOf(r) != "" || ofAll(path) {
			return s.notFound(w, r)
		}
		r, err := s.about(r, name)
		if err != nil {
			return err
		}
		u := *r.URL
		u.Path, u.RawPath = s.cfg.BasePath+path, ""
		r.URL = &u
		routes.ServeHTTP(w, r)
		return nil
	}
}

// about returns the request as one about a node alone, if there is such a node.
func (s *Server) about(r *http.Request, name string) (*http.Request, error) {
	f := s.cfg.Newest()
	if f == nil {
		return nil, s.readable(f)
	}
	already := nodeOf(r)
	if _, ok := f.Node(name); !ok || already != "" && already != name {
		return nil, noNode(name)
	}
	return r.WithContext(context.WithValue(r.Context(), nodeKey{}, name)), nil
}

func noNode(name string) error {
	return refuse(http.StatusNotFound, "there is no node "+quote(name), "/api/v1/gpu/nodes lists those with a GPU")
}

// narrowed answers about the node that the query names, or about all.
func (s *Server) narrowed(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		query, err := parseQuery(r)
		if err != nil {
			return err
		}
		if name := query.Get("node"); name != "" {
			if r, err = s.about(r, name); err != nil {
				return err
			}
		}
		return h(w, r)
	}
}

// ofAll reports whether an address is about the program, not about a node.
func ofAll(path string) bool {
	return slices.ContainsFunc([]string{"/node/", "/metrics", "/health", "/api/health"}, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// socket answers with the WebSocket.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) error {
	s.cfg.WS(w, r, nodeOf(r))
	return nil
}

// fleet is what a request is about: the newest Moments of all nodes, or that of
// one. It is nil before the first reading.
func (s *Server) fleet(r *http.Request) *insight.Fleet {
	f := s.cfg.Newest()
	if m, ok := f.Node(nodeOf(r)); ok {
		return m.Alone()
	}
	return f
}

// kept answers with what build makes for the present key, once for each key.
// cache says how long a client may keep the answer.
func kept[K comparable](key func(*http.Request) K, build func(K) (*body, error), cache func(K) string) handler {
	var newest slots[K, *body]
	return func(w http.ResponseWriter, r *http.Request) error {
		k, b, err := newest.get(r, key, build)
		if err != nil {
			return err
		}
		return b.serve(w, r, cache(k))
	}
}

// answers are about the Moments of one time. Each is made when it is first asked
// for.
type answers struct {
	fleet *insight.Fleet // nil before the first reading
	nodes func() []contract.ClusterNode
	made  lazy.Map[any, *body]
}

func newAnswers(f *insight.Fleet) (*answers, error) {
	return &answers{fleet: f, nodes: sync.OnceValue(func() []contract.ClusterNode { return contract.NewClusterNodes(f) })}, nil
}

// get is the answer of that key.
func (a *answers) get(key any, build func() any) (*body, error) {
	return a.made.Get(key, func() (*body, error) { return jsonBody(build()) })
}

// remembered returns what makes handlers that share what was made.
func (s *Server) remembered() func(answer func(*answers, *http.Request) (*body, error)) handler {
	var newest slots[*insight.Fleet, *answers]
	return func(answer func(*answers, *http.Request) (*body, error)) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			_, of, err := newest.get(r, s.fleet, newAnswers)
			if err != nil {
				return err
			}
			b, err := answer(of, r)
			if err != nil {
				return err
			}
			return b.serve(w, r, s.untilNext(of.fleet))
		}
	}
}

// revalidate is for answers that may change at any time.
func revalidate[K any](K) string { return cacheRevalidate }

// untilNext is how long a client may keep an answer about one node's Moment: until
// the next reading is due, in whole seconds. A client must ask again if there are
// several nodes, or if a source failed and may be tried before that.
func (s *Server) untilNext(f *insight.Fleet) string {
	nodes := f.Nodes()
	if len(nodes) != 1 || len(nodes[0].Failures) > 0 || len(nodes[0].Devices) == 0 {
		return cacheRevalidate
	}
	left := time.Until(nodes[0].Time.Add(s.cfg.Monitor.Interval))
	if left < time.Second || left > s.cfg.Monitor.Interval { // the clock was set back
		return cacheRevalidate
	}
	return "private, max-age=" + strconv.Itoa(int(left/time.Second))
}

// derived answers with what build makes of the newest Moments; there are none
// before the first reading.
func (s *Server) derived(build func(*insight.Fleet) any) handler {
	return kept(s.fleet, func(f *insight.Fleet) (*body, error) { return jsonBody(build(f)) }, s.untilNext)
}

// update answers with the newest snapshot; that of the one node in the bytes
// that the socket sends.
func (s *Server) update() handler {
	return kept(s.fleet, func(f *insight.Fleet) (*body, error) {
		if nodes := f.Nodes(); len(nodes) == 1 {
			// There may be a newer one since the key was read. That does no
			// harm: the newer one has another key.
			if encoded := s.cfg.Update(nodes[0].Node, auth.Everything); encoded != nil {
				return newBody(typeJSON, encoded), nil
			}
		}
		return jsonBody(contract.NewFleetUpdate(s.cfg.Monitor, f))
	}, revalidate)
}

// summary answers with the totals. Alerts begin and end shortly after the
// snapshot that they are about, so it is made again when their number changes.
func (s *Server) summary() handler {
	type basis struct {
		fleet  *insight.Fleet
		alerts int
	}
	now := func(r *http.Request) basis { return basis{s.fleet(r), s.cfg.ActiveAlerts(nodeOf(r))} }
	return kept(now, func(of basis) (*body, error) {
		return jsonBody(contract.NewSummary(s.monitor(of.fleet), of.fleet, of.alerts))
	}, revalidate)
}

// monitor is what gpuwhy says of itself to who asks for those Moments.
func (s *Server) monitor(f *insight.Fleet) contract.Monitor { return s.cfg.Monitor.Of(f) }

// past answers with the recent past: of all devices, or of those that the
// request names.
func (s *Server) past() handler {
	type basis struct {
		fleet      *insight.Fleet
		generation uint64
	}
	now := func(r *http.Request) basis { return basis{s.fleet(r), s.cfg.Recent.Generation()} }
	all := kept(now, func(of basis) (*body, error) {
		var keep func(node, uuid string, _ int) bool
		if m := s.monitor(of.fleet); s.cfg.Monitor.Several && !m.Several {
			keep = func(node, _ string, _ int) bool { return node == m.Node }
		}
		return jsonBody(contract.NewRecent(s.monitor(of.fleet), of.fleet, s.cfg.Recent.View(keep)))
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
	f := s.fleet(r)
	wanted := make(map[key]bool, len(names))
	for _, name := range names {
		id, err := parseID(name)
		if err != nil {
			return err
		}
		if f == nil {
			continue // no device is known yet, nor any past
		}
		p, err := id.find(f)
		if err != nil {
			return err
		}
		wanted[key{p.Device.Node, p.Device.UUID}] = true
	}
	view := s.cfg.Recent.View(func(node, uuid string, _ int) bool { return wanted[key{node, uuid}] })
	return serveJSON(w, r, contract.NewRecent(s.monitor(f), f, view), cacheRevalidate)
}
