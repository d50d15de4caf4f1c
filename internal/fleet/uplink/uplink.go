// Package uplink is an agent's side of a fleet: it publishes its nodes, and answers hubs. It publishes the Moments and
// alerts of the nodes that this program reads. docs/fleet.md lists the subjects and what they carry.
package uplink

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

const (
	// wholeEvery is how often a node's whole state is stored for hubs that start.
	wholeEvery = 30 * time.Second
	// wholeApart is the shortest time before it is stored again because its answer has changed.
	wholeApart = 3 * time.Second
	// mostEvents is how many events may wait to be sent; beyond that, the oldest are dropped.
	mostEvents = 10_000
	// patience is how long NATS may take to store a message.
	patience = 5 * time.Second
	// mostProcesses is how many processes an event names: the main causes.
	mostProcesses = 16
	// goodbye is how long the last message may take.
	goodbye = time.Second
)

// Config configures an uplink.
type Config struct {
	Bus      *bus.Bus
	Version  string
	Interval time.Duration // between readings
	Alerts   *alert.Engine
	// Act performs an action that a hub asks for, on behalf of the asker, and returns a Moment or a value to be written as JSON. Its
	// error is [action.ErrUnknown] for actions that hubs can't ask for.
	Act func(ctx context.Context, node string, q *action.Question, asker auth.Principal) (any, error)
	// Hubs decide what hubs may ask for; nil: they may ask what [DefaultAllow] says, and their keys are not kept.
	Hubs *Hubs
	// Recent returns a node's recent past, in the form for hubs.
	Recent func(node string) ([]byte, error)
	Clock  clock.Clock
	Log    *slog.Logger
}

// An Uplink publishes what one program reads. Several goroutines may call its methods.
type Uplink struct {
	Config
	hello   wire.Hello
	packers wire.Packers

	mu       sync.Mutex
	nodes    map[string]*node
	events   []event
	more     chan struct{} // has a value when there are events
	lost     uint64        // events that had no room
	secret   string        // of this run, in the IDs of events
	numbered uint64        // events so far
	run      func(*node)   // starts one, once Run runs
}

// New returns an Uplink.
func New(c Config) *Uplink {
	if c.Hubs == nil {
		c.Hubs = NewHubs(DefaultAllow, c.Clock, c.Log, nil)
	}
	return &Uplink{
		Config: c, nodes: map[string]*node{}, more: make(chan struct{}, 1), secret: rand.Text(),
		hello: wire.Hello{Version: c.Version, Started: c.Clock.Now().UTC(), Interval: c.Interval},
	}
}

// State is the state of an uplink.
type State struct {
	Nodes   int    // that were published
	Waiting int    // events that nobody has taken yet
	Lost    uint64 // events that had no room
}

// State returns the current state.
func (u *Uplink) State() State {
	u.mu.Lock()
	defer u.mu.Unlock()
	return State{Nodes: len(u.nodes), Waiting: len(u.events), Lost: u.lost}
}

// Observe publishes a Moment. It does not wait: a newer Moment of a node replaces one that was not sent yet.
func (u *Uplink) Observe(m *insight.Moment) {
	u.mu.Lock()
	n := u.nodes[m.Snapshot.Node]
	if n == nil {
		n = &node{Uplink: u, name: m.Snapshot.Node, next: make(chan *insight.Moment, 1), whole: make(chan struct{}, 1), keeps: make(chan []byte, 1)}
		u.nodes[n.name] = n
		if u.run != nil {
			u.run(n)
		}
	}
	u.mu.Unlock()
	select {
	case <-n.next:
	default:
	}
	select {
	case n.next <- m:
	default: // Observe is called for one Moment of a node at a time
	}
}

// An event is a change of an alert that must reach all hubs, in order.
type event struct {
	node, id string
	text     []byte
}

// Announce tells hubs of changes. It does not wait.
func (u *Uplink) Announce(changes []alert.Change) {
	for i := range changes {
		c := &changes[i]
		if c.News == alert.Repeated {
			continue
		}
		told := *c
		told.Processes = told.Processes[:min(len(told.Processes), mostProcesses)]
		text, err := talk.MarshalEvent(u.Version, &told)
		if err != nil {
			u.Log.Error("can't send an event to the fleet", "alert", c.ID, "err", err)
			continue
		}
		u.mu.Lock()
		u.numbered++
		// IDs are shared by the whole stream: nobody must be able to guess another program's ID and block it.
		u.events = append(u.events, event{c.Device.Node, fmt.Sprintf("%s %d", u.secret, u.numbered), text})
		if over := len(u.events) - mostEvents; over > 0 {
			u.events, u.lost = u.events[over:], u.lost+uint64(over)
		}
		u.mu.Unlock()
	}
	select {
	case u.more <- struct{}{}:
	default:
	}
}

// Run publishes until ctx ends, and then announces that the program has ended.
func (u *Uplink) Run(ctx context.Context) error {
	var all sync.WaitGroup
	u.mu.Lock()
	u.run = func(n *node) { all.Go(func() { n.publish(ctx) }) }
	for _, n := range u.nodes {
		u.run(n)
	}
	u.mu.Unlock()
	all.Go(func() { u.tell(ctx) })
	all.Go(func() { u.listen(ctx) })
	<-ctx.Done()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * goodbye): // NATS hangs
	}
	return nil
}

// tell publishes events one after the other, each until it was stored.
func (u *Uplink) tell(ctx context.Context) {
	for {
		u.mu.Lock()
		var next *event
		if len(u.events) > 0 {
			next = &u.events[0]
		}
		u.mu.Unlock()
		if next == nil {
			select {
			case <-u.more:
				continue
			case <-ctx.Done():
				return
			}
		}
		err := u.publish(ctx, next)
		if err != nil {
			if !pause(ctx, wait()) {
				return
			}
			continue
		}
		u.mu.Lock()
		if len(u.events) > 0 && u.events[0].id == next.id { // else it had no room any more
			u.events = u.events[1:]
		}
		u.mu.Unlock()
	}
}

func (u *Uplink) publish(ctx context.Context, e *event) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := u.Bus.JetStream().Publish(ctx, bus.Event(e.node), e.text, jetstream.WithMsgID(e.id))
	u.Bus.Note(err)
	return err
}

// wait returns how long to wait before a retry. It is random, so that the programs of a fleet don't retry at once.
func wait() time.Duration { return time.Second + mathrand.N(2*time.Second) }

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// listen receives announcements of hubs, and logs once what is wrong with them.
func (u *Uplink) listen(ctx context.Context) {
	told := map[string]bool{}
	sub, err := u.Bus.Subscribe(bus.Hubs, func(m *nats.Msg) {
		var hello talk.Hub
		if json.Unmarshal(m.Data, &hello) != nil {
			return
		}
		_ = u.Hubs.Learn(hello.Name, hello.Key) // it logs what is wrong
		if hello.Protocol.Major == wire.Spoken.Major || told[hello.Version] || len(told) > 100 {
			return
		}
		told[hello.Version] = true
		u.Log.Warn("a hub speaks another protocol version and may not show this machine; use gpuwhy versions at most two minor versions apart",
			"hub", hello.Version, "protocol", hello.Protocol, "own", wire.Spoken)
	})
	if err != nil {
		u.Log.Error("can't subscribe to announcements of hubs", "err", err)
		return
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // the connection may be closed
}

// A node is one of the machines that this program reads.
type node struct {
	*Uplink
	name  string
	next  chan *insight.Moment // the newest that was not published yet
	whole chan struct{}        // somebody asked for the whole state

	encoder *wire.Encoder // these are for publish alone
	last    *insight.Moment
	wrote   time.Duration // when the whole state was written last, as elapsed time
	every   time.Duration // until the next time
	said    string        // the headline of then
	keeps   chan []byte   // the whole state that is to be kept
	unkept  atomic.Bool   // it was not
	told    atomic.Bool   // that something can't be published
}

// publish sends a node's Moments until ctx ends.
func (n *node) publish(ctx context.Context) {
	n.encoder = wire.NewEncoder(&n.packers)
	var keeping sync.WaitGroup
	keeping.Go(func() { n.keep(ctx) })
	defer keeping.Wait()
	sub, err := n.Bus.Subscribe(bus.Ask(n.name), func(m *nats.Msg) { go n.answer(ctx, m) })
	if err != nil {
		n.Log.Error("can't subscribe to questions of hubs", "node", n.name, "err", err)
	} else {
		defer func() { _ = sub.Unsubscribe() }() // the connection may be closed
	}
	connected := n.Bus.Conn().Stats().Reconnects
	for {
		asked := false
		select {
		case m := <-n.next:
			n.last = m
		case <-n.whole:
			asked = true
		case <-ctx.Done():
			n.end()
			return
		}
		if n.last == nil {
			continue
		}
		if again := n.Bus.Conn().Stats().Reconnects; again != connected {
			connected, n.every = again, mathrand.N(n.Interval+1) // not all nodes of a fleet at once
		}
		n.send(asked)
	}
}

// send publishes the newest Moment.
func (n *node) send(asked bool) {
	if !n.Bus.Conn().IsConnected() {
		n.every = 0 // whoever missed something gets the whole
		return
	}
	since := n.Clock.Elapsed() - n.wrote
	if n.unkept.Swap(false) {
		n.every = wait()
	}
	due := asked || n.wrote == 0 || since >= n.every || n.said != n.last.Answer.Headline && since >= wholeApart
	message, whole, err := n.encode(n.encoder, n.last, due, false)
	if err == nil {
		err = n.Bus.Conn().Publish(bus.Live(n.name), message)
	}
	if err == nil && whole {
		n.wrote, n.said = n.Clock.Elapsed(), n.last.Answer.Headline
		n.every = wholeEvery - wholeEvery/10 + mathrand.N(wholeEvery/5)
		select {
		case n.keeps <- message:
		default: // the one before is still under way
			n.every = wait()
		}
	}
	if err != nil {
		n.report(err)
	}
}

// keep stores whole states without delaying publishing: NATS may take seconds to report a failure.
func (n *node) keep(ctx context.Context) {
	for {
		select {
		case message := <-n.keeps:
			err := n.write(ctx, message)
			n.unkept.Store(err != nil)
			n.report(err)
		case <-ctx.Done():
			return
		}
	}
}

// report logs once that publishing fails, and once that it works again.
func (n *node) report(err error) {
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrConnectionClosed): // the program ends
	case err != nil && !n.told.Swap(true):
		n.Log.Warn("can't publish a machine to the fleet", "node", n.name, "err", err)
	case err == nil && n.told.Swap(false):
		n.Log.Info("publishing the machine to the fleet again", "node", n.name)
	}
}

// write stores the whole state for hubs that start.
func (n *node) write(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return n.Bus.Put(ctx, n.name, message)
}

func (n *node) encode(encoder *wire.Encoder, m *insight.Moment, whole, ended bool) (message []byte, isWhole bool, err error) {
	now := n.Clock.Now().UTC()
	extra := map[string]json.RawMessage{}
	if n.Alerts != nil {
		if extra[talk.Alerts], err = talk.MarshalReport(n.Alerts.Report(n.name, now)); err != nil {
			return nil, false, err
		}
	}
	if ended {
		extra[talk.Ended] = json.RawMessage("true")
	}
	state := &wire.State{Hello: n.hello, Moment: m, Extra: extra}
	state.Sent = now
	if whole {
		message, err = encoder.EncodeWhole(state)
		return message, true, err
	}
	return encoder.Encode(state)
}

// end announces that the program has ended, so that hubs can explain its silence.
func (n *node) end() {
	if n.last == nil || !n.Bus.Conn().IsConnected() {
		return
	}
	message, _, err := n.encode(n.encoder, n.last, true, true)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		err = errors.Join(n.Bus.Conn().Publish(bus.Live(n.name), message), n.write(ctx, message))
	}
	if err != nil {
		n.Log.Debug("can't tell the fleet that this program is ending", "node", n.name, "err", err)
	}
}

// answer answers a hub's question.
func (n *node) answer(ctx context.Context, m *nats.Msg) {
	var q action.Question
	err := json.Unmarshal(m.Data, &q)
	if err == nil && len(m.Data) > talk.LongestQuestion {
		err = errors.New("the question is too long")
	}
	var a talk.Reply
	if err == nil {
		a, err = n.reply(ctx, &q, m)
	}
	if err != nil {
		a = talk.Failed(err)
	}
	text, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(text)
	}
	if err != nil {
		n.Log.Debug("can't answer a hub's question", "node", n.name, "err", err)
	}
}

func (n *node) reply(ctx context.Context, q *action.Question, m *nats.Msg) (a talk.Reply, err error) {
	asker, limited := n.Hubs.Asker(n.name, q, m.Header, m.Data)
	if !asker.May(auth.Read) {
		if limited != nil {
			return a, limited
		}
		return a, action.Denied
	}
	switch q.Ask {
	case talk.Whole:
		n.showWhole()
		return a, nil
	case talk.Recent:
		a.Recent, err = n.Recent(n.name)
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, talk.Deadline)
	defer cancel()
	result, err := n.Act(ctx, n.name, q, asker)
	if limited != nil && errors.Is(err, action.Denied) { // the hub may not ask for it, whoever wants it
		err = limited
	}
	if errors.Is(err, action.ErrUnknown) {
		return a, fmt.Errorf("this gpuwhy (%s) does not know the question %.32q", n.Version, q.Ask)
	}
	if err != nil {
		return a, err
	}
	if m, isRead := result.(*insight.Moment); isRead {
		a.State, _, err = n.encode(wire.NewEncoder(&n.packers), m, true, false)
		return a, err
	}
	n.showWhole() // so that all hubs see at once what it changed
	a.Outcome, err = json.Marshal(result)
	return a, err
}

// showWhole makes the node publish its whole state soon.
func (n *node) showWhole() {
	select {
	case n.whole <- struct{}{}:
	default: // it is on its way
	}
}
