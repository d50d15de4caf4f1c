// Package talk defines what agents and hubs send each other besides the state of a node. These are answers to questions (the
// questions are in package action), events, and sections of the state. Fields are only ever added; unknown fields are ignored.
package talk

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/fleet/wire"
)

// The sections of a node's state, in addition to its Moment.
const (
	Alerts = "alerts" // an [alert.Report]
	Ended  = "ended"  // the program that reads the node has ended: true
)

// Questions that a hub asks a node, besides actions.
const (
	Whole  = "whole"  // to publish the whole state
	Recent = "recent" // the recent past
)

// Self is the principal of a hub that asks on its own behalf.
var Self = auth.Principal{Name: "a hub", Access: auth.Read, Audience: auth.Everything, Way: auth.Hub}

// earlier has the principals for questions from hubs of earlier versions, which don't name the asker. NATS lets only hubs ask. Such a hub
// allowed its viewers exactly that; what it does not sign, a node of this version refuses unless it only reads.
var earlier = map[string]auth.Principal{
	"refresh": Self, Whole: Self, Recent: Self, "alert": {Name: "a hub", Access: auth.Operate, Audience: auth.Everything, Way: auth.Hub},
}

// Asker returns the principal behind a question. A question that names none has none, unless it is from an earlier version.
func Asker(q *action.Question) auth.Principal {
	if q.Asker != nil {
		return *q.Asker
	}
	return earlier[q.Ask]
}

// Deadline bounds an answer; it is longer than the default deadline of devices.
const Deadline = 4 * time.Second

// LongestQuestion is how many bytes a question may have.
const LongestQuestion = 1 << 20

// A Reply is the answer to an [action.Question].
type Reply struct {
	Error   string          `json:"error,omitempty"` // a sentence; empty where it was done
	Code    string          `json:"code,omitempty"`  // of an [action.Refusal]; empty for other errors
	Field   string          `json:"field,omitempty"` // of that
	Try     string          `json:"try,omitempty"`   // of that: what to do; empty from earlier versions
	State   []byte          `json:"state,omitempty"` // a message of package wire, where a Moment is what became of it
	Recent  json.RawMessage `json:"recent,omitempty"`
	Outcome json.RawMessage `json:"outcome,omitempty"` // what else became of it
}

// Failed returns a reply that reports an error.
func Failed(err error) Reply {
	if r, ok := errors.AsType[*action.Refusal](err); ok {
		return Reply{Error: r.What, Code: r.Code, Field: r.Field, Try: r.Try}
	}
	return Reply{Error: err.Error()}
}

// Err returns the error of a reply; nil if the action was done. An [action.Refusal] keeps only what the reply has of it.
func (r *Reply) Err() error {
	switch {
	case r.Error == "":
		return nil
	case r.Code != "":
		return &action.Refusal{Code: r.Code, Field: r.Field, What: r.Error, Try: r.Try}
	default:
		return errors.New(r.Error)
	}
}

// A Hub is what a hub announces about itself.
type Hub struct {
	Version  string        `json:"version"`
	Protocol wire.Protocol `json:"protocol"`
	Run      string        `json:"run,omitempty"` // random, of one run of the hub; empty of an earlier version
	// Silent has, by node, when machines that are silent for this hub were last read.
	Silent map[string]time.Time `json:"silent,omitempty"`
	// Name and Key tell hubs apart: with Key nodes check what the hub signs. Empty of an earlier version, and of a hub without a key.
	Name string            `json:"name,omitempty"`
	Key  ed25519.PublicKey `json:"key,omitempty"`
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
		return nil, fmt.Errorf("can't encode a change of an alert: %w", err)
	}
	return json.Marshal(event{version, text})
}

// UnmarshalEvent reads what [MarshalEvent] wrote.
func UnmarshalEvent(text []byte) (c alert.Change, err error) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		return c, fmt.Errorf("can't read an event: %w", err)
	}
	return read[alert.Change](e.Change)
}

// MarshalReport writes a report, for [UnmarshalReport].
func MarshalReport(r *alert.Report) ([]byte, error) { return gpu.AppendRecord(nil, r) }

// UnmarshalReport reads what [MarshalReport] wrote.
func UnmarshalReport(text []byte) (alert.Report, error) { return read[alert.Report](text) }
