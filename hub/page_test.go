package hub_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// pages answers what it was asked.
func pages(asked *atomic.Int64) func(*hub.Config) {
	return func(cfg *hub.Config) {
		cfg.Page = func(address string, _ auth.Sight, have string, changes uint64) ([]byte, string, uint64, error) {
			asked.Add(1)
			if address == "none" {
				return nil, "", 0, errors.New("no such page")
			}
			version := fmt.Sprintf("%s-%d", address, changes)
			if have == version {
				return nil, version, changes, nil
			}
			return fmt.Appendf(nil, `{"event":"page","data":{"page":%q,"from":%q,"to":%q}}`, address, have, version), version, changes, nil
		}
	}
}

// dialPage connects for a page.
func dialPage(t *testing.T, m *monitor, query string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, m.url+"?"+query, &websocket.DialOptions{HTTPClient: m.client}) //nolint:bodyclose // Dial says that nobody needs to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	return &client{t, conn}
}

// A connection for a page gets that page, from the version that it has, and neither updates nor events.
func TestAPageIsKeptUpToDate(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	m := start(t, pages(&asked))
	m.publish(snapshot(1))
	c := dialPage(t, m, "page=gpu%2Fx&have=old")
	if got := c.want("page"); string(got.Data) != `{"page":"gpu/x","from":"old","to":"gpu/x-1"}` {
		t.Errorf("first %s", got)
	}
	m.publish(snapshot(2))
	m.Announce([]hub.Event{{Name: "high_gpu_usage_alert", Data: []byte(`{}`)}}, nil)
	m.Turn()
	if got := c.want("page"); string(got.Data) != `{"page":"gpu/x","from":"gpu/x-1","to":"gpu/x-2"}` {
		t.Errorf("then %s", got)
	}
	c.send(`{"event":"show","data":{"page":"","have":"gpu/x-1"}}`)
	if got := c.want("page"); !strings.HasPrefix(string(got.Data), `{"page":"","from":"gpu/x-1"`) {
		t.Errorf("another page: %s", got)
	}
}

// What can't be shown is said, and the next page is shown.
func TestAPageThatIsNone(t *testing.T) {
	t.Parallel()
	m := start(t, pages(new(atomic.Int64)))
	_, answer, err := websocket.Dial(t.Context(), m.url+"?page="+strings.Repeat("x", 3000), &websocket.DialOptions{HTTPClient: m.client}) //nolint:bodyclose // Dial says that nobody needs to
	if err == nil || answer.StatusCode != http.StatusBadRequest {
		t.Errorf("an address that is too long: %v", err)
	}
	c := dialPage(t, m, "page=none")
	if got := c.want("error"); !strings.Contains(string(got.Data), `"unavailable"`) {
		t.Errorf("said %s", got)
	}
	for message, want := range map[string]string{
		`{"event":"show","data":{"page":7}}`:                                   "needs the member \\\"page\\\", a string",
		`{"event":"show","data":{"page":"","fresh":1}}`:                        "fresh",
		`{"event":"show","data":{"page":"","more":1}}`:                         "only have the members page, have and fresh",
		`{"event":"show"}`:                                                     "needs the member",
		`{"event":"show","data":{"page":"` + strings.Repeat("x", 3000) + `"}}`: "too long",
	} {
		c.send(message)
		if got := c.want("error"); !strings.Contains(string(got.Data), want) {
			t.Errorf("%.40s: %s", message, got)
		}
	}
	c.send(`{"event":"show","data":{"page":"there"}}`)
	c.want("page")
	if s := m.Stats(); s.Viewers != 1 {
		t.Errorf("%d viewers", s.Viewers)
	}
	plain := connect(t, start(t, nil))
	plain.send(`{"event":"show","data":{"page":""}}`)
	if got := plain.want("error"); !strings.Contains(string(got.Data), "unknown_event") {
		t.Errorf("without pages: %s", got)
	}
}

// A page is shown from a reading that begins now, where somebody asks for that.
func TestAPageIsReadNow(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	m := start(t, pages(&asked), func(context.Context) (*gpu.Snapshot, error) { return snapshot(9), nil })
	c := dialPage(t, m, "page=a")
	c.want("page")
	c.send(`{"event":"show","data":{"page":"a","have":"a-1","fresh":true}}`)
	if got := c.want("page"); !strings.HasSuffix(string(got.Data), `"to":"a-2"}`) {
		t.Errorf("it is %s", got)
	}
	if f := m.Latest(); f.Nodes()[0].Seq != 9 {
		t.Errorf("the latest is %d", f.Nodes()[0].Seq)
	}
}
