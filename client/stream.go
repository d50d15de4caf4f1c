package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coder/websocket"
)

// Names of events. What comes with each is a type of this package.
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

// A Filter narrows what comes over a [Stream]; a part that is empty narrows nothing.
type Filter struct {
	Events []string `json:"events,omitempty"`
	GPUs   []any    `json:"gpus,omitempty"` // UUIDs, or indexes where there is one node
	Nodes  []string `json:"nodes,omitempty"`
}

// Failed is why a message that was sent can't be served. The connection stays open.
type Failed struct {
	Code    string `json:"code"` // bad_json, unknown_event, bad_request or rate_limited
	Message string `json:"message"`
}

// A Message came over a [Stream].
type Message struct {
	Event string          `json:"event"`
	ID    json.RawMessage `json:"id"` // of the request that it answers, as it was sent; nil where it answers none
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

// A Stream is a connection to gpuwhy's WebSocket. gpuwhy ends one that does not read what comes. One goroutine reads, and any number
// may send.
type Stream struct{ conn *websocket.Conn }

// longestMessage is how much is read of a message, in bytes: more than a node with all its processes has.
const longestMessage = 64 << 20

// Dial follows what happens on one node, or on all if the name is empty. ctx is for connecting alone. Where gpuwhy refuses, as one that has
// as many viewers as it may, the error is a [*Problem].
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

// Next waits for the next message. After an error, also because ctx has ended, the stream is closed. Where gpuwhy has ended it, the
// error has a [websocket.CloseError] with a reason.
func (s *Stream) Next(ctx context.Context) (Message, error) {
	_, text, err := s.conn.Read(ctx)
	m := Message{Text: text}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	return m, err
}

// Send sends a request with an id, which the answer has, too. data may be nil.
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

// SendText sends a message as it is.
func (s *Stream) SendText(ctx context.Context, text string) error {
	return s.conn.Write(ctx, websocket.MessageText, []byte(text))
}

// Close ends the connection at once, without a goodbye that would be waited for.
func (s *Stream) Close() error { return s.conn.CloseNow() }
