package deliver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/store"
)

// names say under which name the past of each installation is kept. A name belongs to the installation that delivered under it first, as hubs
// show the program that began first. When that one stops, such as a machine that is set up anew, the next one continues the name. When both go
// on, the second is kept apart. An installation that delivers under another name, and no more under the former one, takes its past along.
type names struct {
	kept  keptNames
	heard map[string]time.Time // by node: of what time the newest was that came of whom the name belongs to
	since map[claim]time.Time  // when an installation first claimed a name that belongs to another one
	told  map[claim]bool
	read  time.Time // when kept was read from the database last
}

// keptNames are kept in the database, where all its recorders find them.
type keptNames struct {
	Names map[string]holder `json:"names"`
	// Beside are installations that deliver under the name of another one, by ID.
	Beside map[string][]string `json:"beside,omitempty"`
}

// A holder is the installation to which a name belongs.
type holder struct {
	Installation string    `json:"installation"`
	Since        time.Time `json:"since"` // of the oldest that it told under the name
}

type claim struct{ node, installation string }

const (
	// undecided is how long it is waited for news of whom a name belongs to, before another installation gets it. The wait is made of pauses of
	// claimPause, of which there are fewer than tries.
	undecided, claimPause = 50 * time.Second, 20 * time.Second
	// namesAge is how old what was read of names may be where it decides something.
	namesAge = 5 * time.Second
	// longestInstallation is how long an installation's ID may be, in bytes.
	longestInstallation = 128
)

func newNames() names {
	return names{heard: map[string]time.Time{}, since: map[claim]time.Time{}, told: map[claim]bool{}, kept: keptNames{map[string]holder{}, map[string][]string{}}}
}

// load reads what recorders have decided before. What can't be read begins anew.
func (n *names) load(ctx context.Context, from store.Store, now time.Time) error {
	text, err := from.Document(ctx, store.FleetNames)
	if err != nil {
		return err
	}
	n.read = now
	kept := keptNames{map[string]holder{}, map[string][]string{}}
	if err := json.Unmarshal(text, &kept); err == nil && kept.Names != nil {
		n.kept = kept
	}
	if n.kept.Beside == nil {
		n.kept.Beside = map[string][]string{}
	}
	return nil
}

// A naming is under which name a message is kept.
type naming struct {
	node    string
	wait    bool            // that can't be said yet
	renamed *store.Renaming // its past goes from another name to this one first
	changed bool            // what is kept of names is another
	beside  bool            // the name belongs to another installation
}

// nameFor decides under which name what an installation told of a span of time is kept. own says that the name belongs to the recorder's machine.
func (n *names) nameFor(node, installation string, from, to, now time.Time, own bool) naming {
	c := claim{node, installation}
	apart := naming{node: besideName(node, installation), beside: true}
	holds, known := n.kept.Names[node]
	switch {
	case installation == "": // of an earlier version
		return naming{node: node}
	case own, n.isBeside(c):
		return apart
	case !known:
		return n.take(c, from, to, now)
	case holds.Installation == installation:
		n.hear(node, to)
		return naming{node: node}
	case to.Before(holds.Since): // late news of whom the name belonged to
		return naming{node: node}
	case !n.heard[node].Before(from):
		n.kept.Beside[node] = append(n.kept.Beside[node], installation)
		delete(n.since, c)
		apart.changed = true
		return apart
	case !n.decided(c, now):
		return naming{wait: true}
	}
	n.kept.Names[node] = holder{installation, from}
	n.heard[node] = to
	return naming{node: node, changed: true}
}

// take gives a name that nobody had to an installation, with its past under a former name.
func (n *names) take(c claim, from, to, now time.Time) naming {
	out := naming{node: c.node, changed: true}
	for former, holds := range n.kept.Names {
		if holds.Installation != c.installation {
			continue
		}
		if !n.heard[former].Before(from) { // a copy of the machine: both go on
			break
		}
		if !n.decided(c, now) {
			return naming{wait: true}
		}
		delete(n.kept.Names, former)
		delete(n.heard, former)
		out.renamed = &store.Renaming{From: former, To: c.node}
		break
	}
	n.kept.Names[c.node] = holder{c.installation, from}
	n.hear(c.node, to)
	return out
}

func (n *names) hear(node string, to time.Time) {
	if to.After(n.heard[node]) {
		n.heard[node] = to
	}
}

// decided reports whether it was waited for long enough.
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

func (n *names) isBeside(c claim) bool {
	for _, installation := range n.kept.Beside[c.node] {
		if installation == c.installation {
			return true
		}
	}
	return false
}

// besideName is the name under which the past of a second program of a name is kept, such as "gpu-1~3f9a1c".
func besideName(node, installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return node + "~" + hex.EncodeToString(sum[:3])
}

// document is what is kept.
func (n *names) document() ([]byte, error) { return json.Marshal(n.kept) }

// span is of what time a message tells: the sender was there at a time not after from, and at to. The row of a span may tell of any part of
// that. Where there is nothing it is the time at which the message came.
func (m *message) span(now time.Time) (from, to time.Time) {
	saw := func(begin, end time.Time) {
		if from.IsZero() || end.Before(from) {
			from = end
		}
		if begin.After(to) {
			to = begin
		}
	}
	for i := range m.Tables {
		t := &m.Tables[i]
		tier, known := store.TierOf(t.Tier)
		at := int64(0)
		for _, later := range t.Times {
			if at += later; known {
				saw(moment(at), moment(at).Add(tier.Span()))
			}
		}
	}
	for i := range m.Frames {
		saw(moment(m.Frames[i].Time), moment(m.Frames[i].Time))
	}
	if from.IsZero() { // sessions and causes may be those of an earlier run, which end now
		return now, now
	}
	return from, to
}

// name decides under which name a message is kept. The caller handles one message at a time.
func (r *Recorder) name(m *message, node string) (naming, error) {
	if len(m.Installation) > longestInstallation {
		return naming{}, fmt.Errorf("%w: its installation has %d bytes", ErrUnreadable, len(m.Installation))
	}
	now := r.cfg.Now()
	from, to := m.span(now)
	if r.names.kept.Names[node].Installation != m.Installation && now.Sub(r.names.read) > namesAge { // another recorder may have decided it
		if err := r.names.load(context.Background(), r.cfg.Store, now); err != nil {
			return naming{}, err
		}
	}
	before := r.names.kept
	if r.names.kept.Names[node].Installation != m.Installation { // something may change
		before = keptNames{maps.Clone(before.Names), maps.Clone(before.Beside)}
	}
	n := r.names.nameFor(node, m.Installation, from, to, now, r.cfg.Own != nil && r.cfg.Own(node))
	if c := (claim{node, m.Installation}); n.beside && !r.names.told[c] {
		r.names.told[c] = true
		r.log.Warn("two programs deliver the past of machines of one name; the second one's is kept apart", "node", node, "kept_as", n.node,
			"try", "give each machine a name of its own with --node, and credentials of its own")
	}
	if n.changed {
		text, err := r.names.document()
		if err == nil {
			b := &store.Batch{Documents: map[string][]byte{store.FleetNames: text}}
			if n.renamed != nil {
				b.Renamed = []store.Renaming{*n.renamed}
				r.log.Info("a machine delivers under another name, and keeps its past", "was", n.renamed.From, "is", n.renamed.To)
			}
			err = r.store(context.Background(), b)
		}
		if err != nil {
			r.names.kept = before // it is decided again when the message comes again
			return naming{}, err
		}
	}
	return n, nil
}
