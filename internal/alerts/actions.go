package alerts

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
)

// The kinds of targets.
var (
	Alert   = action.Kind{Name: "alert", Param: apidoc.InPath("id", "The alert's alert_id.", "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535")}
	Silence = action.Kind{Name: "silence", Param: apidoc.InPath("id", "The silence's silence_id.", "silence-1")}
	Target  = action.Kind{Name: "target", Param: apidoc.InPath("name", "The target's name in the alert rules file.", "phone")}
)

// The refusals.
var (
	unknown       = &action.Refusal{Code: "unknown", Status: http.StatusNotFound, What: alert.ErrUnknown.Error(), Try: "see /api/alerts for open alerts and active silences"}
	reported      = &action.Refusal{Code: "reported", Status: http.StatusConflict, What: "the alert can't be dismissed: " + alert.ErrReported.Error(), Try: "it ends on its own; acknowledge or silence it until then"}
	tooMany       = &action.Refusal{Code: "too_many", Status: http.StatusConflict, What: "there are too many silences", Try: "end some of them"}
	unknownTarget = &action.Refusal{Code: "no_target", Status: http.StatusNotFound, What: notify.ErrNoTarget.Error(), Try: "see the notifications at /alerts?tab=told for the names of the targets"}
	// notAccepted has a reason added; see [Room.testTarget].
	notAccepted = &action.Refusal{Code: "not_accepted", Status: http.StatusBadGateway, What: "the target did not accept the message", Try: "check its address in the alert rules file"}

	badDuration = &action.Refusal{
		Code: "duration", Status: http.StatusUnprocessableEntity, What: "duration_seconds must be from 1 to 31622400, which is 366 days",
		Try: "give the length of the silence in seconds",
	}
	noneChosen = &action.Refusal{Code: "none_chosen", Status: http.StatusUnprocessableEntity, What: "alert_ids must list 1 to 1000 alerts", Try: "choose at least one alert"}
)

// refusal turns an error of package alert into what the client is told.
func refusal(err error) error {
	bad, isInvalid := errors.AsType[*alert.Invalid](err)
	switch {
	case errors.Is(err, alert.ErrUnknown):
		return unknown
	case errors.Is(err, alert.ErrReported):
		return reported
	case errors.Is(err, alert.ErrTooMany):
		return tooMany
	case isInvalid:
		return action.Invalid(bad.Field, bad.What)
	default:
		return err
	}
}

// Actions returns the actions on alerts, in the order of the documents.
func (r *Room) Actions() []action.Action {
	noAlert := action.Refused{Refusal: unknown, Means: "No such alert is open."}
	noneStands := action.Refused{Refusal: unknown, Means: "None of these alerts is open."}
	full := action.Refused{Refusal: tooMany, Means: "There are already too many silences."}
	list := []action.Action{
		{
			ID: "acknowledgeAlert", Target: Alert, Func: action.Takes(r.acknowledge), Reach: r.reachTarget, HTTP: "POST /api/alerts/{id}/acknowledge",
			Command: action.Command{Name: "acknowledge", Done: tellAlert("Acknowledged")},
			Doc: action.Doc{
				Summary: "Acknowledge an alert",
				Text:    "Targets are not reminded of it. It keeps firing, and they are told when it is over.",
				Body:    apidoc.Body{Example: "note"}, Answer: done("The current alert.", contract.Alert{}, "alert_acknowledged"),
				Refuses: []action.Refused{noAlert},
			},
		},
		{
			ID: "acknowledgeAlerts", Target: Alert, Func: action.Takes(r.acknowledgeSeveral), Reach: r.reachNoted, HTTP: "POST /api/alerts/acknowledge",
			Command: action.Command{Name: "acknowledge-several", Done: action.Tell(tellAlerts)},
			Doc: action.Doc{
				Summary: "Acknowledge several alerts",
				Body:    apidoc.Body{Example: "note_of_several", Required: true},
				Answer:  done("The current alerts.", contract.SeveralAlerts{}, "several_alerts"),
				Refuses: []action.Refused{noneStands},
			},
		},
		{
			ID: "silenceSeveralAlerts", Target: Alert, Func: action.Takes(r.silenceSeveral), Reach: r.reachSilenced, HTTP: "POST /api/alerts/silence",
			Command: action.Command{Name: "silence-several", Done: action.Tell(tellSilences)},
			Doc: action.Doc{
				Summary: "Silence several alerts",
				Text:    "Makes one silence per alert, for its rule and its GPU, as /api/silences would. If that would be too many silences, it makes none.",
				Body:    apidoc.Body{Example: "silence_of_several", Required: true},
				Answer:  made("The silences.", contract.Silences{}, "silences"),
				Refuses: []action.Refused{noneStands, full},
			},
		},
		{
			ID: "withdrawAcknowledgment", Target: Alert, Func: action.Takes(r.withdraw), Reach: r.reachTarget, HTTP: "DELETE /api/alerts/{id}/acknowledge",
			Form:    action.Form{HTTP: "POST /api/alerts/{id}/unacknowledge", Summary: "Withdraw an acknowledgment"},
			Command: action.Command{Name: "unacknowledge", Done: tellAlert("No longer acknowledged")},
			Doc: action.Doc{
				Summary: "Withdraw an acknowledgment",
				Answer:  done("The current alert.", contract.Alert{}, "alert"),
				Refuses: []action.Refused{noAlert},
			},
		},
		{
			ID: "dismissAlert", Target: Alert, Func: action.Takes(r.dismiss), Reach: r.reachTarget, HTTP: "DELETE /api/alerts/{id}",
			Form:    action.Form{HTTP: "POST /api/alerts/{id}/dismiss", Summary: "Dismiss an alert"},
			Command: action.Command{Name: "dismiss", Done: tellAlert("Dismissed")},
			Doc: action.Doc{
				Summary: "Dismiss an alert",
				Text:    "Only for an alert in the state no_data: its GPU no longer reports the value, perhaps because it was removed.",
				Answer:  done("The alert, resolved.", contract.Alert{}, "alert_dismissed"),
				Refuses: []action.Refused{noAlert, {Refusal: reported, Means: "Its readings still arrive, so it ends on its own."}},
			},
		},
		{
			ID: "silenceAlert", Target: Alert, Func: action.Takes(r.silenceOne), Reach: r.reachTarget, HTTP: "POST /api/alerts/{id}/silence",
			Command: action.Command{Name: "silence", Done: action.Tell(tellSilence)},
			Doc: action.Doc{
				Summary: "Silence an alert",
				Text:    "Makes a silence for its rule and its GPU, as /api/silences would.",
				Body:    apidoc.Body{Example: "silence_span", Required: true},
				Answer:  made("The silence.", contract.Silence{}, "silence"),
				Refuses: []action.Refused{noAlert, full},
			},
		},
		{
			ID: "silenceAlerts", Target: Silence, Func: action.Takes(r.silence), Reach: r.reachMatching, HTTP: "POST /api/silences",
			Command: action.Command{Name: "silence-matching", Done: action.Tell(tellSilence)},
			Doc: action.Doc{
				Summary: "Silence alerts",
				Text:    "The alerts still fire and viewers see them, but targets get no messages. Alerts that still fire when the silence ends are sent then.",
				Body:    apidoc.Body{Example: "silence_request", Required: true},
				Answer:  made("The silence.", contract.Silence{}, "silence"),
				Refuses: []action.Refused{full},
			},
		},
		{
			ID: "endSilence", Target: Silence, Func: action.Takes(r.endSilence), Reach: r.reachSilence, HTTP: "DELETE /api/silences/{id}",
			Form:    action.Form{HTTP: "POST /api/silences/{id}/end", Summary: "End a silence"},
			Command: action.Command{Name: "end-silence"},
			Doc: action.Doc{
				Summary: "End a silence",
				Answer:  apidoc.Answer{Status: http.StatusNoContent, Description: "The silence has ended."},
				Refuses: []action.Refused{{Refusal: unknown, Means: "There is no such silence."}},
			},
		},
		{
			ID: "testTarget", Target: Target, Func: action.Takes(r.testTarget), HTTP: "POST /api/targets/{name}/test",
			Command: action.Command{Name: "test-target"},
			Doc: action.Doc{
				Summary: "Send a test message to a target",
				Text:    "Targets are those to whom messages about alerts are sent. The message is sent at once and does not wait for others. It takes at most 20 seconds.",
				Answer:  apidoc.Answer{Status: http.StatusNoContent, Description: "The target accepted the message."},
				Refuses: []action.Refused{{Refusal: unknownTarget, Means: "There is no such target."}, {Refusal: notAccepted, Means: "The target did not accept the message, and why."}},
			},
		},
		// What hubs request from the program that has the alerts.
		{ID: carried, Func: action.Takes(r.carryOut), Reach: r.reachOrder, Remote: true},
	}
	for i := range list {
		list[i].Needs, list[i].Tag, list[i].Misfit = auth.Operate, contract.ClientAlerts.Name, badDuration
		list[i].Form.Lists, list[i].Form.Numbers, list[i].Form.Back = []string{"alert_ids"}, []string{"duration_seconds"}, back
	}
	return list
}

// tellAlert says what was done about an alert.
func tellAlert(done string) func([]byte) (string, error) {
	return action.Tell(func(a *contract.Alert) string { return done + ": " + a.Message })
}

func tellAlerts(s *contract.SeveralAlerts) string {
	var lines []string
	for _, a := range s.Alerts {
		lines = append(lines, "Acknowledged: "+a.Message)
	}
	return strings.Join(lines, "\n")
}

func tellSilences(s *contract.Silences) string {
	var lines []string
	for i := range s.Silences {
		lines = append(lines, tellSilence(&s.Silences[i]))
	}
	return strings.Join(lines, "\n")
}

// tellSilence says what a silence is about, until when, and how to end it earlier.
func tellSilence(s *contract.Silence) string {
	about := "all rules"
	if s.Rule != "" {
		about = "rule " + s.Rule
	}
	if s.GPUUUID != "" {
		about += ", GPU " + s.GPUUUID
	}
	if s.Node != "" {
		about += ", machine " + s.Node
	}
	until := s.Until
	if t, err := time.Parse(time.RFC3339, until); err == nil {
		until = t.Local().Format("2006-01-02 15:04 MST")
	}
	return "Silenced until " + until + ": " + about + ". To end it earlier: gpuwhy do end-silence " + s.ID
}

func done(description string, value any, example string) apidoc.Answer {
	return apidoc.Answer{Status: http.StatusOK, Description: description, ContentType: "application/json", Of: value, Example: example}
}

func made(description string, value any, example string) apidoc.Answer {
	a := done(description, value, example)
	a.Status = http.StatusCreated
	return a
}

func (r *Room) acknowledge(ctx context.Context, c *action.Call, ask contract.Note) (any, error) {
	return r.marked(ctx, c, &order{Acknowledge: c.Target, By: r.knows(c, ask.Comment)})
}

func (r *Room) withdraw(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	return r.marked(ctx, c, &order{Acknowledge: c.Target})
}

func (r *Room) dismiss(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	return r.marked(ctx, c, &order{Dismiss: c.Target})
}

func (r *Room) knows(c *action.Call, comment string) *alert.Acknowledgment {
	return &alert.Acknowledgment{By: c.Principal.Name, Comment: comment, At: r.Now().UTC()}
}

// marked has an order about the target carried out and returns the resulting alert.
func (r *Room) marked(ctx context.Context, c *action.Call, o *order) (any, error) {
	before := r.noted(c.Target)
	a, err := r.changeOne(ctx, c, c.Target, o)
	if err != nil {
		return nil, refusal(err)
	}
	c.Note(before, notes([]alert.Alert{a}))
	return contract.NewAlert(&alert.For([]alert.Alert{a}, c.Principal.Audience.Commands())[0], r.Newest()), nil
}

// A note is what the record says of an alert before and after an action.
type note struct {
	Alert        string                `json:"alert"` // its ID
	Message      string                `json:"message"`
	State        alert.State           `json:"state"`
	Acknowledged *alert.Acknowledgment `json:"acknowledged,omitempty"`
}

func noteOf(a *alert.Alert) *note { return &note{a.ID, a.Message, a.State, a.Acknowledged} }

func notes(alerts []alert.Alert) (all []*note) {
	for i := range alerts {
		all = append(all, noteOf(&alerts[i]))
	}
	return all
}

// noted returns what the record says of alerts as they are.
func (r *Room) noted(ids ...string) (found []*note) {
	for _, a := range r.Book.Standing() {
		if slices.Contains(ids, a.ID) {
			found = append(found, noteOf(&a))
		}
	}
	return found
}

// acknowledgeSeveral skips alerts that are already over, unless all are.
func (r *Room) acknowledgeSeveral(ctx context.Context, c *action.Call, ask contract.NoteOfSeveral) (any, error) {
	who := r.knows(c, ask.Comment)
	before := r.noted(ask.IDs...)
	var known []alert.Alert
	err := eachAlert(ask.IDs, func(id string) error {
		a, err := r.changeOne(ctx, c, id, &order{Acknowledge: id, By: who})
		if err == nil {
			known = append(known, a)
		}
		return err
	})
	if err != nil {
		return nil, refusal(err)
	}
	c.Note(before, notes(known))
	return contract.NewSeveralAlerts(alert.For(known, c.Principal.Audience.Commands()), r.Newest()), nil
}

// silenceSeveral skips alerts that are already over, unless all are. It silences either all others or none.
func (r *Room) silenceSeveral(ctx context.Context, c *action.Call, ask contract.SilenceOfSeveral) (any, error) {
	standing := map[string]*alert.Alert{}
	for _, a := range r.Book.Standing() {
		standing[a.ID] = &a
	}
	var list []alert.Silence
	err := eachAlert(ask.IDs, func(id string) error {
		a := standing[id]
		if a == nil {
			return alert.ErrUnknown
		}
		list = append(list, silenceFor(a, ask.Comment))
		return nil
	})
	if err != nil {
		return nil, refusal(err)
	}
	silences, err := r.putInForce(ctx, c, list, ask.Duration)
	if err != nil {
		return nil, err
	}
	return contract.Silences{Silences: silences}, nil
}

// eachAlert calls do for each alert until it fails. It is an error if none of them is open.
func eachAlert(ids []string, do func(id string) error) error {
	if len(ids) < 1 || len(ids) > 1000 {
		return noneChosen
	}
	done, seen := 0, map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		switch err := do(id); {
		case err == nil:
			done++
		case !errors.Is(refusal(err), unknown):
			return err
		}
	}
	if done == 0 {
		return alert.ErrUnknown
	}
	return nil
}

func (r *Room) silence(ctx context.Context, c *action.Call, ask contract.SilenceRequest) (any, error) {
	if c.Node != "" && ask.Node == "" {
		ask.Node = alert.Literally(c.Node)
	}
	return r.putOneInForce(ctx, c, alert.Silence{Rule: ask.Rule, Node: ask.Node, GPU: ask.GPUUUID, Comment: ask.Comment}, ask.Duration)
}

func (r *Room) silenceOne(ctx context.Context, c *action.Call, ask contract.SilenceSpan) (any, error) {
	for _, a := range r.Book.Standing() {
		if a.ID == c.Target {
			return r.putOneInForce(ctx, c, silenceFor(&a, ask.Comment), ask.Duration)
		}
	}
	return nil, unknown
}

// silenceFor returns a silence of an alert's rule and device.
func silenceFor(a *alert.Alert, comment string) alert.Silence {
	return alert.Silence{Rule: a.Rule, Node: alert.Literally(a.Device.Node), GPU: alert.Literally(a.Device.UUID), Comment: comment}
}

func (r *Room) putOneInForce(ctx context.Context, c *action.Call, x alert.Silence, seconds float64) (any, error) {
	made, err := r.putInForce(ctx, c, []alert.Silence{x}, seconds)
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

func (r *Room) putInForce(ctx context.Context, c *action.Call, list []alert.Silence, seconds float64) (made []contract.Silence, err error) {
	const longest = 366 * 24 * 60 * 60
	if !(seconds >= 1 && seconds <= longest) {
		return nil, badDuration
	}
	now := r.Now().UTC()
	for i := range list {
		list[i].By, list[i].Until = c.Principal.Name, now.Add(time.Duration(seconds*float64(time.Second)))
	}
	inForce, err := r.silenceAll(ctx, c, list, now)
	c.Note(nil, inForce)
	for i := range inForce {
		made = append(made, contract.NewSilence(&inForce[i]))
	}
	return made, refusal(err)
}

func (r *Room) endSilence(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	if x, ok := r.Book.FindSilence(c.Target); ok {
		c.Note(x, nil)
	}
	return nil, refusal(r.unsilence(ctx, c, c.Target))
}

func (r *Room) testTarget(ctx context.Context, c *action.Call, _ struct{}) (any, error) {
	err := r.notifier.Test(ctx, c.Target)
	switch {
	case err == nil:
		return nil, nil //nolint:nilnil // there is nothing to say
	case errors.Is(err, notify.ErrNoTarget):
		return nil, unknownTarget
	}
	why := *notAccepted
	why.What += ": " + err.Error()
	return nil, &why
}
