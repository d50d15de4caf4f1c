package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
)

// carried is the action with which hubs have an order carried out. Its name and the order's form date from the first
// version that could ask: fields are only ever added.
const carried = "alert"

// An order is an action on alerts for the program that has them. Exactly one of its fields is set.
type order struct {
	Acknowledge string                `json:"acknowledge,omitempty"` // the alert's ID
	By          *alert.Acknowledgment `json:"by,omitempty"`          // who acknowledges; nil withdraws it
	Dismiss     string                `json:"dismiss,omitempty"`     // the alert's ID
	Silence     []alert.Silence       `json:"silence,omitempty"`
	Unsilence   *alert.Silence        `json:"unsilence,omitempty"` // and every equal one; nodes without one do not change
}

// An outcome is the result of an order. Hubs read it as a record, by these names.
type outcome struct {
	Changes  []alert.Change
	Silences []alert.Silence // that were made
}

// carry carries out an order on an engine's alerts.
func (o *order) carry(e *alert.Engine, now time.Time) (out outcome, err error) {
	var c alert.Change
	switch {
	case o.Acknowledge != "":
		c, err = e.Acknowledge(o.Acknowledge, o.By)
		out.Changes = []alert.Change{c}
	case o.Dismiss != "":
		c, err = e.Dismiss(o.Dismiss, now)
		out.Changes = []alert.Change{c}
	case o.Unsilence != nil:
		if out.Changes, err = e.Unsilence(o.Unsilence); errors.Is(err, alert.ErrUnknown) {
			err = nil
		}
	case len(o.Silence) > 0:
		out.Silences, out.Changes, err = e.SilenceAll(o.Silence, now)
	default:
		err = alert.Refuse("order", "is empty")
	}
	return out, err
}

// carryOut carries out a hub's order and returns the outcome as a record.
func (r *Room) carryOut(_ context.Context, c *action.Call, o order) (any, error) {
	before := r.noted(cmp.Or(o.Acknowledge, o.Dismiss))
	out, err := o.carry(r.Book.Engine, r.Now().UTC())
	if err != nil {
		return nil, refusal(err)
	}
	switch {
	case o.Unsilence != nil:
		c.Note(o.Unsilence, nil)
	case len(o.Silence) > 0:
		c.Note(nil, out.Silences)
	default:
		c.Note(before, notes([]alert.Alert{out.Changes[0].Alert}))
	}
	text, err := gpu.AppendRecord(nil, &out)
	return json.RawMessage(text), err
}

// largest is how much memory the values of an outcome may take, in bytes.
const largest = 16 << 20

// order has the program that reads a node carry out an order; without a node, it runs here.
func (r *Room) order(ctx context.Context, c *action.Call, node string, o *order) (out outcome, err error) {
	if node == "" {
		return o.carry(r.Book.Engine, r.Now().UTC())
	}
	result, err := c.Ask(ctx, node, carried, cmp.Or(o.Acknowledge, o.Dismiss, c.Target), o)
	if err != nil {
		return out, err
	}
	text, _ := result.(json.RawMessage)
	if err := gpu.ReadRecord(&gpu.RecordReader{Room: largest}, text, &out); err != nil {
		return out, fmt.Errorf("the answer of %s can't be read: %w", node, err)
	}
	return out, nil
}

// changeOne has the program that has an alert carry out an order about it, and returns the resulting alert.
func (r *Room) changeOne(ctx context.Context, c *action.Call, id string, o *order) (alert.Alert, error) {
	out, err := r.order(ctx, c, r.Book.Holder(id), o)
	if err != nil || len(out.Changes) == 0 {
		return alert.Alert{}, err
	}
	return out.Changes[0].Alert, nil
}

// mostOrders is how many orders run at the same time.
const mostOrders = 64

// orderAll has several nodes carry out an order. It returns the outcomes, and the errors of nodes that did not carry it
// out.
func (r *Room) orderAll(ctx context.Context, c *action.Call, nodes []string, o *order) (done []outcome, failed map[string]error) {
	var g errgroup.Group
	g.SetLimit(mostOrders)
	var mu sync.Mutex
	failed = map[string]error{}
	for _, node := range nodes {
		g.Go(func() error {
			out, err := r.order(ctx, c, node, o)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done = append(done, out)
			} else {
				failed[node] = err
			}
			return nil
		})
	}
	_ = g.Wait() // its functions return none
	return done, failed
}

// silenceAll puts several silences in force, each at all nodes that it covers, and in the engine too if it covers all. It is an
// error if no reporting node accepts one. A node that does not answer is not silenced and does not hold up the others.
func (r *Room) silenceAll(ctx context.Context, c *action.Call, list []alert.Silence, now time.Time) (made []alert.Silence, err error) {
	for _, x := range list {
		x.Since = now
		if err := x.Check(); err != nil {
			return nil, err
		}
	}
	made = make([]alert.Silence, len(list))
	var own []alert.Silence // of no node that reports, or of all: also of what the engine looks at
	var places []int        // of own in list
	for i, x := range list {
		outcomes, failed := r.orderAll(ctx, c, r.Book.Covered(&x), &order{Silence: []alert.Silence{x}})
		for _, err := range failed {
			if len(outcomes) == 0 {
				return nil, err
			}
		}
		for _, out := range outcomes {
			if len(out.Silences) > 0 {
				made[i] = out.Silences[0]
			}
		}
		if made[i].ID == "" || x.Node == "" {
			own, places = append(own, x), append(places, i)
		}
	}
	if len(own) == 0 {
		return made, nil
	}
	here, err := r.order(ctx, c, "", &order{Silence: own}) // all of them or none
	if err != nil {
		return nil, err
	}
	for i, x := range here.Silences {
		if made[places[i]].ID == "" {
			made[places[i]] = x
		}
	}
	return made, nil
}

// unsilence ends a silence wherever it is in force, also on nodes whose report does not have it yet. It is an error if a node
// whose report has it does not answer.
func (r *Room) unsilence(ctx context.Context, c *action.Call, id string) error {
	x, ok := r.Book.FindSilence(id)
	if !ok {
		return alert.ErrUnknown
	}
	having := r.Book.Silenced(&x)
	_, failed := r.orderAll(ctx, c, r.Book.Covered(&x), &order{Unsilence: &x})
	_, err := r.order(ctx, c, "", &order{Unsilence: &x}) // of the engine
	for _, node := range having {
		err = cmp.Or(err, failed[node])
	}
	return err
}
