package bus

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// longest is the largest credentials file, in bytes: it has a few certificates at most.
const longest = 256 << 10

// credentials is the content of a file: how to sign in, if at all, and whom to trust.
type credentials struct {
	jwt            string // beside which there is a seed
	seed           nkeys.KeyPair
	token          string
	user, password string
	expires        time.Time      // of the JWT; zero for never
	ca             *x509.CertPool // nil: whom the system trusts
}

var certificate = lazy.Pattern(`(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----`)

const (
	tryCredentials = "give --fleet-credentials a file made by 'gpuwhy fleet join-command', a NATS .creds file, or a file with one line: a token, " +
		"user:password or an nkey seed"
	tryRejoin = "make new ones with 'gpuwhy fleet join-command' on the server's machine, and put them into the file"
)

// CheckCredentials returns what is wrong with a credentials file. It does not connect.
func CheckCredentials(name string) error {
	_, err := readCredentials(name)
	return err
}

// readCredentials reads a file.
func readCredentials(name string) (*credentials, error) {
	text, err := regular.Read(name, longest)
	if err != nil {
		return nil, &gpu.Advice{What: fmt.Sprintf("can't read the fleet credentials from %q", name), Try: tryFile(err), Err: err}
	}
	c, err := parseCredentials(text)
	if err != nil {
		return nil, &gpu.Advice{What: fmt.Sprintf("%q has no fleet credentials: %v", name, err), Try: tryCredentials, Err: err}
	}
	return c, nil
}

func tryFile(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "make gpuwhy's user the owner of the file, with mode 0600"
	}
	return tryCredentials
}

// parseCredentials parses a file. Its errors quote nothing of the file, which is secret.
func parseCredentials(text []byte) (*credentials, error) {
	c := &credentials{}
	for _, block := range certificate().FindAll(text, -1) {
		if c.ca == nil {
			c.ca = x509.NewCertPool()
		}
		if !c.ca.AppendCertsFromPEM(block) {
			return nil, errors.New("a certificate in it is damaged")
		}
	}
	rest := certificate().ReplaceAll(text, nil)
	switch {
	case bytes.Contains(rest, []byte("BEGIN NATS USER JWT")):
		return c, c.decorated(rest)
	case bytes.Contains(rest, []byte("BEGIN USER NKEY SEED")):
		return c, c.nkey(rest)
	}
	var lines []string
	for line := range strings.Lines(string(rest)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	switch {
	case len(lines) == 0 && c.ca == nil:
		return nil, errors.New("it is empty")
	case len(lines) == 0: // trust alone
	case len(lines) > 1:
		return nil, fmt.Errorf("it has %d lines", len(lines))
	case strings.ContainsFunc(lines[0], func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("its line has control characters")
	case strings.HasPrefix(lines[0], "SU") && len(lines[0]) == 58:
		return c, c.nkey([]byte(lines[0]))
	case strings.Contains(lines[0], ":"):
		c.user, c.password, _ = strings.Cut(lines[0], ":")
	default:
		c.token = lines[0]
	}
	return c, nil
}

func (c *credentials) decorated(text []byte) (err error) {
	if c.jwt, err = jwt.ParseDecoratedJWT(text); err != nil {
		return errors.New("its JWT is damaged")
	}
	claims, err := jwt.DecodeUserClaims(c.jwt)
	if err != nil {
		return errors.New("its JWT is not a user's")
	}
	if claims.Expires > 0 {
		c.expires = time.Unix(claims.Expires, 0)
	}
	if err := c.nkey(text); err != nil {
		return err
	}
	if public, err := c.seed.PublicKey(); err != nil || public != claims.Subject {
		return errors.New("its seed does not belong to its JWT")
	}
	return nil
}

func (c *credentials) nkey(text []byte) (err error) {
	if c.seed, err = jwt.ParseDecoratedUserNKey(text); err != nil {
		return errors.New("its nkey seed is damaged")
	}
	return nil
}

// options returns how a connection signs in. It rereads the file each time, so that renewed credentials
// need no restart.
func (c *credentials) options(again func() *credentials) []nats.Option {
	var options []nats.Option
	sign := func(nonce []byte) ([]byte, error) { return again().seed.Sign(nonce) }
	switch {
	case c.jwt != "":
		options = append(options, nats.UserJWT(func() (string, error) { return again().jwt, nil }, sign))
	case c.seed != nil:
		if public, err := c.seed.PublicKey(); err == nil { // it was decoded
			options = append(options, nats.Nkey(public, func(nonce []byte) ([]byte, error) { return c.seed.Sign(nonce) }))
		}
	case c.user != "" || c.password != "":
		options = append(options, nats.UserInfoHandler(func() (user, password string) {
			now := again()
			return now.user, now.password
		}))
	case c.token != "":
		options = append(options, nats.TokenHandler(func() string { return again().token }))
	}
	if c.ca != nil { // a CA in the file means that only TLS is acceptable
		options = append(options, nats.ClientTLSConfig(nil, func() (*x509.CertPool, error) { return again().ca, nil }))
	}
	return options
}

// like reports whether both sign in in the same way, so that one can replace the other.
func (c *credentials) like(other *credentials) bool {
	return (c.jwt == "") == (other.jwt == "") && (c.seed == nil) == (other.seed == nil) && (c.token == "") == (other.token == "") &&
		(c.user == "" && c.password == "") == (other.user == "" && other.password == "") && (c.ca == nil) == (other.ca == nil)
}

// warnOpen says that others may read the file.
func warnOpen(name string, log *slog.Logger) {
	if info, err := os.Stat(name); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		log.Warn("others may read the fleet credentials: remove that permission", "file", name, "mode", info.Mode().Perm().String(), "try", "chmod 600")
	}
}

// Identity returns the name that credentials of 'gpuwhy fleet join-command' have, and a signing key that belongs to them alone: it is made
// of their seed, and is of no use to sign in. Both are empty for other credentials.
func Identity(file string) (name string, key ed25519.PrivateKey) {
	if file == "" {
		return "", nil
	}
	c, err := readCredentials(file)
	if err != nil || c.seed == nil {
		return "", nil
	}
	if claims, err := jwt.DecodeUserClaims(c.jwt); err == nil {
		_, name, _ = strings.Cut(claims.Name, " ") // after its kind
	}
	seed, err := c.seed.Seed()
	if err != nil {
		return name, nil
	}
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return name, nil
	}
	own := sha256.Sum256(append([]byte("gpuwhy hub key 1 "), raw...))
	return name, ed25519.NewKeyFromSeed(own[:])
}
