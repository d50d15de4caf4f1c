package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"golang.org/x/crypto/argon2"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

const (
	// leastPassword is how many characters a password has at least: what NIST SP 800-63B-4 requires where it is the only factor. There are
	// no rules about which characters.
	leastPassword = 15
	// mostPassword is how many bytes it has at most.
	mostPassword = 1024
	// mostWaiting is how many requests may wait until their password is checked.
	mostWaiting = 8
	// untilFreed is how long after the last check the memory of the checks goes back to the system.
	untilFreed = 2 * time.Second
)

// hashing are the parameters of password hashes, the least that OWASP recommends for argon2id. 19 MiB once fit beside the 15 MiB that an
// idle program has, and in the smallest memory limit of the deployment files.
var hashing = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// nobody returns the hash that passwords are compared with where there is no user, or one without a password, so that this takes as long.
// No password has it.
func nobody() string {
	zeros := func(bytes uint32) string { return base64.RawStdEncoding.EncodeToString(make([]byte, bytes)) }
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashing.Memory, hashing.Iterations, hashing.Parallelism, zeros(hashing.SaltLength), zeros(hashing.KeyLength))
}

// errCrowded refuses a password while too many others wait to be checked.
var errCrowded = serve.Refuse(http.StatusServiceUnavailable, "too many people are signing in at this moment", "try again in a few seconds").RetryAfter("3")

// A hasher hashes passwords, one at a time, since each takes [hashing].Memory. It collects the garbage of each before the next, so that many
// in a row take no more than two. Many goroutines may call it.
type hasher struct {
	turn    chan struct{} // has a value while somebody hashes
	waiting atomic.Int32
	hashed  atomic.Int64 // counts hashes, for tests

	mu    sync.Mutex
	freed *time.Timer // gives the memory back
}

func newHasher() *hasher { return &hasher{turn: make(chan struct{}, 1)} }

// alone calls f while no other password is hashed, or returns an error: that of f, that of ctx, or [errCrowded].
func (h *hasher) alone(ctx context.Context, f func() error) error {
	if h.waiting.Add(1) > mostWaiting {
		h.waiting.Add(-1)
		return errCrowded
	}
	defer h.waiting.Add(-1)
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.turn }()
	return f()
}

// matches reports whether a password has the hash. It takes the same time for an empty hash, which no password has. Call it within
// [hasher.alone].
func (h *hasher) matches(password, hash string) (bool, error) {
	there := hash != ""
	if !there {
		hash = nobody()
	}
	defer h.count()
	same, err := argon2id.ComparePasswordAndHash(password, hash)
	return same && there, err
}

// hash returns the hash of a password. Call it within [hasher.alone].
func (h *hasher) hash(password string) (string, error) {
	defer h.count()
	return argon2id.CreateHash(password, hashing)
}

// count counts a hash, whose memory the next can have, and gives it back to the system once no more follow.
func (h *hasher) count() {
	h.hashed.Add(1)
	runtime.GC()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed == nil {
		h.freed = time.AfterFunc(untilFreed, debug.FreeOSMemory)
		return
	}
	h.freed.Reset(untilFreed)
}

// close ends what is still to come.
func (h *hasher) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.freed != nil {
		h.freed.Stop()
	}
}

// Refusals of new passwords.
var (
	errShort = action.Invalid("password", "must have at least "+strconv.Itoa(leastPassword)+" characters: a few words are easy to remember")
	errLong  = action.Invalid("password", "must have at most "+strconv.Itoa(mostPassword)+" bytes")
	errText  = action.Invalid("password", "must be text without control characters")
	errEasy  = action.Invalid("password", "is too easy to guess: it repeats itself, is a sequence, or is mostly a name: choose a few words that have nothing to do with each other")
)

// wellKnown are words that do not make a password hard to guess.
var wellKnown = []string{"password", "passwort", "gpuwhy", "nvidia", "administrator", "admin", "welcome", "letmein", "qwertyuiop", "qwerty", "iloveyou", "secret", "changeme", "default"}

// checkPassword refuses passwords that people can guess. There are no rules about which characters one has.
func checkPassword(name, password string) error {
	switch {
	case len(password) > mostPassword:
		return errLong
	case !utf8.ValidString(password) || strings.ContainsFunc(password, unicode.IsControl):
		return errText
	case utf8.RuneCountInString(password) < leastPassword:
		return errShort
	}
	rest := strings.ToLower(password)
	for _, word := range append(wellKnown, nameOf(name)) {
		if word != "" {
			rest = strings.ReplaceAll(rest, word, "")
		}
	}
	different, steps := map[rune]bool{}, map[rune]bool{}
	var before rune
	for i, c := range rest {
		different[c] = true
		if i > 0 {
			steps[c-before] = true
		}
		before = c
	}
	if len(different) < 5 || len(steps) < 4 {
		return errEasy
	}
	return nil
}

// passwordChanges are the changes that give a user another password, end all sessions of the user but one, if one is named, and make the
// user's links useless. The caller has made sure that the user may do so, and ends the sockets with [Room.revoke].
func (r *Room) passwordChanges(ctx context.Context, user *row[User], password, except string) ([]ledger.Change, error) {
	hash, err := r.newHash(ctx, user.Value.Name, password)
	if err != nil {
		return nil, err
	}
	user.Value.Password = hash
	changed, err := users.put(user)
	if err != nil {
		return nil, err
	}
	ended, err := r.endings(ctx, user.ID, except)
	if err != nil {
		return nil, err
	}
	sent, err := links.list(ctx, r.ledger, user.ID)
	for _, l := range sent {
		ended = append(ended, links.remove(l.ID))
	}
	return append(ended, changed), err
}

// newHash is the hash of a user's new password, which it refuses if it is easy to guess.
func (r *Room) newHash(ctx context.Context, name, password string) (hash string, err error) {
	if err := checkPassword(name, password); err != nil {
		return "", err
	}
	err = r.hasher.alone(ctx, func() (err error) {
		hash, err = r.hasher.hash(password)
		return err
	})
	return hash, err
}

// signIn returns the user with a name and a password, or the refusal for whoever asks. Refusals do not depend on whether there is such a
// user, nor does the time that they take.
func (r *Room) signIn(request *http.Request, name, password string) (*row[User], error) {
	return r.try(request, name, "password", func(_ context.Context, user *row[User]) (bool, error) {
		hash := ""
		if user != nil && !user.Value.Disabled {
			hash = user.Value.Password
		}
		if len(password) > mostPassword {
			return false, nil
		}
		return r.hasher.matches(password, hash)
	})
}

// errWrong refuses a sign-in.
var errWrong = serve.Refuse(http.StatusUnauthorized, "the name or the password is wrong", "check both; after several failures gpuwhy makes you wait before the next try")

// try has something that a user says compared, once nobody else's is compared: proven reports whether it is the user's. It counts
// failures, and refuses while there were too many.
func (r *Room) try(request *http.Request, name, what string, proven func(ctx context.Context, user *row[User]) (bool, error)) (user *row[User], err error) {
	ctx := request.Context()
	budgets, err := r.budgets(request, name)
	if err != nil {
		return nil, err
	}
	if err := r.affords(request, budgets); err != nil {
		return nil, err
	}
	err = r.hasher.alone(ctx, func() error {
		if err := r.affords(request, budgets); err != nil { // others may have failed meanwhile
			return err
		}
		if user, err = users.named(ctx, r.ledger, nameOf(name)); err != nil {
			return err
		}
		ok, err := proven(ctx, user)
		if err != nil {
			return err
		}
		if ok {
			return r.succeeded(ctx, budgets)
		}
		e := r.entry(request, "signIn", "refused")
		e.Way, e.Detail = string(auth.Password), "no such name" // and not which: people type passwords there
		if user != nil {
			e.Principal, e.Identity, e.Detail = user.Value.Name, identityOf(user.ID), "wrong "+what
			if user.Value.Disabled {
				e.Detail = "disabled"
			}
		}
		if err := errors.Join(r.cfg.Audit(ctx, e), r.failed(ctx, budgets)); err != nil {
			return err
		}
		return errWrong
	})
	if err != nil {
		return nil, err
	}
	return user, nil
}

// entry begins an audit entry about a request.
func (r *Room) entry(request *http.Request, what, result string) *ledger.Entry {
	return &ledger.Entry{Action: what, Address: r.address(request), Result: result}
}
