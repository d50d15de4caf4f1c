// Package audit records who did what, from where, on what, and what came of it, in the ledger's append-only table. An action that can't
// be recorded is refused.
package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/part"
)

// patience is how long an action waits for its record.
const patience = 2 * time.Second

// Config is what a Room needs.
type Config struct {
	part.Host
	Ledger ledger.Ledger
}

// A Room records.
type Room struct {
	cfg Config
	log action.Log
}

// New makes a Room.
func New(cfg Config) *Room {
	return &Room{cfg: cfg, log: action.Log{Logger: cfg.Log.With("part", "actions")}}
}

// Name implements [part.Part].
func (*Room) Name() string { return "audit" }

// Append records an entry.
func (r *Room) Append(ctx context.Context, e *ledger.Entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if e.Time.IsZero() {
		e.Time = r.cfg.Clock.Now()
	}
	return r.cfg.Ledger.Append(ctx, e)
}

// Begin implements [action.Audit]. Calls that only look are logged, and not recorded.
func (r *Room) Begin(ctx context.Context, call *action.Record) (func(error), error) {
	tell, err := r.log.Begin(ctx, call)
	if err != nil || call.Needs <= auth.Read {
		return tell, err
	}
	args, err := json.Marshal(call.Args)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s can't be recorded: %w", call.Action, err)
	}
	who := &call.Principal
	begun := ledger.Entry{
		Action: call.Action, Principal: who.Name, Identity: who.ID, Way: string(who.Way), Address: who.Address, Target: call.Target,
		Node: call.Node, Args: args, Result: "begun",
	}
	if call.Asked {
		begun.Asked, begun.Address = who.Address, "" // the hub
	}
	if err := r.Append(ctx, &begun); err != nil {
		return nil, err
	}
	return func(err error) {
		tell(err)
		ended := begun
		ended.Of, ended.Args, ended.Time, ended.Result = begun.Number, nil, time.Time{}, "done"
		if err != nil {
			ended.Result, ended.Detail = "failed", err.Error()
			if _, refused := errors.AsType[*action.Refusal](err); refused {
				ended.Result = "refused"
			}
		}
		if err := r.Append(ctx, &ended); err != nil {
			r.log.Error("the result of an action was not recorded", "action", call.Action, "entry", begun.Number, slog.Any("err", err))
		}
	}, nil
}
