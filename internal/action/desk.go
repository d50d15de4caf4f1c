package action

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A Call is an action that somebody wants done.
type Call struct {
	Action    string         // its ID
	Principal auth.Principal // who wants it done
	Target    string         // what it is done to; empty where the action has no kind of target
	Node      string         // the one node that the request is about; empty: it is about all
	// Wanted narrows an action without a target to nodes; nil: all.
	Wanted func(node string) bool
	Args   any // of the type that the action takes; nil: of all, the zero value
	// Asked says that another program asks, about Node: it is done here alone.
	Asked bool

	desk *Desk
}

// Ask asks the program that reads a node for an action, on behalf of who wants this one. The result is what that program
// returned: JSON, or what its reading is read as.
func (c *Call) Ask(ctx context.Context, node, action, target string, args any) (any, error) {
	q := &Question{Ask: action, Target: target, Asker: &c.Principal}
	if args != nil {
		var err error
		if q.Order, err = json.Marshal(args); err != nil {
			return nil, fmt.Errorf("the arguments of %s can't be written: %w", action, err)
		}
	}
	if !c.desk.Elsewhere(node) {
		return nil, &gpu.Advice{What: node + " is no part of the fleet any more"}
	}
	result, err := c.desk.fleet.Ask(ctx, node, q)
	if r, ok := errors.AsType[*Refusal](err); ok {
		err = c.desk.known(r)
	}
	return result, err
}

// Awake are the nodes that other programs read, and that can be asked.
func (c *Call) Awake() []string {
	if c.desk.fleet == nil {
		return nil
	}
	return c.desk.fleet.Awake()
}

// A Fleet reaches the programs that read other nodes.
type Fleet interface {
	// Awake are the nodes that can be asked now.
	Awake() []string
	// Has reports whether another program reads the node.
	Has(node string) bool
	// Ask returns what became of a question. An error with a code is a [Refusal], of which only Code, Field and What are set.
	Ask(ctx context.Context, node string, q *Question) (any, error)
}

// A Record is what is written of a call.
type Record struct {
	Action    string
	Needs     auth.Access // so that what only looks can be told apart
	Principal auth.Principal
	Target    string
	Node      string
	Asked     bool // by another program of the fleet
	Args      any  // as [Call] has them
}

// An Audit keeps who did what.
type Audit interface {
	// Begin records that somebody is about to do something. If it returns an error, that is not done. What it returns
	// is called with what became of it, nil where it was done.
	Begin(ctx context.Context, r *Record) (end func(error), err error)
}

// A Log is an [Audit] that refuses nothing: it logs what is done and what failed, and at level debug what only looks and what
// was refused: a client that asks again and again for what there is not fills no log.
type Log struct{ *slog.Logger }

// Begin implements [Audit].
func (l Log) Begin(ctx context.Context, r *Record) (func(error), error) {
	level := slog.LevelInfo
	if r.Needs <= auth.Read {
		level = slog.LevelDebug
	}
	return func(err error) {
		attrs := []any{"action", r.Action, "by", r.Principal.Name, "target", r.Target}
		if r.Node != "" {
			attrs = append(attrs, "node", r.Node)
		}
		if r.Asked {
			attrs = append(attrs, "asked", "by a hub")
		}
		if err != nil {
			if _, refused := errors.AsType[*Refusal](err); refused {
				level = slog.LevelDebug
			}
			l.Log(ctx, level, "not done", append(attrs, "err", err)...)
			return
		}
		l.Log(ctx, level, "done", attrs...)
	}, nil
}

// A Desk does actions. Its methods may be called at the same time once the program runs, and of a nil Desk, which has no action.
type Desk struct {
	all   []*Action
	byID  map[string]*Action
	codes map[string]*Refusal
	audit Audit
	fleet Fleet
}

// NewDesk returns a desk that has what it does recorded. It panics where two actions have one ID.
func NewDesk(audit Audit, actions ...Action) *Desk {
	d := &Desk{byID: map[string]*Action{}, codes: map[string]*Refusal{Denied.Code: Denied}, audit: audit}
	for i := range actions {
		a := &actions[i]
		if d.byID[a.ID] != nil {
			panic("action: there are two " + a.ID)
		}
		d.byID[a.ID], d.all = a, append(d.all, a)
		for _, r := range a.Refuses {
			d.codes[r.Code] = r.Refusal
		}
	}
	return d
}

// Join makes the desk part of a fleet, before the program runs.
func (d *Desk) Join(f Fleet) { d.fleet = f }

// Actions are all actions, in the order in which they are documented.
func (d *Desk) Actions() iter.Seq[*Action] {
	if d == nil {
		return func(func(*Action) bool) {}
	}
	return slices.Values(d.all)
}

// ErrUnknown is returned for an action that there is not, or not for other programs.
var ErrUnknown = errors.New("there is no such action")

var errUnrecorded = &Refusal{
	Code: "unrecorded", Status: http.StatusServiceUnavailable, What: "nothing was done, since it could not be recorded", Try: "look into the log of gpuwhy",
}

// Run does what a call says, here or by asking the program that has its target, if its principal may do that and it is
// recorded. The result is what the action returns; of another program, JSON.
func (d *Desk) Run(ctx context.Context, c Call) (result any, err error) {
	a := d.byID[c.Action]
	if a == nil {
		return nil, ErrUnknown
	}
	if !c.Principal.May(a.Needs) {
		return nil, Denied
	}
	c.desk = d
	end, err := d.audit.Begin(ctx, &Record{a.ID, a.Needs, c.Principal, c.Target, c.Node, c.Asked, c.Args})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnrecorded, err)
	}
	defer func() { end(err) }()
	if a.Node != nil && !c.Asked {
		if node := a.Node(&c); d.Elsewhere(node) {
			return c.Ask(ctx, node, a.ID, c.Target, c.Args)
		}
	}
	return a.do(ctx, &c)
}

// Elsewhere reports whether another program reads the node.
func (d *Desk) Elsewhere(node string) bool { return node != "" && d.fleet != nil && d.fleet.Has(node) }

// Answer does what another program asks for about a node, on behalf of who wants that. It is [ErrUnknown] where other programs
// can't ask for it.
func (d *Desk) Answer(ctx context.Context, node string, q *Question, asker auth.Principal) (any, error) {
	a := d.byID[q.Ask]
	if a == nil || !a.Remote {
		return nil, ErrUnknown
	}
	args, err := a.Read(func(into any) error {
		if q.Order == nil {
			return nil
		}
		return json.Unmarshal(q.Order, into)
	})
	if err != nil {
		return nil, fmt.Errorf("the question can't be read: %w", err)
	}
	return d.Run(ctx, Call{Action: a.ID, Principal: asker, Target: q.Target, Node: node, Args: args, Asked: true})
}

// known is the refusal of another program as this one knows it. One of a later version is a conflict.
func (d *Desk) known(r *Refusal) *Refusal {
	switch own := d.codes[r.Code]; {
	case own != nil:
		return own
	case r.Code == codeInvalid:
		return Invalid(r.Field, r.What)
	default:
		return &Refusal{Code: r.Code, Status: http.StatusConflict, Field: r.Field, What: r.What}
	}
}
