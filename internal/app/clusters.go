package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
)

// clusterDeadline is how long a node of a cluster has to answer: a command is executed there.
const clusterDeadline = 20 * time.Second

// A clusterHost is a machine as its cluster describes it.
type clusterHost struct{ *kube.Host }

// Reserve does nothing, since only the kubelet knows reservations, and it can't be asked from here.
func (clusterHost) Reserve([]gpu.Device) {}

// Settle does nothing, since nobody else is asked.
func (clusterHost) Settle(context.Context) error { return nil }

// Close does nothing, since the node's source is closed.
func (clusterHost) Close() error { return nil }

// runClusters reads the nodes of clusters, which come and go, until ctx ends.
func (a *App) runClusters(ctx context.Context, g *errgroup.Group) {
	of := a.opt.Clusters
	if of == nil {
		return
	}
	g.Go(func() error { return of.Run(ctx, func(n kube.Node) (leave func()) { return a.join(ctx, g, n) }) })
	g.Go(func() error { a.tellOfClusters(ctx); return nil })
}

// join reads a new node. leave ends that, and does not wait.
func (a *App) join(ctx context.Context, g *errgroup.Group, of kube.Node) (leave func()) {
	in := &Inputs{
		Node: insight.Key(of.Cluster, of.Name), Place: insight.Place{Name: of.Name, Cluster: of.Cluster, Labels: of.Labels},
		Origin: gpu.SourceKubernetes, Sources: []sampler.Source{of.Source}, Host: clusterHost{of.Host}, Pace: of.Source.Pace,
	}
	n := newNode(in, *a.stage, pace{a.opt.Interval, a.opt.IdleInterval, a.watched}, max(a.opt.Deadline, clusterDeadline), a.opt.Clock, a.log, a.Hub.Publish, a.Hub.Hold)
	a.local.add(n)
	ctx, cancel := context.WithCancel(ctx)
	g.Go(func() error {
		if err := n.run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			a.log.Warn("a node of a cluster did not stop cleanly", "node", n.Node, "err", err)
		}
		if !a.local.has(n.Node) { // or else it has come again
			a.Remove(n.Node)
		}
		return nil
	})
	return func() {
		a.local.remove(n)
		cancel()
	}
}

// tellOfClusters shows, in place of a cluster's nodes, why none of them can be read.
func (a *App) tellOfClusters(ctx context.Context) {
	tick := time.NewTicker(a.opt.Interval)
	defer tick.Stop()
	shown := map[string]bool{}
	for {
		for _, s := range a.opt.Clusters.State() {
			wrong := s.Nodes == 0 && s.Is != kube.OK && s.Is != kube.Starting
			switch {
			case wrong:
				a.Hub.Publish(wrongCluster(&s, a.opt.Clock.Now().UTC()))
				shown[s.Cluster] = true
			case shown[s.Cluster]:
				a.Remove(s.Cluster)
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

// clusterIDs are the clusters that are read from here.
func (a *App) clusterIDs() []string {
	if a.opt.Clusters == nil {
		return nil
	}
	return a.opt.Clusters.IDs()
}

// ofCluster reports whether a node may belong to a cluster that is read from here.
func (a *App) ofCluster(node string) bool {
	for _, id := range a.clusterIDs() {
		if strings.HasPrefix(node, id+":") {
			return true
		}
	}
	return false
}

// partsOfClusters adds the state of each cluster.
func (a *App) partsOfClusters(parts map[string]contract.Part) {
	if a.opt.Clusters == nil {
		return
	}
	for _, s := range a.opt.Clusters.State() {
		part := contract.NewPart("ok", time.Time{})
		switch {
		case s.Is == kube.Starting:
			part.State = "starting"
		case s.Is != kube.OK:
			part = part.Failed(&s.Advice, s.Since)
		}
		parts["cluster "+s.Cluster] = part
	}
}

var _ Host = clusterHost{}
