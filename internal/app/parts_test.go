package app

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/export"
	"github.com/gpuwhy/gpuwhy/internal/fleet"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/storetest"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/kube"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// is reports whether a part offers what an interface asks for.
func is[T any](p part.Part) bool {
	_, ok := p.(T)
	return ok
}

// kinds are all that parts can offer, by name.
var kinds = []struct {
	name string
	is   func(part.Part) bool
}{
	{"observe", is[part.Observer]}, {"follow", is[part.Follower]}, {"run", is[part.Runner]}, {"started", is[part.Starter]},
	{"reload", is[part.Reloader]}, {"routes", is[part.Server]}, {"watched", is[part.Watcher]}, {"health", is[part.Reporter]},
	{"measure", is[part.Measurer]}, {"documents", is[part.Keeper]}, {"hold", is[part.Holder]}, {"shelf", is[part.Shelver]},
	{"actions", is[part.Actor]}, {"forget", is[part.Forgetter]}, {"close", is[part.Closer]},
	{"asks", is[action.Fleet]}, {"changed", is[alerts.Listener]}, {"foresee", is[reading.Forecaster]}, {"may come", is[past.Source]},
}

// whole are the settings of a program that has every part. Nothing of it runs.
func whole(t *testing.T) (Options, []*reading.Inputs) {
	t.Helper()
	machines, err := sim.Nodes("rtx-4090", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	carries, err := bus.Open(bus.Config{URLs: []string{"nats://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	read, err := kube.New(&kube.File{}, log)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/"}, Node: "hub", Interval: time.Hour, Deadline: time.Second, MaxViewers: 1,
		StateDir: t.TempDir(), Clusters: read,
		Helpers: func() []metrics.Helper { return nil },
		History: &past.Options{Store: storetest.NewModel(), Retention: store.Retention{}, Outbox: deliver.NewOutbox(deliver.OutboxConfig{Log: log}), Collects: true},
		Fleet:   &fleet.Options{Bus: carries, Publishes: true, Shows: true},
		Export:  []export.Destination{{}},
		TLS:     &certs.Options{SelfSigned: true},
	}, []*reading.Inputs{{Node: "box", Origin: "auto", Sources: []sampler.Source{machines[0]}}}
}

// What a part offers is found by its methods. A method whose signature changes, or one that a type it embeds gets, would change that
// without an error of the compiler. The order is that in which parts observe: the last minutes, alerts, who publishes what stands of
// them, and what is made of both.
func TestWhatEachPartOffers(t *testing.T) {
	opt, inputs := whole(t)
	a, err := New(opt, inputs, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	var got []string
	for _, p := range a.parts {
		var all []string
		for _, k := range kinds {
			if k.is(p) {
				all = append(all, k.name)
			}
		}
		got = append(got, p.Name()+": "+strings.Join(all, ", "))
	}
	want := []string{
		"recent: observe, documents, forget",
		"alerts: observe, run, started, reload, measure, documents, hold, actions, forget",
		"fleet: health, measure, documents, close",
		"uplink: observe, run, watched, changed",
		"downlink: run, asks",
		"past: shelf, close",
		"history: follow, run, health, measure, changed",
		"delivery: run, health",
		"recorder: run, health",
		"forecast: follow, run, documents, foresee",
		"sampler: run, health, measure, documents, actions, close",
		"clusters: run, health, may come",
		"hub: watched, health, measure",
		"state: run, health, measure",
		"helpers: measure",
		"export: follow, run, health, measure",
		"tls: run, reload, health, close",
		"now: routes, documents",
		"past: routes",
		"forecast: routes",
		"fleet: routes",
		"alerts: routes",
		"audit: routes",
		"guide: routes",
	}
	if !slices.Equal(got, want) {
		t.Errorf("parts offer\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var documents []string
	for _, d := range a.keeper.Documents {
		documents = append(documents, d.Name)
	}
	if got, want := strings.Join(documents, " "), "notifications alerts hubs floors cooldowns baselines hues recent"; got != want {
		t.Errorf("documents are written in the order %s, want %s", got, want)
	}
}

// A holder tells that it holds.
type holder struct {
	part.Part
	name string
	held *[]string
}

func (h holder) Hold(f func()) {
	*h.held = append(*h.held, h.name)
	f()
	*h.held = (*h.held)[:len(*h.held)-1]
}

// What is written together is of one moment of all parts that hold theirs.
func TestAllHold(t *testing.T) {
	var held []string
	a := &App{parts: []part.Part{holder{name: "first", held: &held}, helpers(nil), holder{name: "second", held: &held}}}
	called := 0
	a.hold(func() {
		called++
		if slices.Sort(held); strings.Join(held, " ") != "first second" {
			t.Errorf("while documents are copied, %v hold", held)
		}
	})
	if called != 1 || len(held) != 0 {
		t.Errorf("called %d times; %v still hold", called, held)
	}
}
