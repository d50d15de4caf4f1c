package server

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// node finds a machine with a GPU.
func (c *answers) node(name string) ([]contract.ClusterNode, bool) {
	i := slices.IndexFunc(c.nodes(), func(n contract.ClusterNode) bool { return n.Name == name })
	if i < 0 {
		return nil, false
	}
	return c.nodes()[i : i+1], true
}

// cluster returns what makes the handlers of the cluster's routes, of which each
// gets the cluster that a request names.
func (s *Server) cluster() func(answer func(c *answers, id string, r *http.Request) (*body, error)) handler {
	remembered := s.remembered()
	return func(answer func(*answers, string, *http.Request) (*body, error)) handler {
		return remembered(func(c *answers, r *http.Request) (*body, error) {
			id, err := s.named(c, r)
			if err != nil {
				return nil, err
			}
			return answer(c, id, r)
		})
	}
}

// named checks the cluster that a request names, if it does: there is one, and
// once there was a reading it has to have GPUs.
func (s *Server) named(c *answers, r *http.Request) (id string, err error) {
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

func (s *Server) clusterNodes(c *answers, _ string, _ *http.Request) (*body, error) {
	return c.get("nodes", func() any { return c.nodes() })
}

// clusterNode finds the node in the path, in the cluster of the path or of the
// query.
func (s *Server) clusterNode(c *answers, _ string, r *http.Request) (*body, error) {
	if c.fleet == nil {
		return nil, s.readable(c.fleet)
	}
	name := r.PathValue("node")
	found, ok := c.node(name)
	if !ok {
		return nil, refuse(http.StatusNotFound, "there is no node "+quote(name)+" with a GPU", "/api/v1/gpu/nodes lists all")
	}
	return c.get("node "+name, func() any { return found[0] })
}

// clusterProcesses narrows to a node too. As with any filter, one that nothing
// passes is no error.
func (s *Server) clusterProcesses(c *answers, _ string, r *http.Request) (*body, error) {
	name, nodes := r.URL.Query().Get("node_name"), c.nodes()
	if name != "" {
		var known bool
		if nodes, known = c.node(name); !known {
			name = " none" // whatever the request calls it
		}
	}
	return c.get("processes "+name, func() any { return contract.NewClusterProcesses(nodes) })
}

func (s *Server) clusterSummary(c *answers, id string, _ *http.Request) (*body, error) {
	var of *string
	if id != "" {
		of = &id
	}
	return c.get("summary "+id, func() any { return contract.NewClusterSummary(s.cfg.Monitor, c.fleet, of) })
}
