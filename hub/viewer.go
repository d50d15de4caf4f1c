package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// maxReplies is how many unanswered requests a viewer may have; beyond that its messages are not read.
const maxReplies = 16

// A viewer is one connection. One goroutine reads from it; the mailbox's messages are written when
// the viewer has a turn.
type viewer struct {
	hub    *Hub
	mail   mailbox
	wire   *wire
	conn   *websocket.Conn
	remote string
	hears  bool          // counted among the connections that get updates; guarded by the hub's mu
	denied *goodbye      // why it was to end during the handshake; nil: it was not; guarded by the hub's mu
	limits limits        // only for the reader
	in     bytes.Buffer  // only for the reader
	slots  chan struct{} // one is taken for each request that waits for its reply

	turn       turn        // owned by the hub's turns
	later      *time.Timer // only for the serving goroutine: delays a page that was just rendered
	awaitsPong bool        // only for the serving goroutine: a ping was sent, and the timer waits for its answer
	pinging    *time.Timer
	pingDue    atomic.Bool
	unanswered atomic.Bool            // a ping was sent, and no pong has come since
	pong       atomic.Pointer[[]byte] // the payload of the client's last unanswered ping

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	ending sync.Once
	bye    goodbye       // set once ctx has ended
	said   chan struct{} // closed when the goodbye was sent, or could not be
}

// limits are a viewer's rate limits: for requests of acts, such as request_gpu_update, for all other messages,
// for refused messages before its connection ends, and for reading its pings and pongs.
type limits struct{ requests, others, patience, controls *rate.Limiter }

func newLimits() limits {
	return limits{
		requests: rate.NewLimiter(2, 5), others: rate.NewLimiter(20, 50), patience: rate.NewLimiter(10, 500), controls: rate.NewLimiter(20, 50),
	}
}

// judge says whether a message is served and, if not, whether the viewer may stay.
func (l *limits) judge(req *request, now time.Time) (served, tolerated bool) {
	limit := l.others
	if req.acts || req.fresh {
		limit = l.requests
	}
	served = limit.AllowN(now, 1)
	return served, served || l.patience.AllowN(now, 1)
}

// A goodbye says why a connection ends.
type goodbye struct {
	why  string // its name in [Stats]
	code websocket.StatusCode
	text string // for the client, at most 123 bytes
}

// The reasons besides [Hub.Shutdown]. Only the first is the viewer's own wish.
var (
	left         = goodbye{"left", websocket.StatusNormalClosure, ""}
	lost         = goodbye{"lost", websocket.StatusGoingAway, ""} // the connection broke
	violation    = goodbye{"violation", websocket.StatusProtocolError, "not a WebSocket frame that a client may send"}
	tooBig       = goodbye{"too_big", websocket.StatusMessageTooBig, "the message is over the size limit"}
	stormed      = goodbye{"storm", websocket.StatusPolicyViolation, "too many messages despite rate_limited"}
	queueFull    = goodbye{"queue_full", websocket.StatusTryAgainLater, "too many events were left unread; connect again"}
	slow         = goodbye{"slow", websocket.StatusTryAgainLater, "a message was not read in time; connect again"}
	notAnswering = goodbye{"not_answering", websocket.StatusTryAgainLater, "a ping was not answered in time; connect again"}
	revoked      = goodbye{"revoked", websocket.StatusPolicyViolation, "you may no longer view this"}
	reopened     = goodbye{"reopened", websocket.StatusServiceRestart, "what you see has changed; connect again"}
	failed       = goodbye{"failed", websocket.StatusInternalError, "the status can't be encoded: see gpuwhy's log"}
)

// withdraws reports whether the rest of a message is not for the client any more.
func (g goodbye) withdraws() bool { return g == revoked || g == reopened }

// level returns the level at which the end is logged.
func (g goodbye) level() slog.Level {
	if g.code == websocket.StatusNormalClosure || g.code == websocket.StatusGoingAway {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

func newViewer(h *Hub, who auth.Principal, only string) *viewer {
	v := &viewer{
		hub:    h,
		mail:   newMailbox(h, who, only),
		limits: newLimits(),
		slots:  make(chan struct{}, maxReplies),
		said:   make(chan struct{}),
	}
	v.ctx, v.cancel = context.WithCancel(context.Background()) // not the request's context, which is the server's
	return v
}

// run reads until the connection has ended. Until then the viewer counts as connected.
func (v *viewer) run() {
	defer v.hub.leave(v)
	v.read()
	v.hub.turns.retire(v)
	v.pinging.Stop()
	<-v.said
	v.hub.cfg.Log.Log(v.ctx, v.bye.level(), "viewer gone", "remote", v.remote, "why", v.bye.why)
}

// end starts to close the connection, once, and says goodbye if possible.
func (v *viewer) end(bye goodbye) {
	v.ending.Do(func() {
		v.bye = bye
		v.mail.close()
		v.cancel()
		v.hub.counts.end(bye.why)
		v.hub.gone.Go(func() {
			defer close(v.said)
			timeout := closeTimeout
			if bye.withdraws() {
				timeout = revokeTimeout
				if !v.wire.rests(frameTimeout) {
					v.cut() // the rest of a message is not for the client any more
				}
			}
			cutting := time.AfterFunc(timeout, v.cut)
			defer cutting.Stop()
			// An error here means that the client did not answer, or had left.
			_ = v.conn.Close(bye.code, bye.text)
		})
	})
}

// cut breaks the connection without a goodbye. It is called after end.
func (v *viewer) cut() {
	if v.bye.withdraws() {
		v.wire.drop()
	}
	_ = v.wire.Close() // it may be closed already
}

// wake gives the viewer a turn.
func (v *viewer) wake() { v.hub.turns.wake(func(yield func(*viewer) bool) { yield(v) }) }

// serve sends everything the viewer should get, as far as its connection accepts it at once. Another goroutine, after which the viewer has
// another turn, writes the rest, messages in two pieces, and messages made for few.
func (v *viewer) serve() {
	for {
		if v.mail.forFew() {
			v.hub.gone.Go(v.serveAlone)
			return
		}
		msg, ok := v.next()
		if !ok {
			break
		}
		var n int
		var holds bool
		var err error
		if msg.tail == nil {
			n, holds, err = v.wire.offer(msg.head)
			v.hub.counts.bytes.Add(uint64(n))
		}
		if err == nil && (holds || n < len(msg.head)) {
			v.hub.gone.Go(func() {
				if v.finish(msg.head[n:], msg.tail, holds) {
					v.serveAlone()
				} else {
					v.hub.turns.rest(v)
				}
			})
			return
		}
		if !v.sent(err) {
			break
		}
	}
	v.hub.turns.rest(v)
}

// serveAlone is serve in a goroutine that may wait.
func (v *viewer) serveAlone() {
	defer v.hub.turns.rest(v)
	for msg, ok := v.next(); ok; msg, ok = v.next() {
		if !v.finish(msg.head, msg.tail, false) {
			return
		}
	}
	if p := v.mail.page.Load(); p != nil && p.seen < v.hub.changes.Load() && v.ctx.Err() == nil {
		if v.later == nil {
			v.later = time.AfterFunc(pageGap, v.wake)
		} else {
			v.later.Reset(pageGap)
		}
	}
}

// next returns the viewer's next message: its first one, a ping, or one from the mailbox.
func (v *viewer) next() (message, bool) {
	now := v.hub.now.Load()
	if greets := v.mail.greets; greets != nil { // a viewer that shows a page gets none
		v.mail.greets = nil // otherwise the viewer would keep that state in memory
		greeting, err := v.hub.greeting(greets, v.mail.who.Audience, v.mail.only)
		if err != nil {
			v.end(failed)
			return message{}, false
		}
		return message{head: greeting.bytes}, true
	}
	if v.pingDue.Swap(false) && v.ping() {
		return message{head: pingFrame}, true
	}
	if payload := v.pong.Swap(nil); payload != nil {
		return message{head: pongFrame(*payload)}, true
	}
	msg, ok := v.mail.next(now)
	if ok && msg.kind == kindReply {
		<-v.slots
	}
	return msg, ok
}

// finish writes a message or the rest of one, and returns false once the connection has ended.
func (v *viewer) finish(head, tail []byte, holds bool) bool {
	n, err := v.wire.finish(head, tail, holds)
	v.hub.counts.bytes.Add(uint64(n))
	return v.sent(err)
}

// sent counts a message, or closes a connection that did not accept it.
func (v *viewer) sent(err error) bool {
	switch {
	case err == nil:
		v.hub.counts.messages.Add(1)
		return true
	case errors.Is(err, errGoodbye):
		return false // the reader knows why
	case errors.Is(err, os.ErrDeadlineExceeded):
		v.end(slow)
	default:
		v.end(lost)
	}
	v.cut()
	return false
}

// pinged answers a ping in the viewer's next turn; of several pings only the last (RFC 6455, 5.5.3). The WebSocket library would close the
// connection of a viewer that does not accept the previous message within 5 s.
func (v *viewer) pinged(_ context.Context, payload []byte) (answer bool) {
	v.holdBack()
	own := bytes.Clone(payload)
	v.pong.Store(&own)
	v.wake()
	return false
}

// ponged records that the viewer has answered a ping.
func (v *viewer) ponged(context.Context, []byte) {
	v.holdBack()
	v.unanswered.Store(false)
}

// holdBack is called by the reading goroutine. It waits if pings and pongs come too fast: meanwhile nothing is read, and the viewer can't
// send.
func (v *viewer) holdBack() {
	wait := v.limits.controls.Reserve().Delay()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-v.ctx.Done():
	case <-timer.C:
	}
}

func (v *viewer) pingIsDue() {
	v.pingDue.Store(true)
	v.wake()
}

// ping reports whether to send a ping; its next call checks whether the answer came.
func (v *viewer) ping() bool {
	answer := v.hub.cfg.WriteTimeout
	switch {
	case v.awaitsPong && v.unanswered.Load():
		v.end(notAnswering)
		return false
	case v.awaitsPong:
		v.awaitsPong = false
		v.pinging.Reset(max(0, v.hub.cfg.PingEvery-answer))
		return false
	default:
		v.awaitsPong = true
		v.unanswered.Store(true)
		v.pinging.Reset(answer)
		return true
	}
}

// read serves the client's messages until the connection ends.
func (v *viewer) read() {
	for {
		kind, raw, err := v.receive()
		if err != nil {
			v.end(goodbyeFor(err))
			return
		}
		select {
		case v.slots <- struct{}{}:
			v.handle(kind, raw, time.Now())
		case <-v.ctx.Done():
		}
		if v.ctx.Err() != nil {
			return
		}
	}
}

// largeRead is the size above which a message's buffer is not kept for the next one.
const largeRead = 2 << 10

var errTooBig = errors.New("message too big")

// receive returns the next message, valid until the next call.
func (v *viewer) receive() (websocket.MessageType, []byte, error) {
	// With a context that ends, the connection would be cut without a goodbye.
	kind, r, err := v.conn.Reader(context.Background())
	if err != nil {
		return 0, nil, err
	}
	if v.in.Cap() > largeRead {
		v.in = bytes.Buffer{}
	}
	v.in.Reset()
	limit := int64(messageLimit)
	n, err := v.in.ReadFrom(io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = errTooBig
	}
	return kind, v.in.Bytes(), err
}

func goodbyeFor(err error) goodbye {
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, errTooBig):
		return tooBig
	case websocket.CloseStatus(err) != -1:
		return left
	case network, errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return lost
	default:
		return violation
	}
}

// handle answers one message with exactly one reply, for which the caller has taken a slot; request_gpu_update has one reply per node.
func (v *viewer) handle(kind websocket.MessageType, raw []byte, now time.Time) {
	var req request
	var err error = &refusal{codeBadJSON, "messages must be JSON in text frames; this one is binary"}
	if kind == websocket.MessageText {
		req, err = parse(raw, v.hub.named)
	}
	switch served, tolerated := v.limits.judge(&req, now); {
	case !tolerated:
		v.end(stormed)
		return
	case !served:
		err = &refusal{codeRateLimited, "too many messages: wait a second"}
	case err == nil:
		err = v.accepts(&req)
	}
	switch {
	case err != nil:
		v.mail.reply(refused(err, req.id))
	case req.acts:
		filter := v.mail.inForce()
		v.hub.gone.Go(func() { v.act(&req, filter) })
	case req.event == eventShow:
		<-v.slots // the page is the answer
		v.mail.show(req.page)
		v.hub.hears(v, false)
		if req.fresh {
			v.hub.gone.Go(v.readNow)
		}
	default:
		v.mail.subscribe(req.filter, newPacket(eventSubscribed, req.filter.terms).reply(eventSubscribed, req.id))
	}
}

// accepts says why the viewer can't be served, or nil.
func (v *viewer) accepts(req *request) error {
	switch {
	case req.event == eventShow && v.hub.cfg.Page == nil:
		return unknownEvent(req.event, v.hub.named)
	case req.filter != nil && req.filter.delta && v.hub.cfg.Patch == nil:
		return errors.New("delta: patches are not available here")
	case req.filter != nil && req.filter.ambiguous() && v.mail.several():
		return errors.New("gpus has an index, but an index is unique only within a node: name the node in nodes, or use the GPU's UUID")
	case req.filter != nil:
		for event := range req.filter.events {
			if event != eventUpdate && !slices.Contains(v.hub.cfg.Events, event) {
				return &refusal{codeUnknownEvent, fmt.Sprintf("events: there is no event %.64q; use %s, %s", event, eventUpdate, strings.Join(v.hub.cfg.Events, ", "))}
			}
		}
	}
	return nil
}

// ask returns what the viewer asks an act for, with the filter in force.
func (v *viewer) ask(filter *filter, data json.RawMessage) *Ask {
	return &Ask{Principal: v.mail.who, Node: v.mail.only, Data: data, Wanted: func(node string) bool {
		return (v.mail.only == "" || node == v.mail.only) && v.mail.sees(node) && (!v.mail.several() || allows(filter.nodes, node))
	}}
}

// act performs the act that a message requests, and replies with the result.
func (v *viewer) act(req *request, filter *filter) {
	trouble, failure := v.hub.acting, "the action failed: see gpuwhy's log"
	if req.event == eventRequest {
		trouble, failure = v.hub.refreshing, "no reading is available now"
	}
	reply, err := v.hub.acts[req.event].Do(v.ctx, v.ask(filter, req.data))
	if _, told := errors.AsType[*refusal](err); told {
		v.mail.reply(refused(err, req.id))
		return
	}
	switch {
	case v.ctx.Err() != nil:
		return
	case err != nil:
		trouble.begin(err)
		v.mail.reply(refused(&refusal{codeUnavailable, failure}, req.id))
		return
	}
	switch {
	case reply.Data != nil:
		v.mail.reply(newPacket(eventDone, reply.Data).reply(eventDone, req.id))
	case len(reply.Read) == 0:
		v.mail.reply(refused(&refusal{codeUnavailable, "your filter allows no node"}, req.id))
		return
	}
	trouble.end()
	for i, node := range reply.Read {
		kind := kindPart
		if i == len(reply.Read)-1 {
			kind = kindReply
		}
		v.mail.reply(message{node: node, filter: filter, id: req.id, kind: kind})
	}
}
