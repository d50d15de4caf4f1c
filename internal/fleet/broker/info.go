package broker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/natefinch/atomic"

	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// infoFile is the file in which a server tells commands where it listens and which names its certificate has.
const infoFile = "server.json"

// Info is what a server reports about itself.
type Info struct {
	Listen string   `json:"listen"` // address and port, the real one
	Hosts  []string `json:"hosts"`  // named by --fleet-host
	Names  []string `json:"names"`  // names and addresses in its certificate
	// Answers says that the server runs now. Otherwise the Info is from its last run.
	Answers bool `json:"-"`
}

// InfoOf returns what the server of a directory reports about itself. The error is [fs.ErrNotExist] if none ever ran.
func InfoOf(ctx context.Context, dir string) (*Info, error) {
	text, err := regular.Read(filepath.Join(dir, infoFile), longest)
	if err != nil {
		return nil, err
	}
	i := new(Info)
	if err := json.Unmarshal(text, i); err != nil {
		return nil, fmt.Errorf("can't read the status file of the fleet's server: %w", err)
	}
	host, port, err := net.SplitHostPort(i.Listen)
	if err != nil {
		return nil, fmt.Errorf("can't read the status file of the fleet's server: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "localhost"
	}
	d, err := (&Authority{dir}).read()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	if leaf, err := certificate(ctx, net.JoinHostPort(host, port), []byte(d.CA)); err == nil {
		i.Answers, i.Names = true, namesOf(leaf)
	}
	return i, nil
}

// certificate returns the certificate of the server at an address, if it belongs to the fleet with that CA.
func certificate(ctx context.Context, address string, ca []byte) (*x509.Certificate, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return nil, err
		}
	}
	// A NATS server identifies itself in one line before it speaks TLS.
	line, err := bufio.NewReaderSize(conn, longestHello).ReadSlice('\n')
	if err != nil || !bytes.HasPrefix(line, []byte("INFO ")) {
		return nil, fmt.Errorf("no NATS server listens on %s: %w", address, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	over := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "localhost"}) // a name of each certificate
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return over.ConnectionState().PeerCertificates[0], nil
}

// longestHello is how long the first line of a server may be, in bytes.
const longestHello = 64 << 10

// namesOf are the names and addresses that a certificate has, each once.
func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// answerPatience is how long a server of this machine may take for a connection.
const answerPatience = 2 * time.Second

// Port returns the port on which it listens.
func (i *Info) Port() string {
	_, port, _ := net.SplitHostPort(i.Listen) // InfoOf has checked it
	return port
}

// Certified reports whether the server's certificate is valid for a host.
func (i *Info) Certified(host string) bool {
	cert := x509.Certificate{}
	for _, name := range i.Names {
		if ip := net.ParseIP(name); ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}
	return cert.VerifyHostname(host) == nil
}

// tellInfo writes the file if its content has changed.
func (b *Broker) tellInfo() error {
	i := Info{Listen: cmp.Or(b.told, b.Addr().String()), Hosts: b.hosts, Names: namesOf(b.cert.Load().Leaf)}
	text, err := json.Marshal(i)
	if err != nil {
		return err
	}
	name := filepath.Join(b.dir, infoFile)
	if was, err := regular.Read(name, longest); !errors.Is(err, fs.ErrNotExist) && bytes.Equal(bytes.TrimSpace(was), text) {
		return nil
	}
	if err := atomic.WriteFile(name, bytes.NewReader(append(text, '\n'))); err != nil {
		return fmt.Errorf("the fleet's server: %w", err)
	}
	return nil
}
