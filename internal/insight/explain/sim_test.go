//go:build !race

package explain_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// simulated feeds a simulated machine's reports, every five seconds for a time, and calls see with each answer.
func simulated(t *testing.T, profile string, lasts time.Duration, see func(time.Time, *explain.Answer)) {
	t.Helper()
	now := start
	nodes, err := sim.Nodes(profile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	source := nodes[0]
	h := explain.NewHistory()
	var floors attribute.Floors
	for ; now.Before(start.Add(lasts)); now = now.Add(5 * time.Second) {
		s, err := source.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Devices {
			s.Devices[i].Index = i
		}
		s = floors.Note(s)
		a := h.Add(s)
		check(t, a)
		see(now, &a)
	}
}

// The simulated machines go through everything that they can show.
func TestSimulatedMachines(t *testing.T) {
	for _, tt := range []struct {
		profile string
		want    []explain.Kind
	}{
		{"rtx-4090", []explain.Kind{explain.Work, explain.CoolingDown, explain.HeldAwake, explain.LimitedPower, explain.FanAtRest, explain.Idle}},
		{"dgx-h100", []explain.Kind{
			explain.Work, explain.CoolingDown, explain.HeldAwake, explain.LimitedPower, explain.LimitedByHeat, explain.HotForPower,
			explain.ChassisFans, explain.NotKnowable, explain.Idle, explain.Lost, explain.NotAnswering, explain.Asleep,
		}},
	} {
		t.Run(tt.profile, func(t *testing.T) {
			seen := map[explain.Kind]bool{}
			simulated(t, tt.profile, 3*time.Hour, func(_ time.Time, a *explain.Answer) {
				for _, c := range a.Causes() {
					seen[c.Kind] = true
				}
			})
			for _, kind := range tt.want {
				if !seen[kind] {
					t.Errorf("in three hours nothing was %s", kind)
				}
				delete(seen, kind)
			}
			for kind := range seen {
				t.Errorf("%s was told, which the simulation does not play", kind)
			}
		})
	}
}

// Two and a half hours of a desktop, as a reader would see it: a line whenever there is another cause, and every ten minutes.
func TestAnEveningAtADesktop(t *testing.T) {
	var told strings.Builder
	before := ""
	simulated(t, "rtx-4090", 150*time.Minute, func(now time.Time, a *explain.Answer) {
		if kinds := kindsOf(a.Devices[0].Causes); kinds != before || now.Truncate(10*time.Minute).Equal(now) {
			before = kinds
			fmt.Fprintf(&told, "%s [%s] %s\n", now.Format(time.TimeOnly), kinds, a.Sentence)
		}
	})
	golden(t, "testdata/desktop.golden.txt", told.String())
}

// Half an hour of a machine with eight GPUs: each GPU's sentence every five minutes.
func TestHalfAnHourOfAServer(t *testing.T) {
	var told strings.Builder
	simulated(t, "dgx-h100", 31*time.Minute, func(now time.Time, a *explain.Answer) {
		if !now.Truncate(5 * time.Minute).Equal(now) {
			return
		}
		fmt.Fprintf(&told, "%s %s\n", now.Format(time.TimeOnly), a.Sentence)
		for _, d := range a.Devices {
			fmt.Fprintf(&told, "    [%s] %s\n", kindsOf(d.Causes), d.Sentence)
		}
	})
	golden(t, "testdata/server.golden.txt", told.String())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *explain.Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); `go test ./internal/insight/explain -update` writes it:\n%s", path, diff)
	}
}
