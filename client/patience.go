package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// Patience is how long gpuwhy may take to answer.
type Patience struct {
	Silent  time.Duration // until it begins to answer, or shows in another way that it is alive
	Working time.Duration // until it begins to answer, while it is alive
	Stalled time.Duration // pause in the middle of an answer
}

// OrdinaryPatience allows answers of any length as long as data keeps arriving.
var OrdinaryPatience = Patience{Silent: 10 * time.Second, Working: 2 * time.Minute, Stalled: 30 * time.Second}

// patiently sends a request and cancels it if it is not answered in time.
func (c *Client) patiently(ctx context.Context, cancel context.CancelCauseFunc, request *http.Request) (*http.Response, error) {
	begun, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(ctx, begun, cancel)
	}()
	answer, err := c.http().Do(request)
	close(begun)
	<-watched
	if late, ok := errors.AsType[*gpu.Advice](context.Cause(ctx)); ok {
		err = late
	}
	if err != nil && answer != nil {
		answer.Body.Close()
	}
	return answer, err
}

func (c *Client) http() *http.Client {
	return &http.Client{Transport: c.options.Transport, CheckRedirect: c.follow}
}

// watch cancels a request that is not answered in time, until its answer has begun. A server that is alive may take
// longer: watch checks with another request.
func (c *Client) watch(ctx context.Context, begun <-chan struct{}, cancel context.CancelCauseFunc) {
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
	p, half := c.options.Patience, c.options.Patience.Silent/2
	if !patient(half) {
		return
	}
	asked, end := context.WithTimeout(ctx, half)
	defer end()
	lives := make(chan bool, 1)
	go func() { lives <- c.lives(asked) }()
	if !patient(p.Silent - half) {
		end()
		<-lives
		return
	}
	end()
	if !<-lives {
		cancel(&gpu.Advice{
			What: fmt.Sprintf("something at %s accepts connections but does not answer within %s", c.Address(), p.Silent),
			Try:  "check that this is gpuwhy's address; if it is, check its log and restart it",
		})
		return
	}
	if patient(p.Working - p.Silent) {
		cancel(&gpu.Advice{
			What: fmt.Sprintf("gpuwhy at %s is running but has not begun to answer within %s", c.Address(), p.Working),
			Try:  "ask for a shorter time, or try again when it is less busy",
		})
	}
}

// lives reports whether the server answers a request that costs it no time.
func (c *Client) lives(ctx context.Context) bool {
	request, err := c.request(ctx, &Request{Path: "/health/live"})
	if err != nil {
		return false
	}
	answer, err := c.http().Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// steady is the body of an answer, which fails if no more data arrives.
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
