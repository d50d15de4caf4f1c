package serve

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// ofNode answers below /node/{node} about that node alone, with the same handlers.
func (s *Server) ofNode(routes http.Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name, path := r.PathValue("node"), "/"+r.PathValue("path")
		whole := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
		if Node(r) != "" || slices.ContainsFunc(s.whole, whole) {
			return ErrNothing
		}
		r, err := s.kit.About(r, name)
		if err != nil {
			return err
		}
		u := *r.URL
		u.Path, u.RawPath = s.kit.BasePath+path, ""
		r.URL = &u
		routes.ServeHTTP(w, r)
		return nil
	}
}

// About returns the request as one about a node alone, if there is such a node.
func (k *Kit) About(r *http.Request, name string) (*http.Request, error) {
	f := k.Fleet(r.Context()) // a node that somebody may not see does not exist for him
	if f == nil {
		return nil, k.Readable(f)
	}
	already := Node(r)
	if _, ok := f.Node(name); !ok || already != "" && already != name {
		return nil, noNode(name, NodeNames(f)...)
	}
	return r.WithContext(context.WithValue(r.Context(), nodeKey{}, name)), nil
}

// NodeNames are the names of the nodes of a fleet.
func NodeNames(f *insight.Fleet) []string {
	var names []string
	for _, s := range f.Nodes() {
		names = append(names, s.Node)
	}
	return names
}

func noNode(name string, there ...string) error {
	return Unknown(http.StatusNotFound, "there is no node", name, there, "see /api/v1/gpu/nodes for nodes with a GPU")
}
