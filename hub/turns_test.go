package hub

import "testing"

// While somebody is always waiting, the list of waiting viewers does not grow.
func TestTurnsDoNotGrow(t *testing.T) {
	const viewers = 100
	turns := turns{writers: 1 << 30} // no writer may start
	for range viewers {
		turns.add(new(viewer))
	}
	for range 100_000 {
		v := turns.next()
		v.turn = resting
		turns.add(v)
	}
	if n := cap(turns.waiting); n > 8*viewers {
		t.Errorf("%d viewers wait in a list with room for %d", viewers, n)
	}
	seen := map[*viewer]bool{}
	for range viewers {
		seen[turns.next()] = true
	}
	if len(seen) != viewers || seen[nil] {
		t.Errorf("%d of %d viewers have a turn", len(seen), viewers)
	}
}
