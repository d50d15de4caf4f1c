package server

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

// readBody reads JSON into a struct, or a form whose fields have the same names. It
// reads nothing if there is no body. If it was a form, it returns the form.
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
	err = strictjson.Decode(content, into)
	switch e, _ := errors.AsType[*strictjson.Error](err); {
	case e == nil:
		return form, err
	case e.Kind == strictjson.Mismatch:
		return nil, refuse(http.StatusUnprocessableEntity, "the body "+e.Error(), "/docs says what the body may have")
	default:
		return nil, badJSON(e)
	}
}

// unreadable says why a body could not be read to its end.
func unreadable(err error) error {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	what := "the body can't be read: " + err.Error()
	switch {
	case tooLarge:
		return refuse(http.StatusRequestEntityTooLarge, what, "send one of 64 KiB at most")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "the body did not come in time", "send it within "+strconv.Itoa(int(readTimeout.Seconds()))+" seconds")
	default:
		return refuse(http.StatusBadRequest, what, "send it whole")
	}
}

func badJSON(err error) error {
	return refuse(http.StatusBadRequest, "the body "+err.Error(), "send an object, such as {}")
}

func badContent(contentType string) error {
	return refuse(http.StatusUnsupportedMediaType, "the body is "+quote(contentType), "send it as "+typeJSON)
}

// A sentForm is what a browser sends without a script.
type sentForm struct {
	// page is the page with the form: "alerts", or "gpu/" and a UUID. Any other
	// text means the dashboard.
	page string
}

// asJSON makes a JSON object of the form's fields, without the page. The duration
// becomes a number.
func (f *sentForm) asJSON(content string) ([]byte, error) {
	bad := func(what string) ([]byte, error) {
		return nil, refuse(http.StatusBadRequest, "the form "+what, "send it as a browser does")
	}
	fields, err := url.ParseQuery(content)
	if err != nil {
		return bad("can't be read")
	}
	f.page = fields.Get("page")
	fields.Del("page")
	object := map[string]any{}
	for name, values := range fields {
		if len(values) > 1 {
			return bad("has the field " + quote(name) + " twice")
		}
		if !utf8.ValidString(name + values[0]) {
			return bad("is not valid UTF-8")
		}
		object[name] = values[0]
		if n, err := strconv.ParseFloat(values[0], 64); err == nil && name == "duration_seconds" && !math.IsNaN(n) && !math.IsInf(n, 0) {
			object[name] = n
		}
	}
	return json.Marshal(object)
}

// back redirects a browser that has sent a form to the page with the form. It is
// one of our pages, whatever the form says.
func (s *Server) back(w http.ResponseWriter, r *http.Request, form *sentForm) error {
	path := "/#alerts"
	if uuid, ok := strings.CutPrefix(form.page, "gpu/"); ok {
		path = "/gpu/" + url.PathEscape(uuid) + "#alerts"
	} else if form.page == "alerts" {
		path = "/alerts"
	}
	http.Redirect(w, r, s.base(r)+path, http.StatusSeeOther)
	return nil
}
