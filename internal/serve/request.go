package serve

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

const typeForm = "application/x-www-form-urlencoded"

// readBody reads JSON, if there is any, or a form with the same names, which it also returns.
func readBody(r *http.Request, into any) (form url.Values, err error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unreadable(err)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(content) > 0 && (err != nil || kind != typeJSON && kind != typeForm):
		return nil, badContent(r.Header.Get("Content-Type"))
	case kind == typeForm:
		if form, content, err = readForm(string(content)); err != nil {
			return nil, err
		}
	case len(content) == 0:
		return form, nil
	}
	err = strictjson.Decode(content, into)
	switch e, _ := errors.AsType[*strictjson.Error](err); {
	case e == nil:
		return form, err
	case e.Kind == strictjson.Mismatch:
		return nil, Refuse(http.StatusUnprocessableEntity, "the body "+e.Error(), "/docs says what the body may have")
	default:
		return nil, badJSON(e)
	}
}

// readForm reads what a browser sends without a script, and makes a JSON object of its fields, in
// which the duration is a number and the IDs of alerts are a list. The field page is for [Server.back] alone.
func readForm(content string) (form url.Values, object []byte, err error) {
	bad := func(what string) (url.Values, []byte, error) {
		return nil, nil, Refuse(http.StatusBadRequest, "the form "+what, "send it as a browser does")
	}
	if form, err = url.ParseQuery(content); err != nil {
		return bad("can't be read")
	}
	fields := map[string]any{}
	for name, values := range form {
		switch n, notNumber := strconv.ParseFloat(values[0], 64); {
		case name == "page":
		case name == "alert_ids" && utf8.ValidString(strings.Join(values, "")):
			fields[name] = values
		case len(values) > 1:
			return bad("has the field " + Quote(name) + " twice")
		case !utf8.ValidString(name + values[0]):
			return bad("is not valid UTF-8")
		case name == "duration_seconds" && notNumber == nil && !math.IsNaN(n) && !math.IsInf(n, 0):
			fields[name] = n
		default:
			fields[name] = values[0]
		}
	}
	object, err = json.Marshal(fields)
	return form, object, err
}

// unreadable says why a body could not be read to its end.
func unreadable(err error) error {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	what := "the body can't be read: " + err.Error()
	switch {
	case tooLarge:
		return Refuse(http.StatusRequestEntityTooLarge, what, "send one of 256 KiB at most")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Refuse(http.StatusRequestTimeout, "the body did not come in time", "send it within "+strconv.Itoa(int(readTimeout.Seconds()))+" seconds")
	default:
		return Refuse(http.StatusBadRequest, what, "send it whole")
	}
}

func badJSON(err error) error {
	return Refuse(http.StatusBadRequest, "the body "+err.Error(), "send an object, such as {}")
}

func badContent(contentType string) error {
	return Refuse(http.StatusUnsupportedMediaType, "the body is "+Quote(contentType), "send it as "+typeJSON)
}

// back leads from a form to its page, which the field page names: "alerts", perhaps with a query, "gpu/"
// and a UUID, or any other text for the dashboard. It is one of our pages, whatever the form says.
func (s *Server) back(w http.ResponseWriter, r *http.Request, form url.Values) error {
	path := "/#alerts"
	page, asked, _ := strings.Cut(form.Get("page"), "?")
	if uuid, ok := strings.CutPrefix(page, "gpu/"); ok {
		path = "/gpu/" + url.PathEscape(uuid) + "#alerts"
	} else if page == "alerts" {
		path = "/alerts"
		if chosen, err := url.ParseQuery(asked); err == nil && len(chosen) > 0 {
			path += "?" + chosen.Encode()
		}
	}
	http.Redirect(w, r, s.kit.Base(r)+path, http.StatusSeeOther)
	return nil
}
