package deliver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/natstest"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/past/deliver"
	"github.com/gpuwhy/gpuwhy/internal/past/record"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
	"github.com/gpuwhy/gpuwhy/internal/past/store/sqlite"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

func logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// A broker is a separate NATS server, with JetStream in a folder.
type broker struct{ *natstest.Server }

func startBroker(t *testing.T) broker {
	t.Helper()
	return broker{natstest.InProcess(t)}
}

// connect returns a connection as package bus makes it.
func (b broker) connect(t *testing.T, node string) *bus.Bus {
	t.Helper()
	c, err := bus.Open(bus.Config{InProcess: b.Server, Name: "test", Node: node, Patience: testkit.Patience, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	testkit.Until(t, "a connection", c.Conn().IsConnected)
	return c
}

func newBroker(t *testing.T) broker {
	t.Helper()
	b := startBroker(t)
	b.prepare(t, bus.Limits{})
	return b
}

func (b broker) prepare(t *testing.T, limits bus.Limits) {
	t.Helper()
	if err := b.connect(t, "").Prepare(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
}

// waits returns how many messages the stream has.
func (b broker) waits(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	stream, err := js.Stream(t.Context(), bus.PastStream)
	if err != nil {
		return 1 // it can't be said now
	}
	return stream.CachedInfo().State.Msgs
}

// virtual runs a test in virtual time that begins now. No store may be on a server.
func virtual(t *testing.T, test func(t *testing.T)) {
	now := time.Now()
	natstest.Virtual(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		test(t)
	})
}

// An agent is a simulated machine with a store and an outbox.
type agent struct {
	t            *testing.T
	node         *sim.Source
	now          time.Time
	file         string
	outbox       *deliver.Outbox
	sqlite       *sqlite.Store
	store        store.Store
	stage        *insight.Stage
	bytes        int64  // of the outbox at most
	installation string // its installation
	called       string // what its machine is called, if it may have been called otherwise
	hides        bool   // each device has one process, of which the machine tells nothing
}

func newAgent(t *testing.T, n int) *agent {
	t.Helper()
	a := machine(t, n)
	a.open()
	t.Cleanup(func() { _ = a.sqlite.Close() })
	return a
}

func machine(t *testing.T, n int) *agent {
	a := &agent{t: t, now: time.Now().Add(-3 * time.Hour).Truncate(time.Hour), file: filepath.Join(t.TempDir(), "past.db"), stage: insight.NewStage()}
	nodes, err := sim.Nodes("fleet:24", func() time.Time { return a.now })
	if err != nil {
		t.Fatal(err)
	}
	a.node = nodes[n]
	return a
}

// hours are databases of machines that could reach nobody, and were restarted in between.
var hours [2]struct {
	once sync.Once
	file []byte
}

// away is such a machine.
func away(t *testing.T, n int) *agent {
	t.Helper()
	hours[n].once.Do(func() {
		a := machine(t, n)
		for range 3 {
			a.open()
			a.live(12 * time.Minute)
			if err := a.sqlite.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if hours[n].file, err = os.ReadFile(a.file); err != nil {
			t.Fatal(err)
		}
	})
	a := machine(t, n)
	if err := os.WriteFile(a.file, hours[n].file, 0o600); err != nil {
		t.Fatal(err)
	}
	a.open()
	t.Cleanup(func() { _ = a.sqlite.Close() })
	return a
}

// open opens the store, as a start of the program does.
func (a *agent) open() {
	a.t.Helper()
	var err error
	if a.sqlite, err = sqlite.Open(a.t.Context(), sqlite.Options{File: a.file, Log: logger(a.t), Now: time.Now}); err != nil {
		a.t.Fatal(err)
	}
	a.outbox = deliver.NewOutbox(deliver.OutboxConfig{Log: logger(a.t), Now: time.Now, Bytes: a.bytes, Node: a.called,
		Installation: func() (string, error) { return a.installation, nil },
	})
	if a.store, err = a.outbox.Attach(a.t.Context(), a.sqlite); err != nil {
		a.t.Fatal(err)
	}
}

// live is a run of an agent from start to end: it lets time pass, reads the machine every five seconds, and writes the readings.
func (a *agent) live(span time.Duration) {
	a.t.Helper()
	retention, err := record.ParseRetention(record.DefaultRetention)
	if err != nil {
		a.t.Fatal(err)
	}
	r := record.New(record.Config{
		Store: a.store, Nodes: []string{a.node.Node()}, Interval: 5 * time.Second, Retention: retention, Version: "test", Log: logger(a.t),
	})
	for end := a.now.Add(span); a.now.Before(end); a.now = a.now.Add(5 * time.Second) {
		s, err := a.node.Read(a.t.Context())
		if err != nil {
			a.t.Fatal(err)
		}
		s.Node = a.node.Node()
		for i := range s.Devices {
			s.Devices[i].Node, s.Devices[i].Index = s.Node, i
			if a.hides {
				s.Devices[i].State, s.Devices[i].SampledAt = gpu.StateOK, s.Time
				s.Devices[i].Processes = gpu.Of([]gpu.Process{{PID: 1<<22 + i, Type: gpu.TypeCompute}})
			}
		}
		r.Observe(a.stage.Next(s))
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	testkit.Until(a.t, "all is written", func() bool { return r.State().Waiting == record.Counts{} && r.State().Batches > 0 })
	cancel()
	<-done
	if s := r.State(); s.Err != nil || s.Dropped != (record.Counts{}) {
		a.t.Fatalf("the agent's own history: %+v", s)
	}
}

// send sends until everything is sent.
func (a *agent) send(b broker) {
	a.t.Helper()
	stop := a.sending(b)
	a.sent()
	stop()
}

// sent waits until everything is sent, and returns the outbox's state.
func (a *agent) sent() (s deliver.State) {
	a.t.Helper()
	testkit.Until(a.t, "all is sent, and all is well", func() bool {
		s = a.outbox.State()
		return s.Waiting == 0 && s.Sent > 0 && s.Err == nil
	}, func() any { return s })
	return s
}

// sending sends until stop is called.
func (a *agent) sending(b broker) (stop func()) {
	c := b.connect(a.t, a.node.Node())
	ctx, cancel := context.WithCancel(a.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.outbox.Send(ctx, c.JetStream(), bus.Past) }()
	return func() { cancel(); <-done }
}

func recorder(t *testing.T, b broker, s store.Store) (r *deliver.Collector, stop func()) {
	t.Helper()
	return recorderThat(t, b, s, 0)
}

// recorderThat returns a recorder whose messages are redelivered after so long.
func recorderThat(t *testing.T, b broker, s store.Store, again time.Duration) (r *deliver.Collector, stop func()) {
	t.Helper()
	retention, err := record.ParseRetention(record.DefaultRetention)
	if err != nil {
		t.Fatal(err)
	}
	r = deliver.NewCollector(deliver.CollectorConfig{
		Store: s, Retention: retention, JetStream: b.connect(t, "").JetStream(), Stream: bus.PastStream, NodeOf: nodeOf, Log: logger(t), Now: time.Now,
		Again: again,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(stop)
	return r, stop
}

// well waits until a recorder says that all is well, and returns its state.
func well(t *testing.T, r *deliver.Collector) (s deliver.CollectorState) {
	t.Helper()
	testkit.Until(t, "the recorder is well", func() bool { s = r.State(); return s.Err == nil }, func() any { return s })
	return s
}

func nodeOf(subject string) (string, error) {
	return bus.NodeOf(subject[strings.LastIndexByte(subject, '.')+1:])
}

// taken waits until the recorders have written everything.
func (b broker) taken(t *testing.T) {
	t.Helper()
	js := b.connect(t, "").JetStream()
	testkit.Until(t, "all is taken", func() bool { return b.waits(t, js) == 0 })
}

// stores are the kinds of stores for a fleet.
func stores(t *testing.T, test func(t *testing.T, open func() store.Store)) {
	t.Run("SQLite", func(t *testing.T) {
		virtual(t, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), sqlite.Options{File: filepath.Join(t.TempDir(), "fleet.db"), Log: logger(t), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			test(t, func() store.Store { return s })
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		if shared == nil {
			t.Skip(pgtest.ErrMissing)
		}
		url := shared.Schema()
		test(t, func() store.Store {
			s, err := postgres.Open(postgres.Config{URL: url, Patience: testkit.Patience})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		})
	})
}

// shared is the PostgreSQL server of all tests; nil if none is installed.
var shared *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if shared, err = pgtest.Start(context.Background()); err != nil && (!errors.Is(err, pgtest.ErrMissing) || os.Getenv("CI") != "") {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if shared != nil {
		if err := shared.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func all[V any](t *testing.T, seq iter.Seq2[V, error]) (out []V) {
	t.Helper()
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// A past is everything that a store has about a node.
type past struct {
	Devices  []store.Device
	Rows     map[string][]store.Row
	Frames   []store.Frame
	Sessions []store.Session
	Causes   []store.Cause
	Events   []store.Event
}

func (p *past) counts() string {
	rows := 0
	for _, stored := range p.Rows {
		rows += len(stored)
	}
	return fmt.Sprintf("%d devices, %d rows, %d frames, %d sessions, %d causes, %d events", len(p.Devices), rows, len(p.Frames), len(p.Sessions), len(p.Causes), len(p.Events))
}

func pastOf(t *testing.T, s store.Store, node string) *past {
	t.Helper()
	devices, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := &past{Rows: map[string][]store.Row{}}
	var q store.Query
	for _, d := range devices {
		if d.Node == node {
			d.First, d.Last = d.First.UTC(), d.Last.UTC()
			p.Devices, q.Keys = append(p.Devices, d), append(q.Keys, d.Key())
		}
	}
	if p.Devices == nil {
		return p
	}
	for _, tier := range store.Tiers {
		for _, machines := range []bool{false, true} {
			query := q
			query.Tier, query.Machines = tier, machines
			p.Rows[fmt.Sprintf("%v %v", tier, machines)] = all(t, s.Rows(t.Context(), query))
		}
	}
	p.Frames = all(t, s.Frames(t.Context(), q))
	p.Sessions, p.Causes, p.Events = all(t, s.Sessions(t.Context(), q)), all(t, s.Causes(t.Context(), q)), all(t, s.Events(t.Context(), q))
	for i := range p.Events {
		p.Events[i].ID = strings.TrimPrefix(p.Events[i].ID, node+" ")
	}
	slices.SortFunc(p.Sessions, func(a, b store.Session) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.PID, b.PID), a.Begin.Compare(b.Begin))
	})
	slices.SortFunc(p.Causes, func(a, b store.Cause) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.ID, b.ID), a.From.Compare(b.From))
	})
	slices.SortFunc(p.Events, func(a, b store.Event) int { return cmp.Compare(a.ID, b.ID) })
	return p
}

func each[V any](t *testing.T, what string, want, got []V) {
	t.Helper()
	for i := range want {
		if i >= len(got) || !reflect.DeepEqual(want[i], got[i]) {
			t.Fatalf("a %s of the node, and of the fleet:\n%.2000s\n%.2000s", what, fmt.Sprintf("%+v", want[i]), fmt.Sprintf("%+v", got[min(i, len(got)-1)]))
		}
	}
}

// same compares a store's past of an agent's node with the agent's own.
func same(t *testing.T, a *agent, s store.Store) {
	t.Helper()
	want, got := pastOf(t, a.sqlite, a.node.Node()), pastOf(t, s, a.node.Node())
	if len(want.Sessions) == 0 || len(want.Events) == 0 || len(want.Causes) == 0 || len(want.Frames) == 0 || len(want.Rows["1m false"]) == 0 {
		t.Fatalf("the test shows nothing: the agent has %s", want.counts())
	}
	if want.counts() != got.counts() {
		t.Fatalf("the node has %s, and the fleet %s", want.counts(), got.counts())
	}
	each(t, "device", want.Devices, got.Devices)
	for owner := range want.Rows {
		each(t, owner+" row", want.Rows[owner], got.Rows[owner])
	}
	each(t, "frame", want.Frames, got.Frames)
	each(t, "session", want.Sessions, got.Sessions)
	each(t, "cause", want.Causes, got.Causes)
	each(t, "event", want.Events, got.Events)
	t.Logf("%s: %s", a.node.Node(), got.counts())
}

// publish sends parcels in the given order, with their numbers.
func publish(t *testing.T, b broker, parcels []store.Parcel) {
	t.Helper()
	js := b.connect(t, "").JetStream()
	for _, p := range parcels {
		msg := &nats.Msg{Subject: bus.Past(p.Node), Data: p.Data, Header: nats.Header{"Gpuwhy-Number": {strconv.FormatInt(p.Number, 10)}}}
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *agent) parcels() []store.Parcel {
	a.t.Helper()
	all, err := a.sqlite.Parcels(a.t.Context(), 0xff, 1<<20)
	if err != nil || len(all) < 3 {
		a.t.Fatalf("%d parcels: %v", len(all), err)
	}
	return all
}

// An agent that is killed after the stream has stored its parcels, but before it knows, sends them again.
func TestKilledBeforeTheAnswer(t *testing.T) { virtual(t, killedBeforeTheAnswer) }

func killedBeforeTheAnswer(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	// However long it takes to send them again, the stream knows what it has.
	js := b.connect(t, "").JetStream()
	stream, err := js.Stream(t.Context(), bus.PastStream)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Duplicates = time.Hour
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	fleet := newAgent(t, 2).sqlite // a database
	before, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	sent := len(a.parcels())
	a.send(b)
	if n := b.waits(t, js); n != uint64(sent) {
		t.Fatalf("the stream has %d of %d parcels", n, sent)
	}
	_ = a.sqlite.Close()
	for _, end := range []string{"-wal", "-shm"} {
		_ = os.Remove(a.file + end)
	}
	if err := os.WriteFile(a.file, before, 0o600); err != nil { // nothing of the sending
		t.Fatal(err)
	}
	a.open()
	a.live(2 * time.Minute) // what follows has larger numbers
	more := len(a.parcels()) - sent
	a.send(b)
	if n := b.waits(t, js); more < 1 || n != uint64(sent+more) {
		t.Fatalf("the stream has %d of %d and %d parcels", n, sent, more)
	}
	recorder(t, b, fleet)
	b.taken(t)
	same(t, a, fleet)
}

// While the stream is full, or the servers are away, parcels stay in the outbox.
func TestStreamFullAndAway(t *testing.T) { virtual(t, streamFullAndAway) }

func streamFullAndAway(t *testing.T) {
	b, a := startBroker(t), away(t, 1)
	b.prepare(t, bus.Limits{PastNode: 5})
	defer a.sending(b)()
	testkit.Until(t, "the stream is full", func() bool {
		s := a.outbox.State()
		return s.Err != nil && strings.Contains(s.Err.Error(), "the stream of the past is full") && s.Waiting > 0 && !s.Since.IsZero()
	})
	js := b.connect(t, "").JetStream()
	if n := b.waits(t, js); n != 5 {
		t.Fatalf("the stream has %d messages", n)
	}
	b.Stop()
	b.Start()
	fleet := newAgent(t, 2).sqlite
	recorder(t, b, fleet)
	a.sent()
	b.taken(t)
	same(t, a, fleet)
}

// Messages that can't be read, are about another node or are dated in the future are refused and counted, and delay no others.
func TestBadMessages(t *testing.T) { virtual(t, badMessages) }

func badMessages(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	all := a.parcels()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	pack := func(v any) []byte {
		text, err := cbor.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return encoder.EncodeAll(text, nil)
	}
	event := func(when time.Time) map[string]any {
		return map[string]any{"version": 1, "node": "bad", "events": []any{map[string]any{"id": "x", "time": when.UnixMilli(), "new": 1}}, "new": "field"}
	}
	bad := func(data []byte) store.Parcel { return store.Parcel{Node: "bad", Number: 1, Data: data} }
	other := all[0]
	other.Node = "bad"
	newer := event(time.Now())
	newer["version"] = 2
	mixed := []store.Parcel{
		bad([]byte("no message")), bad(nil), bad(pack("text")), other, bad(pack(newer)), bad(pack(event(time.Now().Add(time.Hour)))), bad(pack(event(time.Time{}))),
		bad(encoder.EncodeAll(make([]byte, 1<<28), nil)), {Node: "bad", Data: pack(event(time.Now()))}, // which has no number
	}
	refused := len(mixed)
	mixed = append(mixed, bad(pack(event(time.Now()))))
	for i, p := range all {
		mixed = slices.Insert(mixed, min(2*i, len(mixed)), p)
	}
	publish(t, b, mixed)
	fleet := newAgent(t, 2).sqlite
	r, _ := recorder(t, b, fleet)
	b.taken(t)
	same(t, a, fleet)
	s := well(t, r)
	if s.Refused["bad"] != uint64(refused) || len(s.Refused) != 1 {
		t.Errorf("refused: %v", s.Refused)
	}
	if p := pastOf(t, fleet, "bad"); len(p.Events) != 1 || len(p.Devices) != 1 || len(p.Frames) != 0 {
		t.Errorf("of the bad node: %s", p.counts())
	}
}

// An outbox that is too small drops snapshots first, then readings. It counts the loss, and delivers the rest.
func TestOutboxTooSmall(t *testing.T) { virtual(t, outboxTooSmall) }

func outboxTooSmall(t *testing.T) {
	b, a := newBroker(t), newAgent(t, 0)
	a.live(12 * time.Minute)
	whole := a.outbox.State().Bytes
	a = newAgent(t, 0)
	_ = a.sqlite.Close()
	a.bytes = whole / 4
	a.open()
	a.live(12 * time.Minute)
	s := a.outbox.State()
	if s.Lost.Frames == 0 || s.Lost.Rest != 0 || s.Bytes > a.bytes {
		t.Fatalf("the outbox of %d bytes: %+v", a.bytes, s)
	}
	fleet := newAgent(t, 2).sqlite
	a.send(b)
	recorder(t, b, fleet)
	b.taken(t)
	want, got := pastOf(t, a.sqlite, a.node.Node()), pastOf(t, fleet, a.node.Node())
	each(t, "session", want.Sessions, got.Sessions)
	each(t, "cause", want.Causes, got.Causes)
	each(t, "event", want.Events, got.Events)
	if len(want.Frames)-len(got.Frames) != s.Lost.Frames || len(want.Rows["raw false"])+len(want.Rows["raw true"])-len(got.Rows["raw false"])-len(got.Rows["raw true"]) != s.Lost.Readings {
		t.Errorf("the node has %s, the fleet %s, and lost is %s", want.counts(), got.counts(), s.Lost)
	}
}

// failing is a database that is away for a while, or rejects one node's past.
type failing struct {
	store.Store
	away atomic.Bool
	bad  string
}

func (f *failing) Write(ctx context.Context, b *store.Batch) error {
	if f.away.Load() {
		return &gpu.Advice{What: "the database is away", Err: store.ErrGone}
	}
	for _, e := range b.Events {
		if e.Node == f.bad {
			return errors.New("it does not take that")
		}
	}
	return f.Store.Write(ctx, b)
}

// While the database is away, everything waits in the stream.
func TestDatabaseAway(t *testing.T) { virtual(t, databaseAway) }

func databaseAway(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	fleet := newAgent(t, 2).sqlite
	f := &failing{Store: fleet}
	f.away.Store(true)
	r, _ := recorder(t, b, f)
	a.send(b)
	testkit.Until(t, "a state that says so", func() bool { return errors.Is(r.State().Err, store.ErrGone) })
	js := b.connect(t, "").JetStream()
	if n := b.waits(t, js); n < 3 {
		t.Errorf("%d messages wait", n)
	}
	f.away.Store(false)
	b.taken(t)
	same(t, a, fleet)
	if s := well(t, r); len(s.Refused) != 0 {
		t.Errorf("refused: %v", s.Refused)
	}
}

// Messages that a lost recorder had fetched go to another one.
func TestRecorderLost(t *testing.T) { virtual(t, recorderLost) }

func recorderLost(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	fleet := newAgent(t, 2).sqlite
	js := b.connect(t, "").JetStream()
	// As an older program made it, which has ended.
	consumer, err := js.CreateConsumer(t.Context(), bus.PastStream, jetstream.ConsumerConfig{Durable: "recorders", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	a.send(b)
	some, err := consumer.Fetch(5)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for range some.Messages() {
		lost++ // and nobody says what becomes of it
	}
	if lost != 5 {
		t.Fatalf("%d messages are lost", lost)
	}
	recorder(t, b, fleet)
	b.taken(t)
	same(t, a, fleet)
}

// slowly is a slow database that counts what it is asked to write.
type slowly struct {
	store.Store
	takes  time.Duration
	events atomic.Int64
}

func (s *slowly) Write(ctx context.Context, b *store.Batch) error {
	s.events.Add(int64(len(b.Events)))
	time.Sleep(s.takes)
	return s.Store.Write(ctx, b)
}

// A message does not go to another recorder while the first one is writing it, even if its database takes longer than the redelivery time.
func TestSlowDatabase(t *testing.T) { virtual(t, slowDatabase) }

func slowDatabase(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	s := &slowly{Store: newAgent(t, 2).sqlite, takes: 50 * time.Second} // recorders are waited for for 30 s
	a.send(b)
	for range 2 {
		r, _ := recorder(t, b, s)
		defer func() { well(t, r) }()
	}
	b.taken(t)
	same(t, a, s.Store)
	if n := len(pastOf(t, s.Store, a.node.Node()).Events); s.events.Load() != int64(n) {
		t.Errorf("%d events were written %d times", n, s.events.Load())
	}
}

// stuck is a database that never returns.
type stuck struct {
	store.Store
	asked chan struct{} // is closed with the first
	once  sync.Once
	until <-chan struct{}
}

func (s *stuck) Write(ctx context.Context, _ *store.Batch) error {
	s.once.Do(func() { close(s.asked) })
	<-s.until
	return ctx.Err()
}

// A recorder whose database never returns does not keep messages from the others.
func TestStuckDatabase(t *testing.T) { virtual(t, stuckDatabase) }

func stuckDatabase(t *testing.T) {
	b, a := newBroker(t), away(t, 0)
	until := make(chan struct{})
	fleet := newAgent(t, 2).sqlite
	s := &stuck{Store: fleet, asked: make(chan struct{}), until: until}
	recorder(t, b, s)
	t.Cleanup(func() { close(until) })
	a.send(b)
	<-s.asked
	recorder(t, b, fleet)
	b.taken(t)
	same(t, a, fleet)
}

// Two recorders with separate databases never divide a past: the second says that another one has it, and takes over when that one ends.
func TestTwoDatabases(t *testing.T) { virtual(t, twoDatabases) }

func twoDatabases(t *testing.T) {
	b, first, second := newBroker(t), newAgent(t, 2).sqlite, newAgent(t, 2).sqlite
	one, stop := recorder(t, b, first)
	js := b.connect(t, "").JetStream()
	a := away(t, 0)
	a.send(b)
	b.taken(t)
	well(t, one)
	other, _ := recorder(t, b, second)
	refused := func() bool { return errors.Is(other.State().Err, deliver.ErrElsewhere) }
	testkit.Until(t, "the second database is refused", refused)
	if advice := gpu.AsAdvice(other.State().Err); !strings.Contains(advice.Try, "--history") {
		t.Errorf("what to do: %q", advice.Try)
	}
	later := away(t, 1)
	later.send(b)
	b.taken(t)
	same(t, a, first)
	same(t, later, first)
	if devices, err := second.Devices(t.Context()); err != nil || len(devices) > 0 {
		t.Errorf("the second database has %v, %v", devices, err)
	}
	stop()
	testkit.Until(t, "the second takes its place", func() bool { return other.State().Err == nil })
	later.live(time.Minute)
	later.send(b)
	b.taken(t)
	if devices, err := second.Devices(t.Context()); err != nil || len(devices) == 0 {
		t.Errorf("then the second database has %v, %v", devices, err)
	}

	// A recorder of its own ends where it is of no use, and not before whoever was there may be gone.
	gives := deliver.NewCollector(deliver.CollectorConfig{
		Store: first, JetStream: js, Stream: bus.PastStream, NodeOf: nodeOf, Log: logger(t), Now: time.Now, GivesWay: true,
	})
	began := time.Now()
	if err := gives.Run(t.Context()); !errors.Is(err, deliver.ErrElsewhere) || time.Since(began) < 2*time.Minute {
		t.Errorf("after %v it ends with %v", time.Since(began), err)
	}
}

// The recorder of a copy of a database, for example in another folder, does not take half of the first one's messages.
func TestACopyOfADatabase(t *testing.T) { virtual(t, copyOfADatabase) }

func copyOfADatabase(t *testing.T) {
	b, fleet := newBroker(t), newAgent(t, 2).sqlite
	config := deliver.CollectorConfig{Store: fleet, JetStream: b.connect(t, "").JetStream(), Stream: bus.PastStream, NodeOf: nodeOf, Log: logger(t), Now: time.Now}
	var all [2]*deliver.Collector
	var ended sync.WaitGroup
	for i := range all {
		config.Place = fmt.Sprint("place ", i)
		all[i] = deliver.NewCollector(config)
		ctx, cancel := context.WithCancel(t.Context())
		ended.Go(func() { _ = all[i].Run(ctx) })
		t.Cleanup(func() { cancel(); ended.Wait() })
	}
	testkit.Until(t, "one of them is refused", func() bool {
		return errors.Is(all[0].State().Err, deliver.ErrElsewhere) != errors.Is(all[1].State().Err, deliver.ErrElsewhere)
	})
}
