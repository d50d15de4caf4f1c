package audit

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

const (
	// countsFor is how long refusals are counted before they are recorded together.
	countsFor = time.Minute
	// mostCounts is how many principals and addresses have a count of their own at a time; whatever comes from others is counted together.
	mostCounts = 50
	// mostActions is how many actions an entry about several refusals names.
	mostActions = 10
)

// A refuser is for whom refusals are counted: a principal at an address, or an address alone.
type refuser struct{ name, id, address string }

// A count of refusals has the first one, which is recorded at once, what those that followed have in common with it, and how many did, by
// action.
type count struct {
	first *ledger.Entry
	like  ledger.Entry
	more  map[string]int
}

// Refused records a refusal that somebody can cause as often as he likes, such as of a token that is not valid. It does not wait. The
// first one of a principal at an address is recorded at once. Those that follow within a minute are counted, and recorded as one entry
// at its end. So a flood can't fill the ledger.
func (r *Room) Refused(e *ledger.Entry) {
	of := refuser{e.Principal, e.Identity, household(e.Address)}
	r.mu.Lock()
	behind := len(r.waiting) > mostWaiting/10 // the ledger is away, and room to wait is for what was done
	if r.refused[of] == nil && (behind || len(r.refused) >= mostCounts) {
		of = refuser{}
	}
	c := r.refused[of]
	if c == nil {
		c = &count{e, ledger.Entry{Action: e.Action, Principal: e.Principal, Identity: e.Identity, Way: e.Way, Address: e.Address, Asked: e.Asked, Result: refused}, map[string]int{}}
		r.refused[of] = c
	}
	counted := c.first != e || behind
	if counted {
		c.more[e.Action]++
	}
	r.mu.Unlock()
	select {
	case r.counting <- struct{}{}:
	default: // the minute has begun
	}
	if !counted {
		r.Later(e)
	}
}

// household is the address whose refusals are counted together.
func household(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return address // of a hub, or none
	}
	return serve.Household(parsed).String()
}

// sum records how many refusals were counted, and begins anew.
func (r *Room) sum() {
	r.mu.Lock()
	counted := r.refused
	r.refused = map[refuser]*count{}
	r.mu.Unlock()
	for of, c := range counted {
		if len(c.more) == 0 {
			continue
		}
		e := c.like
		e.Detail = c.text()
		if of == (refuser{}) {
			e = ledger.Entry{Action: e.Action, Result: refused, Detail: "from further addresses: " + e.Detail}
		}
		r.later(&e, c.first)
	}
}

// text says how many refusals followed the first.
func (c *count) text() string {
	actions := slices.SortedFunc(maps.Keys(c.more), func(a, b string) int {
		if c.more[a] != c.more[b] {
			return c.more[b] - c.more[a]
		}
		return strings.Compare(a, b)
	})
	all := 0
	for _, n := range c.more {
		all += n
	}
	var named []string
	for _, action := range actions[:min(len(actions), mostActions)] {
		named = append(named, fmt.Sprintf("%s %d", action, c.more[action]))
	}
	return fmt.Sprintf("%d more within a minute (%s)", all, strings.Join(named, ", "))
}
