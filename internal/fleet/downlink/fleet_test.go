package downlink_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/fleet/downlink"
	"github.com/gpuwhy/gpuwhy/internal/fleet/natstest"
	"github.com/gpuwhy/gpuwhy/internal/fleet/talk"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// virtualClock is the clock of a machine that started an hour ago, in virtual time.
func virtualClock() clock.Clock {
	started := time.Now().Add(-time.Hour)
	return clock.Of(time.Now, func() time.Duration { return time.Since(started) })
}

func connect(t *testing.T, server *natstest.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Open(bus.Config{InProcess: server, Name: t.Name(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	testkit.Until(t, "a connection", func() bool { return b.State().Connected })
	return b
}

// A screen is what a hub shows.
type screen struct {
	*downlink.Downlink
	bus    *bus.Bus
	stop   func()
	mu     sync.Mutex
	nodes  map[string]*insight.Moment
	alerts map[string]*alert.Report
	events []string
	old    []string
	gone   []string
	live   map[string]bool // nodes that were shown as such
	pasts  []string        // nodes and what they said of their past
}

func (s *screen) node(name string) *insight.Moment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[name]
}

func (s *screen) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// show starts a hub.
func show(t *testing.T, server *natstest.Server, clock clock.Clock) *screen {
	t.Helper()
	return showSigned(t, server, clock, &talk.Signer{Name: "hub", Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
}

// showSigned starts a hub that signs its questions; with nil, as hubs of earlier versions, it does not.
func showSigned(t *testing.T, server *natstest.Server, clock clock.Clock, signer *talk.Signer) *screen {
	t.Helper()
	s := &screen{bus: connect(t, server), nodes: map[string]*insight.Moment{}, live: map[string]bool{}, alerts: map[string]*alert.Report{}}
	locked := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	s.Downlink = downlink.New(downlink.Config{
		Bus: s.bus, Version: "1.2.3", Clock: clock, Signer: signer, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Limits: bus.Limits{BucketBytes: 64 << 20, EventBytes: 64 << 20, PastBytes: 64 << 20},
		Own:    func(string) bool { return false },
		Take: func(list []*insight.Moment) {
			locked(func() {
				for _, m := range list {
					s.nodes[m.Snapshot.Node] = m
					if m.Link.Silent.IsZero() {
						s.live[m.Snapshot.Node] = true
					}
				}
			})
		},
		Report: func(all map[string]*alert.Report) { locked(func() { maps.Copy(s.alerts, all) }) },
		Event: func(c *alert.Change, old bool) {
			locked(func() {
				if text := string(c.News) + " " + c.ID; old {
					s.old = append(s.old, text)
				} else {
					s.events = append(s.events, text)
				}
			})
		},
		Past: func(node string, text []byte) error {
			locked(func() { s.pasts = append(s.pasts, node+" "+string(text)) })
			if string(text) == `"bad"` {
				return errors.New("it can't be read")
			}
			return nil
		},
		Gone: func(node string) { locked(func() { s.gone = append(s.gone, node); delete(s.nodes, node) }) },
	})
	s.stop = running(t, s.Run)
	return s
}

// running runs something until the test or stop ends it.
func running(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// An agent reads a made-up machine.
type agent struct {
	*uplink.Uplink
	bus    *bus.Bus
	alerts *alert.Engine
	stop   func()
}

const interval = time.Second

// start starts an agent.
func start(t *testing.T, server *natstest.Server) *agent {
	t.Helper()
	a := &agent{bus: connect(t, server), alerts: alert.New(nil)}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	room := &alerts.Room{Book: alert.Share(a.alerts), Now: time.Now}
	desk := action.NewDesk(action.Log{Logger: log}, append(room.Actions(), action.Action{
		ID: "refresh", Needs: auth.Read, Remote: true,
		Func: action.Takes(func(_ context.Context, c *action.Call, _ struct{}) (any, error) {
			m := machine(c.Node)
			m.Snapshot.Seq = 4711
			return m, nil
		}),
	})...)
	a.Uplink = uplink.New(uplink.Config{
		Bus: a.bus, Version: "1.2.3", Interval: interval, Alerts: a.alerts, Clock: virtualClock(), Log: log, Act: desk.Answer,
		Recent: func(node string) ([]byte, error) {
			switch node {
			case "none":
				return nil, errors.New("there is no past")
			case "bad":
				return []byte(`"bad"`), nil
			}
			return fmt.Appendf(nil, `{"node":%q}`, node), nil
		},
	})
	a.alerts.Announce = func(_ []string, changes []alert.Change, _ []alert.Alert) { a.Announce(changes) }
	a.stop = running(t, a.Run)
	return a
}

// machine returns a Moment of a machine, read now.
func machine(node string) *insight.Moment {
	s := fixture.Workstation()
	s.Node, s.Time = node, time.Now().UTC()
	for i := range s.Devices {
		s.Devices[i].Node, s.Devices[i].SampledAt = node, s.Time
		s.Devices[i].UUID += "-" + node
	}
	return insight.Of(s)
}

// lives sends a machine's Moments until stop.
func (a *agent) lives(t *testing.T, node string, change func(*insight.Moment)) (stop func()) {
	t.Helper()
	return running(t, func(ctx context.Context) error {
		for tick := time.NewTicker(interval); ; {
			m := machine(node)
			if change != nil {
				change(m)
			}
			a.alerts.Observe(m)
			a.Observe(m)
			select {
			case <-ctx.Done():
				tick.Stop()
				return nil
			case <-tick.C:
			}
		}
	})
}

func TestHubs(t *testing.T) { natstest.Virtual(t, hubs) }

func hubs(t *testing.T) {
	s := natstest.InProcess(t)
	first := show(t, s, virtualClock())
	a := start(t, s)
	stop := a.lives(t, "lab:gpu-1.example.org", nil)
	a.lives(t, "gpu-2", nil)
	testkit.Until(t, "both machines", func() bool { return first.node("lab:gpu-1.example.org") != nil && first.node("gpu-2") != nil })
	seen := first.node("gpu-2")
	testkit.Until(t, "newer readings", func() bool { return first.node("gpu-2").Snapshot.Time.After(seen.Snapshot.Time) })
	if l := first.node("gpu-2").Link; !l.Remote || l.Version != "1.2.3" || !l.Silent.IsZero() || len(l.Notes) > 0 {
		t.Errorf("its link is %+v", l)
	}
	kept(t, first, "lab:gpu-1.example.org")
	stop() // it says nothing
	testkit.Until(t, "that it is silent", func() bool { return !first.node("lab:gpu-1.example.org").Link.Silent.IsZero() })
	silent := first.node("lab:gpu-1.example.org")
	if silent.Link.Why.IsZero() || silent.Answer.Headline == "" || len(silent.Snapshot.Devices) == 0 {
		t.Errorf("of a silent machine this is left: %+v, %q", silent.Link, silent.Answer.Headline)
	}
	second := show(t, s, virtualClock()) // a hub that starts now has both, and so has one that was started anew
	testkit.Until(t, "both machines at another hub", func() bool { return second.node("lab:gpu-1.example.org") != nil && second.node("gpu-2") != nil })
	testkit.Until(t, "that it is silent there too", func() bool { return !second.node("lab:gpu-1.example.org").Link.Silent.IsZero() })
	testkit.Until(t, "readings of the other", func() bool { return second.State().Silent == 1 })
	if state := second.State(); state.Nodes != 2 || len(state.Refused) != 0 || state.Err != nil {
		t.Errorf("%+v", state)
	}
	a.lives(t, "lab:gpu-1.example.org", nil)
	testkit.Until(t, "that it is back", func() bool {
		return first.node("lab:gpu-1.example.org").Link.Silent.IsZero() && second.node("lab:gpu-1.example.org").Link.Silent.IsZero()
	})
	a.stop() // it says that it ends
	testkit.Until(t, "that both have ended", func() bool {
		l := second.node("gpu-2").Link
		return !l.Silent.IsZero() && strings.Contains(l.Why.What, "was stopped") && !first.node("lab:gpu-1.example.org").Link.Silent.IsZero()
	})
}

// A hub asks each node for its recent past when it joins, and again when it comes back. A node without a past, or with an unreadable one, does not
// affect others.
func TestRecentPast(t *testing.T) { natstest.Virtual(t, recentPast) }

func recentPast(t *testing.T) {
	s := natstest.InProcess(t)
	a := start(t, s)
	stop := a.lives(t, "first", nil)
	a.lives(t, "none", nil)
	a.lives(t, "bad", nil)
	var many []string
	for i := range 20 {
		node := fmt.Sprintf("gpu-%02d", i)
		many = append(many, node+` {"node":"`+node+`"}`)
		a.lives(t, node, nil)
	}
	hub := show(t, s, virtualClock())
	heard := func() []string {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		return slices.Sorted(slices.Values(hub.pasts))
	}
	const first = `first {"node":"first"}`
	want := append([]string{`bad "bad"`, first}, many...)
	testkit.Until(t, "the past of all", func() bool { return slices.Equal(slices.Compact(heard()), want) })
	stop()
	testkit.Until(t, "that it is silent", func() bool { return !hub.node("first").Link.Silent.IsZero() })
	before := len(heard())
	a.lives(t, "first", nil)
	testkit.Until(t, "the past of one that is back", func() bool {
		got := heard()
		return len(got) > before && slices.Equal(slices.Compact(slices.Clone(got)), want)
	})
	if n := hub.State().Refused; n["bad"] == 0 || len(n) != 1 {
		t.Errorf("refused: %v", n)
	}
}

func TestQuestions(t *testing.T) { natstest.Virtual(t, questions) }

func questions(t *testing.T) {
	s := natstest.InProcess(t)
	hub, a := show(t, s, virtualClock()), start(t, s)
	a.lives(t, "gpu-1", func(m *insight.Moment) { m.Snapshot.Devices[0].Utilization.GPU = gpu.Of[gpu.Percent](99) })
	testkit.Until(t, "the machine", func() bool { return hub.node("gpu-1") != nil })
	ann := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}
	ask := func(node, what string, asker *auth.Principal, order string) (any, error) {
		return hub.Ask(t.Context(), node, &action.Question{Ask: what, Order: json.RawMessage(order), Asker: asker})
	}
	read, err := ask("gpu-1", "refresh", &ann, "")
	m, ok := read.(*insight.Moment)
	if err != nil || !ok || m.Snapshot.Seq != 4711 || !m.Link.Remote {
		t.Fatalf("a reading that begins now is %+v, %v", m, err)
	}
	if _, err := ask("gpu-9", "refresh", &ann, ""); err == nil || !strings.Contains(err.Error(), "gpu-9 does not answer") {
		t.Errorf("a machine that is none: %v", err)
	}
	a.alerts.SetRules([]alert.Rule{func() alert.Rule { r := alert.Default("busy", alert.Utilization); r.Hold = 0; return r }()}, time.Now())
	standing := func() *alert.Alert {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		if r := hub.alerts["gpu-1"]; r != nil && len(r.Standing) == 1 {
			return &r.Standing[0]
		}
		return nil
	}
	testkit.Until(t, "its alert", func() bool { return standing() != nil })
	got := standing()
	if len(got.Processes) == 0 || got.Is == "" || got.Device.UUID != m.Snapshot.Devices[0].UUID || !got.Value.Present() {
		t.Errorf("less of it came than there is: %+v", got)
	}
	// An earlier version's hub names nobody, and is answered. Who is named and may not do it is denied, and so is what names
	// nobody and no earlier version asked.
	acknowledge := fmt.Sprintf(`{"acknowledge":%q,"by":{"by":"ann","comment":"","at":%q}}`, got.ID, time.Now().Format(time.RFC3339))
	for _, tt := range []struct {
		ask, order string
		asker      *auth.Principal
		code       string // of the refusal; "-" for another error
	}{
		{"alert", acknowledge, &auth.Principal{}, "denied"},
		{"alert", acknowledge, &auth.Principal{Name: "guest", Access: auth.Read}, "denied"},
		{"refresh", "", &auth.Principal{}, "denied"},
		{"whole", "", &auth.Principal{}, "denied"},
		{"recent", "", &auth.Principal{Name: "nobody"}, "denied"},
		{"acknowledgeAlert", "", nil, "denied"},
		{"acknowledgeAlert", "", &ann, "-"}, // is not for other programs
		{"reboot", "", nil, "denied"},
		{"reboot", "", &ann, "-"},
		{"alert", `{"acknowledge":"none"}`, &ann, "unknown"},
		{"alert", `{"silence":[{"rule":"["}]}`, &ann, "invalid"},
		{"alert", `{}`, &ann, "invalid"},
		{"alert", `[]`, &ann, "-"},
		{"refresh", "", nil, ""}, {"whole", "", nil, ""}, {"recent", "", nil, ""},
		{"alert", acknowledge, nil, ""},
	} {
		out, err := ask("gpu-1", tt.ask, tt.asker, tt.order)
		refusal, refused := errors.AsType[*action.Refusal](err)
		if refused != (tt.code != "" && tt.code != "-") || refused && refusal.Code != tt.code || (err == nil) != (tt.code == "") {
			t.Errorf("%s %s by %+v: %v", tt.ask, tt.order, tt.asker, err)
		}
		if text, _ := out.(json.RawMessage); tt.code == "" && tt.ask == "alert" && !strings.Contains(string(text), `"Acknowledged":{`) {
			t.Errorf("the outcome is %s", text)
		}
	}
	testkit.Until(t, "that it is acknowledged", func() bool { return standing().Acknowledged != nil })
	testkit.Until(t, "its events", func() bool { return len(hub.seen()) == 2 })
	if got := hub.seen(); !strings.HasPrefix(got[0], "fired busy-") || !strings.HasPrefix(got[1], "marked busy-") {
		t.Errorf("%q", got)
	}
}

func TestEarlierHub(t *testing.T) { natstest.Virtual(t, earlierHub) }

// A hub of an earlier version, which signs nothing, shows the machines of this version and their alerts. It changes nothing on them, and says
// why, whether or not it names who asks. One of this version beside it does.
func earlierHub(t *testing.T) {
	s := natstest.InProcess(t)
	old, a := showSigned(t, s, virtualClock(), nil), start(t, s)
	a.alerts.SetRules([]alert.Rule{func() alert.Rule { r := alert.Default("busy", alert.Utilization); r.Hold = 0; return r }()}, time.Now())
	a.lives(t, "gpu-1", func(m *insight.Moment) { m.Snapshot.Devices[0].Utilization.GPU = gpu.Of[gpu.Percent](99) })
	standing := func() *alert.Alert {
		old.mu.Lock()
		defer old.mu.Unlock()
		if r := old.alerts["gpu-1"]; r != nil && len(r.Standing) == 1 {
			return &r.Standing[0]
		}
		return nil
	}
	testkit.Until(t, "the machine with its alert and its past", func() bool {
		old.mu.Lock()
		past := len(old.pasts) > 0
		old.mu.Unlock()
		return past && old.node("gpu-1") != nil && standing() != nil
	})
	at := time.Now().Format(time.RFC3339)
	orders := []string{
		fmt.Sprintf(`{"acknowledge":%q,"by":{"by":"ann","comment":"","at":%q}}`, standing().ID, at),
		fmt.Sprintf(`{"silence":[{"rule":"busy","by":"ann","until":%q}]}`, time.Now().Add(time.Hour).Format(time.RFC3339)),
	}
	ann := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}
	for _, asker := range []*auth.Principal{nil, &ann} { // hubs of still earlier versions name nobody
		for _, what := range []string{"refresh", talk.Whole, talk.Recent} {
			if _, err := old.Ask(t.Context(), "gpu-1", &action.Question{Ask: what, Asker: asker}); err != nil {
				t.Errorf("%s by %v: %v", what, asker, err)
			}
		}
		for _, order := range orders {
			_, err := old.Ask(t.Context(), "gpu-1", &action.Question{Ask: "alert", Order: json.RawMessage(order), Asker: asker})
			refusal, is := errors.AsType[*action.Refusal](err)
			if !is || refusal.Code != action.Unsigned.Code || refusal.What != action.Unsigned.What || refusal.Try != action.Unsigned.Try {
				t.Errorf("%s by %v: %v", order, asker, err)
			}
		}
	}
	refused := time.Now()
	testkit.Until(t, "later readings", func() bool { return old.node("gpu-1").Snapshot.Time.After(refused) })
	old.mu.Lock()
	if r := old.alerts["gpu-1"]; r.Standing[0].Acknowledged != nil || len(r.Silences) > 0 || len(old.gone) > 0 {
		t.Errorf("it has changed something: %+v, gone: %q", r, old.gone)
	}
	old.mu.Unlock()
	hub := show(t, s, virtualClock())
	testkit.Until(t, "the machine", func() bool { return hub.node("gpu-1") != nil })
	if _, err := hub.Ask(t.Context(), "gpu-1", &action.Question{Ask: "alert", Order: json.RawMessage(orders[0]), Asker: &ann}); err != nil {
		t.Errorf("by a hub of this version: %v", err)
	}
	testkit.Until(t, "the earlier hub sees it", func() bool { return standing().Acknowledged != nil })
}

func TestEarlierMachine(t *testing.T) { natstest.Virtual(t, earlierMachine) }

// A machine of an earlier version reads the question alone, and not the headers with the signature: it gets what it knows, and its answer
// and its refusal are understood.
func earlierMachine(t *testing.T) {
	s := natstest.InProcess(t)
	hub, b := show(t, s, virtualClock()), connect(t, s)
	start(t, s).lives(t, "gpu-1", nil)
	testkit.Until(t, "a machine of this version", func() bool { return hub.node("gpu-1") != nil })
	var asked struct {
		Ask    string          `json:"ask"`
		Order  json.RawMessage `json:"order"`
		Target string          `json:"target"`
		By     struct {
			Name   string `json:"name"`
			Access string `json:"access"`
		} `json:"by"`
	}
	if _, err := b.Subscribe(bus.Ask("old-1"), func(m *nats.Msg) {
		answer := `{"outcome":{"done":true}}`
		if err := json.Unmarshal(m.Data, &asked); err != nil {
			answer = fmt.Sprintf(`{"error":%q}`, err)
		} else if asked.By.Access != "operate" {
			answer = `{"error":"you may not","code":"denied"}`
		}
		if err := m.Respond([]byte(answer)); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	ann := auth.Principal{Name: "ann", Access: auth.Operate, Audience: auth.Everything}
	out, err := hub.Ask(t.Context(), "old-1", &action.Question{Ask: "alert", Order: json.RawMessage(`{"dismiss":"x"}`), Target: "x", Asker: &ann})
	if text, is := out.(json.RawMessage); err != nil || !is || string(text) != `{"done":true}` {
		t.Errorf("%s, %v", out, err)
	}
	if asked.Ask != "alert" || string(asked.Order) != `{"dismiss":"x"}` || asked.Target != "x" || asked.By.Name != "ann" {
		t.Errorf("it reads %+v", asked)
	}
	ann.Access = auth.Read
	if _, err := hub.Ask(t.Context(), "old-1", &action.Question{Ask: "alert", Asker: &ann}); !errors.Is(err, action.Denied) {
		t.Errorf("its refusal is %v", err)
	}
}

// kept waits until the whole state of a machine is stored for hubs that start later.
func kept(t *testing.T, hub *screen, node string) jetstream.KeyValue {
	t.Helper()
	var kv jetstream.KeyValue
	testkit.Until(t, "the state that is kept", func() bool {
		var err error
		if kv, err = hub.bus.JetStream().KeyValue(t.Context(), bus.Bucket); err == nil {
			_, err = kv.Get(t.Context(), bus.Token(node))
		}
		return err == nil
	})
	return kv
}

// Events reach each hub once and in order, whatever restarts in between.
func TestEventsOnce(t *testing.T) { natstest.Virtual(t, eventsOnce) }

func eventsOnce(t *testing.T) {
	s := natstest.InProcess(t)
	first, a := show(t, s, virtualClock()), start(t, s)
	a.lives(t, "gpu-1", nil)
	testkit.Until(t, "the machine", func() bool { return first.node("gpu-1") != nil })
	var want []string
	told := 0
	tell := func(n int) {
		for range n {
			told++
			c := alert.Change{News: alert.Fired, Alert: alert.Alert{ID: fmt.Sprintf("alert-%03d", told), Device: gpu.Identity{Node: "gpu-1"}}}
			want = append(want, "fired "+c.ID)
			a.Announce([]alert.Change{c})
		}
	}
	tell(20)
	testkit.Until(t, "20 events", func() bool { return len(first.seen()) == 20 })
	second := show(t, s, virtualClock())
	testkit.Until(t, "20 old events", func() bool { second.mu.Lock(); defer second.mu.Unlock(); return len(second.old) == 20 })
	s.Stop()
	tell(20)
	time.Sleep(10 * time.Minute)
	s.Start()
	testkit.Until(t, "events of the time without NATS", func() bool { return len(first.seen()) == 40 && len(second.seen()) == 20 })
	twice, err := talk.MarshalEvent("1.2.3", &alert.Change{News: alert.Fired, Alert: alert.Alert{ID: "twice", Device: gpu.Identity{Node: "gpu-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "fired twice")
	for range 2 {
		if _, err := first.bus.JetStream().Publish(t.Context(), bus.Event("gpu-1"), twice, jetstream.WithMsgID("twice")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // NATS does not know it any more
	}
	tell(5)
	testkit.Until(t, "the last events", func() bool { return len(first.seen()) >= 46 && len(second.seen()) >= 26 })
	if got := first.seen(); !slices.Equal(got, want) {
		t.Errorf("the first hub has %q", got)
	}
	if got := second.seen(); !slices.Equal(got, want[20:]) {
		t.Errorf("the second hub has %q", got)
	}
	testkit.Until(t, "newer readings", func() bool {
		m := second.node("gpu-1")
		return m != nil && time.Since(m.Snapshot.Time) < time.Second
	})
}

// Refused messages of one machine are counted and reported, and do not affect others.
func TestBadMessages(t *testing.T) { natstest.Virtual(t, badMessages) }

func badMessages(t *testing.T) {
	s := natstest.InProcess(t)
	hub, a := show(t, s, virtualClock()), start(t, s)
	a.lives(t, "good", nil)
	testkit.Until(t, "the good machine", func() bool { return hub.node("good") != nil })
	encoded := func(node string, sent time.Time) []byte {
		m := machine(node)
		text, err := wire.NewEncoder(nil).EncodeWhole(&wire.State{Hello: wire.Hello{Version: "1.2.3", Sent: sent, Interval: interval}, Moment: m})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	conn := hub.bus.Conn()
	for subject, message := range map[string][]byte{
		bus.Live("garbage"): []byte("\x00garbage"),
		bus.Live(".."):      encoded("..", time.Now()),
		bus.Live("liar"):    encoded("good", time.Now()),
		bus.Live("future"):  encoded("future", time.Now().Add(time.Hour)),
		bus.Event("liar"):   []byte(`{"version":"1","change":{"Alert":{"ID":"x","Device":{"Node":"good"}},"News":"fired"}}`),
		"gpuwhy.v1.live.=2": encoded("good", time.Now()),
	} {
		if err := conn.Publish(subject, message); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, "that they are counted", func() bool {
		refused := hub.State().Refused
		return refused["garbage"] == 1 && refused[".."] == 1 && refused["liar"] == 2 && refused["future"] == 1
	})
	testkit.Until(t, "that it is on the screen", func() bool { return hub.node("future") != nil })
	if hub.node("garbage") != nil {
		t.Error("whoever sends garbage is on the screen")
	}
	if m := hub.node("future"); len(m.Snapshot.Failures) != 1 || !strings.Contains(m.Snapshot.Failures[0].Advice.What, "dated in the future") {
		t.Errorf("%+v", m.Snapshot)
	}
	if refused := hub.State().Refused; refused["good"] != 0 || len(hub.seen()) != 0 {
		t.Errorf("%v, %q", refused, hub.seen())
	}
	before := hub.node("good").Snapshot.Time
	testkit.Until(t, "newer readings of the good machine", func() bool { return hub.node("good").Snapshot.Time.After(before) })
}

// Two programs with one name, a wrong clock and a renamed machine are reported, not merged.
func TestDoubtfulMachines(t *testing.T) { natstest.Virtual(t, doubtfulMachines) }

func doubtfulMachines(t *testing.T) {
	s := natstest.InProcess(t)
	hub := show(t, s, clock.Of(func() time.Time { return time.Now().Add(-37 * time.Second) }, virtualClock().Elapsed))
	notes := func(node string) string {
		m := hub.node(node)
		if m == nil {
			return ""
		}
		text, err := json.Marshal(m.Link.Notes)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := start(t, s)
	one.lives(t, "twin", func(m *insight.Moment) { m.Snapshot.Devices[0].Name = "one" })
	testkit.Until(t, "the clock", func() bool { return strings.Contains(notes("twin"), "37s ahead") })
	two := start(t, s)
	two.lives(t, "twin", func(m *insight.Moment) { m.Snapshot.Devices[0].Name = "two" })
	testkit.Until(t, "that there are two", func() bool { return strings.Contains(notes("twin"), "two programs publish as twin") })
	for range 20 { // from then on the first is shown
		if name := hub.node("twin").Snapshot.Devices[0].Name; name != "one" {
			t.Fatalf("%q is shown", name)
		}
		time.Sleep(interval / 2)
	}
	two.stop()
	same := func(m *insight.Moment) { m.Snapshot.Devices[0].UUID = "GPU-the-same" }
	three := start(t, s)
	stop := three.lives(t, "old-name", same)
	testkit.Until(t, "the machine", func() bool { return hub.node("old-name") != nil })
	stop()
	three.lives(t, "new-name", same)
	testkit.Until(t, "that it has a new name", func() bool { return strings.Contains(notes("new-name"), "also listed by old-name") })
}

// A removed machine disappears from all hubs.
func TestTakenOut(t *testing.T) { natstest.Virtual(t, takenOut) }

func takenOut(t *testing.T) {
	s := natstest.InProcess(t)
	hub, a := show(t, s, virtualClock()), start(t, s)
	stop := a.lives(t, "gpu-1", nil)
	testkit.Until(t, "the machine", func() bool { return hub.node("gpu-1") != nil })
	kv := kept(t, hub, "gpu-1")
	stop()
	if err := kv.Delete(t.Context(), bus.Token("gpu-1")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "that it is gone", func() bool { return hub.node("gpu-1") == nil && hub.State().Nodes == 0 })
	hub.mu.Lock()
	if !slices.Equal(hub.gone, []string{"gpu-1"}) {
		t.Errorf("%q are gone", hub.gone)
	}
	hub.mu.Unlock()
	late, err := wire.NewEncoder(nil).EncodeWhole(&wire.State{Hello: wire.Hello{Version: "1.2.3", Sent: time.Now(), Interval: interval}, Moment: machine("gpu-1")})
	if err == nil {
		err = hub.bus.Conn().Publish(bus.Live("gpu-1"), late) // was on its way when it was taken out
	}
	if err == nil {
		err = hub.bus.Conn().Publish(bus.Live("gpu-2"), []byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "a later message", func() bool { return hub.State().Refused["gpu-2"] == 1 })
	if hub.node("gpu-1") != nil || hub.State().Nodes != 0 {
		t.Error("it is back by a message that was late")
	}
	a.lives(t, "gpu-1", nil) // somebody lets it join anew
	if err := hub.bus.Put(t.Context(), "gpu-1", late); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "that it is back", func() bool { return hub.node("gpu-1") != nil })
}

// A silence about several machines, or about one whose name is written as a pattern, is in the report of each machine.
func TestSilencesInReports(t *testing.T) { natstest.Virtual(t, silencesInReports) }

func silencesInReports(t *testing.T) {
	s := natstest.InProcess(t)
	hub, a := show(t, s, virtualClock()), start(t, s)
	for _, node := range []string{"gpu-1", "gpu[2]"} {
		a.lives(t, node, nil)
		testkit.Until(t, node, func() bool { return hub.node(node) != nil })
	}
	silence := func(pattern string) {
		if _, _, err := a.alerts.SilenceAll([]alert.Silence{{Node: pattern, Until: time.Now().Add(time.Hour)}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"", "gpu-*", "gpu*", alert.Literally("gpu[2]")} {
		silence(pattern)
	}
	reported := func(node string) (patterns []string) {
		hub.mu.Lock()
		defer hub.mu.Unlock()
		if r := hub.alerts[node]; r != nil {
			for _, x := range r.Silences {
				patterns = append(patterns, x.Node)
			}
		}
		slices.Sort(patterns)
		return patterns
	}
	for node, want := range map[string][]string{"gpu-1": {"", "gpu*", "gpu-*"}, "gpu[2]": {"", "gpu*", alert.Literally("gpu[2]")}} {
		testkit.Until(t, "the silences of "+node, func() bool { return slices.Equal(reported(node), want) })
	}
	if refused := hub.State().Refused; len(refused) != 0 {
		t.Errorf("refused are %v", refused)
	}
}

// A node can't report about others: alerts about another node, alerts dated in the future, and too many messages are refused.
func TestHostileMachine(t *testing.T) { natstest.Virtual(t, hostileMachine) }

func hostileMachine(t *testing.T) {
	s := natstest.InProcess(t)
	hub, a := show(t, s, virtualClock()), start(t, s)
	a.lives(t, "good", nil)
	testkit.Until(t, "the good machine", func() bool { return hub.node("good") != nil })
	report, err := talk.MarshalReport(&alert.Report{Standing: []alert.Alert{{ID: "x", Device: gpu.Identity{Node: "good"}, Message: "FORGED"}}})
	if err != nil {
		t.Fatal(err)
	}
	encoder := wire.NewEncoder(nil)
	evil := func(extra map[string]json.RawMessage) []byte {
		text, err := encoder.EncodeWhole(&wire.State{
			Hello: wire.Hello{Version: "1.2.3", Sent: time.Now(), Interval: interval}, Moment: machine("evil"), Extra: extra,
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	tell := func(text []byte) {
		if err := hub.bus.Conn().Publish(bus.Live("evil"), text); err != nil {
			t.Fatal(err)
		}
	}
	tell(evil(map[string]json.RawMessage{talk.Alerts: report}))
	late, err := talk.MarshalEvent("1", &alert.Change{News: alert.Over, Alert: alert.Alert{ID: "y", Device: gpu.Identity{Node: "evil"}, Time: time.Now().Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hub.bus.JetStream().Publish(t.Context(), bus.Event("evil"), late, jetstream.WithMsgID("1")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "that both are refused", func() bool { return hub.State().Refused["evil"] == 2 })
	harmless := evil(nil)
	for _, tt := range []struct {
		after time.Duration
		read  uint64 // of 400 at once
	}{{10 * time.Second, 40}, {time.Second, 20}} {
		time.Sleep(tt.after)
		before := hub.State().Refused["evil"]
		for range 400 {
			tell(harmless)
		}
		time.Sleep(time.Millisecond) // they are received
		if n := hub.State().Refused["evil"] - before; n != 400-tt.read {
			t.Errorf("%d of 400 messages are passed over, and %d can be read", n, tt.read)
		}
	}
	before := hub.node("good").Snapshot.Time
	testkit.Until(t, "newer readings of the good machine", func() bool { return hub.node("good").Snapshot.Time.After(before) })
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if hub.alerts["evil"] != nil || len(hub.events)+len(hub.old) > 0 {
		t.Errorf("%+v, %q", hub.alerts["evil"], hub.events)
	}
}

// Setting a clock back makes no machine silent.
func TestClockSetBack(t *testing.T) { natstest.Virtual(t, clockSetBack) }

func clockSetBack(t *testing.T) {
	s := natstest.InProcess(t)
	hub := show(t, s, virtualClock())
	encoder := wire.NewEncoder(nil)
	testkit.Until(t, "a reading of before and one of after", func() bool {
		sent := time.Now()
		if hub.node("m") != nil {
			sent = sent.Add(-time.Hour)
		}
		text, err := encoder.EncodeWhole(&wire.State{Hello: wire.Hello{Version: "1", Sent: sent, Interval: interval}, Moment: machine("m")})
		if err == nil {
			err = hub.bus.Conn().Publish(bus.Live("m"), text)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(interval)
		m := hub.node("m")
		return m != nil && m.Link.Silent.IsZero() && len(m.Link.Notes) == 1 && strings.Contains(m.Link.Notes[0].What, "behind")
	})
}

// A starting hub never shows a machine as live that is gone, and says the same about it as a hub that has run all the time. It shows a live machine
// as soon as it hears from it.
func TestAHubThatStarts(t *testing.T) { natstest.Virtual(t, hubThatStarts) }

func hubThatStarts(t *testing.T) {
	s := natstest.InProcess(t)
	first := show(t, s, virtualClock())
	a := start(t, s)
	stop := a.lives(t, "dies", nil)
	a.lives(t, "stays", nil)
	testkit.Until(t, "both machines", func() bool { return first.node("dies") != nil && first.node("stays") != nil })
	kept(t, first, "dies")
	time.Sleep(20*time.Second + interval/2) // what is kept is older than the last reading
	stop()
	last := first.node("dies").Snapshot.Time
	for _, gone := range []time.Duration{10 * time.Second, 73 * time.Second} {
		time.Sleep(gone)
		second := show(t, s, virtualClock())
		testkit.Until(t, "both machines at another hub", func() bool { return second.node("dies") != nil && second.node("stays") != nil })
		time.Sleep(5 * time.Second)
		second.mu.Lock()
		if second.live["dies"] || !second.live["stays"] {
			t.Errorf("%v after it died the hub that starts shows as live: %v", gone, second.live)
		}
		second.mu.Unlock()
		for name, hub := range map[string]*screen{"first": first, "second": second} {
			if l := hub.node("dies").Link; !l.Silent.Equal(last) || !strings.Contains(l.Why.What, "nothing arrives") {
				t.Errorf("the %s hub: silent since %v: %q; it was read last at %v", name, l.Silent, l.Why.What, last)
			}
		}
		second.stop()
	}

	// Why it is silent is said anew when that changes.
	s.Stop()
	testkit.Until(t, "that the hub is cut off", func() bool { return strings.Contains(first.node("dies").Link.Why.What, "is not connected") })
	s.Start()
	testkit.Until(t, "that it is the machine again", func() bool { return strings.Contains(first.node("dies").Link.Why.What, "nothing arrives") })
}
