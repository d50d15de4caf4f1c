package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/negotiate"
)

// A problem is an error on the wire (RFC 9457).
type problem struct {
	Type   string `json:"type"`                // always about:blank: the status says what kind of error it is
	Title  string `json:"title"`               // the status in words
	Status int    `json:"status" unit:"count"` // the HTTP status
	Detail string `json:"detail"`              // what happened and what to do
}

// A statusError is advice with the HTTP status of its answer.
type statusError struct {
	status int
	advice gpu.Advice
	// The header that the status needs; empty if it needs none.
	header, value string
}

func (e *statusError) Error() string { return http.StatusText(e.status) + ": " + e.advice.Error() }
func (e *statusError) Unwrap() error { return &e.advice }

func refuse(status int, what, try string) *statusError {
	return &statusError{status: status, advice: gpu.Advice{What: what, Try: try}}
}

// asStatusError treats an error without a status as an internal one.
func asStatusError(err error) *statusError {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e
	}
	if r, ok := errors.AsType[*action.Refusal](err); ok {
		return &statusError{status: r.Status, advice: r.Advice()}
	}
	return &statusError{status: http.StatusInternalServerError, advice: gpu.AsAdvice(err)}
}

// fail answers with an error, and logs it if it is an internal one.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := asStatusError(err)
	if e.status == http.StatusInternalServerError && r.Context().Err() == nil { // else nobody waits for it any more
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	s.writeProblem(w, r, e)
}

// writeProblem answers with a page if the client prefers one.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, e *statusError) {
	contentType, content := typeHTML, []byte(nil)
	if negotiate.Type(r.Header, typeProblem, typeJSON, typeHTML) == typeHTML {
		var page bytes.Buffer
		if err := s.cfg.ErrorPage(e.status, http.StatusText(e.status), e.advice).Render(r.Context(), &page); err != nil {
			s.log.Error("error page failed", "path", r.URL.Path, "error", err)
		} else {
			content = page.Bytes()
		}
	}
	if content == nil {
		contentType = typeProblem
		content, _ = json.Marshal(newProblem(e.status, e.advice.Text())) // plain fields can always be encoded
	}
	if e.header != "" {
		w.Header().Set(e.header, e.value)
	}
	addVary(w.Header(), byAccept)
	sendNow(w, r, e.status, contentType, content)
}

func newProblem(status int, detail string) any {
	return problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// The errors that any route may answer with.

func (s *Server) notFound(_ http.ResponseWriter, r *http.Request) error {
	what := "there is nothing at this address"
	var there []string
	for _, route := range s.routes() {
		if !strings.Contains(route.Path, "{") {
			there = append(there, s.cfg.BasePath+route.Path)
		}
	}
	if path := strings.TrimSuffix(r.URL.Path, "/"); strings.Count(path, "/") > 1 { // a word alone may be anything
		end := path[strings.LastIndexByte(path, '/'):]
		what += cmp.Or(nearest.Hint(path, slices.DeleteFunc(slices.Clone(there), func(of string) bool { return !strings.HasSuffix(of, end) })), nearest.Hint(path, there))
	}
	return refuse(http.StatusNotFound, what, "start at gpuwhy's page, "+s.cfg.BasePath+"/")
}

// otherwise answers with the methods that an address takes, or with 404 if there is none.
func (s *Server) otherwise(mux *http.ServeMux) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var takes []string
		r.Pattern = ""
		for _, method := range []string{"DELETE", "GET", "HEAD", "OPTIONS", "POST"} {
			_, pattern := mux.Handler(&http.Request{Method: method, Host: r.Host, URL: r.URL})
			_, path, named := strings.Cut(pattern, " ")
			if named {
				r.Pattern = path
			}
			if named || method == http.MethodOptions {
				takes = append(takes, method)
			}
		}
		allow := strings.Join(takes, ", ")
		switch {
		case r.Pattern == "":
			return s.notFound(w, r)
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusNoContent)
			return nil
		default:
			e := refuse(http.StatusMethodNotAllowed, "this address does not allow "+quote(r.Method), "use one of "+allow)
			e.header, e.value = "Allow", allow
			return e
		}
	}
}

func crossOriginDenied(http.ResponseWriter, *http.Request) error {
	return refuse(http.StatusForbidden, "pages from other origins may not change anything here", "use gpuwhy's own page")
}

// parseQuery reads the whole query, or fails. net/url alone silently drops parts,
// such as one with a semicolon; a filter that is dropped would let everything pass.
func parseQuery(r *http.Request) (query url.Values, err error) {
	if r.URL.RawQuery != "" {
		query, err = url.ParseQuery(r.URL.RawQuery)
	}
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "the query "+quote(r.URL.RawQuery)+" can't be read",
			"separate parameters with &, and write %3B for a semicolon and %25 for a percent sign in a value")
	}
	return query, nil
}

// quote makes a client's text safe to quote in a sentence: valid, printable and short.
func quote(text string) string {
	const longest = 80
	text = strings.ToValidUTF8(text, "�")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return strconv.Quote(text)
}
