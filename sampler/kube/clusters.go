package kube

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Clusters reads the nodes of several clusters.
type Clusters struct {
	all []*cluster
}

// New returns the clusters of a file. It sends no request before Run. The error says which file named by the clusters file, such as a
// kubeconfig, can't be read.
func New(file *File, log *slog.Logger) (*Clusters, error) {
	return newClusters(file, log, clockwork.NewRealClock())
}

func newClusters(file *File, log *slog.Logger, clock clockwork.Clock) (*Clusters, error) {
	c := &Clusters{}
	for i := range file.Clusters {
		cfg := &file.Clusters[i]
		a, err := newAPI(cfg)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", cfg.ID, err)
		}
		a.clock = clock
		c.all = append(c.all, newCluster(cfg, a, log.With("cluster", cfg.ID)))
	}
	return c, nil
}

// IDs returns the clusters' ids, in the order of the file.
func (c *Clusters) IDs() (ids []string) {
	for _, one := range c.all {
		ids = append(ids, one.cfg.ID)
	}
	return ids
}

// Run watches the clusters until ctx ends. It calls join for each new node, and the returned leave when the node goes or ctx ends, and
// before it calls join for another node of the same name. After leave it closes the node's source. Several clusters make these calls
// concurrently. The calls must not block for long.
func (c *Clusters) Run(ctx context.Context, join func(Node) (leave func())) error {
	var all sync.WaitGroup
	for _, one := range c.all {
		all.Go(func() { one.run(ctx, join) })
	}
	all.Wait()
	return nil
}

// State returns the state of each cluster, in the order of the file.
func (c *Clusters) State() []State {
	out := make([]State, len(c.all))
	for i, one := range c.all {
		out[i] = one.stateNow()
	}
	return out
}

// A State is the state of a cluster.
type State struct {
	Cluster string
	Is      Condition
	Since   time.Time
	Nodes   int        // nodes with GPUs
	Failing int        // of those, unreadable now
	Advice  gpu.Advice // zero if the cluster is OK
}

// A Condition is what is right or wrong with a cluster.
type Condition string

// The conditions.
const (
	OK              Condition = "ok"
	Starting        Condition = "starting"     // it has not answered yet
	NoGPUNodes      Condition = "no_gpu_nodes" // no node offers a GPU
	NoOperator      Condition = "no_operator"  // nodes offer GPUs, but no pod has nvidia-smi
	Forbidden       Condition = "forbidden"
	Unauthenticated Condition = "unauthenticated"
	Unreachable     Condition = "unreachable"
)

type cluster struct {
	cfg   *Cluster
	api   *api
	log   *slog.Logger
	slots chan struct{}
	dirty chan struct{} // of size 1

	mu      sync.Mutex
	nodes   map[string]*node
	pods    map[string]map[string]*pod // by namespace and UID
	errs    map[string]error           // by what is watched now: "nodes" or a namespace
	listed  map[string]bool            // what has been listed at least once
	lacking map[target]bool            // containers without nvidia-smi
	joined  map[string]*member
	is      Condition
	since   time.Time
	advice  gpu.Advice
	rights  map[string]*right // the right to execute, by namespace
}

// A member is a node that has joined.
type member struct {
	leave func()
	src   *Source
	end   context.CancelFunc
	wait  sync.WaitGroup

	mu  sync.Mutex
	pod target
	no  *gpu.Advice
}

func newCluster(cfg *Cluster, a *api, log *slog.Logger) *cluster {
	return &cluster{
		cfg: cfg, api: a, log: log, slots: make(chan struct{}, cfg.MaxExecs), dirty: make(chan struct{}, 1),
		nodes: map[string]*node{}, pods: map[string]map[string]*pod{}, errs: map[string]error{}, listed: map[string]bool{},
		lacking: map[target]bool{}, joined: map[string]*member{}, rights: map[string]*right{},
		is: Starting, since: a.clock.Now(), advice: gpu.Advice{What: "the cluster has not answered yet", Try: "wait a moment"},
	}
}

const (
	allNodes  = "nodes"
	mostNodes = 20_000
	mostOfAll = 100_000 // pods of a namespace
)

func (c *cluster) run(ctx context.Context, join func(Node) (leave func())) {
	defer c.api.close()
	var watches sync.WaitGroup
	defer watches.Wait()
	query := url.Values{}
	if c.cfg.NodeSelector != "" {
		query.Set("labelSelector", c.cfg.NodeSelector)
	}
	nodes := collection[node]{
		path: "/api/v1/nodes", query: query, most: mostNodes, meta: func(n *node) *meta { return &n.Metadata },
		set: func(all []node) {
			c.change(func() {
				clear(c.nodes)
				for i := range all {
					c.nodes[all[i].Metadata.Name] = &all[i]
				}
				c.listed[allNodes] = true
			})
		},
		put:    func(n node) { c.change(func() { c.nodes[n.Metadata.Name] = &n }) },
		remove: func(n node) { c.change(func() { delete(c.nodes, n.Metadata.Name) }) },
		state:  c.watching(allNodes),
	}
	watches.Go(func() { nodes.follow(ctx, c.api) })
	for namespace, query := range watched(c.cfg.Pods) {
		pods := collection[pod]{
			path:  "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods",
			query: query, most: mostOfAll, meta: func(p *pod) *meta { return &p.Metadata },
			set: func(all []pod) {
				c.change(func() {
					mine := map[string]*pod{}
					for i := range all {
						if c.kind(&all[i]) >= 0 {
							mine[all[i].Metadata.UID] = &all[i]
						}
					}
					c.pods[namespace], c.listed[namespace] = mine, true
				})
			},
			put: func(p pod) {
				c.change(func() {
					if c.kind(&p) >= 0 {
						c.pods[namespace][p.Metadata.UID] = &p
					} else {
						delete(c.pods[namespace], p.Metadata.UID)
					}
				})
			},
			remove: func(p pod) { c.change(func() { delete(c.pods[namespace], p.Metadata.UID) }) },
			state:  c.watching(namespace),
		}
		watches.Go(func() { pods.follow(ctx, c.api) })
	}
	for {
		select {
		case <-ctx.Done():
			c.leaveAll()
			return
		case <-c.dirty:
		}
		c.reconcile(ctx, join)
		if !c.api.sleep(ctx, collecting) { // collects changes that come together
			c.leaveAll()
			return
		}
	}
}

// change changes what is known about the cluster.
func (c *cluster) change(do func()) {
	c.mu.Lock()
	do()
	c.mu.Unlock()
	c.touch()
}

func (c *cluster) touch() {
	select {
	case c.dirty <- struct{}{}:
	default:
	}
}

func (c *cluster) watching(what string) func(error) {
	return func(err error) {
		c.change(func() {
			if c.errs[what] = err; err == nil {
				delete(c.errs, what)
			}
		})
	}
}

// kind returns the index of a pod's kind in the list, -1 if it has none.
func (c *cluster) kind(p *pod) int {
	return slices.IndexFunc(c.cfg.Pods, func(k Pods) bool { return k.matches(p) })
}

// reconcile lets nodes join and leave, and tells each node where nvidia-smi is.
func (c *cluster) reconcile(ctx context.Context, join func(Node) (leave func())) {
	c.mu.Lock()
	byNode := map[string][]*pod{}
	for _, pods := range c.pods {
		for _, p := range pods {
			byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], p)
		}
	}
	var come []string
	var gone []*member
	for name, n := range c.nodes {
		if c.joined[name] == nil && n.offersGPUs() {
			come = append(come, name)
		}
	}
	for name, m := range c.joined {
		// A node whose plugin is briefly missing stays.
		if n := c.nodes[name]; n == nil || !n.offersGPUs() && len(byNode[name]) == 0 {
			gone = append(gone, m)
			delete(c.joined, name)
		}
	}
	used := map[target]bool{}
	for name, m := range c.joined {
		m.set(c.choose(name, byNode[name], used))
	}
	for t := range c.lacking {
		if !used[t] {
			delete(c.lacking, t)
		}
	}
	slices.Sort(come)
	c.judge(len(byNode))
	c.mu.Unlock()
	for _, m := range gone {
		m.end()
		m.leave()
		_ = m.src.Close() // it never fails
		m.wait.Wait()
	}
	for _, name := range come {
		if ctx.Err() != nil {
			return
		}
		c.admit(ctx, name, byNode[name], join)
	}
	if len(come) > 0 {
		c.touch() // State counts them
	}
}

// admit lets a node join.
func (c *cluster) admit(ctx context.Context, name string, pods []*pod, join func(Node) (leave func())) {
	ctx, cancel := context.WithCancel(ctx)
	m := &member{end: cancel}
	log := c.log.With("node", name)
	c.mu.Lock()
	n := c.nodes[name]
	if n == nil {
		c.mu.Unlock()
		cancel()
		return
	}
	labels := n.labels()
	m.set(c.choose(name, pods, map[target]bool{}))
	c.mu.Unlock()
	h := &Host{
		node: func() *node {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.nodes[name]
		},
		pods: &podNames{ctx: ctx, wait: &m.wait, list: func(ctx context.Context) ([]pod, error) {
			all, _, err := list[pod](ctx, c.api, "/api/v1/pods", url.Values{"fieldSelector": {"spec.nodeName=" + name}}, mostKnown)
			return all, err
		}},
		now: c.api.clock.Now, known: map[int]*process{},
	}
	con := &console{
		cfg: c.cfg, api: c.api, slots: c.slots, log: log, where: m.where, changed: make(chan struct{}, 1),
		answers: map[string]*answer{}, late: map[string]bool{}, processes: h.next, told: h.take, explain: c.explain,
		lacks: func(t target) {
			c.change(func() { c.lacking[t] = true })
		},
	}
	m.src = newSource(ctx, con, log)
	m.leave = join(Node{Cluster: c.cfg.ID, Name: name, Labels: labels, Source: m.src, Host: h})
	if m.leave == nil {
		m.leave = func() {}
	}
	c.mu.Lock()
	c.joined[name] = m
	c.mu.Unlock()
}

func (c *cluster) leaveAll() {
	c.mu.Lock()
	all := c.joined
	c.joined = map[string]*member{}
	c.mu.Unlock()
	var each sync.WaitGroup
	for _, m := range all {
		m.end()
		each.Go(func() {
			m.leave()
			_ = m.src.Close() // it never fails
			m.wait.Wait()
		})
	}
	each.Wait()
}

func (m *member) where() (target, *gpu.Advice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pod, m.no
}

func (m *member) set(pod target, no *gpu.Advice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pod, m.no = pod, no
}

// choose finds the container with nvidia-smi, or says why there is none. The caller holds the lock.
func (c *cluster) choose(name string, pods []*pod, used map[target]bool) (target, *gpu.Advice) {
	slices.SortFunc(pods, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(c.kind(a), c.kind(b)), strings.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	advice := func(what, try string) *gpu.Advice {
		return &gpu.Advice{What: what, Try: try, Err: gpu.ErrNoDriver}
	}
	n := c.nodes[name]
	if n == nil {
		return target{}, advice("node "+name+" is gone", "wait until it comes back")
	}
	var first *gpu.Advice
	for _, p := range pods {
		t, bad := p.in(c.cfg.Pods[c.kind(p)].Container)
		used[t] = true
		switch {
		case c.lacking[t]:
			bad = trouble{"has no nvidia-smi in its container " + t.container, "name a pod that has it, with pods in the clusters file"}
		case bad.what == "":
			if why, unready := n.unready(); unready {
				return target{}, c.unready(name, why)
			}
			return t, nil
		}
		if first == nil {
			first = advice("pod "+t.pod+" of node "+name+" "+bad.what, bad.try)
		}
	}
	if why, unready := n.unready(); unready {
		return target{}, c.unready(name, why)
	}
	if first == nil {
		for what, err := range c.errs {
			if what != allNodes && !c.listed[what] {
				first = c.whyNot(err, "pods in namespace "+what)
			}
		}
	}
	if first == nil {
		first = advice("no driver pod runs on node "+name,
			"check the pods of NVIDIA's GPU operator: kubectl get pods -A -o wide --field-selector spec.nodeName="+name+"; name pods that are not its own with pods in the clusters file")
	}
	return target{}, first
}

func (c *cluster) unready(name, why string) *gpu.Advice {
	what := "node " + name + " is not ready"
	if why != "" {
		what += " (" + why + ")"
	}
	return &gpu.Advice{What: what, Try: "check the machine and its kubelet: kubectl describe node " + name, Err: gpu.ErrNotAnswering}
}

// judge decides the cluster's state. The caller holds the lock.
func (c *cluster) judge(pods int) {
	is, advice := OK, gpu.Advice{}
	var failed error
	what := ""
	for name, err := range c.errs {
		// An error about the nodes says most; a forbidden namespace may not even exist.
		if failed == nil || name == allNodes {
			failed, what = err, name
		}
	}
	offering := 0
	for _, n := range c.nodes {
		if n.offersGPUs() {
			offering++
		}
	}
	switch {
	case failed != nil && (what == allNodes || pods == 0):
		kind := "nodes"
		if what != allNodes {
			kind = "pods in namespace " + what
		}
		is, advice = conditionOf(failed), *c.whyNot(failed, kind)
	case !c.listed[allNodes]:
		is, advice = Starting, c.advice
	case offering == 0:
		is, advice = NoGPUNodes, gpu.Advice{
			What: "no node of cluster " + c.cfg.ID + " offers a GPU",
			Try:  "install NVIDIA's GPU operator or device plugin, which announce GPUs as nvidia.com/gpu; check node_selector in the clusters file, if it is set",
		}
	case pods == 0 && len(c.listed) > len(watched(c.cfg.Pods)):
		is, advice = NoOperator, gpu.Advice{
			What: "cluster " + c.cfg.ID + " has no pods of NVIDIA's GPU operator",
			Try:  "install the operator, or name the pods that have nvidia-smi, with pods in the clusters file",
		}
	case pods == 0:
		is, advice = c.is, c.advice // not everything has been listed yet
	}
	if is != c.is {
		c.since = c.api.clock.Now()
		if is == OK {
			c.log.Info("the cluster can be read", "nodes", offering)
		} else if is != Starting {
			c.log.Warn("the cluster can't be read", "what", advice.What, "try", advice.Try)
			c.log.Debug("why the cluster can't be read", "err", failed)
		}
	}
	c.is, c.advice = is, advice
}

func (c *cluster) stateNow() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Cluster: c.cfg.ID, Is: c.is, Since: c.since, Nodes: len(c.joined), Advice: c.advice}
	for _, m := range c.joined {
		if m.src.console.advice(c.api.clock.Now()) != nil {
			s.Failing++
		}
	}
	return s
}
