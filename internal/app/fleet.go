package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/downlink"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
)

// A Fleet is how the program takes part in a fleet of gpuwhys. The App closes it.
type Fleet struct {
	Bus *bus.Bus
	// Publishes: this program publishes the nodes that it reads. Shows: it shows nodes that others publish.
	Publishes, Shows bool
	// Records: it stores their past together with its own.
	Records bool
	Limits  bus.Limits // of what NATS stores
	Joins   string     // the URL of the server within this program; empty: there is none
	// Server is the fleet's server within this program; nil if it runs elsewhere. It is closed after the Bus.
	Server Server
}

// A Server carries messages between the programs of a fleet.
type Server interface {
	// Trouble returns why it can't store messages, and since when; nil if it can.
	Trouble() (what *gpu.Advice, since time.Time)
	Close() error
}

// several reports whether there may be more than one node.
func (o *Options) several(inputs []*Inputs) bool {
	return len(inputs) != 1 || o.Fleet != nil && o.Fleet.Shows || o.Clusters != nil
}

// locals are the nodes that this program reads. They may come and go.
type locals struct {
	mu    sync.Mutex
	nodes []*node
}

// all are the nodes there are now.
func (l *locals) all() []*node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes
}

// find finds a node by name.
func (l *locals) find(name string) (*node, bool) {
	nodes := l.all()
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.Node == name })
	if i < 0 {
		return nil, false
	}
	return nodes[i], true
}

func (l *locals) has(name string) bool {
	_, ok := l.find(name)
	return ok
}

// only returns the name of the only node; empty if there are several, or none.
func (l *locals) only() string {
	if nodes := l.all(); len(nodes) == 1 {
		return nodes[0].Node
	}
	return ""
}

// origin returns where the readings come from, for state that survives a restart.
func (l *locals) origin() string {
	if nodes := l.all(); len(nodes) > 0 {
		return nodes[0].Origin
	}
	return ""
}

// add adds a node.
func (l *locals) add(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(slices.Clip(l.nodes), n)
}

// remove removes a node.
func (l *locals) remove(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = slices.DeleteFunc(slices.Clone(l.nodes), func(other *node) bool { return other == n })
}

// run reads the nodes that there are until ctx ends.
func (l *locals) run(ctx context.Context, g *errgroup.Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.nodes {
		g.Go(func() error { return n.run(ctx) })
	}
}

// own passes on the Moments of nodes that this program reads.
func own(f func(*insight.Moment)) func(*insight.Moment) {
	return func(m *insight.Moment) {
		if !m.Link.Remote {
			f(m)
		}
	}
}

// wireFleet wires publishing, and showing what others publish.
func (a *App) wireFleet() {
	f := a.opt.Fleet
	if f == nil {
		return
	}
	log := a.log.With("part", "fleet")
	if f.Publishes {
		a.uplink = uplink.New(uplink.Config{
			Bus: f.Bus, Version: a.opt.Version, Interval: a.opt.Interval, Alerts: a.Alerts, Act: a.desk.Answer, Recent: a.Recent.Past,
			Clock: a.opt.Clock, Log: log,
		})
	}
	if !f.Shows {
		return
	}
	a.downlink = downlink.New(downlink.Config{
		Bus: f.Bus, Limits: f.Limits, Version: a.opt.Version, Own: a.local.has,
		Take: a.takeIn, Report: a.reported, Event: a.eventOf, Gone: a.forget, Past: a.Recent.Fill, Clock: a.opt.Clock, Log: log,
	})
	a.desk.Join(a.downlink)
}

// runFleet starts both.
func (a *App) runFleet(ctx context.Context, g *errgroup.Group) {
	if a.uplink != nil {
		g.Go(func() error { return a.uplink.Run(ctx) })
	}
	if a.downlink != nil {
		g.Go(func() error { return a.downlink.Run(ctx) })
	}
	h := a.opt.History
	if a.opt.Fleet == nil || h == nil {
		return
	}
	stream := a.opt.Fleet.Bus.JetStream()
	if h.Outbox != nil {
		sending := a.untilRecorded(ctx)
		g.Go(func() error { h.Outbox.Send(sending, stream, bus.Past); return nil })
	}
	if a.opt.Fleet.Records {
		a.collector = deliver.NewCollector(deliver.CollectorConfig{
			Store: h.Store, Retention: h.Retention, JetStream: stream, Stream: bus.PastStream, NodeOf: bus.NodeOfSubject,
			Log: a.log.With("part", "fleet"), Now: a.opt.Clock.Now, Place: h.Place, Own: a.local.has,
		})
		g.Go(func() error { return a.collector.Run(ctx) })
	}
}

// lastRecord is how long to wait at the end for the last write, so that it is delivered too.
const lastRecord = 2 * time.Second

// untilRecorded returns a context that ends when ctx has ended and the last of the past is written, or takes too long.
func (a *App) untilRecorded(ctx context.Context) context.Context {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer cancel()
		late := time.NewTimer(lastRecord)
		defer late.Stop()
		select {
		case <-a.recorded:
		case <-late.C:
		}
	})
	return sending
}

// closeFleet closes the program's part in a fleet.
func (a *App) closeFleet() error { return a.opt.Fleet.Close() }

// Close closes the connection, and then the server within this program. f may be nil.
func (f *Fleet) Close() (err error) {
	if f == nil {
		return nil
	}
	if f.Bus != nil {
		if err = f.Bus.Close(); err != nil {
			err = fmt.Errorf("close the connection to the fleet: %w", err)
		}
	}
	if f.Server != nil {
		if closing := f.Server.Close(); err == nil && closing != nil {
			err = fmt.Errorf("close the fleet's server: %w", closing)
		}
	}
	return err
}

// takeIn publishes Moments of nodes that other programs read.
func (a *App) takeIn(moments []*insight.Moment) { a.Hub.PublishAll(moments) }

// toldAnew is how old the list of standing alerts for new viewers may be, as long as the same alerts stand.
const toldAnew = 10 * time.Second

// reported takes in reports of other programs about alerts.
func (a *App) reported(reports map[string]*alert.Report) {
	news := false
	for node, r := range reports {
		news = a.alerting.Book.Take(node, r) || news
	}
	// A new viewer gets all standing alerts. With thousands of alerts, that takes long to encode, and each announcement makes it start over. With an
	// announcement for each batch of reports, no new viewer would ever be served.
	if now := a.opt.Clock.Elapsed(); news || now-a.told > toldAnew {
		a.told = now
		a.Alerts.Hold(func() { a.announce(nil) })
	}
	if news {
		a.Hub.Turn()
	}
}

// eventOf tells viewers about a change of another program's alert.
func (a *App) eventOf(c *alert.Change, old bool) {
	if c.News == alert.Over {
		a.alerting.Book.Ended(&c.Alert)
	}
	if old {
		return
	}
	a.alerting.Book.Tell(c)
	var news []hub.Event
	if c.News != alert.Repeated {
		news = a.appendEvent(nil, contract.NameOf(c.Rule, c.News), &c.Alert, a.Hub.Newest())
	}
	a.Alerts.Hold(func() { a.announce(news) })
	a.Hub.Turn()
}

// forget forgets a node that was removed from the fleet.
func (a *App) forget(node string) {
	a.alerting.Book.Take(node, nil)
	a.Remove(node)
}

// remotes returns the nodes that other programs read and that can be asked.
func (a *App) remotes() []string {
	if a.downlink == nil {
		return nil
	}
	return a.downlink.Awake()
}

// fleeting returns the state of the connection to the fleet.
func (a *App) fleeting() contract.Part {
	s := a.opt.Fleet.Bus.State()
	part := contract.NewPart("ok", time.Time{})
	if server := a.opt.Fleet.Server; server != nil {
		if trouble, since := server.Trouble(); trouble != nil {
			return part.Failed(trouble, since)
		}
	}
	switch {
	case s.Err != nil:
		return part.Failed(s.Err, s.Since)
	case !s.Connected:
		return contract.Part{State: "starting"}
	}
	if a.downlink != nil {
		switch d := a.downlink.State(); {
		case d.Err != nil:
			return part.Failed(d.Err, d.Since)
		case d.Full > 0:
			return part.Failed(&gpu.Advice{
				What: fmt.Sprintf("the fleet has more than %d machines, and the others are not shown", downlink.MostNodes), Try: "divide it into several fleets",
			}, time.Time{})
		}
	}
	return part
}

// fleetSelf returns what gpuwhy reports about its part in the fleet on /metrics; nil if it has none.
func (a *App) fleetSelf() *metrics.Fleet {
	f := a.opt.Fleet
	if f == nil {
		return nil
	}
	s := f.Bus.State()
	out := &metrics.Fleet{Connected: s.Connected, Dropped: s.Dropped}
	if a.downlink != nil {
		d := a.downlink.State()
		out.Sending, out.Silent, out.Refused = d.Nodes-d.Silent, d.Silent, d.Refused
	}
	if a.uplink != nil {
		u := a.uplink.State()
		out.EventsWaiting, out.EventsLost = u.Waiting, u.Lost
	}
	return out
}

// member returns the program's role in a fleet; nil if it has none.
func (a *App) member() *contract.Member {
	f := a.opt.Fleet
	if f == nil {
		return nil
	}
	m := &contract.Member{Joins: f.Joins, Shows: f.Shows, Publishes: f.Publishes}
	if a.downlink != nil {
		s := a.downlink.State()
		m.Nodes, m.Silent, m.Refused = s.Nodes, s.Silent, s.Refused
	}
	if a.uplink != nil {
		m.Events = a.uplink.State().Waiting
	}
	if h := a.opt.History; h != nil && h.Outbox != nil {
		m.Past = h.Outbox.State().Waiting
	}
	return m
}

// partsOfDelivery adds the state of delivering and recording the past.
func (a *App) partsOfDelivery(parts map[string]contract.Part) {
	if h := a.opt.History; h != nil && h.Outbox != nil {
		s := h.Outbox.State()
		part := contract.NewPart("ok", s.Last)
		switch lost := s.Lost.String(); {
		case s.Err != nil:
			part = part.Failed(s.Err, s.Since)
		case lost != "":
			part = part.Failed(&gpu.Advice{
				What: "a part of the past was dropped before it reached the fleet: " + lost, Try: "check that recorders run, and that NATS has space",
			}, time.Time{})
		}
		parts["delivery"] = part
	}
	if a.collector != nil {
		s := a.collector.State()
		part := contract.NewPart("ok", s.Last)
		if s.Err != nil {
			part = part.Failed(s.Err, s.Since)
		}
		parts["recorder"] = part
	}
}
