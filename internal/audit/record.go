package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// The results of entries.
const (
	begun   = "begun" // the result is in an entry of its own
	done    = "done"
	refused = "refused"
	failed  = "failed"
)

// NewEntry returns an entry about what a principal did: the ID of an action, or of something else, such as "readAudit".
func NewEntry(what string, who *auth.Principal, result string) *ledger.Entry {
	return &ledger.Entry{
		Action: what, Principal: who.Name, Identity: who.ID, Way: string(who.Way), Address: who.Address, Result: result,
	}
}

// Begin implements [action.Audit]. Calls that only look are logged, and not recorded.
func (r *Room) Begin(ctx context.Context, call *action.Record) (func(action.Outcome), error) {
	if call.Needs <= auth.Read {
		return r.quiet.Begin(ctx, call)
	}
	args, err := action.Masked(call.Args)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s can't be recorded: %w", call.Action, err)
	}
	began := r.entry(call, begun)
	began.Args = args
	if call.Urgent {
		r.Later(began)
	} else if err := r.Append(ctx, began); err != nil {
		return nil, err
	}
	return func(o action.Outcome) { r.end(ctx, began, &o) }, nil
}

// Denied implements [action.Audit].
func (r *Room) Denied(_ context.Context, call *action.Record, why error) {
	e := r.entry(call, refused)
	e.Detail = why.Error()
	r.Refused(e)
}

// entry begins the entry about a call.
func (r *Room) entry(call *action.Record, result string) *ledger.Entry {
	e := NewEntry(call.Action, &call.Principal, result)
	e.Target, e.Node = call.Target, call.Node
	if call.Asked {
		e.Asked = cmp.Or(call.Principal.Address, "hub") // of questions between programs, the address is the hub
	}
	return e
}

// end records what came of an action. It has been done, so an entry that can't be written waits.
func (r *Room) end(ctx context.Context, began *ledger.Entry, o *action.Outcome) {
	ended := *began
	ended.Number, ended.Hash, ended.Time, ended.Args, ended.Result = 0, "", time.Time{}, nil, done
	if o.Err != nil {
		ended.Result, ended.Detail = failed, o.Err.Error()
		if _, is := errors.AsType[*action.Refusal](o.Err); is {
			ended.Result = refused
		}
	}
	var errs [2]error
	ended.Before, errs[0] = action.Masked(o.Before)
	ended.After, errs[1] = action.Masked(o.After)
	if err := errors.Join(errs[:]...); err != nil {
		r.log.Error("what an action changed can't be recorded", "action", began.Action, "err", err)
	}
	if r.waits(began) {
		r.later(&ended, began)
		return
	}
	ended.Of = began.Number
	r.prepare(&ended)
	if r.write(ctx, &ended) != nil {
		r.later(&ended, nil)
		return
	}
	r.tell(&ended)
}

// waits reports whether an entry is not recorded yet.
func (r *Room) waits(e *ledger.Entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.waiting {
		if l.entry == e {
			return true
		}
	}
	return false
}
