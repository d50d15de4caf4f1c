// Package control is how commands of this machine reach the gpuwhy that runs with a state directory, and that alone may write there: by a
// socket whose name follows from the directory. Both sides ask the kernel who the other is.
//
// On Linux the name is in the abstract namespace, so that no disk is asked for it. There anybody may take a name first, and so [Dial]
// talks to nobody but root, the owner of the directory, and the user who runs the command. Other systems have a file in the directory.
package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/access/peer"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// URL is the address of the program at the other end of the socket, for clients that use [Transport]. It has no base path, whatever
// path the program serves its pages under.
const URL = "http://localhost"

// ErrNobody is wrapped in the error of [Dial] if no program runs with the directory.
var ErrNobody = errors.New("no gpuwhy runs with this state directory")

// Listen opens the socket of a state directory, which must exist. The caller has locked the directory.
func Listen(ctx context.Context, stateDir string) (net.Listener, error) {
	name, _, err := nameOf(stateDir)
	if err != nil {
		return nil, err
	}
	ln, err := listen(ctx, name)
	if neterr.InUse(err) {
		return nil, &gpu.Advice{
			What: "another program has the control socket of " + stateDir,
			Try:  "find it with 'ss -xlp', stop it, and start gpuwhy again: until then 'gpuwhy user' and 'gpuwhy token' don't reach this gpuwhy", Err: err,
		}
	}
	return ln, err
}

// Dial connects to the gpuwhy that runs with a state directory. If none does, the error wraps [ErrNobody]. It does not talk to a program of
// a user who is not root, not the owner of the directory, and not the one who runs this program.
func Dial(ctx context.Context, stateDir string) (net.Conn, error) {
	name, owner, err := nameOf(stateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", name)
	if neterr.Refused(err) || errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNobody, err)
	}
	if err != nil {
		return nil, err
	}
	server, err := peer.Lookup(conn)
	if err == nil && server != 0 && server != owner && int(server) != os.Geteuid() {
		err = fmt.Errorf("user %d runs it, and user %d owns the directory", server, owner)
	}
	if err != nil {
		return nil, errors.Join(&gpu.Advice{
			What: "the program that answers for " + stateDir + " may not be gpuwhy: " + err.Error(),
			Try:  "find it with 'ss -xlp', and stop it",
		}, conn.Close())
	}
	return conn, nil
}

// Transport returns a transport whose requests all go to the gpuwhy that runs with a state directory, as [Dial] does. Their address is
// below [URL].
func Transport(stateDir string) *http.Transport {
	return &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return Dial(ctx, stateDir) },
		DisableKeepAlives: true, // a command asks once or twice
	}
}

// Handler returns a handler for requests that come over the socket: it adds the base path of the program's addresses.
func Handler(base string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := *r
		url := *r.URL
		whole.URL, url.Path = &url, base+r.URL.Path
		if r.URL.RawPath != "" {
			url.RawPath = base + r.URL.RawPath
		}
		h.ServeHTTP(w, &whole)
	})
}
