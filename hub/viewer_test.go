package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// These tests use the bubble's time: it passes when everybody waits.

func TestCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, func(cfg *hub.Config) { cfg.MaxViewers = 2 })
		first := connect(t, m)
		connect(t, m)
		if detail := m.problem(t, http.StatusServiceUnavailable, handshakeHeaders()); !strings.Contains(detail, "2 viewers") {
			t.Errorf("the detail is %q", detail)
		}
		if err := first.conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		connect(t, m)
		if s := m.Stats(); s.Viewers != 2 || s.Refused != 1 || s.Ended["left"] != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
}

func TestViewersThatBreakOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		c := connect(t, m)
		if err := c.conn.CloseNow(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := m.Stats(); s.Viewers != 0 || s.Ended["lost"] != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// follow reads in the background and counts the events until the connection ends.
func (c *client) follow() (counts map[string]int, ended chan error) {
	counts, ended = make(map[string]int), make(chan error, 1)
	go func() {
		for {
			_, b, err := c.conn.Read(context.Background())
			if err != nil {
				ended <- err
				return
			}
			counts[strings.Split(string(b), `"`)[3]]++
		}
	}()
	return counts, ended
}

func TestSlowViewerIsDroppedAndDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		slow, quick := connect(t, m), connect(t, m)
		began := time.Now()
		for seq := range uint64(10) {
			m.publish(snapshot(seq + 1))
			quick.wantFrame(seq + 1)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the slow viewer delayed the quick one by %v", took)
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		synctest.Wait()
		if got := m.Stats().Viewers; got != 2 {
			t.Errorf("%d viewers before the deadline, want 2", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if s := m.Stats(); s.Viewers != 1 || s.Ended["slow"] != 1 {
			t.Errorf("after the deadline: %+v", s)
		}
		if _, err := slow.read(); err == nil {
			t.Error("half a message could be read")
		}
		m.publish(snapshot(11))
		quick.wantFrame(11)
	})
}

func TestViewerThatReadsAgainGetsEventsThenTheNewestFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		c := connect(t, m)
		m.publish(snapshot(1))
		synctest.Wait() // it is being written
		for seq := range uint64(5) {
			m.publish(snapshot(seq + 2))
		}
		m.Announce([]hub.Event{alert(1)}, nil)
		m.Announce([]hub.Event{alert(2)}, nil)
		time.Sleep(9 * time.Second)
		c.wantFrame(1)
		c.want("high_gpu_usage_alert")
		c.want("high_gpu_usage_alert")
		c.wantFrame(6)
		if got := m.Stats().Skipped; got != 4 {
			t.Errorf("%d frames were skipped, want 4", got)
		}
	})
}

func TestFullEventQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, func(cfg *hub.Config) { cfg.EventQueue = 8 })
		stuck, other := connect(t, m), connect(t, m)
		for n := range 10 { // one being written, eight waiting, and one more
			m.Announce([]hub.Event{alert(n)}, nil)
			other.want("high_gpu_usage_alert")
			synctest.Wait()
		}
		if got := m.Stats().Ended; got["queue_full"] != 1 {
			t.Errorf("connections ended: %v", got)
		}
		if reason := stuck.wantClose(websocket.StatusTryAgainLater); !strings.Contains(reason, "connect again") {
			t.Errorf("the reason is %q", reason)
		}
		m.Announce([]hub.Event{alert(10)}, nil)
		other.want("high_gpu_usage_alert")
	})
}

// A client that reads nothing can't even be sent a goodbye: the connection is cut.
func TestFullEventQueueOfOneWhoNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, func(cfg *hub.Config) { cfg.EventQueue = 1 })
		connect(t, m)
		for n := range 3 {
			m.Announce([]hub.Event{alert(n)}, nil)
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if s := m.Stats(); s.Viewers != 0 || s.Ended["queue_full"] != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
}

func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		pings := 0
		live := connect(t, m)
		dead, _, err := websocket.Dial(t.Context(), m.url, &websocket.DialOptions{ //nolint:bodyclose // Dial says that nobody needs to
			HTTPClient: m.client,
			OnPingReceived: func(context.Context, []byte) bool {
				pings++
				return false // it is not answered
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		counts, ended := live.follow()
		_, deadEnded := (&client{t, dead}).follow()

		if code := websocket.CloseStatus(<-deadEnded); code != websocket.StatusTryAgainLater {
			t.Errorf("who answers no ping is told %v", code)
		}
		if took := time.Since(began); took != 30*time.Second || pings != 1 {
			t.Errorf("it was dropped after %v and %d pings, want 30s and 1", took, pings)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := m.Stats(); s.Viewers != 1 || s.Ended["not_answering"] != 1 || s.Messages < 180 {
			t.Errorf("after an hour: %+v", s)
		}
		m.publish(snapshot(1))
		synctest.Wait()
		if diff := cmp.Diff(map[string]int{"gpu_status_update": 1}, counts); diff != "" {
			t.Error(diff)
		}
		if err := live.conn.CloseNow(); err != nil {
			t.Error(err)
		}
		if err := <-ended; websocket.CloseStatus(err) != -1 {
			t.Errorf("it was closed by the hub: %v", err)
		}
	})
}

// A viewer that does not read may ping: the answer comes once it has taken the previous message.
func TestAPingBeforeAMessageIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		c := connect(t, m)
		m.publish(snapshot(1))
		synctest.Wait() // it is being written
		pong := make(chan error, 1)
		go func() { pong <- c.conn.Ping(t.Context()) }()
		time.Sleep(9 * time.Second)
		c.wantFrame(1)
		go func() { _, _ = c.read() }() // so that the answer is read
		if err := <-pong; err != nil {
			t.Errorf("the ping: %v", err)
		}
		if s := m.Stats(); s.Viewers != 1 {
			t.Errorf("stats are %+v", s)
		}
	})
}

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, func(cfg *hub.Config) {
			cfg.PingEvery = time.Hour // nobody reads between the steps
		}, func(context.Context) (*gpu.Snapshot, error) { return snapshot(1), nil })
		c := connect(t, m)
		// ask sends n copies of one message, and returns how many were served.
		ask := func(n int, text, reply string) (served int) {
			t.Helper()
			go func() {
				for id := range n {
					c.send(fmt.Sprintf(text, id))
				}
			}()
			for range n {
				got, err := c.read()
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case got.Event == reply:
					served++
				case got.Event != "error" || !strings.Contains(string(got.Data), `"code":"rate_limited"`) || got.ID == nil:
					t.Errorf("got %v", got)
				}
			}
			return served
		}
		requests := func(n int) int {
			t.Helper()
			return ask(n, `{"event":"request_gpu_update","id":%d}`, "gpu_status_update")
		}
		others := func(n int) int {
			t.Helper()
			return ask(n, `{"event":"unsubscribe","id":%d}`, "subscribed")
		}
		for _, step := range []struct {
			after   time.Duration
			what    func(int) int
			n, want int
		}{
			{0, others, 50, 50},
			{0, requests, 12, 5}, // counted separately
			{0, others, 10, 0},
			{time.Second, requests, 12, 2},
			{0, others, 30, 20},
			{time.Minute, requests, 12, 5},
			{0, others, 60, 50},
		} {
			time.Sleep(step.after)
			if got := step.what(step.n); got != step.want {
				t.Errorf("%v later %d of %d were served, want %d", step.after, got, step.n, step.want)
			}
		}
	})
}

func TestStormIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		storm, other := connect(t, m), connect(t, m)
		counts, ended := storm.follow()
		sent := 0
		for storm.conn.Write(t.Context(), websocket.MessageText, []byte(`x`)) == nil {
			sent++
		}
		if code := websocket.CloseStatus(<-ended); code != websocket.StatusPolicyViolation {
			t.Errorf("it ended with %v", code)
		}
		if sent < 551 || counts["error"] < 500 || counts["error"] > 550 {
			t.Errorf("%d messages went through and %d were answered", sent, counts["error"])
		}
		m.publish(snapshot(1))
		other.wantFrame(1)
	})
}

// Pings are read at their own rate, however fast they are sent, and all are answered. Other viewers are not affected.
func TestPingsAreRead20ASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		storm, other := connect(t, m), connect(t, m)
		storm.follow()
		began := time.Now()
		for range 250 {
			if err := storm.conn.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 9900*time.Millisecond || took > 11*time.Second {
			t.Errorf("250 pings took %v, want 10s", took)
		}
		m.publish(snapshot(1))
		other.wantFrame(1)
		time.Sleep(time.Minute) // which it survives
		if err := storm.conn.Ping(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// An endless message in empty frames is read at the byte rate. Other viewers are not affected.
func TestEmptyFramesAreReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		storm, other := connect(t, m), connect(t, m)
		storm.follow()
		began := time.Now()
		w, err := storm.conn.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		for range 300_000 { // of 6 bytes each
			if _, err := w.Write(nil); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 2500*time.Millisecond || took > 4*time.Second {
			t.Errorf("1.8 MB of empty frames took %v, want 3s", took)
		}
		m.publish(snapshot(1))
		other.wantFrame(1)
	})
}

// A viewer that does not read its replies is not read from either: nothing piles up.
func TestRepliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		c := connect(t, m)
		sent := 0
		go func() {
			for range 40 {
				c.send(`{"event":"unsubscribe"}`)
				sent++
			}
		}()
		synctest.Wait()
		if sent > 20 {
			t.Errorf("%d messages were read, and no reply was", sent)
		}
		for range 40 {
			c.want("subscribed")
		}
	})
}

// A request that a viewer leaves behind does not outlive it.
func TestRefreshEndsWithItsViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil, func(ctx context.Context) (*gpu.Snapshot, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c := connect(t, m)
		c.send(`{"event":"request_gpu_update"}`)
		synctest.Wait()
		if err := c.conn.CloseNow(); err != nil {
			t.Fatal(err)
		}
		m.Wait()
	})
}

func TestGoodbyeThatIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, nil)
		connect(t, m) // it does not read any more
		began := time.Now()
		if err := m.Shutdown(context.Background(), "bye"); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Shutdown took %v, want 5s", took)
		}

		m = startPiped(t, nil)
		connect(t, m)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began = time.Now()
		if err := m.Shutdown(ctx, "bye"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		m.Wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("with a deadline Shutdown took %v, want 2s", took)
		}
	})
}

// A viewer that does not answer the goodbye keeps its place until it is cut: such connections can't pile up.
func TestGoodbyeKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := startPiped(t, func(cfg *hub.Config) { cfg.MaxViewers = 1 })
		c := connect(t, m)
		go func() { // too much: the server does not read the rest, and the client reads nothing either
			if err := c.conn.Write(context.Background(), websocket.MessageText, make([]byte, 20<<10)); err == nil {
				t.Error("all of it was read")
			}
		}()
		synctest.Wait()
		if s := m.Stats(); s.Ended["too_big"] != 1 || s.Viewers != 1 {
			t.Errorf("stats are %+v", s)
		}
		m.problem(t, http.StatusServiceUnavailable, handshakeHeaders())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		connect(t, m)
	})
}

// What few viewers share is made outside the turns: everybody else gets theirs meanwhile.
func TestWhatIsMadeForFewHoldsUpNobody(t *testing.T) {
	release := make(chan struct{})
	m := start(t, func(cfg *hub.Config) {
		whole := cfg.Encode
		cfg.Encode = func(moment *insight.Moment, audience auth.Audience, keep func(*gpu.Device) bool) ([]byte, error) {
			if keep != nil {
				<-release
			}
			return whole(moment, audience, keep)
		}
	})
	plain := connect(t, m)
	for range 4 * runtime.GOMAXPROCS(0) {
		c := connect(t, m)
		c.send(`{"event":"subscribe","data":{"gpus":[0]}}`)
		c.want("subscribed")
	}
	m.publish(snapshot(1))
	plain.wantFrame(1)
	m.publish(snapshot(2))
	plain.wantFrame(2)
	close(release)
}
