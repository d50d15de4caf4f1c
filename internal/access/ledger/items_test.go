package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// item makes an item of the kind "user".
func item(id, name, owner string) Item {
	return Item{Kind: "user", ID: id, Name: name, Owner: owner, Doc: json.RawMessage(`{"of":"` + id + `"}`)}
}

func add(it Item) Change { return Change{Item: it} }

func replace(it Item, was int64) Change { return Change{Item: it, Was: was} }

func removal(kind, id string) Change {
	return Change{Item: Item{Kind: kind, ID: id}, Was: Any, Remove: true}
}

// applies applies changes that must succeed.
func applies(t testing.TB, l Ledger, changes ...Change) {
	t.Helper()
	if err := l.Apply(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
}

// conflicts applies changes that must be refused.
func conflicts(t *testing.T, l Ledger, why string, changes ...Change) {
	t.Helper()
	if err := l.Apply(t.Context(), changes...); !errors.Is(err, ErrConflict) || errors.Is(err, ErrGone) {
		t.Errorf("%s: %v", why, err)
	}
}

// ids are the IDs of the items of a kind, in their order.
func ids(t *testing.T, l Ledger, kind, owner string) string {
	t.Helper()
	found, err := l.List(t.Context(), kind, owner)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, it := range found {
		all = append(all, it.ID)
	}
	return strings.Join(all, " ")
}

func TestItems(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		ctx := t.Context()
		there := func(it *Item, err error) *Item {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return it
		}
		if it := there(l.Get(ctx, "user", "a")); it != nil {
			t.Errorf("an empty ledger has %+v", it)
		}
		expires := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
		ann := item("a", "ann", "")
		ann.Expires = expires
		applies(t, l, add(ann))
		for _, it := range []*Item{there(l.Get(ctx, "user", "a")), there(l.Named(ctx, "user", "ann"))} {
			if it == nil || it.Version != 1 || it.Name != "ann" || !it.Expires.Equal(expires) || string(it.Doc) != `{"of":"a"}` {
				t.Fatalf("it is %+v", it)
			}
		}
		conflicts(t, l, "it is there already", add(ann))
		conflicts(t, l, "it has another version", replace(ann, 2))
		conflicts(t, l, "it is not there", replace(item("none", "", ""), 1))
		conflicts(t, l, "its name is taken", add(item("b", "ann", "")))
		conflicts(t, l, "it has no such owner", add(item("b", "bob", "nobody")))
		conflicts(t, l, "one of two is refused", add(item("b", "bob", "")), add(item("c", "ann", "")))
		if got := ids(t, l, "user", ""); got != "a" {
			t.Errorf("after changes that were refused: %q", got)
		}
		other := Item{Kind: "codes", ID: "a", Owner: "a", Doc: json.RawMessage(`{}`)}
		if err := l.Apply(ctx, add(other)); err == nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrGone) {
			t.Errorf("an item with the ID of its owner: %v", err)
		}
		for _, id := range []string{"", "\x00", "\xff", "a\x00", "' OR 1=1 --", "%"} {
			if it := there(l.Get(ctx, "user", id)); it != nil {
				t.Errorf("%q is %+v", id, it)
			}
			if it := there(l.Named(ctx, "user", id)); it != nil {
				t.Errorf("%q names %+v", id, it)
			}
		}
		if got := ids(t, l, "user", "a"); got != "" {
			t.Errorf("it owns %q", got)
		}

		// Names are unique in their kind, and free again.
		token := item("t", "ann", "a")
		token.Kind = "token"
		applies(t, l, add(token), replace(item("a", "anna", ""), 1), add(item("b", "ann", "")))
		if it := there(l.Named(ctx, "user", "ann")); it == nil || it.ID != "b" {
			t.Errorf("ann is %+v", it)
		}
		if it := there(l.Get(ctx, "user", "a")); it == nil || it.Version != 2 || !it.Expires.IsZero() {
			t.Errorf("anna is %+v", it)
		}

		// With an item goes all that it owns.
		child, grandchild, other := item("c", "", "t"), item("g", "", "c"), item("o", "", "b")
		child.Kind, grandchild.Kind = "link", "code"
		applies(t, l, add(child), add(grandchild), add(other))
		if got := ids(t, l, "link", "t"); got != "c" {
			t.Errorf("the token owns %q", got)
		}
		conflicts(t, l, "it has another version", Change{Item: Item{Kind: "user", ID: "a"}, Was: 1, Remove: true})
		applies(t, l, Change{Item: Item{Kind: "user", ID: "a"}, Was: 2, Remove: true})
		if got := ids(t, l, "token", "") + ids(t, l, "link", "") + ids(t, l, "code", ""); got != "" {
			t.Errorf("what it owned stays: %q", got)
		}
		if got := ids(t, l, "user", ""); got != "b o" {
			t.Errorf("others: %q", got)
		}
		applies(t, l, removal("user", "a")) // there is none
		for _, wrong := range []Item{{Kind: "user", Doc: ann.Doc}, {ID: "x", Doc: ann.Doc}, {Kind: "user", ID: "x", Name: "\x00", Doc: ann.Doc}, {Kind: "user", ID: "\xff", Doc: ann.Doc},
			{Kind: "user", ID: "x", Doc: json.RawMessage("\"\xff\"")}} {
			if err := l.Apply(ctx, add(wrong)); err == nil || errors.Is(err, ErrConflict) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		if got := ids(t, l, "user", ""); got != "b o" {
			t.Errorf("there is something that can't be: %q", got)
		}
	})
}

// The revision counts changes that others must know of.
func TestRevision(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		want := int64(0)
		is := func(grows int64, what string) {
			t.Helper()
			want += grows
			if n, err := l.Revision(t.Context()); err != nil || n != want {
				t.Errorf("%s: revision %d, %v, want %d", what, n, err, want)
			}
		}
		is(0, "nothing")
		applies(t, l, add(item("a", "ann", "")), add(item("b", "", "")))
		is(0, "two new items")
		conflicts(t, l, "it is there", add(item("a", "", "")))
		is(0, "a change that is refused")
		quiet := replace(item("a", "ann", ""), 1)
		quiet.Quiet = true
		applies(t, l, quiet)
		is(0, "a quiet change")
		loud := replace(item("a", "ann", ""), 2)
		quiet.Was = 3
		applies(t, l, loud, quiet)
		is(1, "a quiet change beside another")
		expired := item("x", "", "")
		expired.Expires = time.Now().Add(-time.Second)
		applies(t, l, add(expired))
		applies(t, l, removal("user", "none"))
		is(0, "an item that has expired, and the removal of none")
		for range 2 {
			if err := l.Prune(t.Context(), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		is(1, "it is removed")
		applies(t, l, removal("user", "b"))
		is(1, "a removal")
	})
}

// What has expired is there for nobody, and leaves its name.
func TestExpiry(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		ctx := t.Context()
		gone := func(id, name, owner string) Item {
			it := item(id, name, owner)
			it.Expires = time.Now().Add(-time.Microsecond)
			return it
		}
		applies(t, l, add(item("a", "ann", "")), add(gone("b", "bob", "a")), add(gone("d", "dan", "")), add(item("stays", "", "a")))
		owned := item("owned", "", "b")
		conflicts(t, l, "its owner has expired", add(owned))
		for _, name := range []string{"b", "bob", "d"} {
			if it, err := l.Get(ctx, "user", name); err != nil || it != nil {
				t.Errorf("%s is %+v, %v", name, it, err)
			}
			if it, err := l.Named(ctx, "user", name); err != nil || it != nil {
				t.Errorf("%s names %+v, %v", name, it, err)
			}
		}
		if got := ids(t, l, "user", "a"); got != "stays" {
			t.Errorf("the list has %q", got)
		}
		conflicts(t, l, "it is there for nobody", replace(item("b", "", ""), 1))
		applies(t, l, add(item("b", "", ""))) // a new one, which must not be taken for the earlier one
		if it, err := l.Get(ctx, "user", "b"); err != nil || it == nil || it.Version != 2 {
			t.Errorf("the new one is %+v, %v", it, err)
		}
		applies(t, l, add(item("e", "dan", "")))
		applies(t, l, add(gone("f", "", "a")))
		if err := l.Prune(ctx, time.Time{}); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, l, "user", ""); got != "a b e stays" {
			t.Errorf("there are %q", got)
		}
		if d := inside(l); d != nil {
			var n int
			if err := d.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM items").Scan(&n); err != nil || n != 4 {
				t.Errorf("%d rows, %v", n, err)
			}
		}
	})
}

// Of several who change the same version, one succeeds.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p ledgerPlace, l Ledger) {
		all := []Ledger{l, l}
		if p.several {
			all[1] = p.open(t)
		}
		applies(t, l, add(item("a", "0", "")))
		var done atomic.Int64
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				for range 10 {
					it, err := all[i%2].Get(t.Context(), "user", "a")
					if err != nil {
						t.Error(err)
						return
					}
					n, _ := strconv.Atoi(it.Name)
					it.Name = strconv.Itoa(n + 1)
					switch err := all[i%2].Apply(t.Context(), replace(*it, it.Version)); {
					case err == nil:
						done.Add(1)
					case !errors.Is(err, ErrConflict):
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if it, err := l.Get(t.Context(), "user", "a"); err != nil || it.Name != strconv.FormatInt(done.Load(), 10) || it.Version != done.Load()+1 {
			t.Errorf("after %d changes it is %+v, %v", done.Load(), it, err)
		}
	})
}

// A call whose caller leaves is undone or done, and the ledger goes on.
func TestCallersWhoLeave(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		applies(t, l, add(item("a", "ann", "")))
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			errs := []error{l.Append(ctx, &Entry{Action: "x", Result: "done"}), l.Apply(ctx, replace(item("a", "ann", ""), Any))}
			_, err := l.List(ctx, "user", "")
			for _, err := range append(errs, err) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a caller who left: %v", err)
				}
			}
		}
		if it, err := l.Get(t.Context(), "user", "a"); err != nil || it == nil {
			t.Errorf("then it is %+v, %v", it, err)
		}
		if _, err := l.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Documents and their order come back as they were.
func TestManyItems(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		var changes []Change
		var want []string
		for i := range 50 {
			id := strconv.Itoa(i)
			it := item(id, "", "")
			it.Doc = json.RawMessage(`{"text":"é \u0000 ` + strings.Repeat("x", i*100) + `"}`)
			changes, want = append(changes, add(it)), append(want, id)
		}
		applies(t, l, changes...)
		found, err := l.List(t.Context(), "user", "")
		if err != nil || len(found) != len(want) {
			t.Fatalf("%d, %v", len(found), err)
		}
		slices.Sort(want)
		for i, it := range found {
			n, _ := strconv.Atoi(it.ID)
			if it.ID != want[i] || string(it.Doc) != string(changes[n].Doc) {
				t.Fatalf("%d is %+v, want %s", i, it, want[i])
			}
		}
	})
}
