package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/util/jsonclient"
)

// The bounds of one HTTP exchange of a service.
const (
	exchangeTime = 15 * time.Second
	mostAnswer   = 64 << 10 // bytes of a body that are read
)

// A guard is how services reach servers. Most of shoutrrr's services send
// through http.DefaultTransport: without a deadline, so that a server that says
// nothing holds the sender for ever, and following redirects, so that a login
// page in front of a server takes a message with "200 OK". A guard ends each
// exchange in time and makes an error of each redirect.
type guard struct {
	base http.RoundTripper
	// all says that each request is guarded, not only those of shoutrrr.
	all bool
}

// outgoing is in http.DefaultTransport's place from the start of the program, as
// an honest client is in that of the one which the Telegram service sends
// through. Requests of others than shoutrrr pass it as they are.
var outgoing = guardDefault()

func guardDefault() *guard {
	g := &guard{base: http.DefaultTransport}
	http.DefaultTransport = g
	jsonclient.DefaultClient = honest{jsonclient.DefaultClient}
	return g
}

var errRedirect = errors.New("redirected")

// RoundTrip implements [http.RoundTripper].
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if !g.all && !fromShoutrrr() {
		return g.base.RoundTrip(r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), exchangeTime)
	r = r.WithContext(ctx)
	r.Close = true // messages are rare: no connection waits for the next
	answer, err := g.base.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	answer.Body = &boundedBody{Reader: io.LimitReader(answer.Body, mostAnswer), Closer: answer.Body, cancel: cancel}
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		return nil, errors.Join(fmt.Errorf("%w with %d %s", errRedirect, answer.StatusCode, http.StatusText(answer.StatusCode)), answer.Body.Close())
	}
	return answer, nil
}

// CloseIdleConnections does for [http.Client.CloseIdleConnections].
func (g *guard) CloseIdleConnections() {
	if c, ok := g.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type boundedBody struct {
	io.Reader
	io.Closer
	cancel context.CancelFunc
}

// Close ends the exchange.
func (b *boundedBody) Close() error {
	defer b.cancel()
	return b.Closer.Close()
}

// fromShoutrrr looks who asks: net/http calls a transport on the goroutine of
// who sends.
func fromShoutrrr() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "github.com/nicholas-fedor/shoutrrr/") {
			return true
		}
		if !more {
			return false
		}
	}
}

// honest is a client for the Telegram service, which reports what failed from
// the body of an answer alone, and success where there was none.
type honest struct{ jsonclient.Client }

// Post is as that of the client within, with a body in each error.
func (h honest) Post(address string, request, response any) error {
	err := h.Client.Post(address, request, response)
	if err == nil && !strings.HasPrefix(address, "https://api.telegram.org/") {
		return nil
	}
	if err == nil {
		if took(response) {
			return nil
		}
		err = errors.New("the answer was not ok")
	}
	var said struct {
		OK          *bool  `json:"ok"`
		Description string `json:"description"`
	}
	if json.Unmarshal([]byte(jsonclient.ErrorBody(err)), &said) == nil && said.Description != "" {
		return err
	}
	text := err.Error()
	if e, ok := errors.AsType[*url.Error](err); ok { // whose text has the address
		text = e.Err.Error()
	}
	body, _ := json.Marshal(map[string]any{"ok": false, "description": text}) //nolint:errchkjson // strings
	return jsonclient.Error{Body: string(body)}
}

// took reports whether a Telegram server took the message: its answer says ok.
func took(response any) bool {
	text, err := json.Marshal(response)
	var said struct {
		OK bool `json:"ok"`
	}
	return err == nil && json.Unmarshal(text, &said) == nil && said.OK
}
