package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
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
			Answers: []apidoc.Answer{ok("The alerts.", contract.Alerts{}, "")},
		}),
		s.route(http.MethodPost, "/api/alerts/{id}/acknowledge", s.acknowledge, apidoc.Operation{
			ID: "acknowledgeAlert", Tag: tagAlerts, Summary: "Say that somebody knows of an alert",
			Description: "It is not repeated to targets then. It still fires, and they are told when it is over.",
			Params:      []apidoc.Param{alertParam}, Body: contract.Note{},
			Answers: []apidoc.Answer{ok("The alert as it stands.", contract.Alert{}, ""), badBody, unknownAlert, badMedia, badFields},
		}),
		s.route(http.MethodDelete, "/api/alerts/{id}/acknowledge", s.unacknowledge, apidoc.Operation{
			ID: "withdrawAcknowledgment", Tag: tagAlerts, Summary: "Take that back",
			Params:  []apidoc.Param{alertParam},
			Answers: []apidoc.Answer{ok("The alert as it stands.", contract.Alert{}, ""), unknownAlert},
		}),
		s.route(http.MethodDelete, "/api/alerts/{id}", s.dismiss, apidoc.Operation{
			ID: "dismissAlert", Tag: tagAlerts, Summary: "End an alert that nothing can end any more",
			Description: "Only one in the state no_data: its GPU does not report what it is about, perhaps because it was taken out.",
			Params:      []apidoc.Param{alertParam},
			Answers:     []apidoc.Answer{ok("The alert, resolved.", contract.Alert{}, ""), unknownAlert, stillReported},
		}),
		s.route(http.MethodGet, "/api/alert-rules", s.alertRules, apidoc.Operation{
			ID: "getAlertRules", Tag: tagAlerts, Summary: "When alerts fire",
			Answers: []apidoc.Answer{ok("The rules, also those that are not enabled.", contract.AlertRules{}, "")},
		}),
		s.route(http.MethodPost, "/api/silences", s.silence, apidoc.Operation{
			ID: "silenceAlerts", Tag: tagAlerts, Summary: "Keep alerts from being told for a while",
			Description: "They fire all the same, and viewers see them; targets are not told. What still fires at the end is told then.",
			Body:        contract.SilenceRequest{}, BodyRequired: true,
			Answers: []apidoc.Answer{
				{Status: http.StatusCreated, Description: "The silence.", ContentType: typeJSON, Of: contract.Silence{}},
				badBody, tooMany, badMedia, badFields,
			},
		}),
		s.route(http.MethodDelete, "/api/silences/{id}", s.unsilence, apidoc.Operation{
			ID: "endSilence", Tag: tagAlerts, Summary: "End a silence",
			Params:  []apidoc.Param{silenceParam},
			Answers: []apidoc.Answer{{Status: http.StatusNoContent, Description: "It has ended."}, unknownSilence},
		}),
	}
}

var (
	alertParam   = apidoc.Param{Name: "id", In: "path", Description: "The alert's alert_id."}
	silenceParam = apidoc.Param{Name: "id", In: "path", Description: "The silence's silence_id."}

	unknownAlert   = apidoc.Answer{Status: http.StatusNotFound, Description: "No such alert stands."}
	unknownSilence = apidoc.Answer{Status: http.StatusNotFound, Description: "There is no such silence."}
	stillReported  = apidoc.Answer{Status: http.StatusConflict, Description: "What it is about is still reported: it ends by itself."}
	badBody        = apidoc.Answer{Status: http.StatusBadRequest, Description: "The body is no JSON."}
	tooMany        = apidoc.Answer{Status: http.StatusConflict, Description: "There are too many already."}
	badMedia       = apidoc.Answer{Status: http.StatusUnsupportedMediaType, Description: "The body is neither JSON nor a form."}
	badFields      = apidoc.Answer{Status: http.StatusUnprocessableEntity, Description: "A member is unknown, or has a value that it can't have."}
)

func (s *Server) alerts(w http.ResponseWriter, r *http.Request) error {
	snap := s.snapshot()
	answer := s.cfg.Explain(snap)
	a := s.cfg.Alerts
	b, err := jsonBody(contract.NewAlerts(s.cfg.Monitor, snap, &answer, a.Standing(), a.Past(), a.Silences()))
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
	a, err := s.cfg.Alerts.Acknowledge(r.PathValue("id"), nil)
	return s.changed(w, r, false, a, err)
}

func (s *Server) dismiss(w http.ResponseWriter, r *http.Request) error {
	a, err := s.cfg.Alerts.Dismiss(r.PathValue("id"))
	return s.changed(w, r, false, a, err)
}

// changed answers with an alert as it stands after what was asked for; a form
// with the page that it came from.
func (s *Server) changed(w http.ResponseWriter, r *http.Request, form bool, a alert.Alert, err error) error {
	switch {
	case err != nil:
		return alertError(err)
	case form:
		return s.toAlerts(w, r)
	}
	message := contract.NewAlert(&a)
	answer := s.cfg.Explain(s.snapshot())
	message.Explain(answer.Of(a.Device.Node, a.Device.UUID))
	return answerNow(w, r, http.StatusOK, message)
}

func (s *Server) silence(w http.ResponseWriter, r *http.Request) error {
	var ask contract.SilenceRequest
	form, err := readBody(r, &ask)
	if err != nil {
		return err
	}
	const longest = 400 * 24 * 60 * 60 // more than may be, and no more than a time.Duration holds
	if !(ask.Duration > 0 && ask.Duration < longest) {
		return refuse(http.StatusUnprocessableEntity, "duration_seconds must be more than 0, and 366 days at most", "give the seconds for which nobody is to be told")
	}
	made, err := s.cfg.Alerts.Silence(
		alert.Silence{Rule: ask.Rule, Node: ask.Node, GPU: ask.GPUUUID, By: ask.By, Comment: ask.Comment},
		time.Duration(ask.Duration*float64(time.Second)))
	switch {
	case err != nil:
		return alertError(err)
	case form:
		return s.toAlerts(w, r)
	default:
		return answerNow(w, r, http.StatusCreated, contract.NewSilence(&made))
	}
}

func (s *Server) unsilence(w http.ResponseWriter, r *http.Request) error {
	if err := s.cfg.Alerts.Unsilence(r.PathValue("id")); err != nil {
		return alertError(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// toAlerts leads a browser that has sent a form back to the page.
func (s *Server) toAlerts(w http.ResponseWriter, r *http.Request) error {
	http.Redirect(w, r, s.cfg.BasePath+"/#alerts", http.StatusSeeOther)
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

// readBody reads JSON into a struct, or a form whose fields have the same names;
// nothing where there is no body. It reports whether it was a form.
func readBody(r *http.Request, into any) (form bool, err error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return false, refuse(http.StatusRequestEntityTooLarge, "the body can't be read: "+err.Error(), "send one of 64 KiB at most")
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(content) == 0:
		return kind == typeForm, nil
	case err != nil || kind != typeJSON && kind != typeForm:
		return false, refuse(http.StatusUnsupportedMediaType, "the body is "+quote(r.Header.Get("Content-Type")), "send it as "+typeJSON)
	case kind == typeForm:
		if content, err = formAsJSON(string(content)); err != nil {
			return false, err
		}
		form = true
	}
	if !json.Valid(content) {
		return false, refuse(http.StatusBadRequest, "the body is no JSON", "send an object, such as {}")
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return false, refuse(http.StatusUnprocessableEntity, "the body is not what it must be: "+strings.TrimPrefix(err.Error(), "json: "), "/docs says what it may have")
	}
	return form, nil
}

const typeForm = "application/x-www-form-urlencoded"

// formAsJSON makes an object of a form's fields. The one that is a number
// becomes one.
func formAsJSON(content string) ([]byte, error) {
	values, err := url.ParseQuery(content)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the form can't be read", "send it as a browser does")
	}
	object := map[string]any{}
	for name := range values {
		object[name] = values.Get(name)
		if n, err := strconv.ParseFloat(values.Get(name), 64); err == nil && name == "duration_seconds" && !math.IsNaN(n) && !math.IsInf(n, 0) {
			object[name] = n
		}
	}
	return json.Marshal(object)
}
