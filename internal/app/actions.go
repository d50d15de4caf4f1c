package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/access"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

// Actions returns the actions that every program declares, for what requests them from outside. They can't be run.
func Actions() (all []action.Action) {
	for _, p := range []part.Actor{new(alerts.Room), new(reading.Room), new(access.AdminSite)} {
		all = append(all, p.Actions()...)
	}
	return all
}

// socketActs returns the actions that have a socket message.
func (a *App) socketActs() (acts []hub.Act) {
	for declared := range a.desk.Actions() {
		if declared.Event != nil {
			acts = append(acts, hub.Act{Event: declared.Event.Name, Do: func(ctx context.Context, ask *hub.Ask) (hub.Reply, error) {
				return a.act(ctx, declared, ask)
			}})
		}
	}
	return acts
}

// act performs an action for a socket message, whose data has the target and the arguments.
func (a *App) act(ctx context.Context, declared *action.Action, ask *hub.Ask) (reply hub.Reply, err error) {
	call := action.Call{Action: declared.ID, Principal: ask.Principal, Node: ask.Node, Wanted: ask.Wanted}
	if declared.Target.Name != "" || declared.Args != nil {
		var data struct {
			Target string          `json:"target"`
			Args   json.RawMessage `json:"args"`
		}
		if err = strictjson.Decode(orEmpty(ask.Data), &data); err == nil {
			call.Args, err = declared.Read(func(into any) error { return strictjson.Decode(orEmpty(data.Args), into) })
		}
		if err != nil {
			return reply, hub.Refuse("data " + err.Error())
		}
		call.Target = data.Target
	}
	if declared.Needs > auth.Read { // an action that has begun goes on, even if nobody waits for the answer any more
		ctx = context.WithoutCancel(ctx)
	}
	result, err := a.desk.Run(ctx, call)
	if refused, ok := errors.AsType[*action.Refusal](err); ok {
		advice := refused.Advice()
		if refused.Status == http.StatusForbidden {
			return reply, hub.Forbid(advice.Text())
		}
		return reply, hub.Refuse(advice.Text())
	}
	if err != nil {
		return reply, err
	}
	if nodes, ok := result.(reading.ReadNodes); ok {
		return hub.Reply{Read: nodes}, nil
	}
	reply.Data, err = json.Marshal(result)
	return reply, err
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if object == nil || string(object) == "null" {
		return json.RawMessage("{}")
	}
	return object
}
