package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	// orderAgain and orderAtMost are the first and the longest wait after an authority gave no certificate: Let's Encrypt allows five failures
	// an hour.
	orderAgain  = 2 * time.Minute
	orderAtMost = time.Hour
	// orderTakes is how long an order may take.
	orderTakes = 5 * time.Minute
)

// authority has certificates of an ACME authority, one for each name. No handshake orders one, so that strangers can't use up what the
// authority allows. Once there is one, the library renews it.
type authority struct {
	names   []string
	manager *autocert.Manager
	log     *slog.Logger
	now     func() time.Time
	wait    time.Duration // before the next order; renew alone uses it

	mu     sync.Mutex
	has    map[string]bool // by name
	failed *gpu.Advice
	since  time.Time
}

func newACME(cfg *Config, log *slog.Logger) *authority {
	a := &authority{names: cfg.Domains, log: log, now: cfg.Clock.Now, has: map[string]bool{}, wait: orderAgain}
	a.manager = &autocert.Manager{
		Prompt: autocert.AcceptTOS, HostPolicy: autocert.HostWhitelist(cfg.Domains...), Email: cfg.Email,
		Client: &acme.Client{DirectoryURL: cfg.Directory, UserAgent: "gpuwhy"},
	}
	if cfg.Directory == "" {
		a.manager.Client.DirectoryURL = autocert.DefaultACMEDirectory
	}
	if cfg.Files != nil {
		a.manager.Cache = cache{cfg.Files}
	}
	return a
}

// errNotYet is what clients are told before there is a certificate.
var errNotYet = errors.New("gpuwhy has no certificate yet")

// answer returns the certificate of the name that is asked for, or else of the first, such as for those who ask by an address.
func (a *authority) answer(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Equal(hello.SupportedProtos, []string{acme.ALPNProto}) { // the authority asks
		return a.manager.GetCertificate(hello)
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if !slices.Contains(a.names, name) {
		name = a.names[0]
	}
	return a.certificate(name)
}

// certificate returns the certificate for a name, of which there is one.
func (a *authority) certificate(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	has := a.has[name]
	a.mu.Unlock()
	if !has {
		return nil, errNotYet
	}
	return a.manager.GetCertificate(modern(name))
}

// modern is the handshake of a client that takes certificates with ECDSA, as all do that know TLS 1.2. For others the library would order a
// second one.
func modern(name string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName: name, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	}
}

func (a *authority) all() (all []*tls.Certificate) {
	for _, name := range a.names {
		if cert, err := a.certificate(name); err == nil {
			all = append(all, cert)
		}
	}
	return all
}

func (a *authority) trouble() (*gpu.Advice, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed, a.since
}

// renew orders the certificates that are missing.
func (a *authority) renew(ctx context.Context) (again time.Duration) {
	var failed error
	for _, name := range a.names {
		if _, err := a.certificate(name); err == nil {
			continue
		}
		if err := a.order(ctx, name); err != nil {
			failed = err
			if ctx.Err() != nil {
				return 0
			}
			a.log.Warn("the ACME authority gave no certificate", "name", name, "err", err, "again", a.wait)
			continue
		}
		a.mu.Lock()
		a.has[name] = true
		a.mu.Unlock()
		a.log.Info("there is a TLS certificate of the ACME authority", "name", name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed == nil {
		a.failed, a.wait = nil, orderAgain
		return orderAtMost
	}
	if a.failed == nil {
		a.since = a.now()
	}
	a.failed = &gpu.Advice{
		What: "the ACME authority gave no certificate: " + trimPackage(failed.Error()), Err: failed,
		Try: "check that the names of --acme-domain lead to this machine, and that the authority reaches its port 443, or port 80 with --redirect-listen :80",
	}
	wait := a.wait
	a.wait = min(2*a.wait, orderAtMost)
	return wait
}

// order gets the certificate of a name: the one that is kept, or else a new one.
func (a *authority) order(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, orderTakes)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := a.manager.GetCertificate(modern(name))
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cache keeps the account and the certificates among the files of the state directory.
type cache struct{ files state.Files }

// passing reports whether an entry is an answer to a challenge. The manager has it in memory, too.
func passing(key string) bool {
	return strings.HasSuffix(key, "+token") || strings.HasSuffix(key, "+http-01")
}

func fileOf(key string) string { return "tls-acme-" + url.QueryEscape(key) + ".pem" }

// Get implements [autocert.Cache].
func (c cache) Get(_ context.Context, key string) ([]byte, error) {
	if passing(key) {
		return nil, autocert.ErrCacheMiss
	}
	text, err := regular.InTime(func() ([]byte, error) { return c.files.Read(fileOf(key)) })
	if errors.Is(err, fs.ErrNotExist) {
		err = autocert.ErrCacheMiss
	}
	return text, err
}

// Put implements [autocert.Cache].
func (c cache) Put(_ context.Context, key string, text []byte) error {
	if passing(key) {
		return nil
	}
	_, err := regular.InTime(func() (none struct{}, err error) { return none, c.files.Write(fileOf(key), text) })
	return err
}

// Delete implements [autocert.Cache].
func (c cache) Delete(_ context.Context, key string) error {
	if passing(key) {
		return nil
	}
	_, err := regular.InTime(func() (none struct{}, err error) { return none, c.files.Remove(fileOf(key)) })
	return err
}

// trimPackage takes the names of Go's packages off the beginning of a text.
func trimPackage(text string) string {
	for _, name := range []string{"acme/autocert: ", "acme: ", "tls: ", "x509: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}
