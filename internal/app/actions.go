package app

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

// actions returns everything that people and programs can do.
func (a *App) actions() []action.Action {
	a.alerting = &alerts.Room{Newest: func() *insight.Fleet { return a.Hub.Newest() }, Now: a.opt.Clock.Now}
	return slices.Concat(a.alerting.Actions(), []action.Action{a.refreshing()})
}

// refresh is the ID of the action that reads nodes now.
const refresh = "refresh"

// refreshing is the action that reads nodes now.
func (a *App) refreshing() action.Action {
	return action.Action{
		ID: refresh, Needs: auth.Read, Func: action.Takes(a.refresh), Remote: true,
		Event: &apidoc.Event{
			Name: "request_gpu_update", Summary: "Read the GPUs now",
			Description: "Answered only to this client, from a reading that began after the request arrived. It may wait up to 250 ms; requests that arrive meanwhile share the reading. 5 at once, then 2 a second.",
			Reply:       []string{"gpu_status_update", "error"},
		},
	}
}

// readNodes are the names of nodes that were read now.
type readNodes []string

// refresh reads the wanted nodes at the same time. It is an error only if none could be read. For another program, it
// returns the Moment of the node in the question.
func (a *App) refresh(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	if c.Asked {
		return a.readNow(ctx, c.Node)
	}
	var names readNodes
	var err error
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(mostAtOnce)
	each := func(name string, read func(context.Context) error) {
		if c.Wanted != nil && !c.Wanted(name) {
			return
		}
		g.Go(func() error {
			failed := read(ctx)
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				names = append(names, name)
			} else {
				err = failed
			}
			return nil
		})
	}
	for _, n := range a.local.all() {
		each(n.Node, func(ctx context.Context) error { return n.refresh(ctx, a.Hub.Hold) })
	}
	for _, name := range a.remotes() {
		each(name, func(ctx context.Context) error {
			read, err := c.Ask(ctx, name, c.Action, "", nil)
			if m, ok := read.(*insight.Moment); ok {
				a.Hub.Hold(m)
			}
			return err
		})
	}
	_ = g.Wait() // its functions return none
	slices.Sort(names)
	if len(names) > 0 {
		err = nil
	}
	return names, err
}

// mostAtOnce is how many nodes are asked at the same time.
const mostAtOnce = 64

// readNow reads a node of this program.
func (a *App) readNow(ctx context.Context, name string) (*insight.Moment, error) {
	n, ok := a.local.find(name)
	if !ok {
		return nil, &gpu.Advice{What: name + " is no longer read here"}
	}
	if err := n.refresh(ctx, a.Hub.Hold); err != nil {
		return nil, err
	}
	m, ok := a.Hub.Latest().Node(name)
	if !ok {
		return nil, &gpu.Advice{What: "nothing has been read from " + name + " yet"}
	}
	return m, nil
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
		return reply, hub.Refuse(advice.Text())
	}
	if err != nil {
		return reply, err
	}
	if nodes, ok := result.(readNodes); ok {
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
