package access

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/clock"
)

const (
	// newEnough is how long the cache takes its items for current without asking the ledger for its revision.
	newEnough = 250 * time.Millisecond
	// mostCached limits the items of a cache. Only items that exist are cached, so strangers can't fill it.
	mostCached = 10_000
	// patience is how long the ledger has to answer what a request needs.
	patience = 2 * time.Second
)

// A cache remembers the items of a ledger while its revision is the same, since each request needs a session and a user. What another
// program changes is noticed after [newEnough].
type cache struct {
	ledger.Ledger
	clock clock.Clock

	mu       sync.Mutex
	asked    time.Duration // when the ledger was last asked for its revision, as elapsed time
	valid    bool          // revision is that of the items
	revision int64
	changes  int // counts this program's own calls of Apply
	items    map[[2]string]ledger.Item
}

func newCache(l ledger.Ledger, c clock.Clock) *cache {
	return &cache{Ledger: l, clock: c, items: map[[2]string]ledger.Item{}}
}

// Get implements [ledger.Ledger].
func (c *cache) Get(ctx context.Context, kind, id string) (*ledger.Item, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	revision, changes, err := c.check(ctx)
	if err != nil {
		return nil, err
	}
	key := [2]string{kind, id}
	c.mu.Lock()
	it, known := c.items[key]
	c.mu.Unlock()
	if known {
		return c.current(&it), nil
	}
	found, err := c.Ledger.Get(ctx, kind, id)
	if found == nil || err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revision == revision && c.changes == changes && c.valid {
		if len(c.items) >= mostCached {
			clear(c.items)
		}
		c.items[key] = *found
	}
	return c.current(found), nil
}

// current returns an item, or nil if it has expired by this program's clock.
func (c *cache) current(it *ledger.Item) *ledger.Item {
	if !it.Expires.IsZero() && !it.Expires.After(c.clock.Now()) {
		return nil
	}
	return it
}

// check has the cache forget its items if the ledger has others by now.
func (c *cache) check(ctx context.Context) (revision int64, changes int, err error) {
	c.mu.Lock()
	revision, changes = c.revision, c.changes
	fresh := c.valid && c.clock.Elapsed()-c.asked < newEnough
	c.mu.Unlock()
	if fresh {
		return revision, changes, nil
	}
	asked := c.clock.Elapsed()
	revision, err = c.Ledger.Revision(ctx)
	if err != nil {
		return 0, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.valid || c.revision != revision {
		clear(c.items)
	}
	// If this program has changed something meanwhile, the revision may be older than that.
	c.valid = c.changes == changes
	c.revision, c.asked = revision, asked
	return revision, c.changes, nil
}

// Apply implements [ledger.Ledger].
func (c *cache) Apply(ctx context.Context, changes ...ledger.Change) error {
	defer c.forget() // after a conflict too: somebody else has changed something
	return c.Ledger.Apply(ctx, changes...)
}

func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.valid = false
	clear(c.items)
}
