package notify

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/discord"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/matrix"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/chat/mattermost"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/gotify"
	"github.com/nicholas-fedor/shoutrrr/pkg/services/push/ntfy"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
)

// A sender brings messages to one target. It is called by one goroutine at a
// time, and may take long.
type sender interface {
	// Send returns a [failure] where the message was not taken.
	send(title, body string) error
}

// quiet is what shoutrrr logs to: it would log addresses.
var quiet = log.New(io.Discard, "", 0)

// A courier sends through shoutrrr.
type courier struct {
	url     Secret
	style   style
	service types.Service // nil before the first message, and after each that failed
}

func newCourier(s Secret) sender { return &courier{url: s, style: styleOf(s)} }

// send makes no use of shoutrrr's router: where a service does not come back,
// that leaves a goroutine behind for each message.
func (c *courier) send(title, body string) (err error) {
	defer func() {
		if p := recover(); p != nil { // the Zulip service does where its server can't be reached
			err = fmt.Errorf("the %s service failed, as if its server could not be reached", c.url.scheme())
		}
		if err != nil {
			c.service, err = nil, tell(c.url, err) // what failed may be half used
		}
	}()
	if c.service == nil {
		if c.service, err = open(c.url); err != nil {
			return err
		}
	}
	params := types.Params{}
	switch {
	case !c.style.titled:
		body = title + "\n" + body
	case c.url.scheme() == "smtp": // which writes the header as it is
		params.SetTitle(mime.QEncoding.Encode("utf-8", title))
	default:
		params.SetTitle(title)
	}
	if err := c.service.Send(body, &params); err != nil { // not returned as it is: a nil of shoutrrr's own type is no error
		return err
	}
	return nil
}

// check reports whether a URL is one that its service understands, and asks no
// server.
func check(s Secret) error {
	if s.scheme() == "matrix" { // logs in when it is opened
		u, err := url.Parse(string(s))
		if err == nil {
			err = new(matrix.Config).SetURL(u)
		}
		if err != nil || u.Host == "" {
			return errNotUnderstood(s)
		}
		return nil
	}
	_, err := open(s)
	if err != nil {
		return errNotUnderstood(s)
	}
	return nil
}

func errNotUnderstood(s Secret) error {
	return fmt.Errorf("is no address that the %s service understands: docs/notifications.md says how it is written", s.scheme())
}

// open makes a service of a URL.
func open(s Secret) (service types.Service, err error) {
	defer func() {
		if recover() != nil {
			service, err = nil, errors.New("the address is not understood")
		}
	}()
	r, err := router.New(quiet)
	if err != nil {
		return nil, err
	}
	if service, err = r.Locate(string(s)); err != nil {
		return nil, err
	}
	guide(service)
	return service, nil
}

// guide makes a service send through a guard that does not do so by itself, for
// it has a transport of its own, or tries again by itself.
func guide(service types.Service) {
	switch s := service.(type) {
	case *gotify.Service:
		s.GetHTTPClient().Transport = guarded(s.GetHTTPClient().Transport)
	case *mattermost.Service:
		s.GetHTTPClient().Transport = guarded(s.GetHTTPClient().Transport)
	case *ntfy.Service:
		client := &http.Client{}
		if s.Config.DisableTLSVerification {
			client.Transport = guarded(&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // as the address asks for
		}
		s.SetHTTPClient(client)
	case *discord.Service: // would wait for minutes, and then try again itself
		s.HTTPClient, s.Sleeper = once{}, awake{}
	}
}

// guarded is a service's transport under guard, with the proxy that the
// environment names.
func guarded(t http.RoundTripper) http.RoundTripper {
	if own, ok := t.(*http.Transport); ok {
		own.Proxy = http.ProxyFromEnvironment
	}
	return &guard{base: t, all: true}
}

// once is how the Discord service sends: what it would try again is an error.
type once struct{}

type onceError struct{ text string }

func (e onceError) Error() string { return e.text }

// soften makes words of errors that the service would not wait for.
var soften = strings.NewReplacer("connection refused", "connection was refused", "connection reset", "connection was reset")

// Do implements the service's HTTPClient.
func (once) Do(r *http.Request) (*http.Response, error) {
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, onceError{soften.Replace(err.Error())}
	}
	if answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests {
		answer.Body.Close()
		return nil, onceError{"unexpected status: " + answer.Status}
	}
	return answer, nil
}

// awake does not sleep.
type awake struct{}

// Sleep implements the service's Sleeper.
func (awake) Sleep(time.Duration) {}
