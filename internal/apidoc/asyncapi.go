package apidoc

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Events is the AsyncAPI 3 document of the WebSocket.
type Events struct {
	AsyncAPI    string                     `json:"asyncapi"`
	Info        Info                       `json:"info"`
	ContentType string                     `json:"defaultContentType"`
	Servers     Members[any]               `json:"servers"`
	Channels    Members[*Channel]          `json:"channels"`
	Operations  Members[*ChannelOperation] `json:"operations"`
	Components  struct {
		Messages Members[*Message] `json:"messages"`
		Schemas  Members[*Schema]  `json:"schemas"`
	} `json:"components"`
}

// Channel is the socket.
type Channel struct {
	Address     string           `json:"address"`
	Description string           `json:"description"`
	Messages    Members[*Schema] `json:"messages"` // references
	Bindings    map[string]any   `json:"bindings"`
}

// ChannelOperation is gpuwhy sending or receiving one kind of message.
type ChannelOperation struct {
	Action   string    `json:"action"` // "send" or "receive"
	Channel  *Schema   `json:"channel"`
	Summary  string    `json:"summary"`
	Messages []*Schema `json:"messages"`
	Reply    *Reply    `json:"reply,omitempty"`
}

// Reply is what a received message is answered with.
type Reply struct {
	Channel  *Schema   `json:"channel"`
	Messages []*Schema `json:"messages"`
}

// Message is one kind of message.
type Message struct {
	Name        string                     `json:"name"`
	Title       string                     `json:"title"`
	Summary     string                     `json:"summary"`
	Description string                     `json:"description"`
	Payload     *Schema                    `json:"payload"`
	Examples    []Members[json.RawMessage] `json:"examples"` // "payload"
}

// An event is what is said of one kind of message.
type event struct {
	name, summary, description string
	sent                       bool // by gpuwhy
	data                       any  // a value of the type under "data"; nil for none
	example                    any  // of the data
	reply                      []string
}

func sends(name string, data, example any, summary, description string) event {
	return event{name: name, data: data, example: example, summary: summary, description: description, sent: true}
}

func receives(name string, data, example any, summary, description string, reply ...string) event {
	return event{name: name, data: data, example: example, summary: summary, description: description, reply: reply}
}

// messages are all kinds, those that gpuwhy sends first.
func messages() []event {
	return []event{
		sends("gpu_status", contract.GPUStatus{}, statusExample(), "The state of the monitor",
			"Once, first: the state of the monitor, and the newest snapshot, which does not come again as a gpu_status_update. Then each alert that is firing is sent as it stands."),
		sends("gpu_status_update", contract.Update{}, contract.Example("update"), "A whole snapshot",
			"Every interval: what GET /api/gpu/metrics answers at that moment. Snapshots may be skipped, so seq may have gaps. With an id it is the reply to request_gpu_update."),
		sends(contract.HighGPUUsage, contract.Alert{}, contract.Example("alert"), "A GPU is busy, or is no more",
			"When a GPU's utilization is above the threshold, and again, with the same alert_id, when it is over. Alerts are never skipped."),
		sends(contract.AlertEvent, contract.Alert{}, contract.Example("alert"), "News of an alert",
			"When an alert of any other rule fires or is over; and of all rules, when what they watch is not reported any more or is again, and when an alert is acknowledged or silenced, or is not any more. The alert_id stays the same."),
		sends("subscribed", Filter{}, Filter{GPUs: []any{0}}, "The filter in force",
			"The reply to subscribe and unsubscribe; what follows obeys it."),
		sends("error", Refusal{}, Refusal{Code: "bad_request", Message: "gpus is not a list", ID: "a"}, "A message could not be served",
			"The id is beside data and in it."),
		receives("request_gpu_update", nil, nil, "Read the GPUs now",
			"Answered, to this client alone, from a reading that began after the request arrived. It may wait up to 250 ms, which all who ask meanwhile share. 5 at once, 2 a second after that.", "gpu_status_update", "error"),
		receives("subscribe", Subscription{}, Subscription{GPUs: []any{0}}, "Narrow what comes",
			"Replaces the filter. Replies, gpu_status and error always come.", "subscribed", "error"),
		receives("unsubscribe", nil, nil, "Let everything come again",
			"As at the start.", "subscribed", "error"),
	}
}

// statusExample is the golden gpu_status with a whole snapshot in it.
func statusExample() any {
	var status contract.GPUStatus
	if err := json.Unmarshal(contract.Example("gpu_status"), &status); err != nil {
		panic(fmt.Sprintf("apidoc: the example of gpu_status can't be read: %v", err))
	}
	status.Snapshot = contract.Example("update")
	return status
}

const socketText = `Everything that gpuwhy knows, as it happens. Every message, both ways, is one JSON object in one text message:
{"event": NAME, "data": {…}}. A client may add an id, a string or a number of at most 128 bytes, and gets it back on the reply or
the error. Members that a side does not know are to be ignored. A browser's page may connect from the host that it asks, and from
the origins that --allow-origin names; programs that send no Origin may always.`

// AsyncAPI makes the document of the socket at the address.
func AsyncAPI(version, address string) *Events {
	const (
		channelRef = "#/channels/socket"
		messageRef = "#/components/messages/"
	)
	schemas := NewSchemas(schemaRefs)
	doc := &Events{
		AsyncAPI:    "3.0.0",
		Info:        Info{"gpuwhy: events", version, socketText, Members[string]{{"name", "Apache-2.0"}}},
		ContentType: "application/json",
		Servers: Members[any]{{"gpuwhy", Members[any]{
			{"host", "{host}"}, {"protocol", "ws"}, {"description", "gpuwhy itself; wss behind TLS."},
			{"variables", Members[any]{{"host", Members[any]{{"default", "127.0.0.1:8003"}, {"description", "Host and port, as for the page."}}}}},
		}}},
	}
	channel := &Channel{
		Address: address, Description: socketText,
		Bindings: map[string]any{"ws": map[string]any{"method": "GET"}},
	}
	doc.Channels = Members[*Channel]{{"socket", channel}}
	inChannel := func(names ...string) []*Schema {
		var refs []*Schema
		for _, name := range names {
			refs = append(refs, &Schema{Ref: channelRef + "/messages/" + name})
		}
		return refs
	}
	for _, m := range messages() {
		*channel.Messages.at(m.name) = &Schema{Ref: messageRef + m.name}
		*doc.Components.Messages.at(m.name) = m.message(schemas)
		op := &ChannelOperation{Action: "receive", Channel: &Schema{Ref: channelRef}, Summary: m.summary, Messages: inChannel(m.name)}
		if m.sent {
			op.Action = "send"
		}
		if m.reply != nil {
			op.Reply = &Reply{&Schema{Ref: channelRef}, inChannel(m.reply...)}
		}
		*doc.Operations.at(m.name) = op
	}
	doc.Components.Schemas = schemas.named
	return doc
}

// message is the envelope with the data in it.
func (m event) message(schemas *Schemas) *Message {
	payload := &Schema{
		Type: Types{"object"}, Required: []string{"event"},
		Properties: Members[*Schema]{
			{"event", &Schema{Type: Types{"string"}, Const: m.name, Description: "The kind of message."}},
			{"id", &Schema{Type: Types{"string", "number"}, Description: m.idText()}},
		},
	}
	example := map[string]any{"event": m.name}
	if m.data == nil {
		*payload.Properties.at("data") = &Schema{Type: Types{"object", "null"}, Description: "May be left out."}
		example["id"] = 7
	} else {
		data := schemas.Of(reflect.TypeOf(m.data))
		if m.sent {
			payload.Required = append(payload.Required, "data")
		} else {
			data = orNull(data)
		}
		*payload.Properties.at("data") = data
		example["data"] = m.example
	}
	return &Message{
		Name: m.name, Title: m.name, Summary: m.summary, Description: m.description, Payload: payload,
		Examples: []Members[json.RawMessage]{{{"payload", encoded(example)}}},
	}
}

func (m event) idText() string {
	if m.sent {
		return "That of the message which this is the reply to; missing where it is none."
	}
	return "Comes back on the reply or the error; at most 128 bytes."
}

// A Fact is a row of a table about the socket: a name, and what it means.
type Fact struct{ Name, Meaning string }

// Limits of the socket, and CloseCodes with which a connection ends, as
// docs/protocol.md has them.
var (
	Limits = []Fact{
		{"size of a client's message", "16 KiB; a larger one ends the connection with 1009"},
		{"entries of a list in a filter", "256, each at most 128 bytes"},
		{"request_gpu_update", "5 at once, 2 a second after that"},
		{"other messages", "50 at once, 20 a second after that"},
		{"refused for the rate", "500 at once, 10 a second after that; then the connection ends with 1008"},
		{"replies that a client has not read", "16; then nothing more is read from it until it reads"},
		{"events that wait for a client", "64; then the connection ends with 1013"},
		{"time to take a message", "10 s; then the connection is cut"},
		{"pings", "every 20 s, to be answered within 10 s (browsers and most libraries do so by themselves)"},
		{"connections", "1000 (--max-viewers); more get a 503"},
	}
	CloseCodes = []Fact{
		{"1001", "gpuwhy is shutting down"},
		{"1002", "what the client sent was not WebSocket"},
		{"1008", "too many messages in spite of rate_limited"},
		{"1009", "a message was over the size limit"},
		{"1011", "the state of the monitor could not be encoded; the log says why"},
		{"1013", "events were left unread, or a ping unanswered"},
		{"1006", "no goodbye could be given: the network broke, or a message was not read within 10 s"},
	}
)
