package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/forecast/outlook"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/metrics"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/history"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// History is where the past is kept, and for how long. The App closes the store.
type History struct {
	Store     store.Store
	Retention store.Retention
	// Place distinguishes the store from a copy of it; see [deliver.CollectorConfig].
	Place string
	Price float64 // of a kilowatt-hour of electricity; 0: not known
	// Permits says what part of the past may be shown now.
	Permits history.Permits
	// Outbox delivers what is written to a fleet; nil if nothing is delivered.
	Outbox *deliver.Outbox
	// ReadOnly says that other programs write the past.
	ReadOnly bool
	// Anew gets a value when the store has lost its data and goes on; nil: that never happens.
	Anew <-chan struct{}
}

// Files accesses small files of one folder.
type Files interface {
	state.Shelf
	// Remove removes a file, if there is one.
	Remove(name string) error
}

// A shelf keeps the program's documents in its store, with the past. Documents that an earlier version, or this one without a
// past, has left in a file are read from there until they are next written.
type shelf struct {
	store store.Store
	files Files
	of    *state.Installed // several programs may share a store; nil: it is unknown which program this is
	node  string           // the program's name: earlier versions kept documents under it
}

// names returns a document's name in the store, followed by names that it may have had before.
func (s *shelf) names(document string) (names []string, err error) {
	i, err := s.of.Installation()
	if err != nil {
		return nil, err
	}
	for _, of := range []string{i.ID, s.node} {
		if name := of + "/" + document; of != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *shelf) document(name string) (text []byte, err error) {
	names, err := s.names(name)
	for _, of := range names {
		if text, err = s.store.Document(context.Background(), of); err != nil || text != nil {
			return text, err
		}
	}
	return nil, err
}

func (s *shelf) Read(name string) ([]byte, error) {
	text, err := regular.InTime(func() ([]byte, error) { return s.document(name) })
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", state.ErrNotNow, err)
	case text == nil:
		return s.files.Read(name)
	}
	if file, err := s.files.Read(name); err == nil && isNewer(file, text) { // of a run without a past
		return file, nil
	}
	return text, nil
}

func (s *shelf) Write(name string, text []byte) error {
	names, err := s.names(name)
	if err != nil {
		return err
	}
	documents := map[string][]byte{names[0]: text}
	for _, former := range names[1:] {
		documents[former] = nil
	}
	if err := s.store.Write(context.Background(), &store.Batch{Documents: documents}); err != nil {
		return err
	}
	return s.files.Remove(name)
}

// wireForesight makes what answers questions about the past, and what forecasts from it. Stages that are made later use it.
func (a *App) wireForesight() {
	h := a.opt.History
	if h == nil {
		return
	}
	a.past = &history.Past{
		Store: h.Permits.Store(h.Store), Permits: h.Permits, Keeps: h.Retention, Now: a.opt.Clock.Now, Interval: a.opt.longest(), Seldom: a.opt.IdleInterval,
	}
	a.sizes = &history.Sizes{Past: a.past, Interval: a.opt.Interval}
	if h.ReadOnly { // the program that reads a node makes its forecasts
		return
	}
	a.forecast = outlook.New(outlook.Config{
		Past: a.past, Newest: a.Hub.Newest, Interval: a.opt.Interval, Price: h.Price, Log: a.log.With("part", "forecast"),
		Zone: time.Local, //nolint:gosmopolitan // people's own hours are meant
	})
	a.stage.Foresee = a.forecast.Foresee
}

// wireHistory makes the recorder of the past.
func (a *App) wireHistory() {
	h := a.opt.History
	if h == nil {
		return
	}
	if h.ReadOnly {
		return
	}
	var names []string
	for _, n := range a.local.all() {
		names = append(names, n.Node)
	}
	a.recorder = record.New(record.Config{
		Store: h.Store, Nodes: names, Later: a.ofCluster, Interval: a.opt.longest(), Retention: h.Retention, Version: a.opt.Version, Log: a.log,
	})
}

// writeAnew rewrites everything that is going on, and the documents, when the store has lost them.
func (a *App) writeAnew(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.opt.History.Anew:
			a.recorder.Rewrite()
			a.keeper.Again()
		}
	}
}

// closeHistory closes the store. Nothing may use it any more.
func (a *App) closeHistory() error {
	if a.opt.History == nil {
		return nil
	}
	if err := a.opt.History.Store.Close(); err != nil {
		return fmt.Errorf("close the history: %w", err)
	}
	return nil
}

// remember stores that an alert fired, was answered, or is over.
func (a *App) remember(c *alert.Change) {
	if a.recorder == nil || c.News == alert.Repeated || c.News == alert.Resumed {
		return
	}
	of, now := &c.Alert, a.opt.Clock.Now()
	a.recorder.AddEvent(store.Event{
		ID:   fmt.Sprintf("alert %s %s %d", of.ID, c.News, now.UnixMilli()),
		Key:  store.Key{Node: of.Device.Node, UUID: of.Device.UUID},
		Time: now, Kind: "alert_" + string(c.News), Severity: string(of.Severity), Text: history.Earlier(of.Message),
	})
}

// then makes a stage for a past time that knows what was learned about the devices until now.
func (a *App) then() (*insight.Stage, error) {
	s, now := insight.NewStage(), a.opt.Clock.Now()
	return s, errors.Join(s.History.Restore(a.stage.History.Kept(), now), s.Floors.Restore(a.stage.Floors.Kept(), now))
}

func said(c record.Counts, how string) string {
	if c == (record.Counts{}) {
		return "nothing " + how
	}
	return how + ": " + c.String()
}

// historySelf returns what gpuwhy reports about the past on /metrics; nil if none is kept.
func (a *App) historySelf() *metrics.History {
	if a.recorder == nil {
		return nil
	}
	s := a.recorder.State()
	h := &metrics.History{
		Written: byKind(s.Rows), Waiting: byKind(s.Waiting), Dropped: byKind(s.Dropped), Batches: s.Batches, Failures: s.Failures,
		WaitingBytes: s.Bytes, LastWrite: s.Written, Failing: s.Err != nil,
	}
	if f := a.sizes.Last(); f != nil {
		h.Bytes, h.FullBytes = gpu.Of(float64(f.Bytes)), gpu.Of(float64(f.Full))
	}
	return h
}

// byKind returns counts by their names on /metrics.
func byKind(c record.Counts) map[string]int {
	return map[string]int{
		"readings": c.Readings, "frames": c.Frames, "spans": c.Spans, "sessions": c.Sessions, "causes": c.Causes, "events": c.Events,
	}
}

// recording returns the state of writing the past.
func (a *App) recording() contract.Part {
	s := a.recorder.State()
	part := contract.NewPart("ok", s.Written)
	if s.Err != nil {
		advice := gpu.AsAdvice(s.Err)
		advice.What = fmt.Sprintf("the past can't be written: %s; %s; %s", advice.What, said(s.Dropped, "lost so far"), said(s.Waiting, "waiting"))
		part = part.Failed(&advice, s.Since)
	}
	return part
}
