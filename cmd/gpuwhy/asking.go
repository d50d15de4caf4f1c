package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/term"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	shown "github.com/gpuwhy/gpuwhy/internal/term"
)

// trustFlags say which certificates of a running gpuwhy are accepted, beside those that the system trusts.
type trustFlags struct {
	TLSCA          string `group:"access" name:"tls-ca" placeholder:"FILE" help:"Certificate authorities, as PEM, that may vouch for a running gpuwhy, besides those of the system." docs:"access.md#tls"`
	TLSFingerprint string `group:"access" name:"tls-fingerprint" placeholder:"SHA256" help:"Accept only the certificate with this SHA-256 fingerprint, whoever vouches for it." docs:"access.md#tls"`

	pinned []byte         // of TLSFingerprint
	roots  *x509.CertPool // of TLSCA and the system; nil: only those of the system
}

func (f *trustFlags) check() (err error) {
	if f.TLSFingerprint != "" {
		bare := strings.NewReplacer(":", "", " ", "").Replace(strings.TrimPrefix(strings.ToLower(f.TLSFingerprint), "sha256:"))
		if f.pinned, err = hex.DecodeString(bare); err != nil || len(f.pinned) != sha256.Size {
			return bad("tls-fingerprint", f.TLSFingerprint, "give the 64 hexadecimal digits that gpuwhy prints at its start")
		}
	}
	if f.TLSCA == "" {
		return nil
	}
	text, err := regular.Read(f.TLSCA, 1<<20)
	if err != nil {
		return bad("tls-ca", f.TLSCA, err.Error())
	}
	if f.roots, err = x509.SystemCertPool(); err != nil {
		f.roots = x509.NewCertPool()
	}
	if !f.roots.AppendCertsFromPEM(text) {
		return bad("tls-ca", f.TLSCA, "the file has no certificate as PEM")
	}
	return nil
}

// verification is how the certificate of a server is checked. It is not checked for a server that is this machine, at a loopback address,
// unless somebody says how: a plain connection to it would not be safer.
func (f *trustFlags) verification(own bool) *tls.Config {
	c := &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12}
	switch {
	case f.pinned != nil:
		c.InsecureSkipVerify = true // VerifyConnection decides alone
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if sum := sha256.Sum256(s.PeerCertificates[0].Raw); !bytes.Equal(sum[:], f.pinned) {
				return &gpu.Advice{
					What: "the server has another certificate, with the SHA-256 fingerprint " + strings.ToUpper(hex.EncodeToString(sum[:])),
					Try:  "compare it with the one that gpuwhy prints at its start; if it is that, give it with --tls-fingerprint", Err: errPinned,
				}
			}
			return nil
		}
	case own && f.roots == nil:
		c.InsecureSkipVerify = true // see above
	}
	return c
}

var errPinned = errors.New("the certificate is not the expected one")

// reachFlags say how a running gpuwhy is reached.
type reachFlags struct {
	addressFlags
	trustFlags
}

func (f *reachFlags) check() error { return first(f.addressFlags.check, f.trustFlags.check) }

// client returns a client for the gpuwhy at an address or, if that is empty, for the one with these settings, with or without TLS.
func (f *reachFlags) client(address string, o client.Options) (*client.Client, error) {
	own := false
	if address == "" {
		host, _, _ := net.SplitHostPort(strings.TrimPrefix(strings.TrimSuffix(ownURL(f.address(), ""), "/"), "http://"))
		ip, err := netip.ParseAddr(host)
		own = host == "localhost" || err == nil && ip.IsLoopback()
	}
	plain, _ := http.DefaultTransport.(*http.Transport)
	transport := plain.Clone()
	transport.TLSClientConfig = f.verification(own)
	if o.Transport = transport; address == "" {
		o.Transport = &eitherWay{next: transport}
	}
	c, err := client.New(cmp.Or(address, f.url()), o)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// eitherWay sends requests to a server of which nobody said whether it speaks TLS: without it, until the server says that it does.
type eitherWay struct {
	next   http.RoundTripper
	secure atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (e *eitherWay) RoundTrip(r *http.Request) (*http.Response, error) {
	if !e.secure.Load() {
		answer, err := e.next.RoundTrip(r)
		if err != nil || answer.StatusCode != http.StatusBadRequest || !speaksTLS(answer) {
			return answer, err
		}
		answer.Body.Close()
		e.secure.Store(true)
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	} else {
		r = r.Clone(r.Context())
	}
	r.URL.Scheme = "https"
	return e.next.RoundTrip(r)
}

// speaksTLS reports whether an answer is that of Go's server to somebody who does not speak TLS. The answer can still be read.
func speaksTLS(answer *http.Response) bool {
	const said = "Client sent an HTTP request to an HTTPS server."
	text, _ := io.ReadAll(io.LimitReader(answer.Body, int64(len(said)))) // the rest says what is wrong with it
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), answer.Body), answer.Body}
	return string(text) == said
}

// clientFlags say how a running gpuwhy is reached, and who the command is to it.
type clientFlags struct {
	reachFlags
	TokenFile string `group:"access" placeholder:"FILE" help:"File with an API token for a gpuwhy that people sign in to. Without it, the token is in the environment variable GPUWHY_TOKEN, if anywhere." docs:"access.md#tokens"`
}

// tokenVariable is the environment variable with an API token. There is no flag for the token itself: everybody on the machine can read
// command lines.
const tokenVariable = "GPUWHY_TOKEN"

// client returns what [reachFlags.client] does, with the token.
func (f *clientFlags) client(address string, o client.Options) (_ *client.Client, err error) {
	o.Token = strings.TrimSpace(os.Getenv(tokenVariable))
	if f.TokenFile != "" {
		if o.Token, err = readSecret(f.TokenFile, "token"); err != nil {
			return nil, err
		}
	}
	return f.reachFlags.client(address, o)
}

// longestSecret is how long a file with a secret may be, in bytes.
const longestSecret = 4 << 10

// readSecret returns the first line of a file; for "-" that of standard input, which is asked for if it is a terminal.
func readSecret(name, what string) (string, error) {
	var text []byte
	var err error
	switch in := int(os.Stdin.Fd()); {
	case name == "-" && term.IsTerminal(in):
		fmt.Fprintf(os.Stderr, "The %s (it is not shown): ", what)
		text, err = term.ReadPassword(in)
		fmt.Fprintln(os.Stderr)
	case name == "-":
		text, err = io.ReadAll(io.LimitReader(os.Stdin, longestSecret))
	default:
		text, err = regular.Read(name, longestSecret)
	}
	if err != nil {
		return "", usageError{fmt.Errorf("the %s can't be read: %w", what, err)}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", usageError{fmt.Errorf("the %s is empty", what)}
	}
	return line, nil
}

// legible returns an error without control sequences from the text of an answer.
func legible(err error) error {
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return errors.New(shown.Printable(p.Detail))
	}
	return err
}
