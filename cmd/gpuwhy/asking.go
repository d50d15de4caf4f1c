package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// patience is how long a gpuwhy that is asked may take.
type patience struct {
	silent  time.Duration // until it begins its answer, or shows otherwise that it lives
	working time.Duration // until it begins its answer while it lives
	stalled time.Duration // without a byte more of an answer that it has begun
}

// ordinaryPatience lets an answer be as long as it likes, while it goes on.
var ordinaryPatience = patience{silent: 10 * time.Second, working: 2 * time.Minute, stalled: 30 * time.Second}

// asking is one question to a gpuwhy over HTTP.
type asking struct {
	client http.RoundTripper
	patience
	base   string // where gpuwhy is served, without a slash at its end
	path   string // with the query
	accept string
}

// newAsking asks the gpuwhy that is served at an address.
func newAsking(base, path, accept string) *asking {
	return &asking{client: http.DefaultTransport, patience: ordinaryPatience, base: strings.TrimRight(base, "/"), path: path, accept: accept}
}

// shown is the address for people, without a password.
func (a *asking) shown() string {
	if u, err := url.Parse(a.base); err == nil {
		return u.Redacted()
	}
	return a.base
}

// checkURL says what is wrong with the address of a gpuwhy.
func checkURL(base string) error {
	u, err := url.Parse(base)
	plain := strings.TrimPrefix(base, "//")
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
		return nil
	case !strings.Contains(base, "://") && !strings.HasSuffix(base, ":") && hostAndPort(plain):
		return usageError{&gpu.Advice{What: fmt.Sprintf("%q is no URL, since it does not begin with http:// or https://", base), Try: "write http://" + plain, Err: err}}
	}
	return usageError{&gpu.Advice{What: fmt.Sprintf("%q is no URL of a gpuwhy", base), Try: "write it as http://127.0.0.1:8003", Err: err}}
}

// hostAndPort reports whether a text is a URL but for its scheme.
func hostAndPort(text string) bool {
	u, err := url.Parse("http://" + text)
	return err == nil && u.Hostname() != "" && !strings.ContainsAny(text, " \\")
}

// do asks. Its errors say what to do. The body of the answer, of any status, is to be closed.
func (a *asking) do(ctx context.Context) (*http.Response, error) {
	if err := checkURL(a.base); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+a.path, nil)
	if err != nil {
		cancel(err)
		return nil, usageError{&gpu.Advice{What: fmt.Sprintf("%q is no URL", a.shown()), Try: "write it as http://127.0.0.1:8003", Err: err}}
	}
	request.Header.Set("Accept", a.accept)
	begun := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(ctx, begun, cancel)
	}()
	client := &http.Client{Transport: a.client, CheckRedirect: a.follow}
	answer, err := client.Do(request)
	close(begun)
	<-watched
	if late, ok := errors.AsType[*gpu.Advice](context.Cause(ctx)); ok {
		err = late
	}
	if err != nil {
		if answer != nil {
			answer.Body.Close()
		}
		cancel(nil)
		return nil, a.explain(err)
	}
	answer.Body = &steady{body: answer.Body, ctx: ctx, cancel: cancel, stalled: a.stalled, late: &gpu.Advice{
		What: fmt.Sprintf("gpuwhy at %s stopped in the middle of its answer, and sent nothing more for %s", a.shown(), a.stalled),
		Try:  "try again; if it stays so, restart it, or ask for a shorter time",
	}}
	return answer, nil
}

// watch ends a question that is not answered in time, until its answer has begun. A server that lives may take longer: it
// answers another question meanwhile.
func (a *asking) watch(ctx context.Context, begun <-chan struct{}, cancel context.CancelCauseFunc) {
	patient := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-begun:
			return false
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		}
	}
	half := a.silent / 2
	if !patient(half) {
		return
	}
	asked, end := context.WithTimeout(ctx, half)
	defer end()
	lives := make(chan bool, 1)
	go func() { lives <- a.lives(asked) }()
	if !patient(a.silent - half) {
		end()
		<-lives
		return
	}
	end()
	if !<-lives {
		cancel(&gpu.Advice{
			What: fmt.Sprintf("something at %s takes connections, and answers nothing within %s", a.shown(), a.silent),
			Try:  "check that this is gpuwhy's address; if it is, look at its log and restart it",
		})
		return
	}
	if patient(a.working - a.silent) {
		cancel(&gpu.Advice{
			What: fmt.Sprintf("gpuwhy at %s lives, and has not begun to answer within %s", a.shown(), a.working),
			Try:  "ask for a shorter time, or try again when it has less to do",
		})
	}
}

// lives reports whether the server answers what takes it no time.
func (a *asking) lives(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+"/health/live", nil)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: a.client, CheckRedirect: a.follow} // which sends a name and a password
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// errElsewhere is about an answer that leads to another machine.
var errElsewhere = errors.New("it leads elsewhere")

// follow follows an answer that leads to the same machine, also to its https.
func (a *asking) follow(next *http.Request, before []*http.Request) error {
	if next.URL.Hostname() != before[0].URL.Hostname() {
		return &gpu.Advice{
			What: fmt.Sprintf("what answers at %s leads to %s, as a sign-in does", a.shown(), next.URL.Scheme+"://"+next.URL.Host),
			Try:  "give an address of gpuwhy with --url that needs no sign-in, such as http://127.0.0.1:8003 on its own machine", Err: errElsewhere,
		}
	}
	if len(before) >= 10 {
		return &gpu.Advice{
			What: fmt.Sprintf("what answers at %s leads in a circle, as a sign-in without a browser does", a.shown()),
			Try:  "give an address of gpuwhy with --url that needs no sign-in, such as http://127.0.0.1:8003 on its own machine", Err: errElsewhere,
		}
	}
	return nil
}

// explain makes advice of an error of the network.
func (a *asking) explain(err error) error {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return advice
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	advice := &gpu.Advice{What: fmt.Sprintf("gpuwhy at %s does not answer (%v)", a.shown(), err), Try: "check the address, and that gpuwhy runs there", Err: err}
	name, isName := errors.AsType[*net.DNSError](err)
	certificate, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case neterr.Refused(err):
		advice.What, advice.Try = "no gpuwhy answers at "+a.shown(), "start it, or give its address with --url"
	case isName:
		advice.What, advice.Try = fmt.Sprintf("no machine is known as %q", name.Name), "check the name in "+a.shown()
	case untrusted:
		advice.What = fmt.Sprintf("the certificate of %s is not trusted (%v)", a.shown(), certificate.Err)
		advice.Try = "name a file with the certificate of its authority in SSL_CERT_FILE, or give the name that the certificate is for"
	case errors.Is(err, http.ErrSchemeMismatch):
		advice.What, advice.Try = "what answers at "+a.shown()+" speaks plain HTTP", "write http:// instead of https://"
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // a record of TLS; there is no error for it
		advice = a.speaksTLS()
	case noTLS, strings.Contains(err.Error(), "malformed HTTP"):
		return errNotGPUwhy(a.shown(), err)
	case errors.Is(err, io.EOF), neterr.Cut(err):
		advice.What = "what answers at " + a.shown() + " ends the connection without an answer"
		advice.Try = "check that this is gpuwhy's address, and whether it speaks http:// or https://"
	}
	return advice
}

func (a *asking) speaksTLS() *gpu.Advice {
	return &gpu.Advice{What: "what answers at " + a.shown() + " speaks HTTPS", Try: "write https:// instead of http://"}
}

// refused says why an answer is none of gpuwhy's.
func (a *asking) refused(answer *http.Response, body []byte) error {
	is := answer.Header.Get("Content-Type")
	cause := fmt.Errorf("it answers %s as %q", answer.Status, is)
	switch code := answer.StatusCode; {
	case code == http.StatusBadRequest && strings.Contains(string(body), "HTTPS"): // as Go and nginx say it
		return a.speaksTLS()
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return &gpu.Advice{
			What: fmt.Sprintf("what answers at %s asks for a sign-in (%s)", a.shown(), answer.Status),
			Try:  "give an address of gpuwhy with --url that needs none, such as http://127.0.0.1:8003 on its own machine, or a name and a password in the URL", Err: cause,
		}
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return &gpu.Advice{What: fmt.Sprintf("a proxy at %s reaches no gpuwhy (%s)", a.shown(), answer.Status), Try: "check that gpuwhy runs behind it", Err: cause}
	case strings.HasPrefix(is, "text/html"):
		advice := errNotGPUwhy(a.shown(), cause)
		advice.Try += "; if a sign-in stands before it, give an address that needs none"
		return advice
	}
	return errNotGPUwhy(a.shown(), cause)
}

// steady is the body of an answer, which ends when nothing more comes.
type steady struct {
	body    io.ReadCloser
	ctx     context.Context //nolint:containedctx // of the question that this answers
	cancel  context.CancelCauseFunc
	stalled time.Duration
	late    *gpu.Advice
}

// Read implements [io.Reader].
func (s *steady) Read(p []byte) (int, error) {
	timer := time.AfterFunc(s.stalled, func() { s.cancel(s.late) })
	n, err := s.body.Read(p)
	timer.Stop()
	switch {
	case err == nil, errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
	case errors.Is(context.Cause(s.ctx), s.late):
		err = s.late
	case errors.Is(err, io.ErrUnexpectedEOF), neterr.Cut(err):
		err = &gpu.Advice{What: "the connection to gpuwhy ended in the middle of its answer", Try: "try again", Err: err}
	}
	return n, err
}

// Close implements [io.Closer].
func (s *steady) Close() error {
	err := s.body.Close()
	s.cancel(nil)
	return err
}
