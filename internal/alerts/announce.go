package alerts

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// announceAll sends the changes to viewers and to targets, and has them kept; the hub keeps
// standing alerts encoded for new viewers. Alerts of nodes without changes are not encoded again.
func (r *Room) announceAll(nodes []string, changes []alert.Change, standing []alert.Alert) {
	now := r.Newest()
	r.notifier.Notify(changes, func(a *alert.Alert) *notify.Answer {
		if p, ok := now.Device(a.Device.Node, a.Device.UUID); ok {
			return p.Why
		}
		return nil
	})
	var news []hub.Event
	for i := range changes {
		if c := &changes[i]; c.News != alert.Repeated {
			news = r.appendEvent(news, contract.NameOf(c.Rule, c.News), &c.Alert, now)
		}
	}
	anew := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		anew[node] = true
	}
	known := make(map[string]func() []hub.Event, len(standing))
	stand := make([]func() []hub.Event, len(standing))
	for i, a := range standing {
		event := r.standing[a.ID]
		if event == nil || nodes == nil || anew[a.Device.Node] {
			about := now
			if m, ok := now.Node(a.Device.Node); ok {
				about = m.Alone() // so that no Moment of another node is held
			}
			event = sync.OnceValue(func() []hub.Event { return r.appendEvent(nil, contract.NameOf(a.Rule, alert.Fired), &a, about) })
		}
		known[a.ID], stand[i] = event, event
	}
	r.standing, r.stand = known, stand
	r.announce(news)
	r.cfg.Changed(changes)
	if nodes == nil { // not while a Moment is observed
		r.cfg.Hub.Turn()
	}
	if nodes == nil || len(changes) > 0 { // a silence of nothing that fires is a change as well
		r.cfg.Keeper.Soon()
	}
}

// announce sends news to viewers, and gives new viewers what stands now. The caller holds the alerts.
func (r *Room) announce(news []hub.Event) {
	stand := r.stand
	r.cfg.Hub.Announce(news, func() (all []hub.Event) {
		for _, event := range stand {
			all = append(all, event()...)
		}
		now := r.Newest()
		for _, other := range r.Book.Others() {
			all = r.appendEvent(all, contract.NameOf(other.Rule, alert.Fired), &other, now)
		}
		return all
	})
}

func (r *Room) appendEvent(events []hub.Event, name string, a *alert.Alert, now *insight.Fleet) []hub.Event {
	told := contract.NewAlert(a, now)
	data, err := json.Marshal(told)
	if err != nil {
		r.cfg.Log.Error("can't encode an alert", "alert", a.ID, "err", err)
		return events
	}
	e := hub.Event{Name: name, Node: a.Device.Node, UUID: a.Device.UUID, Index: a.Device.Index, Data: data}
	if processes := a.Processes; len(processes) > 0 {
		e.Other = func(commands auth.Commands) []byte {
			other := told
			other.Processes = contract.NewProcesses(insight.ProcessesFor(processes, commands))
			text, _ := json.Marshal(other) // as it could be written with other command lines
			return text
		}
	}
	return append(events, e)
}

// toldAnew is how old the list of standing alerts for new viewers may be, as long as the same alerts stand.
const toldAnew = 10 * time.Second

// Reported takes in what other programs say of alerts.
func (r *Room) Reported(reports map[string]*alert.Report) {
	news := false
	for node, report := range reports {
		news = r.Book.Take(node, report) || news
	}
	// A new viewer gets all standing alerts. With thousands of alerts, that takes long to encode, and each announcement makes it start over. With an
	// announcement for each batch of reports, no new viewer would ever be served.
	if now := r.cfg.Clock.Elapsed(); news || now-r.told > toldAnew {
		r.told = now
		r.Book.Hold(func() { r.announce(nil) })
	}
	if news {
		r.cfg.Hub.Turn()
	}
}

// Happened tells viewers of a change of an alert of another program. An old one is of the time before this program ran.
func (r *Room) Happened(c *alert.Change, old bool) {
	if c.News == alert.Over {
		r.Book.Ended(&c.Alert)
	}
	if old {
		return
	}
	r.Book.Tell(c)
	var news []hub.Event
	if c.News != alert.Repeated {
		news = r.appendEvent(nil, contract.NameOf(c.Rule, c.News), &c.Alert, r.Newest())
	}
	r.Book.Hold(func() { r.announce(news) })
	r.cfg.Hub.Turn()
}
