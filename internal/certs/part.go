// Package certs has the certificate with which this program serves its page over TLS: from files of somebody else, which it reads again
// when they change, from an ACME authority, or one that it signs itself. Whether people sign in does not matter to it.
package certs

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Options say where the certificate comes from: from one of the three. The caller has checked them.
type Options struct {
	// Cert and Key are the files of a certificate, with its chain, and of its key, as PEM.
	Cert, Key string
	// SelfSigned makes a certificate for the names and addresses of this machine.
	SelfSigned bool
	// Domains are the names for which an ACME authority gives certificates.
	Domains []string
	// Email is where that authority reaches people; empty: nowhere. Directory is its URL; empty: that of Let's Encrypt.
	Email, Directory string
	// HSTS is for how long browsers then use nothing but TLS for a name for which an authority vouches; 0: they forget that they were told so.
	HSTS time.Duration
	// Redirect takes connections without TLS, which are led to TLS and by which an ACME authority can check names; nil: none.
	Redirect net.Listener
}

// Close closes the listener of an App that was not made. o may be nil.
func (o *Options) Close() error {
	if o == nil || o.Redirect == nil {
		return nil
	}
	return o.Redirect.Close()
}

// Config is what a Room needs.
type Config struct {
	part.Host
	Options
	// Files keep what must survive a restart; nil: nothing does.
	Files state.Files
	// Names are the names and addresses for which people ask, beside those that the machine knows of itself.
	Names []string
}

// A source has certificates. Its methods may be called at any time by many goroutines, run once.
type source interface {
	// answer returns the certificate for a handshake.
	answer(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// all are the certificates that it has now, by the order of their names.
	all() []*tls.Certificate
	// trouble is why the next certificate could not be had, and since when; nil where all is well.
	trouble() (*gpu.Advice, time.Time)
	// renew looks whether there is a newer one, or makes one, and returns when to look again, or earlier. ctx is the program's.
	renew(ctx context.Context) (again time.Duration)
}

// A Room has the certificate.
type Room struct {
	cfg    Config
	log    *slog.Logger
	source source
	look   chan struct{}  // has a value if somebody wants to have files read again
	roots  *x509.CertPool // of authorities that everybody's browser knows; nil: those of the system

	mu     sync.Mutex
	proven map[provenName]bool
}

// A provenName is a name for which a certificate may be proven.
type provenName struct {
	leaf *x509.Certificate
	host string
}

// New reads the certificate, or makes one without keeping it yet. Its errors say what is wrong with the files.
func New(cfg Config) (r *Room, err error) {
	r = &Room{cfg: cfg, log: cfg.Log.With("part", "tls"), look: make(chan struct{}, 1), proven: map[provenName]bool{}}
	switch {
	case cfg.SelfSigned:
		r.source, err = newOwn(&r.cfg, r.log)
	case len(cfg.Domains) > 0:
		r.source = newACME(&r.cfg, r.log)
	default:
		r.source, err = newFiles(&r.cfg, r.log)
	}
	return r, err
}

// Name implements [part.Part].
func (*Room) Name() string { return "tls" }

// TLS is how connections are encrypted: as Go does it by default, from TLS 1.2 on.
func (r *Room) TLS() *tls.Config {
	c := &tls.Config{GetCertificate: r.source.answer, MinVersion: tls.VersionTLS12}
	if a, ok := r.source.(*authority); ok {
		c.NextProtos = a.manager.TLSConfig().NextProtos
	}
	return c
}

// HSTS is for how long browsers use nothing but TLS for a name that is [Room.Proven].
func (r *Room) HSTS() time.Duration { return r.cfg.HSTS }

// Redirect is where connections without TLS come; nil: nowhere.
func (r *Room) Redirect() net.Listener { return r.cfg.Redirect }

// Close implements [part.Closer].
func (r *Room) Close() error {
	if err := r.cfg.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Plain is the handler for connections without TLS: it answers what an ACME authority asks, and else what the other handler does.
func (r *Room) Plain(other http.Handler) http.Handler {
	if a, ok := r.source.(*authority); ok {
		return a.manager.HTTPHandler(other)
	}
	return other
}

// Host is a name for which the certificate is; empty where it has none, or only a pattern of names, or is not there yet.
func (r *Room) Host() string {
	if len(r.cfg.Domains) > 0 {
		return r.cfg.Domains[0]
	}
	for _, name := range r.hosts() {
		if !strings.HasPrefix(name, "*") {
			return name
		}
	}
	return ""
}

// Hosts are the names for which somebody else has given the certificate.
func (r *Room) Hosts() []string {
	if len(r.cfg.Domains) > 0 {
		return r.cfg.Domains
	}
	return r.hosts()
}

func (r *Room) hosts() (all []string) {
	for _, cert := range r.source.all() {
		if !r.cfg.SelfSigned {
			all = append(all, cert.Leaf.DNSNames...)
		}
	}
	return all
}

// Fingerprint is that of a certificate that nobody vouches for, as browsers show it; empty for others.
func (r *Room) Fingerprint() string {
	if !r.cfg.SelfSigned {
		return ""
	}
	return fingerprint(r.source.all()[0])
}

// fingerprint is the SHA-256 of a certificate, as "AB:CD:…".
func fingerprint(cert *tls.Certificate) string {
	sum := sha256.Sum256(cert.Certificate[0])
	return strings.ReplaceAll(fmt.Sprintf("% X", sum[:]), " ", ":")
}

// mostProven is for how many names it is known whether they are proven. More than one certificate has many only with a pattern.
const mostProven = 64

// Proven reports whether everybody's browser accepts the certificate for a name: an authority that this machine's system knows vouches
// for it now.
func (r *Room) Proven(host string) bool {
	if r.cfg.SelfSigned {
		return false
	}
	now := r.cfg.Clock.Now()
	for _, cert := range r.source.all() {
		leaf := cert.Leaf
		if leaf.VerifyHostname(host) != nil || now.After(leaf.NotAfter) {
			continue
		}
		r.mu.Lock()
		proven, known := r.proven[provenName{leaf, host}]
		r.mu.Unlock()
		if !known {
			proven = r.verify(cert, host, now) == nil
			r.mu.Lock()
			if len(r.proven) >= mostProven {
				clear(r.proven)
			}
			r.proven[provenName{leaf, host}] = proven
			r.mu.Unlock()
		}
		if proven {
			return true
		}
	}
	return false
}

// verify checks a certificate as a browser on this machine would.
func (r *Room) verify(cert *tls.Certificate, host string, now time.Time) error {
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	_, err := cert.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: r.roots, Intermediates: between, CurrentTime: now})
	return err
}

// Reload has files read again at once.
func (r *Room) Reload() {
	select {
	case r.look <- struct{}{}:
	default:
	}
}

// Run keeps the certificate new until ctx ends.
func (r *Room) Run(ctx context.Context) error {
	for {
		again := time.NewTimer(r.source.renew(ctx))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-r.look:
			again.Stop()
		case <-again.C:
		}
	}
}

// soonest is how long before its end a certificate should have been renewed: two weeks, or a quarter of its life if that is less.
func soonest(leaf *x509.Certificate) time.Duration {
	return min(14*24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/4)
}

// Health is whether the certificate is valid, and will be.
func (r *Room) Health() map[string]contract.Part {
	now := r.cfg.Clock.Now()
	health := contract.NewPart("ok", time.Time{})
	for _, cert := range r.source.all() {
		leaf := cert.Leaf
		health = contract.NewPart("ok", leaf.NotBefore)
		if left := leaf.NotAfter.Sub(now); left < soonest(leaf) {
			health = health.Failed(ending(leaf, left), leaf.NotAfter.Add(-soonest(leaf)))
			break
		}
		if now.Before(leaf.NotBefore) {
			health = health.Failed(&gpu.Advice{
				What: "the TLS certificate is valid only from " + leaf.NotBefore.UTC().Format(time.RFC3339) + " on",
				Try:  "check this machine's clock, or give gpuwhy the certificate of now",
			}, leaf.NotBefore)
			break
		}
	}
	if advice, since := r.source.trouble(); advice != nil && health.State == "ok" {
		health = health.Failed(advice, since)
	}
	return map[string]contract.Part{"tls": health}
}

func ending(leaf *x509.Certificate, left time.Duration) *gpu.Advice {
	advice := &gpu.Advice{Try: "renew it, and check why that did not happen on its own; gpuwhy uses the new one within seconds"}
	switch days := int(left.Hours() / 24); {
	case left <= 0:
		advice.What = "the TLS certificate ended on " + leaf.NotAfter.UTC().Format(time.DateOnly)
	case days < 2:
		advice.What = "the TLS certificate ends in " + left.Round(time.Minute).String()
	default:
		advice.What = fmt.Sprintf("the TLS certificate ends in %d days", days)
	}
	return advice
}
