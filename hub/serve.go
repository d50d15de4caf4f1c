package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// Serve upgrades the request to a WebSocket and returns; the viewer or [Hub.Shutdown] ends the connection. The viewer sees only the given
// node, as if there were no other; an empty name means all. If the query has a page's address, with the version that the viewer has, the
// viewer gets that page instead of updates and events. If Serve refuses, it sends an application/problem+json response: 503 if the hub is
// full or shutting down, 403 for a foreign origin and for a principal that may not read, 426, 405 or 400 if the request is not a handshake.
func (h *Hub) Serve(w http.ResponseWriter, r *http.Request, node string) {
	who := auth.FromRequest(r)
	if !who.May(auth.Read) {
		h.refuse(w, http.StatusForbidden, "you may not view this: ask the person who runs gpuwhy")
		return
	}
	if why := h.admit(); why != "" {
		w.Header().Set("Retry-After", "5")
		h.refuse(w, http.StatusServiceUnavailable, why)
		return
	}
	v := newViewer(h, who, node)
	v.remote = r.RemoteAddr
	h.arrive(v)
	stays := false
	defer func() {
		if !stays {
			h.leave(v)
		}
	}()
	if h.cfg.Page != nil && node == "" { // a page's address names the node
		p, err := pageOf(r.URL.Query())
		if err != nil {
			h.refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		v.mail.page.Store(p)
	}
	h.hears(v, v.mail.page.Load() == nil)
	if err := v.accept(w, r); err != nil {
		return
	}
	h.register(v)
	h.cfg.Log.Debug("viewer connected", "remote", v.remote)
	stays = true
	go v.run() // the request and its goroutine can be freed now
}

// admit counts a connection, or says why it can't be accepted. That must happen before the upgrade, after which the server forgets the
// connection.
func (h *Hub) admit() (why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.farewell != nil:
		why = "gpuwhy is shutting down: connect again in a moment"
	case h.connections >= h.cfg.MaxViewers:
		why = fmt.Sprintf("%d viewers are connected, the most allowed: try again later", h.connections)
	default:
		h.connections++
		h.gone.Add(1)
	}
	return why
}

// arrive lets [Hub.Revoke] find a connection that gets nothing yet.
func (h *Hub) arrive(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arriving[v] = struct{}{}
}

// Revoke closes the connections of principals for which is returns true, with close code 1008, including connections in the handshake. The
// caller must have made sure that such a principal can't connect again.
func (h *Hub) Revoke(is func(auth.Principal) bool) { h.dismiss(is, revoked) }

// Reopen is Revoke for principals who see other things from now on, and may connect again, with close code 1012.
func (h *Hub) Reopen(is func(auth.Principal) bool) { h.dismiss(is, reopened) }

func (h *Hub) dismiss(is func(auth.Principal) bool, bye goodbye) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.viewers {
		if is(v.mail.who) {
			v.end(bye)
		}
	}
	for v := range h.arriving {
		if v.denied == nil && is(v.mail.who) {
			v.denied = &bye
		}
	}
}

func (h *Hub) leave(v *viewer) {
	v.cancel()
	h.mu.Lock()
	delete(h.viewers, v)
	delete(h.arriving, v)
	h.connections--
	h.mu.Unlock()
	h.hears(v, false)
	h.gone.Done()
}

// hears sets whether a connection is counted as one that gets updates.
func (h *Hub) hears(v *viewer, so bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case so == v.hears:
		return
	case so:
		h.hearing[v.mail.only]++
	default:
		if h.hearing[v.mail.only]--; h.hearing[v.mail.only] == 0 {
			delete(h.hearing, v.mail.only)
		}
	}
	v.hears = so
}

// refuse sends an RFC 9457 document, and counts it.
func (h *Hub) refuse(w http.ResponseWriter, status int, detail string) {
	h.counts.refused.Add(1)
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // strings and an int can always be marshaled
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		h.cfg.Log.Debug("a refusal was not read", "status", status, "err", err)
	}
}

// accept performs the handshake. Each compressed message is independent of the others, so that all viewers share the same bytes.
func (v *viewer) accept(w http.ResponseWriter, r *http.Request) error {
	up := &upgrade{ResponseWriter: w, v: v}
	conn, err := websocket.Accept(up, r, &websocket.AcceptOptions{
		OriginPatterns:  v.hub.cfg.Origins,
		CompressionMode: websocket.CompressionNoContextTakeover,
		OnPingReceived:  v.pinged,
		OnPongReceived:  v.ponged,
	})
	if err != nil {
		if up.refused != 0 {
			v.hub.refuse(w, up.refused, strings.TrimSpace(up.detail.String()))
		}
		v.hub.cfg.Log.Debug("handshake refused", "remote", r.RemoteAddr, "err", err)
		return err
	}
	conn.SetReadLimit(-1) // receive has its own limit
	v.mail.deflates = strings.HasPrefix(w.Header().Get("Sec-WebSocket-Extensions"), "permessage-deflate")
	v.conn = conn
	return nil
}

// An upgrade is the ResponseWriter of one handshake. It gives the library a wire, and hides the library's plain-text refusals from the
// client.
type upgrade struct {
	http.ResponseWriter
	v       *viewer
	refused int
	detail  strings.Builder
}

// Hijack turns the connection into a wire.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.v.wire = newWire(conn, u.v.hub.cfg.WriteTimeout)
	early, _ := buffers.Peek(buffers.Reader.Buffered()) // never more than is buffered
	in := bufio.NewReaderSize(bytes.NewReader(early), max(readBuffer, len(early)))
	_, _ = in.Peek(len(early))
	return u.v.wire, bufio.NewReadWriter(in, bufio.NewWriterSize(u.v.wire, controlBuffer)), nil
}

// WriteHeader lets the upgrade pass, and holds back a refusal.
func (u *upgrade) WriteHeader(status int) {
	if status >= 400 {
		u.refused = status
		return
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write holds back the body of a refusal.
func (u *upgrade) Write(p []byte) (int, error) {
	if u.refused != 0 {
		return u.detail.Write(p)
	}
	return u.ResponseWriter.Write(p)
}

// Shutdown refuses new viewers, closes all connections with code 1001 and the first 123 bytes of
// the reason, and waits until they have ended. If ctx ends first, it cuts the remaining ones and
// returns ctx's cause; [Hub.Wait] then waits for the last of them.
func (h *Hub) Shutdown(ctx context.Context, reason string) error {
	h.mu.Lock()
	text := strings.ToValidUTF8(reason[:min(len(reason), 123)], "")
	h.farewell = &goodbye{"shutting_down", websocket.StatusGoingAway, text}
	for v := range h.viewers {
		v.end(*h.farewell)
	}
	h.mu.Unlock()

	gone := make(chan struct{})
	go func() {
		h.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for v := range h.viewers {
		v.cut()
	}
	return context.Cause(ctx)
}

// Wait returns when the goroutines of all connections have ended.
func (h *Hub) Wait() { h.gone.Wait() }
