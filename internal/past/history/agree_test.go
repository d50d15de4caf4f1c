//go:build !race

package history

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight"
)

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
				got, err := p.Moment(t.Context(), node, moments[i].Snapshot.Time, stage)
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
