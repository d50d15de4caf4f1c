// Package downlink is a hub's side of a fleet: it takes in what agents publish of their nodes, knows which are silent, and
// asks them. It keeps nothing that another hub needs: any number of hubs have the same, each from NATS.
package downlink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

const (
	// together is how long Moments are gathered before they are handed on: many nodes send in a second, and who shows
	// them has something to do each time, however many they are.
	together = 100 * time.Millisecond
	// MostNodes is how many nodes a hub takes in.
	MostNodes = 20_000
	// asksWhole is how soon a node is asked for its whole state again.
	asksWhole = 5 * time.Second
	// goodbye bounds the end.
	goodbye = time.Second
	// helloEvery is how often a hub says that it is there.
	helloEvery = time.Minute
	// asked is how many nodes are asked for their recent past at the same time, and apart how long there is between two
	// questions at most: hubs that start together do not ask the same node at once.
	asked = 8
	apart = 20 * time.Millisecond
	// remembered is how far back events are read at the start, for the list of alerts that are over.
	remembered = 24 * time.Hour
)

// Config is what a downlink needs. Its functions are not called at the same time, but for Own.
type Config struct {
	Bus     *bus.Bus
	Limits  bus.Limits // of what is kept in NATS
	Version string
	// Own reports whether this program reads the node itself: nothing about it is taken from elsewhere.
	Own func(node string) bool
	// Take takes the newest Moments of nodes, at most one of each.
	Take func([]*insight.Moment)
	// Report takes what stands of the alerts of nodes.
	Report func(map[string]*alert.Report)
	// Event takes a change of an alert, each once and in order. Old ones are of the time before this program ran.
	Event func(c *alert.Change, old bool)
	// Gone takes that a node was taken out of the fleet.
	Gone func(node string)
	// Past takes what a node says of its recent past, after a Moment of it: when it has come, and when it has come back.
	Past  func(node string, past []byte) error
	Clock clock.Clock
	Log   *slog.Logger
}

// A Downlink has the nodes of a fleet. Its methods may be called at the same time.
type Downlink struct {
	Config

	handing sync.Mutex // held while the functions of Config are called

	packers wire.Packers
	texts   gpu.Shared

	mu      sync.Mutex
	nodes   map[string]*remote
	pending map[string]*remote       // whose Moment is to be handed on
	gone    []string                 // that are to be handed on
	removed map[string]time.Duration // nodes that were taken out lately, and when, as elapsed time
	owners  map[string][]string      // the nodes that list a device, by UUID
	full    uint64                   // messages of nodes beyond MostNodes
	refused map[string]uint64        // messages by node, also of those that are none
	wake    chan struct{}
	came    []string      // nodes whose recent past nobody has asked for yet
	some    chan struct{} // has a value when there are such
	wrong   [parts]problem
	reads   map[string]time.Time // when nodes were read last that are silent, as other hubs say
	run     string               // of this hub, random
}

// The parts of what is read, each of which can fail.
const (
	states = iota
	happenings
	parts
)

// A problem is why a part can't be read.
type problem struct {
	err   error
	since time.Time
}

// State is how a downlink does.
type State struct {
	Nodes, Silent int
	Refused       map[string]uint64 // messages that could not be taken, by node
	Full          uint64            // messages of nodes that are too many
	Err           error             // why the fleet can't be read now; nil
	Since         time.Time         // of Err
}

// New makes a Downlink.
func New(c Config) *Downlink {
	return &Downlink{
		Config: c, nodes: map[string]*remote{}, pending: map[string]*remote{}, owners: map[string][]string{},
		refused: map[string]uint64{}, removed: map[string]time.Duration{}, wake: make(chan struct{}, 1), some: make(chan struct{}, 1),
		reads: map[string]time.Time{}, run: rand.Text(),
	}
}

// State returns how it does now.
func (d *Downlink) State() State {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := State{Nodes: len(d.nodes), Full: d.full, Refused: maps.Clone(d.refused)}
	for _, p := range d.wrong {
		if p.err != nil && s.Err == nil {
			s.Err, s.Since = p.err, p.since
		}
	}
	for _, r := range d.nodes {
		if !r.silent.IsZero() {
			s.Silent++
		}
	}
	return s
}

// fails remembers why a part of the fleet can't be read, and logs it once; nil: it can be.
func (d *Downlink) fails(part int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &d.wrong[part]
	switch was := p.err; {
	case err != nil && (was == nil || was.Error() != err.Error()):
		p.since = d.Clock.Now()
		d.Log.Warn("the fleet can't be read", "err", err)
	case err == nil && was != nil:
		d.Log.Info("the fleet is read again")
	}
	p.err = err
}

// Run takes in what the fleet sends until ctx ends.
func (d *Downlink) Run(ctx context.Context) error {
	heard := &events{started: d.Clock.Now(), known: map[string]bool{}}
	var all sync.WaitGroup
	defer ended(&all)
	all.Go(func() { d.handOn(ctx) })
	live, err := d.Bus.Subscribe(bus.AllLive, func(m *nats.Msg) {
		if node, err := bus.NodeOfSubject(m.Subject); err == nil {
			d.receive(node, m.Data, time.Time{})
		}
	})
	if err != nil {
		return fmt.Errorf("the fleet can't be listened to: %w", err)
	}
	defer func() { _ = live.Unsubscribe() }() // the connection may be closed
	if d.Bus.Prepare(ctx, d.Limits) != nil {
		all.Go(func() { d.prepare(ctx) })
	}
	all.Go(func() { d.greet(ctx) })
	all.Go(func() { d.askPasts(ctx) })
	all.Go(func() { d.again(ctx, happenings, func(ctx context.Context) error { return d.hear(ctx, heard) }) })
	d.again(ctx, states, d.watch)
	return nil
}

// again does something that ends with an error until ctx ends.
func (d *Downlink) again(ctx context.Context, part int, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			d.fails(part, err)
		}
		pause(ctx)
	}
}

// greet tells agents and other hubs of this one. A hub that begins is told by the others since when machines are silent: what NATS keeps of a
// machine is up to half a minute older than the last that came of it.
func (d *Downlink) greet(ctx context.Context) {
	again, known := make(chan struct{}, 1), map[string]bool{}
	sub, err := d.Bus.Subscribe(bus.Hubs, func(m *nats.Msg) {
		var hello talk.Hub
		if err := json.Unmarshal(m.Data, &hello); err != nil || hello.Run == d.run {
			return
		}
		d.learn(hello.Silent)
		if hello.Run == "" || known[hello.Run] || len(known) >= mostHubs {
			return
		}
		known[hello.Run] = true
		select {
		case again <- struct{}{}:
		default:
		}
	})
	if err != nil {
		d.Log.Debug("other hubs can't be heard", "err", err)
	} else {
		defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
	}
	t := time.NewTicker(helloEvery)
	defer t.Stop()
	for {
		for _, silent := range d.silences() {
			hello, err := json.Marshal(talk.Hub{Version: d.Version, Protocol: wire.Spoken, Run: d.run, Silent: silent})
			if err == nil {
				err = d.Bus.Conn().Publish(bus.Hubs, hello)
			}
			if err != nil {
				d.Log.Debug("agents were not told of this hub", "err", err)
			}
		}
		select {
		case <-t.C:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// mostHubs is how many other hubs are told at once, and silentAtOnce how many machines a message tells of.
const mostHubs, silentAtOnce = 1000, 1000

// silences are when machines were read last that are silent here, in parts; at least one.
func (d *Downlink) silences() []map[string]time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []map[string]time.Time{{}}
	for name, r := range d.nodes {
		if r.silent.IsZero() || r.read.IsZero() {
			continue
		}
		last := all[len(all)-1]
		if len(last) == silentAtOnce {
			last = map[string]time.Time{}
			all = append(all, last)
		}
		last[name] = r.silent
	}
	return all
}

// learn takes in when machines were read last, as another hub says.
func (d *Downlink) learn(reads map[string]time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	for name, at := range reads {
		r := d.nodes[name]
		if at.After(now.Add(slack)) || r != nil && (!at.After(r.read) || r.silent.IsZero() && r.unsure == 0) {
			continue
		}
		if _, known := d.reads[name]; !known && len(d.reads) >= MostNodes {
			continue
		}
		d.reads[name] = at
		if r != nil && !r.silent.IsZero() && at.After(r.silent) {
			r.silent = at
			d.soon(r)
		}
	}
}

// prepare has NATS keep what the fleet needs. Where that fails, which the state of the bus tells, what there is can be read all
// the same.
func (d *Downlink) prepare(ctx context.Context) {
	for pause(ctx); d.Bus.Prepare(ctx, d.Limits) != nil && ctx.Err() == nil; {
		pause(ctx)
	}
}

// pause waits a little, and not all programs of a fleet for the same time.
func pause(ctx context.Context) {
	t := time.NewTimer(time.Second + mathrand.N(2*time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch reads the whole state of all nodes, and then each that is written anew.
func (d *Downlink) watch(ctx context.Context) error {
	kv, err := d.Bus.JetStream().KeyValue(ctx, bus.Bucket)
	if err != nil {
		return fmt.Errorf("the states of the fleet's nodes can't be read: %w", err)
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("the states of the fleet's nodes can't be read: %w", err)
	}
	defer func() { _ = w.Stop() }() // the connection may be closed
	seen, check := map[string]bool{}, time.NewTicker(wholeLate)
	defer check.Stop()
	quiet := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-check.C: // a consumer can stop without a word: nodes are heard, and their whole states not
			if quiet && d.hears() {
				return errors.New("no whole state of a node came for too long: they are read anew")
			}
			quiet = true
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("the states of the fleet's nodes can't be read any more")
			case e == nil: // all that there were
				d.fails(states, nil)
				d.missing(seen)
				continue
			}
			quiet = false
			node, err := bus.NodeOf(e.Key())
			if err != nil {
				continue // somebody else's
			}
			if e.Operation() != jetstream.KeyValuePut {
				d.remove(node)
				continue
			}
			seen[node] = true
			d.receive(node, e.Value(), e.Created())
		}
	}
}

// wholeLate is when a hub has waited too long for whole states.
const wholeLate = 2 * time.Minute

// hears reports whether a node is not silent.
func (d *Downlink) hears() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.nodes {
		if r.silent.IsZero() {
			return true
		}
	}
	return false
}

// missing takes nodes out that were taken out while nobody watched.
func (d *Downlink) missing(seen map[string]bool) {
	d.mu.Lock()
	var gone []string
	for name, r := range d.nodes {
		if !seen[name] && !r.silent.IsZero() {
			gone = append(gone, name)
		}
	}
	d.mu.Unlock()
	for _, name := range gone {
		d.remove(name)
	}
}

// heard is how many events a downlink remembers, to know those that come again.
const heard = 4096

// longestID is how many bytes the ID of an event has at most.
const longestID = 128

// events are what is known of the stream of events.
type events struct {
	started time.Time // when this program began to read them
	newest  time.Time // of those that came, by the clock of the stream
	known   map[string]bool
	order   []string // of known, the oldest first
}

// first reports whether an event comes for the first time.
func (e *events) first(id string) bool {
	if e.known[id] {
		return false
	}
	e.known[id], e.order = true, append(e.order, id)
	if len(e.order) > heard {
		delete(e.known, e.order[0])
		e.order = e.order[1:]
	}
	return true
}

// hear reads events, each once and in order, also where the connection or the stream was away in between.
func (d *Downlink) hear(ctx context.Context, e *events) error {
	since := e.newest
	if since.IsZero() {
		since = e.started.Add(-remembered)
	}
	consumer, err := d.Bus.JetStream().OrderedConsumer(ctx, bus.EventStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
	})
	if err != nil {
		return fmt.Errorf("the events of the fleet can't be read: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(4 << 20))
	if err != nil {
		return fmt.Errorf("the events of the fleet can't be read: %w", err)
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	d.fails(happenings, nil)
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return fmt.Errorf("the events of the fleet can't be read: %w", err)
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("the events of the fleet can't be read: %w", err)
		}
		if at.Timestamp.After(e.newest) {
			e.newest = at.Timestamp
		}
		node, err := bus.NodeOfSubject(m.Subject())
		if err != nil || d.Own(node) {
			continue
		}
		id := m.Headers().Get(jetstream.MsgIDHeader)
		if id == "" || len(id) > longestID {
			d.refuse(node, errors.New("an event has no ID, or too long a one"))
			continue
		}
		if !e.first(id) {
			continue
		}
		if !insight.Addressable(node) {
			d.refuse(node, errNoAddress)
			continue
		}
		if len(m.Data()) > bus.LargestEvent {
			d.refuse(node, errors.New("an event is too large"))
			continue
		}
		c, err := talk.UnmarshalEvent(m.Data())
		if err == nil && c.Device.Node != node {
			err = fmt.Errorf("an event is of another node, %.64q", c.Device.Node)
		}
		if err != nil {
			d.refuse(node, err)
			continue
		}
		if c.Time.Sub(at.Timestamp) > ahead {
			d.refuse(node, errors.New("an event is of the future"))
			continue
		}
		d.told(&c, at.Timestamp.Before(e.started))
	}
}

// told hands an event on.
func (d *Downlink) told(c *alert.Change, old bool) {
	d.handing.Lock()
	defer d.handing.Unlock()
	d.Event(c, old)
}

// ended waits for what has been told to end, but not for a NATS that hangs.
func ended(all *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(goodbye):
	}
}
