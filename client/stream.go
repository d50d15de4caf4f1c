package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// Names of events. The data of each is a type of this package.
const (
	EventStatus        = "gpu_status"           // [GPUStatus]; once, as the first message
	EventUpdate        = "gpu_status_update"    // [Update] of one node, whenever there is a newer one
	EventUsage         = "high_gpu_usage_alert" // [Alert]
	EventAlert         = "alert"                // [Alert]: all others
	EventSubscribed    = "subscribed"           // [Filter]: the one now in force
	EventError         = "error"                // [Failed]
	EventRequestUpdate = "request_gpu_update"   // to gpuwhy, without data; the answer is an EventUpdate with the same id
	EventSubscribe     = "subscribe"            // to gpuwhy, with a [Filter]
	EventUnsubscribe   = "unsubscribe"          // to gpuwhy, without data
)

// A Filter narrows what a [Stream] receives; empty parts narrow nothing.
type Filter struct {
	Events []string `json:"events,omitempty"`
	GPUs   []any    `json:"gpus,omitempty"` // UUIDs, or indexes if there is one node
	Nodes  []string `json:"nodes,omitempty"`
}

// Failed says why a message that was sent can't be served. The connection stays open.
type Failed struct {
	Code    string `json:"code"` // bad_json, unknown_event, bad_request, forbidden or rate_limited
	Message string `json:"message"`
}

// A Message was received over a [Stream].
type Message struct {
	Event string          `json:"event"`
	ID    json.RawMessage `json:"id"` // id of the request that it answers, as it was sent; nil if it answers none
	Data  json.RawMessage `json:"data"`
	Text  []byte          `json:"-"` // the whole message, as received
}

// Decode decodes the data into a value of the event's type.
func (m *Message) Decode(into any) error {
	if err := json.Unmarshal(m.Data, into); err != nil {
		return fmt.Errorf("the event %s can't be read: %w", m.Event, err)
	}
	return nil
}

// A Stream is a connection to gpuwhy's WebSocket. gpuwhy closes streams that do not read. One goroutine may read, and any number
// may send.
type Stream struct{ conn *websocket.Conn }

// longestMessage is the longest message that is read, in bytes: more than a node with all its processes
// needs.
const longestMessage = 64 << 20

// Dial follows events of one node, or of all if the name is empty. ctx is only for connecting. If gpuwhy refuses, for example
// because it has too many viewers, the error is a [*Problem].
func (c *Client) Dial(ctx context.Context, node string) (*Stream, error) {
	path := "/ws"
	if node != "" {
		path = "/node" + segment(node) + path
	}
	header := http.Header{}
	c.authorize(header)
	conn, answer, err := websocket.Dial(ctx, "ws"+c.base[len("http"):]+path, &websocket.DialOptions{HTTPClient: c.http(), HTTPHeader: header})
	switch {
	case err != nil && answer != nil: // with the beginning of the response's body
		defer answer.Body.Close()
		return nil, c.instead(answer)
	case err != nil:
		return nil, c.explain(err)
	}
	conn.SetReadLimit(longestMessage)
	return &Stream{conn}, nil
}

// Next waits for the next message. After an error, including the end of ctx, the stream is closed. If gpuwhy closed it, the error
// wraps a [websocket.CloseError] with a reason.
func (s *Stream) Next(ctx context.Context) (Message, error) {
	_, text, err := s.conn.Read(ctx)
	m := Message{Text: text}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// Send sends a request with an id, which the answer repeats. data may be nil.
func (s *Stream) Send(ctx context.Context, event, id string, data any) error {
	text, err := json.Marshal(struct {
		Event string `json:"event"`
		ID    string `json:"id,omitempty"`
		Data  any    `json:"data,omitempty"`
	}{event, id, data})
	if err != nil {
		return fmt.Errorf("encode %s: %w", event, err)
	}
	return s.SendText(ctx, string(text))
}

// SendText sends a message unchanged.
func (s *Stream) SendText(ctx context.Context, text string) error {
	return s.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// Close closes the connection at once, without waiting for a goodbye.
func (s *Stream) Close() error { return s.conn.CloseNow() }
