// Package client talks to a running gpuwhy over its HTTP API and its WebSocket.
//
// Each function such as [GetWhy] or [ListSessions] makes a [Call], which describes a request and the type of its answer. [Do] sends it with a
// [Client], and [Client.Copy] writes an answer as it arrives, such as a table. [Client.Dial] follows events as they happen.
//
//	c, err := client.New("http://127.0.0.1:8003", client.Options{})
//	why, err := client.Do(ctx, c, client.GetWhy())
//
// Errors of the network are [gpu.Advice], which say what to do; errors.Is finds [ErrNobody] and [ErrForeign] in them. What gpuwhy
// refuses is a [*Problem].
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var (
	// ErrNobody is wrapped in errors if nothing listens at the address.
	ErrNobody = errors.New("nothing is listening there")
	// ErrForeign is wrapped in errors if something else answers, such as another program, a proxy or a sign-in.
	ErrForeign = errors.New("the answer is not gpuwhy's")
	// ErrUnsaved is returned, together with the answer, for a change that is in effect and that a restart of gpuwhy would lose.
	ErrUnsaved error = &gpu.Advice{What: "the change is in effect, but gpuwhy could not save it to its state directory", Try: "check the free space there and gpuwhy's log: it will retry, and a restart before then loses the change"}
)

// Content types of answers.
const (
	TypeJSON = "application/json"
	TypeCSV  = "text/csv"

	typeProblem = "application/problem+json"
)

const (
	// longestAnswer is the longest answer that is read as a whole, in bytes.
	longestAnswer = 64 << 20
	// longestError is the same for error answers.
	longestError = 64 << 10
)

// Options are the settings of a [Client]. The zero value asks once, without a token, with [OrdinaryPatience].
type Options struct {
	// Token is sent with each request as "Authorization: Bearer"; empty sends none. It is sent only to the address's machine,
	// and never after a redirect from https to http.
	Token string
	// Patience is how long answers may take; the zero value means [OrdinaryPatience].
	Patience Patience
	// Retry is how long Do asks again, once a second, while gpuwhy answers that it can't say yet; 0 asks once. Only questions are
	// repeated, never requests that change something.
	Retry time.Duration
	// Flag is the flag with which people name another address, for advice in errors; empty if there is none.
	Flag string
	// Transport sends requests; nil is [http.DefaultTransport].
	Transport http.RoundTripper
}

// A Client sends requests to one gpuwhy. Any number of goroutines may use it.
type Client struct {
	options Options
	base    string // without a trailing slash
	address string // as it was given
}

// New returns a client of the gpuwhy at an address such as http://127.0.0.1:8003, which may have a path, a user name and a
// password, or at a Unix socket: unix:/run/gpuwhy/page, or with a base path unix:/run/gpuwhy/page:/gpus/. Its error is a [gpu.Advice] about the address. It sends no request.
func New(address string, o Options) (*Client, error) {
	if o.Patience == (Patience{}) {
		o.Patience = OrdinaryPatience
	}
	base, socket, isUnix := overUnix(address)
	switch {
	case isUnix: // whatever transport there is for networks
		o.Transport = unixTransport(socket)
	case o.Transport == nil:
		o.Transport = http.DefaultTransport
	}
	if !isUnix {
		base = strings.TrimRight(address, "/")
	}
	c := &Client{o, base, address}
	if err := checkAddress(c.base); err != nil {
		return nil, err
	}
	return c, nil
}

// Address returns the address for people, without a password.
func (c *Client) Address() string {
	if _, _, isUnix := overUnix(c.address); isUnix {
		return c.address
	}
	if u, err := url.Parse(c.base); err == nil {
		return u.Redacted()
	}
	return c.base
}

// A Request is a request to gpuwhy with any kind of answer.
type Request struct {
	Method string // empty: GET
	Path   string // below the address of gpuwhy, escaped, with a leading slash
	Query  url.Values
	Body   any    // sent as JSON; nil: none
	Type   string // the content type of the answer; empty: [TypeJSON]
}

func (r *Request) reads() bool { return r.Method == "" }

// Table returns the request for the same answer as CSV with a header line. Only answers about a span of the past are available as
// CSV.
func (r Request) Table() Request {
	query := url.Values{"format": {"csv"}}
	maps.Copy(query, r.Query)
	r.Query, r.Type = query, TypeCSV
	return r
}

// A Problem is an error answer of gpuwhy.
type Problem struct {
	Status int    // the HTTP status
	Line   string // Status with its words, such as "503 Service Unavailable"
	Detail string // what happened and what to do, in gpuwhy's words; it is plain text, not markup, and may have any characters
	// After is how long to wait before asking again; 0 if gpuwhy does not say.
	After time.Duration
}

// Error returns the detail.
func (p *Problem) Error() string { return p.Detail }

func newProblem(answer *http.Response, body []byte) *Problem {
	p := &Problem{Status: answer.StatusCode, Line: answer.Status}
	var said struct{ Detail string }
	if json.Unmarshal(body, &said) == nil {
		p.Detail = said.Detail
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		p.After = time.Duration(seconds) * time.Second
	}
	p.Detail = cmp.Or(p.Detail, strings.TrimSpace(string(body)))
	return p
}

// Copy sends the request and writes the answer as it arrives, however long it is. After an error other than [ErrUnsaved], what has
// been written is only a part of the answer.
func (c *Client) Copy(ctx context.Context, w io.Writer, r Request) error {
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if !r.answeredBy(answer) {
		return c.instead(answer)
	}
	_, err = io.Copy(w, answer.Body)
	if err == nil && answer.StatusCode == http.StatusAccepted {
		err = ErrUnsaved
	}
	return err
}

// answeredBy reports whether an answer is the requested one. Only 200 answers a question: networks with a sign-in page answer
// everything with 204. A change may also be answered with what it created, or with nothing, and may not be saved yet.
func (r *Request) answeredBy(answer *http.Response) bool {
	typed := strings.HasPrefix(answer.Header.Get("Content-Type"), cmp.Or(r.Type, TypeJSON))
	switch answer.StatusCode {
	case http.StatusOK:
		return typed
	case http.StatusCreated:
		return typed && !r.reads()
	case http.StatusAccepted: // without a type if it would be 204
		return (typed || answer.Header.Get("Content-Type") == "") && !r.reads()
	case http.StatusNoContent:
		return !r.reads()
	}
	return false
}

// instead is the error for an answer that is not the requested one.
func (c *Client) instead(answer *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(answer.Header.Get("Content-Type"), typeProblem):
		return newProblem(answer, body)
	}
	return c.refused(answer, body)
}

// Ready asks whether gpuwhy is ready: whether it has a reading, or knows that none is possible. If it is not, or if anything else
// answers that way, the error is a [*Problem].
func (c *Client) Ready(ctx context.Context) error {
	answer, err := c.send(ctx, Request{Path: "/health/ready"})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, longestError))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = newProblem(answer, body)
	}
	return err
}

// retryEach is the wait before asking again, if gpuwhy does not say.
const retryEach = time.Second

// Do sends a call and returns the answer. With [Options.Retry] it asks again while gpuwhy answers that it can't
// say yet.
func Do[A any](ctx context.Context, c *Client, call Call[A]) (*A, error) {
	for begun := time.Now(); ; {
		asked, wait := time.Now(), retryEach
		answer, err := once(ctx, c, call)
		problem, refused := errors.AsType[*Problem](err)
		early := refused && problem.Status == http.StatusServiceUnavailable || err == nil && call.early != nil && call.early(answer)
		if !early || !call.reads() || time.Since(begun) >= c.options.Retry {
			return answer, err
		}
		if refused {
			wait = max(wait, problem.After)
		}
		select {
		case <-time.After(wait - time.Since(asked)):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func once[A any](ctx context.Context, c *Client, call Call[A]) (*A, error) {
	var body bytes.Buffer
	err := c.Copy(ctx, &limited{&body, longestAnswer}, call.Request)
	if err != nil && !errors.Is(err, ErrUnsaved) {
		return nil, err
	}
	answer, unread := call.Decode(body.Bytes())
	if unread != nil {
		return nil, c.foreign(unread)
	}
	return answer, err
}

// limited writes only a limited number of bytes.
type limited struct {
	out  io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, &gpu.Advice{What: "the answer is larger than " + strconv.Itoa(longestAnswer>>20) + " MiB", Try: "ask for a shorter time, or for a table"}
	}
	return l.out.Write(p)
}

// send sends a request once. The caller closes the body of the answer, whatever its status. Errors are [gpu.Advice], except
// if ctx has ended.
func (c *Client) send(ctx context.Context, r Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := c.request(ctx, &r)
	if err != nil {
		cancel(err)
		return nil, err
	}
	answer, err := c.patiently(ctx, cancel, request)
	if err != nil {
		cancel(nil)
		return nil, c.explain(err)
	}
	answer.Body = &steady{body: answer.Body, ctx: ctx, cancel: cancel, stalled: c.options.Patience.Stalled, late: &gpu.Advice{
		What: fmt.Sprintf("gpuwhy at %s stopped in the middle of its answer and sent nothing more for %s", c.Address(), c.options.Patience.Stalled),
		Try:  "try again; if it happens again, restart it, or ask for a shorter time",
	}}
	return answer, nil
}

func (c *Client) request(ctx context.Context, r *Request) (*http.Request, error) {
	address, body := c.base+r.Path, io.Reader(nil)
	if len(r.Query) > 0 {
		address += "?" + r.Query.Encode()
	}
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, fmt.Errorf("encode the body for %s: %w", r.Path, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(r.Method, http.MethodGet), address, body)
	if err != nil {
		return nil, &gpu.Advice{What: fmt.Sprintf("%q is not a URL", c.Address()), Try: tryAddress, Err: err}
	}
	request.Header.Set("Accept", cmp.Or(r.Type, TypeJSON))
	if r.Body != nil {
		request.Header.Set("Content-Type", TypeJSON)
	}
	c.authorize(request.Header)
	return request, nil
}

func (c *Client) authorize(h http.Header) {
	if c.options.Token != "" {
		h.Set("Authorization", "Bearer "+c.options.Token)
	}
}
