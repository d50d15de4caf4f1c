package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alert"
	"github.com/gpuwhy/gpuwhy/internal/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Alerts are what fires, and what people say of it. The errors of what they ask
// for are those of package alert.
type Alerts interface {
	Standing() []alert.Alert
	Past() []alert.Alert
	Silences() []alert.Silence
	Rules() []alert.Rule
	// Acknowledge takes nil for what is taken back.
	Acknowledge(id string, by *alert.Acknowledgment) (alert.Alert, error)
	Dismiss(id string) (alert.Alert, error)
	// Silence puts one in force for a while.
	Silence(s alert.Silence, span time.Duration) (alert.Silence, error)
	Unsilence(id string) error
}

// alertRoutes are the addresses of alerts.
func (s *Server) alertRoutes() []route {
	return []route{
		s.route(http.MethodGet, "/api/alerts", s.alerts, apidoc.Operation{
			ID: "getAlerts", Tag: tagAlerts, Summary: "What fires, what was, and what is silenced",
			Answers: []apidoc.Answer{ok("The alerts.", contract.Alerts{}, "alerts")},
		}),
		s.route(http.MethodPost, "/api/alerts/{id}/acknowledge", s.acknowledge, apidoc.Operation{
			ID: "acknowledgeAlert", Tag: tagAlerts, Summary: "Say that somebody knows of an alert",
			Description: "It is not repeated to targets then. It still fires, and they are told when it is over.",
			Params:      []apidoc.Param{alertParam}, Body: contract.Note{}, BodyExample: "note", Form: true,
			Answers: sent(ok("The alert as it stands.", contract.Alert{}, "alert_acknowledged"), unknownAlert),
		}),
		s.route(http.MethodDelete, "/api/alerts/{id}/acknowledge", s.unacknowledge, apidoc.Operation{
			ID: "withdrawAcknowledgment", Tag: tagAlerts, Summary: "Take that back",
			Params:  []apidoc.Param{alertParam},
			Answers: []apidoc.Answer{ok("The alert as it stands.", contract.Alert{}, "alert"), foreignPage, unknownAlert},
		}),
		s.route(http.MethodDelete, "/api/alerts/{id}", s.dismiss, apidoc.Operation{
			ID: "dismissAlert", Tag: tagAlerts, Summary: "End an alert that nothing can end any more",
			Description: "Only one in the state no_data: its GPU does not report what it is about, perhaps because it was taken out.",
			Params:      []apidoc.Param{alertParam},
			Answers:     []apidoc.Answer{ok("The alert, resolved.", contract.Alert{}, "alert_dismissed"), foreignPage, unknownAlert, stillReported},
		}),
		s.route(http.MethodPost, "/api/alerts/{id}/unacknowledge", s.unacknowledge, apidoc.Operation{
			ID: "postWithdrawAcknowledgment", Tag: tagAlerts, Summary: "Take an acknowledgment back", Description: forForms, Form: true,
			Params:  []apidoc.Param{alertParam},
			Answers: sent(ok("The alert as it stands.", contract.Alert{}, "alert"), unknownAlert),
		}),
		s.route(http.MethodPost, "/api/alerts/{id}/dismiss", s.dismiss, apidoc.Operation{
			ID: "postDismissAlert", Tag: tagAlerts, Summary: "End an alert that nothing can end any more", Description: forForms, Form: true,
			Params:  []apidoc.Param{alertParam},
			Answers: sent(ok("The alert, resolved.", contract.Alert{}, "alert_dismissed"), unknownAlert, stillReported),
		}),
		s.route(http.MethodPost, "/api/alerts/{id}/silence", s.silenceOne, apidoc.Operation{
			ID: "silenceAlert", Tag: tagAlerts, Summary: "Keep one alert from being told for a while",
			Description: "A silence of its rule and its GPU, as if made at /api/silences.",
			Params:      []apidoc.Param{alertParam}, Body: contract.SilenceSpan{}, BodyRequired: true, BodyExample: "silence_span", Form: true,
			Answers: sent(silenced, unknownAlert, tooMany),
		}),
		s.route(http.MethodGet, "/api/alert-rules", s.alertRules, apidoc.Operation{
			ID: "getAlertRules", Tag: tagAlerts, Summary: "When alerts fire",
			Answers: []apidoc.Answer{ok("The rules, also those that are not enabled.", contract.AlertRules{}, "alert_rules")},
		}),
		s.route(http.MethodGet, "/api/silences", s.silences, apidoc.Operation{
			ID: "getSilences", Tag: tagAlerts, Summary: "The silences in force",
			Answers: []apidoc.Answer{ok("The silences, the one that ends first, first.", contract.Silences{}, "silences")},
		}),
		s.route(http.MethodPost, "/api/silences", s.silence, apidoc.Operation{
			ID: "silenceAlerts", Tag: tagAlerts, Summary: "Keep alerts from being told for a while",
			Description: "They fire all the same, and viewers see them; targets are not told. What still fires at the end is told then.",
			Body:        contract.SilenceRequest{}, BodyRequired: true, BodyExample: "silence_request", Form: true,
			Answers: sent(silenced, tooMany),
		}),
		s.route(http.MethodDelete, "/api/silences/{id}", s.unsilence, apidoc.Operation{
			ID: "endSilence", Tag: tagAlerts, Summary: "End a silence",
			Params:  []apidoc.Param{silenceParam},
			Answers: []apidoc.Answer{overNow, foreignPage, unknownSilence},
		}),
		s.route(http.MethodPost, "/api/silences/{id}/end", s.unsilence, apidoc.Operation{
			ID: "postEndSilence", Tag: tagAlerts, Summary: "End a silence", Description: forForms, Form: true,
			Params:  []apidoc.Param{silenceParam},
			Answers: sent(overNow, unknownSilence),
		}),
		{http.MethodGet, "/alerts", s.handle(s.alertsPage), nil},
	}
}

// forForms is why what DELETE does can be done with POST too.
const forForms = "The same as with DELETE, for pages whose forms know POST alone."

var (
	alertParam   = apidoc.Param{Name: "id", In: "path", Description: "The alert's alert_id.", Example: "high_gpu_usage-GPU-4090c0de-0000-4000-8000-000000000001-1773500966535"}
	silenceParam = apidoc.Param{Name: "id", In: "path", Description: "The silence's silence_id.", Example: "silence-1"}

	silenced = apidoc.Answer{Status: http.StatusCreated, Description: "The silence.", ContentType: typeJSON, Of: contract.Silence{}, Example: "silence"}
	overNow  = apidoc.Answer{Status: http.StatusNoContent, Description: "It has ended."}
	seeOther = apidoc.Answer{Status: http.StatusSeeOther, Description: "A form was sent, and is done: back to the page that it is on."}

	foreignPage    = refused(http.StatusForbidden, "A page of another site asks; programs may.", crossOriginDenied(nil, nil))
	unknownAlert   = refused(http.StatusNotFound, "No such alert stands.", alertError(alert.ErrUnknown))
	unknownSilence = refused(http.StatusNotFound, "There is no such silence.", alertError(alert.ErrUnknown))
	stillReported  = refused(http.StatusConflict, "What it is about is still reported: it ends by itself.", alertError(alert.ErrReported))
	tooMany        = refused(http.StatusConflict, "There are too many already.", alertError(alert.ErrTooMany))
	badBody        = refused(http.StatusBadRequest, "The body is no JSON.", errNoJSON)
	tooLarge       = refused(http.StatusRequestEntityTooLarge, "The body has more than 64 KiB.", unreadable(&http.MaxBytesError{Limit: maxBody}))
	badMedia       = refused(http.StatusUnsupportedMediaType, "The body is neither JSON nor a form.", badContent("text/plain"))
	badFields      = refused(http.StatusUnprocessableEntity, "A member is unknown, or has a value that it can't have.", errDuration)
)

// sent are the answers to what has a body: its own, and those to any.
func sent(own ...apidoc.Answer) []apidoc.Answer {
	all := append(own, seeOther, badBody, foreignPage, tooLarge, badMedia, badFields)
	slices.SortStableFunc(all, func(a, b apidoc.Answer) int { return cmp.Compare(a.Status, b.Status) })
	return all
}

// What is wrong with a body.
var (
	errFrom     = refuse(http.StatusBadRequest, "from must be how many alerts to leave out", "leave from out of the address")
	errNoJSON   = refuse(http.StatusBadRequest, "the body is no JSON", "send an object, such as {}")
	errDuration = refuse(http.StatusUnprocessableEntity, "duration_seconds must be from 1 to 31622400, which is 366 days", "give the seconds for which nobody is to be told")
)

func unreadable(err error) error {
	return refuse(http.StatusRequestEntityTooLarge, "the body can't be read: "+err.Error(), "send one of 64 KiB at most")
}

func badContent(contentType string) error {
	return refuse(http.StatusUnsupportedMediaType, "the body is "+quote(contentType), "send it as "+typeJSON)
}

func (s *Server) alerts(w http.ResponseWriter, r *http.Request) error {
	a := s.cfg.Alerts
	b, err := jsonBody(contract.NewAlerts(s.cfg.Monitor, s.fleet(r), ofNode(r, a.Standing()), ofNode(r, a.Past()), a.Silences()))
	if err != nil {
		return err
	}
	return b.serve(w, r, cacheRevalidate)
}

func (s *Server) silences(w http.ResponseWriter, r *http.Request) error {
	b, err := jsonBody(contract.NewSilences(s.cfg.Alerts.Silences()))
	if err != nil {
		return err
	}
	return b.serve(w, r, cacheRevalidate)
}

func (s *Server) alertRules(w http.ResponseWriter, r *http.Request) error {
	b, err := jsonBody(contract.NewAlertRules(s.cfg.Alerts.Rules()))
	if err != nil {
		return err
	}
	return b.serve(w, r, cacheRevalidate)
}

// alertsPage answers with the page of alerts, or the one of its pages that the
// query's from is on.
func (s *Server) alertsPage(w http.ResponseWriter, r *http.Request) error {
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return errFrom
		}
	}
	var page bytes.Buffer
	if err := s.cfg.AlertsPage(r.Context(), &page, from); err != nil {
		return fmt.Errorf("render the page of alerts: %w", err)
	}
	return newBody(typeHTML, page.Bytes()).serve(w, r, cacheRevalidate)
}

func (s *Server) acknowledge(w http.ResponseWriter, r *http.Request) error {
	var note contract.Note
	form, err := readBody(r, &note)
	if err != nil {
		return err
	}
	by := &alert.Acknowledgment{By: note.By, Comment: note.Comment, At: time.Now().UTC()}
	a, err := s.cfg.Alerts.Acknowledge(r.PathValue("id"), by)
	return s.changed(w, r, form, a, err)
}

func (s *Server) unacknowledge(w http.ResponseWriter, r *http.Request) error {
	form, err := readBody(r, &struct{}{})
	if err != nil {
		return err
	}
	a, err := s.cfg.Alerts.Acknowledge(r.PathValue("id"), nil)
	return s.changed(w, r, form, a, err)
}

func (s *Server) dismiss(w http.ResponseWriter, r *http.Request) error {
	form, err := readBody(r, &struct{}{})
	if err != nil {
		return err
	}
	a, err := s.cfg.Alerts.Dismiss(r.PathValue("id"))
	return s.changed(w, r, form, a, err)
}

// changed answers with an alert as it stands after what was asked for; a form
// with the page that it came from.
func (s *Server) changed(w http.ResponseWriter, r *http.Request, form *sentForm, a alert.Alert, err error) error {
	switch {
	case err != nil:
		return alertError(err)
	case form != nil:
		return s.back(w, r, form)
	}
	message := contract.NewAlert(&a, s.cfg.Newest())
	return answerNow(w, r, http.StatusOK, message)
}

func (s *Server) silence(w http.ResponseWriter, r *http.Request) error {
	var ask contract.SilenceRequest
	form, err := readBody(r, &ask)
	if err != nil {
		return err
	}
	of := alert.Silence{Rule: ask.Rule, Node: ask.Node, GPU: ask.GPUUUID, By: ask.By, Comment: ask.Comment}
	return s.makeSilence(w, r, form, of, ask.Duration)
}

// silenceOne makes a silence of the rule and the device of an alert.
func (s *Server) silenceOne(w http.ResponseWriter, r *http.Request) error {
	var ask contract.SilenceSpan
	form, err := readBody(r, &ask)
	if err != nil {
		return err
	}
	standing := s.cfg.Alerts.Standing()
	i := slices.IndexFunc(standing, func(a alert.Alert) bool { return a.ID == r.PathValue("id") })
	if i < 0 {
		return alertError(alert.ErrUnknown)
	}
	d := &standing[i].Device
	of := alert.Silence{
		Rule: standing[i].Rule, Node: alert.Literally(d.Node), GPU: alert.Literally(d.UUID), By: ask.By, Comment: ask.Comment,
	}
	return s.makeSilence(w, r, form, of, ask.Duration)
}

func (s *Server) makeSilence(w http.ResponseWriter, r *http.Request, form *sentForm, of alert.Silence, seconds float64) error {
	const longest = 366 * 24 * 60 * 60
	if !(seconds >= 1 && seconds <= longest) {
		return errDuration
	}
	made, err := s.cfg.Alerts.Silence(of, time.Duration(seconds*float64(time.Second)))
	switch {
	case err != nil:
		return alertError(err)
	case form != nil:
		return s.back(w, r, form)
	default:
		return answerNow(w, r, http.StatusCreated, contract.NewSilence(&made))
	}
}

func (s *Server) unsilence(w http.ResponseWriter, r *http.Request) error {
	form, err := readBody(r, &struct{}{})
	if err != nil {
		return err
	}
	if err := s.cfg.Alerts.Unsilence(r.PathValue("id")); err != nil {
		return alertError(err)
	}
	if form != nil {
		return s.back(w, r, form)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A sentForm is what a browser sends without a script.
type sentForm struct {
	// page is the one that the form is on: "alerts", "gpu/" and a UUID, or the
	// dashboard for all else.
	page string
}

// back leads a browser that has sent a form to the page that the form is on:
// one of ours, whatever the form says.
func (s *Server) back(w http.ResponseWriter, r *http.Request, form *sentForm) error {
	path := "/#alerts"
	if uuid, ok := strings.CutPrefix(form.page, "gpu/"); ok {
		path = "/gpu/" + url.PathEscape(uuid) + "#alerts"
	} else if form.page == "alerts" {
		path = "/alerts"
	}
	http.Redirect(w, r, s.cfg.BasePath+path, http.StatusSeeOther)
	return nil
}

// answerNow answers with what was just made; it is kept nowhere.
func answerNow(w http.ResponseWriter, r *http.Request, status int, answer any) error {
	content, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode %T: %w", answer, err)
	}
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	h.Set("Cache-Control", cacheNever)
	w.WriteHeader(status)
	send(w, r, content)
	return nil
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

// mismatch says which member of a body is not what it must be.
func mismatch(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		wanted := "a text"
		if wrong.Type.Kind() == reflect.Float64 {
			wanted = "a number"
		}
		if wrong.Field == "" {
			return "the body is no object but a JSON " + wrong.Value
		}
		return wrong.Field + " is a " + wrong.Value + " and must be " + wanted
	}
	return "the body has an " + strings.TrimPrefix(err.Error(), "json: ")
}

// readBody reads JSON into a struct, or a form whose fields have the same names;
// nothing where there is no body. It returns the form if it was one.
func readBody(r *http.Request, into any) (*sentForm, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unreadable(err)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var form *sentForm
	if kind == typeForm {
		form = &sentForm{}
	}
	switch {
	case len(content) == 0:
		return form, nil
	case err != nil || kind != typeJSON && kind != typeForm:
		return nil, badContent(r.Header.Get("Content-Type"))
	case form != nil:
		if content, err = form.asJSON(string(content)); err != nil {
			return nil, err
		}
	}
	if !json.Valid(content) {
		return nil, errNoJSON
	}
	if string(bytes.TrimSpace(content)) == "null" { // a decoder would take it for nothing
		return nil, refuse(http.StatusUnprocessableEntity, "the body is null", "send an object, such as {}")
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, mismatch(err), "/docs says what the body may have")
	}
	return form, nil
}

const typeForm = "application/x-www-form-urlencoded"

// asJSON makes an object of the form's fields but for the one that says which
// page it is on. The one that is a number becomes one.
func (f *sentForm) asJSON(content string) ([]byte, error) {
	values, err := url.ParseQuery(content)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the form can't be read", "send it as a browser does")
	}
	f.page = values.Get("page")
	values.Del("page")
	object := map[string]any{}
	for name := range values {
		object[name] = values.Get(name)
		if n, err := strconv.ParseFloat(values.Get(name), 64); err == nil && name == "duration_seconds" && !math.IsNaN(n) && !math.IsInf(n, 0) {
			object[name] = n
		}
	}
	return json.Marshal(object)
}

// ofNode are the alerts of the node that a request is about.
func ofNode(r *http.Request, alerts []alert.Alert) []alert.Alert {
	if name := nodeOf(r); name != "" {
		return slices.DeleteFunc(alerts, func(a alert.Alert) bool { return a.Device.Node != name })
	}
	return alerts
}
