package terminal

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A hub is a gpuwhy of two machines, as far as a feed asks it.
type hub struct {
	sockets    chan *websocket.Conn
	subscribed chan client.Filter
	token      chan string
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := insight.NewFleet(insight.Of(fixture.Workstation()), insight.Of(fixture.Server()))
	m := contract.Monitor{Node: "hub", Several: true, Interval: time.Second}
	var answer any
	switch r.URL.Path {
	case "/ws":
		h.socket(w, r)
		return
	case "/api/machines":
		answer = contract.NewMachines(f, everywhere)
	case "/api/gpu/summary":
		answer = contract.NewSummary(m, f, 0)
	case "/api/gpu/metrics":
		one, _ := f.Node(r.URL.Query().Get("node"))
		answer = contract.NewUpdate(one, nil)
	case "/api/gpu/recent":
		answer = contract.Recent{}
	case "/api/alerts":
		answer = contract.Alerts{Count: 1}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (h *hub) socket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	h.token <- r.Header.Get("Authorization")
	status := client.GPUStatus{Interval: 1, Node: "hub", Snapshot: json.RawMessage("null"), Nodes: []client.NodeState{{Name: "workstation"}, {Name: "dgx-1"}}}
	if wsjson.Write(r.Context(), conn, map[string]any{"event": client.EventStatus, "data": status}) != nil {
		return
	}
	h.sockets <- conn
	for {
		var m struct {
			Event string
			Data  client.Filter
		}
		if wsjson.Read(r.Context(), conn, &m) != nil {
			return
		}
		h.subscribed <- m.Data
	}
}

// receive waits for a message of a type.
func receive[M tea.Msg](t *testing.T, messages <-chan tea.Msg) M {
	t.Helper()
	for {
		if m, is := testkit.Receive(t, "a message of the feed", messages).(M); is {
			return m
		}
	}
}

// A feed follows the machine that is looked at, says when the connection ends, and connects again, with its token.
func TestServerFeed(t *testing.T) {
	t.Parallel()
	h := &hub{make(chan *websocket.Conn, 4), make(chan client.Filter, 16), make(chan string, 4)}
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Token: "gpw_x"})
	if err != nil {
		t.Fatal(err)
	}
	feed := NewServer(c)
	ctx, stop := context.WithCancel(t.Context())
	messages, ended := make(chan tea.Msg, 1000), make(chan error, 1)
	go func() { ended <- feed.Run(ctx, func(m tea.Msg) { messages <- m }) }()

	if g := receive[greeting](t, messages); !g.several || g.interval != time.Second {
		t.Errorf("%+v", g)
	}
	if token := testkit.Receive(t, "it connects", h.token); token != "Bearer gpw_x" {
		t.Errorf("the token is %q", token)
	}
	if f := testkit.Receive(t, "it subscribes", h.subscribed); len(f.Events) != 2 {
		t.Errorf("before somebody looks at a machine, it subscribes to %+v", f)
	}
	if m := receive[machines](t, messages); len(m.list) != 2 || m.whole.Headline == "" || !m.list[0].MayOperate {
		t.Errorf("%+v", m)
	}
	feed.Look("dgx-1")
	if f := testkit.Receive(t, "it subscribes", h.subscribed); len(f.Nodes) != 1 || f.Nodes[0] != "dgx-1" {
		t.Errorf("it subscribes to %+v", f)
	}
	if u := receive[update](t, messages); u.Node != "dgx-1" || len(u.GPUs) != 8 {
		t.Errorf("%s with %d GPUs", u.Node, len(u.GPUs))
	}
	if a := receive[alerts](t, messages); a.Count != 1 {
		t.Errorf("%+v", a)
	}
	conn := testkit.Receive(t, "the socket", h.sockets)
	if err := wsjson.Write(t.Context(), conn, map[string]any{"event": client.EventAlert, "data": client.Alert{}}); err != nil {
		t.Fatal(err)
	}
	receive[alerts](t, messages) // at once, since one has changed
	_ = conn.CloseNow()
	if l := receive[lost](t, messages); l.error == nil {
		t.Error("nothing says why it is lost")
	}
	receive[greeting](t, messages)
	if u := receive[update](t, messages); u.Node != "dgx-1" {
		t.Errorf("after it connected again, it looks at %s", u.Node)
	}
	stop()
	if err := testkit.Receive(t, "it ends", ended); err != nil {
		t.Error(err)
	}
}
