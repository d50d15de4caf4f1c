package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/state"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// newApp wires a program without sources.
func newApp(t *testing.T, stateDir string) *App {
	t.Helper()
	nodes, err := sim.Nodes("dgx-h100", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	source := nodes[0]
	opt := Options{Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Interval: time.Hour, Deadline: time.Second, MaxViewers: 1, StateDir: stateDir}
	in := &Inputs{Node: "box", Origin: "auto", Sources: []sampler.Source{source}}
	a, err := New(opt, []*Inputs{in}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIdleFloorReachesViewers(t *testing.T) {
	a := newApp(t, "")
	for i := range 4 {
		s := fixture.Orphaned() // draws 113.4 W
		s.Seq = uint64(i)
		s.Devices[0].SampledAt = s.Time.Add(time.Duration(i) * 5 * time.Second)
		s.Devices[0].IdleFloor = gpu.Reading[gpu.Watts]{}
		s.Devices[0].Processes = gpu.Of([]gpu.Process{}) // nobody holds it
		a.Publish(s)
	}
	snap, encoded := a.Hub.Newest().Nodes()[0], a.Hub.Update(fixture.Orphaned().Node, auth.Everything)
	if snap.Devices[0].IdleFloor.Or(0) != 113.4 {
		t.Errorf("floor = %v", snap.Devices[0].IdleFloor)
	}
	if want := `"idle_floor_watts":113.4`; !strings.Contains(string(encoded), want) {
		t.Errorf("%s is not in %s", want, encoded)
	}
}

// Waiting messages are written before the alerts, and both show the same moment: a
// program that is killed between the two writes repeats a message, but loses none.
func TestNotificationsAreKeptBeforeAlerts(t *testing.T) {
	a := newApp(t, t.TempDir())
	held := false
	a.keeper.Hold = func(f func()) {
		a.Alerts.Hold(func() {
			held = true
			f()
			held = false
		})
	}
	var order []string
	for i := range a.keeper.Documents {
		d := &a.keeper.Documents[i]
		d.Kept = func() any {
			if held != (d.When == state.Promptly) {
				t.Errorf("%s: alerts are held: %v", d.Name, held)
			}
			if held {
				order = append(order, d.Name)
			}
			return struct{}{}
		}
	}
	if err := a.keeper.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(order, []string{"notifications", "alerts", "floors"}) {
		t.Errorf("written in the order %v", order)
	}
}
