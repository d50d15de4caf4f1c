package alerts

import (
	"slices"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// What actions on alerts reach, for principals who may act on some machines alone; see [action.Action].

// reachTarget is the node of the alert that a call is about.
func (r *Room) reachTarget(c *action.Call) ([]string, error) {
	nodes, _, err := r.reachOf(c, c.Target)
	return nodes, err
}

// reachOf returns the nodes of open alerts, and which of the alerts the principal sees. Others are left out, as if they were over.
func (r *Room) reachOf(c *action.Call, ids ...string) (nodes, seen []string, err error) {
	for _, a := range r.Book.Standing() {
		if slices.Contains(ids, a.ID) && c.Sees(a.Device.Node) {
			nodes, seen = append(nodes, a.Device.Node), append(seen, a.ID)
		}
	}
	if len(seen) == 0 {
		return nil, nil, unknown
	}
	return nodes, seen, nil
}

// reachNoted narrows an acknowledgment of several alerts to those that the principal sees.
func (r *Room) reachNoted(c *action.Call) ([]string, error) {
	note, _ := c.Args.(contract.NoteOfSeveral)
	nodes, seen, err := r.reachOf(c, note.IDs...)
	note.IDs = seen
	c.Args = note
	return nodes, err
}

// reachSilenced narrows a silence of several alerts to those that the principal sees.
func (r *Room) reachSilenced(c *action.Call) ([]string, error) {
	ask, _ := c.Args.(contract.SilenceOfSeveral)
	nodes, seen, err := r.reachOf(c, ask.IDs...)
	ask.IDs = seen
	c.Args = ask
	return nodes, err
}

// reachMatching narrows a silence that names no machine to the one that the request is about, or whose GPU it names.
func (r *Room) reachMatching(c *action.Call) ([]string, error) {
	ask, _ := c.Args.(contract.SilenceRequest)
	if ask.Node == "" {
		node := c.Node
		if node == "" {
			node = r.nodeOf(c, ask.GPUUUID)
		}
		if node == "" {
			return nil, action.ErrEverywhere
		}
		ask.Node = alert.Literally(node)
		c.Args = ask
	}
	return one(&alert.Silence{Node: ask.Node})
}

// nodeOf returns the only node with a GPU of that UUID that the principal sees; empty for none.
func (r *Room) nodeOf(c *action.Call, pattern string) (node string) {
	for p := range r.Newest().Parts() {
		switch {
		case alert.Literally(p.Device.UUID) != pattern || !c.Sees(p.Device.Node):
		case node != "" && node != p.Device.Node:
			return ""
		default:
			node = p.Device.Node
		}
	}
	return node
}

// one is the node that a silence names literally.
func one(x *alert.Silence) ([]string, error) {
	node, literally := x.One()
	if !literally {
		return nil, action.ErrEverywhere
	}
	return []string{node}, nil
}

// reachSilence is the node of the silence that is to end.
func (r *Room) reachSilence(c *action.Call) ([]string, error) {
	x, known := r.Book.FindSilence(c.Target)
	nodes, err := one(&x)
	if !known || err == nil && !c.Sees(nodes[0]) || err != nil && !c.Principal.Audience.SeesAll() {
		return nil, unknown
	}
	return nodes, err
}

// reachOrder is what a hub's order reaches.
func (r *Room) reachOrder(c *action.Call) (nodes []string, err error) {
	o, _ := c.Args.(order)
	switch {
	case o.Acknowledge != "" || o.Dismiss != "":
		nodes, _, err = r.reachOf(c, o.Acknowledge, o.Dismiss)
		return nodes, err
	case o.Unsilence != nil:
		return one(o.Unsilence)
	}
	for i := range o.Silence {
		of, err := one(&o.Silence[i])
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, of...)
	}
	return nodes, nil
}
