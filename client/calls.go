package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// A Call is one request to gpuwhy. A is the type of its answer.
type Call[A any] struct {
	Request
	early func(*A) bool // whether a better answer will be available soon
	valid func(*A) bool // whether it is gpuwhy's answer; nil: it is, if it can be decoded
}

var errIncomplete = errors.New("the answer lacks what every answer has")

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

// Nothing is the answer of calls without one.
type Nothing struct{}

func get[A any](path string, query url.Values) Call[A] {
	return Call[A]{Request: Request{Path: path, Query: query}}
}

func change[A any](method, path string, body any) Call[A] {
	return Call[A]{Request: Request{Method: method, Path: path, Body: body}}
}

// given are parameters by name and value, without empty ones.
func given(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// listed adds a list, if it is not empty. gpuwhy refuses empty values, because they would narrow
// nothing.
func listed(query url.Values, name string, values []string) url.Values {
	if len(values) > 0 {
		query[name] = values
	}
	return query
}

func segment(text string) string { return "/" + url.PathEscape(text) }

// The functions below have the names of the operations in the API's document, /openapi.json. Those about the present come
// first. A GPU is named by its UUID, or by its index if there is only one node.

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

// starting reports whether the answer says that the first reading is in progress.
func starting(causes []Cause) bool {
	return len(causes) == 1 && explain.Kind(causes[0].Kind) == explain.Starting
}

// GetMonitorHealth asks for the state of each part of gpuwhy.
func GetMonitorHealth() Call[MonitorHealth] { return get[MonitorHealth]("/api/health", nil) }

// A Span is a time span and what to ask about in it. Each part may be empty.
type Span struct {
	// From is when it begins, or a span in words, such as "last night"; empty: the last 24 hours. To is when it ends;
	// empty: now. Both are RFC 3339, seconds since 1970, or words such as "yesterday at 22:00".
	From, To string
	TimeZone string   // time zone of words, such as Europe/Berlin; empty: the server's
	GPU      []string // by index, UUID or name; empty: all
	Node     string   // one machine; empty: all
}

func (s Span) query(pairs ...string) url.Values {
	return listed(given(append([]string{"from", s.From, "to", s.To, "tz", s.TimeZone, "node", s.Node}, pairs...)...), "gpu", s.GPU)
}

// GetPastWhy asks what happened in a time span, and why. It is getWhy with a span.
func GetPastWhy(s Span) Call[PastWhy] { return get[PastWhy]("/api/gpu/why", s.query()) }

// GetHistory asks for readings over time, at points that are a step apart, such as 5m. Without metrics it returns those of
// charts; without a step gpuwhy chooses one.
func GetHistory(s Span, step string, metrics ...string) Call[History] {
	return get[History]("/api/gpu/history", listed(s.query("step", step), "metric", metrics))
}

// ListReadings asks for stored readings in a tier: raw, 1m, 15m or 6h; empty: the finest that covers the whole time. Without
// metrics it returns all GPU metrics.
func ListReadings(s Span, tier string, metrics ...string) Call[PastReadings] {
	return get[PastReadings]("/api/gpu/readings", listed(s.query("tier", tier), "metric", metrics))
}

// ListSessions requests the processes that used GPUs: one user's, or everybody's if the name is empty.
func ListSessions(s Span, user string) Call[PastSessions] {
	return get[PastSessions]("/api/gpu/sessions", s.query("user", user))
}

// GetUsage requests who used GPUs, and for how long, summed by user, process, job, pod, container, unit, gpu, node or cluster; empty: user.
func GetUsage(s Span, grouping, user string) Call[PastUsage] {
	return get[PastUsage]("/api/gpu/usage", s.query("by", grouping, "user", user))
}

// ListCauses asks for past causes and their times.
func ListCauses(s Span) Call[PastCauses] { return get[PastCauses]("/api/gpu/causes", s.query()) }

// ListEvents requests events of some kinds, such as xid, or of all kinds if none is named.
func ListEvents(s Span, kinds ...string) Call[PastEvents] {
	return get[PastEvents]("/api/events", listed(s.query(), "kind", kinds))
}

// GetAt asks for one machine as it was at a time, in the words of [Span]. The node may be empty if there is only
// one.
func GetAt(when, timeZone, node string) Call[PastMoment] {
	return get[PastMoment]("/api/gpu/at", given("time", when, "tz", timeZone, "node", node))
}

// GetForecast requests forecasts for some GPUs, or for all if none is named.
func GetForecast(gpus ...string) Call[Forecasts] {
	return get[Forecasts]("/api/gpu/forecast", listed(given(), "gpu", gpus))
}

// GetHistorySize asks for the size of the stored history.
func GetHistorySize() Call[PastSize] { return get[PastSize]("/api/gpu/history/size", nil) }

// GetAlerts asks for open and past alerts, and silences.
func GetAlerts() Call[Alerts] { return get[Alerts]("/api/alerts", nil) }

// GetAlertRules asks for the alert rules.
func GetAlertRules() Call[AlertRules] { return get[AlertRules]("/api/alert-rules", nil) }

// GetSilences asks for the active silences.
func GetSilences() Call[Silences] { return get[Silences]("/api/silences", nil) }

// AcknowledgeAlert acknowledges an alert, named by its alert_id, with an optional comment.
func AcknowledgeAlert(alert, comment string) Call[Alert] {
	return change[Alert](http.MethodPost, "/api/alerts"+segment(alert)+"/acknowledge", Note{Comment: comment})
}

// WithdrawAcknowledgment withdraws the acknowledgment.
func WithdrawAcknowledgment(alert string) Call[Alert] {
	return change[Alert](http.MethodDelete, "/api/alerts"+segment(alert)+"/acknowledge", nil)
}

// DismissAlert ends an alert in the state no_data, which nothing else can end.
func DismissAlert(alert string) Call[Alert] {
	return change[Alert](http.MethodDelete, "/api/alerts"+segment(alert), nil)
}

// SilenceAlert silences one alert for a second up to 366 days.
func SilenceAlert(alert, comment string, d time.Duration) Call[Silence] {
	return change[Silence](http.MethodPost, "/api/alerts"+segment(alert)+"/silence", SilenceSpan{Comment: comment, Duration: d.Seconds()})
}

// SilenceAlerts silences all alerts that match the request's patterns.
func SilenceAlerts(r SilenceRequest) Call[Silence] {
	return change[Silence](http.MethodPost, "/api/silences", r)
}

// EndSilence ends a silence, identified by its silence_id.
func EndSilence(silence string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/silences"+segment(silence), nil)
}

// TestTarget sends a test message to a target, named as in the alert rules file.
func TestTarget(target string) Call[Nothing] {
	return change[Nothing](http.MethodPost, "/api/targets"+segment(target)+"/test", nil)
}

// GetAccount asks who gpuwhy takes this client for, and what it may do.
func GetAccount() Call[Account] { return get[Account]("/api/account", nil) }

// An AuditQuery selects entries of the audit. The zero value selects the newest.
type AuditQuery struct {
	Who, Action, Target, Node string // exactly
	Result                    string // "begun", "done", "refused" or "failed"
	From, To                  string // as in [Span]; empty: all entries
	Before                    int64  // only entries with a smaller number: Next of the previous answer; 0: all
}

// ListAudit asks who did what, the newest first, a hundred at a time.
func ListAudit(q AuditQuery) Call[Audit] {
	before := ""
	if q.Before > 0 {
		before = strconv.FormatInt(q.Before, 10)
	}
	return get[Audit]("/api/audit", given("who", q.Who, "action", q.Action, "target", q.Target, "node", q.Node, "result", q.Result, "from", q.From, "to", q.To, "before", before))
}

// CheckAudit asks whether nobody has changed an entry of the audit in the database.
func CheckAudit() Call[AuditCheck] { return get[AuditCheck]("/api/audit/check", nil) }

// ListUsers asks for the accounts. It needs a token that may administer, as do the calls below about others.
func ListUsers() Call[Users] { return get[Users]("/api/users", nil) }

// AddUser adds an account. Without a password, the answer has a link with which they choose one.
func AddUser(r UserRequest) Call[AddedUser] {
	return change[AddedUser](http.MethodPost, "/api/users", r)
}

// ChangeUser changes an account, named by its name. What is nil stays as it is.
func ChangeUser(name string, c UserChange) Call[User] {
	return change[User](http.MethodPost, "/api/users"+segment(name), c)
}

// RemoveUser removes an account with its sessions and its tokens.
func RemoveUser(name string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/users"+segment(name), nil)
}

// ResetUser makes a link with which somebody chooses a new password.
func ResetUser(name string) Call[AddedUser] {
	return change[AddedUser](http.MethodPost, "/api/users"+segment(name)+"/reset", nil)
}

// ListTokens asks for the API tokens, without their values: all, or those of one's own account.
func ListTokens() Call[Tokens] { return get[Tokens]("/api/tokens", nil) }

// AddToken makes an API token. Nothing shows its value again.
func AddToken(r TokenRequest) Call[AddedToken] {
	return change[AddedToken](http.MethodPost, "/api/tokens", r)
}

// ShowCommands shows the command lines of all people's processes to the caller for an hour, with a token that may administer.
func ShowCommands() Call[ShownCommands] {
	return change[ShownCommands](http.MethodPost, "/api/commands/show", nil)
}

// HideCommands ends that at once.
func HideCommands() Call[Nothing] {
	return change[Nothing](http.MethodPost, "/api/commands/hide", nil)
}

// RemoveToken removes an API token, identified by its token_id.
func RemoveToken(token string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/tokens"+segment(token), nil)
}

// ListSessionsOfPeople asks for the browsers in which people have signed in: all, or those of one's own account.
func ListSessionsOfPeople() Call[Sessions] { return get[Sessions]("/api/sessions", nil) }

// EndSession ends a session, identified by its session_id.
func EndSession(session string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/sessions"+segment(session), nil)
}

// EndSessions ends all sessions of an account.
func EndSessions(name string) Call[Nothing] {
	return change[Nothing](http.MethodDelete, "/api/users"+segment(name)+"/sessions", nil)
}
