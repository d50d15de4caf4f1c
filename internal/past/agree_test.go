package past

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/store"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// live reads a simulated machine each 5 s, as gpuwhy does, and calls said with each Moment. It returns what a store keeps of it.
func live(t testing.TB, profile string, from time.Time, of time.Duration, said func(*insight.Moment)) (string, *insight.Stage, []store.Frame) {
	now := from
	nodes, err := sim.Nodes(profile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	var frames []store.Frame
	stage := insight.NewStage()
	for ; now.Before(from.Add(of)); now = now.Add(5 * time.Second) {
		snap, err := nodes[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		snap.Node = nodes[0].Node()
		for i := range snap.Devices {
			snap.Devices[i].Node, snap.Devices[i].Index = snap.Node, i
		}
		m := stage.Next(snap)
		record, err := gpu.MarshalRecord(m.Snapshot)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, store.Frame{Node: snap.Node, Time: now, Record: record})
		said(m)
	}
	return nodes[0].Node(), stage, frames
}

// said is an answer without the durations in it: what gpuwhy has seen for longer than [before] is not known for how long.
func said(m *insight.Moment) (out []string) {
	for i := range m.Answer.Devices {
		for _, c := range m.Answer.Devices[i].Causes {
			out = append(out, fmt.Sprint(i, " ", c.Kind, " ", c.Case, " ", c.Who))
		}
	}
	return append(out, m.Answer.Headline)
}

// The answer of then is the one that was given then.
func TestTheAnswerOfThen(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads a machine 720 times")
	}
	for profile, every := range map[string]int{"dgx-h100": 17, "rtx-4090": 3} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var moments []*insight.Moment
			node, learned, frames := live(t, profile, midnight, time.Hour, func(m *insight.Moment) { moments = append(moments, m) })
			p := newPast(&memory{frames: frames}, midnight.Add(2*time.Hour))
			same, all := 0, 0
			for i := 12 * 20; i < len(moments); i += every {
				stage := insight.NewStage()
				err := errors.Join(stage.History.Restore(learned.History.Kept(), p.Now()), stage.Floors.Restore(learned.Floors.Kept(), p.Now()))
				if err != nil {
					t.Fatal(err)
				}
				got, err := p.At(t.Context(), node, moments[i].Snapshot.Time, stage)
				if err != nil {
					t.Fatal(err)
				}
				if all++; slices.Equal(said(got), said(moments[i])) {
					same++
				} else {
					t.Logf("%v\n got %q\nwant %q", moments[i].Snapshot.Time, said(got), said(moments[i]))
				}
			}
			t.Logf("%d of %d answers are the same", same, all)
			if all < 20 || same < all*95/100 {
				t.Errorf("only %d of %d answers are those of then", same, all)
			}
		})
	}
}
