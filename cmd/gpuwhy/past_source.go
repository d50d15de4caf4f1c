package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/past"
	"github.com/gpuwhy/gpuwhy/internal/server"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// errNotGPUwhy says that something else answers there.
func errNotGPUwhy(base string, err error) *gpu.Advice {
	return &gpu.Advice{What: "what answers at " + base + " is not gpuwhy", Try: "give its address with --url", Err: err}
}

// askPast asks the gpuwhy at an address. Where that is empty it is the one of these settings, and where none runs the database that it
// has left. The answer is 200 and of the type; it is to be closed.
func askPast(ctx context.Context, env *environment, address, path, contentType string) (io.ReadCloser, error) {
	base := strings.TrimSuffix(cmp.Or(address, ownURL(env.cfg.address(), env.cfg.BasePath)), "/")
	answer, err := newAsking(base, path, contentType).past(ctx)
	if address != "" || !neterr.Refused(err) {
		return answer, err
	}
	st, where, failed := env.cfg.keptPast(ctx)
	if failed != nil {
		advice := gpu.AsAdvice(failed)
		advice.What = "no gpuwhy answers at " + base + ", and " + advice.What
		advice.Try += "; or give the address of one that runs with --url"
		return nil, &advice
	}
	fmt.Fprintf(env.stderr, "gpuwhy: no gpuwhy answers at %s: this is from %s\n", term.Printable(base), term.Printable(where))
	permits := env.cfg.permits()
	of := &past.Past{Store: permits.Store(st), Permits: permits, Keeps: env.cfg.retention, Now: time.Now, Interval: max(env.cfg.Interval, env.cfg.IdleInterval), Seldom: env.cfg.IdleInterval}
	handler := server.PastHandler(server.Config{
		Monitor: contract.Monitor{Node: env.cfg.name(), Version: versionText(), Interval: env.cfg.Interval},
		Past:    of, Sizes: &past.Sizes{Past: of, Interval: env.cfg.Interval, Measured: true},
		Price: env.cfg.ElectricityPrice,
		Then:  func() (*insight.Stage, error) { return insight.NewStage(), nil },
		Clock: clock.Program(), Log: env.log,
	})
	own := newAsking("http://localhost", path, contentType)
	own.client, own.patience = within{handler}, endlessPatience
	answer, err = own.past(ctx)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return &closing{answer, st.Close}, nil
}

// closing closes something else, too.
type closing struct {
	io.ReadCloser
	also func() error
}

func (c *closing) Close() error { return errors.Join(c.ReadCloser.Close(), c.also()) }

// endlessPatience is for the database of this program, which ends by itself.
var endlessPatience = patience{silent: 24 * time.Hour, working: 24 * time.Hour, stalled: 24 * time.Hour}

// past asks about the past: the answer is of the type that was asked for.
func (a *asking) past(ctx context.Context) (io.ReadCloser, error) {
	answer, err := a.do(ctx)
	if err != nil {
		return nil, err
	}
	is := answer.Header.Get("Content-Type")
	if answer.StatusCode == http.StatusOK && strings.HasPrefix(is, a.accept) {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	switch {
	case err != nil:
		return nil, err
	case !strings.HasPrefix(is, "application/problem+json"):
		return nil, a.refused(answer, body)
	}
	return nil, errors.New(detail(body))
}

// within is a transport to a handler of this program.
type within struct{ http.Handler }

// RoundTrip implements [http.RoundTripper]. The body comes as it is written.
func (t within) RoundTrip(r *http.Request) (*http.Response, error) {
	body, to := io.Pipe()
	w := &piped{to: to, header: http.Header{}, began: make(chan int, 1)}
	go func() {
		err := io.EOF
		defer func() {
			if recover() != nil {
				err = io.ErrUnexpectedEOF
			}
			w.WriteHeader(http.StatusOK)
			to.CloseWithError(err)
		}()
		t.ServeHTTP(w, r)
	}()
	code := <-w.began
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code, Header: w.header.Clone(), Body: body, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
	}, nil
}

// piped is the answer of a handler to a reader. One goroutine writes it.
type piped struct {
	to      *io.PipeWriter
	header  http.Header
	began   chan int // gets the status once
	written bool
}

func (p *piped) Header() http.Header { return p.header }

func (p *piped) WriteHeader(status int) {
	if !p.written {
		p.written = true
		p.began <- status
	}
}

func (p *piped) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.to.Write(b)
}
