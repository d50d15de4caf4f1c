package kube

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// exec runs a command in a container, until the command or ctx ends. It closes stdin, if there is one. The command may live on for a while
// after ctx has ended: it reaches the end of its input. Its later output is lost: the writers must not block, and must tolerate late calls.
func (a *api) exec(ctx context.Context, t target, command []string, stdin *io.PipeReader, stdout, stderr io.Writer) error {
	query := url.Values{"container": {t.container}, "command": command, "stdout": {"true"}, "stderr": {"true"}}
	options := remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr}
	if stdin != nil {
		query.Set("stdin", "true")
		options.Stdin = stdin
		defer stdin.Close() // a goroutine that copies from it must end
	}
	address, err := url.Parse(a.base + "/api/v1/namespaces/" + url.PathEscape(t.namespace) + "/pods/" + url.PathEscape(t.pod) + "/exec")
	if err != nil {
		return err
	}
	address.RawQuery = query.Encode()
	socket := &webSocket{cfg: a.cfg, address: address.String()}
	spdy, err := remotecommand.NewSPDYExecutor(a.cfg, http.MethodPost, address)
	if err != nil {
		return err
	}
	ctx = klog.NewContext(ctx, logr.Discard()) // the error is returned as well
	var first error
	both, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		first = err
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	if err = both.StreamWithContext(ctx, options); err != nil && first != nil && ctx.Err() == nil {
		return errors.Join(err, first)
	}
	return err
}

// A webSocket executes over a WebSocket with client-go. If its context ends at the moment the stream begins, client-go leaks four
// goroutines and their buffers: the connection's reader finds it closed, and tells nobody. So the end of a context only makes the
// connection unreadable, which client-go reports.
type webSocket struct {
	cfg     *rest.Config
	address string
}

// Stream is StreamWithContext without an end.
func (w *webSocket) Stream(options remotecommand.StreamOptions) error {
	return w.StreamWithContext(context.Background(), options)
}

// StreamWithContext returns when the command's output has ended, or can't be read any more.
func (w *webSocket) StreamWithContext(ctx context.Context, options remotecommand.StreamOptions) error {
	over := make(chan struct{})
	defer close(over)
	cfg := rest.CopyConfig(w.cfg)
	cfg.WrapTransport = transport.Wrappers(func(dial http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			return dial.RoundTrip(r.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				GotConn: func(c httptrace.GotConnInfo) { go cutOff(ctx, over, c.Conn) },
			})))
		})
	}, cfg.WrapTransport)
	executor, err := remotecommand.NewWebSocketExecutor(cfg, http.MethodGet, w.address)
	if err != nil {
		return err
	}
	if err = executor.StreamWithContext(context.WithoutCancel(ctx), options); err == nil {
		return nil
	}
	return cmp.Or(ctx.Err(), err)
}

// A connection is made unreadable this many times before it is closed. By then a stream has long begun, even if the machine stood still
// meanwhile, since no tick passes then.
const (
	mostCuts  = 100
	cutPeriod = 10 * time.Millisecond
)

// cutOff makes a connection unreadable once ctx ends. The connection's reader sets deadlines as well, at the start and with each pong.
func cutOff(ctx context.Context, over <-chan struct{}, conn net.Conn) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	again := time.NewTicker(cutPeriod)
	defer again.Stop()
	for range mostCuts {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // it fails if the connection is closed
		select {
		case <-over:
			return
		case <-again.C:
		}
	}
	_ = conn.Close()
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
