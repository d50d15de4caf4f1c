// Package downlink is a hub's side of a fleet: it receives what agents publish, and asks nodes questions. It knows
// which nodes are silent. It keeps nothing that another hub needs: every hub gets the same data from NATS.
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
	// together is how long Moments are gathered before they are handed on. Many nodes send every second, and each handover
	// costs its receiver the same, however many Moments it has.
	together = 100 * time.Millisecond
	// MostNodes is how many nodes a hub accepts.
	MostNodes = 20_000
	// asksWhole is the shortest time between two requests for a node's whole state.
	asksWhole = 5 * time.Second
	// goodbye bounds the end.
	goodbye = time.Second
	// helloEvery is how often a hub announces itself.
	helloEvery = time.Minute
	// asked is how many nodes are asked for their recent past at the same time, and apart the longest pause between two
	// questions, so that hubs that start together do not ask the same node at once.
	asked = 8
	apart = 20 * time.Millisecond
	// remembered is how far back events are read at the start, for the list of alerts that are over.
	remembered = 24 * time.Hour
)

// Config configures a downlink. Its functions are called one at a time, except Own.
type Config struct {
	Bus     *bus.Bus
	Limits  bus.Limits // of what is kept in NATS
	Version string
	// Signer signs the questions; nil: nobody does, and nodes let this hub read alone.
	Signer *talk.Signer
	// Own reports whether this program reads the node itself: messages about such nodes are ignored.
	Own func(node string) bool
	// Take receives the newest Moments of nodes, at most one of each.
	Take func([]*insight.Moment)
	// Report receives the current alerts and silences of nodes.
	Report func(map[string]*alert.Report)
	// Event receives each change of an alert, once and in order. Old ones happened before this program ran.
	Event func(c *alert.Change, old bool)
	// Gone is told that a node was removed from the fleet.
	Gone func(node string)
	// Past receives a node's recent past, after one of its Moments: when the node has joined, and when it has come back.
	Past  func(node string, past []byte) error
	Clock clock.Clock
	Log   *slog.Logger
}

// A Downlink has the nodes of a fleet. Several goroutines may call its methods.
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

// State is the state of a downlink.
type State struct {
	Nodes, Silent int
	Refused       map[string]uint64 // refused messages, by node
	Full          uint64            // messages of nodes beyond MostNodes
	Err           error             // why the fleet can't be read now; nil if it can
	Since         time.Time         // of Err
}

// New returns a Downlink.
func New(c Config) *Downlink {
	return &Downlink{
		Config: c, nodes: map[string]*remote{}, pending: map[string]*remote{}, owners: map[string][]string{},
		refused: map[string]uint64{}, removed: map[string]time.Duration{}, wake: make(chan struct{}, 1), some: make(chan struct{}, 1),
		reads: map[string]time.Time{}, run: rand.Text(),
	}
}

// State returns the current state.
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
		d.Log.Warn("can't read the fleet", "err", err)
	case err == nil && was != nil:
		d.Log.Info("the fleet is read again")
	}
	p.err = err
}

// Run receives what the fleet sends until ctx ends.
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
		return fmt.Errorf("can't subscribe to the fleet: %w", err)
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

// again repeats something that ends with an error, until ctx ends.
func (d *Downlink) again(ctx context.Context, part int, do func(context.Context) error) {
	for ctx.Err() == nil {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			d.fails(part, err)
		}
		pause(ctx)
	}
}

// greet announces this hub to agents and other hubs. The others tell a starting hub since when machines are silent, because the state that NATS
// stores of a machine is up to half a minute older than its last message.
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
		d.Log.Debug("can't subscribe to messages of other hubs", "err", err)
	} else {
		defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
	}
	t := time.NewTicker(helloEvery)
	defer t.Stop()
	for {
		for _, silent := range d.silences() {
			hello, err := json.Marshal(d.hello(silent))
			if err == nil {
				err = d.Bus.Conn().Publish(bus.Hubs, hello)
			}
			if err != nil {
				d.Log.Debug("can't announce this hub to agents", "err", err)
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

// hello is what this hub announces.
func (d *Downlink) hello(silent map[string]time.Time) talk.Hub {
	h := talk.Hub{Version: d.Version, Protocol: wire.Spoken, Run: d.run, Silent: silent, Key: d.Signer.Public()}
	if h.Key != nil {
		h.Name = d.Signer.Name
	}
	return h
}

// mostHubs is how many other hubs are told at once, and silentAtOnce how many machines one message lists.
const mostHubs, silentAtOnce = 1000, 1000

// silences returns, for machines that are silent here, when they were last read, in parts; at least one.
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

// learn takes over when machines were last read, as another hub reports.
func (d *Downlink) learn(reads map[string]time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	for name, read := range reads {
		r := d.nodes[name]
		if read.After(now.Add(slack)) || r != nil && (!read.After(r.read) || r.silent.IsZero() && r.unsure == 0) {
			continue
		}
		if _, known := d.reads[name]; !known && len(d.reads) >= MostNodes {
			continue
		}
		d.reads[name] = read
		if r != nil && !r.silent.IsZero() && read.After(r.silent) {
			r.silent = read
			d.soon(r)
		}
	}
}

// prepare makes NATS store what the fleet needs. If that fails, the state of the bus says so, and existing data can still be
// read.
func (d *Downlink) prepare(ctx context.Context) {
	for pause(ctx); d.Bus.Prepare(ctx, d.Limits) != nil && ctx.Err() == nil; {
		pause(ctx)
	}
}

// pause waits a little, for a random time, so that the programs of a fleet don't act at once.
func pause(ctx context.Context) {
	t := time.NewTimer(time.Second + mathrand.N(2*time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch reads the whole state of all nodes, and then each new one.
func (d *Downlink) watch(ctx context.Context) error {
	kv, err := d.Bus.JetStream().KeyValue(ctx, bus.Bucket)
	if err != nil {
		return fmt.Errorf("can't read the states of the fleet's nodes: %w", err)
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return fmt.Errorf("can't read the states of the fleet's nodes: %w", err)
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
				return errors.New("no whole state of a node arrived for too long: reading them again")
			}
			quiet = true
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return errors.New("can't read the states of the fleet's nodes any more")
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

// wholeLate is how long a hub waits for whole states.
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

// missing removes nodes that were removed from the fleet while nobody watched.
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

// heard is how many events a downlink remembers, to recognize repeated ones.
const heard = 4096

// longestID is how many bytes the ID of an event may have.
const longestID = 128

// events is what is known about the stream of events.
type events struct {
	started time.Time // when this program began to read them
	newest  time.Time // of those that came, by the clock of the stream
	known   map[string]bool
	order   []string // of known, the oldest first
}

// first reports whether an event arrives for the first time.
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

// hear reads events, each once and in order, even if the connection or the stream was away in between.
func (d *Downlink) hear(ctx context.Context, e *events) error {
	since := e.newest
	if since.IsZero() {
		since = e.started.Add(-remembered)
	}
	consumer, err := d.Bus.JetStream().OrderedConsumer(ctx, bus.EventStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since,
	})
	if err != nil {
		return fmt.Errorf("can't read the fleet's events: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(4 << 20))
	if err != nil {
		return fmt.Errorf("can't read the fleet's events: %w", err)
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	d.fails(happenings, nil)
	defer messages.Stop()
	for {
		m, err := messages.Next()
		if err != nil {
			return fmt.Errorf("can't read the fleet's events: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("can't read the fleet's events: %w", err)
		}
		if meta.Timestamp.After(e.newest) {
			e.newest = meta.Timestamp
		}
		node, err := bus.NodeOfSubject(m.Subject())
		if err != nil || d.Own(node) {
			continue
		}
		id := m.Headers().Get(jetstream.MsgIDHeader)
		if id == "" || len(id) > longestID {
			d.refuse(node, errors.New("an event has no ID, or one that is too long"))
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
			err = fmt.Errorf("an event is about another node, %.64q", c.Device.Node)
		}
		if err != nil {
			d.refuse(node, err)
			continue
		}
		if c.Time.Sub(meta.Timestamp) > ahead {
			d.refuse(node, errors.New("an event is dated in the future"))
			continue
		}
		d.told(&c, meta.Timestamp.Before(e.started))
	}
}

// told hands an event on.
func (d *Downlink) told(c *alert.Change, old bool) {
	d.handing.Lock()
	defer d.handing.Unlock()
	d.Event(c, old)
}

// ended waits for what has been told to end, but not for a hanging NATS client.
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
