package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxID)
	tests := []struct {
		name, raw string
		code      string // of the refusal, or
		event     string
		id        string
		terms     string // of the filter
	}{
		{name: "request", raw: `{"event":"request_gpu_update"}`, event: eventRequest},
		{name: "request with an id", raw: ` {"data":{},"id":7,"event":"request_gpu_update"} `, event: eventRequest, id: `7`},
		{name: "id as it came", raw: `{"event":"request_gpu_update","id": "<\u00e9> "}`, event: eventRequest, id: `"<\u00e9> "`},
		{name: "number as it came", raw: `{"event":"request_gpu_update","id":-1.50e400}`, event: eventRequest, id: `-1.50e400`},
		{name: "null is none", raw: `{"event":"request_gpu_update","id":null,"data":null}`, event: eventRequest},
		{name: "members unknown to us", raw: `{"event":"request_gpu_update","data":{"x":1},"y":[]}`, event: eventRequest},
		{name: "unsubscribe", raw: `{"event":"unsubscribe"}`, event: eventUnsubscribe, terms: `{"events":null,"gpus":null,"nodes":null}`},
		{name: "subscribe to all", raw: `{"event":"subscribe"}`, event: eventSubscribe, terms: `{"events":null,"gpus":null,"nodes":null}`},
		{name: "subscribe", raw: `{"event":"subscribe","data":{"events":["a"],"gpus":[1,"GPU-x",1,0],"nodes":["n","n"]}}`,
			event: eventSubscribe, terms: `{"events":["a"],"gpus":[1,"GPU-x",0],"nodes":["n"]}`},
		{name: "nothing is not everything", raw: `{"event":"subscribe","data":{"events":[],"gpus":[],"nodes":null}}`,
			event: eventSubscribe, terms: `{"events":[],"gpus":[],"nodes":null}`},

		{name: "empty", raw: ``, code: codeBadJSON},
		{name: "no JSON", raw: `hello`, code: codeBadJSON},
		{name: "half", raw: `{"event":"subscribe"`, code: codeBadJSON},
		{name: "trailing data", raw: `{"event":"unsubscribe"}{"event":"unsubscribe"}`, code: codeBadJSON},
		{name: "trailing letter", raw: `{"event":"unsubscribe"}x`, code: codeBadJSON},
		{name: "not UTF-8", raw: "{\"event\":\"\xff\"}", code: codeBadJSON},
		{name: "deep", raw: strings.Repeat("[", 12_000) + strings.Repeat("]", 12_000), code: codeBadJSON},

		{name: "a list", raw: `[]`, code: codeBadRequest},
		{name: "null", raw: `null`, code: codeBadRequest},
		{name: "no event", raw: `{}`, code: codeBadRequest},
		{name: "event in capitals", raw: `{"EVENT":"unsubscribe"}`, code: codeBadRequest},
		{name: "event a number", raw: `{"event":1,"id":1}`, code: codeBadRequest, id: `1`},
		{name: "event null", raw: `{"event":null}`, code: codeBadRequest},
		{name: "event twice", raw: `{"event":"unsubscribe","event":"subscribe"}`, code: codeBadRequest},
		{name: "event twice, once escaped", raw: `{"event":"unsubscribe","\u0065vent":"subscribe"}`, code: codeBadRequest},
		{name: "gpus twice", raw: `{"event":"subscribe","data":{"gpus":[0],"gpus":[1]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "id an object", raw: `{"event":"unsubscribe","id":{}}`, code: codeBadRequest},
		{name: "id true", raw: `{"event":"unsubscribe","id":true}`, code: codeBadRequest},
		{name: "id too long", raw: `{"event":"unsubscribe","id":"` + long + `"}`, code: codeBadRequest},
		{name: "data a list", raw: `{"event":"request_gpu_update","data":[]}`, code: codeBadRequest, event: eventRequest},
		{name: "data a string", raw: `{"event":"unsubscribe","data":"all"}`, code: codeBadRequest, event: eventUnsubscribe},
		{name: "gpus a number", raw: `{"event":"subscribe","data":{"gpus":0}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "negative index", raw: `{"event":"subscribe","data":{"gpus":[-1]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "fractional index", raw: `{"event":"subscribe","data":{"gpus":[1.5]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "huge index", raw: `{"event":"subscribe","data":{"gpus":[99999999999999999999]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "null among gpus", raw: `{"event":"subscribe","data":{"gpus":[null]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "list among gpus", raw: `{"event":"subscribe","data":{"gpus":[[0]]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "empty UUID", raw: `{"event":"subscribe","data":{"gpus":[""]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "null among events", raw: `{"event":"subscribe","data":{"events":[null]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "number among nodes", raw: `{"event":"subscribe","data":{"nodes":[1]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "long node", raw: `{"event":"subscribe","data":{"nodes":["` + strings.Repeat("n", maxEntryBytes+1) + `"]}}`, code: codeBadRequest, event: eventSubscribe},
		{name: "too many", raw: `{"event":"subscribe","data":{"gpus":[0` + strings.Repeat(",0", maxEntries) + `]}}`, code: codeBadRequest, event: eventSubscribe},

		{name: "unknown", raw: `{"event":"reboot","id":"r"}`, code: codeUnknownEvent, event: "reboot", id: `"r"`},
		{name: "empty name", raw: `{"event":""}`, code: codeUnknownEvent},
		{name: "one of the server's", raw: `{"event":"gpu_status_update"}`, code: codeUnknownEvent, event: eventUpdate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := parse([]byte(tt.raw), []string{eventRequest})
			var code, terms string
			if err != nil {
				code = codeOf(err)
				if err.Error() == "" || len(err.Error()) > 300 {
					t.Errorf("the message is %q", err)
				}
			}
			if req.filter != nil {
				terms = string(req.filter.terms)
			}
			if code != tt.code || req.event != tt.event || string(req.id) != tt.id || terms != tt.terms {
				t.Errorf("parse: code %q, event %q, id %s, filter %s", code, req.event, req.id, terms)
			}
		})
	}
}

func TestFilterPasses(t *testing.T) {
	tests := []struct {
		terms string
		event Event
		want  bool
	}{
		{`{}`, Event{Name: "a", Node: "n", UUID: "u", Index: 3}, true},
		{`{"events":["a"]}`, Event{Name: "a"}, true},
		{`{"events":["b"]}`, Event{Name: "a"}, false},
		{`{"events":[]}`, Event{Name: "a"}, false},
		{`{"gpus":[3]}`, Event{UUID: "u", Index: 3}, true},
		{`{"gpus":[0]}`, Event{UUID: "u", Index: 3}, false},
		{`{"gpus":["u"]}`, Event{UUID: "u", Index: 3}, true},
		{`{"gpus":["U"]}`, Event{UUID: "u", Index: 3}, false},
		{`{"gpus":[0,"u"]}`, Event{UUID: "u", Index: 3}, true},
		{`{"gpus":[]}`, Event{UUID: "u"}, false},
		{`{"gpus":[]}`, Event{}, true}, // about no device
		{`{"nodes":["n"]}`, Event{Node: "n", UUID: "u"}, true},
		{`{"nodes":["m"]}`, Event{Node: "n", UUID: "u"}, false},
		{`{"nodes":["m"]}`, Event{}, true}, // about no node
		{`{"nodes":["n"],"gpus":[3]}`, Event{Node: "n", UUID: "u", Index: 4}, false},
		{`{"nodes":["m"],"gpus":[3]}`, Event{Node: "n", UUID: "u", Index: 3}, false},
	}
	for _, tt := range tests {
		f, err := parse([]byte(`{"event":"subscribe","data":`+tt.terms+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.filter.wants(&tt.event); got != tt.want {
			t.Errorf("%s wants %+v: %t", tt.terms, tt.event, got)
		}
	}
}

// Filters that keep the same devices of a frame have the same part, however they are written.
func TestParts(t *testing.T) {
	h := newTestHub(t)
	h.Publish(devices(1, "a", "b", "c", "d", "e", "f", "g", "h", "i"))
	partOf := func(terms filterTerms) part { return h.latest("n").part(newFilter(terms)) }
	same := func(a, b filterTerms, want bool) {
		t.Helper()
		if got := partOf(a) == partOf(b); got != want {
			t.Errorf("%+v and %+v: the same part is %t", a, b, got)
		}
	}
	same(filterTerms{}, filterTerms{Events: []string{"a"}}, true)
	same(filterTerms{}, filterTerms{Nodes: []string{"n", "m"}}, true)
	same(filterTerms{GPUs: []any{1, "a", 8}}, filterTerms{GPUs: []any{"i", "nowhere", 0, 1}}, true)
	same(filterTerms{GPUs: []any{8}}, filterTerms{GPUs: []any{0}}, false)
	same(filterTerms{GPUs: []any{}}, filterTerms{}, false)
	same(filterTerms{GPUs: []any{}}, filterTerms{Nodes: []string{"m"}}, true)
	same(filterTerms{GPUs: []any{1}}, filterTerms{GPUs: []any{"1"}}, false)
}

func TestLimits(t *testing.T) {
	now := time.Unix(0, 0)
	limits := newLimits()
	for _, step := range []struct {
		event                  string
		after                  time.Duration
		sent                   int
		served, limited, storm int
	}{
		{eventRequest, 0, 7, 5, 2, 0},
		{eventSubscribe, 0, 60, 50, 10, 0},
		{eventRequest, 400 * time.Millisecond, 1, 0, 1, 0},
		{eventRequest, 200 * time.Millisecond, 2, 1, 1, 0},
		{eventSubscribe, time.Second, 25, 25, 0, 0},
		{eventRequest, time.Hour, 506, 5, 500, 1},
	} {
		now = now.Add(step.after)
		served, limited, storm := 0, 0, 0
		for range step.sent {
			switch ok, tolerated := limits.judge(&request{event: step.event, acts: step.event == eventRequest}, now); {
			case ok:
				served++
			case tolerated:
				limited++
			default:
				storm++
			}
		}
		if served != step.served || limited != step.limited || storm != step.storm {
			t.Errorf("%v later, of %d × %s: %d, %d, %d, want %+v", step.after, step.sent, step.event, served, limited, storm, step)
		}
	}
}

// A filter may only name events that gpuwhy sends: another name would only silence the client.
func TestSubscribeToAnEventThatThereIsNot(t *testing.T) {
	h := newTestHub(t)
	h.cfg.Events = []string{"alert"}
	for name, known := range map[string]bool{"alert": true, eventUpdate: true, "alarm": false, eventStatus: false} {
		v := newViewer(h, auth.LocalOwner(), "")
		v.mail.start(h.now.Load(), nil)
		v.handle(websocket.MessageText, fmt.Appendf(nil, `{"event":"subscribe","id":1,"data":{"events":[%q]}}`, name), time.Now())
		msg, _ := v.mail.next(h.now.Load())
		text := body(t, msg)
		if strings.Contains(text, `"subscribed"`) != known || !known && (!strings.Contains(text, `"unknown_event"`) || !strings.Contains(text, "gpu_status_update, alert")) {
			t.Errorf("%s: %s", name, text)
		}
		if inForce := string(v.mail.inForce().terms); !known && inForce != string(everything.terms) {
			t.Errorf("%s: the filter in force is %s", name, inForce)
		}
		v.cancel()
	}
}

// FuzzClientMessage sends one message to a viewer with a filter in force. Whatever the message, there is exactly one reply, which is valid
// JSON, carries the id if there is one, and says what is in force after it.
func FuzzClientMessage(f *testing.F) {
	for _, seed := range []string{
		`{"event":"request_gpu_update","id":7}`, `{"event":"subscribe","data":{"gpus":[0,"GPU-1"]},"id":"a"}`,
		`{"event":"unsubscribe","data":null}`, `{"event":"subscribe","data":{"events":["x"],"nodes":["n"]}}`,
		`{"event":"subscribe","data":{"gpus":"all"}}`, `{"event":"x","id":[]}`, `{"event":"x"}{}`, `nul`, "\xff", `{"id":1e999}`,
	} {
		f.Add([]byte(seed), true)
	}
	f.Add([]byte{0, 1, 2}, false)

	var h *Hub
	h = newTestHub(f, Act{eventRequest, func(context.Context, *Ask) (Reply, error) {
		h.Hold(devices(2, "GPU-0", "GPU-1"))
		return Reply{Read: []string{"n"}}, nil
	}})
	h.Publish(devices(1, "GPU-0", "GPU-1"))
	before := newFilter(filterTerms{GPUs: []any{1}})

	f.Fuzz(func(t *testing.T, raw []byte, isText bool) {
		v := newViewer(h, auth.LocalOwner(), "")
		defer v.cancel()
		v.mail.start(h.now.Load(), nil)
		v.mail.filter = before
		kind := websocket.MessageText
		if !isText {
			kind = websocket.MessageBinary
		}
		v.handle(kind, raw, time.Now())
		h.gone.Wait() // for a reading on demand

		msg, ok := v.mail.next(h.now.Load())
		if !ok {
			t.Fatal("no reply")
		}
		if again, ok := v.mail.next(h.now.Load()); ok {
			t.Fatalf("a second reply: %s", body(t, again))
		}
		var reply struct {
			Event string
			ID    json.RawMessage
			Data  json.RawMessage
		}
		if err := json.Unmarshal([]byte(body(t, msg)), &reply); err != nil {
			t.Fatal(err)
		}
		inForce := string(v.mail.inForce().terms)
		switch reply.Event {
		case eventError:
			var data struct {
				Code, Message string
				ID            json.RawMessage
			}
			if err := json.Unmarshal(reply.Data, &data); err != nil || data.Code == "" || data.Message == "" {
				t.Errorf("error data %s", reply.Data)
			}
			if string(data.ID) != string(reply.ID) {
				t.Errorf("two ids: %s and %s", data.ID, reply.ID)
			}
			if inForce != string(before.terms) {
				t.Errorf("a refused message changed the filter to %s", inForce)
			}
		case eventSubscribed:
			if inForce != string(reply.Data) {
				t.Errorf("in force is %s, the reply says %s", inForce, reply.Data)
			}
		case eventUpdate:
			if want := `{"gpus":["GPU-1"],"seq":2}`; string(reply.Data) != want {
				t.Errorf("the reading is %s, want %s", reply.Data, want)
			}
		default:
			t.Errorf("the reply is a %s", reply.Event)
		}
		var sent map[string]json.RawMessage
		if reply.Event != eventError && json.Unmarshal(raw, &sent) == nil &&
			string(sent["id"]) != "null" && string(sent["id"]) != string(reply.ID) {
			t.Errorf("id %s came back as %s", sent["id"], reply.ID)
		}
	})
}
