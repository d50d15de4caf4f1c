//go:build !race

package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/part"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// What people do with a certificate that gpuwhy makes: it serves, its own commands find it, others accept it by its file or its fingerprint,
// and after a restart it is the same.
func TestSelfSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--source", "simulate:rtx-4090", "--state-dir", dir, "--tls-self-signed"}
	p := start(t, nil, args...)
	before := leafOf(t, p.url)
	pin := fmt.Sprintf("% X", sha256.Sum256(before.Raw))
	if !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Errorf("it says that it is at %s", p.url)
	}
	kept := filepath.Join(dir, "tls-self-signed.pem")
	testkit.Until(t, "the certificate is kept", func() bool {
		info, err := os.Stat(kept)
		return err == nil && info.Mode().Perm() == 0o600
	})
	ask := func(want int, why string, args ...string) {
		t.Helper()
		if r := command(t, nil, append([]string{"healthcheck"}, args...)...); r.code != want || !strings.Contains(r.stdout+r.stderr, why) {
			t.Errorf("healthcheck %s: %d %s%s, want %d %s", args, r.code, r.stdout, r.stderr, want, why)
		}
	}
	at := strings.TrimSuffix(strings.TrimPrefix(p.url, "https://"), "/")
	testkit.Until(t, "it is ready", func() bool { return command(t, nil, "healthcheck", "--listen", at).code == exitOK })
	ask(exitError, "--tls-fingerprint", p.url)
	ask(exitOK, "ready", p.url, "--tls-ca", kept)
	ask(exitOK, "ready", p.url, "--tls-fingerprint", pin)
	ask(exitOK, "ready", p.url, "--tls-fingerprint", "sha256:"+strings.ToLower(strings.ReplaceAll(pin, " ", "")))
	other := "00" + pin[2:]
	if strings.HasPrefix(pin, "00") {
		other = "01" + pin[2:]
	}
	ask(exitError, "another certificate", p.url, "--tls-fingerprint", other)
	ask(exitError, "another certificate", "--listen", at, "--tls-fingerprint", other)
	ask(exitUsage, "64 hexadecimal digits", p.url, "--tls-fingerprint", "12:34")
	ask(exitUsage, "no certificate", p.url, "--tls-ca", os.Args[0])
	if r := command(t, nil, "why", "--listen", at); r.code != exitOK {
		t.Errorf("why: %d %s", r.code, r.stderr)
	}
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if again := start(t, nil, args...); !leafOf(t, again.url).Equal(before) {
		t.Error("after a restart it is another")
	}
}

// leafOf is the certificate that a program shows.
func leafOf(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0] //nolint:forcetypeassert // of a tls.Dialer
}

// The first line says where the page is, and the second by what people know its certificate.
func TestGreeting(t *testing.T) {
	t.Parallel()
	room, err := certs.New(certs.Config{Host: part.Host{Log: slog.New(slog.DiscardHandler)}, Options: certs.Options{SelfSigned: true}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := &environment{stdout: &out}
	env.greet(room, "[::]:8003", "/gpu/")
	where, known, _ := strings.Cut(out.String(), "\n")
	if !strings.HasSuffix(where, ": https://127.0.0.1:8003/gpu/") || !strings.Contains(known, "SHA-256 fingerprint is "+room.Fingerprint()+"\n") {
		t.Errorf("it says %s", &out)
	}
	out.Reset()
	env.greet(nil, "[::]:8003", "/gpu/")
	if !strings.HasSuffix(out.String(), ": http://127.0.0.1:8003/gpu/\n") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("without TLS it says %s", &out)
	}
}

// A new certificate is in use soon after its files have changed, without a restart.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	first, second, dir := t.TempDir(), t.TempDir(), t.TempDir()
	for _, state := range []string{first, second} { // each makes one
		p := start(t, nil, "--source", "simulate:rtx-4090", "--state-dir", state, "--tls-self-signed")
		testkit.Until(t, "the certificate is kept", func() bool { _, err := os.Stat(filepath.Join(state, "tls-self-signed.pem")); return err == nil })
		if err := p.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	file := filepath.Join(dir, "tls.pem")
	use := func(state string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(state, "tls-self-signed.pem"))
		if err == nil {
			err = os.WriteFile(file+".new", text, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".new", file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	use(first)
	p := start(t, nil, "--source", "simulate:rtx-4090", "--tls-cert", file, "--tls-key", file)
	before := leafOf(t, p.url)
	use(second)
	testkit.Until(t, "the new certificate is in use", func() bool { return !leafOf(t, p.url).Equal(before) })
	if r := command(t, nil, "serve", "--source", "simulate:rtx-4090", "--listen", "127.0.0.1:0", "--tls-cert", filepath.Join(dir, "none"), "--tls-key", file); r.code != exitUsage || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("without the file: %d %s", r.code, r.stderr)
	}
}

func TestTLSFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flags    tlsFlags
		stateDir string
		wrong    string
	}{
		{tlsFlags{}, "", ""},
		{tlsFlags{TLSCert: "c", TLSKey: "k"}, "", ""},
		{tlsFlags{TLSCert: "c"}, "", "--tls-key"},
		{tlsFlags{TLSKey: "k"}, "", "--tls-cert"},
		{tlsFlags{TLSSelfSigned: true, RedirectListen: ":80"}, "", ""},
		{tlsFlags{TLSSelfSigned: true, TLSCert: "c", TLSKey: "k"}, "", "one certificate"},
		{tlsFlags{ACMEDomain: []string{"gpu.example.org"}, TLSCert: "c", TLSKey: "k"}, "d", "one certificate"},
		{tlsFlags{ACMEDomain: []string{"GPU.example.org", "gpu.example.org"}, ACMEEmail: "a@example.org", ACMEDirectory: "https://ca.example.org/acme"}, "d", ""},
		{tlsFlags{ACMEDomain: []string{"gpu.example.org"}}, "", "--state-dir"},
		{tlsFlags{ACMEDomain: []string{"192.0.2.1"}}, "d", "whole names"},
		{tlsFlags{ACMEDomain: []string{"gpu"}}, "d", "whole names"},
		{tlsFlags{ACMEDomain: []string{"*.example.org"}}, "d", "letters"},
		{tlsFlags{ACMEDomain: []string{"gpu.example.org"}, ACMEDirectory: "http://ca.example.org"}, "d", "https://"},
		{tlsFlags{ACMEEmail: "a@example.org"}, "d", "no effect"},
		{tlsFlags{RedirectListen: ":80"}, "", "without TLS"},
		{tlsFlags{TLSSelfSigned: true, RedirectListen: "80"}, "", "such as :80"},
	} {
		err := tt.flags.check(tt.stateDir)
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%+v: %v, want %q", tt.flags, err, tt.wrong)
		}
		if err == nil && len(tt.flags.ACMEDomain) > 0 && (len(tt.flags.domains) != 1 || tt.flags.domains[0] != "gpu.example.org") {
			t.Errorf("the names are %v", tt.flags.domains)
		}
	}
	for _, tt := range [][4]string{
		{"127.0.0.1:8003", "/", "", "https://127.0.0.1:8003/"},
		{"[::]:443", "/gpu/", "gpu.example.org", "https://gpu.example.org/gpu/"},
		{"0.0.0.0:8003", "/", "gpu.example.org", "https://gpu.example.org:8003/"},
		{"[::1]:443", "/", "", "https://[::1]/"},
	} {
		if got := secureURL(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%v: %s", tt, got)
		}
	}
}
