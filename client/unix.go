package client

import (
	"context"
	"net"
	"net/http"
	"strings"
)

// overUnix reads the address of a gpuwhy that listens on a Unix socket: "unix:PATH", or "unix:PATH:/BASE/" if it serves its pages under a
// base path. It returns what requests name instead.
func overUnix(address string) (base, socket string, is bool) {
	socket, is = strings.CutPrefix(address, "unix:")
	socket, path, _ := strings.Cut(socket, ":")
	return strings.TrimRight("http://localhost"+path, "/"), socket, is && socket != ""
}

// unixTransport returns a transport that sends all requests to a Unix socket.
func unixTransport(socket string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 2, IdleConnTimeout: http.DefaultTransport.(*http.Transport).IdleConnTimeout, //nolint:forcetypeassert // it is one
	}
}
