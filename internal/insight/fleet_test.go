package insight

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A fleet updated with Moments equals the one made from all at once, and the earlier fleet does not change.
func TestFleetsAreMerged(t *testing.T) {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]{1,2}`), 0, 8, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		made := func(names []string) (all []*Moment) {
			for _, name := range names {
				all = append(all, &Moment{Snapshot: &gpu.Snapshot{Node: name}})
			}
			return all
		}
		old, fresh, gone := made(names.Draw(t, "old")), made(names.Draw(t, "fresh")), rapid.StringMatching(`[a-e]{1,2}`).Draw(t, "gone")
		before := NewFleet(old...)
		kept := slices.Clone(before.Moments())
		after := before.With(fresh...)
		want := slices.Clone(fresh)
		for _, m := range old {
			if !slices.ContainsFunc(fresh, func(f *Moment) bool { return f.Snapshot.Node == m.Snapshot.Node }) {
				want = append(want, m)
			}
		}
		slices.SortFunc(want, func(a, b *Moment) int { return strings.Compare(a.Snapshot.Node, b.Snapshot.Node) })
		if !slices.Equal(after.Moments(), want) || len(after.Nodes()) != len(want) {
			t.Fatalf("%d Moments, want %d", len(after.Moments()), len(want))
		}
		for i, m := range want {
			found, ok := after.Node(m.Snapshot.Node)
			if !ok || found != m || after.Nodes()[i] != m.Snapshot {
				t.Fatalf("%q is not found", m.Snapshot.Node)
			}
		}
		without := after.Without(gone)
		want = slices.DeleteFunc(want, func(m *Moment) bool { return m.Snapshot.Node == gone })
		if !slices.Equal(without.Moments(), want) {
			t.Fatalf("without %q there are %d Moments, want %d", gone, len(without.Moments()), len(want))
		}
		if !slices.Equal(before.Moments(), kept) {
			t.Fatal("the fleet before has changed")
		}
	})
}
