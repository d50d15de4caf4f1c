// Package ledger stores what sign-in needs, and who did what: accounts, passkeys, sessions, tokens and counts of failed attempts as
// items, and an append-only table of audit entries with a hash chain. All of it is in a file of the state directory, in a PostgreSQL
// schema that several programs share, or in memory. Secrets never get here: callers store hashes.
//
// A [Ledger] has few calls, each with plain data, so that a helper process can carry them out ([Apart]). A disk that hangs then blocks
// the helper and not the program. [Later] opens a ledger when it is first used, and gives each call a time limit. [Cached] answers from
// memory, so that requests cost no question to the database.
//
// # What the chain shows
//
// Each audit entry has a hash of the entry and of the hash before it. [Ledger.Verify] finds an entry that was changed, removed, added or
// put elsewhere, and the removal of the newest entries, unless somebody also calculates all later hashes and the head anew: whoever can
// write the database can do so. Only a head that was copied elsewhere earlier, such as to a system log, shows that.
package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Ledger stores items and audit entries. Its methods may be called concurrently. They return an error that wraps [ErrGone] while the
// ledger can't be reached.
type Ledger interface {
	// Get returns an item; nil if there is none, or if it has expired.
	Get(ctx context.Context, kind, id string) (*Item, error)
	// Named returns the item of a kind that has the name; nil if there is none, or if it has expired.
	Named(ctx context.Context, kind, name string) (*Item, error)
	// List returns the items of a kind, by ID; only those of an owner, if one is given. Expired ones are left out.
	List(ctx context.Context, kind, owner string) ([]Item, error)
	// Apply makes all the changes, or none of them. It returns [ErrConflict] if an item is not of the version that a change expects, if a
	// name is taken, or if an item's owner is not there. After [ErrGone], the changes may have been made.
	Apply(ctx context.Context, changes ...Change) error
	// Revision counts the calls of Apply that have changed or removed items, of all programs that share the ledger; quiet changes aside.
	// While it is the same, whatever was there still is.
	Revision(ctx context.Context) (int64, error)
	// Append adds an audit entry, and sets its Number, Time and Hash. Text that is too long for an entry is cut. After [ErrGone], the
	// entry may have been added.
	Append(ctx context.Context, e *Entry) error
	// Entries returns audit entries, the newest first.
	Entries(ctx context.Context, q Query) ([]Entry, error)
	// Prune removes expired items, and audit entries from before a time. Entries are removed from the beginning alone: one with an earlier
	// time than the one before stays until that one goes. The hash of the last entry that was removed stays as the anchor of the chain.
	// The zero time removes no entry.
	Prune(ctx context.Context, before time.Time) error
	// Verify reads the whole chain. Its error is a [*BrokenError] where an entry was changed or removed.
	Verify(ctx context.Context) (Chain, error)
	Close() error
}

// Errors of a ledger. Most errors that wrap ErrGone also have a [gpu.Advice].
var (
	ErrConflict       = errors.New("somebody else has changed it meanwhile")
	ErrGone     error = outage("the ledger of accounts can't be used")
)

// An outage is an error that will be over: package serve answers requests with 503.
type outage string

func (o outage) Error() string { return string(o) }

// Outage implements serve.Outage.
func (outage) Outage() {}

// gone is an error that is an [ErrGone] for a reason. Its text is the reason alone: other texts say already that the ledger is what it is about.
type gone struct{ reason error }

func (g *gone) Error() string   { return g.reason.Error() }
func (g *gone) Unwrap() []error { return []error{ErrGone, g.reason} }

// An Item is a document of a kind.
type Item struct {
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Name    string          `json:"name,omitempty"`    // unique among its kind; empty: it has none
	Owner   string          `json:"owner,omitempty"`   // the ID of the item that it belongs to, and with which it is removed; empty: none
	Expires time.Time       `json:"expires,omitzero"`  // zero: never
	Version int64           `json:"version,omitempty"` // counts its changes, from 1; 0 for a new one
	Doc     json.RawMessage `json:"doc"`
}

// A Change of one item.
type Change struct {
	Item
	// Was is the version that the item must have: 0: it must not exist, [Any]: any.
	Was    int64 `json:"was"`
	Remove bool  `json:"remove,omitempty"` // the item, and all that it owns
	// Quiet says that other programs need not learn of it at once, such as of the time at which a session was used last. New items are
	// quiet anyway: nobody remembers that something is not there.
	Quiet bool `json:"quiet,omitempty"`
}

// Any is a version that matches each item, and none.
const Any = -1

// An Entry is one audit entry: who did what to what, from where, and what came of it.
type Entry struct {
	Number    int64           `json:"number"`
	Time      time.Time       `json:"time"`
	Action    string          `json:"action"`              // the ID of an action, or of what sign-in does, such as "signIn"
	Principal string          `json:"principal,omitempty"` // the name
	Identity  string          `json:"identity,omitempty"`  // which tells apart two of the same name: "user:ID", "uid:0"
	Way       string          `json:"way,omitempty"`       // how the principal was recognized: "password", "token", "local" …
	Address   string          `json:"address,omitempty"`   // where the request came from
	Target    string          `json:"target,omitempty"`
	Node      string          `json:"node,omitempty"`
	Asked     string          `json:"asked,omitempty"` // the program of the fleet that asked; empty: none
	Args      json.RawMessage `json:"args,omitempty"`  // without secrets
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	Result    string          `json:"result"` // "begun", "done", "refused" or "failed"
	Detail    string          `json:"detail,omitempty"`
	Of        int64           `json:"of,omitempty"` // the number of the entry that says that this began; 0: none
	Hash      string          `json:"-"`            // of the hash before and the entry as JSON
}

// A Query selects audit entries. Empty fields select all.
type Query struct {
	Principal, Action, Target, Node, Result string
	From, To                                time.Time // [From, To)
	Before                                  int64     // only entries with a smaller number; 0: all
	Most                                    int       // at most so many; 0: 100
}

// A Chain is the range of audit entries that there are.
type Chain struct {
	First, Last int64  // numbers; 0: there is none
	Anchor      int64  // the number of the last entry that was removed; 0: none was
	Head        string // the hash of the last entry
}

// A BrokenError says where the chain does not hold.
type BrokenError struct {
	Number int64 // the entry
	Why    string
}

// Error implements error.
func (e *BrokenError) Error() string { return e.Why }
