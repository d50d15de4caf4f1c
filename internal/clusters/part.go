// Package clusters reads the nodes of Kubernetes clusters, which come and go with their cluster. How a cluster is asked is for
// package kube.
package clusters

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// A Reader reads nodes that come and go; see [reading.Room.Join].
type Reader interface {
	Join(ctx context.Context, g *errgroup.Group, in *reading.Inputs) (leave func())
}

// A Room has the clusters whose nodes are read from here.
type Room struct {
	part.Host
	clusters *kube.Clusters
	reader   Reader
}

// New makes a Room, which asks no cluster before Run.
func New(host part.Host, clusters *kube.Clusters, reader Reader) *Room {
	return &Room{host, clusters, reader}
}

// Name implements [part.Part].
func (r *Room) Name() string { return "clusters" }

// deadline is how long a node of a cluster has to answer: a command is executed there.
const deadline = 20 * time.Second

// A clusterHost is a machine as its cluster describes it.
type clusterHost struct{ *kube.Host }

// Reserve does nothing, since only the kubelet knows reservations, and it can't be asked from here.
func (clusterHost) Reserve([]gpu.Device) {}

// Settle does nothing, since nobody else is asked.
func (clusterHost) Settle(context.Context) error { return nil }

// Close does nothing, since the node's source is closed.
func (clusterHost) Close() error { return nil }

var _ reading.Host = clusterHost{}

// Run reads the nodes of the clusters until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return r.clusters.Run(ctx, func(n kube.Node) (leave func()) { return r.reader.Join(ctx, g, inputs(&n)) })
	})
	g.Go(func() error { r.tell(ctx); return nil })
	return g.Wait()
}

// inputs are those of a node of a cluster.
func inputs(node *kube.Node) *reading.Inputs {
	return &reading.Inputs{
		Node: insight.Key(node.Cluster, node.Name), Place: insight.Place{Name: node.Name, Cluster: node.Cluster, Labels: node.Labels},
		Origin: gpu.SourceKubernetes, Sources: []sampler.Source{node.Source}, Host: clusterHost{node.Host}, Pace: node.Source.Pace, Deadline: deadline,
	}
}

// tell shows, in the place of its nodes, why a cluster has none that can be read.
func (r *Room) tell(ctx context.Context) {
	tick := time.NewTicker(r.Interval)
	defer tick.Stop()
	shown := map[string]bool{}
	for {
		for _, s := range r.clusters.State() {
			wrong := s.Nodes == 0 && s.Is != kube.OK && s.Is != kube.Starting
			switch {
			case wrong:
				r.Hub.Publish(wrongCluster(&s, r.Clock.Now().UTC()))
				shown[s.Cluster] = true
			case shown[s.Cluster]:
				r.Remove(s.Cluster)
				delete(shown, s.Cluster)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// wrongCluster is the Moment of a cluster without a node that can be read.
func wrongCluster(s *kube.State, now time.Time) *insight.Moment {
	snap := &gpu.Snapshot{
		Node: s.Cluster, Time: now, Source: gpu.SourceKubernetes,
		Failures: []gpu.Failure{{Source: gpu.SourceKubernetes, Since: s.Since.UTC(), Advice: s.Advice}},
	}
	return insight.Of(snap).At(insight.Place{Name: s.Cluster, Cluster: s.Cluster}, insight.Link{})
}

// IDs are those of the clusters.
func (r *Room) IDs() []string { return r.clusters.IDs() }

// MayCome reports whether a node of that name may come: it would be one of these clusters.
func (r *Room) MayCome(node string) bool {
	for _, id := range r.IDs() {
		if strings.HasPrefix(node, id+":") {
			return true
		}
	}
	return false
}

// Health says how each cluster is.
func (r *Room) Health() map[string]contract.Part {
	parts := map[string]contract.Part{}
	for _, s := range r.clusters.State() {
		health := contract.NewPart("ok", time.Time{})
		switch {
		case s.Is == kube.Starting:
			health.State = "starting"
		case s.Is != kube.OK:
			health = health.Failed(&s.Advice, s.Since)
		}
		parts["cluster "+s.Cluster] = health
	}
	return parts
}
