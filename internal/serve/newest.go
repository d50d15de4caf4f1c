package serve

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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

// ofNode answers below /node/{node} about that node alone, with the same handlers.
func (s *Server) ofNode(routes http.Handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, path := r.PathValue("node"), "/"+r.PathValue("path")
		ofAll := func(prefix string) bool { return strings.HasPrefix(path, prefix) } // about the program, not about a node
		if nodeOf(r) != "" || slices.ContainsFunc([]string{"/node/", "/metrics", "/health", "/api/health"}, ofAll) {
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
		return nil, noNode(name, nodesOf(f)...)
	}
	return r.WithContext(context.WithValue(r.Context(), nodeKey{}, name)), nil
}

// nodesOf are the names of the nodes of a fleet.
func nodesOf(f *insight.Fleet) []string {
	var names []string
	for _, s := range f.Nodes() {
		names = append(names, s.Node)
	}
	return names
}

func noNode(name string, there ...string) error {
	return unknown(http.StatusNotFound, "there is no node", name, there, "see /api/v1/gpu/nodes for nodes with a GPU")
}

// fleet has the newest Moments that a request is about; nil before the first reading.
func (s *Server) fleet(r *http.Request) *insight.Fleet { return ofRequest(r, s.cfg.Newest()) }

// ofRequest is the fleet, or the one node of it that the request is about.
func ofRequest(r *http.Request, f *insight.Fleet) *insight.Fleet {
	if node := nodeOf(r); node != "" {
		if m, ok := f.Node(node); ok {
			return m.Alone()
		}
	}
	return f
}

// answers are what was made of the newest Moments of all nodes, or of that of one.
type answers struct {
	fleet *insight.Fleet // nil before the first reading
	made  lazy.Map[answerKey, *body]
}

// An answerKey is a route, and what tells apart its answers about the same Moments.
type answerKey struct {
	route string
	what  any
}

// newest asks for the Moments under the lock, so that no older answers come after newer ones.
func (s *Server) newest(r *http.Request) *answers {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, key := s.fleet(r), viewOf(r)
	made := s.answers[key]
	if made == nil || made.fleet != f {
		made = &answers{fleet: f}
		s.answers[key] = made
	}
	return made
}

// A view is the part of the newest Moments that a request is about, for those who may see so much.
type view struct {
	node     string // empty for all nodes
	audience auth.Audience
}

func viewOf(r *http.Request) view { return view{nodeOf(r), auth.FromRequest(r).Audience} }

// serve answers with what build makes once. After a failure all answers are made anew.
func (s *Server) serve(of *answers, w http.ResponseWriter, r *http.Request, cache []string, what any, build func() any) error {
	b, err := of.made.Get(answerKey{r.Pattern, what}, func() (*body, error) { return jsonBody(build()) })
	if err != nil {
		s.mu.Lock()
		delete(s.answers, viewOf(r))
		s.mu.Unlock()
	}
	return reply(w, r, cache, b, err)
}

// serveUntilNext is for answers that change with the next reading alone.
func (s *Server) serveUntilNext(of *answers, w http.ResponseWriter, r *http.Request, what any, build func() any) error {
	return s.serve(of, w, r, s.untilNext(of.fleet), what, build)
}

// untilNext lets a client keep an answer about one node until the next reading is due, in whole
// seconds: not of several nodes or one that another program reads, and not if a source failed and may be tried before that.
func (s *Server) untilNext(f *insight.Fleet) []string {
	nodes := f.Nodes()
	if len(nodes) != 1 || len(nodes[0].Failures) > 0 || len(nodes[0].Devices) == 0 || f.Moments()[0].Link.Remote {
		return cacheRevalidate
	}
	left := time.Until(nodes[0].Time.Add(s.cfg.Monitor.Interval))
	if left < time.Second || left > s.cfg.Monitor.Interval { // the clock was set back
		return cacheRevalidate
	}
	return []string{"private, max-age=" + strconv.Itoa(int(left/time.Second))}
}

// monitor is what gpuwhy says of itself to who asks for those Moments.
func (s *Server) monitor(f *insight.Fleet) contract.Monitor { return s.cfg.Monitor.Of(f) }
