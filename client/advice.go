package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

const tryAddress = "write it as http://127.0.0.1:8003"

// checkAddress says what is wrong with a gpuwhy address.
func checkAddress(base string) error {
	u, err := url.Parse(base)
	plain := strings.TrimPrefix(base, "//")
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
		return nil
	case !strings.Contains(base, "://") && !strings.HasSuffix(base, ":") && lacksScheme(plain):
		return &gpu.Advice{What: fmt.Sprintf("%q is not a URL, because it does not begin with http:// or https://", base), Try: "write http://" + plain, Err: err}
	}
	return &gpu.Advice{What: fmt.Sprintf("%q is not a URL of gpuwhy", base), Try: tryAddress, Err: err}
}

// lacksScheme reports whether a text is a URL without a scheme.
func lacksScheme(text string) bool {
	u, err := url.Parse("http://" + text)
	return err == nil && u.Hostname() != "" && !strings.ContainsAny(text, " \\")
}

// hint says, after a space, how people name another address; empty if they can't.
func (c *Client) hint() string {
	if c.options.Flag == "" {
		return ""
	}
	return " with " + c.options.Flag
}

// foreign returns the error for an address where something other than gpuwhy answers.
func (c *Client) foreign(err error) *gpu.Advice {
	return &gpu.Advice{What: "the server at " + c.Address() + " is not gpuwhy", Try: "give its address" + c.hint(), Err: errors.Join(ErrForeign, err)}
}

func (c *Client) needsTLS() *gpu.Advice {
	return &gpu.Advice{What: "the server at " + c.Address() + " speaks HTTPS", Try: "write https:// instead of http://", Err: ErrForeign}
}

// follow follows redirects to the same machine, also to its https. A request that changes something is never redirected: net/http
// would turn it into a GET, whose answer reads as if the change had been made.
func (c *Client) follow(next *http.Request, before []*http.Request) error {
	elsewhere := &gpu.Advice{Try: "give an address of gpuwhy" + c.hint() + " that needs no sign-in, such as http://127.0.0.1:8003 on its own machine", Err: ErrForeign}
	switch {
	case next.URL.Hostname() != before[0].URL.Hostname():
		elsewhere.What = fmt.Sprintf("the server at %s redirects to %s, as a sign-in would", c.Address(), next.URL.Scheme+"://"+next.URL.Host)
		return elsewhere
	case len(before) >= 10:
		elsewhere.What = fmt.Sprintf("the server at %s redirects in a circle, as a sign-in does without a browser", c.Address())
		return elsewhere
	case next.Method != before[0].Method:
		elsewhere.What = fmt.Sprintf("the server at %s redirects to %s and changes nothing", c.Address(), next.URL.Redacted())
		elsewhere.Try = "give the address it redirects to" + c.hint()
		return elsewhere
	case next.URL.Scheme != "https" && before[0].URL.Scheme == "https":
		next.Header.Del("Authorization")
	}
	return nil
}

// explain turns a network error into advice.
func (c *Client) explain(err error) error {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		return advice
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	advice := &gpu.Advice{What: fmt.Sprintf("gpuwhy at %s does not answer (%v)", c.Address(), err), Try: "check the address, and that gpuwhy is running there", Err: err}
	name, isName := errors.AsType[*net.DNSError](err)
	certificate, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case neterr.Refused(err), errors.Is(err, os.ErrNotExist): // of a Unix socket
		advice.What, advice.Try = "no gpuwhy answers at "+c.Address(), "start it, or give its address"+c.hint()
		advice.Err = errors.Join(ErrNobody, err)
	case isName:
		advice.What, advice.Try = fmt.Sprintf("there is no machine named %q", name.Name), "check the name in "+c.Address()
	case untrusted:
		advice.What = fmt.Sprintf("the certificate of %s is not trusted (%v)", c.Address(), certificate.Err)
		advice.Try = "use the name that the certificate is for; or name a file with its authority's certificate with --tls-ca or SSL_CERT_FILE, or the certificate's fingerprint with --tls-fingerprint"
	case errors.Is(err, http.ErrSchemeMismatch):
		advice.What, advice.Try = "the server at "+c.Address()+" speaks plain HTTP", "write http:// instead of https://"
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // a record of TLS; there is no error for it
		advice = c.needsTLS()
	case noTLS, strings.Contains(err.Error(), "malformed HTTP"):
		return c.foreign(err)
	case errors.Is(err, io.EOF), neterr.Cut(err):
		advice.What = "the server at " + c.Address() + " closes the connection without an answer"
		advice.Try = "check that this is gpuwhy's address, and whether it speaks http:// or https://"
	}
	return advice
}

// refused says why an answer is not gpuwhy's.
func (c *Client) refused(answer *http.Response, body []byte) error {
	kind := answer.Header.Get("Content-Type")
	cause := fmt.Errorf("it answers %s as %q", answer.Status, kind)
	switch code := answer.StatusCode; {
	case code == http.StatusBadRequest && strings.Contains(string(body), "HTTPS"): // Go's and nginx's wording
		return c.needsTLS()
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return &gpu.Advice{
			What: fmt.Sprintf("the server at %s asks for a sign-in (%s)", c.Address(), answer.Status),
			Try:  "give an address of gpuwhy" + c.hint() + " that needs none, such as http://127.0.0.1:8003 on its own machine, or a name and a password in the URL",
			Err:  errors.Join(ErrForeign, cause),
		}
	case code == http.StatusBadGateway, code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		return &gpu.Advice{
			What: fmt.Sprintf("a proxy at %s can't reach gpuwhy (%s)", c.Address(), answer.Status), Try: "check that gpuwhy is running behind it", Err: errors.Join(ErrForeign, cause),
		}
	}
	advice := c.foreign(cause)
	if strings.HasPrefix(kind, "text/html") {
		advice.Try += "; if it is behind a sign-in, give an address that needs none"
	}
	return advice
}
