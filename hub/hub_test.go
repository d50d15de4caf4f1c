package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// A monitor is a hub with working encoders, behind an HTTP server.
type monitor struct {
	*hub.Hub
	url     string // of /ws
	client  *http.Client
	encodes atomic.Int64
}

// gpuJSON and dataJSON are the encoders' own form, which the hub must not depend on.
type gpuJSON struct {
	ID   int    `json:"gpu_id"`
	UUID string `json:"gpu_uuid"`
	Node string `json:"node"`
}

type dataJSON struct {
	Seq   uint64    `json:"seq"`
	Count int       `json:"gpu_count"`
	GPUs  []gpuJSON `json:"gpus"`
}

func encode(moment *insight.Moment, keep func(*gpu.Device) bool) ([]byte, error) {
	s := moment.Snapshot
	data := dataJSON{Seq: s.Seq, GPUs: []gpuJSON{}}
	for _, d := range s.Devices {
		if keep != nil && !keep(&d) {
			continue
		}
		data.Count++
		data.GPUs = append(data.GPUs, gpuJSON{d.Index, d.UUID, d.Node})
	}
	return json.Marshal(data)
}

func status(_ auth.Audience, newest *insight.Fleet, encoded []byte) ([]byte, error) {
	return fmt.Appendf(nil, `{"status":%q,"snapshot":%s}`, newest.Nodes().Status(), encoded), nil
}

func (m *monitor) config(tb testing.TB) hub.Config {
	tb.Helper()
	return hub.Config{
		Encode: func(moment *insight.Moment, audience auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
			if audience != auth.Everything {
				tb.Errorf("encoded for the audience %q", audience)
			}
			m.encodes.Add(1)
			return encode(moment, keep)
		},
		Status: status,
		Events: []string{"high_gpu_usage_alert", "alert"},
		Log:    slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// A reader reads on demand.
type reader func(context.Context) (*gpu.Snapshot, error)

func newMonitor(tb testing.TB, set func(*hub.Config), read ...reader) *monitor {
	tb.Helper()
	m := &monitor{}
	cfg := m.config(tb)
	if set != nil {
		set(&cfg)
	}
	m.Hub = hub.New(cfg)
	for _, read := range read {
		m.Accept(hub.Act{Event: "request_gpu_update", Do: func(ctx context.Context, _ *hub.Ask) (hub.Reply, error) {
			s, err := read(ctx)
			if err != nil || s == nil {
				return hub.Reply{}, err
			}
			m.Hold(insight.Of(s))
			return hub.Reply{Read: []string{s.Node}}, nil
		}})
	}
	return m
}

func (m *monitor) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /ws", m)
	return signedIn(mux)
}

// signedIn gives requests the principal that the server gives them.
func signedIn(h http.Handler) http.Handler {
	owner := auth.LocalOwner()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), &owner)))
	})
}

func (m *monitor) stop(tb testing.TB) {
	tb.Helper()
	if err := m.Shutdown(context.Background(), "the test is over"); err != nil {
		tb.Errorf("Shutdown: %v", err)
	}
	m.Wait()
}

// start runs a hub on a loopback listener until the test ends. set may change its configuration. Its clients may be slow, as on a busy
// machine: tests of what the hub does about that use [startPiped].
func start(tb testing.TB, set func(*hub.Config), read ...reader) *monitor {
	tb.Helper()
	m := newMonitor(tb, func(cfg *hub.Config) {
		cfg.PingEvery, cfg.WriteTimeout = 2*time.Hour, time.Hour
		if set != nil {
			set(cfg)
		}
	}, read...)
	server := httptest.NewServer(m.routes())
	m.url, m.client = server.URL+"/ws", server.Client()
	tb.Cleanup(func() {
		m.stop(tb)
		server.Close()
	})
	return m
}

// startTLS is start over TLS.
func startTLS(tb testing.TB, set func(*hub.Config)) *monitor {
	tb.Helper()
	m := newMonitor(tb, func(cfg *hub.Config) {
		cfg.PingEvery, cfg.WriteTimeout = 2*time.Hour, time.Hour
		set(cfg)
	})
	server := httptest.NewUnstartedServer(m.routes())
	server.Listener = hub.Listen(server.Listener)
	server.StartTLS()
	m.url, m.client = server.URL+"/ws", server.Client()
	tb.Cleanup(func() {
		m.stop(tb)
		server.Close()
	})
	return m
}

// startPiped is start within a synctest bubble, over net.Pipe, which has no buffer: a side that does not read holds up the other at once.
func startPiped(tb testing.TB, set func(*hub.Config), read ...reader) *monitor {
	tb.Helper()
	m := newMonitor(tb, set, read...)
	pipes := pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: m.routes()}
	go func() { _ = server.Serve(pipes) }()
	transport := &http.Transport{DialContext: pipes.dial}
	m.url, m.client = "http://pipe/ws", &http.Client{Transport: transport}
	tb.Cleanup(func() {
		m.stop(tb)
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return m
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error   { close(l.closed); return nil }
func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// publish makes a snapshot the newest.
func (m *monitor) publish(s *gpu.Snapshot) { m.Publish(insight.Of(s)) }

// snapshot returns a snapshot of two nodes with two devices each.
func snapshot(seq uint64) *gpu.Snapshot {
	s := &gpu.Snapshot{Seq: seq, Node: "a", Source: gpu.SourceSimulated}
	for i, id := range []string{"a0", "a1", "b0", "b1"} {
		s.Devices = append(s.Devices, gpu.Device{
			Identity: gpu.Identity{UUID: "GPU-" + id, Node: id[:1], Index: i % 2},
			State:    gpu.StateOK,
		})
	}
	return s
}

// A client is a viewer. It answers pings only while something reads.
type client struct {
	t    testing.TB
	conn *websocket.Conn
}

type message struct {
	Event string          `json:"event"`
	ID    json.RawMessage `json:"id"`
	Data  json.RawMessage `json:"data"`
}

func (m message) String() string { return fmt.Sprintf("%s id=%s %s", m.Event, m.ID, m.Data) }

func dial(tb testing.TB, m *monitor) *client {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), testkit.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, m.url, &websocket.DialOptions{HTTPClient: m.client}) //nolint:bodyclose // Dial says that nobody needs to
	if err != nil {
		tb.Fatal(err)
	}
	conn.SetReadLimit(-1)
	tb.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	return &client{tb, conn}
}

// connect dials and receives the greeting.
func connect(tb testing.TB, m *monitor) *client {
	tb.Helper()
	c := dial(tb, m)
	c.want("gpu_status")
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	c.write(websocket.MessageText, []byte(text))
}

func (c *client) write(kind websocket.MessageType, b []byte) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := c.conn.Write(ctx, kind, b); err != nil {
		c.t.Fatalf("writing: %v", err)
	}
}

func (c *client) read() (m message, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	kind, b, err := c.conn.Read(ctx)
	if err != nil {
		return m, err
	}
	if kind != websocket.MessageText {
		c.t.Errorf("a message of type %v", kind)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		c.t.Errorf("%q: %v", b, err)
	}
	return m, nil
}

// want returns the next message, which must have this event.
func (c *client) want(event string) message {
	c.t.Helper()
	m, err := c.read()
	if err != nil {
		c.t.Fatalf("waiting for %s: %v", event, err)
	}
	if m.Event != event {
		c.t.Fatalf("got %v, want %s", m, event)
	}
	return m
}

// wantFrame returns the next message, which must be the snapshot with this seq.
func (c *client) wantFrame(seq uint64) dataJSON {
	c.t.Helper()
	var d dataJSON
	m := c.want("gpu_status_update")
	if err := json.Unmarshal(m.Data, &d); err != nil {
		c.t.Fatal(err)
	}
	if d.Seq != seq {
		c.t.Fatalf("got snapshot %d, want %d", d.Seq, seq)
	}
	return d
}

// wantClose reads until the connection ends, which must be with this code, and returns the reason.
func (c *client) wantClose(code websocket.StatusCode) string {
	c.t.Helper()
	for {
		_, err := c.read()
		if err == nil {
			continue
		}
		e, ok := errors.AsType[websocket.CloseError](err)
		if !ok || e.Code != code {
			c.t.Fatalf("the connection ended with %v, want code %d", err, code)
		}
		return e.Reason
	}
}

func uuids(d dataJSON) string {
	var out []string
	for _, g := range d.GPUs {
		out = append(out, g.UUID)
	}
	return strings.Join(out, " ")
}

func TestGreetingThenFrames(t *testing.T) {
	m := start(t, nil)
	early := dial(t, m)
	if got, want := string(early.want("gpu_status").Data), `{"status":"starting","snapshot":null}`; got != want {
		t.Errorf("before the first snapshot: %s, want %s", got, want)
	}
	if m.Newest() != nil {
		t.Error("Newest is not nil before the first snapshot")
	}
	m.publish(snapshot(1))
	frame := early.want("gpu_status_update")
	if got := string(m.Update("a", auth.Everything)); got != string(frame.Data) {
		t.Errorf("Update is %s, the viewer got %s", got, frame.Data)
	}

	late := dial(t, m)
	var greeting struct {
		Status   string
		Snapshot dataJSON
	}
	if err := json.Unmarshal(late.want("gpu_status").Data, &greeting); err != nil {
		t.Fatal(err)
	}
	if greeting.Status != "ok" || greeting.Snapshot.Seq != 1 || greeting.Snapshot.Count != 4 {
		t.Errorf("greeting is %+v", greeting)
	}
	m.publish(snapshot(2)) // what was in the greeting does not come again
	late.wantFrame(2)
	early.wantFrame(2)
	if n := m.encodes.Load(); n != 2 {
		t.Errorf("2 snapshots were encoded %d times", n)
	}
}
