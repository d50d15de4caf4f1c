package hub_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A revoked principal loses its sockets, including those of pages, and nobody else does.
func TestRevoke(t *testing.T) {
	m := newMonitor(t, func(cfg *hub.Config) {
		cfg.Page = func(_ string, sight auth.Sight, _ string, changes uint64) ([]byte, string, uint64, error) {
			if sight != (auth.Sight{Audience: "staff", Access: auth.Operate}) {
				t.Errorf("a page is made for %+v", sight)
			}
			return []byte(`{"event":"page","data":{}}`), "1", changes, nil
		}
	})
	arriving, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := &auth.Principal{Name: r.Header.Get("As"), Access: auth.Operate, Audience: auth.Everything}
		if r.URL.Query().Has("page") {
			who.Audience = "staff"
		}
		if r.Header.Get("Slow") != "" {
			w = slowUpgrade{w, arriving, goOn}
		}
		m.ServeHTTP(w, r.WithContext(auth.NewContext(r.Context(), who)))
	}))
	t.Cleanup(func() {
		m.stop(t)
		server.Close()
	})
	viewer := func(name, query string, more ...string) *client {
		t.Helper()
		header := http.Header{"As": {name}}
		for _, h := range more {
			header.Set(h, "yes")
		}
		conn, _, err := websocket.Dial(t.Context(), server.URL+"/ws"+query, &websocket.DialOptions{HTTPClient: server.Client(), HTTPHeader: header}) //nolint:bodyclose // Dial says that nobody needs to
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.CloseNow() })
		return &client{t, conn}
	}
	ann, page, bob := viewer("ann", ""), viewer("ann", "?page="), viewer("bob", "")
	ann.want("gpu_status")
	bob.want("gpu_status")
	page.want("page")
	late := make(chan *client, 1)
	go func() {
		defer close(late)
		late <- viewer("ann", "", "Slow")
	}()
	<-arriving
	m.Revoke(func(p auth.Principal) bool { return p.Name == "ann" })
	close(goOn)
	for _, c := range []*client{ann, page, <-late} {
		if why := c.wantClose(websocket.StatusPolicyViolation); why != "you may no longer view this" {
			t.Errorf("it ends with %q", why)
		}
	}
	m.publish(snapshot(1))
	bob.wantFrame(1)
}

// A revoked viewer that does not answer loses its connection within a second, and gets nothing that was not on its way: not even the rest of a
// message.
func TestRevokedViewersThatDoNotAnswer(t *testing.T) {
	for _, tt := range []struct {
		name   string
		midway bool // a message is being written
	}{{"silent", false}, {"in the middle of a message", true}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startPiped(t, nil)
				c := connect(t, m)
				if tt.midway {
					m.publish(snapshot(1))
					synctest.Wait() // it waits for the client
				}
				m.Revoke(func(auth.Principal) bool { return true })
				m.publish(snapshot(2))
				m.Announce([]hub.Event{alert(1)}, nil)
				time.Sleep(time.Second - time.Nanosecond)
				synctest.Wait()
				if got := m.Stats().Viewers; got != 0 {
					t.Error("the connection stays for a second")
				}
				if got, err := c.read(); err == nil {
					t.Errorf("it gets %v", got)
				}
				if s := m.Stats(); s.Ended["revoked"] != 1 {
					t.Errorf("it ended as %v", s.Ended)
				}
			})
		})
	}
}

// A slowUpgrade holds up a handshake.
type slowUpgrade struct {
	http.ResponseWriter
	arriving, goOn chan struct{}
}

// Unwrap is for http.ResponseController.
func (s slowUpgrade) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// WriteHeader waits until it may continue.
func (s slowUpgrade) WriteHeader(status int) {
	close(s.arriving)
	<-s.goOn
	s.ResponseWriter.WriteHeader(status)
}

// A principal without read access gets no socket.
func TestNoPrincipalNoSocket(t *testing.T) {
	m := newMonitor(t, nil)
	t.Cleanup(func() { m.stop(t) })
	for _, who := range []*auth.Principal{nil, {}, {Name: "ann", Audience: auth.Everything}, {Access: -1}} {
		ctx := context.Background()
		if who != nil {
			ctx = auth.NewContext(ctx, who)
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ws", nil).WithContext(ctx))
		if w.Code != http.StatusForbidden || m.Stats().Viewers != 0 {
			t.Errorf("%+v: status %d", who, w.Code)
		}
	}
}
