package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// contents are all that a store holds.
type contents struct {
	Devices   []store.Device
	Rows      [2 * len(store.Tiers)][]store.Row // of devices and machines by tier
	Frames    []store.Frame
	Sessions  []store.Session
	Causes    []store.Cause
	Events    []store.Event
	Unsettled [len(store.Tiers)][]store.Bucket
}

// everything reads a store. What begins at one time is sorted by its key.
func everything(t tester, s store.Store) contents { return answers(t, s, store.Query{}) }

// answers are all that a store says to a query, of rows in all tiers.
func answers(t tester, s store.Store, q store.Query) (all contents) {
	t.Helper()
	ctx := t.Context()
	for _, tier := range store.Tiers {
		q.Tier = tier
		for i, machines := range []bool{false, true} {
			if rows := q; len(q.Columns) == 0 || machines == q.Machines {
				rows.Machines = machines
				all.Rows[2*int(tier)+i] = read(t, s.Rows(ctx, rows))
			}
		}
		buckets, err := s.Unsettled(ctx, tier, q.To)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(buckets, compareBuckets)
		all.Unsettled[tier] = buckets
	}
	all.Frames = read(t, s.Frames(ctx, q))
	all.Events = read(t, s.Events(ctx, q))
	all.Sessions = read(t, s.Sessions(ctx, q))
	if !slices.IsSortedFunc(all.Sessions, func(a, b store.Session) int { return a.From.Compare(b.From) }) {
		t.Fatalf("sessions are not by when they began: %+v", q)
	}
	slices.SortFunc(all.Sessions, func(a, b store.Session) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(fmt.Sprint(a.SessionKey), fmt.Sprint(b.SessionKey)))
	})
	all.Causes = read(t, s.Causes(ctx, q))
	if !slices.IsSortedFunc(all.Causes, func(a, b store.Cause) int { return a.From.Compare(b.From) }) {
		t.Fatalf("causes are not by when they began: %+v", q)
	}
	slices.SortFunc(all.Causes, func(a, b store.Cause) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.ID, b.ID))
	})
	var err error
	if all.Devices, err = s.Devices(ctx); err != nil {
		t.Fatal(err)
	}
	return all
}

// alike asks the model and a store the same.
func alike(t tester, m, s store.Store, q store.Query) {
	t.Helper()
	equal(t, fmt.Sprintf("%+v", q), answers(t, m, q), answers(t, s, q))
}

func likeTheModel(t *testing.T, open func(t *testing.T) store.Store) {
	rapid.Check(t, func(r *rapid.T) {
		s, m := open(t), NewModel()
		defer func() {
			if err := s.Close(); err != nil {
				r.Fatal(err)
			}
		}()
		for range rapid.IntRange(1, 8).Draw(r, "batches") {
			b := batch(r)
			write(r, s, b)
			write(r, m, b)
			if rapid.IntRange(0, 5).Draw(r, "renamed") == 0 {
				node := rapid.SampledFrom(keys)
				b := &store.Batch{Renamed: []store.Renaming{{From: node.Draw(r, "from").Node, To: node.Draw(r, "to").Node}}}
				write(r, s, b)
				write(r, m, b)
			}
			alike(r, m, s, query(r))
		}
		equal(r, "all", everything(r, m), everything(r, s))
		if rapid.Bool().Draw(r, "forget") {
			now := instant(time.Duration(rapid.IntRange(0, 96).Draw(r, "now")) * time.Hour)
			kept := store.Retention{}
			for _, tier := range store.Tiers[:store.SixHours] {
				if rapid.IntRange(0, 4).Draw(r, "kept") > 0 {
					kept[tier] = time.Duration(rapid.IntRange(0, 72).Draw(r, "hours")) * time.Hour
				}
			}
			forgetAll(r, s, kept, now)
			forgetAll(r, m, kept, now)
			forgotten(r, m, s, kept, now)
		}
	})
}

// moment is on a grid that is coarse enough for the same moment to come twice.
func moment(r *rapid.T, what string) time.Time {
	return instant(time.Duration(rapid.IntRange(0, 30).Draw(r, what)) * 7 * time.Minute)
}

func query(r *rapid.T) (q store.Query) {
	if rapid.Bool().Draw(r, "from?") {
		q.From = moment(r, "from")
	}
	if rapid.Bool().Draw(r, "to?") {
		q.To = moment(r, "to").Add(time.Duration(rapid.IntRange(-1, 1).Draw(r, "beside")) * time.Millisecond)
	}
	q.Keys = rapid.SliceOfN(rapid.SampledFrom(keys), 0, 3).Draw(r, "keys")
	q.Open = rapid.Bool().Draw(r, "open")
	q.Newest = rapid.IntRange(0, 3).Draw(r, "newest")
	q.Lasting = time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 60_000, 900_000}).Draw(r, "lasting")) * time.Millisecond
	q.Machines = rapid.Bool().Draw(r, "machines")
	if rapid.Bool().Draw(r, "columns?") {
		q.Columns = rapid.SliceOfN(rapid.IntRange(0, len(store.MachineColumns)-1), 1, 4).Draw(r, "columns")
	}
	q.User = rapid.SampledFrom([]string{"", "", "mchen", "root"}).Draw(r, "user")
	if rapid.Bool().Draw(r, "kinds?") {
		q.Kinds = rapid.SliceOfN(rapid.SampledFrom(words), 0, 2).Draw(r, "kinds")
	}
	return q
}

var words = []string{"", "mchen", "root", "xid", "state"}

// batch has a few things of every kind. Their values come of one number, which rapid draws.
func batch(r *rapid.T) *store.Batch {
	anyTier, anySpan := rapid.SampledFrom(store.Tiers[:]), rapid.SampledFrom(store.Tiers[store.Minute:])
	g := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "values"), 1))
	key := rapid.SampledFrom(keys)
	count := func(what string) int { return rapid.IntRange(0, 5).Draw(r, what) }
	word := func() string { return words[g.IntN(len(words))] }
	b := &store.Batch{Documents: map[string][]byte{word(): []byte(word())}}
	for range count("rows") {
		b.Rows = append(b.Rows, row(g, key.Draw(r, "of"), anyTier.Draw(r, "tier"), moment(r, "at")))
	}
	for i := range count("frames") {
		b.Frames = append(b.Frames, frame(key.Draw(r, "of").Node, moment(r, "at"), i+g.IntN(100)))
	}
	for range count("sessions") {
		begin := moment(r, "from")
		e := session(key.Draw(r, "of"), g.IntN(3), begin, begin.Add(time.Duration(g.IntN(200))*time.Minute))
		vary(g, store.Sessions, &e)
		e.Outcome = []store.Outcome{store.Open, store.Ended}[g.IntN(2)]
		b.Sessions = append(b.Sessions, e)
	}
	for range count("causes") {
		begin := moment(r, "from")
		c := cause(key.Draw(r, "of"), word(), begin, begin.Add(time.Duration(g.IntN(200))*time.Minute))
		vary(g, store.Causes, &c)
		b.Causes = append(b.Causes, c)
	}
	for range count("events") {
		e := store.Event{ID: fmt.Sprint(g.IntN(20)), Key: key.Draw(r, "of"), Time: moment(r, "at")}
		vary(g, store.Events, &e)
		b.Events = append(b.Events, e)
	}
	for range count("unsettled") {
		b.Unsettled = append(b.Unsettled, store.Bucket{Key: key.Draw(r, "of"), Tier: anySpan.Draw(r, "tier"), Time: moment(r, "at")})
	}
	for range count("settled") {
		b.Settled = append(b.Settled, store.Bucket{Key: key.Draw(r, "of"), Tier: anySpan.Draw(r, "tier"), Time: moment(r, "at")})
	}
	for i := range count("devices") {
		k := key.Draw(r, "of")
		d := store.Device{Node: k.Node, UUID: k.UUID}
		vary(g, store.Devices, &d)
		d.Index = i
		b.Devices = append(b.Devices, d)
	}
	return b
}

func row(g *rand.Rand, k store.Key, tier store.Tier, t time.Time) store.Row {
	r := reading(k, t, nil)
	r.Tier, r.State = tier, []gpu.State{gpu.StateOK, gpu.StateOK, gpu.StateLost, ""}[g.IntN(4)]
	if tier != store.Raw {
		r.Readings = 1 + g.IntN(12)
	}
	for i := range r.Values {
		if g.IntN(3) == 0 {
			continue
		}
		v := store.Value{Mean: 1000 * g.NormFloat64(), Count: r.Readings - g.IntN(2)*g.IntN(r.Readings), Doubtful: g.IntN(9) == 0}
		v.Least, v.Most = v.Mean-float64(g.IntN(2))*g.Float64(), v.Mean+float64(g.IntN(2))*g.Float64()
		r.Values[i] = v
	}
	return r
}
