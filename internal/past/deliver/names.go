package deliver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// names decide under which name the past of each installation is kept. A name belongs to the installation that first delivered under it, just as
// hubs show the program that started first. When that one stops, for example because the machine was set up again, the next one continues the name.
// If both go on, the past of the second is kept separately. An installation that changes its name takes its past along. If the new name belonged to
// an installation that has stopped, that one's past is kept separately until it delivers under a new name.
type names struct {
	kept  keptNames
	heard map[string]time.Time // by name: of what time the newest was that came of whom the name belongs to
	since map[claim]time.Time  // when an installation first claimed a name that belongs to another one
	told  map[claim]bool
	began time.Time // when kept was read first
	read  time.Time // when kept was read from the database last
}

// keptNames are stored in the database, where all its collectors find them. A past that is kept separately has its own name; see [apartName].
type keptNames struct {
	Names map[string]holder `json:"names"`
}

// A holder is the installation to which a name belongs.
type holder struct {
	Installation string    `json:"installation"`
	Since        time.Time `json:"since"` // of the oldest that it told under the name
	// Displaced is set if this past is kept separately because another installation brought its own past to this one's name.
	Displaced bool `json:"displaced,omitempty"`
}

type claim struct{ node, installation string }

// A span is a time span; zero: none.
type span struct{ from, to time.Time }

const (
	// undecided is how long a collector waits for news from a name's owner before another installation gets the name. The wait consists of pauses of
	// claimPause, fewer than tries.
	undecided, claimPause = 50 * time.Second, 20 * time.Second
	// abandoned is how long a name's owner must have been silent before a program that was kept separately gets the name. It is longer than most
	// machines are off, so that two programs with one name do not take turns.
	abandoned = time.Hour
	// namesAge is how old names read from the store may be when they decide something.
	namesAge = 5 * time.Second
	// longestInstallation is how long an installation's ID may be, in bytes.
	longestInstallation = 128
	// mostApart is how many programs with one name are kept separately. Further ones are kept together.
	mostApart = 8
)

func newNames() names {
	return names{heard: map[string]time.Time{}, since: map[claim]time.Time{}, told: map[claim]bool{}, kept: keptNames{map[string]holder{}}}
}

// load reads earlier decisions of collectors. If it can't read them, it starts over.
func (n *names) load(ctx context.Context, documents store.Store, now time.Time) error {
	text, err := documents.Document(ctx, store.FleetNames)
	if err != nil {
		return err
	}
	n.read = now
	if n.began.IsZero() {
		n.began = now
	}
	var kept keptNames
	if err := json.Unmarshal(text, &kept); err == nil && kept.Names != nil {
		n.kept = kept
	}
	return nil
}

// A naming is the name under which a message is kept.
type naming struct {
	node    string
	wait    bool             // that can't be said yet
	renamed []store.Renaming // pasts that go from one name to another first
	changed bool             // what is kept of names is another
	apart   bool             // the name belongs to another installation
}

// nameFor decides under which name an installation's data about a time span is kept. own says that the name belongs to the collector's machine.
// Data about no time changes no name.
func (n *names) nameFor(c claim, span span, now time.Time, own bool) naming {
	node := c.node
	if c.installation == "" { // of an earlier version
		return naming{node: node}
	}
	holds, known := n.kept.Names[node]
	mine, isApart := n.kept.Names[apartName(c)]
	isApart = isApart && mine.Installation == c.installation
	none := span.to.IsZero()
	switch goesOn := !n.heard[node].Before(span.from); {
	case own:
		return n.keepApart(c, span)
	case known && holds.Installation == c.installation:
		delete(n.since, c)
		n.hear(node, span)
		return naming{node: node}
	case isApart && (none || known && span.to.Before(holds.Since)):
		return naming{node: apartName(c)}
	case none && !n.isLate(c, now):
		return naming{wait: true}
	case none, known && span.to.Before(holds.Since): // late news of whom the name belonged to
		return naming{node: node}
	case !known:
		return n.take(c, span, now)
	case goesOn, isApart && !mine.Displaced && !n.isAbandoned(node, span.from):
		return n.keepApart(c, span)
	case !n.decided(c, now):
		return naming{wait: true}
	}
	out := naming{node: node, changed: true}
	if isApart && !mine.Displaced { // it continues the name, as one that is set up anew
		delete(n.kept.Names, apartName(c))
	} else if former, _ := n.former(c, span.from); former != "" {
		aside := apartName(claim{node, holds.Installation})
		n.move(node, aside)
		n.kept.Names[aside] = holder{holds.Installation, holds.Since, true}
		n.move(former, node)
		out.renamed = []store.Renaming{{From: node, To: aside}, {From: former, To: node}}
	}
	n.kept.Names[node] = holder{Installation: c.installation, Since: span.from}
	n.heard[node] = span.to
	return out
}

// keepApart keeps an installation's data under its own separate name.
func (n *names) keepApart(c claim, span span) naming {
	name := apartName(c)
	out := naming{node: name, apart: true}
	delete(n.since, c)
	if owner, known := n.kept.Names[name]; known && owner.Installation == c.installation {
		n.hear(name, span)
		return out
	}
	others := 0
	for other := range n.kept.Names {
		if strings.HasPrefix(other, c.node+apartMark) {
			others++
		}
	}
	if others >= mostApart {
		out.node = c.node + apartMark + "more"
		return out
	}
	n.kept.Names[name] = holder{Installation: c.installation, Since: span.from}
	n.hear(name, span)
	out.changed = true
	return out
}

// take gives an unused name to an installation, together with its past under a former name.
func (n *names) take(c claim, span span, now time.Time) naming {
	out := naming{node: c.node, changed: true}
	if former, goesOn := n.former(c, span.from); former != "" && !goesOn {
		if !n.decided(c, now) {
			return naming{wait: true}
		}
		n.move(former, c.node)
		out.renamed = []store.Renaming{{From: former, To: c.node}}
	}
	n.kept.Names[c.node] = holder{Installation: c.installation, Since: span.from}
	n.hear(c.node, span)
	return out
}

// former returns the name under which an installation that claims another name has its past. goesOn says that it still delivers under that name
// too: then one machine is a copy of the other, and each keeps its own past.
func (n *names) former(c claim, began time.Time) (name string, goesOn bool) {
	for other, holds := range n.kept.Names {
		switch {
		case holds.Installation != c.installation || other == c.node:
		case !n.heard[other].Before(began):
			return "", true
		case name == "" || holds.Since.After(n.kept.Names[name].Since):
			name = other
		}
	}
	return name, false
}

// move gives a name without an owner to another installation.
func (n *names) move(from, to string) {
	delete(n.heard, to)
	if last, known := n.heard[from]; known {
		n.heard[to] = last
	}
	delete(n.heard, from)
	delete(n.kept.Names, from)
}

func (n *names) hear(node string, span span) {
	if span.to.After(n.heard[node]) {
		n.heard[node] = span.to
	}
}

// isAbandoned reports whether a name's owner has been silent for long.
func (n *names) isAbandoned(node string, now time.Time) bool {
	heard := n.heard[node]
	if heard.Before(n.began) {
		heard = n.began
	}
	return now.Sub(heard) > abandoned
}

// decided reports whether the wait was long enough.
func (n *names) decided(c claim, now time.Time) bool {
	first, waits := n.since[c]
	if !waits {
		if len(n.since) < mostNodes {
			n.since[c] = now
		}
		return false
	}
	if now.Sub(first) < undecided {
		return false
	}
	delete(n.since, c)
	return true
}

// isLate reports whether data about no time has waited so long that no readings will decide its name any more.
func (n *names) isLate(c claim, now time.Time) bool {
	first, waits := n.since[c]
	if !waits && len(n.since) < mostNodes {
		n.since[c] = now
	}
	return waits && now.Sub(first) > 2*undecided
}

const apartMark = "~"

// apartName returns the name under which the past of a second program with a name is kept, such as "gpu-1~3f9a1c".
func apartName(c claim) string {
	sum := sha256.Sum256([]byte(c.installation))
	return c.node + apartMark + hex.EncodeToString(sum[:3])
}

// MakeRoom adds to a batch what gives a name to the collector's own machine with its installation. If another installation has delivered under
// the name, its past is kept separately, so that it can take it along.
func MakeRoom(ctx context.Context, documents store.Store, node, installation string, b *store.Batch) error {
	n := newNames()
	if err := n.load(ctx, documents, time.Time{}); err != nil {
		return err
	}
	holds, known := n.kept.Names[node]
	if !known {
		return nil
	}
	delete(n.kept.Names, node)
	if holds.Installation != installation {
		aside := apartName(claim{node, holds.Installation})
		n.kept.Names[aside] = holder{holds.Installation, holds.Since, true}
		b.Renamed = append([]store.Renaming{{From: node, To: aside}}, b.Renamed...)
	}
	text, err := n.document()
	b.Documents[store.FleetNames] = text
	return err
}

// document is what is kept.
func (n *names) document() ([]byte, error) { return json.Marshal(n.kept) }

// span returns the time span of a message's readings. Only readings show that a machine is present under a name: other data may be from an earlier
// run and arrive late.
func (m *message) span() (s span) {
	saw := func(t time.Time) {
		if s.from.IsZero() || t.Before(s.from) {
			s.from = t
		}
		if t.After(s.to) {
			s.to = t
		}
	}
	for i := range m.Tables {
		if m.Tables[i].Tier != store.Raw.String() {
			continue
		}
		readAt := int64(0)
		for _, later := range m.Tables[i].Times {
			readAt += later
			saw(moment(readAt))
		}
	}
	for i := range m.Frames {
		saw(moment(m.Frames[i].Time))
	}
	return s
}

// name decides under which name a message is kept. The caller handles one message at a time.
func (r *Collector) name(m *message, node string) (naming, error) {
	if len(m.Installation) > longestInstallation {
		return naming{}, fmt.Errorf("%w: its installation has %d bytes", ErrUnreadable, len(m.Installation))
	}
	now := r.cfg.Now()
	span := m.span()
	if r.names.kept.Names[node].Installation != m.Installation && now.Sub(r.names.read) > namesAge { // another collector may have decided it
		if err := r.names.load(context.Background(), r.cfg.Store, now); err != nil {
			return naming{}, err
		}
	}
	before := r.names.kept
	if r.names.kept.Names[node].Installation != m.Installation { // something may change
		before = keptNames{maps.Clone(before.Names)}
	}
	n := r.names.nameFor(claim{node, m.Installation}, span, now, r.cfg.Own != nil && r.cfg.Own(node))
	if c := (claim{node, m.Installation}); n.apart && !r.names.told[c] {
		r.names.told[c] = true
		r.log.Warn("two programs deliver the past of machines with the same name; the second one's past is kept separately", "node", node, "kept_as", n.node,
			"try", "give each machine its own name with --node, and its own credentials")
	}
	if n.changed {
		text, err := r.names.document()
		if err == nil {
			b := &store.Batch{Documents: map[string][]byte{store.FleetNames: text}}
			b.Renamed = n.renamed
			err = r.store(context.Background(), b)
		}
		if err != nil {
			r.names.kept = before // it is decided again when the message comes again
			delete(r.names.heard, node)
			return naming{}, err
		}
		for _, renaming := range n.renamed {
			r.log.Info("a machine's past is filed under a new name: the machine has a new name, or another machine has its old one", "was", renaming.From, "is", renaming.To)
		}
	}
	return n, nil
}
