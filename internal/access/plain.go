package access

import (
	"net/http"
	"strings"

	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// encrypted reports whether nobody between the client and this machine can read a request. The cookies of such a request are secure.
func (r *Room) encrypted(request *http.Request) bool { return r.cfg.TrustedProxies.Encrypted(request) }

// mayTakePassword returns why a password must not be asked for, or taken, with a request: others could read it on its way. The error
// says what to do. It is the same for every user.
func (r *Room) mayTakePassword(request *http.Request) error {
	const what = "the connection is not encrypted, so that others on the network could read a password"
	switch {
	case r.encrypted(request), serve.Direct(request), r.cfg.PlainSignIn:
		return nil
	case r.cfg.TrustedProxies.Trusts(request):
		return serve.Refuse(http.StatusForbidden, what, "open this page with https://; if it is, have the proxy send X-Forwarded-Proto: https")
	default:
		return serve.Refuse(http.StatusForbidden, what, "open this page with https://, for which gpuwhy needs --tls-cert, --tls-self-signed or --acme-domain, "+
			"or a proxy that --trusted-proxy names; --allow-plain-sign-in permits passwords without encryption")
	}
}

// passkeysOffered reports whether a browser would make and use passkeys on the page of a request: at a name, since they belong to one, and
// over TLS, or at localhost.
func (r *Room) passkeysOffered(request *http.Request) bool {
	name, address := serve.HostName(request.Host)
	if name == "" || address.IsValid() {
		return false
	}
	return r.encrypted(request) || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
