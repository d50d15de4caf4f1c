package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/gpuwhy/gpuwhy/internal/access/ledger"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

const (
	// ceremonyLife is how long a browser has to answer with a passkey.
	ceremonyLife = 5 * time.Minute
	// mostPasskeys is how many passkeys a user has at most.
	mostPasskeys = 20
	// longestTitle is how many bytes the title of a passkey has at most.
	longestTitle = 100
)

// A Passkey is a key that an authenticator or a password manager has. Its ID is the hash of the credential's.
type Passkey struct {
	Title      string              `json:"title"`
	Host       string              `json:"host"` // where it was made, and where alone it can be used
	Credential webauthn.Credential `json:"credential"`
	Made       time.Time           `json:"made"`
	Used       time.Time           `json:"used,omitzero"`
}

// A Ceremony is a challenge that a browser has not answered yet. Its ID is the hash of its cookie.
type Ceremony struct {
	User    string               `json:"user,omitempty"` // who adds a passkey; empty: somebody signs in
	Session webauthn.SessionData `json:"session"`
}

var ceremonies = table[Ceremony]{"ceremony"}

// Refusals of passkeys.
var (
	errNoPasskeys = serve.Refuse(http.StatusForbidden, "passkeys don't work at this address",
		"open gpuwhy by a host name over HTTPS, or as http://localhost; an IP address or plain HTTP is not enough")
	errPasskey  = serve.Refuse(http.StatusUnauthorized, "the passkey was not accepted", "try again, or sign in with the password")
	errCeremony = serve.Refuse(http.StatusBadRequest, "the browser took too long to answer, or its answer was used already", "try again")
	errMany     = serve.Refuse(http.StatusServiceUnavailable, "too many people are signing in at this moment", "try again in a few seconds").RetryAfter("3")
	errFull     = serve.Refuse(http.StatusConflict, "you have as many passkeys as are allowed", "remove one first")
)

// A keyholder is a user for the library.
type keyholder struct {
	id, name string
	keys     []*row[Passkey]
}

// WebAuthnID implements [webauthn.User].
func (k *keyholder) WebAuthnID() []byte { return []byte(k.id) }

// WebAuthnName implements [webauthn.User].
func (k *keyholder) WebAuthnName() string { return k.name }

// WebAuthnDisplayName implements [webauthn.User].
func (k *keyholder) WebAuthnDisplayName() string { return k.name }

// WebAuthnCredentials implements [webauthn.User].
func (k *keyholder) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, key := range k.keys {
		all = append(all, key.Value.Credential)
	}
	return all
}

// passkeyHost is the host name at which passkeys of a request are made and used; empty where browsers offer none: without TLS, but for
// localhost, and at addresses.
func (r *Room) passkeyHost(request *http.Request) string {
	host := request.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return ""
	}
	if host != "localhost" && !strings.HasSuffix(host, ".localhost") && !r.secure(request) {
		return ""
	}
	return host
}

// relyingParty checks passkeys for the address of a request.
func (r *Room) relyingParty(request *http.Request) (*webauthn.WebAuthn, string, error) {
	host := r.passkeyHost(request)
	if host == "" {
		return nil, "", errNoPasskeys
	}
	scheme := "http://"
	if r.secure(request) {
		scheme = "https://"
	}
	limit := webauthn.TimeoutConfig{Enforce: true, Timeout: ceremonyLife, TimeoutUVD: ceremonyLife}
	party, err := webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "gpuwhy", RPOrigins: []string{scheme + strings.ToLower(request.Host)}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, RequireResidentKey: protocol.ResidentKeyRequired(), UserVerification: protocol.VerificationRequired,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: limit, Registration: limit},
	})
	return party, host, err
}

// beginCeremony keeps a challenge for the browser that gets its cookie.
func (r *Room) beginCeremony(w http.ResponseWriter, request *http.Request, c Ceremony) error {
	if !r.begun.allow(r.household(request)) {
		return r.refused(request, "signIn", errMany)
	}
	secret := newSecret()
	change, err := ceremonies.put(&row[Ceremony]{Item: ledger.Item{ID: hashOf(secret), Expires: r.cfg.Clock.Now().Add(ceremonyLife)}, Value: c})
	if err != nil {
		return err
	}
	change.Quiet = true
	if err := r.ledger.Apply(request.Context(), change); err != nil {
		return err
	}
	r.setCookie(w, request, "-ceremony", secret, ceremonyLife)
	return nil
}

// endCeremony returns the challenge that a browser answers, once.
func (r *Room) endCeremony(w http.ResponseWriter, request *http.Request, userID string) (*webauthn.SessionData, error) {
	cookie, err := request.Cookie(r.cookie(request, "-ceremony"))
	if err != nil {
		return nil, errCeremony
	}
	r.setCookie(w, request, "-ceremony", "", 0)
	found, err := ceremonies.get(request.Context(), r.ledger, hashOf(cookie.Value))
	if err != nil {
		return nil, err
	}
	if found == nil || found.Value.User != userID || !found.Expires.After(r.cfg.Clock.Now()) {
		return nil, errCeremony
	}
	err = r.ledger.Apply(request.Context(), ledger.Change{Item: ledger.Item{Kind: ceremonies.kind, ID: found.ID}, Was: found.Version, Remove: true, Quiet: true})
	if errors.Is(err, ledger.ErrConflict) {
		return nil, errCeremony // somebody else has answered
	}
	return &found.Value.Session, err
}

// beginPasskey returns what the browser needs to make a passkey for a user.
func (r *Room) beginPasskey(w http.ResponseWriter, request *http.Request, user *row[User]) (any, error) {
	party, _, err := r.relyingParty(request)
	if err != nil {
		return nil, err
	}
	holder, err := r.keyholder(request.Context(), user)
	if err != nil {
		return nil, err
	}
	if len(holder.keys) >= mostPasskeys {
		return nil, errFull
	}
	var had []protocol.CredentialDescriptor
	for _, key := range holder.keys {
		had = append(had, key.Value.Credential.Descriptor())
	}
	options, session, err := party.BeginRegistration(holder, webauthn.WithExclusions(had))
	if err != nil {
		return nil, err
	}
	return options, r.beginCeremony(w, request, Ceremony{User: user.ID, Session: *session})
}

// addPasskey keeps the passkey that a browser has made for a user.
func (r *Room) addPasskey(w http.ResponseWriter, request *http.Request, user *row[User], title string, answer []byte) error {
	ctx := request.Context()
	party, host, err := r.relyingParty(request)
	if err != nil {
		return err
	}
	session, err := r.endCeremony(w, request, user.ID)
	if err != nil {
		return err
	}
	holder, err := r.keyholder(ctx, user)
	if err != nil {
		return err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return r.refusedPasskey(err)
	}
	credential, err := party.CreateCredential(holder, *session, parsed)
	if err != nil {
		return r.refusedPasskey(err)
	}
	change, err := passkeys.put(&row[Passkey]{
		Item:  ledger.Item{ID: passkeyID(credential.ID), Owner: user.ID},
		Value: Passkey{Title: titleOf(title), Host: host, Credential: *credential, Made: r.cfg.Clock.Now().UTC()},
	})
	if err != nil {
		return err
	}
	return r.recorded(request, "addPasskey", titleOf(title), change)
}

// titleOf is the title of a passkey, as people see it.
func titleOf(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > longestTitle {
		text = strings.ToValidUTF8(text[:longestTitle], "")
	}
	if text == "" {
		return "Passkey"
	}
	return text
}

// refusedPasskey logs why a passkey is refused: people are not told.
func (r *Room) refusedPasskey(err error) error {
	details := ""
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		details = e.Details + " " + e.DevInfo
	}
	r.log.Debug("a passkey was refused", "err", err, "details", details)
	return errPasskey
}

// beginPasskeySignIn returns what the browser needs to find a passkey.
func (r *Room) beginPasskeySignIn(w http.ResponseWriter, request *http.Request) (any, error) {
	party, _, err := r.relyingParty(request)
	if err != nil {
		return nil, err
	}
	if err := r.affords(request, []string{r.addressBudget(request)}); err != nil {
		return nil, err
	}
	options, session, err := party.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, err
	}
	return options, r.beginCeremony(w, request, Ceremony{Session: *session})
}

// passkeySignIn returns the ID of the user whose passkey has signed a challenge.
func (r *Room) passkeySignIn(w http.ResponseWriter, request *http.Request, answer []byte) (userID string, err error) {
	ctx := request.Context()
	party, host, err := r.relyingParty(request)
	if err != nil {
		return "", err
	}
	session, err := r.endCeremony(w, request, "")
	if err != nil {
		return "", err
	}
	user, key, refused, err := r.passkeyOf(ctx, party, host, session, answer)
	if err != nil {
		return "", err
	}
	if refused != nil {
		e := r.entry(request, "signIn", "refused")
		e.Way, e.Detail = string(auth.Passkey), "passkey not accepted"
		if errors.Is(refused, errCopied) {
			e.Detail = errCopied.Error()
		}
		if user != nil {
			e.Principal, e.Identity = user.Value.Name, identityOf(user.ID)
		}
		if err := errors.Join(r.cfg.Audit(ctx, e), r.failed(ctx, []string{r.addressBudget(request)})); err != nil {
			return "", err
		}
		return "", r.refusedPasskey(refused)
	}
	key.Value.Used = r.cfg.Clock.Now().UTC()
	change, err := passkeys.put(key)
	if err != nil {
		return "", err
	}
	err = r.ledger.Apply(ctx, change)
	if errors.Is(err, ledger.ErrConflict) {
		return "", errPasskey // it is used somewhere else at the same time
	}
	return user.ID, err
}

// errCopied refuses a passkey of which there are two.
var errCopied = errors.New("the passkey's counter went back: there may be a copy of it")

// passkeyOf returns the passkey that has signed a challenge, as it is after that, and its user; or why it is refused, with the user, if one
// is known. err is of the ledger.
func (r *Room) passkeyOf(ctx context.Context, party *webauthn.WebAuthn, host string, session *webauthn.SessionData, answer []byte) (user *row[User], key *row[Passkey], refused, err error) {
	parsed, refused := protocol.ParseCredentialRequestResponseBytes(answer)
	if refused != nil {
		return nil, nil, refused, nil
	}
	_, credential, refused := party.ValidatePasskeyLogin(func(_, handle []byte) (webauthn.User, error) {
		if user, err = users.get(ctx, r.ledger, string(handle)); err != nil {
			return nil, err
		}
		if user == nil || user.Value.Disabled {
			return nil, errPasskey
		}
		var holder *keyholder
		holder, err = r.keyholder(ctx, user)
		return holder, err
	}, *session, parsed)
	if err != nil || refused != nil {
		return user, nil, refused, err
	}
	key, err = passkeys.get(ctx, r.ledger, passkeyID(credential.ID))
	switch {
	case err != nil:
	case key == nil || key.Owner != user.ID || key.Value.Host != host:
		refused = errPasskey
	case credential.Authenticator.CloneWarning:
		refused = errCopied
	default:
		key.Value.Credential = *credential
	}
	return user, key, refused, err
}

// keyholder has a user's passkeys.
func (r *Room) keyholder(ctx context.Context, user *row[User]) (*keyholder, error) {
	keys, err := passkeys.list(ctx, r.ledger, user.ID)
	return &keyholder{id: user.ID, name: user.Value.Name, keys: keys}, err
}

func passkeyID(credential []byte) string {
	sum := sha256.Sum256(credential)
	return hex.EncodeToString(sum[:])
}

// recorded makes changes of a user's own account, with an entry in the audit.
func (r *Room) recorded(request *http.Request, what, target string, changes ...ledger.Change) error {
	who := auth.FromRequest(request)
	if err := r.paced(&who); err != nil {
		return r.refused(request, what, err)
	}
	if err := r.record(request, what, target); err != nil || len(changes) == 0 {
		return err
	}
	return r.ledger.Apply(request.Context(), changes...)
}

// record adds an entry to the audit about what the principal of a request has done.
func (r *Room) record(request *http.Request, what, target string) error {
	who := auth.FromRequest(request)
	e := r.entry(request, what, "done")
	e.Principal, e.Identity, e.Way, e.Target = who.Name, who.ID, string(who.Way), target
	return r.cfg.Audit(request.Context(), e)
}

// recoveryCodes is how many codes a user gets.
const recoveryCodes = 10

// Codes are the hashes of a user's recovery codes that were not used yet.
type Codes struct {
	Hashes []string  `json:"hashes"`
	Made   time.Time `json:"made"`
}

// codesOf is the ID of a user's codes. It is no other item's: what an item owns goes with its ID.
func codesOf(userID string) string { return codes.kind + ":" + userID }

// newCodes replaces a user's recovery codes. Nobody sees them a second time.
func (r *Room) newCodes(request *http.Request, userID string) (list []string, err error) {
	before, err := codes.get(request.Context(), r.ledger, codesOf(userID))
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = &row[Codes]{Item: ledger.Item{ID: codesOf(userID), Owner: userID}}
	}
	before.Value = Codes{Made: r.cfg.Clock.Now().UTC()}
	for range recoveryCodes {
		code := newCode()
		list = append(list, code)
		before.Value.Hashes = append(before.Value.Hashes, codeHash(userID, code))
	}
	change, err := codes.put(before)
	if err != nil {
		return nil, err
	}
	return list, r.recorded(request, "makeRecoveryCodes", "", change)
}

// codeSignIn returns the user with a name and one of the recovery codes, which it uses up, or the refusal for whoever asks.
func (r *Room) codeSignIn(request *http.Request, name, code string) (*row[User], error) {
	return r.try(request, name, "recovery code", func(ctx context.Context, user *row[User]) (bool, error) {
		if user == nil || user.Value.Disabled {
			return false, nil
		}
		has, err := codes.get(ctx, r.ledger, codesOf(user.ID))
		if err != nil || has == nil {
			return false, err
		}
		hash := codeHash(user.ID, code)
		for i, one := range has.Value.Hashes {
			if !equal(one, hash) {
				continue
			}
			if r.waits(user) { // the code stays
				return false, r.refused(request, "signIn", errOften)
			}
			has.Value.Hashes = append(has.Value.Hashes[:i:i], has.Value.Hashes[i+1:]...)
			change, err := codes.put(has)
			if err != nil {
				return false, err
			}
			err = r.ledger.Apply(ctx, change)
			if errors.Is(err, ledger.ErrConflict) {
				return false, nil // somebody else has used it
			}
			return err == nil, err
		}
		return false, nil
	})
}

// optionsOf is what a browser gets of a ceremony's options: the member that navigator.credentials takes.
func optionsOf(options any) (json.RawMessage, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	var wrapped struct {
		PublicKey json.RawMessage `json:"publicKey"`
	}
	err = json.Unmarshal(text, &wrapped)
	return wrapped.PublicKey, err
}
