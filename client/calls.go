package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Call is one thing that gpuwhy is asked. A is the answer.
type Call[A any] struct {
	Request
	early func(*A) bool // whether there will be a better answer soon
	valid func(*A) bool // whether it is one of gpuwhy's; nil: it is, if it can be decoded
}

var errIncomplete = errors.New("the answer lacks what each has")

// Decode decodes an answer that [Client.Copy] has written.
func (c Call[A]) Decode(text []byte) (*A, error) {
	answer := new(A)
	if _, none := any(answer).(*Nothing); none {
		return answer, nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, err
	}
	if c.valid != nil && !c.valid(answer) {
		return nil, errIncomplete
	}
	return answer, nil
}

// Nothing is the answer where there is none.
type Nothing struct{}

func get[A any](path string, query url.Values) Call[A] {
	return Call[A]{Request: Request{Path: path, Query: query}}
}

func change[A any](method, path string, body any) Call[A] {
	return Call[A]{Request: Request{Method: method, Path: path, Body: body}}
}

// given are parameters by name and value, without those that are empty.
func given(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// listed adds a list, if there is one: gpuwhy refuses an empty value in it, which would narrow nothing.
func listed(query url.Values, name string, values []string) url.Values {
	if len(values) > 0 {
		query[name] = values
	}
	return query
}

func segment(text string) string { return "/" + url.PathEscape(text) }

// The functions below are called as the operations of the API's document, /openapi.json. What is so now comes first: a GPU
// is named by its UUID, or by its index where there is one node.

// GetSummary requests totals of the newest snapshot, and why the fans run.
func GetSummary() Call[Summary] { return get[Summary]("/api/gpu/summary", nil) }

// GetSnapshot requests the newest snapshot of one node, or of all nodes if the name is empty.
func GetSnapshot(node string) Call[Update] {
	return get[Update]("/api/gpu/metrics", given("node", node))
}

// GetDevice requests one GPU of the newest snapshot.
func GetDevice(gpu string) Call[OneGPU] { return get[OneGPU]("/api/gpu/metrics"+segment(gpu), nil) }

// GetRecent requests the last 15 minutes of some GPUs, or of all if none is named.
func GetRecent(gpus ...string) Call[Recent] {
	return get[Recent]("/api/gpu/recent", listed(given(), "gpu", gpus))
}

// GetWhy requests the reasons why the fans run.
func GetWhy() Call[Why] {
	call := get[Why]("/api/gpu/why", nil)
	call.valid = func(w *Why) bool { return w.Why != "" }
	call.early = func(w *Why) bool { return starting(w.Causes) }
	return call
}

// GetWhyOfOne requests the reasons why one GPU's fan runs.
func GetWhyOfOne(gpu string) Call[OneWhy] {
	call := get[OneWhy]("/api/gpu/why"+segment(gpu), nil)
	call.valid = func(w *OneWhy) bool { return w.Why != "" }
	call.early = func(w *OneWhy) bool { return starting(w.Causes) }
	return call
}

// starting reports whether the answer is that the first reading is under way.
func starting(causes []Cause) bool {
	return len(causes) == 1 && explain.Kind(causes[0].Kind) == explain.Starting
}

// GetMonitorHealth asks how each part of gpuwhy does.
func GetMonitorHealth() Call[MonitorHealth] { return get[MonitorHealth]("/api/health", nil) }

// A Span is a time, and what of the past is asked about. Each part may be empty.
type Span struct {
	// From is when it begins, or a span in words, such as "last night"; the last 24 hours without it. To is when it ends; now
	// without it. Both are RFC 3339, seconds since 1970, or words such as "yesterday at 22:00".
	From, To string
	TimeZone string   // in which words are understood, such as Europe/Berlin; that of the server without it
	GPU      []string // by index, UUID or name; all without it
	Node     string   // one machine; all without it
}

func (s Span) query(pairs ...string) url.Values {
	return listed(given(append([]string{"from", s.From, "to", s.To, "tz", s.TimeZone, "node", s.Node}, pairs...)...), "gpu", s.GPU)
}

// GetPastWhy asks what went on in a span of time, and why. It is getWhy with a span.
func GetPastWhy(s Span) Call[PastWhy] { return get[PastWhy]("/api/gpu/why", s.query()) }

// GetHistory asks for readings over time, at points that are a step apart, such as 5m. Without metrics they are those of charts;
// without a step gpuwhy chooses it.
func GetHistory(s Span, step string, metrics ...string) Call[History] {
	return get[History]("/api/gpu/history", listed(s.query("step", step), "metric", metrics))
}

// ListReadings asks for readings as they are kept, in a tier: raw, 1m, 15m or 6h; empty: the finest that there is for all of the
// time. Without metrics they are all of GPUs.
func ListReadings(s Span, tier string, metrics ...string) Call[PastReadings] {
	return get[PastReadings]("/api/gpu/readings", listed(s.query("tier", tier), "metric", metrics))
}

// ListSessions requests the processes that used GPUs: one user's, or everybody's if the name is empty.
func ListSessions(s Span, user string) Call[PastSessions] {
	return get[PastSessions]("/api/gpu/sessions", s.query("user", user))
}

// GetUsage requests who used GPUs, and for how long, summed by user, process, job, pod, container, unit, gpu, node or cluster; empty: user.
func GetUsage(s Span, by, user string) Call[PastUsage] {
	return get[PastUsage]("/api/gpu/usage", s.query("by", by, "user", user))
}

// ListCauses asks what the answer was, from when to when.
func ListCauses(s Span) Call[PastCauses] { return get[PastCauses]("/api/gpu/causes", s.query()) }

// ListEvents requests events of some kinds, such as xid, or of all kinds if none is named.
func ListEvents(s Span, kinds ...string) Call[PastEvents] {
	return get[PastEvents]("/api/events", listed(s.query(), "kind", kinds))
}

// GetAt asks for one machine as it was at a time, in the words of [Span]. The node may be empty where there is one.
func GetAt(when, timeZone, node string) Call[PastMoment] {
	return get[PastMoment]("/api/gpu/at", given("time", when, "tz", timeZone, "node", node))
}

// GetForecast requests forecasts for some GPUs, or for all if none is named.
func GetForecast(gpus ...string) Call[Forecasts] {
	return get[Forecasts]("/api/gpu/forecast", listed(given(), "gpu", gpus))
}

// GetHistorySize asks how much is kept.
func GetHistorySize() Call[PastSize] { return get[PastSize]("/api/gpu/history/size", nil) }

// GetAlerts asks what fires, what did, and what is silenced.
func GetAlerts() Call[Alerts] { return get[Alerts]("/api/alerts", nil) }

// GetAlertRules asks when alerts fire.
func GetAlertRules() Call[AlertRules] { return get[AlertRules]("/api/alert-rules", nil) }

// GetSilences asks which silences are in force.
func GetSilences() Call[Silences] { return get[Silences]("/api/silences", nil) }

// AcknowledgeAlert says that somebody knows of an alert, named by its alert_id, with a comment or none.
func AcknowledgeAlert(alert, comment string) Call[Alert] {
	return change[Alert](http.MethodPost, "/api/alerts"+segment(alert)+"/acknowledge", Note{Comment: comment})
}

// WithdrawAcknowledgment takes that back.
func WithdrawAcknowledgment(alert string) Call[Alert] {
	return change[Alert](http.MethodDelete, "/api/alerts"+segment(alert)+"/acknowledge", nil)
}

// DismissAlert ends an alert in the state no_data, which nothing else can end.
func DismissAlert(alert string) Call[Alert] {
	return change[Alert](http.MethodDelete, "/api/alerts"+segment(alert), nil)
}

// SilenceAlert keeps one alert from being told for a while, from a second to 366 days.
func SilenceAlert(alert, comment string, d time.Duration) Call[Silence] {
	return change[Silence](http.MethodPost, "/api/alerts"+segment(alert)+"/silence", SilenceSpan{Comment: comment, Duration: d.Seconds()})
}

// SilenceAlerts keeps alerts from being told for a while: all that match the patterns of the request.
func SilenceAlerts(r SilenceRequest) Call[Silence] {
	return change[Silence](http.MethodPost, "/api/silences", r)
}

// EndSilence ends a silence, identified by its silence_id.
func EndSilence(silence string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/silences"+segment(silence), nil)
}
