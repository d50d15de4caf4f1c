package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

func (s *Server) alertRoutes() []route {
	acknowledge := says(s, http.StatusOK, s.acknowledge)
	unacknowledge := says(s, http.StatusOK, func(r *http.Request, _ struct{}) (any, error) {
		return s.changed(s.cfg.Alerts.Acknowledge(r.PathValue("id"), nil))
	})
	dismiss := says(s, http.StatusOK, func(r *http.Request, _ struct{}) (any, error) {
		return s.changed(s.cfg.Alerts.Dismiss(r.PathValue("id"), s.cfg.Clock.Now().UTC()))
	})
	unsilence := says(s, http.StatusNoContent, func(r *http.Request, _ struct{}) (any, error) {
		_, err := s.cfg.Alerts.Unsilence(r.PathValue("id"))
		return nil, err
	})
	const (
		// A form can't send DELETE, so a POST does the same.
		forForms = "The same as with DELETE, for pages whose forms know POST alone."
		ends     = "End an alert that nothing can end any more"
	)
	stands := ok("The alert as it stands.", contract.Alert{}, "alert")
	dismissed := ok("The alert, resolved.", contract.Alert{}, "alert_dismissed")
	form := apidoc.Parts{apidoc.Text(forForms), apidoc.Body{}, sent}
	return []route{
		s.read("/api/alerts", current(s.alerts), tagAlerts, "getAlerts", "What fires, what was, and what is silenced",
			ok("The alerts.", contract.Alerts{}, "alerts")),
		s.operate("POST /api/alerts/{id}/acknowledge", acknowledge, "acknowledgeAlert", "Say that somebody knows of an alert",
			apidoc.Text("It is not repeated to targets then. It still fires, and they are told when it is over."),
			alertParam, apidoc.Body{Of: contract.Note{}, Example: "note"},
			ok("The alert as it stands.", contract.Alert{}, "alert_acknowledged"), unknownAlert, sent),
		s.operate("POST /api/alerts/acknowledge", says(s, http.StatusOK, s.acknowledgeSeveral), "acknowledgeAlerts", "Say that somebody knows of several alerts",
			apidoc.Body{Of: contract.NoteOfSeveral{}, Example: "note_of_several", Required: true},
			ok("The alerts as they stand.", contract.SeveralAlerts{}, "several_alerts"), noneOfThem, sent),
		s.operate("POST /api/alerts/silence", says(s, http.StatusCreated, s.silenceSeveral), "silenceSeveralAlerts", "Keep several alerts from being told for a while",
			apidoc.Text("A silence for each: of its rule and its GPU, as if made at /api/silences. Where there would be too many of them, none is made."),
			apidoc.Body{Of: contract.SilenceOfSeveral{}, Example: "silence_of_several", Required: true},
			apidoc.Answer{Status: http.StatusCreated, Description: "The silences.", ContentType: typeJSON, Of: contract.Silences{}, Example: "silences"},
			noneOfThem, tooMany, sent),
		s.operate("DELETE /api/alerts/{id}/acknowledge", unacknowledge, "withdrawAcknowledgment", "Take that back",
			alertParam, stands, foreignPage, unknownAlert),
		s.operate("DELETE /api/alerts/{id}", dismiss, "dismissAlert", ends,
			apidoc.Text("Only one in the state no_data: its GPU does not report what it is about, perhaps because it was taken out."),
			alertParam, dismissed, foreignPage, unknownAlert, stillReported),
		s.operate("POST /api/alerts/{id}/unacknowledge", unacknowledge, "postWithdrawAcknowledgment", "Take an acknowledgment back",
			form, alertParam, stands, unknownAlert),
		s.operate("POST /api/alerts/{id}/dismiss", dismiss, "postDismissAlert", ends,
			form, alertParam, dismissed, unknownAlert, stillReported),
		s.operate("POST /api/alerts/{id}/silence", says(s, http.StatusCreated, s.silenceOne),
			"silenceAlert", "Keep one alert from being told for a while",
			apidoc.Text("A silence of its rule and its GPU, as if made at /api/silences."),
			alertParam, apidoc.Body{Of: contract.SilenceSpan{}, Example: "silence_span", Required: true},
			silenced, unknownAlert, tooMany, sent),
		s.read("/api/alert-rules", current(func(*http.Request) any { return contract.NewAlertRules(s.cfg.Alerts.Rules()) }),
			tagAlerts, "getAlertRules", "When alerts fire",
			ok("The rules, also those that are not enabled.", contract.AlertRules{}, "alert_rules")),
		s.read("/api/silences", current(func(r *http.Request) any {
			return contract.NewSilences(alert.OfNode(s.cfg.Alerts.Silences(s.cfg.Clock.Now()), nodeOf(r)))
		}), tagAlerts, "getSilences", "The silences in force",
			ok("The silences, the one that ends first, first.", contract.Silences{}, "silences")),
		s.operate("POST /api/silences", says(s, http.StatusCreated, s.silence),
			"silenceAlerts", "Keep alerts from being told for a while",
			apidoc.Text("They fire all the same, and viewers see them; targets are not told. What still fires at the end is told then."),
			apidoc.Body{Of: contract.SilenceRequest{}, Example: "silence_request", Required: true}, silenced, tooMany, sent),
		s.operate("DELETE /api/silences/{id}", unsilence, "endSilence", "End a silence",
			silenceParam, overNow, foreignPage, unknownSilence),
		s.operate("POST /api/silences/{id}/end", unsilence, "postEndSilence", "End a silence",
			form, silenceParam, overNow, unknownSilence),
		s.livePage("/alerts", s.alertsPage),
	}
}

var (
	alertParam   = apidoc.InPath("id", "The alert's alert_id.", "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535")
	silenceParam = apidoc.InPath("id", "The silence's silence_id.", "silence-1")

	silenced = apidoc.Answer{
		Status: http.StatusCreated, Description: "The silence.", ContentType: typeJSON, Of: contract.Silence{}, Example: "silence",
	}
	overNow  = apidoc.Answer{Status: http.StatusNoContent, Description: "It has ended."}
	seeOther = apidoc.Answer{Status: http.StatusSeeOther, Description: "A form was sent, and is done: back to the page that it is on."}

	foreignPage    = refused("A page of another site asks; programs may.", crossOriginDenied(nil, nil))
	unknownAlert   = refused("No such alert stands.", alertError(alert.ErrUnknown))
	noneOfThem     = refused("None of these alerts stands.", alertError(alert.ErrUnknown))
	unknownSilence = refused("There is no such silence.", alertError(alert.ErrUnknown))
	stillReported  = refused("What it is about is still reported: it ends by itself.", alertError(alert.ErrReported))
	tooMany        = refused("There are too many already.", alertError(alert.ErrTooMany))

	// sent are the answers to all that have a body.
	sent = apidoc.Parts{
		seeOther, foreignPage,
		refused("The body is no JSON, or has a member twice or in another case.", badJSON(errOf(strictjson.Members([]byte("{"))))),
		refused("The body did not come in time.", unreadable(os.ErrDeadlineExceeded)),
		refused("The body has more than 256 KiB.", unreadable(&http.MaxBytesError{Limit: maxBody})),
		refused("The body is neither JSON nor a form.", badContent("text/plain")),
		refused("A member is unknown, or has a value that it can't have.", errDuration),
	}

	errNotKept  = refuse(http.StatusAccepted, "it is done, and gpuwhy could not write it to its state directory", "look at the space there, and into the log: gpuwhy tries again, and a restart before that loses it")
	errFrom     = refuse(http.StatusBadRequest, "from must be how many alerts to leave out", "leave from out of the address")
	errDuration = refuse(http.StatusUnprocessableEntity, "duration_seconds must be from 1 to 31622400, which is 366 days",
		"give the seconds for which nobody is to be told")
	errNoneChosen = refuse(http.StatusUnprocessableEntity, "alert_ids must have 1 to 1000 alerts", "choose at least one alert")
)

// current answers with what may change between two readings.
func current(build func(*http.Request) any) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return serveJSON(w, r, build(r), cacheRevalidate)
	}
}

func (s *Server) alerts(r *http.Request) any {
	a, f, node := s.cfg.Alerts, s.fleet(r), nodeOf(r)
	ended := a.EndedSince(node, s.cfg.Clock.Now().Add(-24*time.Hour))
	return contract.NewAlerts(s.monitor(f), f,
		alert.OfNode(a.Standing(), node), alert.OfNode(a.Past(), node), ended, alert.OfNode(a.Silences(s.cfg.Clock.Now()), node))
}

// alertsPage leaves out as many of the first alerts as the query's from says.
func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) error {
	from, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("from"), "0"))
	if err != nil || from < 0 {
		return errFrom
	}
	return s.serveLive(w, r, s.cfg.AlertsPage(from, nodeOf(r), r.URL.Query()))
}

// says handles a request that changes alerts or silences. It answers with the status and with
// what do returns; a form is led back to its page. Where the change is not on disk by then, the
// status is 202, and a form is told so.
func says[T any](s *Server, status int, do func(r *http.Request, body T) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body T
		form, err := readBody(r, &body)
		if err != nil {
			return err
		}
		answer, err := do(r, body)
		status := status
		if err == nil && s.cfg.Flush != nil && s.cfg.Flush(r.Context()) != nil { // the log says why
			status = http.StatusAccepted
		}
		switch {
		case err != nil:
			return alertError(err)
		case form != nil && status == http.StatusAccepted:
			return errNotKept
		case form != nil:
			return s.back(w, r, form)
		case answer == nil:
			w.WriteHeader(status)
			return nil
		default:
			content, err := json.Marshal(answer)
			if err == nil {
				sendNow(w, r, status, typeJSON, content)
			}
			return err
		}
	}
}

func (s *Server) acknowledge(r *http.Request, note contract.Note) (any, error) {
	by := &alert.Acknowledgment{By: auth.FromRequest(r).Name, Comment: note.Comment, At: s.cfg.Clock.Now().UTC()}
	return s.changed(s.cfg.Alerts.Acknowledge(r.PathValue("id"), by))
}

// acknowledgeSeveral leaves out the alerts that are over by then, unless all are.
func (s *Server) acknowledgeSeveral(r *http.Request, note contract.NoteOfSeveral) (any, error) {
	by := &alert.Acknowledgment{By: auth.FromRequest(r).Name, Comment: note.Comment, At: s.cfg.Clock.Now().UTC()}
	var known []alert.Alert
	err := eachOf(note.IDs, func(id string) error {
		c, err := s.cfg.Alerts.Acknowledge(id, by)
		if err == nil {
			known = append(known, c.Alert)
		}
		return err
	})
	return contract.NewSeveralAlerts(known, s.cfg.Newest()), err
}

// silenceSeveral leaves out the alerts that are over by then, unless all are. Either all others are silenced or none is.
func (s *Server) silenceSeveral(r *http.Request, ask contract.SilenceOfSeveral) (any, error) {
	standing := map[string]*alert.Alert{}
	for _, a := range s.cfg.Alerts.Standing() {
		standing[a.ID] = &a
	}
	var list []alert.Silence
	err := eachOf(ask.IDs, func(id string) error {
		a := standing[id]
		if a == nil {
			return alert.ErrUnknown
		}
		list = append(list, silenceOf(a, ask.Comment))
		return nil
	})
	if err != nil {
		return nil, err
	}
	made, err := s.makeSilences(r, list, ask.Duration)
	return contract.Silences{Silences: made}, err
}

// eachOf does something with each alert that stands, until that fails. It is an error if none of them stands.
func eachOf(ids []string, do func(id string) error) error {
	if len(ids) < 1 || len(ids) > 1000 {
		return errNoneChosen
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
		case !errors.Is(err, alert.ErrUnknown):
			return err
		}
	}
	if done == 0 {
		return alert.ErrUnknown
	}
	return nil
}

// changed returns an alert as it is after a request has changed it.
func (s *Server) changed(c alert.Change, err error) (any, error) {
	return contract.NewAlert(&c.Alert, s.cfg.Newest()), err
}

func (s *Server) silence(r *http.Request, ask contract.SilenceRequest) (any, error) {
	if name := nodeOf(r); name != "" && ask.Node == "" {
		ask.Node = alert.Literally(name)
	}
	return s.makeSilence(r, alert.Silence{Rule: ask.Rule, Node: ask.Node, GPU: ask.GPUUUID, Comment: ask.Comment}, ask.Duration)
}

func (s *Server) silenceOne(r *http.Request, ask contract.SilenceSpan) (any, error) {
	for _, a := range s.cfg.Alerts.Standing() {
		if a.ID == r.PathValue("id") {
			return s.makeSilence(r, silenceOf(&a, ask.Comment), ask.Duration)
		}
	}
	return nil, alert.ErrUnknown
}

// silenceOf is one of the rule and the device of an alert.
func silenceOf(a *alert.Alert, comment string) alert.Silence {
	return alert.Silence{Rule: a.Rule, Node: alert.Literally(a.Device.Node), GPU: alert.Literally(a.Device.UUID), Comment: comment}
}

func (s *Server) makeSilence(r *http.Request, of alert.Silence, seconds float64) (any, error) {
	made, err := s.makeSilences(r, []alert.Silence{of}, seconds)
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

func (s *Server) makeSilences(r *http.Request, list []alert.Silence, seconds float64) (made []contract.Silence, err error) {
	const longest = 366 * 24 * 60 * 60
	if !(seconds >= 1 && seconds <= longest) {
		return nil, errDuration
	}
	now := s.cfg.Clock.Now().UTC()
	for i := range list {
		list[i].By, list[i].Until = auth.FromRequest(r).Name, now.Add(time.Duration(seconds*float64(time.Second)))
	}
	inForce, _, err := s.cfg.Alerts.SilenceAll(list, now)
	for i := range inForce {
		made = append(made, contract.NewSilence(&inForce[i]))
	}
	return made, err
}

func alertError(err error) error {
	bad, isInvalid := errors.AsType[*alert.Invalid](err)
	switch {
	case errors.Is(err, alert.ErrUnknown):
		return refuse(http.StatusNotFound, err.Error(), "/api/alerts lists what stands, and the silences in force")
	case errors.Is(err, alert.ErrReported):
		return refuse(http.StatusConflict, "the alert can't be dismissed: "+err.Error(), "it ends by itself; acknowledge or silence it until then")
	case errors.Is(err, alert.ErrTooMany):
		return refuse(http.StatusConflict, "there are too many silences", "end some of them")
	case isInvalid:
		return refuse(http.StatusUnprocessableEntity, bad.Field+" "+bad.What, "/docs says what it may be")
	default:
		return err
	}
}
