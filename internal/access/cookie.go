package access

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
)

// cookieName is the name of the cookie of a session. Programs on one host get each other's cookies, whatever their ports. So the name ends
// in what programs with the same accounts share; without that it ends before.
//
// If secure is true, the cookie is sent over TLS alone. A browser then accepts a name with the prefix __Host- only for the whole host and
// from this host itself, and one with __Secure- for a path too, which a base path needs. basePath may end with a slash.
func cookieName(secure bool, basePath, shared string) string {
	name := "gpuwhy"
	if shared != "" {
		name += "-" + shared
	}
	switch whole := strings.Trim(basePath, "/") == ""; {
	case secure && whole:
		return "__Host-" + name
	case secure:
		return "__Secure-" + name
	default:
		return name
	}
}

// A Shared is what programs with the same accounts have in common beside them.
type Shared struct {
	Name string `json:"name"` // a few random letters, for the names of cookies
}

// shares has one item.
var shares = table[Shared]{"shared"}

const onlyShare = "shared"

// share is the name that programs with the same accounts share, once it is known: browsers then send each of them the same cookies.
type share struct{ known atomic.Pointer[string] }

// suffix returns the name, and makes one if there is none. While the ledger can't be reached, it is empty.
func (s *share) suffix(ctx context.Context, l ledger.Ledger) string {
	if known := s.known.Load(); known != nil {
		return *known
	}
	for range 2 { // another program may make it at the same time
		found, err := shares.get(ctx, l, onlyShare)
		if err != nil {
			return ""
		}
		if found != nil {
			s.known.Store(&found.Value.Name)
			return found.Value.Name
		}
		change, err := shares.put(&row[Shared]{Item: ledger.Item{ID: onlyShare}, Value: Shared{newID()[:8]}})
		if err != nil {
			return ""
		}
		change.Quiet = true
		if err := l.Apply(ctx, change); err != nil && !errors.Is(err, ledger.ErrConflict) {
			return ""
		}
	}
	return ""
}
