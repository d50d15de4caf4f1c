package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// The bounds of one HTTP exchange.
const (
	reachTime    = 15 * time.Second // to reach a server
	exchangeTime = 2 * time.Minute  // until it has answered: some servers act before they answer, and would get the message again
	mostAnswer   = 64 << 10         // bytes of a body that are read
	shareOfCut   = 24               // a connection that ends unanswered after this part of exchangeTime (5 s) is cut by a proxy
)

// A sender delivers a message to a target. It returns soon after ctx ends, and returns a [failure]
// if the target did not accept the message.
type sender func(ctx context.Context, target Secret, m letter) error

// A letter is a message in the form that a target gets.
type letter struct {
	title, text string
	// urgency is the worst severity of its open alerts, or "over" if all are over; empty if unknown.
	urgency string
}

// urgency is how urgent a message of events is.
func urgency(events []Event) string {
	worst := over
	for i := range events {
		e := &events[i]
		if !e.IsOver() && (worst == over || e.rank() > alert.Severity(worst).Rank()) {
			worst = e.Severity
		}
	}
	return worst
}

type courier struct{ *http.Client }

// newCourier returns a courier that limits the time of each exchange, uses the proxies that the
// environment names, follows no redirects, and keeps no connections, because messages are rare.
func newCourier() courier {
	return courier{&http.Client{
		Timeout: exchangeTime,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			DialContext: (&net.Dialer{Timeout: reachTime}).DialContext, TLSHandshakeTimeout: reachTime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c courier) send(ctx context.Context, target Secret, m letter) error {
	title, text := m.title, m.text
	if !serviceOf(target).titled {
		text = title + "\n" + text
	}
	a, err := target.parse()
	if err = cmp.Or(err, target.usable()); err == nil {
		a.urgency = m.urgency
	}
	switch {
	case err != nil:
	case a.service.mail():
		err = sendMail(ctx, a, title, text)
	default: // all requests, also after one that failed
		a.service.bring(a, title, text, func(q call) (reply, bool) {
			r, failed := c.do(ctx, &q)
			err = cmp.Or(err, failed)
			return r, failed == nil
		})
	}
	if err != nil {
		err = failed(target, cmp.Or(context.Cause(ctx), err))
	}
	return err
}

type header map[string]string

// A call is one request of a service.
type call struct {
	method     string // empty: POST
	url        string
	user       *url.Userinfo // for basic authentication; may be nil
	header     header
	body       any              // a text, a form (url.Values), or what is sent as JSON; nil: nothing
	unverified bool             // any certificate is good
	took       func(reply) bool // whether an answer with a 2xx status says that the message was accepted; nil: always
}

type reply struct {
	text string
	json map[string]any // nil where the body is no JSON object
}

func isJSON(r reply) bool { return r.json != nil }

// is returns a check of one member of the answer.
func is(name string, value any) func(reply) bool {
	return func(r reply) bool { return r.json != nil && r.json[name] == value }
}

func (c courier) do(ctx context.Context, call *call) (reply, error) {
	request, err := call.request(ctx)
	if err != nil {
		return reply{}, err
	}
	client := c.Client
	if transport, ok := client.Transport.(*http.Transport); ok && call.unverified {
		transport = transport.Clone()
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // as the address asks for
		client = &http.Client{Timeout: client.Timeout, Transport: transport, CheckRedirect: client.CheckRedirect}
	}
	var wrote atomic.Pointer[time.Time] // when the whole request was written
	request = request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				wrote.Store(new(time.Now()))
			}
		},
	}))
	answer, err := client.Do(request)
	if written := wrote.Load(); err != nil && written != nil && ctx.Err() == nil {
		late, ok := errors.AsType[net.Error](err)
		switch {
		case ok && late.Timeout():
			return reply{}, silent(client.Timeout)
		case (errors.Is(err, io.EOF) || neterr.Cut(err)) && time.Since(*written) >= client.Timeout/shareOfCut:
			return reply{}, errCut
		}
	}
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	if err != nil && answer.StatusCode < 300 && ctx.Err() == nil {
		if call.took == nil {
			err = nil
		} else {
			err = errCut
		}
	}
	r := reply{text: string(body)}
	if json.Unmarshal(body, &r.json) != nil {
		r.json = nil
	}
	if answer.StatusCode >= 300 {
		return r, refused(answer.StatusCode, r, retryAfter(answer.Header, r))
	}
	if call.took == nil {
		return r, nil
	}
	if err == nil && !call.took(r) {
		err = refused(answer.StatusCode, r, 0)
	}
	return r, err
}

func (c *call) request(ctx context.Context) (*http.Request, error) {
	var body []byte
	kind := "application/json"
	switch b := c.body.(type) {
	case nil:
	case string:
		body = []byte(b)
	case url.Values:
		body, kind = []byte(b.Encode()), "application/x-www-form-urlencoded"
	default:
		var err error
		if body, err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, cmp.Or(c.method, http.MethodPost), c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "gpuwhy")
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	for name, value := range c.header {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if c.user != nil {
		password, _ := c.user.Password()
		r.SetBasicAuth(c.user.Username(), password)
	}
	return r, nil
}

// understood reports whether its service understands the URL. It asks no server.
func (a *address) understood() bool {
	if a.service.mail() {
		_, _, err := newMail(context.Background(), a, "title", "text")
		return err == nil
	}
	tried, failed := false, false
	a.service.bring(a, "title", "text", func(q call) (reply, bool) {
		_, err := q.request(context.Background())
		tried, failed = true, failed || err != nil
		return reply{}, false
	})
	return tried && !failed && !a.bad && (len(a.rest) == 0 || a.service.anyParameter)
}

// retryAfter is how long a server asks to wait; 0 if it does not say.
func retryAfter(header http.Header, r reply) time.Duration {
	seconds, _ := r.json["retry_after"].(float64) // Discord
	if parameters, ok := r.json["parameters"].(map[string]any); ok {
		seconds, _ = parameters["retry_after"].(float64) // Telegram
	}
	if wait, err := time.ParseDuration(strings.TrimSpace(header.Get("Retry-After")) + "s"); err == nil {
		seconds = max(seconds, wait.Seconds())
	} else if retry, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		seconds = max(seconds, time.Until(retry).Seconds())
	}
	return time.Duration(min(max(seconds, 0), longestRefuse.Seconds()) * float64(time.Second))
}
