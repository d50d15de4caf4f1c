package serve

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
)

// mostRetry is the longest time in Retry-After: gpuwhy finds a new driver within that time.
const mostRetry = 30 * time.Second

// readable returns an error if no GPU can be read.
func (s *Server) readable(f *insight.Fleet) error {
	nodes := f.Nodes()
	for range nodes.Devices() {
		return nil
	}
	e := refuse(http.StatusServiceUnavailable, "no GPU can be read", contract.Reason(nodes))
	if len(nodes) == 0 {
		e.advice = gpu.Advice{What: "the first reading is still in progress", Try: "try again in a few seconds"}
	}
	wait := max(1, min(s.monitor(f).Interval, mostRetry).Seconds())
	e.header, e.value = "Retry-After", strconv.Itoa(int(math.Ceil(wait)))
	return e
}

// onceRead answers once there is a reading, or once gpuwhy knows that none is possible.
func (s *Server) onceRead(answer handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if f := s.cfg.Newest(); f == nil {
			return s.readable(f)
		}
		return answer(w, r)
	}
}

// derived answers with what build makes from the newest Moments, if there are any yet.
func derived[T any](s *Server, build func(contract.Monitor, *insight.Fleet) T) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		of := s.newest(r)
		return s.serveUntilNext(of, w, r, nil, func() any { return build(s.monitor(of.fleet), of.fleet) })
	}
}

// each answers for one device with what build makes from it.
func each[T any](s *Server, build func(insight.Part) T) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		of := s.newest(r)
		p, err := s.named(of.fleet, r)
		if err != nil {
			return err
		}
		return s.serveUntilNext(of, w, r, p.Device, func() any { return build(p) })
	}
}

// named finds the device in a request's path.
func (s *Server) named(f *insight.Fleet, r *http.Request) (insight.Part, error) {
	id, err := parseID(r.PathValue("id"))
	if err != nil {
		return insight.Part{}, err
	}
	if err := s.readable(f); err != nil {
		return insight.Part{}, err
	}
	return id.find(f)
}

// metrics answers with every device, if there is one.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	of := s.newest(r)
	if err := s.readable(of.fleet); err != nil {
		return err
	}
	return s.serveUntilNext(of, w, r, nil, func() any { return contract.NewGPUMetrics(s.monitor(of.fleet), of.fleet) })
}

// update answers with the newest snapshot; that of one node in the bytes that the socket sends.
func (s *Server) update(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	if name := query.Get("node"); name != "" {
		if r, err = s.about(r, name); err != nil {
			return err
		}
	}
	of := s.newest(r)
	return s.serve(of, w, r, cacheRevalidate, nil, func() any {
		if nodes := of.fleet.Nodes(); len(nodes) == 1 {
			// There may be a newer one by now, and newer answers then. It does no harm here.
			if encoded := s.cfg.Update(nodes[0].Node, auth.FromRequest(r).Audience); encoded != nil {
				return json.RawMessage(encoded)
			}
		}
		return contract.NewFleetUpdate(s.cfg.Monitor, of.fleet)
	})
}

// summary is made again when the number of alerts changes, shortly after a snapshot.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) error {
	of, alerts := s.newest(r), s.cfg.Alerts.Firing(nodeOf(r))
	return s.serve(of, w, r, cacheRevalidate, alerts, func() any { return contract.NewSummary(s.monitor(of.fleet), of.fleet, alerts) })
}

// recent answers with the recent past of all devices, or of those in the query.
func (s *Server) recent(w http.ResponseWriter, r *http.Request) error {
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	of := s.newest(r)
	if names := query["gpu"]; len(names) > 0 {
		return s.recentOf(of.fleet, names, w, r)
	}
	return s.serve(of, w, r, cacheRevalidate, s.cfg.Recent.Generation(), func() any {
		m := s.monitor(of.fleet)
		var keep func(node, uuid string, _ int) bool
		if s.cfg.Monitor.Several && !m.Several {
			keep = func(node, _ string, _ int) bool { return node == m.Node }
		}
		return contract.NewRecent(m, of.fleet, s.cfg.Recent.View(keep))
	})
}

func (s *Server) recentOf(f *insight.Fleet, names []string, w http.ResponseWriter, r *http.Request) error {
	type key struct{ node, uuid string }
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

// cluster passes on the cluster that a request names, if there is such a one and it has GPUs. The fleet of the answer is then that
// of the cluster.
func (s *Server) cluster(answer func(c *answers, id string, of *insight.Fleet, w http.ResponseWriter, r *http.Request) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		query, err := parseQuery(r)
		if err != nil {
			return err
		}
		c := s.newest(r)
		id := cmp.Or(r.PathValue("cluster"), query.Get("cluster_id"))
		if id == "" {
			return answer(c, id, c.fleet, w, r)
		}
		of := contract.InCluster(c.fleet, id)
		switch {
		case id != contract.LocalCluster && len(of.Moments()) == 0 && !s.configured(id):
			return s.noCluster(c.fleet, id)
		case c.fleet == nil:
			return s.readable(c.fleet)
		case r.PathValue("node") == "" && s.readable(of) != nil:
			return emptyCluster(id, of.Nodes())
		default:
			return answer(c, id, of, w, r)
		}
	}
}

// configured reports whether a cluster is to be read, though none of its nodes may have been.
func (s *Server) configured(id string) bool {
	return s.cfg.Clusters != nil && slices.Contains(s.cfg.Clusters(), id)
}

// noCluster names those that there are, a few.
func (s *Server) noCluster(f *insight.Fleet, id string) error {
	const few = 8
	var there []string
	if s.cfg.Clusters != nil {
		there = slices.Clone(s.cfg.Clusters())
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
		there[i] = quote(there[i])
	}
	if len(there) > few {
		there = append(there[:few], "another one from /api/v1/gpu/nodes")
	}
	return refuse(http.StatusNotFound, "there is no cluster "+quote(id), "leave cluster_id out, or use "+strings.Join(there, ", or "))
}

func emptyCluster(id string, nodes gpu.Nodes) error {
	return refuse(http.StatusBadRequest, "the cluster "+quote(id)+" has no node with a GPU", contract.Reason(nodes))
}

func (s *Server) clusterNodes(c *answers, id string, of *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	return s.serveUntilNext(c, w, r, keyOf(id, ""), func() any { return contract.NewClusterNodes(of) })
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
func (s *Server) clusterNode(c *answers, id string, of *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	if c.fleet == nil {
		return s.readable(c.fleet)
	}
	name := r.PathValue("node")
	node := withGPU(of, name)
	if node == nil {
		return noGPUNode(name, nodesOf(of)...)
	}
	return s.serveUntilNext(c, w, r, keyOf(id, name), func() any { return contract.NewClusterNodes(node)[0] })
}

func noGPUNode(name string, there ...string) error {
	return refuse(http.StatusNotFound, "there is no node "+quote(name)+" with a GPU"+nearest.Hint(name, there), "see /api/v1/gpu/nodes for all nodes")
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
func (s *Server) clusterProcesses(c *answers, id string, of *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("node_name")
	if name != "" {
		if of = withGPU(of, name); of == nil {
			id, name = "", " none" // one key for all unknown names
		}
	}
	return s.serveUntilNext(c, w, r, keyOf(id, name), func() any { return contract.NewClusterProcesses(contract.NewClusterNodes(of)) })
}

func (s *Server) clusterSummary(c *answers, id string, of *insight.Fleet, w http.ResponseWriter, r *http.Request) error {
	var named *string
	if id != "" {
		named = &id
	}
	return s.serveUntilNext(c, w, r, id, func() any { return contract.NewClusterSummary(s.cfg.Monitor, of, named) })
}

// socket lets a viewer in, which counts until its connection is closed.
func (s *Server) socket(w http.ResponseWriter, r *http.Request) error {
	leave, err := s.crowd.enter(r)
	if err != nil {
		return err
	}
	in, returned := &entering{ResponseWriter: w, leave: leave}, false
	defer func() {
		if !in.handedOver || !returned { // after a panic nobody has the connection
			leave()
		}
	}()
	s.cfg.WS(in, r, nodeOf(r))
	returned = true
	return nil
}

// probe is for who only asks whether there is an answer.
func (s *Server) probe(w http.ResponseWriter, r *http.Request) error {
	return serveJSON(w, r, contract.NewProbe(s.cfg.Monitor, s.cfg.Newest()), cacheNever)
}

func (s *Server) monitorHealth(w http.ResponseWriter, r *http.Request) error {
	return serveJSON(w, r, contract.NewMonitorHealth(s.cfg.Monitor, s.cfg.Newest(), s.cfg.Parts(), s.cfg.Clock.Elapsed()-s.started), cacheNever)
}
