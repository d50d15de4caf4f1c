package server

import (
	"cmp"
	"net/http"
	"sync"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// A cluster answers the cluster's routes from one snapshot. Each answer is made
// when it is first asked for.
type cluster struct {
	snap             *gpu.Snapshot // nil before the first reading
	nodes, processes lazy
	fleet, summary   lazy            // of all clusters, of the local one
	byNode           map[string]node // by name
}

// A node is one machine's part.
type node struct{ itself, processes lazy }

type lazy = func() (*body, error)

func lazyJSON(answer func() any) lazy {
	return sync.OnceValues(func() (*body, error) { return jsonBody(answer()) })
}

func (s *Server) newCluster(snap *gpu.Snapshot) (*cluster, error) {
	nodes := sync.OnceValue(func() []contract.ClusterNode { return contract.NewClusterNodes(snap) })
	c := &cluster{
		snap:      snap,
		nodes:     lazyJSON(func() any { return nodes() }),
		processes: lazyJSON(func() any { return contract.NewClusterProcesses(nodes()) }),
		fleet:     lazyJSON(func() any { return contract.NewClusterSummary(s.cfg.Monitor, snap, nil) }),
		summary:   lazyJSON(func() any { return contract.NewClusterSummary(s.cfg.Monitor, snap, new(contract.LocalCluster)) }),
		byNode:    map[string]node{},
	}
	if snap == nil {
		return c, nil
	}
	all := nodes()
	for i := range all {
		c.byNode[all[i].Name] = node{
			itself:    lazyJSON(func() any { return all[i] }),
			processes: lazyJSON(func() any { return contract.NewClusterProcesses(all[i : i+1]) }),
		}
	}
	return c, nil
}

// cluster returns what makes the handlers of the cluster's routes: each answers
// with what its choose finds, and all share what was made.
func (s *Server) cluster() func(choose func(*cluster, *http.Request) (lazy, error)) handler {
	var newest slot[*gpu.Snapshot, *cluster]
	return func(choose func(*cluster, *http.Request) (lazy, error)) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			c, err := newest.get(s.snapshot, s.newCluster)
			if err != nil {
				return err
			}
			answer, err := choose(c, r)
			if err != nil {
				return err
			}
			b, err := answer()
			if err != nil {
				return err
			}
			return b.serve(w, r, s.untilNext(c.snap))
		}
	}
}

// named checks the cluster that a request names, if it does: there is one, and
// once there was a reading it has to have GPUs.
func (s *Server) named(c *cluster, id string) error {
	switch {
	case id == "":
		return nil
	case id != contract.LocalCluster:
		return refuse(http.StatusNotFound, "there is no cluster "+quote(id), "leave cluster_id out, or use "+quote(contract.LocalCluster))
	case c.snap == nil:
		return s.readable(c.snap)
	case len(c.byNode) == 0:
		return refuse(http.StatusBadRequest, "the cluster "+quote(id)+" has no node with a GPU", contract.Reason(c.snap))
	default:
		return nil
	}
}

func (s *Server) clusterNodes(c *cluster, r *http.Request) (lazy, error) {
	query, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	return c.nodes, s.named(c, query.Get("cluster_id"))
}

// clusterNode finds the node in the path, in the cluster of the path or of the
// query.
func (s *Server) clusterNode(c *cluster, r *http.Request) (lazy, error) {
	query, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	id := cmp.Or(r.PathValue("cluster"), query.Get("cluster_id"))
	if id != "" && id != contract.LocalCluster {
		return nil, s.named(c, id)
	}
	if c.snap == nil {
		return nil, s.readable(c.snap)
	}
	name := r.PathValue("node")
	found, ok := c.byNode[name]
	if !ok {
		return nil, refuse(http.StatusNotFound, "there is no node "+quote(name)+" with a GPU", "/api/v1/gpu/nodes lists all")
	}
	return found.itself, nil
}

// clusterProcesses narrows to a node too. As with any filter, one that nothing
// passes is no error.
func (s *Server) clusterProcesses(c *cluster, r *http.Request) (lazy, error) {
	query, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	if err := s.named(c, query.Get("cluster_id")); err != nil {
		return nil, err
	}
	name := query.Get("node_name")
	if name == "" {
		return c.processes, nil
	}
	if found, ok := c.byNode[name]; ok {
		return found.processes, nil
	}
	return noProcesses, nil
}

var noProcesses = lazyJSON(func() any { return []contract.ClusterProcess{} })

func (s *Server) clusterSummary(c *cluster, r *http.Request) (lazy, error) {
	query, err := parseQuery(r)
	if err != nil {
		return nil, err
	}
	id := query.Get("cluster_id")
	if id == "" {
		return c.fleet, nil
	}
	return c.summary, s.named(c, id)
}
