package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

// The events that the hub itself sends or reads; all others come through Announce.
const (
	eventStatus      = "gpu_status"
	eventUpdate      = "gpu_status_update"
	eventPatch       = "gpu_status_patch"
	eventError       = "error"
	eventSubscribed  = "subscribed"
	eventRequest     = "request_gpu_update"
	eventSubscribe   = "subscribe"
	eventUnsubscribe = "unsubscribe"
	eventDone        = "done"
	eventPage        = "page"
	eventShow        = "show"
)

// The codes of the error event.
const (
	codeBadJSON      = "bad_json"
	codeUnknownEvent = "unknown_event"
	codeBadRequest   = "bad_request"
	codeRateLimited  = "rate_limited"
	codeUnavailable  = "unavailable"
	codeForbidden    = "forbidden"
)

// maxID is the longest id of a request, in bytes of JSON.
const maxID = 128

// A request is a client's message, parsed.
type request struct {
	event  string
	id     json.RawMessage // a string or number, as received; nil if absent
	filter *filter         // of subscribe and unsubscribe
	page   *page           // of show
	fresh  bool            // of show: from a reading that begins now
	acts   bool            // it asks for an [Act]
	data   json.RawMessage // of that; nil where there is none
}

// A refusal says why a message can't be served, with the error's code.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.message }

// Refuse returns the error of an [Act] that is not done, with the text for the client.
func Refuse(message string) error { return &refusal{codeBadRequest, message} }

// Forbid is like [Refuse], for an [Act] that the principal may not do.
func Forbid(message string) error { return &refusal{codeForbidden, message} }

// codeOf returns the code of an error for the client.
func codeOf(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.code
	}
	if e, ok := errors.AsType[*strictjson.Error](err); ok && e.Kind == strictjson.NotJSON {
		return codeBadJSON
	}
	return codeBadRequest
}

// refused returns the error event. Clients find the id in its data or beside it.
func refused(why error, id json.RawMessage) message {
	text, err := json.Marshal(why.Error())
	if err != nil {
		panic(err) // a string can always be marshaled
	}
	data := fmt.Appendf(nil, `{"code":%q,"message":%s`, codeOf(why), text)
	if id != nil {
		data = fmt.Appendf(data, `,"id":%s`, id)
	}
	return newPacket(eventError, append(data, '}')).reply(eventError, id)
}

// parse parses a client's text message, which may request acts. With an error, which is for the client, the request has the parts that
// could be parsed.
func parse(raw []byte, acts []string) (req request, err error) {
	fields, err := strictjson.Members(raw)
	if err != nil {
		return req, fmt.Errorf("the message %w", err)
	}
	if req.id, err = parseID(fields["id"]); err != nil {
		return req, err
	}
	event, ok := text(fields["event"])
	if !ok {
		return req, errors.New(`the message needs the member "event", a string`)
	}
	req.event, req.acts = event, slices.Contains(acts, event)
	var data map[string]json.RawMessage
	if given := fields["data"]; given != nil && string(given) != "null" {
		if data, err = strictjson.Members(given); err != nil {
			return req, fmt.Errorf("data %w", err)
		}
	}
	switch event {
	case eventSubscribe:
		req.filter, err = parseFilter(data)
	case eventUnsubscribe:
		req.filter = everything
	case eventShow:
		req.page, req.fresh, err = parsePage(data)
	default:
		if req.data = fields["data"]; !req.acts {
			err = unknownEvent(event, acts)
		}
	}
	return req, err
}

func unknownEvent(event string, acts []string) error {
	there := append([]string{eventSubscribe, eventUnsubscribe}, acts...)
	return &refusal{codeUnknownEvent, fmt.Sprintf("clients can't send an event %.64q%s; they can send %s", event, nearest.Hint(event, there), strings.Join(there, ", "))}
}

func parseID(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case raw == nil || string(raw) == "null":
		return nil, nil
	case len(raw) > maxID:
		return nil, fmt.Errorf("id is longer than %d bytes", maxID)
	case raw[0] == '"' || raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9':
		return raw, nil
	default:
		return nil, errors.New("id is neither a string nor a number")
	}
}

// text returns the string in raw.
func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(raw, &s) == nil
}
