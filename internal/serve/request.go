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
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/strictjson"
)

const typeForm = "application/x-www-form-urlencoded"

// readBody reads JSON, if there is any, or a form with the same names, which it also returns.
func readBody(r *http.Request, shape action.Form, body any) (form url.Values, err error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unreadable(err)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case len(content) > 0 && (err != nil || kind != typeJSON && kind != typeForm):
		return nil, badContent(r.Header.Get("Content-Type"))
	case kind == typeForm:
		if form, content, err = readForm(string(content), shape); err != nil {
			return nil, err
		}
	case len(content) == 0:
		return form, nil
	}
	err = strictjson.Decode(content, body)
	switch e, _ := errors.AsType[*strictjson.Error](err); {
	case e == nil:
		return form, err
	case e.Kind == strictjson.Mismatch:
		return nil, Refuse(http.StatusUnprocessableEntity, "the body "+e.Error(), "see /docs for what the body may have")
	default:
		return nil, badJSON(e)
	}
}

// readForm reads what a browser sends without a script, and makes a JSON object of its fields, in
// which fields are lists, numbers and switches as the action says. The field page says where the form is, and is no argument.
func readForm(content string, shape action.Form) (form url.Values, object []byte, err error) {
	bad := func(what string) (url.Values, []byte, error) {
		return nil, nil, Refuse(http.StatusBadRequest, "the form "+what, "send it as a browser would")
	}
	if form, err = url.ParseQuery(content); err != nil {
		return bad("can't be read")
	}
	fields := map[string]any{}
	for name, values := range form {
		switch n, notNumber := strconv.ParseFloat(values[0], 64); {
		case name == "page":
		case slices.Contains(shape.Lists, name) && utf8.ValidString(strings.Join(values, "")):
			fields[name] = values
		case len(values) > 1:
			return bad("has the field " + Quote(name) + " twice")
		case !utf8.ValidString(name + values[0]):
			return bad("is not valid UTF-8")
		case slices.Contains(shape.Numbers, name) && notNumber == nil && !math.IsNaN(n) && !math.IsInf(n, 0):
			fields[name] = n
		case slices.Contains(shape.Numbers, name) && values[0] == "": // a field that was left empty
		case slices.Contains(shape.Switches, name) && (values[0] == "true" || values[0] == "false"):
			fields[name] = values[0] == "true"
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
		return Refuse(http.StatusRequestEntityTooLarge, what, "send at most 256 KiB")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Refuse(http.StatusRequestTimeout, "the body did not arrive in time", "send it within "+strconv.Itoa(int(readTimeout.Seconds()))+" seconds")
	default:
		return Refuse(http.StatusBadRequest, what, "send the whole body")
	}
}

func badJSON(err error) error {
	return Refuse(http.StatusBadRequest, "the body "+err.Error(), "send an object, such as {}")
}

func badContent(contentType string) error {
	return Refuse(http.StatusUnsupportedMediaType, "the body is "+Quote(contentType), "send it as "+typeJSON)
}
