package auth

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Origins are the foreign origins whose pages may read answers and connect to
// the WebSocket, as patterns of [path.Match].
type Origins []string

// ParseOrigins reads origins as browsers send them: "scheme://host" or
// "scheme://host:port", without the scheme's own port; * stands for any part of
// the host. Its error says which one is wrong, and why.
func ParseOrigins(list []string) (Origins, error) {
	origins := make(Origins, len(list))
	for i, origin := range list {
		if err := checkOrigin(origin); err != nil {
			return nil, err
		}
		// In a pattern, brackets are classes of characters; IPv6 addresses have them.
		origins[i] = strings.NewReplacer("[", `\[`, "]", `\]`).Replace(strings.ToLower(origin))
	}
	return origins, nil
}

func checkOrigin(origin string) error {
	scheme, host, _ := strings.Cut(origin, "://")
	u, err := url.Parse(strings.ReplaceAll(origin, "*", "x"))
	switch {
	case err != nil:
		return fmt.Errorf("origin %q: %w", origin, errors.Unwrap(err))
	case scheme != "http" && scheme != "https":
		return fmt.Errorf("origin %q does not begin with http:// or https://", origin)
	case u.Hostname() == "" || strings.ContainsAny(host, "/?#@\\"):
		return fmt.Errorf("origin %q is not a scheme, a host and perhaps a port, such as https://host.example:3000", origin)
	case scheme == "http" && u.Port() == "80", scheme == "https" && u.Port() == "443":
		return fmt.Errorf("origin %q: leave the port out, as browsers do where it is the usual one", origin)
	}
	return nil
}

// Allow reports whether pages of the origin may read answers.
func (o Origins) Allow(origin string) bool {
	return slices.ContainsFunc(o, func(pattern string) bool {
		ok, err := path.Match(pattern, strings.ToLower(origin))
		return ok && err == nil
	})
}
