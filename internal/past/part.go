// Package past keeps what was, and answers questions about it over the API and on the page /past. How it is written, kept,
// delivered and asked for is for the packages below.
package past

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Options say where the past is kept, and for how long.
type Options struct {
	Store     store.Store
	Retention store.Retention
	// Place distinguishes the store from a copy of it; see [deliver.CollectorConfig].
	Place string
	Price float64 // of a kilowatt-hour of electricity; 0: not known
	// Permits says what part of the past may be shown now.
	Permits history.Permits
	// Outbox delivers the written data to a fleet; nil if nothing is delivered.
	Outbox *deliver.Outbox
	// Collects says that data delivered by the nodes of a fleet is written, too.
	Collects bool
	// ReadOnly says that other programs write the past.
	ReadOnly bool
	// Anew gets a value when the store has lost its data and goes on; nil: that never happens.
	Anew <-chan struct{}
}

// Close closes the store, which nothing may use any more. o may be nil: no past is kept.
func (o *Options) Close() error {
	if o == nil {
		return nil
	}
	if err := o.Store.Close(); err != nil {
		return fmt.Errorf("close the history: %w", err)
	}
	return nil
}

// Undelivered is how much waits until the fleet takes it. o may be nil.
func (o *Options) Undelivered() int {
	if o == nil || o.Outbox == nil {
		return 0
	}
	return o.Outbox.State().Waiting
}

// A Carrier carries the past of nodes to where that of a fleet is written.
type Carrier interface {
	JetStream() jetstream.JetStream
	Stream() string // its name
	Subject(node string) string
	NodeOf(subject string) (node string, err error)
}

// A Source is a part that reads nodes later which the program is not given.
type Source interface {
	// MayCome reports whether a node of that name may be one.
	MayCome(node string) bool
}

// Config is what a Room needs.
type Config struct {
	part.Host
	Options
	Carrier Carrier // nil for a program on its own
	// Nodes are those that the program is given, and MayCome says which others may come.
	Nodes   []string
	MayCome func(node string) bool
	// Installation is that of the documents on the room's shelf; nil where it is not known.
	Installation *state.Installed
}

// A Room answers about the past.
type Room struct {
	Config
	Past  *history.Past
	Sizes *history.Sizes
}

// New makes the parts that a program has of a kept past: the [Room], what writes it where others don't, and what carries it in a fleet.
func New(cfg Config) (room *Room, parts []part.Part) {
	r := &Room{Config: cfg}
	r.Past = &history.Past{
		Store: cfg.Permits.Store(cfg.Store), Permits: cfg.Permits, Keeps: cfg.Retention, Now: cfg.Clock.Now, Interval: cfg.Longest(), Seldom: cfg.Idle,
	}
	r.Sizes = &history.Sizes{Past: r.Past, Interval: cfg.Interval}
	parts = append(parts, r)
	var last <-chan struct{}
	if !cfg.ReadOnly {
		w := newWriting(r)
		parts, last = append(parts, w), w.ended
	}
	if cfg.Carrier != nil && cfg.Outbox != nil {
		parts = append(parts, &sending{cfg.Outbox, cfg.Carrier, last})
	}
	if cfg.Carrier != nil && cfg.Collects {
		parts = append(parts, newCollecting(&r.Config))
	}
	return r, parts
}

// Name implements [part.Part].
func (r *Room) Name() string { return "past" }

// Close closes the store.
func (r *Room) Close() error { return r.Options.Close() }

// Shelf is in the store, unless others write that.
func (r *Room) Shelf(files state.Files) state.Shelf {
	if r.ReadOnly {
		return files
	}
	return &shelf{r.Store, files, r.Installation, r.Node}
}

// A writing part writes what goes on.
type writing struct {
	*record.Recorder
	room  *Room
	ended chan struct{} // closed when the last was written
}

func newWriting(room *Room) *writing {
	return &writing{room: room, ended: make(chan struct{}), Recorder: record.New(record.Config{
		Store: room.Store, Nodes: room.Nodes, Later: room.MayCome, Interval: room.Longest(), Retention: room.Retention, Version: room.Version, Log: room.Log,
	})}
}

// Name implements [part.Part].
func (w *writing) Name() string { return "history" }

// Follow takes in the Moments of nodes that are read here.
func (w *writing) Follow(m *insight.Moment) {
	if !m.Link.Remote {
		w.Observe(m)
	}
}

// Run writes, and measures how much there is, until ctx ends.
func (w *writing) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error {
		defer close(w.ended)
		w.Recorder.Run(ctx)
		return nil
	})
	g.Go(func() error { w.writeAnew(ctx); return nil })
	g.Go(func() error { w.room.Sizes.Run(ctx); return nil })
	return g.Wait()
}

// writeAnew rewrites everything that is going on, and the documents, when the store has lost them.
func (w *writing) writeAnew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.room.Anew:
			w.Rewrite()
			w.room.Keeper.Again()
		}
	}
}

// Changed keeps that alerts fired, were answered, or are over.
func (w *writing) Changed(changes []alert.Change) {
	for i := range changes {
		c := &changes[i]
		if c.News == alert.Repeated || c.News == alert.Resumed {
			continue
		}
		about, now := &c.Alert, w.room.Clock.Now()
		w.AddEvent(store.Event{
			ID:   fmt.Sprintf("alert %s %s %d", about.ID, c.News, now.UnixMilli()),
			Key:  store.Key{Node: about.Device.Node, UUID: about.Device.UUID},
			Time: now, Kind: "alert_" + string(c.News), Severity: string(about.Severity), Text: history.Earlier(about.Message),
		})
	}
}

// Health is how the writing does.
func (w *writing) Health() map[string]contract.Part {
	s := w.State()
	health := contract.NewPart("ok", s.Written)
	if s.Err != nil {
		advice := gpu.AsAdvice(s.Err)
		advice.What = fmt.Sprintf("the past can't be written: %s; %s; %s", advice.What, said(s.Dropped, "lost so far"), said(s.Waiting, "waiting"))
		health = health.Failed(&advice, s.Since)
	}
	return map[string]contract.Part{"history": health}
}

func said(c record.Counts, how string) string {
	if c == (record.Counts{}) {
		return "nothing " + how
	}
	return how + ": " + c.String()
}

// Measure fills in how much was written, and how much is stored.
func (w *writing) Measure(self *metrics.Self) {
	s := w.State()
	now := &Written{
		Written: byKind(s.Rows), Waiting: byKind(s.Waiting), Dropped: byKind(s.Dropped), Batches: s.Batches, Failures: s.Failures,
		WaitingBytes: s.Bytes, LastWrite: s.Written, Failing: s.Err != nil,
	}
	if f := w.room.Sizes.Last(); f != nil {
		now.Bytes, now.FullBytes = gpu.Of(float64(f.Bytes)), gpu.Of(float64(f.Full))
	}
	self.Parts = append(self.Parts, Metrics.Of(now))
}

// byKind returns counts by their names on /metrics.
func byKind(c record.Counts) map[string]int {
	return map[string]int{
		"readings": c.Readings, "frames": c.Frames, "spans": c.Spans, "sessions": c.Sessions, "causes": c.Causes, "events": c.Events,
	}
}

// A sending part delivers the written data to the fleet.
type sending struct {
	*deliver.Outbox
	over Carrier
	last <-chan struct{} // closed when the last was written
}

// Name implements [part.Part].
func (s *sending) Name() string { return "delivery" }

// lastRecord is how long to wait at the end for the last write, so that it is delivered too.
const lastRecord = 2 * time.Second

// Run delivers until ctx has ended and the last of the past is written, or that takes too long.
func (s *sending) Run(ctx context.Context) error {
	until, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		defer cancel()
		late := time.NewTimer(lastRecord)
		defer late.Stop()
		select {
		case <-s.last:
		case <-late.C:
		}
	})
	s.Send(until, s.over.JetStream(), s.over.Subject)
	return nil
}

// Health is how the past comes to where that of the fleet is written.
func (s *sending) Health() map[string]contract.Part {
	now := s.State()
	health := contract.NewPart("ok", now.Last)
	switch lost := now.Lost.String(); {
	case now.Err != nil:
		health = health.Failed(now.Err, now.Since)
	case lost != "":
		health = health.Failed(&gpu.Advice{
			What: "a part of the past was dropped before it reached the fleet: " + lost, Try: "check that recorders run, and that NATS has space",
		}, time.Time{})
	}
	return map[string]contract.Part{"delivery": health}
}

// A collecting part writes what nodes of the fleet deliver.
type collecting struct{ *deliver.Collector }

func newCollecting(cfg *Config) collecting {
	return collecting{deliver.NewCollector(deliver.CollectorConfig{
		Store: cfg.Store, Retention: cfg.Retention, JetStream: cfg.Carrier.JetStream(), Stream: cfg.Carrier.Stream(), NodeOf: cfg.Carrier.NodeOf,
		Log: cfg.Log.With("part", "fleet"), Now: cfg.Clock.Now, Place: cfg.Place, Own: cfg.Own,
	})}
}

// Name implements [part.Part].
func (collecting) Name() string { return "recorder" }

// Health is how the writing of the past of others does.
func (c collecting) Health() map[string]contract.Part {
	s := c.State()
	health := contract.NewPart("ok", s.Last)
	if s.Err != nil {
		health = health.Failed(s.Err, s.Since)
	}
	return map[string]contract.Part{"recorder": health}
}
