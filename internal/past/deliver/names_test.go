//go:build !race

package deliver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// Two programs that deliver under one name are kept separately, and the first keeps the name. A program that follows another continues its past.
func TestTwoOfOneName(t *testing.T) { virtual(t, twoOfOneName) }

func twoOfOneName(t *testing.T) {
	b := newBroker(t)
	fleet := newAgent(t, 2).sqlite
	programs := map[string]*agent{}
	node := ""
	for _, owner := range []string{"first", "second", "third", "fourth"} {
		a := machine(t, 0)
		a.installation, a.now = owner, time.Now()
		a.open()
		t.Cleanup(func() { _ = a.sqlite.Close() })
		programs[owner], node = a, a.node.Node()
	}
	r, _ := recorder(t, b, fleet)
	live := func(owner string) {
		t.Helper()
		a := programs[owner]
		a.now = time.Now()
		a.live(10 * time.Second)
		a.send(b)
	}
	// As much time as that passes for each: their readings lie beside each other.
	for range 6 {
		live("first")
		live("second")
		time.Sleep(10 * time.Second)
	}
	b.taken(t)
	rows := func(node string) (n int) {
		for _, err := range fleet.Rows(t.Context(), store.Query{Keys: []store.Key{{Node: node, UUID: programs["first"].uuids(t)[0]}}}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	beside := ""
	devices, err := fleet.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		if d.Node != node {
			beside = d.Node
		}
	}
	if rows(node) != 12 || rows(beside) != 12 || !strings.HasPrefix(beside, node+"~") {
		t.Errorf("%d rows of %q, and %d of %q; %v", rows(node), node, rows(beside), beside, well(t, r))
	}
	// The second gets a name of its own, as the log says, and takes its past along.
	programs["second"].rename(t, "own")
	time.Sleep(time.Minute)
	live("first")
	live("second")
	b.taken(t)
	if rows(node) != 14 || rows("own") != 14 || rows(beside) != 0 {
		t.Errorf("%d rows of %q, %d of its own name, and %d of %q; %v", rows(node), node, rows("own"), rows(beside), beside, well(t, r))
	}
	// The third is kept apart as well. The first is gone for good, and the third gets the name; the machine is set up anew as the fourth.
	for range 2 {
		live("first")
		live("third")
		time.Sleep(10 * time.Second)
	}
	for i, step := range []struct {
		pause time.Duration
		owner string
		want  int
	}{{0, "third", 18}, {30 * time.Minute, "third", 18}, {abandoned, "third", 20}, {time.Minute, "fourth", 22}} {
		time.Sleep(step.pause)
		live(step.owner)
		b.taken(t)
		if rows(node) != step.want {
			t.Errorf("step %d: %d rows of %q, want %d; %v", i, rows(node), node, step.want, well(t, r))
		}
	}
}

const abandoned = time.Hour + time.Minute

// rename restarts a machine under another name.
func (a *agent) rename(t *testing.T, name string) {
	t.Helper()
	if err := a.sqlite.Close(); err != nil {
		t.Fatal(err)
	}
	a.called = name
	a.open()
}

// Machines that swap names each keep their own past, also if only one of them returns to its name.
func TestSwappedNames(t *testing.T) { virtual(t, swappedNames) }

func swappedNames(t *testing.T) {
	b, fleet := newBroker(t), newAgent(t, 2).sqlite
	r, _ := recorder(t, b, fleet)
	var machines [2]*agent
	for i := range machines {
		a := machine(t, i)
		a.installation = fmt.Sprint("installation ", i)
		a.open()
		t.Cleanup(func() { _ = a.sqlite.Close() })
		machines[i] = a
	}
	live := func(all ...*agent) {
		t.Helper()
		time.Sleep(2 * time.Minute)
		for _, a := range all {
			a.now = time.Now()
			a.live(10 * time.Second)
			a.send(b)
		}
		b.taken(t)
	}
	keeps := func(what string, names ...string) {
		t.Helper()
		for i, a := range machines {
			n := map[string]int{}
			for row, err := range fleet.Rows(t.Context(), store.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(a.uuids(t), row.UUID) {
					n[row.Node]++
				}
			}
			if len(n) != 1 || n[names[i]] == 0 {
				t.Errorf("%s: the past of machine %d is that of %v, want %q; %v", what, i, n, names[i], well(t, r))
			}
		}
	}
	first, second := machines[0].node.Node(), machines[1].node.Node()
	live(machines[:]...)
	keeps("before", first, second)
	machines[0].rename(t, second)
	machines[1].rename(t, first)
	live(machines[:]...)
	keeps("swapped", second, first)
	machines[0].rename(t, first)
	live(machines[0])
	var apart string
	devices, err := fleet.Devices(t.Context())
	for _, d := range devices {
		if strings.HasPrefix(d.Node, first+"~") {
			apart = d.Node
		}
	}
	if err != nil || apart == "" {
		t.Fatal(devices, err)
	}
	keeps("one is back", first, apart)
	machines[1].rename(t, second)
	live(machines[:]...)
	keeps("both are back", first, second)
	// The recorder's own machine gets the name of one of them.
	batch := &store.Batch{Documents: map[string][]byte{}}
	if err := errors.Join(deliver.MakeRoom(t.Context(), fleet, second, "the recorder's", batch), fleet.Write(t.Context(), batch)); err != nil {
		t.Fatal(err)
	}
	machines[1].rename(t, "third")
	live(machines[:]...)
	keeps("the recorder's machine has its name", first, "third")
}

// A renamed machine takes its past along, including what it could not deliver under its former name.
func TestAnotherName(t *testing.T) { virtual(t, anotherName) }

func anotherName(t *testing.T) {
	b, fleet := newBroker(t), newAgent(t, 2).sqlite
	r, _ := recorder(t, b, fleet)
	a := machine(t, 0)
	a.installation, a.now = "it", time.Now()
	a.open()
	was := a.node.Node()
	a.live(10 * time.Second)
	a.send(b)
	b.taken(t)
	a.live(10 * time.Second) // of which nothing was sent
	if err := a.sqlite.Close(); err != nil {
		t.Fatal(err)
	}
	a.called = "renamed"
	a.open()
	defer func() { _ = a.sqlite.Close() }()
	a.send(b)
	b.taken(t)
	devices, err := fleet.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, d := range devices {
		counts[d.Node]++
	}
	if counts[was] != 0 || counts["renamed"] == 0 {
		t.Errorf("after %q got another name there are %v; %v", was, counts, well(t, r))
	}
	n := 0
	for row, err := range fleet.Rows(t.Context(), store.Query{}) {
		if err != nil || row.Node != "renamed" {
			t.Fatal(row.Node, err)
		}
		n++
	}
	if n != 4*len(a.uuids(t)) {
		t.Errorf("%d rows of %d GPUs", n, len(a.uuids(t)))
	}
}

func (a *agent) uuids(t *testing.T) (all []string) {
	t.Helper()
	s, err := a.node.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Devices {
		all = append(all, s.Devices[i].UUID)
	}
	return all
}
