package reading

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// refresh is the ID of the action that reads nodes now.
const refresh = "refresh"

// Actions has the one that reads nodes now.
func (r *Room) Actions() []action.Action {
	return []action.Action{{
		ID: refresh, Needs: auth.Read, Func: action.Takes(r.refresh), Remote: true,
		Event: &apidoc.Event{
			Name: "request_gpu_update", Summary: "Read the GPUs now",
			Description: "Answered only to this client, from a reading that began after the request arrived. It may wait up to 250 ms; requests that arrive meanwhile share the reading. 5 at once, then 2 a second.",
			Reply:       []string{"gpu_status_update", "error"},
		},
	}}
}

// ReadNodes are the names of nodes that were read now.
type ReadNodes []string

// refresh reads the wanted nodes at the same time. It is an error only if none could be read. For another program, it
// returns the Moment of the node in the question.
func (r *Room) refresh(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	if c.Asked {
		return r.readNow(ctx, c.Node)
	}
	var names ReadNodes
	var err error
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(mostAtOnce)
	each := func(name string, read func(context.Context) error) {
		if c.Wanted != nil && !c.Wanted(name) || !c.Sees(name) {
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
	for _, n := range r.all() {
		each(n.Node, func(ctx context.Context) error { return n.refresh(ctx, r.Hub.Hold) })
	}
	for _, name := range c.Awake() {
		each(name, func(ctx context.Context) error {
			read, err := c.Ask(ctx, name, c.Action, "", nil)
			if m, ok := read.(*insight.Moment); ok {
				r.Hub.Hold(m)
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
func (r *Room) readNow(ctx context.Context, name string) (*insight.Moment, error) {
	n, ok := r.find(name)
	if !ok {
		return nil, &gpu.Advice{What: name + " is no longer read here"}
	}
	if err := n.refresh(ctx, r.Hub.Hold); err != nil {
		return nil, err
	}
	m, ok := r.Hub.Latest().Node(name)
	if !ok {
		return nil, &gpu.Advice{What: "nothing has been read from " + name + " yet"}
	}
	return m, nil
}
