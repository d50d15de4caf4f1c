package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// appends adds entries a minute apart, with numbers from 1.
func appends(t testing.TB, l Ledger, n int) {
	t.Helper()
	for i := range n {
		e := Entry{Time: begin.Add(time.Duration(i) * time.Minute), Action: "act" + fmt.Sprint(i%2), Principal: "ann", Target: fmt.Sprint("t", i), Result: "done"}
		if err := l.Append(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
	}
}

// numbers are those of the entries that a query finds.
func numbers(t *testing.T, l Ledger, q Query) string {
	t.Helper()
	found, err := l.Entries(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var all []int64
	for i := range found {
		all = append(all, found[i].Number)
	}
	return strings.Trim(fmt.Sprint(all), "[]")
}

func TestEntries(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		if c, err := l.Verify(t.Context()); err != nil || c != (Chain{}) {
			t.Errorf("an empty chain: %+v, %v", c, err)
		}
		whole := Entry{
			Time: begin.Add(123456789 * time.Nanosecond).In(time.FixedZone("here", 3600)), Action: "silence", Principal: "ann", Identity: "user:1", Way: "password", Address: "192.0.2.7",
			Target: "GPU-0", Node: "gpu-1", Asked: "hub", Args: json.RawMessage(`{"a":1}`), Before: json.RawMessage(`[]`), After: json.RawMessage(`"x"`), Result: "done", Detail: "it is so", Of: 7,
		}
		e := whole
		if err := l.Append(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Number != 1 || len(e.Hash) != 64 || !e.Time.Equal(begin.Add(123456*time.Microsecond)) {
			t.Errorf("it says %+v", e)
		}
		for i, v := 0, reflect.ValueOf(whole); i < v.NumField(); i++ { // so that a new field is filled in above, too
			if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Number" && name != "Hash" {
				t.Errorf("%s is not tested", name)
			}
		}
		found, err := l.Entries(t.Context(), Query{})
		if err != nil || len(found) != 1 || !reflect.DeepEqual(found[0], e) {
			t.Fatalf("it is\n%+v, %v, want\n%+v", found, err, e)
		}
		appends(t, l, 10)
		for _, tt := range []struct {
			q    Query
			want string
		}{
			{Query{}, "11 10 9 8 7 6 5 4 3 2 1"}, {Query{Most: 3}, "11 10 9"}, {Query{Most: 3, Before: 9}, "8 7 6"}, {Query{Action: "act1"}, "11 9 7 5 3"},
			{Query{Principal: "ann", Target: "t3"}, "5"}, {Query{Principal: "nobody"}, ""}, {Query{Node: "gpu-1"}, "1"}, {Query{Result: "failed"}, ""}, {Query{Principal: "\x00"}, ""},
			{Query{From: begin.Add(8 * time.Minute)}, "11 10"}, {Query{From: begin, To: begin.Add(time.Minute)}, "2 1"},
		} {
			if got := numbers(t, l, tt.q); got != tt.want {
				t.Errorf("%+v finds %q, want %q", tt.q, got, tt.want)
			}
		}
		if c, err := l.Verify(t.Context()); err != nil || c.First != 1 || c.Last != 11 || c.Anchor != 0 || len(c.Head) != 64 {
			t.Errorf("the chain is %+v, %v", c, err)
		}
	})
}

// Whatever visitors write, it can be recorded, and costs little room.
func TestTextsOfEntries(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		for _, text := range []string{"a\x00b", "\xff\xfe", strings.Repeat("é", 100_000), "'; DROP TABLE audit; --", "\u2028<script>", ""} {
			e := Entry{Time: begin, Action: text, Principal: text, Identity: text, Way: text, Address: text, Target: text, Node: text, Asked: text, Result: text, Detail: text}
			if err := l.Append(t.Context(), &e); err != nil {
				t.Errorf("%.20q: %v", text, err)
				continue
			}
			found, err := l.Entries(t.Context(), Query{Most: 1})
			if err != nil || len(found) != 1 || found[0].Number != e.Number || len(found[0].Detail) > mostText+3 || !utf8.ValidString(found[0].Detail) {
				t.Errorf("%.20q: %.200q, %v", text, fmt.Sprint(found), err)
			}
		}
		if err := l.Append(t.Context(), &Entry{Action: "x", Args: json.RawMessage("{")}); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("no JSON: %v", err)
		}
		if c, err := l.Verify(t.Context()); err != nil || c.Last != 6 {
			t.Errorf("the chain is %+v, %v", c, err)
		}
	})
}

func TestPrune(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, _ ledgerPlace, l Ledger) {
		appends(t, l, 6)
		all, err := l.Entries(t.Context(), Query{})
		if err != nil {
			t.Fatal(err)
		}
		late := Entry{Time: begin, Action: "late", Result: "done"} // the clock was set back
		if err := l.Append(t.Context(), &late); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			before              time.Time
			first, last, anchor int64
		}{
			{time.Time{}, 1, 7, 0}, {begin, 1, 7, 0}, {begin.Add(time.Minute), 2, 7, 1}, {begin.Add(time.Minute), 2, 7, 1}, {begin.Add(150 * time.Second), 4, 7, 3},
			{begin.Add(time.Hour), 0, 0, 7}, {begin.Add(time.Hour), 0, 0, 7},
		} {
			if err := l.Prune(t.Context(), tt.before); err != nil {
				t.Fatal(err)
			}
			c, err := l.Verify(t.Context())
			if err != nil || c.First != tt.first || c.Last != tt.last || c.Anchor != tt.anchor {
				t.Errorf("before %s: %+v, %v, want %+v", tt.before, c, err, tt)
			}
			if c.Head != late.Hash {
				t.Errorf("before %s: the head is %s, want %s", tt.before, c.Head, late.Hash)
			}
		}
		appends(t, l, 1)
		if c, err := l.Verify(t.Context()); err != nil || c.First != 8 || c.Last != 8 || c.Anchor != 7 {
			t.Errorf("the chain goes on as %+v, %v", c, err)
		}
		if all[0].Number != 6 {
			t.Errorf("the last was %+v", all[0])
		}
	})
}

// More entries than are looked at in one transaction.
func TestLongChain(t *testing.T) {
	t.Parallel()
	l := opened(t)(InMemory(t.Context()))
	const n = 2*atOnce + 10
	appends(t, l, n)
	if c, err := l.Verify(t.Context()); err != nil || c.First != 1 || c.Last != n {
		t.Errorf("the chain is %+v, %v", c, err)
	}
	if err := l.Prune(t.Context(), begin.Add((2*atOnce+5)*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if c, err := l.Verify(t.Context()); err != nil || c.First != 2*atOnce+6 || c.Anchor != 2*atOnce+5 || c.Last != n {
		t.Errorf("the chain is %+v, %v", c, err)
	}
}

// Entries that several programs add at a time are in one chain without a gap.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p ledgerPlace, l Ledger) {
		all := []Ledger{l, l}
		if p.several {
			all[1] = p.open(t)
		}
		const each = 15
		var mu sync.Mutex
		var got []int64
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				for range each {
					e := Entry{Time: begin, Action: fmt.Sprint("of ", i), Result: "done"}
					if err := all[i%2].Append(t.Context(), &e); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					got = append(got, e.Number)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		slices.Sort(got)
		for i, n := range got {
			if n != int64(i+1) {
				t.Fatalf("the numbers are %v", got)
			}
		}
		if c, err := all[1].Verify(t.Context()); err != nil || c.First != 1 || c.Last != 4*each {
			t.Errorf("the chain is %+v, %v", c, err)
		}
	})
}

// Each single change of what is stored is found. What is not found is what the package's comment says.
func TestTampering(t *testing.T) {
	t.Parallel()
	// anew calculates the hashes from an entry on, as somebody can who can write the database.
	anew := func(t *testing.T, d *database, from int) {
		t.Helper()
		var before string
		if err := d.db.QueryRowContext(t.Context(), fmt.Sprint("SELECT hash FROM audit WHERE number = ", from-1)).Scan(&before); err != nil {
			t.Fatal(err)
		}
		for n := from; n <= 5; n++ {
			var doc string
			if err := d.db.QueryRowContext(t.Context(), fmt.Sprint("SELECT doc FROM audit WHERE number = ", n)).Scan(&doc); err != nil {
				t.Fatal(err)
			}
			before = link(before, []byte(doc))
			if _, err := d.db.ExecContext(t.Context(), fmt.Sprintf("UPDATE audit SET hash = '%s' WHERE number = %d", before, n)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.db.ExecContext(t.Context(), fmt.Sprintf("UPDATE heads SET text = '%s' WHERE name = 'head'", before)); err != nil {
			t.Fatal(err)
		}
	}
	forged := `INSERT INTO audit SELECT 6, time, action, principal, target, node, result, REPLACE(doc, '"number":5', '"number":6'), hash FROM audit WHERE number = 5`
	for _, tt := range []struct {
		name   string
		do     string
		anew   int   // from which on hashes are calculated anew; 0: none
		broken int64 // 0: the chain holds
	}{
		{"nothing", "SELECT 1", 0, 0},
		{"the text of an entry", `UPDATE audit SET doc = REPLACE(doc, 'ann', 'bob') WHERE number = 3`, 0, 3},
		{"a space in an entry", `UPDATE audit SET doc = doc || ' ' WHERE number = 3`, 0, 3},
		{"the text of the last entry", `UPDATE audit SET doc = REPLACE(doc, 'ann', 'bob') WHERE number = 5`, 0, 5},
		{"a hash", `UPDATE audit SET hash = '00' WHERE number = 2`, 0, 2},
		{"the principal by which it is found", `UPDATE audit SET principal = 'bob' WHERE number = 3`, 0, 3},
		{"the action by which it is found", `UPDATE audit SET action = 'x' WHERE number = 3`, 0, 3},
		{"the target by which it is found", `UPDATE audit SET target = 'x' WHERE number = 3`, 0, 3},
		{"the node by which it is found", `UPDATE audit SET node = 'x' WHERE number = 3`, 0, 3},
		{"the result by which it is found", `UPDATE audit SET result = 'failed' WHERE number = 3`, 0, 3},
		{"the time by which it is removed", `UPDATE audit SET time = 0 WHERE number = 3`, 0, 3},
		{"an entry that is removed", `DELETE FROM audit WHERE number = 3`, 0, 3},
		{"the first entry", `DELETE FROM audit WHERE number = 1`, 0, 1},
		{"the last entries", `DELETE FROM audit WHERE number >= 4`, 0, 4},
		{"all entries", `DELETE FROM audit`, 0, 1},
		{"two entries that are swapped", `UPDATE audit SET number = 100 WHERE number = 2; UPDATE audit SET number = 2 WHERE number = 3; UPDATE audit SET number = 3 WHERE number = 100`, 0, 2},
		{"a later entry that is put in the place of a removed one", `DELETE FROM audit WHERE number = 3; UPDATE audit SET number = number - 1 WHERE number > 3`, 0, 3},
		{"an entry that is added", forged, 0, 6},
		{"the anchor", `UPDATE heads SET number = 2 WHERE name = 'anchor'`, 0, 3},
		{"a removal from the beginning with its anchor", `DELETE FROM audit WHERE number < 3; UPDATE heads SET number = 2 WHERE name = 'anchor'`, 0, 3},
		{"the head", `UPDATE heads SET number = 4 WHERE name = 'head'`, 0, 5},
		{"the hash of the head", `UPDATE heads SET text = 'x' WHERE name = 'head'`, 0, 5},
		{"an entry, with all later hashes calculated anew", `UPDATE audit SET doc = REPLACE(doc, 'ann', 'bob'), principal = 'bob' WHERE number = 3`, 3, 0},
		{"the last entries, with the head", `DELETE FROM audit WHERE number >= 4; UPDATE heads SET number = 3, text = (SELECT hash FROM audit WHERE number = 3) WHERE name = 'head'`, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := opened(t)(InMemory(t.Context()))
			appends(t, l, 5)
			for text := range strings.SplitSeq(tt.do, "; ") {
				if _, err := inside(l).db.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			if tt.anew > 0 {
				anew(t, inside(l), tt.anew)
			}
			_, err := l.Verify(t.Context())
			broken, _ := errors.AsType[*BrokenError](err)
			switch {
			case tt.broken == 0 && err != nil:
				t.Error(err)
			case tt.broken > 0 && (broken == nil || broken.Number != tt.broken || errors.Is(err, ErrGone)):
				t.Errorf("%v, want entry %d", err, tt.broken)
			}
		})
	}
}

// Nobody can add an entry where somebody else has put one.
func TestAppendToATamperedChain(t *testing.T) {
	t.Parallel()
	l := opened(t)(InMemory(t.Context()))
	appends(t, l, 2)
	if _, err := inside(l).db.ExecContext(t.Context(), "UPDATE audit SET number = 3 WHERE number = 2"); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), &Entry{Action: "x", Result: "done"}); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "audit check") {
		t.Errorf("it says %v", err)
	}
}
