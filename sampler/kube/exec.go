package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"
)

// exec runs a command in a container, and ends with it or with ctx. It closes stdin, if there is one. The command may live on
// for a while once ctx has ended: it finds its input at an end. What it still prints is lost: the writers must bear
// calls that come late.
func (a *api) exec(ctx context.Context, t target, command []string, stdin *io.PipeReader, stdout, stderr io.Writer) error {
	query := url.Values{"container": {t.container}, "command": command, "stdout": {"true"}, "stderr": {"true"}}
	options := remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr}
	if stdin != nil {
		query.Set("stdin", "true")
		options.Stdin = stdin
		defer stdin.Close() // whoever copies from it must end
	}
	at, err := url.Parse(a.base + "/api/v1/namespaces/" + url.PathEscape(t.namespace) + "/pods/" + url.PathEscape(t.pod) + "/exec")
	if err != nil {
		return err
	}
	at.RawQuery = query.Encode()
	socket, err := remotecommand.NewWebSocketExecutor(a.cfg, http.MethodGet, at.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(a.cfg, http.MethodPost, at)
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
