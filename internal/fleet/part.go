// Package fleet publishes this program's nodes to other gpuwhys, and shows the nodes that others publish. What carries that,
// and the server of it, are for the packages below.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/downlink"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Options say what a program has to do with other gpuwhys.
type Options struct {
	Bus *bus.Bus
	// Publishes: this program publishes the nodes that it reads. Shows: it shows nodes that others publish.
	Publishes, Shows bool
	Limits           bus.Limits // of what NATS keeps
	// Signer signs the questions of a program that shows; nil: nobody does. Allow is what hubs may ask one that publishes for at most.
	Signer *talk.Signer
	Allow  uplink.Allow
	Joins  string // the URL of the server within this program; empty: there is none
	// Server is the fleet's server within this program; nil if it runs elsewhere. It is closed after the Bus.
	Server Server
}

// A Server carries messages between the programs of a fleet.
type Server interface {
	// Trouble returns why it can't store messages, and since when; nil if it can.
	Trouble() (what *gpu.Advice, since time.Time)
	Close() error
}

// Close closes the connection, and then the server within this program. o may be nil: there is no fleet.
func (o *Options) Close() (err error) {
	if o == nil {
		return nil
	}
	if o.Bus != nil {
		if err = o.Bus.Close(); err != nil {
			err = fmt.Errorf("close the connection to the fleet: %w", err)
		}
	}
	if o.Server != nil {
		if closing := o.Server.Close(); err == nil && closing != nil {
			err = fmt.Errorf("close the fleet's server: %w", closing)
		}
	}
	return err
}

// Alerts takes what other programs say of their alerts.
type Alerts interface {
	// Reported takes what stands of the alerts of nodes.
	Reported(map[string]*alert.Report)
	// Happened takes a change of an alert, each once and in order. Old ones are of the time before this program ran.
	Happened(c *alert.Change, old bool)
}

// A Recent has the last minutes of nodes, as programs hand them to each other.
type Recent interface {
	Past(node string) ([]byte, error)
	Fill(node string, past []byte) error
}

// Config is what a Room needs.
type Config struct {
	part.Host
	Options
	Engine *alert.Engine // has the alerts of the nodes that are read here
	Alerts Alerts
	Recent Recent
	// Act does what another program asks for about a node, on behalf of who wants that.
	Act func(ctx context.Context, node string, q *action.Question, asker auth.Principal) (any, error)
	// Undelivered is how much of the past waits until NATS takes it.
	Undelivered func() int
}

// A Room has the connection to the fleet.
type Room struct {
	Config
	uplink   *uplink.Uplink     // nil where nothing is published
	hubs     *uplink.Hubs       // as uplink
	downlink *downlink.Downlink // nil where nothing of others is shown
}

// New makes the parts that a program has in a fleet: the [Room], and those that publish and that take in.
func New(cfg Config) (parts []part.Part) {
	cfg.Log = cfg.Log.With("part", "fleet")
	r := &Room{Config: cfg}
	parts = append(parts, r)
	if cfg.Publishes {
		r.hubs = uplink.NewHubs(cfg.Allow, cfg.Clock, cfg.Log, cfg.Keeper.Soon)
		r.uplink = uplink.New(uplink.Config{
			Hubs: r.hubs, Bus: cfg.Bus, Version: cfg.Version, Interval: cfg.Interval, Alerts: cfg.Engine, Act: cfg.Act, Recent: cfg.Recent.Past,
			Clock: cfg.Clock, Log: cfg.Log,
		})
		parts = append(parts, publishing{r.uplink, cfg.Own})
	}
	if cfg.Shows {
		r.downlink = downlink.New(downlink.Config{
			Bus: cfg.Bus, Limits: cfg.Limits, Version: cfg.Version, Signer: cfg.Signer, Own: cfg.Own,
			Take: cfg.Hub.PublishAll, Report: cfg.Alerts.Reported, Event: cfg.Alerts.Happened, Gone: cfg.Remove, Past: cfg.Recent.Fill,
			Clock: cfg.Clock, Log: cfg.Log,
		})
		parts = append(parts, showing{r.downlink})
	}
	return parts
}

// A publishing part tells the fleet what this program reads, with what stands of its alerts.
type publishing struct {
	*uplink.Uplink
	own func(node string) bool
}

// Name implements [part.Part].
func (publishing) Name() string { return "uplink" }

// Watched says that somebody looks: the whole fleet does.
func (publishing) Watched() bool { return true }

// Observe publishes the Moments of nodes that are read here.
func (p publishing) Observe(moments []*insight.Moment) {
	for _, m := range moments {
		if !m.Link.Remote {
			p.Uplink.Observe(m)
		}
	}
}

// Changed tells the fleet of changes of alerts of nodes that are read here.
func (p publishing) Changed(changes []alert.Change) {
	p.Announce(slices.DeleteFunc(slices.Clone(changes), func(c alert.Change) bool { return !p.own(c.Device.Node) }))
}

// A showing part takes in what other programs publish, and asks them.
type showing struct{ *downlink.Downlink }

// Name implements [part.Part].
func (showing) Name() string { return "downlink" }

var _ action.Fleet = showing{}

// Name implements [part.Part].
func (r *Room) Name() string { return "fleet" }

// Documents has the keys of hubs.
func (r *Room) Documents() []state.Document {
	if r.hubs == nil {
		return nil
	}
	return []state.Document{state.Of("hubs", "the keys of hubs", state.Promptly, r.hubs)}
}

// Close closes the connection, and the server.
func (r *Room) Close() error { return r.Options.Close() }

// Health is how the connection to the fleet does.
func (r *Room) Health() map[string]contract.Part {
	return map[string]contract.Part{"fleet": r.health()}
}

func (r *Room) health() contract.Part {
	s := r.Bus.State()
	health := contract.NewPart("ok", time.Time{})
	if r.Server != nil {
		if trouble, since := r.Server.Trouble(); trouble != nil {
			return health.Failed(trouble, since)
		}
	}
	switch {
	case s.Err != nil:
		return health.Failed(s.Err, s.Since)
	case !s.Connected:
		return contract.Part{State: "starting"}
	}
	if r.downlink != nil {
		switch d := r.downlink.State(); {
		case d.Err != nil:
			return health.Failed(d.Err, d.Since)
		case d.Full > 0:
			return health.Failed(&gpu.Advice{
				What: fmt.Sprintf("the fleet has more than %d machines, and the others are not shown", downlink.MostNodes), Try: "divide it into several fleets",
			}, time.Time{})
		}
	}
	return health
}

// Measure fills in how the program's part in the fleet does.
func (r *Room) Measure(self *metrics.Self) {
	s := r.Bus.State()
	now := &Traffic{Connected: s.Connected, Dropped: s.Dropped}
	if r.downlink != nil {
		d := r.downlink.State()
		now.Sending, now.Silent, now.Refused = d.Nodes-d.Silent, d.Silent, d.Refused
	}
	if r.uplink != nil {
		u := r.uplink.State()
		now.EventsWaiting, now.EventsLost = u.Waiting, u.Lost
	}
	self.Parts = append(self.Parts, Metrics.Of(now))
}

// Member is what the program has to do with the fleet.
func (r *Room) Member() *contract.Member {
	m := &contract.Member{Joins: r.Joins, Shows: r.Shows, Publishes: r.Publishes, Past: r.Undelivered()}
	if r.downlink != nil {
		s := r.downlink.State()
		m.Nodes, m.Silent, m.Refused = s.Nodes, s.Silent, s.Refused
	}
	if r.uplink != nil {
		m.Events = r.uplink.State().Waiting
	}
	return m
}
