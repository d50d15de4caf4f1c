package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// newTestHub returns a hub whose snapshots are encoded as their devices' UUIDs.
// A device named "bad" can't be encoded.
func newTestHub(tb testing.TB, acts ...Act) *Hub {
	tb.Helper()
	h := New(Config{
		Encode: func(m *insight.Moment, _ auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
			uuids := []string{}
			for _, d := range m.Snapshot.Devices {
				if keep != nil && !keep(&d) {
					continue
				}
				if d.UUID == "bad" {
					return nil, errors.New("a bad device")
				}
				uuids = append(uuids, d.UUID)
			}
			return json.Marshal(map[string]any{"seq": m.Snapshot.Seq, "gpus": uuids})
		},
		Status: func(auth.Audience, *insight.Fleet, []byte) ([]byte, error) { return []byte("{}"), nil },
		Log:    slog.New(slog.NewTextHandler(tb.Output(), nil)),
	})
	h.Accept(acts...)
	return h
}

func devices(seq uint64, uuids ...string) *insight.Moment {
	s := &gpu.Snapshot{Seq: seq, Node: "n"}
	for i, uuid := range uuids {
		s.Devices = append(s.Devices, gpu.Device{Identity: gpu.Identity{UUID: uuid, Index: i, Node: "n"}})
	}
	return insight.Of(s)
}

func (h *Hub) newTestMailbox(standing ...announcement) *mailbox {
	m := newMailbox(h, auth.LocalOwner(), "")
	m.start(h.now.Load(), standing)
	return &m
}

// body returns the JSON of a message.
func body(tb testing.TB, m message) string {
	tb.Helper()
	whole := append(bytes.Clone(m.head), m.tail...)
	start := 2 // of the payload, from the length field's size
	switch whole[1] {
	case 126:
		start = 4
	case 127:
		start = 10
	}
	if !json.Valid(whole[start:]) {
		tb.Fatalf("%q is not a frame with JSON", whole)
	}
	if got := appendHeader(nil, len(whole)-start); !bytes.Equal(got, whole[:start]) {
		tb.Fatalf("the header of %q is % x, want % x", whole, whole[:start], got)
	}
	return string(whole[start:])
}

// A frame counts as skipped if a newer one of its node came before the viewer took it, even while the viewer took one of another node.
func TestSkippedFramesOfSeveralNodes(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Several = true
	publish := func(node string, seq uint64) {
		h.Publish(insight.Of(&gpu.Snapshot{Node: node, Seq: seq, Devices: []gpu.Device{{Identity: gpu.Identity{Node: node, UUID: node}}}}))
	}
	m := newMailbox(h, auth.LocalOwner(), "")
	m.start(h.now.Load(), nil)
	publish("a", 1)
	publish("b", 1)
	if _, ok := m.next(h.now.Load()); !ok {
		t.Fatal("there is no frame of a")
	}
	publish("b", 2) // replaces one that the viewer has not taken
	for taken := 0; ; taken++ {
		if _, ok := m.next(h.now.Load()); !ok {
			if n := h.counts.skipped.Load(); taken != 1 || n != 1 {
				t.Errorf("%d frames came, %d were skipped; want one each", taken, n)
			}
			return
		}
	}
}

// owed takes everything that the mailbox returns now: the names of events with their data.
func owed(tb testing.TB, h *Hub, m *mailbox) (out []string) {
	tb.Helper()
	for {
		msg, ok := m.next(h.now.Load())
		if !ok {
			return out
		}
		var parts struct {
			Event string
			Data  json.RawMessage
		}
		if err := json.Unmarshal([]byte(body(tb, msg)), &parts); err != nil {
			tb.Fatal(err)
		}
		out = append(out, parts.Event+" "+string(parts.Data))
	}
}

func alerts(kind kind, events ...Event) []announcement {
	for i := range events {
		events[i].Name = "alert"
		events[i].Data = fmt.Appendf(nil, "%q", events[i].UUID)
	}
	return announcements(events, kind)
}

func frameText(seq int, uuids ...string) string {
	return fmt.Sprintf(`gpu_status_update {"gpus":["%s"],"seq":%d}`, strings.Join(uuids, `","`), seq)
}

func TestEventsComeBeforeTheNewestFrame(t *testing.T) {
	h := newTestHub(t)
	m := h.newTestMailbox(alerts(kindStanding, Event{UUID: "a"})...)
	h.Publish(devices(1, "a"))
	h.Publish(devices(2, "a"))
	m.announce(alerts(kindEvent, Event{UUID: "b"}, Event{UUID: "c"}))
	h.Publish(devices(3, "a"))
	m.announce(alerts(kindEvent, Event{UUID: "d"}))

	want := []string{`alert "a"`, `alert "b"`, `alert "c"`, `alert "d"`, frameText(3, "a")}
	if diff := cmp.Diff(want, owed(t, h, m)); diff != "" {
		t.Errorf("what is owed (-want +got):\n%s", diff)
	}
	if got := owed(t, h, m); got != nil {
		t.Errorf("and then again %q", got)
	}
	if got := h.counts.skipped.Load(); got != 2 {
		t.Errorf("%d frames were skipped, want 2", got)
	}
}

func TestFilterTakesEffectWithItsReply(t *testing.T) {
	h := newTestHub(t)
	m := h.newTestMailbox()
	subscribe := func(f *filter) {
		m.subscribe(f, newPacket(eventSubscribed, f.terms).reply(eventSubscribed, nil))
	}
	a, b := Event{UUID: "a", Index: 0}, Event{UUID: "b", Index: 1}

	m.announce(alerts(kindEvent, a, b))
	subscribe(newFilter(filterTerms{GPUs: []any{1}}))
	m.announce(alerts(kindEvent, a, b, Event{}))
	h.Publish(devices(1, "a", "b"))
	want := []string{
		`alert "a"`, `alert "b"`, // before the filter
		`subscribed {"events":null,"gpus":[1],"nodes":null}`,
		`alert "b"`, `alert ""`, // an event about no device passes
		frameText(1, "b"),
	}
	if diff := cmp.Diff(want, owed(t, h, m)); diff != "" {
		t.Errorf("what is owed (-want +got):\n%s", diff)
	}

	subscribe(newFilter(filterTerms{Events: []string{"alert"}}))
	h.Publish(devices(2, "a", "b"))
	m.announce(alerts(kindEvent, a))
	want = []string{`subscribed {"events":["alert"],"gpus":null,"nodes":null}`, `alert "a"`}
	if diff := cmp.Diff(want, owed(t, h, m)); diff != "" {
		t.Errorf("without frames (-want +got):\n%s", diff)
	}
}

func TestMailboxIsBounded(t *testing.T) {
	h := newTestHub(t)
	m := h.newTestMailbox(alerts(kindStanding, make([]Event, 100)...)...)
	if !m.announce(alerts(kindEvent, make([]Event, 200)...)) {
		t.Fatal("what is announced at once did not fit an empty queue")
	}
	if m.announce(alerts(kindEvent, Event{UUID: "more"})) {
		t.Error("one more found room")
	}
	if got := len(owed(t, h, m)); got != 300 {
		t.Errorf("%d events came, want the 300 that had room", got)
	}
	for range h.cfg.EventQueue {
		if !m.announce(alerts(kindEvent, Event{})) {
			t.Fatal("the queue is full too early")
		}
	}
	if m.announce(alerts(kindEvent, Event{})) {
		t.Error("the queue has no bound")
	}
	m.close()
	if !m.announce(alerts(kindEvent, Event{})) || len(owed(t, h, m)) != 0 || m.queue != nil {
		t.Error("a closed mailbox still holds something")
	}
}

// Each node of a fleet may have as many events at once as a single node.
func TestMailboxHasRoomForEachNode(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Several = true
	for i, node := range []string{"a", "b", "c"} {
		h.Publish(moment(node, uint64(i+1), node))
	}
	fits := func(m *mailbox) (n int) {
		for n = 0; m.announce(alerts(kindEvent, Event{Node: "a"})); n++ {
		}
		return n
	}
	all, one := newMailbox(h, auth.LocalOwner(), ""), newMailbox(h, auth.LocalOwner(), "a")
	if all, one := fits(&all), fits(&one); all != 3*h.cfg.EventQueue || one != h.cfg.EventQueue {
		t.Errorf("%d events of three nodes fit and %d of one, want %d and %d", all, one, 3*h.cfg.EventQueue, h.cfg.EventQueue)
	}
}

func TestFailingEncoderIsToldOnceAndViewersKeepTheLastFrame(t *testing.T) {
	var log bytes.Buffer
	h := newTestHub(t)
	for _, told := range []*trouble{h.encoding, h.greetings, h.refreshing} {
		told.log = slog.New(slog.NewTextHandler(&log, nil))
	}
	h.hearing[""] = 1
	m := h.newTestMailbox()
	h.Publish(devices(1, "a"))
	owed(t, h, m)

	h.Publish(devices(2, "bad"))
	h.Publish(devices(3, "bad"))
	if got := owed(t, h, m); got != nil {
		t.Errorf("a snapshot that can't be encoded is owed: %q", got)
	}
	if got := string(h.Update("n", auth.Everything)); got != `{"gpus":["a"],"seq":1}` {
		t.Errorf("the newest data is %s, want that of the last good one, 1", got)
	}
	for m := range h.Feed(t.Context()) {
		if m.Snapshot.Seq != 3 {
			t.Errorf("the feed has %d, want the newest whether or not it can be encoded, 3", m.Snapshot.Seq)
		}
		break
	}
	if s := h.Stats(); s.Err == nil || s.Failing.IsZero() || s.Encodings != 3 || s.Published != 1 {
		t.Errorf("stats are %+v", s)
	}
	h.Publish(devices(4, "a"))
	if diff := cmp.Diff([]string{frameText(4, "a")}, owed(t, h, m)); diff != "" {
		t.Error(diff)
	}
	if s := h.Stats(); s.Err != nil || !s.Failing.IsZero() {
		t.Errorf("stats after it is well again are %+v", s)
	}
	if text := log.String(); strings.Count(text, "failing ") != 1 || strings.Count(text, "well again") != 1 {
		t.Errorf("the log has\n%s", text)
	}
}

// While nobody looks nothing is encoded; the first request gets the encoding, or finds out that it fails.
func TestNothingIsEncodedForNobody(t *testing.T) {
	h := newTestHub(t)
	for seq := range uint64(3) {
		h.Publish(devices(seq+1, "a"))
	}
	if got := h.Stats(); got.Encodings != 0 || got.Published != 3 {
		t.Errorf("stats are %+v", got)
	}
	for range 2 {
		if got := string(h.Update("n", auth.Everything)); got != `{"gpus":["a"],"seq":3}` {
			t.Errorf("it is %s", got)
		}
	}
	if got := h.Stats().Encodings; got != 1 {
		t.Errorf("it was encoded %d times", got)
	}
	h.Publish(devices(4, "bad"))
	if got := h.Update("n", auth.Everything); got != nil || h.Stats().Err == nil {
		t.Errorf("it is %s, and the error %v", got, h.Stats().Err)
	}
	h.Publish(devices(5, "a"))
	h.Publish(devices(6, "a")) // all is well after two were
	if got := string(h.Update("n", auth.Everything)); got != `{"gpus":["a"],"seq":6}` || h.Stats().Err != nil {
		t.Errorf("it is %s, and the error %v", got, h.Stats().Err)
	}
}

func TestFrameOfAFilterThatFailsIsSkipped(t *testing.T) {
	h := newTestHub(t)
	fail := false
	h.cfg.Encode = func(m *insight.Moment, _ auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
		if fail && keep != nil {
			return nil, errors.New("a part is not enough")
		}
		return fmt.Appendf(nil, "%d", m.Snapshot.Seq), nil
	}
	m := h.newTestMailbox()
	m.subscribe(newFilter(filterTerms{GPUs: []any{0}}), message{head: newPacket("x", []byte("1")).bytes})
	owed(t, h, m)
	for seq, bad := range []bool{false, true, true, false, false} {
		fail = bad
		h.Publish(devices(uint64(seq), "a", "b"))
		if got := len(owed(t, h, m)) == 0; got != bad {
			t.Errorf("frame %d: skipped is %t, want %t", seq, got, bad)
		}
	}
	if h.Stats().Err != nil {
		t.Error("the trouble has not ended")
	}
}

func TestFiltersShareEncodings(t *testing.T) {
	h := newTestHub(t)
	h.Publish(devices(1, "a", "b", "c"))
	f := h.latest("n")
	terms := []filterTerms{
		{},
		{GPUs: []any{2, 1}},
		{GPUs: []any{1, 2}, Events: []string{eventUpdate}},
		{GPUs: []any{"b"}},
		{Nodes: []string{"n", "m"}}, // all nodes: the same encoding as for everybody
	}
	for range 100 {
		for _, t := range terms {
			if _, err := f.packet(auth.Everything, newFilter(t)); err != nil {
				panic(err)
			}
		}
	}
	if got := h.Stats().Encodings; got != 3 {
		t.Errorf("%d encodings, want 3: all, two and one device", got)
	}
}

func TestPacketSizes(t *testing.T) {
	for _, n := range []int{0, 60, 120, 126, 5000, 65535, 70_000} {
		data := []byte(`"` + strings.Repeat("x", n) + `"`)
		p := newPacket("e", data)
		if got, want := body(t, message{head: p.bytes}), `{"event":"e","data":`+string(data)+`}`; got != want {
			t.Errorf("%d bytes: got %.40s", n, got)
		}
		if !bytes.Equal(p.data(), data) {
			t.Errorf("%d bytes: the data is not what was given", n)
		}
		if got, want := body(t, p.reply("e", json.RawMessage(`"7"`))), `{"event":"e","id":"7","data":`+string(data)+`}`; got != want {
			t.Errorf("%d bytes: the reply is %.40s", n, got)
		}
	}
}

func moment(node string, seq uint64, uuids ...string) *insight.Moment {
	s := &gpu.Snapshot{Seq: seq, Node: node}
	for i, uuid := range uuids {
		s.Devices = append(s.Devices, gpu.Device{Identity: gpu.Identity{UUID: uuid, Index: i, Node: node}})
	}
	return insight.Of(s)
}

// With several nodes a viewer gets the newest frame of each, whatever was published in between, and only of nodes with something it asked
// for.
func TestSeveralNodes(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Several = true
	h.Publish(moment("x", 1, "x0"))
	h.Publish(moment("y", 1, "y0", "y1"))
	all, some := h.newTestMailbox(), h.newTestMailbox()
	some.subscribe(newFilter(filterTerms{Nodes: []string{"y"}, GPUs: []any{1}}), message{head: newPacket("x", []byte("1")).bytes})
	if diff := cmp.Diff([]string{frameText(1, "x0"), frameText(1, "y0", "y1")}, owed(t, h, all)); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x 1", frameText(1, "y1")}, owed(t, h, some)); diff != "" {
		t.Errorf("at first, of some (-want +got):\n%s", diff)
	}
	for seq := range uint64(3) {
		h.Publish(moment("y", 2+seq, "y0", "y1"))
		h.Publish(moment("x", 2+seq, "x0"))
	}
	if diff := cmp.Diff([]string{frameText(4, "y0", "y1"), frameText(4, "x0")}, owed(t, h, all)); diff != "" {
		t.Errorf("then (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{frameText(4, "y1")}, owed(t, h, some)); diff != "" {
		t.Errorf("then, of some (-want +got):\n%s", diff)
	}
	if got := h.Newest().Nodes(); len(got) != 2 || got[0].Node != "x" || got[1].Seq != 4 {
		t.Errorf("the newest are %v", got)
	}
	one := newViewer(h, auth.LocalOwner(), "y")
	one.mail.start(h.now.Load(), alerts(kindStanding, Event{Node: "x", UUID: "x0"}, Event{Node: "y", UUID: "y0"}))
	h.Publish(moment("x", 5, "x0"))
	h.Publish(moment("y", 5, "y0", "y1"))
	h.Publish(moment("x", 6, "x0"))
	if diff := cmp.Diff([]string{`alert "y0"`, frameText(5, "y0", "y1")}, owed(t, h, &one.mail)); diff != "" {
		t.Errorf("who sees one node alone (-want +got):\n%s", diff)
	}
	if got := h.Stats().Skipped; got != 6 {
		t.Errorf("%d were skipped, want 6: two of each node, and two of y by who wants y alone", got)
	}
	if err := one.accepts(&request{event: eventSubscribe, filter: newFilter(filterTerms{GPUs: []any{0}})}); err != nil {
		t.Errorf("who sees one node alone can't name an index: %v", err)
	}
	var fed []string
	for m := range h.Feed(t.Context()) {
		if fed = append(fed, m.Snapshot.Node); len(fed) == 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{"y", "x"}, fed); diff != "" {
		t.Errorf("the feed has (-want +got):\n%s", diff)
	}
	if err := newViewer(h, auth.LocalOwner(), "").accepts(&request{event: eventSubscribe, filter: newFilter(filterTerms{GPUs: []any{0}})}); err == nil {
		t.Error("an index without a node is taken")
	}
}

// A viewer that sends requests but does not read holds no reading: its replies are made when they are sent.
func TestWaitingRepliesHoldNothing(t *testing.T) {
	h := newTestHub(t)
	m := h.newTestMailbox()
	for id := range 3 {
		h.Hold(devices(uint64(id+1), "a"))
		m.reply(message{node: "n", filter: everything, id: fmt.Append(nil, id), kind: kindReply})
	}
	for _, waits := range m.queue {
		if waits.head != nil || waits.tail != nil {
			t.Errorf("a reply that waits holds %d bytes", len(waits.head)+len(waits.tail))
		}
	}
	want := frameText(3, "a") // of the newest reading, which began after all requests
	if diff := cmp.Diff([]string{want, want, want}, owed(t, h, m)); diff != "" {
		t.Errorf("replies (-want +got):\n%s", diff)
	}
	if got := h.Stats().Encodings; got != 1 {
		t.Errorf("%d encodings for three replies, want 1", got)
	}
}

// Filters that keep all devices share the patch; a viewer that had other devices gets another one.
func TestFiltersSharePatches(t *testing.T) {
	h := newTestHub(t)
	var made []string
	h.cfg.Patch = func(before, after []byte) ([]byte, error) {
		made = append(made, string(before))
		return after, nil
	}
	h.Publish(devices(1, "a", "b"))
	first := h.latest("n")
	h.Publish(devices(2, "a", "b", "c"))
	second := h.latest("n")
	for range 3 {
		for _, terms := range []filterTerms{{Delta: true}, {GPUs: []any{"a", "b", "c"}, Delta: true}, {GPUs: []any{"a", "b"}, Delta: true}} {
			filter := newFilter(terms)
			_, current, err := first.patch(auth.Everything, filter, base{})
			if err != nil {
				t.Fatal(err)
			}
			if _, current, err = second.patch(auth.Everything, filter, current); err != nil || current.number != second.number {
				t.Fatal(current, err)
			}
		}
	}
	if len(made) != 3 { // the whole of the first, and two parts of the second
		t.Errorf("%d patches were made, of %q", len(made), made)
	}
	h.cfg.Patch = func([]byte, []byte) ([]byte, error) { return nil, errors.New("no") }
	h.Publish(devices(3, "a"))
	if _, current, err := h.latest("n").patch(auth.Everything, everything, base{number: 7}); err == nil || current.number != 7 {
		t.Errorf("without a patch the viewer has %+v; %v", current, err)
	}
}

// A removed node is gone for new viewers, and for viewers that had not got its newest frame.
func TestARemovedNodeIsGone(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Several = true
	m := h.newTestMailbox()
	h.PublishAll([]*insight.Moment{moment("a", 1, "a"), moment("b", 2, "b"), moment("c", 3, "c")})
	h.Hold(moment("b", 4, "b"))
	changes := h.Changes()
	h.Remove("b")
	h.Remove("never was")
	if diff := cmp.Diff([]string{frameText(1, "a"), frameText(3, "c")}, owed(t, h, m)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{frameText(1, "a"), frameText(3, "c")}, owed(t, h, h.newTestMailbox())); diff != "" {
		t.Errorf("who connects later: %s", diff)
	}
	if _, ok := h.Newest().Node("b"); ok || len(h.Newest().Moments()) != 2 || h.Update("b", auth.Everything) != nil || h.latest("b") != nil {
		t.Error("it is still there")
	}
	if _, ok := h.Latest().Node("b"); ok || h.Changes() == changes {
		t.Error("pages still have it")
	}
	h.Publish(moment("b", 5, "b"))
	if diff := cmp.Diff([]string{frameText(5, "b")}, owed(t, h, m)); diff != "" {
		t.Errorf("after it came back: %s", diff)
	}
	if s := h.Stats(); s.Skipped != 0 {
		t.Errorf("%d are said to be skipped", s.Skipped)
	}
	for _, node := range []string{"a", "b", "c"} {
		h.Remove(node)
	}
	if h.Newest() != nil || owed(t, h, m) != nil {
		t.Error("something is left of no node")
	}
}

// If one call has several Moments of one node, the last counts; the others keep the order of the call.
func TestPublishAll(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Several = true
	m := h.newTestMailbox()
	h.PublishAll(nil)
	h.PublishAll([]*insight.Moment{moment("c", 1, "c"), moment("a", 2, "a"), moment("c", 3, "c"), moment("b", 4, "b")})
	if diff := cmp.Diff([]string{frameText(2, "a"), frameText(3, "c"), frameText(4, "b")}, owed(t, h, m)); diff != "" {
		t.Error(diff)
	}
	var fed []uint64
	for moments := range h.FeedAll(t.Context()) {
		for _, m := range moments {
			fed = append(fed, m.Snapshot.Seq)
		}
		break
	}
	if !slices.Equal(fed, []uint64{2, 3, 4}) {
		t.Errorf("the feed has %d", fed)
	}
	for i, moment := range h.Newest().Moments() {
		if want := string(rune('a' + i)); moment.Snapshot.Node != want {
			t.Errorf("node %d is %s", i, moment.Snapshot.Node)
		}
	}
}

// The cost of publishing a Moment does not depend on the number of nodes.
func TestPublishingDoesNotGrowWithNodes(t *testing.T) {
	per := func(nodes int) float64 {
		h := newTestHub(t)
		h.cfg.Several = true
		var all []*insight.Moment
		for i := range nodes {
			all = append(all, moment(fmt.Sprintf("node-%05d", i), 1, "a"))
		}
		h.PublishAll(all)
		viewer := h.newTestMailbox()
		owed(t, h, viewer)
		batch := all[nodes/2 : nodes/2+20]
		return testing.AllocsPerRun(20, func() {
			h.PublishAll(batch)
			if got := len(owed(t, h, viewer)); got != len(batch) {
				t.Fatalf("%d of %d are owed", got, len(batch))
			}
		})
	}
	few, many := per(100), per(3000)
	if many > few*1.1+2 {
		t.Errorf("%.0f allocations at 100 nodes, %.0f at 3,000", few, many)
	}
}
