package action

import (
	"cmp"
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

// A Call is a request to run an action.
type Call struct {
	Action    string         // its ID
	Principal auth.Principal // who wants it done
	Target    string         // the target; empty if the action has no kind of target
	Node      string         // the only node that the request is about; empty: all nodes
	// Wanted narrows an action without a target to nodes; nil: all.
	Wanted func(node string) bool
	Args   any // of the type that the action takes; nil: the zero value
	// Asked says that another program asks about Node: the action then runs only here.
	Asked bool

	desk    *Desk
	changed Outcome
}

// Note says for the record what the call changes: how it was before, and how it is after, as values that [Masked] can encode. nil is
// nothing: a call that makes something has no before, one that removes something no after. A later Note replaces an earlier one. Only
// the goroutine that runs the action may call it.
func (c *Call) Note(before, after any) { c.changed.Before, c.changed.After = before, after }

// Ask requests an action from the program that reads a node, on behalf of this call's principal. The result is what that
// program returned: JSON, or a decoded reading.
func (c *Call) Ask(ctx context.Context, node, action, target string, args any) (any, error) {
	q := &Question{Ask: action, Target: target, Asker: &c.Principal}
	if args != nil {
		var err error
		if q.Order, err = json.Marshal(args); err != nil {
			return nil, fmt.Errorf("the arguments of %s can't be written: %w", action, err)
		}
	}
	if !c.desk.Elsewhere(node) {
		return nil, &gpu.Advice{What: node + " is no longer part of the fleet"}
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
	// Ask returns the answer to a question. An error with a code is a [Refusal] with only Code, Field and What set.
	Ask(ctx context.Context, node string, q *Question) (any, error)
}

// A Record is what is recorded about a call.
type Record struct {
	Action    string
	Needs     auth.Access // tells calls that only look from others
	Urgent    bool        // as [Action] has it
	Principal auth.Principal
	Target    string
	Node      string
	Asked     bool // by another program of the fleet
	Args      any  // as [Call] has them
}

// An Outcome is what came of a call.
type Outcome struct {
	Before, After any   // what the call changed, as [Call.Note] has it
	Err           error // why it was not done; nil if it was
}

// An Audit records who did what.
type Audit interface {
	// Begin records that somebody is about to do something. If it returns an error, the action is not run. The
	// returned function is called with what came of it.
	Begin(ctx context.Context, r *Record) (end func(Outcome), err error)
	// Denied records that a principal may not do something. It does not wait. Whoever is denied may come again and again.
	Denied(ctx context.Context, r *Record, why error)
}

// A Log is an [Audit] that refuses nothing. It logs actions that were done or failed. Calls that only look or were refused
// are logged at level debug, so that a client that keeps asking for something unknown does not fill the log.
type Log struct{ *slog.Logger }

// Begin implements [Audit].
func (l Log) Begin(ctx context.Context, r *Record) (func(Outcome), error) {
	level := slog.LevelInfo
	if r.Needs <= auth.Read {
		level = slog.LevelDebug
	}
	return func(o Outcome) {
		attrs := []any{"action", r.Action, "by", r.Principal.Name, "target", r.Target}
		if r.Node != "" {
			attrs = append(attrs, "node", r.Node)
		}
		if r.Asked {
			attrs = append(attrs, "asked", "by "+cmp.Or(r.Principal.Address, "a hub"))
		}
		if o.Err != nil {
			if _, refused := errors.AsType[*Refusal](o.Err); refused {
				level = slog.LevelDebug
			}
			l.Log(ctx, level, "not done", append(attrs, "err", o.Err)...)
			return
		}
		l.Log(ctx, level, "done", attrs...)
	}, nil
}

// Denied implements [Audit].
func (l Log) Denied(ctx context.Context, r *Record, why error) {
	l.Log(ctx, slog.LevelDebug, "denied", "action", r.Action, "by", r.Principal.Name, "target", r.Target, "err", why)
}

// A Desk runs actions. Once the program runs, its methods may be called concurrently. A nil Desk is valid and has no actions.
type Desk struct {
	all   []*Action
	byID  map[string]*Action
	codes map[string]*Refusal
	audit Audit
	fleet Fleet
	// where tells what scopes tell machines apart by; nil: by their names alone.
	where func(node string) auth.Machine
}

// NewDesk returns a desk that records its calls with audit. It panics if two actions have the same
// ID.
func NewDesk(audit Audit, actions ...Action) *Desk {
	d := &Desk{byID: map[string]*Action{}, codes: map[string]*Refusal{Denied.Code: Denied, Unsigned.Code: Unsigned}, audit: audit}
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

// Join makes the desk part of a fleet. Call it before the program runs.
func (d *Desk) Join(f Fleet) { d.fleet = f }

// Place tells the desk what scopes tell machines apart by. Call it before the program runs.
func (d *Desk) Place(where func(node string) auth.Machine) { d.where = where }

func (d *Desk) machine(node string) auth.Machine {
	if d.where == nil {
		return auth.Machine{Node: node}
	}
	return d.where(node)
}

// Sees reports whether the call's principal may see a node. What is about another one does not exist for him.
func (c *Call) Sees(node string) bool {
	return c.Principal.Audience.SeesAll() || c.Principal.Audience.Sees(c.desk.machine(node))
}

// May reports whether the call's principal may do this action on a node.
func (c *Call) May(node string) bool {
	a := c.desk.byID[c.Action]
	return a != nil && c.Principal.MayOn(a.Needs, c.desk.machine(node))
}

// ErrEverywhere is returned by [Action.Reach] for a call that may reach any node.
var ErrEverywhere = errors.New("this reaches all machines")

// within returns the refusal of a call that reaches beyond the principal's scope.
func (d *Desk) within(a *Action, c *Call) error {
	if a.Needs <= auth.Read || c.Principal.Scope == "" && c.Principal.Audience.SeesAll() {
		return nil
	}
	nodes, err := []string(nil), ErrEverywhere
	switch {
	case a.Reach != nil:
		nodes, err = a.Reach(c)
	case a.Node != nil:
		nodes, err = []string{a.Node(c)}, nil
	}
	if c.Principal.Scope == "" { // who acts may see only some machines
		if err == nil && !slices.ContainsFunc(nodes, func(node string) bool { return !c.Sees(node) }) {
			return nil
		}
		if _, refused := errors.AsType[*Refusal](err); refused {
			return err
		}
		return Denied
	}
	only := "you may do this on " + c.Principal.Scope.Words() + " only"
	if errors.Is(err, ErrEverywhere) {
		return Denied.because(only+", and this is about all machines", "")
	}
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if !c.Sees(node) {
			return Denied
		}
		if !c.May(node) {
			return Denied.because(only+", and this is about "+node, "")
		}
	}
	return nil
}

// Actions returns all actions in the order in which they are documented.
func (d *Desk) Actions() iter.Seq[*Action] {
	if d == nil {
		return func(func(*Action) bool) {}
	}
	return slices.Values(d.all)
}

// ErrUnknown is returned for an action that does not exist, or that other programs may not request.
var ErrUnknown = errors.New("there is no such action")

// unrecorded is the refusal of an action that could not be recorded, with the reason.
func unrecorded(err error) error {
	r := &Refusal{Code: "unrecorded", Status: http.StatusServiceUnavailable, What: "nothing was done, because it could not be recorded", Try: "see gpuwhy's log"}
	if why, known := errors.AsType[*gpu.Advice](err); known {
		r.What, r.Try = r.What+": "+why.What, cmp.Or(why.Try, r.Try)
	}
	return fmt.Errorf("%w: %w", r, err)
}

// Run runs a call, here or by asking the program that has its target, if the principal may do it and it could be
// recorded. The result is what the action returns, as JSON if it comes from another program.
func (d *Desk) Run(ctx context.Context, c Call) (result any, err error) {
	a := d.byID[c.Action]
	if a == nil {
		return nil, ErrUnknown
	}
	c.desk = d
	record := &Record{
		Action: a.ID, Needs: a.Needs, Urgent: a.Urgent, Principal: c.Principal, Target: c.Target, Node: c.Node, Asked: c.Asked, Args: c.Args,
	}
	if err := d.denied(a, &c); err != nil {
		if errors.Is(err, Denied) {
			d.audit.Denied(ctx, record, err)
		}
		return nil, err
	}
	if a.Pace != nil {
		if err := a.Pace(&c); err != nil {
			d.audit.Denied(ctx, record, err)
			return nil, err
		}
	}
	end, err := d.audit.Begin(ctx, record)
	if err != nil {
		return nil, unrecorded(err)
	}
	c.changed.Err = errPanicked
	defer func() { end(c.changed) }()
	result, c.changed.Err = d.do(ctx, a, &c)
	return result, c.changed.Err
}

// errPanicked is what the record says of an action that ended in a panic.
var errPanicked = errors.New("it ended in an internal error")

// do does what a call wants, here or by asking the program that has its target.
func (d *Desk) do(ctx context.Context, a *Action, c *Call) (any, error) {
	if a.Node != nil && !c.Asked {
		if node := a.Node(c); d.Elsewhere(node) {
			return c.Ask(ctx, node, a.ID, c.Target, c.Args)
		}
	}
	return a.do(ctx, c)
}

// Deny records that a principal may not use an address, which has its name for the API or for people, and returns why not.
func (d *Desk) Deny(ctx context.Context, address string, who *auth.Principal, why error) error {
	if d != nil {
		d.audit.Denied(ctx, &Record{Action: address, Principal: *who}, why)
	}
	return why
}

// denied returns why the principal may not do this; nil if he may.
func (d *Desk) denied(a *Action, c *Call) error {
	switch own := a.Own && c.Principal.May(auth.Read) && c.Principal.Account() != ""; {
	case own: // it reaches no machine, and the implementation refuses what is not their own
		return nil
	case !c.Principal.May(a.Needs):
		return Lacks(&c.Principal, a.Needs)
	}
	return d.within(a, c)
}

// Elsewhere reports whether another program reads the node.
func (d *Desk) Elsewhere(node string) bool { return node != "" && d.fleet != nil && d.fleet.Has(node) }

// Answer runs what another program requests about a node, on behalf of asker. It returns [ErrUnknown] if other programs may
// not request it.
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

// known maps another program's refusal to this program's own. An unknown one, from a later version,
// becomes a conflict.
func (d *Desk) known(r *Refusal) *Refusal {
	switch own := d.codes[r.Code]; {
	case own == Denied && r.What != "":
		return Denied.because(r.What, r.Try)
	case own != nil:
		return own
	case r.Code == codeInvalid:
		return Invalid(r.Field, r.What)
	default:
		return &Refusal{Code: r.Code, Status: http.StatusConflict, Field: r.Field, What: r.What, Try: r.Try}
	}
}
