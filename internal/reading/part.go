package reading

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/sampler"
)

// Config is what a Room needs beyond what it reads.
type Config struct {
	part.Host
	Deadline time.Duration // how long a source has to answer
	BasePath string        // of the addresses that are asked for, with a slash at both ends
	// Watched reports whether somebody looks, beside those who ask; see [Room.Noticed].
	Watched func() bool
	// Started is called once when every node that New was given has been read.
	Started func()
	// Foresee fills in what comes next of the devices of an answer. It must not wait.
	Foresee func(*gpu.Snapshot, *explain.Answer)
	// Do does an action for who asks.
	Do func(ctx context.Context, c action.Call) (any, error)
}

// A Room has the nodes that the program reads. They may come and go.
type Room struct {
	Config
	Stage *insight.Stage // all nodes share what it remembers

	mu    sync.Mutex
	nodes []*node
	ran   bool

	asked atomic.Int64 // when somebody asked last, as time that has elapsed; 0: nobody has
}

// A Forecaster is a part that [Config.Foresee] asks.
type Forecaster interface {
	Foresee(*gpu.Snapshot, *explain.Answer)
}

// New makes a Room, which reads nothing before Run. It owns the inputs, one of each node.
func New(cfg Config, inputs []*Inputs) *Room {
	r := &Room{Config: cfg, Stage: insight.NewStage()}
	r.Stage.Foresee, r.Stage.Floors.Learned = cfg.Foresee, cfg.Keeper.Soon
	for _, in := range inputs {
		r.nodes = append(r.nodes, r.newNode(in))
	}
	return r
}

// Name implements [part.Part].
func (r *Room) Name() string { return "sampler" }

func (r *Room) newNode(in *Inputs) *node {
	return newNode(in, *r.Stage, pace{r.Interval, r.Idle, r.watched}, r.Deadline, r.Clock, r.Log, r.Hub.Publish, r.Hub.Hold)
}

// all are the nodes there are now.
func (r *Room) all() []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes
}

// find finds a node by name.
func (r *Room) find(name string) (*node, bool) {
	nodes := r.all()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Node == name })
	if i < 0 {
		return nil, false
	}
	return nodes[i], true
}

// Has reports whether the node of that name is read here.
func (r *Room) Has(name string) bool {
	_, ok := r.find(name)
	return ok
}

// Only is the name of the only node; empty where there are several, or none.
func (r *Room) Only() string {
	if nodes := r.all(); len(nodes) == 1 {
		return nodes[0].Node
	}
	return ""
}

// Origin says where the readings come from, for state that is kept across restarts.
func (r *Room) Origin() string {
	if nodes := r.all(); len(nodes) > 0 {
		return nodes[0].Origin
	}
	return ""
}

// Run reads the nodes that there are until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	r.mu.Lock()
	r.ran = true
	nodes := r.nodes
	r.mu.Unlock()
	for _, n := range nodes {
		g.Go(func() error { return n.run(ctx) })
	}
	g.Go(func() error { r.announceStart(ctx); return nil })
	return g.Wait()
}

// Join reads a node that has come, on a goroutine of g, until ctx ends or leave is called. leave waits for nothing. The node is
// taken out of the program after that, unless it has come again.
func (r *Room) Join(ctx context.Context, g *errgroup.Group, in *Inputs) (leave func()) {
	n := r.newNode(in)
	r.mu.Lock()
	r.nodes = append(slices.Clip(r.nodes), n)
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	g.Go(func() error {
		if err := n.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			r.Log.Warn("a node of a cluster did not stop cleanly", "node", n.Node, "err", err)
		}
		if !r.Has(n.Node) { // or else it has come again
			r.Remove(n.Node)
		}
		return nil
	})
	return func() {
		r.mu.Lock()
		r.nodes = slices.DeleteFunc(slices.Clone(r.nodes), func(other *node) bool { return other == n })
		r.mu.Unlock()
		cancel()
	}
}

// Close closes the inputs of a Room that never ran: who reads closes them at the end.
func (r *Room) Close() (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ran {
		return nil
	}
	for _, n := range r.nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}

// announceStart logs the first reading of each node, and says when every node has been read. A source logs its own failures.
func (r *Room) announceStart(ctx context.Context) {
	seen := map[string]bool{} // nodes with devices
	for m := range r.Hub.Feed(ctx) {
		s := m.Snapshot
		if len(s.Devices) == 0 || m.Link.Remote || seen[s.Node] {
			continue
		}
		nodes := len(r.all())
		if len(seen) == 0 {
			attrs := []any{"source", s.Source, "gpus", len(s.Devices)}
			if nodes > 1 {
				attrs = []any{"source", s.Source, "nodes", nodes}
			}
			for _, d := range s.Drivers {
				attrs = append(attrs, "driver", d.Version.String())
			}
			r.Log.Info("reading", attrs...)
		}
		if seen[s.Node] = true; len(seen) >= nodes {
			r.Started()
			return
		}
	}
}

// Next is the Moment of a node's next snapshot, as if it had been read here now.
func (r *Room) Next(s *gpu.Snapshot) *insight.Moment {
	m := r.Stage.Next(s)
	if n, ok := r.find(s.Node); ok {
		m = m.At(n.Place, insight.Link{})
	}
	return m
}

// Earlier yields the Moments of readings from before the program began, those of each node in the order of time. They are made by the same
// stage as all later ones.
func (r *Room) Earlier() iter.Seq[*insight.Moment] {
	return func(yield func(*insight.Moment) bool) {
		for _, n := range r.all() {
			if n.Inputs.Earlier == nil {
				continue
			}
			for s := range n.Inputs.Earlier(r.Interval) {
				s.Node = n.Node
				for i := range s.Devices {
					s.Devices[i].Index, s.Devices[i].Node = i, n.Node
				}
				if !yield(r.Next(s)) {
					return
				}
			}
		}
	}
}

// Then makes a stage with the state learned about the devices so far, for a moment of the past.
func (r *Room) Then() (*insight.Stage, error) {
	s, now := insight.NewStage(), r.Clock.Now()
	return s, errors.Join(s.History.Restore(r.Stage.History.Kept(), now), s.Floors.Restore(r.Stage.Floors.Kept(), now))
}

// Documents has the state learned about the devices.
func (r *Room) Documents() []state.Document {
	return []state.Document{
		state.Of("floors", "what devices draw at rest", state.Promptly, r.Stage.Floors),
		state.Of("baselines", "how devices behave at work and after it", state.Regularly, r.Stage.History),
	}
}

// health sums up the health of all samplers. A source that fails on one node has failed.
func (r *Room) health() sampler.Health {
	var all sampler.Health
	for _, n := range r.all() {
		h := n.sampler.Health()
		all.Took = max(all.Took, h.Took)
		if h.LastReading.After(all.LastReading) {
			all.LastReading = h.LastReading
		}
		for _, s := range h.Sources {
			i := slices.IndexFunc(all.Sources, func(known sampler.SourceHealth) bool { return known.Source == s.Source })
			switch {
			case i < 0:
				all.Sources = append(all.Sources, s)
			case all.Sources[i].Failure == nil && (s.Failure != nil || s.LastSuccess.After(all.Sources[i].LastSuccess)):
				all.Sources[i] = s
			}
		}
	}
	return all
}

// Health has the sampler, where nodes are read here, and each source.
func (r *Room) Health() map[string]contract.Part {
	health, nodes, parts := r.health(), r.all(), map[string]contract.Part{}
	switch {
	case len(nodes) == 0: // all are read elsewhere
	case health.LastReading.IsZero():
		parts["sampler"] = contract.Part{State: "starting"}
	default:
		parts["sampler"] = contract.NewPart("ok", health.LastReading)
	}
	if len(nodes) > 0 {
		for _, s := range nodes[0].Sources {
			parts[s.Name()] = contract.Part{State: "starting"}
		}
	}
	for _, s := range health.Sources {
		parts[s.Source] = contract.NewSourcePart(&s.Attempt, s.Failure, s.LastSuccess)
	}
	return parts
}

// Costs are what calls to the drivers took. Several nodes are made up, or recorded: none has a driver here.
func (r *Room) Costs() []gpu.Cost {
	nodes := r.all()
	if len(nodes) != 1 {
		return nil
	}
	return nodes[0].sampler.Costs()
}

// Measure fills in how the sources do, and what they cost.
func (r *Room) Measure(self *metrics.Self) {
	health := r.health()
	self.Took, self.Costs = health.Took, r.Costs()
	for _, s := range health.Sources {
		self.Sources = append(self.Sources, metrics.Source{Name: s.Source, Failing: s.Failure != nil, LastSuccess: s.LastSuccess})
	}
}
