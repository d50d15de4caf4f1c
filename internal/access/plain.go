package access

import (
	"net/http"

	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// plainSignIn returns why a secret must not be asked for, or taken, with a request: others could read it on its way. The error says what
// to do. It is the same for every user.
func (r *Room) plainSignIn(request *http.Request) error {
	const what = "a password would cross the network unencrypted"
	switch {
	case r.secure(request), r.cfg.Address.TrustedProxies.Direct(request), r.cfg.PlainSignIn:
		return nil
	case r.cfg.Address.TrustedProxies.Trusts(request):
		return serve.Refuse(http.StatusForbidden, what, "open this page with https://; if it is, have the proxy send X-Forwarded-Proto: https")
	default:
		return serve.Refuse(http.StatusForbidden, what, "open this page with https://, for which gpuwhy needs --tls-cert, --tls-self-signed or --acme-domain, "+
			"or a proxy that --trusted-proxy or --proxy-user names; --allow-plain-sign-in permits passwords without encryption")
	}
}
