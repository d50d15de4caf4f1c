package fleet

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/views"
)

// A Shell fills in what every page shows.
type Shell interface {
	// Listing is what a page at a path is made of that lists what a node has, or all if the name is empty.
	Listing(r *http.Request, path string) views.Input
}

// A Site answers about machines by cluster and node, and has the page of all nodes.
type Site struct {
	Kit   *serve.Kit
	Shell Shell
	// Clusters are the names of the clusters that are to be read, also of those of which no node has been. It may be nil.
	Clusters func() []string
}

// Name implements part.Part.
func (*Site) Name() string { return "fleet" }

var (
	clusterParam = apidoc.InQuery("cluster_id", "Only this cluster. Default: all.", contract.LocalCluster)

	noGPU          = gpu.Nodes{{Source: gpu.SourceNVML}}
	noGPUInCluster = serve.Refused("The named cluster has no node with a GPU.", emptyCluster(contract.LocalCluster, noGPU))
	unknownCluster = serve.Refused("There is no such cluster.", new(Site).noCluster(nil, "other", true))
	unknownNode    = serve.Refused("There is no such cluster, or no such machine with a GPU in it.", noGPUNode("other"))
	ofCluster      = apidoc.Parts{noGPUInCluster, unknownCluster, serve.BadQuery, serve.NotReadYet}
)

// Routes implements part.Server.
func (s *Site) Routes() []serve.Route {
	nodeParam := apidoc.InPath("node", "Name of the machine.", "workstation")
	oneNode := apidoc.Parts{serve.OK("The machine.", contract.ClusterNode{}, "cluster_node"), unknownNode, serve.BadQuery, serve.NotReadYet}
	return []serve.Route{
		serve.Read("/api/v1/monitoring/gpu-metrics", serve.Derived(s.Kit, contract.NewFleet),
			contract.ClientFleet, "getFleet", "List GPUs in short form", serve.OK("The GPUs; an empty list if there are none.", contract.Fleet{}, "fleet")),

		serve.Read("/api/v1/gpu/nodes", s.cluster(s.clusterNodes), contract.ClientCluster, "listNodes", "List machines with GPUs",
			serve.OK("The machines, by name.", []contract.ClusterNode{}, "cluster_nodes"), clusterParam, ofCluster),
		serve.Read("/api/v1/gpu/nodes/{cluster}/{node}", s.cluster(s.clusterNode), contract.ClientCluster, "getNodeOfCluster", "Get one machine of a cluster",
			apidoc.InPath("cluster", "Name of the cluster.", contract.LocalCluster), nodeParam, oneNode),
		serve.Read("/api/v1/gpu/nodes/{node}", s.cluster(s.clusterNode), contract.ClientCluster, "getNode", "Get one machine",
			nodeParam, clusterParam, oneNode),
		serve.Read("/api/v1/gpu/processes", s.cluster(s.clusterProcesses), contract.ClientCluster, "listProcesses", "List processes on GPUs",
			serve.OK("The processes, by machine and GPU. A process on two GPUs appears twice.", []contract.ClusterProcess{}, "cluster_processes"),
			clusterParam, apidoc.InQuery("node_name", "Only this machine. An unknown machine has no processes.", nil), ofCluster),
		serve.Read("/api/v1/gpu/summary", s.cluster(s.clusterSummary), contract.ClientCluster, "getClusterSummary", "Get totals of one or all clusters",
			serve.OK("The totals. Without GPUs, counts and sums are 0 and averages are null.", contract.ClusterSummary{}, "cluster_summary"),
			clusterParam, ofCluster),

		serve.LivePage("/nodes", s.page),
	}
}

// page lists all nodes. A single one does not have it.
func (s *Site) page(w http.ResponseWriter, r *http.Request) error {
	if serve.Node(r) != "" {
		return serve.ErrNothing
	}
	return s.Kit.LiveHTML(w, r, views.NewNodesPage(s.Shell.Listing(r, "nodes")))
}

// cluster passes on the cluster that a request names, if there is such a one and it has GPUs. The fleet of the answer is then that
// of the cluster.
func (s *Site) cluster(answer func(c *serve.Answers, id string, chosen *insight.Fleet, w http.ResponseWriter, r *http.Request) error) serve.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		query, err := serve.ParseQuery(r)
		if err != nil {
			return err
		}
		c := s.Kit.Answers(r)
		id := cmp.Or(r.PathValue("cluster"), query.Get("cluster_id"))
		if id == "" {
			return answer(c, id, c.Fleet, w, r)
		}
		chosen := contract.InCluster(c.Fleet, id)
		switch {
		case id != contract.LocalCluster && len(chosen.Moments()) == 0 && (!serve.SeesAll(r.Context()) || !s.configured(id)):
			return s.noCluster(c.Fleet, id, serve.SeesAll(r.Context()))
		case c.Fleet == nil:
			return s.Kit.Readable(c.Fleet)
		case r.PathValue("node") == "" && s.Kit.Readable(chosen) != nil:
			return emptyCluster(id, chosen.Nodes())
		default:
			return answer(c, id, chosen, w, r)
		}
	}
}

// configured reports whether a cluster is to be read, though none of its nodes may have been.
func (s *Site) configured(id string) bool {
	return s.Clusters != nil && slices.Contains(s.Clusters(), id)
}

// noCluster names those that there are, a few; those of which no node has been read to those who see all.
func (s *Site) noCluster(f *insight.Fleet, id string, all bool) error {
	const few = 8
	var there []string
	if s.Clusters != nil && all {
		there = slices.Clone(s.Clusters())
	}
	for _, m := range f.Moments() {
		if is := contract.ClusterOf(m); !slices.Contains(there, is) && len(there) <= few {
			there = append(there, is)
		}
	}
	if len(there) == 0 {
		there = []string{contract.LocalCluster}
	}
	slices.Sort(there)
	for i := range there {
		there[i] = serve.Quote(there[i])
	}
	if len(there) > few {
		there = append(there[:few], "another one from /api/v1/gpu/nodes")
	}
	return serve.Refuse(http.StatusNotFound, "there is no cluster "+serve.Quote(id), "leave cluster_id out, or use "+strings.Join(there, ", or "))
}

func emptyCluster(id string, nodes gpu.Nodes) error {
	return serve.Refuse(http.StatusBadRequest, "the cluster "+serve.Quote(id)+" has no node with a GPU", contract.Reason(nodes))
}

func (s *Site) clusterNodes(c *serve.Answers, id string, chosen *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	return c.ServeUntilNext(w, r, keyOf(id, ""), func() any { return contract.NewClusterNodes(chosen) })
}

// inCluster is the key of an answer about a cluster, or about one of its nodes.
type inCluster struct{ cluster, node string }

// keyOf is one key for all clusters and one for all nodes; nil for both.
func keyOf(cluster, node string) any {
	if cluster == "" && node == "" {
		return nil
	}
	return inCluster{cluster, node}
}

// clusterNode answers with the node in the path.
func (s *Site) clusterNode(c *serve.Answers, id string, chosen *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	if c.Fleet == nil {
		return s.Kit.Readable(c.Fleet)
	}
	name := r.PathValue("node")
	node := withGPU(chosen, name)
	if node == nil {
		return noGPUNode(name, serve.NodeNames(chosen)...)
	}
	return c.ServeUntilNext(w, r, keyOf(id, name), func() any { return contract.NewClusterNodes(node)[0] })
}

func noGPUNode(name string, there ...string) error {
	return serve.Refuse(http.StatusNotFound, "there is no node "+serve.Quote(name)+" with a GPU"+nearest.Hint(name, there), "see /api/v1/gpu/nodes for all nodes")
}

// withGPU is the machine of that name alone, or nil if it has no GPU. It is the first in the order of the clusters where several have one of
// that name. The name may also be that which no other node of the fleet has.
func withGPU(f *insight.Fleet, name string) *insight.Fleet {
	if m, ok := f.Node(name); ok && len(m.Snapshot.Devices) > 0 {
		return m.Alone()
	}
	for _, m := range f.Moments() {
		if m.Name() == name && len(m.Snapshot.Devices) > 0 {
			return m.Alone()
		}
	}
	return nil
}

// clusterProcesses narrows to a node too. An unknown one has none, as with any filter.
func (s *Site) clusterProcesses(c *serve.Answers, id string, chosen *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("node_name")
	if name != "" {
		if chosen = withGPU(chosen, name); chosen == nil {
			id, name = "", " none" // one key for all unknown names
		}
	}
	return c.ServeUntilNext(w, r, keyOf(id, name), func() any { return contract.NewClusterProcesses(contract.NewClusterNodes(chosen)) })
}

func (s *Site) clusterSummary(c *serve.Answers, id string, chosen *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	var named *string
	if id != "" {
		named = &id
	}
	return c.ServeUntilNext(w, r, id, func() any { return contract.NewClusterSummary(c.Named(), chosen, named) })
}
