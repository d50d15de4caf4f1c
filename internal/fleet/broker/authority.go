// Package broker runs a NATS server inside gpuwhy, for fleets without one. The server stores messages, speaks only TLS, and
// accepts only clients with credentials from its authority. The authority is a file, so that commands can issue and
// revoke credentials whether or not the server runs.
package broker

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/natefinch/atomic"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Dir is the folder, below a state directory, in which a fleet's server and authority keep their files.
const Dir = "fleet"

const (
	authorityFile = "authority.json"
	lockFile      = "authority.lock"
	// ownCredentials is the file with which the server's own program connects.
	ownCredentials = "server.creds"
	longest        = 16 << 20 // bytes of the file
	// LongestName is how many bytes a name may have: even with every byte escaped, NATS servers accept it in a subject.
	LongestName = 512
	// The CA is not renewed, since every machine would have to join again.
	caLife = 30 * 365 * 24 * time.Hour
	// lockPatience is how long another command may hold the file.
	lockPatience = 5 * time.Second
)

// A Member is a program that may join the fleet, or was removed from it.
type Member struct {
	Kind    Kind      `json:"kind"`
	Name    string    `json:"name"`
	Key     string    `json:"key"`              // the public key that identifies its credentials
	Issued  time.Time `json:"issued"`           // when the credentials were issued
	Removed time.Time `json:"removed,omitzero"` // when they were revoked; zero if they were not
}

// document is the authority's file, of mode 0600.
type document struct {
	Version  int      `json:"version"`
	Operator string   `json:"operator"` // seeds
	System   string   `json:"system"`
	Account  string   `json:"account"`
	CA       string   `json:"ca"` // PEM
	CAKey    string   `json:"ca_key"`
	Members  []Member `json:"members"`
}

// An Authority issues and revokes the credentials of one fleet. Several programs may use one directory.
type Authority struct{ dir string }

// Secrets returns the files of a directory that nobody else may read.
func Secrets(dir string) []string {
	return []string{filepath.Join(dir, authorityFile), filepath.Join(dir, ownCredentials)}
}

// Exists reports whether a directory has an authority.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, authorityFile))
	return err == nil
}

// OpenAuthority opens the authority of a directory, and creates it if there is none.
func OpenAuthority(dir string) (*Authority, error) {
	a := &Authority{dir}
	if err := state.MakeFolder(dir); err != nil {
		return nil, fmt.Errorf("the fleet's keys: %w", err)
	}
	return a, a.change(func(*document) error { return nil })
}

// Join issues credentials: the text of a file that only its owner may read, with the CA's certificate. Earlier credentials
// of the name stay valid.
func (a *Authority) Join(kind Kind, name string) (text string, err error) {
	return a.join(kind, name, time.Time{})
}

func (a *Authority) join(kind Kind, name string, expires time.Time) (text string, err error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	err = a.change(func(d *document) error {
		account, err := nkeys.FromSeed([]byte(d.Account))
		if err != nil {
			return fmt.Errorf("the account's key: %w", err)
		}
		creds, key, err := sign(account, "", kind, name, expires)
		if err != nil {
			return err
		}
		d.Members = append(d.Members, Member{Kind: kind, Name: name, Key: key, Issued: now()})
		text = creds + d.CA
		return nil
	})
	return text, err
}

// Sign issues credentials for other NATS servers, with the seed of an account's signing key. issuer is the account's public
// key, or empty if the seed is the account's own. Only the account's administrator can revoke the credentials; key identifies
// them to the administrator.
func Sign(seed []byte, issuer string, kind Kind, name string) (text, key string, err error) {
	if err := CheckName(name); err != nil {
		return "", "", err
	}
	account, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err == nil {
		var public string
		if public, err = account.PublicKey(); err == nil && !nkeys.IsValidPublicAccountKey(public) {
			err = errors.New("the seed is not an account's")
		}
	}
	if err != nil {
		return "", "", &gpu.Advice{What: "the file has no seed of a NATS account", Try: "give the file of one of the account's signing keys, which begins with SA", Err: err}
	}
	if issuer != "" && !nkeys.IsValidPublicAccountKey(issuer) {
		return "", "", &gpu.Advice{What: fmt.Sprintf("%.80q is not a public key of a NATS account", issuer), Try: "give the account ID that 'nsc describe account' prints, which begins with A"}
	}
	return sign(account, issuer, kind, name, time.Time{})
}

func sign(account nkeys.KeyPair, issuer string, kind Kind, name string, expires time.Time) (text, key string, err error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	key, err = user.PublicKey()
	if err != nil {
		return "", "", err
	}
	claims := jwt.NewUserClaims(key)
	claims.Name = string(kind) + " " + name
	claims.IssuerAccount = issuer
	claims.Permissions = Permissions(kind, name)
	if !expires.IsZero() {
		claims.Expires = expires.Unix()
	}
	token, err := claims.Encode(account)
	if err != nil {
		return "", "", err
	}
	seed, err := user.Seed()
	if err != nil {
		return "", "", err
	}
	config, err := jwt.FormatUserConfig(token, seed)
	return string(config), key, err
}

// Remove revokes all credentials of a name, of every kind. A running server closes its connections within seconds. If no
// member has the name, the error is a [gpu.Advice].
func (a *Authority) Remove(name string) error {
	return a.change(func(d *document) error {
		removed := false
		for i := range d.Members {
			if m := &d.Members[i]; m.Name == name && m.Kind != own && m.Removed.IsZero() {
				m.Removed, removed = now(), true
			}
		}
		if !removed {
			return &gpu.Advice{What: fmt.Sprintf("no member of the fleet is called %.300q", name), Try: "list the names with 'gpuwhy fleet list'"}
		}
		return nil
	})
}

// Members returns everyone who has ever got credentials, including those removed, by name and time.
func (a *Authority) Members() ([]Member, error) {
	d, err := a.read()
	if err != nil {
		return nil, err
	}
	members := slices.DeleteFunc(d.Members, func(m Member) bool { return m.Kind == own })
	slices.SortStableFunc(members, func(x, y Member) int {
		return strings.Compare(x.Name, y.Name)
	})
	return members, nil
}

// CheckName returns why a name can't be a member's name, as a [gpu.Advice]; nil if it can.
func CheckName(name string) error {
	var what string
	switch {
	case name == "":
		what = "the name is empty"
	case len(name) > LongestName:
		what = fmt.Sprintf("the name has %d bytes", len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }):
		what = fmt.Sprintf("the name %q has characters that are not allowed", name)
	default:
		return nil
	}
	return &gpu.Advice{What: what, Try: fmt.Sprintf("choose a name of 1 to %d bytes, all printable", LongestName)}
}

// now has whole seconds, since revocations have no smaller parts.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

func (a *Authority) file() string { return filepath.Join(a.dir, authorityFile) }

func (a *Authority) read() (*document, error) {
	text, err := regular.Read(a.file(), longest)
	if err != nil {
		return nil, fmt.Errorf("the fleet's keys: %w", err)
	}
	d := &document{}
	if err := json.Unmarshal(text, d); err != nil || d.Version != 1 {
		return nil, &gpu.Advice{
			What: fmt.Sprintf("the fleet's keys in %s can't be read", a.file()),
			Try:  "restore the file from a backup. If you delete it, every machine must join again", Err: err,
		}
	}
	return d, nil
}

// change changes the file while no other program does.
func (a *Authority) change(do func(*document) error) (err error) {
	release, err := a.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	d, err := a.read()
	made := errors.Is(err, fs.ErrNotExist)
	if made {
		d, err = newDocument()
	}
	if err != nil {
		return err
	}
	before, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := do(d); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		return err
	}
	if after, err := json.Marshal(d); err != nil || !made && bytes.Equal(before, after) {
		return err
	}
	if err := atomic.WriteFile(a.file(), bytes.NewReader(append(text, '\n'))); err != nil {
		return fmt.Errorf("the fleet's keys: %w", err)
	}
	return a.giveOwner()
}

func (a *Authority) lock() (release func() error, err error) {
	for end := time.Now().Add(lockPatience); ; time.Sleep(20 * time.Millisecond) {
		release, holder, err := state.LockFile(filepath.Join(a.dir, lockFile))
		switch {
		case err != nil:
			return nil, fmt.Errorf("the fleet's keys: %w", err)
		case holder == "":
			return release, nil
		case time.Now().After(end):
			return nil, &gpu.Advice{What: "another gpuwhy, " + holder + ", is changing the fleet's keys", Try: "wait until it is done, or stop it"}
		}
	}
}

// newDocument makes the keys of a fleet.
func newDocument() (*document, error) {
	d := &document{Version: 1, Members: []Member{}}
	for seed, create := range map[*string]func() (nkeys.KeyPair, error){
		&d.Operator: nkeys.CreateOperator, &d.System: nkeys.CreateAccount, &d.Account: nkeys.CreateAccount,
	} {
		pair, err := create()
		if err != nil {
			return nil, err
		}
		text, err := pair.Seed()
		if err != nil {
			return nil, err
		}
		*seed = string(text)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "gpuwhy fleet"}, NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	d.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	d.CAKey = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return d, nil
}
