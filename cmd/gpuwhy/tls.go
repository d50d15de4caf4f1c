package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/release"
)

// tlsFlags say with which certificate the page is served over TLS.
type tlsFlags struct {
	TLSCert          string        `group:"access" name:"tls-cert" placeholder:"FILE" help:"Serve over TLS with this certificate and its chain, as PEM; read again when it changes." docs:"access.md#tls"`
	TLSKey           string        `group:"access" name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert, as PEM."`
	TLSSelfSigned    bool          `group:"access" name:"tls-self-signed" help:"Serve over TLS with a certificate that gpuwhy makes and keeps, for a LAN. Its fingerprint is printed at the start." docs:"access.md#tls"`
	ACMEDomain       []string      `group:"access" name:"acme-domain" placeholder:"NAME" help:"Serve over TLS with a certificate for this name from an ACME authority, which must reach this machine; accepts the authority's terms of service; repeatable." docs:"access.md#tls"`
	ACMEEmail        string        `group:"access" name:"acme-email" placeholder:"ADDRESS" help:"Where the ACME authority reaches you."`
	ACMEDirectory    string        `group:"access" name:"acme-directory" placeholder:"URL" help:"The ACME authority, Let's Encrypt by default."`
	RedirectListen   string        `group:"access" name:"redirect-listen" placeholder:"ADDRESS" help:"Address, such as :80, on which plain HTTP is led to TLS, and on which an ACME authority can check the name."`
	HSTS             time.Duration `group:"access" name:"hsts" default:"24h" placeholder:"TIME" help:"How long browsers that have opened the page use nothing but TLS for its name. They are told so on port 443 alone, and only where an authority that this system knows vouches for the name; 0 makes them forget it." docs:"access.md#tls"`
	AllowPlainSignIn bool          `group:"access" name:"allow-plain-sign-in" help:"Take passwords also over plain HTTP, where others on the network can read them." docs:"access.md#tls"`

	domains []string // of ACMEDomain, as clients ask for them
}

// secure reports whether the page is served over TLS.
func (f *tlsFlags) secure() bool { return f.TLSCert != "" || f.TLSSelfSigned || len(f.ACMEDomain) > 0 }

func (f *tlsFlags) check(stateDir string) error {
	ways := 0
	for _, chosen := range []bool{f.TLSCert != "" || f.TLSKey != "", f.TLSSelfSigned, len(f.ACMEDomain) > 0} {
		if chosen {
			ways++
		}
	}
	_, port, noAddress := net.SplitHostPort(f.RedirectListen)
	directory, noURL := url.Parse(f.ACMEDirectory)
	if err := refuse(
		rule{f.TLSCert != "" && f.TLSKey == "", "tls-cert", f.TLSCert, "name the file of its key with --tls-key"},
		rule{f.TLSKey != "" && f.TLSCert == "", "tls-key", f.TLSKey, "name the file of its certificate with --tls-cert"},
		rule{ways > 1 && f.TLSSelfSigned, "tls-self-signed", f.TLSSelfSigned, "use one certificate: leave out --tls-cert, --tls-key and --acme-domain, or this"},
		rule{ways > 1, "acme-domain", strings.Join(f.ACMEDomain, ","), "use one certificate: leave out --tls-cert and --tls-key, or this"},
		rule{len(f.ACMEDomain) > 0 && stateDir == "", "acme-domain", strings.Join(f.ACMEDomain, ","), "authorities give only a few certificates a week: name a folder to keep them in with --state-dir"},
		rule{len(f.ACMEDomain) == 0 && f.ACMEEmail != "", "acme-email", f.ACMEEmail, "has no effect without --acme-domain"},
		rule{len(f.ACMEDomain) == 0 && f.ACMEDirectory != "", "acme-directory", f.ACMEDirectory, "has no effect without --acme-domain"},
		rule{f.ACMEDirectory != "" && (noURL != nil || directory.Scheme != "https" || directory.Host == ""), "acme-directory", f.ACMEDirectory, "give the https:// URL of the authority's directory"},
		rule{f.HSTS < 0 || f.HSTS > 2*365*24*time.Hour || f.HSTS%time.Second != 0, "hsts", f.HSTS, "must be whole seconds, from 0 to 17520h (two years)"},
		rule{f.RedirectListen != "" && !f.secure(), "redirect-listen", f.RedirectListen, "has no effect without TLS: give --tls-cert, --tls-self-signed or --acme-domain"},
		rule{f.RedirectListen != "" && (noAddress != nil || port == ""), "redirect-listen", f.RedirectListen, "give an address and a port, such as :80"},
	); err != nil {
		return err
	}
	f.domains = nil
	for _, text := range f.ACMEDomain {
		name, err := auth.HostName(text)
		if err == nil && (!strings.Contains(name, ".") || net.ParseIP(name) != nil) {
			err = errors.New("an authority gives certificates for whole names, such as gpu.example.org")
		}
		if err != nil {
			return bad("acme-domain", text, err.Error())
		}
		if !slices.Contains(f.domains, name) {
			f.domains = append(f.domains, name)
		}
	}
	return nil
}

// certificate returns where the certificate of the page comes from, if there is one, and listens for plain HTTP if asked to; nil without TLS.
func (f *tlsFlags) certificate(ctx context.Context, page bool) (*certs.Options, error) {
	o := f.certs()
	switch {
	case o == nil, !page:
		return nil, nil //nolint:nilnil // without TLS
	case f.RedirectListen == "":
		return o, nil
	}
	var err error
	o.Redirect, err = listen(ctx, "redirect-listen", f.RedirectListen)
	return o, err
}

// certs are the settings of the certificate; nil without TLS.
func (f *tlsFlags) certs() *certs.Options {
	if !f.secure() {
		return nil
	}
	return &certs.Options{Cert: f.TLSCert, Key: f.TLSKey, SelfSigned: f.TLSSelfSigned, Domains: f.domains, Email: f.ACMEEmail, Directory: f.ACMEDirectory, HSTS: f.HSTS}
}

// greet prints where the page is, and how people know its certificate.
func (env *environment) greet(room *certs.Room, listen, basePath string) {
	fmt.Fprintf(env.stdout, "gpuwhy %s: %s\n", release.Version, pageURL(room, listen, basePath))
	if room != nil && room.Fingerprint() != "" {
		fmt.Fprintf(env.stdout, "nobody vouches for its certificate; accept it if its SHA-256 fingerprint is %s\n", room.Fingerprint())
	}
}

// pageURL returns where a page is that listens on an address. room may be nil: then it is there without TLS.
func pageURL(room *certs.Room, listen, basePath string) string {
	if room == nil {
		return ownURL(listen, basePath)
	}
	return secureURL(listen, basePath, room.Host())
}

// secureURL returns where a page over TLS is that listens on an address, whose certificate is for a name; empty: for an address.
func secureURL(listen, basePath, name string) string {
	plain, err := url.Parse(ownURL(listen, basePath))
	if err != nil {
		return "https://" + listen + basePath
	}
	port := plain.Port()
	plain.Scheme, plain.Host = "https", net.JoinHostPort(cmp.Or(name, plain.Hostname()), port)
	if port == "443" {
		plain.Host = strings.TrimSuffix(plain.Host, ":443")
	}
	return plain.String()
}
