//go:build !race

package deliver_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// In a fleet's store too, the session of a process that the machine hides goes on after the agent did not run for a while.
func TestAHiddenProcessGoesOn(t *testing.T) { //nolint:tparallel // a bubble can't run beside others
	t.Parallel()
	stores(t, func(t *testing.T, open func() store.Store) {
		b, a, fleet := newBroker(t), machine(t, 0), open()
		a.hides = true
		recorder(t, b, fleet)
		const away = 10 * time.Minute
		for run := range 3 {
			if run > 0 {
				a.now = a.now.Add(away)
			}
			a.open()
			a.live(2 * time.Minute)
			a.send(b)
			if run < 2 {
				if err := a.sqlite.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Cleanup(func() { _ = a.sqlite.Close() })
		b.taken(t)
		same(t, a, fleet)
		sessions := pastOf(t, fleet, a.node.Node()).Sessions
		for _, s := range sessions {
			if gap := s.To.Sub(s.From) - s.Seen; gap < 2*away || gap > 2*away+time.Minute {
				t.Errorf("nobody looked for %v: %+v", gap, s)
			}
		}
		if len(sessions) != 8 {
			t.Errorf("eight processes have %d sessions", len(sessions))
		}
	})
}

// After hours without NATS, with restarts in between, two nodes with mixed messages and two recorders of which one ends, the fleet's
// store has exactly what the nodes have.
func TestHoursAway(t *testing.T) {
	stores(t, func(t *testing.T, open func() store.Store) {
		b := newBroker(t)
		agents := []*agent{away(t, 0), away(t, 1)}
		first := open()
		one, stop := recorder(t, b, first)
		for _, a := range agents {
			defer a.sending(b)()
		}
		testkit.Until(t, "some is written", func() bool { return one.State().Written > 0 })
		two, _ := recorder(t, b, open())
		stop()
		for _, a := range agents {
			if s := a.sent(); s.Lost != (deliver.Lost{}) || s.Bytes != 0 {
				t.Errorf("the outbox: %+v", s)
			}
		}
		b.taken(t)
		for _, a := range agents {
			same(t, a, first)
		}
		if s := one.State(); s.Err != nil || len(s.Refused) != 0 || s.Old != 0 {
			t.Errorf("the recorder that has ended: %+v", s)
		}
		if s := well(t, two); len(s.Refused) != 0 || s.Old != 0 {
			t.Errorf("the other one: %+v", s)
		}
	})
}

// Data that is delivered twice, by two recorders and in any order, is stored once, in its last state.
func TestTwiceInAnyOrder(t *testing.T) {
	stores(t, func(t *testing.T, open func() store.Store) {
		b, a := newBroker(t), away(t, 0)
		all := a.parcels()
		random := rand.New(rand.NewPCG(1, 2))
		first := open()
		recorder(t, b, first)
		recorder(t, b, open())
		for range 3 {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			publish(t, b, all)
			b.taken(t)
		}
		same(t, a, first)
	})
}
