package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// files is a certificate that somebody else renews. It reads the files again when they have changed, also where their names lead to other
// files, as certbot and Kubernetes do it. While the new ones are of no use, it keeps the old one.
type files struct {
	cert, key string
	log       *slog.Logger
	now       func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
	read    [2]fs.FileInfo // of the files that were read last; nil: read them again
	failed  *gpu.Advice    // why those can't be used
	since   time.Time
}

const (
	// eachLook is how often it looks whether the files have changed.
	eachLook = 5 * time.Second
	// longestFile is the longest file that is read, in bytes: far more than a chain needs.
	longestFile = 1 << 20
)

func newFiles(cfg *Config, log *slog.Logger) (*files, error) {
	f := &files{cert: cfg.Cert, key: cfg.Key, log: log, now: cfg.Clock.Now}
	f.look()
	if f.failed != nil {
		return nil, f.failed
	}
	return f, nil
}

func (f *files) answer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current, nil
}

func (f *files) all() []*tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []*tls.Certificate{f.current}
}

func (f *files) trouble() (*gpu.Advice, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed, f.since
}

func (f *files) renew(context.Context) (again time.Duration) {
	f.look()
	return eachLook
}

// look reads the files if they are others than those that were read last, or if those can't be used: the second of two may have come late.
func (f *files) look() {
	f.mu.Lock()
	failed, read := f.failed, f.read
	f.mu.Unlock()
	found, err := f.found()
	if err == nil && failed == nil && same(read, found) {
		return
	}
	var cert *tls.Certificate
	if err == nil {
		cert, err = pairOf(f.cert, f.key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		if f.current != nil {
			f.log.Info("a new TLS certificate is in use", "file", f.cert, "until", cert.Leaf.NotAfter)
		}
		f.current, f.read, f.failed = cert, found, nil
		return
	}
	advice := &gpu.Advice{
		What: "the TLS certificate can't be used: " + reasonOf(err),
		Try:  "check that --tls-cert has the certificate with its chain and --tls-key its key, both as PEM, and that the user who runs gpuwhy may read them", Err: err,
	}
	if f.current != nil {
		advice.What = "the new TLS certificate can't be used, and the one before stays in use: " + reasonOf(err)
	}
	if failed == nil || failed.What != advice.What {
		f.since = f.now()
		if f.current != nil {
			f.log.Warn(advice.What, "cert", f.cert, "key", f.key, "try", advice.Try)
		}
	}
	f.failed = advice
}

// found are the files that the names lead to now.
func (f *files) found() (found [2]fs.FileInfo, err error) {
	return regular.InTime(func() (found [2]fs.FileInfo, err error) {
		for i, name := range []string{f.cert, f.key} {
			if found[i], err = os.Stat(name); err != nil {
				return found, err
			}
		}
		return found, nil
	})
}

func same(a, b [2]fs.FileInfo) bool {
	for i := range a {
		if a[i] == nil || !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}

// pairOf reads a certificate and its key.
func pairOf(cert, key string) (*tls.Certificate, error) {
	chain, err := regular.Read(cert, longestFile)
	if err != nil {
		return nil, err
	}
	secret, err := regular.Read(key, longestFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, secret) // its errors quote neither
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// reasonOf says what is wrong with the files, without a prefix of Go's packages.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Path + ": " + e.Err.Error()
	}
	return trimPackage(err.Error())
}
