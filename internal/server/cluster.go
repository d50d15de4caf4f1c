package server

import (
	"cmp"
	"net/http"
	"slices"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// A cluster answers the cluster's routes from the Moments of one time. Each
// answer is made when it is first asked for.
type cluster struct {
	fleet   *insight.Fleet // nil before the first reading
	nodes   func() []contract.ClusterNode
	answers lazy.Map[string, *body]
}

func newCluster(f *insight.Fleet) (*cluster, error) {
	return &cluster{fleet: f, nodes: sync.OnceValue(func() []contract.ClusterNode { return contract.NewClusterNodes(f) })}, nil
}

// answer returns one of the cluster's answers by its name, and makes it when it is
// first asked for.
func (c *cluster) answer(name string, of func() any) (*body, error) {
	return c.answers.Get(name, func() (*body, error) { return jsonBody(of()) })
}

// node finds a machine with a GPU.
func (c *cluster) node(name string) ([]contract.ClusterNode, bool) {
	i := slices.IndexFunc(c.nodes(), func(n contract.ClusterNode) bool { return n.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.nodes()[i : i+1], true
}

// cluster returns a function that makes the handlers of the cluster's routes. They
// share the answers that were made.
func (s *Server) cluster() func(answer func(*cluster, *http.Request) (*body, error)) handler {
	var newest slots[*insight.Fleet, *cluster]
	return func(answer func(*cluster, *http.Request) (*body, error)) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			c, err := newest.get(r, s.fleet, newCluster)
			if err != nil {
				return err
			}
			b, err := answer(c, r)
			if err != nil {
				return err
			}
			return b.serve(w, r, s.untilNext(c.fleet))
		}
	}
}

// named checks the cluster that a request names, if it names one: it must exist,
// and must have GPUs once there was a reading.
func (s *Server) named(c *cluster, r *http.Request) (id string, err error) {
	query, err := parseQuery(r)
	if err != nil {
		return "", err
	}
	switch id = cmp.Or(r.PathValue("cluster"), query.Get("cluster_id")); {
	case id == "":
		return id, nil
	case id != contract.LocalCluster:
		return id, refuse(http.StatusNotFound, "there is no cluster "+quote(id), "leave cluster_id out, or use "+quote(contract.LocalCluster))
	case c.fleet == nil:
		return id, s.readable(c.fleet)
	case len(c.nodes()) == 0 && r.PathValue("node") == "":
		return id, refuse(http.StatusBadRequest, "the cluster "+quote(id)+" has no node with a GPU", contract.Reason(c.fleet.Nodes()))
	default:
		return id, nil
	}
}

func (s *Server) clusterNodes(c *cluster, r *http.Request) (*body, error) {
	if _, err := s.named(c, r); err != nil {
		return nil, err
	}
	return c.answer("nodes", func() any { return c.nodes() })
}

// clusterNode finds the node in the path, in the cluster of the path or of the
// query.
func (s *Server) clusterNode(c *cluster, r *http.Request) (*body, error) {
	if _, err := s.named(c, r); err != nil {
		return nil, err
	}
	if c.fleet == nil {
		return nil, s.readable(c.fleet)
	}
	name := r.PathValue("node")
	found, ok := c.node(name)
	if !ok {
		return nil, refuse(http.StatusNotFound, "there is no node "+quote(name)+" with a GPU", "/api/v1/gpu/nodes lists all")
	}
	return c.answer("node "+name, func() any { return found[0] })
}

// clusterProcesses may be narrowed to a node. A node that does not exist is no
// error, as with any filter.
func (s *Server) clusterProcesses(c *cluster, r *http.Request) (*body, error) {
	if _, err := s.named(c, r); err != nil {
		return nil, err
	}
	name, nodes := r.URL.Query().Get("node_name"), c.nodes()
	if name != "" {
		var known bool
		if nodes, known = c.node(name); !known {
			name = " none" // one key for all unknown names
		}
	}
	return c.answer("processes "+name, func() any { return contract.NewClusterProcesses(nodes) })
}

func (s *Server) clusterSummary(c *cluster, r *http.Request) (*body, error) {
	id, err := s.named(c, r)
	if err != nil {
		return nil, err
	}
	var of *string
	if id != "" {
		of = &id
	}
	return c.answer("summary "+id, func() any { return contract.NewClusterSummary(s.cfg.Monitor, c.fleet, of) })
}
