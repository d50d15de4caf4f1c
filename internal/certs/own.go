package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	// ownFile is where the state directory has the certificate with its key.
	ownFile = "tls-self-signed.pem"
	// ownLife is for how long it is valid: Apple's systems accept no longer one than 825 days.
	ownLife = 800 * 24 * time.Hour
	// renewBefore is how long before its end there is a new one.
	renewBefore = 30 * 24 * time.Hour
	// saveAgain is when writing it is tried again.
	saveAgain = time.Minute
)

// own is a certificate that vouches for itself. People compare its fingerprint. So it stays the same as long as it can.
type own struct {
	names []string
	files state.Files // nil: it is not kept
	log   *slog.Logger
	now   func() time.Time

	current atomic.Pointer[tls.Certificate]
	// Once the program runs, renew alone uses these:
	unsaved []byte // the text of the certificate if that is not written yet
	unread  bool   // there may be another, which could not be read yet

	mu     sync.Mutex
	failed *gpu.Advice
	since  time.Time
}

func newOwn(cfg *Config, log *slog.Logger) (*own, error) {
	o := &own{names: ownNames(cfg.Names), files: cfg.Files, log: log, now: cfg.Clock.Now}
	if err := o.load(); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *own) answer(*tls.ClientHelloInfo) (*tls.Certificate, error) { return o.current.Load(), nil }

func (o *own) all() []*tls.Certificate { return []*tls.Certificate{o.current.Load()} }

func (o *own) trouble() (*gpu.Advice, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed, o.since
}

// load reads the certificate that was made before, or makes another if there is none that is of use. It writes nothing.
func (o *own) load() error {
	kept, err := o.kept()
	o.unread = err != nil && !errors.Is(err, fs.ErrNotExist)
	if kept != nil && o.suits(kept) {
		o.current.Store(kept)
		o.unsaved = nil
		return nil
	}
	if current := o.current.Load(); current != nil && o.suits(current) { // it was made for the time being
		return nil
	}
	cert, text, err := newCertificate(o.names, o.now())
	if err != nil {
		return err
	}
	o.current.Store(cert)
	o.unsaved = text
	return nil
}

// kept is the certificate of the state directory; nil if that has none, or one that is no use.
func (o *own) kept() (*tls.Certificate, error) {
	if o.files == nil {
		return nil, fs.ErrNotExist
	}
	text, err := regular.InTime(func() ([]byte, error) { return o.files.Read(ownFile) })
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		o.log.Warn("the certificate that gpuwhy made earlier can't be read, and it makes another with another fingerprint", "file", ownFile)
		return nil, nil //nolint:nilnil // there is none
	}
	return &pair, nil
}

// suits reports whether a certificate is valid for long enough, and for all names that people have chosen or the machine has. Addresses come
// and go, and those who come by one compare the fingerprint.
func (o *own) suits(cert *tls.Certificate) bool {
	if o.now().Add(renewBefore).After(cert.Leaf.NotAfter) {
		return false
	}
	return !slices.ContainsFunc(o.names, func(name string) bool {
		_, err := netip.ParseAddr(name)
		return err != nil && !slices.Contains(cert.Leaf.DNSNames, name)
	})
}

func (o *own) renew(context.Context) (again time.Duration) {
	before := o.current.Load()
	if o.unread || !o.suits(before) {
		if err := o.load(); err != nil {
			return o.fail("gpuwhy can't make a TLS certificate", "check the log", err)
		}
		if now := o.current.Load(); now != before {
			o.log.Warn("the TLS certificate is another, with another fingerprint", "sha256", fingerprint(now), "until", now.Leaf.NotAfter)
		}
	}
	switch {
	case o.files == nil, o.unsaved == nil:
	case o.unread:
		return o.fail("the TLS certificate in the state directory can't be read now, and another is in use", "check the disk of the state directory", nil)
	default:
		text := o.unsaved
		_, err := regular.InTime(func() (none struct{}, err error) { return none, o.files.Write(ownFile, text) })
		if err != nil {
			return o.fail("the TLS certificate can't be kept, and after a restart it is another, with another fingerprint", "check the space in the state directory", err)
		}
		o.unsaved = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = nil
	return 12 * time.Hour
}

// fail tells of what is wrong, and returns when to try again.
func (o *own) fail(what, try string, err error) (again time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil || o.failed.What != what {
		o.since = o.now()
		o.log.Warn(what, "err", err, "try", try)
	}
	o.failed = &gpu.Advice{What: what, Try: try, Err: err}
	return saveAgain
}

// newCertificate makes a certificate for names and addresses, and the text that is kept of it.
func newCertificate(names []string, now time.Time) (*tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "gpuwhy on " + names[0]}, BasicConstraintsValid: true, // whose key vouches for nothing else
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ownLife), // clocks of a LAN differ
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, address.WithZone("").AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	pair, err := tls.X509KeyPair(text, text)
	return &pair, text, err
}

// ownNames are the names of a machine that people may use, of which some are given, and its addresses.
func ownNames(given []string) (all []string) {
	add := func(name string) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for _, name := range given {
		domain, pattern := strings.CutPrefix(name, "*.")
		domain, err := auth.HostName(domain)
		if address, none := netip.ParseAddr(domain); err != nil || none == nil && address.IsUnspecified() {
			continue
		}
		if pattern {
			domain = "*." + domain
		}
		add(domain)
	}
	add("localhost")
	interfaces, _ := net.InterfaceAddrs() // else without them
	for _, a := range interfaces {
		if network, ok := a.(*net.IPNet); ok && !network.IP.IsLinkLocalUnicast() {
			add(network.IP.String())
		}
	}
	add("127.0.0.1")
	add("::1")
	return all
}
