package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

// An API token is tokenPrefix, 52 random characters of A to Z and 2 to 7, which are 260 bits, and 7 that are their CRC-32. Programs
// that look for leaked secrets find it by the prefix, and a token that was not copied whole is told from one that was removed.
const (
	tokenPrefix = "gpw_"
	tokenLength = len(tokenPrefix) + 2*26 + 7
)

// newTokenValue returns a new token.
func newTokenValue() string { return summed(tokenPrefix + rand.Text() + rand.Text()) }

// summed returns a token's beginning with its checksum.
func summed(beginning string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(beginning)))
	return beginning + base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum)
}

// whole reports whether a text is a token, as far as can be told without the ledger.
func whole(value string) bool {
	return len(value) == tokenLength && strings.HasPrefix(value, tokenPrefix) && summed(value[:tokenLength-7]) == value
}

// tokenID is the ID of the token with a hash.
func tokenID(hash string) string { return hash[:16] }

// The refusals of requests with a token that is not accepted. They are the same for one that never was, one that has ended, and one that
// was removed.
var (
	errTokenForm = serve.Refuse(http.StatusUnauthorized, "the request has no whole API token of gpuwhy, which has "+tokenPrefix+" and 59 characters",
		"copy the whole token, and send it as Authorization: Bearer TOKEN").With("WWW-Authenticate", `Bearer error="invalid_token"`)
	errToken = serve.Refuse(http.StatusUnauthorized, "the API token is not valid: it is unknown, has ended or was removed",
		"make another: 'gpuwhy token add'").With("WWW-Authenticate", `Bearer error="invalid_token"`)
	errTwoTokens = serve.Refuse(http.StatusUnauthorized, "the request says twice who makes it", "send one Authorization header").With("WWW-Authenticate", "Bearer")
)

// mostUsed is how many tokens' uses are remembered until they are written.
const mostUsed = 1000

// tokenWay recognizes programs by their API tokens.
type tokenWay struct {
	room *Room

	mu   sync.Mutex
	used map[string]time.Time // when tokens were used whose use the ledger does not have yet, by ID
}

func newTokenWay(r *Room) *tokenWay { return &tokenWay{room: r, used: map[string]time.Time{}} }

// Recognize implements [Way]. A request with a token is the token's, or refused.
func (t *tokenWay) Recognize(r *http.Request) (who auth.Principal, known bool, err error) {
	headers := r.Header.Values("Authorization")
	value, bearer := "", false
	for _, h := range headers {
		h = strings.TrimSpace(h)
		end := strings.IndexFunc(h, unicode.IsSpace) // a tab, too: nobody becomes a person of this machine by it
		if end < 0 {
			end = len(h)
		}
		if strings.EqualFold(h[:end], "Bearer") {
			value, bearer = strings.TrimSpace(h[end:]), true
		}
	}
	switch {
	case bearer && len(headers) > 1:
		return who, true, errTwoTokens
	case bearer:
		who, err = t.principal(r, value, "")
		return who, true, err
	}
	if path, value, has := t.pictureOf(r.URL); has {
		who, err = t.principal(r, value, path)
		return who, true, err
	}
	return who, false, nil
}

// principal returns who a token is for; only for the address of a picture, if path is not empty.
func (t *tokenWay) principal(r *http.Request, value, path string) (who auth.Principal, err error) {
	if !whole(value) {
		return who, errTokenForm
	}
	found, owner, err := t.find(r.Context(), hashOf(value))
	switch {
	case err != nil:
		return who, t.room.unreachable(err)
	case found == nil || !same(found.Value.Path, path):
		return who, errToken
	}
	who, valid := tokenPrincipal(found, owner, t.room.address(r))
	if !valid {
		return auth.Principal{}, errToken
	}
	t.note(found.ID)
	return who, nil
}

// tokenPrincipal is who a token is for, with what its owner has now; nil: none. It reports whether the token still lets anybody in.
func tokenPrincipal(token *row[Token], owner *holder, address string) (who auth.Principal, valid bool) {
	v := &token.Value
	who = auth.Principal{
		Name: v.Title, ID: auth.TokenID + token.ID, Key: token.ID, Way: auth.Token, Access: v.Access, Scope: v.Scope, Audience: auth.NewAudience(v.Scope, auth.Shown), Address: address,
	}
	if v.Path != "" {
		who.Way = auth.Picture
	}
	return who, token.Owner == "" || limit(&who, owner)
}

// limit takes from a token's principal what its owner may not do or see any more. It reports whether anything is left. Scopes are
// compared as they are written.
func limit(who *auth.Principal, owner *holder) bool {
	if owner == nil || who.Scope != "" && (!who.Scope.Within(owner.Scope) || !who.Scope.Within(owner.Sees)) {
		return false
	}
	commands := auth.CommandsOf(owner.unix)
	if who.Access == auth.Administer {
		commands = commandsOf(owner.Role, owner.unix)
	}
	who.Access = min(who.Access, owner.Role.Access())
	sees := who.Scope
	if who.Scope == "" {
		who.Scope, sees = owner.Scope, owner.Sees
	}
	who.Audience = auth.NewAudience(sees, commands)
	return who.Access > 0
}

// find returns the token with a hash, and what its owner has now; nil if there is none.
func (t *tokenWay) find(ctx context.Context, hash string) (token *row[Token], owner *holder, err error) {
	token, err = tokens.get(ctx, t.room.ledger, tokenID(hash))
	if err != nil || token == nil || !same(token.Value.Hash, hash) || ended(token.Expires, t.room.cfg.Clock.Now()) {
		return nil, nil, err
	}
	if token.Owner != "" {
		owner, err = t.room.holder(ctx, token.Owner)
	}
	return token, owner, err
}

// ended reports whether something that expires has done so. The ledger does not return what has expired by its own clock.
func ended(expires, now time.Time) bool { return !expires.IsZero() && !now.Before(expires) }

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// note remembers that a token is used.
func (t *tokenWay) note(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, noted := t.used[id]; noted || len(t.used) < mostUsed {
		t.used[id] = t.room.cfg.Clock.Now()
	}
}

// usedEach is the least time between two changes of a token's last use.
const usedEach = time.Minute

// writeUses writes when tokens were used last. Who writes a token at the same time does not lose anything: the use is lost then.
func (t *tokenWay) writeUses(ctx context.Context) {
	t.mu.Lock()
	used := t.used
	t.used = map[string]time.Time{}
	t.mu.Unlock()
	for id, at := range used {
		token, err := tokens.get(ctx, t.room.ledger, id)
		if err == nil && token != nil && at.Sub(token.Value.Used) >= usedEach {
			token.Value.Used = at.UTC().Truncate(time.Minute)
			var change ledger.Change
			if change, err = tokens.put(token); err == nil {
				change.Quiet = true
				err = t.room.ledger.Apply(ctx, change)
			}
		}
		if err != nil && !errors.Is(err, ledger.ErrConflict) {
			t.room.log.Warn("the last use of a token was not written", "token", id, "err", err)
		}
	}
}

// pictureOf returns the address of a picture or a card and the token in it, if a URL has one: the address without the token, and with
// its other parameters in order. Only these addresses take a token.
func (t *tokenWay) pictureOf(u *url.URL) (path, value string, has bool) {
	if !strings.Contains(u.RawQuery, "token=") || !pictured(u.Path) {
		return "", "", false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(query["token"]) != 1 {
		return "", "", false
	}
	value = query.Get("token")
	query.Del("token")
	path, below := strings.CutPrefix(u.EscapedPath(), t.room.base)
	return address(path, query), value, below
}

// pictured reports whether a path, perhaps below a base path or a node, is that of a picture or a card.
func pictured(path string) bool {
	last := strings.LastIndexByte(path, '/')
	return last >= 0 && (path[last:] == "/picture.svg" || strings.HasSuffix(path[:last], "/embed/gpu") && last < len(path)-1)
}

// address is an address in the form in which addresses are compared.
func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
