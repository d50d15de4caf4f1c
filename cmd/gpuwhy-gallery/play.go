package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// An actor plays simulated machines, one moment after the other. Their day may
// be another than ours: what it says is of our time.
type actor struct {
	nodes []*sim.Source
	now   time.Time     // of its play
	ahead time.Duration // our time less that of its play
	seq   uint64
}

// newActor begins its play at a moment, as if that were this one of ours.
func newActor(profile string, moment, ours time.Time) (*actor, error) {
	a := &actor{now: moment, ahead: ours.Sub(moment)}
	var err error
	a.nodes, err = sim.Nodes(profile, func() time.Time { return a.now })
	return a, err
}

// next is what the machines are like a while later.
func (a *actor) next(later time.Duration) ([]*gpu.Snapshot, error) {
	a.now = a.now.Add(later)
	a.seq++
	all := make([]*gpu.Snapshot, len(a.nodes))
	for n, node := range a.nodes {
		snap, err := node.Read(context.Background())
		if err != nil {
			return nil, fmt.Errorf("simulate %s: %w", node.Node(), err)
		}
		snap.Seq, snap.Time, snap.Node, snap.Source = a.seq, a.now.Add(a.ahead).UTC(), node.Node(), gpu.SourceSimulated
		for i := range snap.Devices {
			d := &snap.Devices[i]
			d.Index, d.Node = i, snap.Node
			d.Since, d.SampledAt = a.moved(d.Since), a.moved(d.SampledAt)
			for j := range d.Processes.Or(nil) {
				facts := &d.Processes.Or(nil)[j].Facts
				facts.Started = gpu.Map(facts.Started, a.moved)
			}
		}
		all[n] = snap
	}
	return all, nil
}

// moved is a time of its play as one of ours.
func (a *actor) moved(now time.Time) time.Time {
	if now.IsZero() {
		return now
	}
	return now.Add(a.ahead)
}
