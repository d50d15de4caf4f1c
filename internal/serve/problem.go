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
	"github.com/gpuwhy/gpuwhy/internal/auth"
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

// A StatusError is advice with the status that it is answered with.
type StatusError struct {
	status int
	advice gpu.Advice
	// The header that the status needs; empty if it needs none.
	header, value string
}

// Error implements error.
func (e *StatusError) Error() string { return http.StatusText(e.status) + ": " + e.advice.Error() }

// Unwrap is the advice.
func (e *StatusError) Unwrap() error { return &e.advice }

// Refuse returns the error that a request is refused with: what is wrong, and what to do.
func Refuse(status int, what, try string) *StatusError {
	return Advise(status, gpu.Advice{What: what, Try: try})
}

// Advise is Refuse with what somebody else has found.
func Advise(status int, advice gpu.Advice) *StatusError {
	return &StatusError{status: status, advice: advice}
}

// RetryAfter returns the error with the seconds after which to ask again.
func (e *StatusError) RetryAfter(seconds string) *StatusError { return e.With("Retry-After", seconds) }

// With returns the error with the header that its status needs.
func (e *StatusError) With(header, value string) *StatusError {
	e.header, e.value = header, value
	return e
}

// AsRefusal is what a request is told of an error, and the status that it gets.
func AsRefusal(err error) (status int, advice gpu.Advice) {
	e := asStatusError(err)
	return e.status, e.advice
}

// An Outage is an error of something that can't be reached now, such as the database of accounts. Requests that need it are answered with
// 503 and the error's advice.
type Outage interface {
	error
	Outage()
}

var errOutage = Refuse(http.StatusServiceUnavailable, "gpuwhy can't reach its database of accounts at this moment", "try again in a few seconds; gpuwhy's log has the reason").RetryAfter("5")

// asStatusError takes an error without a status for an internal one.
func asStatusError(err error) *StatusError {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e
	}
	if r, ok := errors.AsType[*action.Refusal](err); ok {
		return Advise(r.Status, r.Advice())
	}
	if _, ok := errors.AsType[Outage](err); ok {
		return Advise(http.StatusServiceUnavailable, gpu.AsAdvice(err)).RetryAfter("5")
	}
	return Advise(http.StatusInternalServerError, gpu.AsAdvice(err))
}

// ErrNothing is returned for an address at which there is nothing.
var ErrNothing = errors.New("there is nothing at this address")

// fail answers with an error, and logs it if it is an internal one.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ErrNothing) {
		err = s.nothing(r)
	}
	e := asStatusError(err)
	if _, ok := errors.AsType[Outage](err); ok && !auth.FromRequest(r).May(auth.Read) {
		e = errOutage // where the database is does not concern strangers
	}
	if e.status == http.StatusInternalServerError && r.Context().Err() == nil { // else nobody waits for it any more
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	s.writeProblem(w, r, e)
}

// writeProblem answers with a page if the client prefers one.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, e *StatusError) {
	contentType, content := typeHTML, []byte(nil)
	if negotiate.Type(r.Header, typeProblem, typeJSON, typeHTML) == typeHTML {
		var page bytes.Buffer
		if err := s.cfg.Pages.Error(e.status, http.StatusText(e.status), e.advice).Render(r.Context(), &page); err != nil {
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

// nothing says that there is nothing at the address of a request, and suggests similar addresses.
func (s *Server) nothing(r *http.Request) error {
	what := ErrNothing.Error()
	var there []string
	for _, route := range s.routes {
		if !strings.Contains(route.Path, "{") {
			there = append(there, s.kit.BasePath+route.Path)
		}
	}
	if path := strings.TrimSuffix(r.URL.Path, "/"); strings.Count(path, "/") > 1 { // a word alone may be anything
		end := path[strings.LastIndexByte(path, '/'):]
		what += cmp.Or(nearest.Hint(path, slices.DeleteFunc(slices.Clone(there), func(other string) bool { return !strings.HasSuffix(other, end) })), nearest.Hint(path, there))
	}
	return Refuse(http.StatusNotFound, what, "start at gpuwhy's page, "+s.kit.Root())
}

// otherwise answers with the methods that an address takes, or with 404 if there is none.
func (s *Server) otherwise(mux *http.ServeMux) Handler {
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
			return ErrNothing
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusNoContent)
			return nil
		default:
			e := Refuse(http.StatusMethodNotAllowed, "this address does not allow "+Quote(r.Method), "use one of "+allow)
			e.header, e.value = "Allow", allow
			return e
		}
	}
}

func crossOriginDenied(http.ResponseWriter, *http.Request) error {
	return Refuse(http.StatusForbidden, "pages from other origins may not change anything here", "use gpuwhy's own page")
}

// ParseQuery reads the whole query, or fails. net/url alone silently drops parts,
// such as one with a semicolon; a filter that is dropped would let everything pass.
func ParseQuery(r *http.Request) (query url.Values, err error) {
	if r.URL.RawQuery != "" {
		query, err = url.ParseQuery(r.URL.RawQuery)
	}
	if err != nil {
		return nil, Refuse(http.StatusUnprocessableEntity, "the query "+Quote(r.URL.RawQuery)+" can't be read",
			"separate parameters with &, and write %3B for a semicolon and %25 for a percent sign in a value")
	}
	return query, nil
}

// Quote makes a client's text safe for a sentence: valid, printable and short.
func Quote(text string) string {
	const longest = 80
	text = strings.ToValidUTF8(text, "�")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return strconv.Quote(text)
}
