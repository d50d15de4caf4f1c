package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// A Role is what a user may do in general.
type Role string

// The roles. Each may do what those before it may.
const (
	Viewer        Role = "viewer"
	Operator      Role = "operator"
	Administrator Role = "administrator"
)

// Access is the access that a role has; 0 for an unknown role.
func (r Role) Access() auth.Access {
	return map[Role]auth.Access{Viewer: auth.Read, Operator: auth.Operate, Administrator: auth.Administer}[r]
}

// A User is an account.
type User struct {
	Name     string     `json:"name"`
	Role     Role       `json:"role"`
	Scope    auth.Scope `json:"scope,omitempty"`    // the machines on which the role holds; empty: all
	Sees     auth.Scope `json:"sees,omitempty"`     // the machines that the user sees; empty: all
	Unix     string     `json:"unix,omitempty"`     // the user of the machines whose command lines are shown whole
	Password string     `json:"password,omitempty"` // its argon2id hash; empty: none
	Disabled bool       `json:"disabled,omitempty"`
	// Provider and Subject are of the OIDC provider that vouches for the user; empty: none does.
	Provider string    `json:"provider,omitempty"`
	Subject  string    `json:"subject,omitempty"`
	Created  time.Time `json:"created"`
	Seen     time.Time `json:"seen,omitzero"` // when the user signed in last
}

// A Session is one browser that a user has signed in with. Its ID is the hash of the cookie's value.
type Session struct {
	User    string    `json:"user"` // the ID
	Way     auth.Way  `json:"way"`
	Began   time.Time `json:"began"`
	Seen    time.Time `json:"seen"` // to the minute
	Ends    time.Time `json:"ends"` // at the latest, however often it is used
	Address string    `json:"address,omitempty"`
	Agent   string    `json:"agent,omitempty"` // as the browser names itself
}

// A Token lets a program in. Its ID is the beginning of the hash of its value. It is owned by the account or the guest that it ends with, if
// any.
type Token struct {
	Title  string      `json:"title"`
	Access auth.Access `json:"access"`
	Scope  auth.Scope  `json:"scope,omitempty"` // the machines that it is for; empty: all
	Hash   string      `json:"hash"`            // of its value
	Path   string      `json:"path,omitempty"`  // the only address that it opens, of a picture or a card; empty: all
	By     string      `json:"by"`              // the name of the principal who made it
	Made   time.Time   `json:"made"`
	Used   time.Time   `json:"used,omitzero"`
}

// The kinds of items of the ledger. Names of users and titles of tokens are unique.
var (
	users    = table[User]{"user"}
	sessions = table[Session]{"session"} // owned by users
	passkeys = table[Passkey]{"passkey"} // owned by users
	codes    = table[Codes]{"recovery"}  // owned by users, one for each
	devices  = table[Device]{"device"}   // owned by users
	links    = table[Link]{"link"}       // owned by users, if they are about one
	attempts = table[Attempts]{"attempts"}
	guests   = table[Guest]{"guest"}
	tokens   = table[Token]{"token"} // owned by users, by guests, or by nobody
)

// A table has the items of a kind, whose documents are of one type.
type table[T any] struct{ kind string }

// principal is the user, as recognized in a request.
func (u *User) principal(id string, way auth.Way, address, key string) auth.Principal {
	return auth.Principal{
		Name: u.Name, Access: u.Role.Access(), Audience: auth.NewAudience(u.Sees, u.commands()), Scope: u.Scope, ID: identityOf(id), Way: way, Address: address, Key: key,
	}
}

// administersAll reports whether the user is an administrator of all machines.
func (u *User) administersAll() bool {
	who := u.principal("", "", "", "")
	return who.MayOnAll(auth.Administer)
}

// vouchedElsewhere reports whether a provider vouches for the user, and another way would get around it: whoever the provider no longer lets
// in must not come in with a password either.
func (u *User) vouchedElsewhere(way auth.Way) bool { return u.Provider != "" && way != auth.Provider }

// commands says whose command lines the user sees.
func (u *User) commands() auth.Commands { return commandsOf(u.Role, u.Unix) }

// identityOf is how a principal and the audit have the ID of a user.
func identityOf(id string) string { return "user:" + id }

// A row is an item with its document.
type row[T any] struct {
	ledger.Item
	Value T
}

func (t table[T]) read(it *ledger.Item, err error) (*row[T], error) {
	if err != nil || it == nil {
		return nil, err
	}
	r := &row[T]{Item: *it}
	if err := json.Unmarshal(it.Doc, &r.Value); err != nil {
		return nil, fmt.Errorf("%s %s can't be read: %w", t.kind, it.ID, err)
	}
	return r, nil
}

// get returns an item; nil if there is none.
func (t table[T]) get(ctx context.Context, l ledger.Ledger, id string) (*row[T], error) {
	return t.read(l.Get(ctx, t.kind, id))
}

// named returns the item with a name; nil if there is none.
func (t table[T]) named(ctx context.Context, l ledger.Ledger, name string) (*row[T], error) {
	return t.read(l.Named(ctx, t.kind, name))
}

// list returns all items, or those of an owner.
func (t table[T]) list(ctx context.Context, l ledger.Ledger, owner string) (all []*row[T], err error) {
	items, err := l.List(ctx, t.kind, owner)
	for i := range items {
		r, err := t.read(&items[i], nil)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, err
}

// put is the change that writes a row: a new one, or one that is still of the version that was read.
func (t table[T]) put(r *row[T]) (ledger.Change, error) {
	doc, err := json.Marshal(r.Value)
	if err != nil {
		return ledger.Change{}, fmt.Errorf("%s can't be written: %w", t.kind, err)
	}
	r.Kind, r.Doc = t.kind, doc
	return ledger.Change{Item: r.Item, Was: r.Version}, nil
}

// remove is the change that removes an item with all that it owns.
func (t table[T]) remove(id string) ledger.Change {
	return ledger.Change{Item: ledger.Item{Kind: t.kind, ID: id}, Was: ledger.Any, Remove: true}
}

// newSecret returns 256 random bits as text for a URL, a cookie or a header.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// newID returns the ID of a new item.
func newID() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// hashOf is how the ledger has a random secret. A password needs a slow hash; this is none.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// HasAccounts reports whether somebody has an account that may sign in.
func HasAccounts(ctx context.Context, l ledger.Ledger) (bool, error) {
	all, err := users.list(ctx, l, "")
	return slices.ContainsFunc(all, func(u *row[User]) bool { return !u.Value.Disabled }), err
}

// newCode returns a recovery code of 80 random bits: sixteen letters and digits in groups of four.
func newCode() string {
	var b [10]byte
	_, _ = rand.Read(b[:]) // never fails
	text := strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
	return text[:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:]
}

// codeHash is how the ledger has a recovery code of a user, however the user writes it.
func codeHash(userID, code string) string {
	plain := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return unicode.ToLower(c)
		}
		return -1
	}, code)
	return hashOf(userID + "\n" + plain)
}

// equal compares two hashes in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// longestName is how many bytes the name of a user has at most.
const longestName = 64

var errName = action.Invalid("name", "must be 1 to 64 bytes of letters, digits and ._@+-, not only dots, such as ann or ann@example.org")

// checkName refuses names that people can't tell apart, or that look like markup or paths.
func checkName(name string) error {
	bad := func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._@+-", c)
	}
	dots := strings.Trim(name, ".") == "" // no name, or one that addresses take for a folder
	if dots || len(name) > longestName || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return errName
	}
	return nil
}

// nameOf is the form in which names of users are compared.
func nameOf(name string) string { return strings.ToLower(strings.TrimSpace(name)) }
