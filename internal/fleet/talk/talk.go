// Package talk has what agents and hubs of a fleet say to each other beside the state of a node: questions and their
// answers, events, and sections of the state. Fields are only ever added; what is not known is ignored.
package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
)

// The sections of a node's state, beside its Moment.
const (
	Alerts = "alerts" // an [alert.Report]
	Ended  = "ended"  // the program that reads the node has ended: true
)

// What a hub can ask a node.
const (
	Refresh = "refresh" // a reading that begins now
	Whole   = "whole"   // to publish the whole state
	Recent  = "recent"  // the recent past
	Alert   = "alert"   // to carry out an order about its alerts
)

// Deadline bounds an answer; it is longer than devices have to answer by default.
const Deadline = 4 * time.Second

// LongestQuestion is how many bytes a question has at most.
const LongestQuestion = 1 << 20

// A Question is what a hub asks a node.
type Question struct {
	Ask   string       `json:"ask"`
	Order *alert.Order `json:"order,omitempty"`
}

// A Reply is the answer to a [Question].
type Reply struct {
	Error   string          `json:"error,omitempty"` // a sentence; empty where it was done
	Code    string          `json:"code,omitempty"`  // which error of package alert it is; empty for others
	Field   string          `json:"field,omitempty"` // of an [alert.Invalid]
	State   []byte          `json:"state,omitempty"` // a message of package wire
	Recent  json.RawMessage `json:"recent,omitempty"`
	Outcome json.RawMessage `json:"outcome,omitempty"` // an [alert.Outcome]
}

var codes = map[string]error{"unknown": alert.ErrUnknown, "reported": alert.ErrReported, "too_many": alert.ErrTooMany}

const invalid = "invalid"

// Failed is the reply that says an error.
func Failed(err error) Reply {
	r := Reply{Error: err.Error()}
	if bad, ok := errors.AsType[*alert.Invalid](err); ok {
		r.Code, r.Field, r.Error = invalid, bad.Field, bad.What
	}
	for code, of := range codes {
		if errors.Is(err, of) {
			r.Code = code
		}
	}
	return r
}

// Err is the error of a reply; nil where it was done.
func (r *Reply) Err() error {
	switch known := codes[r.Code]; {
	case r.Error == "":
		return nil
	case known != nil:
		return known
	case r.Code == invalid:
		return &alert.Invalid{Field: r.Field, What: r.Error}
	default:
		return errors.New(r.Error)
	}
}

// A Hub is what a hub says of itself.
type Hub struct {
	Version  string        `json:"version"`
	Protocol wire.Protocol `json:"protocol"`
	Run      string        `json:"run,omitempty"` // random, of one run of the hub; empty of an earlier version
	// Silent says when machines were read last of which the hub hears nothing now, by node.
	Silent map[string]time.Time `json:"silent,omitempty"`
}

// An event is a change of an alert, in a message of the stream of events.
type event struct {
	Version string          `json:"version"` // of the program that sends it
	Change  json.RawMessage `json:"change"`
}

// room is how much memory the values of a message may take, in bytes.
const room = 16 << 20

func read[T any](text []byte) (v T, err error) {
	return v, gpu.ReadRecord(&gpu.RecordReader{Room: room}, text, &v)
}

// MarshalEvent writes a change of an alert, for [UnmarshalEvent].
func MarshalEvent(version string, c *alert.Change) ([]byte, error) {
	text, err := gpu.AppendRecord(nil, c)
	if err != nil {
		return nil, fmt.Errorf("a change of an alert can't be written: %w", err)
	}
	return json.Marshal(event{version, text})
}

// UnmarshalEvent reads what [MarshalEvent] wrote.
func UnmarshalEvent(text []byte) (c alert.Change, err error) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		return c, fmt.Errorf("an event can't be read: %w", err)
	}
	return read[alert.Change](e.Change)
}

// MarshalReport writes a report, for [UnmarshalReport].
func MarshalReport(r *alert.Report) ([]byte, error) { return gpu.AppendRecord(nil, r) }

// UnmarshalReport reads what [MarshalReport] wrote.
func UnmarshalReport(text []byte) (alert.Report, error) { return read[alert.Report](text) }

// MarshalOutcome writes an outcome, for [UnmarshalOutcome].
func MarshalOutcome(o *alert.Outcome) ([]byte, error) { return gpu.AppendRecord(nil, o) }

// UnmarshalOutcome reads what [MarshalOutcome] wrote.
func UnmarshalOutcome(text []byte) (alert.Outcome, error) { return read[alert.Outcome](text) }
