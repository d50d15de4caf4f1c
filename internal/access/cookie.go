package access

import "net/http"

// cookieName is the name of the cookie of a session. Programs on one host share its cookies, whatever their ports. So the name has
// the beginning of a hash of the installation's ID, or of the ID that programs with the same accounts share; without one it has none.
//
// If secure is true, the cookie is sent over TLS alone. A browser then accepts a name with the prefix __Host- only for the whole host and
// from this host itself, and one with __Secure- for a path too, which a base path needs. basePath may end with a slash.
func cookieName(secure bool, basePath, installation string) string {
	name := "gpuwhy"
	if installation != "" {
		name += "-" + hashOf(installation)[:8]
	}
	switch whole := basePath == "" || basePath == "/"; {
	case secure && whole:
		return "__Host-" + name
	case secure:
		return "__Secure-" + name
	default:
		return name
	}
}

// cookie makes a cookie that no script can read, for the whole host or below the base path. The caller sets its Value and for how long
// the browser has it. It is sent with requests that this program's own pages make and, without a method that changes something, with
// links from elsewhere.
func cookie(secure bool, basePath, installation string) *http.Cookie {
	if basePath == "" {
		basePath = "/"
	}
	return &http.Cookie{
		Name: cookieName(secure, basePath, installation), Path: basePath, Secure: secure, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}
