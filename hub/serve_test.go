package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// errorData is the data of the error event.
type errorData struct {
	Code, Message string
	ID            json.RawMessage
}

func (c *client) wantError(code, id string) {
	c.t.Helper()
	m := c.want("error")
	var data errorData
	if err := json.Unmarshal(m.Data, &data); err != nil {
		c.t.Fatal(err)
	}
	if data.Code != code || string(m.ID) != id || string(data.ID) != id || data.Message == "" {
		c.t.Errorf("got %v, want the code %s and the id %s", m, code, id)
	}
}

func TestProtocol(t *testing.T) {
	var readings atomic.Uint64
	m := start(t, nil, func(context.Context) (*gpu.Snapshot, error) { return snapshot(100 + readings.Add(1)), nil })
	m.publish(snapshot(1))

	t.Run("a request gets a reading of its own", func(t *testing.T) {
		asks, looks := connect(t, m), connect(t, m)
		asks.send(`{"event":"request_gpu_update","id":"q<1>"}`)
		reply := asks.want("gpu_status_update")
		if string(reply.ID) != `"q<1>"` || !strings.Contains(string(reply.Data), `"seq":101`) {
			t.Errorf("the reply is %v", reply)
		}
		asks.send(`{"event":"request_gpu_update"}`)
		if reply := asks.want("gpu_status_update"); reply.ID != nil || !strings.Contains(string(reply.Data), `"seq":102`) {
			t.Errorf("the reply is %v", reply)
		}
		m.publish(snapshot(2))
		looks.wantFrame(2) // and nothing of the other's before
		asks.wantFrame(2)
	})

	t.Run("filters", func(t *testing.T) {
		m.publish(snapshot(1))
		c := connect(t, m)
		for i, tt := range []struct{ send, inForce, want string }{
			{`{"event":"subscribe","data":{"gpus":[0]},"id":0}`, `{"events":null,"gpus":[0],"nodes":null}`, "GPU-a0 GPU-b0"},
			{`{"event":"subscribe","data":{"gpus":["GPU-b1",0]},"id":1}`, `{"events":null,"gpus":["GPU-b1",0],"nodes":null}`, "GPU-a0 GPU-b0 GPU-b1"},
			{`{"event":"subscribe","data":{"nodes":["b"]},"id":2}`, `{"events":null,"gpus":null,"nodes":["b"]}`, "GPU-b0 GPU-b1"},
			{`{"event":"subscribe","data":{"nodes":["b"],"gpus":[1]},"id":3}`, `{"events":null,"gpus":[1],"nodes":["b"]}`, "GPU-b1"},
			{`{"event":"subscribe","data":{"gpus":[]},"id":4}`, `{"events":null,"gpus":[],"nodes":null}`, ""},
			{`{"event":"unsubscribe","id":5}`, `{"events":null,"gpus":null,"nodes":null}`, "GPU-a0 GPU-a1 GPU-b0 GPU-b1"},
		} {
			c.send(tt.send)
			reply := c.want("subscribed")
			if string(reply.Data) != tt.inForce || string(reply.ID) != fmt.Sprint(i) {
				t.Errorf("%s: the reply is %v", tt.send, reply)
			}
			seq := uint64(10 + i)
			m.publish(snapshot(seq))
			frame := c.wantFrame(seq)
			if got := uuids(frame); got != tt.want || frame.Count != len(frame.GPUs) {
				t.Errorf("%s: the frame has %q and counts %d, want %q", tt.send, got, frame.Count, tt.want)
			}
		}
	})

	t.Run("replies come whatever the filter, and honor its devices", func(t *testing.T) {
		c := connect(t, m)
		c.send(`{"event":"subscribe","data":{"events":["high_gpu_usage_alert"],"gpus":["GPU-a1"]}}`)
		c.want("subscribed")
		m.publish(snapshot(3)) // not wanted
		c.send(`{"event":"request_gpu_update","id":1}`)
		reply := c.want("gpu_status_update")
		if want := `"gpus":[{"gpu_id":1,"gpu_uuid":"GPU-a1","node":"a"}]`; string(reply.ID) != "1" || !strings.Contains(string(reply.Data), want) {
			t.Errorf("the reply is %v, want %s", reply, want)
		}
		c.send(`{"event":"nonsense","id":2}`)
		c.wantError("unknown_event", "2")
	})

	t.Run("what is refused changes nothing", func(t *testing.T) {
		c := connect(t, m)
		c.send(`{"event":"subscribe","data":{"gpus":["GPU-a1"]}}`)
		c.want("subscribed")
		for _, tt := range []struct{ send, code, id string }{
			{`{"event":"subscribe","data":{"gpus":"GPU-a0"},"id":"s"}`, "bad_request", `"s"`},
			{`{"event":"subscribe","data":{"gpus":[true]},"id":5}`, "bad_request", "5"},
			{`{"event":"subscribe","data":[],"id":5}`, "bad_request", "5"},
			{`{"event":"subscribe","id":{"nested":1}}`, "bad_request", ""},
			{`{"event":"unsubscribe"} trailing`, "bad_json", ""},
			{`{`, "bad_json", ""},
			{"\"\xff\"", "bad_json", ""},
			{`{"event":"gpu_status","id":9}`, "unknown_event", "9"},
		} {
			c.send(tt.send)
			c.wantError(tt.code, tt.id)
		}
		c.write(websocket.MessageBinary, []byte(`{"event":"unsubscribe"}`))
		c.wantError("bad_json", "")
		m.publish(snapshot(20))
		if got := uuids(c.wantFrame(20)); got != "GPU-a1" {
			t.Errorf("afterwards the frame has %q", got)
		}
	})
}

// The same over TLS, where a frame in two pieces takes two writes, and behind middleware that wraps the ResponseWriter.
func TestBehindTLSAndMiddleware(t *testing.T) {
	m := newMonitor(t, nil, func(context.Context) (*gpu.Snapshot, error) { return snapshot(7), nil })
	server := httptest.NewTLSServer(signedIn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.ServeHTTP(unwrapper{w, w}, r)
	})))
	t.Cleanup(func() {
		m.stop(t)
		server.Close()
	})
	m.url, m.client = server.URL+"/ws", server.Client()
	c := connect(t, m)
	c.send(`{"event":"request_gpu_update","id":1}`)
	if reply := c.want("gpu_status_update"); string(reply.ID) != "1" {
		t.Errorf("the reply is %v", reply)
	}
	m.publish(snapshot(8))
	c.wantFrame(8)
}

// An unwrapper hides all of a ResponseWriter except what Unwrap returns.
type unwrapper struct {
	http.ResponseWriter
	inner http.ResponseWriter
}

func (u unwrapper) Unwrap() http.ResponseWriter { return u.inner }

func TestRequestWithoutRefresh(t *testing.T) {
	m := start(t, nil)
	c := connect(t, m)
	c.send(`{"event":"request_gpu_update","id":1}`)
	c.wantError("unknown_event", "1")
}

func TestRequestThatFails(t *testing.T) {
	answers := make(chan error, 3)
	m := start(t, nil, func(context.Context) (*gpu.Snapshot, error) { return nil, <-answers })
	c := connect(t, m)
	for _, err := range []error{gpu.ErrNotAnswering, nil} { // nil: no reading and no error
		answers <- err
		c.send(`{"event":"request_gpu_update","id":1}`)
		c.wantError("unavailable", "1")
	}
}

// Whatever an act is, its message is answered with what became of it. It is told who asks, for which nodes, and with what.
func TestActs(t *testing.T) {
	m := start(t, func(cfg *hub.Config) { cfg.Several = true })
	m.Accept(hub.Act{Event: "nudge", Do: func(_ context.Context, ask *hub.Ask) (hub.Reply, error) {
		switch string(ask.Data) {
		case "", "null":
			return hub.Reply{}, errors.New("a secret of the program")
		case `{"how":"never"}`:
			return hub.Reply{}, hub.Forbid("you may not nudge")
		}
		return hub.Reply{Data: fmt.Appendf(nil, `{"by":%q,"a":%t,"b":%t,"data":%s}`, ask.Principal.Name, ask.Wanted("a"), ask.Wanted("b"), ask.Data)}, nil
	}})
	c := connect(t, m)
	c.send(`{"event":"subscribe","data":{"nodes":["b"]}}`)
	c.want("subscribed")
	c.send(`{"event":"nudge","id":"n","data":{"how":"hard"}}`)
	if got := c.want("done"); string(got.ID) != `"n"` || string(got.Data) != `{"by":"local owner","a":false,"b":true,"data":{"how":"hard"}}` {
		t.Errorf("%v", got)
	}
	c.send(`{"event":"nudge","id":2}`)
	c.wantError("unavailable", "2")
	c.send(`{"event":"nudged","id":3}`)
	c.wantError("unknown_event", "3")
	c.send(`{"event":"nudge","id":4,"data":[]}`)
	c.wantError("bad_request", "4")
	c.send(`{"event":"nudge","id":5,"data":{"how":"never"}}`)
	c.wantError("forbidden", "5")
}

func alert(n int) hub.Event {
	return hub.Event{Name: "high_gpu_usage_alert", Node: "a", UUID: "GPU-a0", Data: fmt.Appendf(nil, "%d", n)}
}

// these are the current events.
func these(events ...hub.Event) func() []hub.Event {
	return func() []hub.Event { return events }
}

// Current events are made when somebody connects, once for all new viewers.
func TestStandingEventsAreMadeForSomebody(t *testing.T) {
	m := start(t, nil)
	m.publish(snapshot(1))
	var made atomic.Int32
	stand := func() []hub.Event {
		made.Add(1)
		return []hub.Event{alert(1)}
	}
	there := connect(t, m)
	for range 3 {
		m.Announce([]hub.Event{alert(1)}, stand)
		there.want("high_gpu_usage_alert")
	}
	if n := made.Load(); n != 0 {
		t.Errorf("what stands was made %d times while nobody came", n)
	}
	for range 3 {
		connect(t, m).want("high_gpu_usage_alert")
	}
	if n := made.Load(); n != 1 {
		t.Errorf("what stands was made %d times for three who came", n)
	}
}

func TestStandingEvents(t *testing.T) {
	m := start(t, nil)
	m.publish(snapshot(1))
	early := connect(t, m)
	m.Announce([]hub.Event{alert(1), alert(2)}, these(alert(1), alert(2)))
	m.Announce([]hub.Event{alert(-1)}, these(alert(2))) // the first is over
	late := connect(t, m)
	m.publish(snapshot(2))
	for c, want := range map[*client]string{early: "1 2 -1", late: "2"} {
		var got []string
		for range strings.FieldsSeq(want) {
			got = append(got, string(c.want("high_gpu_usage_alert").Data))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("the alerts are %s, want %s", got, want)
		}
		c.wantFrame(2)
	}
}

// A viewer that connects while alerts begin gets each exactly once: as a current event or as news.
func TestConnectingWhileAnnouncing(t *testing.T) {
	const alerts, viewers = 40, 20
	m := start(t, nil)
	var all sync.WaitGroup
	for range viewers {
		all.Go(func() {
			c := connect(t, m)
			for n := range alerts {
				if got := string(c.want("high_gpu_usage_alert").Data); got != fmt.Sprint(n) {
					t.Errorf("alert %s came where %d was due", got, n)
					return
				}
			}
		})
	}
	var standing []hub.Event
	for n := range alerts {
		standing = append(standing, alert(n))
		m.Announce(standing[n:], these(standing...))
	}
	all.Wait()
}

// untilCounted waits for a number of messages. Each is counted once it is written, so a client may have it earlier.
func (m *monitor) untilCounted(t *testing.T, messages uint64) {
	t.Helper()
	testkit.Until(t, fmt.Sprint(messages, " messages are counted"), func() bool { return m.Stats().Messages >= messages }, func() any { return m.Stats() })
}

func TestEncodedOncePerFilter(t *testing.T) {
	const viewers, frames = 100, 5
	m := start(t, nil)
	filters := []string{`{}`, `{"gpus":[0]}`, `{"nodes":["b"]}`, `{"gpus":["GPU-a1"]}`}
	var clients []*client
	for i := range viewers {
		c := connect(t, m)
		c.send(`{"event":"subscribe","data":` + filters[i%len(filters)] + `}`)
		c.want("subscribed")
		clients = append(clients, c)
	}
	for seq := range uint64(frames) {
		m.publish(snapshot(seq + 1))
		for _, c := range clients {
			c.wantFrame(seq + 1)
		}
	}
	if got, want := m.encodes.Load(), int64(frames*len(filters)); got != want {
		t.Errorf("%d frames for %d viewers with %d filters were encoded %d times, want %d", frames, viewers, len(filters), got, want)
	}
	want := uint64(viewers * (2 + frames))
	m.untilCounted(t, want)
	if s := m.Stats(); s.Viewers != viewers || s.Messages != want || s.Published != frames || s.Skipped != 0 {
		t.Errorf("stats are %+v, want %d messages", s, want)
	}
}

// The reply to all who share a reading is encoded once.
func TestSharedRefresh(t *testing.T) {
	const viewers = 30
	var asked sync.WaitGroup
	asked.Add(viewers)
	reading := insight.Of(snapshot(7))
	var hold sync.Once
	m := start(t, nil)
	m.Accept(hub.Act{Event: "request_gpu_update", Do: func(context.Context, *hub.Ask) (hub.Reply, error) {
		asked.Done()
		asked.Wait() // until all have asked
		hold.Do(func() { m.Hold(reading) })
		return hub.Reply{Read: []string{"a"}}, nil
	}})
	var clients []*client
	for range viewers {
		clients = append(clients, connect(t, m))
	}
	for i, c := range clients {
		c.send(fmt.Sprintf(`{"event":"request_gpu_update","id":%d}`, i))
	}
	for i, c := range clients {
		if reply := c.want("gpu_status_update"); string(reply.ID) != fmt.Sprint(i) || !strings.Contains(string(reply.Data), `"seq":7`) {
			t.Errorf("viewer %d got %v", i, reply)
		}
	}
	if got := m.encodes.Load(); got != 1 {
		t.Errorf("the reading was encoded %d times", got)
	}
}

func TestMessageLimit(t *testing.T) {
	const limit = 16 << 10
	synctest.Test(t, func(t *testing.T) { // the hub waits 5 s for a client that keeps writing and has not read its goodbye
		m := startPiped(t, nil)
		other := connect(t, m)

		c := connect(t, m)
		fits := `{"event":"unsubscribe","id":1}`
		c.send(fits + strings.Repeat(" ", limit-len(fits)))
		c.want("subscribed")
		for _, size := range []int{limit + 1, 4 << 20} {
			c := connect(t, m)
			var writing sync.WaitGroup
			writing.Go(func() {
				// The connection may end during this write.
				_ = c.conn.Write(t.Context(), websocket.MessageText, []byte(strings.Repeat(" ", size)))
			})
			c.wantClose(websocket.StatusMessageTooBig)
			writing.Wait()
		}

		m.publish(snapshot(1))
		other.wantFrame(1)
		if got := m.Stats().Ended["too_big"]; got != 2 {
			t.Errorf("%d viewers sent too much, want 2", got)
		}
	})
}

// problem requests /ws with the given headers, and returns the answer, which must be a problem document of this status with a detail.
func (m *monitor) problem(t *testing.T, status int, headers map[string]string) (detail string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var p struct {
		Status        int
		Title, Detail string
	}
	if err := json.NewDecoder(resp.Body).Decode(&p); err != nil {
		t.Fatalf("status %d: %v", resp.StatusCode, err)
	}
	if resp.StatusCode != status || p.Status != status || p.Title == "" || p.Detail == "" ||
		resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %v %+v, want status %d", resp.Status, resp.Header, p, status)
	}
	if after := resp.Header.Get("Retry-After"); (after != "") != (status == http.StatusServiceUnavailable) {
		t.Errorf("Retry-After is %q", after)
	}
	if cache := resp.Header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("it may be kept: %q", cache)
	}
	return p.Detail
}

func handshakeHeaders(more ...string) map[string]string {
	h := map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	}
	for i := 0; i < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

func TestRefusedHandshakes(t *testing.T) {
	m := start(t, nil)
	m.problem(t, http.StatusUpgradeRequired, nil)
	m.problem(t, http.StatusBadRequest, handshakeHeaders("Sec-WebSocket-Version", "8"))
	m.problem(t, http.StatusBadRequest, handshakeHeaders("Sec-WebSocket-Key", "short"))
	if s := m.Stats(); s.Refused != 3 || s.Viewers != 0 {
		t.Errorf("stats are %+v", s)
	}
}

func TestOrigins(t *testing.T) {
	origins, err := auth.ParseOrigins([]string{"https://grafana.example:3000", "https://*.trusted.example", "http://[::1]:8080"})
	if err != nil {
		t.Fatal(err)
	}
	m := start(t, func(cfg *hub.Config) { cfg.Origins = origins })
	for origin, want := range map[string]bool{
		"":                                      true, // not a browser
		strings.TrimSuffix(m.url, "/ws"):        true,
		"https://grafana.example:3000":          true,
		"https://a.trusted.example":             true,
		"http://[::1]:8080":                     true,
		"https://GRAFANA.example:3000":          true,
		"http://grafana.example:3000":           false, // another scheme
		"https://grafana.example":               false, // another port
		"https://trusted.example":               false,
		"https://evil.example":                  false,
		"https://evil.example/.trusted.example": false,
		"http://::8080":                         false,
		"null":                                  false, // a sandboxed page, or a file
	} {
		headers := http.Header{}
		if origin != "" {
			headers.Set("Origin", origin)
		}
		conn, resp, err := websocket.Dial(t.Context(), m.url, &websocket.DialOptions{HTTPClient: m.client, HTTPHeader: headers}) //nolint:bodyclose // Dial says that nobody needs to
		got := err == nil
		if got {
			if err := conn.CloseNow(); err != nil {
				t.Error(err)
			}
		}
		if got != want {
			t.Errorf("origin %q may connect: %t, want %t (%v)", origin, got, want, err)
		}
		if !want && resp.StatusCode != http.StatusForbidden {
			t.Errorf("origin %q: %s", origin, resp.Status)
		}
	}
	m.problem(t, http.StatusForbidden, handshakeHeaders("Origin", "https://evil.example"))
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a client that does not answer the goodbye within 5 s is cut off
		m := startPiped(t, nil)
		clients := []*client{connect(t, m), connect(t, m)}
		long := strings.Repeat("ä", 100)
		done := make(chan error)
		go func() { done <- m.Shutdown(context.Background(), long) }()
		for _, c := range clients {
			if got, want := c.wantClose(websocket.StatusGoingAway), long[:122]; got != want {
				t.Errorf("the reason is %q, want %q", got, want)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if detail := m.problem(t, http.StatusServiceUnavailable, handshakeHeaders()); !strings.Contains(detail, "shutting down") {
			t.Errorf("the detail is %q", detail)
		}
		if diff := cmp.Diff(map[string]uint64{"shutting_down": 2}, m.Stats().Ended); diff != "" {
			t.Error(diff)
		}
	})
}

// dialRaw returns a connection after its handshake, whose answer is still unread.
func dialRaw(t *testing.T, m *monitor) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(m.url, "http://"), "/ws"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is left to send
	fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func readUntil(conn net.Conn, text string) error {
	if err := conn.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
		return err
	}
	var got []byte
	for b := make([]byte, 512); !strings.Contains(string(got), text); {
		n, err := conn.Read(b)
		if got = append(got, b[:n]...); err != nil {
			return fmt.Errorf("%w after %q", err, got)
		}
	}
	return nil
}

func TestNotWebSocket(t *testing.T) {
	m := start(t, nil)
	for name, frame := range map[string]string{
		"a frame without a mask": "\x81\x02{}",
		"an unknown opcode":      "\x83\x80\x00\x00\x00\x00",
		"a ping of 126 bytes":    "\x89\xfe\x00\x7e\x00\x00\x00\x00",
	} {
		conn := dialRaw(t, m)
		if _, err := conn.Write([]byte(frame)); err != nil {
			t.Fatal(err)
		}
		// Read up to the close frame's code, 1002.
		if err := readUntil(conn, "\x03\xea"); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// A viewer that does not answer the goodbye is cut when the context ends.
func TestShutdownIsBounded(t *testing.T) {
	m := start(t, nil)
	dialRaw(t, m)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(context.DeadlineExceeded)
	if err := m.Shutdown(ctx, "now"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	m.Wait()
}

func TestStatusThatCannotBeEncoded(t *testing.T) {
	m := start(t, func(cfg *hub.Config) {
		cfg.Status = func(auth.Audience, *insight.Fleet, []byte) ([]byte, error) { return nil, nil }
	})
	dial(t, m).wantClose(websocket.StatusInternalError)
}

func TestFeedSkipsToTheNewest(t *testing.T) {
	m := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.publish(snapshot(1))
	var got []uint64
	for moment := range m.Feed(ctx) {
		got = append(got, moment.Snapshot.Seq)
		switch moment.Snapshot.Seq {
		case 1:
			m.publish(snapshot(2))
			m.publish(snapshot(3))
		case 3:
			cancel()
		}
	}
	if diff := cmp.Diff([]uint64{1, 3}, got); diff != "" {
		t.Error(diff)
	}
}
