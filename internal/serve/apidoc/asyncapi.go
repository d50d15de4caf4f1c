package apidoc

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Events describes the WebSocket. As JSON it is an AsyncAPI 3 document.
type Events struct {
	Version    string           `json:"-"` // of gpuwhy
	Address    string           `json:"-"`
	Text       string           `json:"-"`      // about all messages
	Events     []*Event         `json:"events"` // those that gpuwhy sends come first
	Limits     []Fact           `json:"limits"`
	CloseCodes []Fact           `json:"close_codes"` // with which a connection ends
	Schemas    Members[*Schema] `json:"-"`
}

// An Event is one kind of message.
type Event struct {
	Name        string          `json:"name"`
	Sent        bool            `json:"sent"` // by gpuwhy, not by a client
	Summary     string          `json:"summary"`
	Description string          `json:"description"`
	Reply       []string        `json:"reply"` // names of the events that answer it
	Target      *Parameter      `json:"-"`     // what an action is done to, as target in its data; nil: it has none
	Args        any             `json:"-"`     // a value of the type of an action's arguments, as args in its data; nil: it takes none
	Data        *Schema         `json:"-"`     // nil if it has none
	Example     json.RawMessage `json:"-"`     // a whole message
}

// A Fact is a row of a table about the socket: a name, and what it means.
type Fact struct {
	Name    string `json:"name"`
	Meaning string `json:"meaning"`
}

// Done is the event that answers a requested action if no other event does.
const Done = "done"

// AsyncAPI describes the socket at the address. acts are the messages that request actions.
func AsyncAPI(version, address string, acts ...*Event) *Events {
	doc := load[Events]("events.json")
	first := slices.IndexFunc(doc.Events, func(e *Event) bool { return !e.Sent })
	if slices.ContainsFunc(acts, func(e *Event) bool { return slices.Contains(e.Reply, Done) }) {
		doc.Events = slices.Insert(doc.Events, first, &Event{
			Name: Done, Sent: true, Summary: "An action is done", Description: "The result of an action, as its HTTP address returns it. The id is the id of the message that asked for it.",
		})
		first++
	}
	for _, e := range slices.Backward(acts) {
		doc.Events = slices.Insert(doc.Events, first, new(*e))
	}
	doc.Version, doc.Address, doc.Text = version, address, strings.TrimSpace(read("socket.md"))
	type data struct{ kind, example any } // a value of the type, and an example
	carried := map[string]data{
		"gpu_status":          {contract.GPUStatus{}, statusExample()},
		"gpu_status_update":   {contract.Update{}, contract.Example("update")},
		"gpu_status_patch":    {Patch{}, Patch{Node: "workstation", Base: new(17), Seq: 18, Patch: mergePatch{"seq": 18, "total_power_draw_watts": 398.2}}},
		contract.HighGPUUsage: {contract.Alert{}, contract.Example("alert")},
		contract.AlertEvent:   {contract.Alert{}, contract.Example("alert")},
		"subscribed":          {Filter{}, Filter{GPUs: []any{0}}},
		"error":               {Refusal{}, Refusal{Code: "bad_request", Message: "gpus is not a list", ID: "a"}},
		"subscribe":           {Subscription{}, Subscription{GPUs: []any{0}}},
	}
	types := newSchemas()
	for _, e := range doc.Events {
		example := map[string]any{"event": e.Name}
		if d, ok := carried[e.Name]; ok {
			e.Data, example["data"] = types.SchemaOf(reflect.TypeOf(d.kind)), d.example
		} else if e.Target != nil || e.Args != nil {
			e.Data, example["data"] = types.asked(e)
		} else {
			example["id"] = 7
		}
		if e.Data != nil && !e.Sent && e.Target == nil {
			e.Data = orNull(e.Data)
		}
		e.Example = encoded(example)
	}
	doc.Schemas = types.named
	return &doc
}

// asked is the data of a message that asks for an action, with an example.
func (s *schemas) asked(e *Event) (*Schema, map[string]any) {
	data, example := &Schema{Type: Types{"object"}, Additional: false}, map[string]any{}
	if e.Target != nil {
		target := *e.Target.Schema
		target.Description = e.Target.Description
		*data.Properties.value("target"), example["target"] = &target, e.Target.Example
		data.Required = []string{"target"}
	}
	if e.Args != nil {
		*data.Properties.value("args"), example["args"] = s.SchemaOf(reflect.TypeOf(e.Args)), e.Args
	}
	return data, example
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

// MarshalJSON implements [json.Marshaler].
func (e *Events) MarshalJSON() ([]byte, error) { return fill("asyncapi.json.tmpl", e) }
