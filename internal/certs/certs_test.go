package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// A day is what certificates are counted in.
const day = 24 * time.Hour

// someAuthority vouches for certificates.
type someAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) someAuthority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-1000 * day), NotAfter: time.Now().Add(1000 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return someAuthority{cert, key}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// certificate vouches for a key of some names, which is valid from and for those times.
func (a someAuthority) certificate(t *testing.T, public any, serial int64, from, life time.Duration, names ...string) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: names, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(from + life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, public, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// pair writes a certificate and its key into a folder.
func (a someAuthority) pair(t *testing.T, dir string, serial int64, from, life time.Duration, names ...string) {
	t.Helper()
	key := newKey(t)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate(t, key.Public(), serial, from, life, names...)}))
	write(t, filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// configOf is a Config whose log is kept.
func configOf(o Options) (Config, *bytes.Buffer) {
	var log bytes.Buffer
	return Config{Host: part.Host{Log: slog.New(slog.NewTextHandler(&log, nil))}, Options: o}, &log
}

func newRoom(t *testing.T, cfg Config) *Room {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serial is the number of the certificate that clients get who ask for a name.
func (r *Room) serial(t *testing.T, name string) string {
	t.Helper()
	cert, err := r.source.answer(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf.SerialNumber.String()
}

// health is the part's state and what is wrong.
func (r *Room) health() (state, why string) {
	h := r.Health()["tls"]
	if h.LastError != nil {
		why = *h.LastError
	}
	return h.State, why
}

// Files are read again when they change, also where Kubernetes puts another folder in the place of one. A pair of which one file is still
// the old one, or which is no pair at all, is not used.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir, a := t.TempDir(), newAuthority(t)
	for serial, name := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		a.pair(t, filepath.Join(dir, name), int64(serial+1), -day, 90*day, "gpu.example.org")
	}
	point := func(to string) { // as Kubernetes and certbot do it
		t.Helper()
		if err := errors.Join(os.Symlink(to, filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data"))); err != nil {
			t.Fatal(err)
		}
	}
	point("first")
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cfg, log := configOf(Options{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
	r := newRoom(t, cfg)
	want := func(serial, state, why string) {
		t.Helper()
		if again := r.source.renew(t.Context()); again > 10*time.Second {
			t.Errorf("it looks again after %v", again)
		}
		if got := r.serial(t, ""); got != serial {
			t.Errorf("certificate %s is in use instead of %s", got, serial)
		}
		if got, said := r.health(); got != state || !strings.Contains(said, why) {
			t.Errorf("health is %s (%s) instead of %s (%s)", got, said, state, why)
		}
	}
	want("1", "ok", "")
	point("second")
	want("2", "ok", "")

	good, err := os.ReadFile(filepath.Join(dir, "second", "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "second", "tls.key"), []byte("no key"))
	want("2", "failed", "the one before stays in use")
	want("2", "failed", "the one before stays in use")
	if n := strings.Count(log.String(), "can't be used"); n != 1 {
		t.Errorf("the log has it %d times: %s", n, log)
	}
	if strings.Contains(log.String(), "no key\n") {
		t.Errorf("the log quotes the key: %s", log)
	}
	write(t, filepath.Join(dir, "second", "tls.key"), good)
	want("2", "ok", "")
	other, err := os.ReadFile(filepath.Join(dir, "first", "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "second", "tls.crt"), other) // of another key
	want("2", "failed", "private key does not match")
	if err := os.Remove(filepath.Join(dir, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	want("2", "failed", "no such file")
	if _, err := New(cfg); err == nil {
		t.Error("it starts without a certificate")
	}
	if r.Fingerprint() != "" || r.Host() != "gpu.example.org" {
		t.Errorf("fingerprint %q, host %q", r.Fingerprint(), r.Host())
	}
}

// Health tells in time of a certificate that nobody renews.
func TestEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		life, left time.Duration
		state, why string
	}{
		{90 * day, 20 * day, "ok", ""},
		{90 * day, 13*day + time.Hour, "failed", "ends in 13 days"},
		{90 * day, -time.Hour, "failed", "ended on"},
		{6 * day, 3 * day, "ok", ""}, // which authorities give for a few days
		{6 * day, day, "failed", "ends in 24h"},
		{day, 8 * time.Hour, "ok", ""},
	} {
		dir := t.TempDir()
		newAuthority(t).pair(t, dir, 1, tt.left-tt.life, tt.life, "gpu.example.org")
		cfg, _ := configOf(Options{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
		if got, why := newRoom(t, cfg).health(); got != tt.state || !strings.Contains(why, tt.why) {
			t.Errorf("%v of %v are left: %s, %q", tt.left, tt.life, got, why)
		}
	}
}

// Only a name that a known authority vouches for is proven.
func TestProven(t *testing.T) {
	t.Parallel()
	known, unknown := newAuthority(t), newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(known.cert)
	room := func(a someAuthority, from time.Duration) *Room {
		dir := t.TempDir()
		a.pair(t, dir, 1, from, 90*day, "gpu.example.org", "*.cluster.example.org")
		cfg, _ := configOf(Options{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
		r := newRoom(t, cfg)
		r.roots = roots
		return r
	}
	cfg, _ := configOf(Options{SelfSigned: true})
	cfg.Names = []string{"gpu.example.org"}
	own := newRoom(t, cfg)
	own.roots = roots
	for _, tt := range []struct {
		what   string
		room   *Room
		host   string
		proven bool
	}{
		{"its name", room(known, -day), "gpu.example.org", true},
		{"a name that its pattern matches", room(known, -day), "a.cluster.example.org", true},
		{"another name", room(known, -day), "example.org", false},
		{"localhost", room(known, -day), "localhost", false},
		{"an address", room(known, -day), "192.0.2.1", false},
		{"an authority that nobody knows", room(unknown, -day), "gpu.example.org", false},
		{"after its end", room(known, -91*day), "gpu.example.org", false},
		{"signed by itself", own, "gpu.example.org", false},
	} {
		for range 2 { // the second answer is known
			if got := tt.room.Proven(tt.host); got != tt.proven {
				t.Errorf("%s: %v", tt.what, got)
			}
		}
	}
	r := room(known, -day)
	for i := range 3 * mostProven {
		if !r.Proven(strings.Repeat("a", i+1)[:min(i+1, 60)] + ".cluster.example.org") {
			t.Fatal("a name of the pattern is not proven")
		}
	}
	if len(r.proven) > mostProven {
		t.Errorf("%d names are remembered", len(r.proven))
	}
}

// moody are files of which something can fail.
type moody struct {
	state.Folder
	reads, writes error
}

func (m *moody) Read(name string) ([]byte, error) {
	if m.reads != nil {
		return nil, m.reads
	}
	return m.Folder.Read(name)
}

func (m *moody) Write(name string, text []byte) error {
	if m.writes != nil {
		return m.writes
	}
	return m.Folder.Write(name, text)
}

// A certificate of its own stays the same over restarts, until its end comes near or the machine has another name.
func TestSelfSigned(t *testing.T) {
	t.Parallel()
	files, ahead := &moody{Folder: state.Folder(t.TempDir())}, time.Duration(0)
	room := func(names ...string) (*Room, *bytes.Buffer) {
		t.Helper()
		cfg, log := configOf(Options{SelfSigned: true})
		cfg.Files, cfg.Names = files, names
		cfg.Clock = clock.Of(func() time.Time { return time.Now().Add(ahead) }, func() time.Duration { return 0 })
		return newRoom(t, cfg), log
	}
	first, _ := room("gpu-1", "gpu-1.local", "0.0.0.0", "*.lab.example.org", "192.0.2.7")
	if entries, _ := os.ReadDir(string(files.Folder)); len(entries) > 0 {
		t.Error("a program that does not run yet has written a file")
	}
	first.source.renew(t.Context())
	info, err := os.Stat(filepath.Join(string(files.Folder), ownFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key's file: %v, %v", info, err)
	}
	leaf := first.source.all()[0].Leaf
	if err := errors.Join(leaf.VerifyHostname("gpu-1"), leaf.VerifyHostname("localhost"), leaf.VerifyHostname("a.lab.example.org"),
		leaf.VerifyHostname("192.0.2.7"), leaf.VerifyHostname("127.0.0.1"), leaf.VerifyHostname("::1")); err != nil || leaf.IsCA {
		t.Errorf("authority: %v, %v", leaf.IsCA, err)
	}
	if p := first.Fingerprint(); len(p) != 95 || strings.Trim(p, "0123456789ABCDEF:") != "" {
		t.Errorf("the fingerprint is %s", p)
	}
	if second, _ := room("gpu-1", "gpu-1.local"); second.Fingerprint() != first.Fingerprint() {
		t.Error("after a restart it is another")
	}
	if renamed, _ := room("gpu-2"); renamed.Fingerprint() == first.Fingerprint() || slices.Contains(renamed.source.all()[0].Leaf.DNSNames, "gpu-1") {
		t.Error("the machine's new name is not in it")
	}
	files.reads = errors.New("the disk hangs")
	hangs, _ := room("gpu-1")
	hangs.source.renew(t.Context())
	if got, why := hangs.health(); got != "failed" || hangs.Fingerprint() == first.Fingerprint() {
		t.Errorf("while the file can't be read: %s, %s", got, why)
	}
	files.reads = nil
	hangs.source.renew(t.Context())
	if got, why := hangs.health(); got != "ok" || hangs.Fingerprint() != first.Fingerprint() {
		t.Errorf("once the file can be read: %s, %s", got, why)
	}
	ahead = ownLife - 31*day
	if late, _ := room("gpu-1"); late.Fingerprint() != first.Fingerprint() {
		t.Error("it is renewed too early")
	}
	ahead = ownLife - 29*day
	files.writes = errors.New("the disk is full")
	first, log := room("gpu-1")
	before := first.Fingerprint()
	if again := first.source.renew(t.Context()); again != saveAgain {
		t.Errorf("it tries again after %v", again)
	}
	if got, why := first.health(); got != "failed" || !strings.Contains(why, "after a restart") || !strings.Contains(log.String(), "disk is full") {
		t.Errorf("while it can't be kept: %s, %s; %s", got, why, log)
	}
	files.writes = nil
	first.source.renew(t.Context())
	if got, _ := first.health(); got != "ok" || first.Fingerprint() != before {
		t.Error("once it can be kept, it is another or still not kept")
	}
	write(t, filepath.Join(string(files.Folder), ownFile), []byte("damaged"))
	if damaged, log := room("gpu-1"); damaged.Fingerprint() == before || !strings.Contains(log.String(), "another fingerprint") {
		t.Errorf("a damaged file: %s", log)
	}
}

// Without TLS there is nothing but a way to it.
func TestPlain(t *testing.T) {
	t.Parallel()
	cfg, _ := configOf(Options{SelfSigned: true})
	w := httptest.NewRecorder()
	newRoom(t, cfg).Plain(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if w.Code != http.StatusNotFound {
		t.Errorf("the answer is %d", w.Code)
	}
	var none *Options
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Room{cfg: Config{Options: Options{Redirect: ln}}}
	if err := errors.Join(none.Close(), r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}
