package broker

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/fleet/bus"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

const (
	maxStore       = 4 << 30 // bytes on disk, for all streams and what writing them takes
	maxMemory      = 64 << 20
	maxConnections = 1000
	// syncAlways makes the server write each message to disk before it acknowledges it, since a machine forgets its past and its
	// alerts once they are acknowledged. By default up to two minutes of messages could be lost with the system's cache.
	syncAlways = true
	// startPatience is how long the server may take to start, and patience how long a client has for each step of signing in.
	startPatience, patience = 30 * time.Second, 5 * time.Second
	// certLife is how long the server's certificate is valid. It is made at each start, and renewed when a third is left.
	certLife = 90 * 24 * time.Hour
	// How often the server checks whether a command has changed the authority, and whether the certificate expires.
	look      = time.Second
	mendPause = 5 * time.Second // between two looks whether a full disk has room
)

// Config configures a server: where it listens, and where it keeps its files.
type Config struct {
	Dir    string   // a folder of its own below the state directory; created if missing
	Listen string   // address and port; port 0 picks a free one
	Hosts  []string // names and addresses at which machines reach it, besides those that this machine knows itself
	Log    *slog.Logger
	// Free returns how many bytes may still be written to a folder's disk; nil if only writing can tell.
	Free func(dir string) (uint64, error)
	// Patience is how long a client has for each step of signing in and to receive a message, and the server for an answer; 0: five
	// seconds, and ten to receive a message.
	Patience time.Duration

	told   string // where machines connect, if that is not where the server listens; see [StartApart]
	behind bool   // it is in a helper, and takes connections from the program that has the address, see [StartApart]
}

// A Broker is a running server.
type Broker struct {
	dir       string
	log       *slog.Logger
	authority *Authority
	hosts     []string
	told      string // see [Config]
	free      func(dir string) (uint64, error)
	server    *natsserver.Server
	said      *logger
	bus       *bus.Bus
	cert      atomic.Pointer[tls.Certificate]
	trouble   atomic.Pointer[trouble]
	tried     time.Time // when the server was last to be mended; of the task that follows alone
	release   func() error
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
}

// Start starts a server, and returns once programs can connect. Errors that people can fix are a
// [gpu.Advice].
func Start(ctx context.Context, cfg Config) (_ *Broker, err error) {
	cfg.Patience = cmp.Or(cfg.Patience, patience)
	if cfg.Dir == "" {
		return nil, &gpu.Advice{What: "the fleet's server has no folder to keep keys and messages in", Try: "name one with --state-dir, or leave out --fleet-listen"}
	}
	b := &Broker{dir: cfg.Dir, log: cfg.Log, hosts: cfg.Hosts, free: cfg.Free, told: cfg.told}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.authority, err = OpenAuthority(cfg.Dir); err != nil {
		return nil, err
	}
	release, holder, err := state.LockFile(filepath.Join(cfg.Dir, "server.lock"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the fleet's server: %w", err)
	case holder != "":
		return nil, &gpu.Advice{What: fmt.Sprintf("another gpuwhy, %s, already runs the fleet's server from %s", holder, cfg.Dir), Try: "stop it, or give this one its own --state-dir"}
	}
	b.release = release
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	d, err := b.authority.read()
	if err != nil {
		return nil, err
	}
	claims, err := d.claims()
	if err != nil {
		return nil, fmt.Errorf("the fleet's keys: %w", err)
	}
	if err := b.certify(d, cfg.Listen); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	listen := cfg.Listen
	if cfg.behind {
		listen = "127.0.0.1:0"
	}
	if err := b.serve(ctx, listen, cfg.Patience, cfg.behind, claims); err != nil {
		return nil, err
	}
	if err := b.tellInfo(); err != nil {
		return nil, err
	}
	creds := b.Credentials()
	if _, err := os.Stat(creds); err != nil {
		text, err := b.authority.Join(own, "server")
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(creds, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("the fleet's server: %w", err)
		}
	}
	if b.bus, err = bus.Open(bus.Config{Name: "gpuwhy server", Credentials: creds, InProcess: b.server, Log: b.log, Patience: cfg.Patience}); err != nil {
		return nil, err
	}
	b.bus.Connected(ctx) // else Prepare says why it is not
	if err := b.bus.Prepare(ctx, bus.Limits{}); err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	b.tasks.Go(func() { b.follow(background, d, cfg.Listen) })
	return b, nil
}

// serve starts the server itself.
func (b *Broker) serve(ctx context.Context, listen string, patience time.Duration, behind bool, claims *claims) error {
	// The server itself would only log that its port is taken.
	probe, err := listenOn(ctx, listen)
	if err != nil {
		return err
	}
	if err := probe.Close(); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	if host == "" {
		host = natsserver.DEFAULT_HOST
	}
	resolver := &natsserver.MemAccResolver{}
	for key, text := range claims.accounts {
		if err := resolver.Store(key, text); err != nil {
			return err
		}
	}
	options := &natsserver.Options{
		ServerName: "gpuwhy", Host: host, Port: int(number), NoSigs: true, MaxConn: maxConnections, MaxPayload: 1 << 20,
		JetStream: true, StoreDir: b.store(), JetStreamMaxStore: maxStore, JetStreamMaxMemory: maxMemory,
		SyncAlways:    syncAlways,
		ProxyProtocol: behind, // in which that program says who connects
		TLS:           true, TLSTimeout: patience.Seconds(), AuthTimeout: patience.Seconds(), WriteDeadline: max(natsserver.DEFAULT_FLUSH_DEADLINE, patience),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.cert.Load(), nil },
		},
	}
	if number == 0 {
		options.Port = natsserver.RANDOM_PORT
	}
	options.TrustedOperators = append(options.TrustedOperators, claims.operator)
	options.SystemAccount, options.AccountResolver = claims.system, resolver
	if b.server, err = natsserver.NewServer(options); err != nil {
		return fmt.Errorf("the fleet's server: %w", err)
	}
	b.said = &logger{log: b.log, often: rate.NewLimiter(rate.Every(10*time.Second), 5)}
	b.server.SetLoggerV2(b.said, false, false, false)
	b.server.Start()
	if !b.server.ReadyForConnections(max(startPatience, patience)) || b.said.fatal.Load() != nil {
		what := "it was not ready after " + max(startPatience, patience).String()
		if text := b.said.fatal.Load(); text != nil {
			what = *text
		}
		return &gpu.Advice{What: "the fleet's server does not start", Try: "check that the disk has space and that gpuwhy may write to " + b.dir, Err: errors.New(what)}
	}
	return nil
}

// listenOn opens an address. Its errors are a [gpu.Advice].
func listenOn(ctx context.Context, listen string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, &gpu.Advice{What: fmt.Sprintf("--fleet-listen %q is not an address and port", listen), Try: "give an address such as :4222", Err: err}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, &gpu.Advice{What: fmt.Sprintf("--fleet-listen %q has no port", listen), Try: "give an address such as :4222", Err: err}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		what := fmt.Sprintf("the fleet's server can't listen on %s", listen)
		if neterr.InUse(err) {
			what = fmt.Sprintf("another program is listening on %s", listen)
		}
		return nil, &gpu.Advice{What: what, Try: "give --fleet-listen another address or port", Err: err}
	}
	return ln, nil
}

// store is the folder of messages.
func (b *Broker) store() string { return filepath.Join(b.dir, "jetstream") }

// Addr returns the address on which the server listens.
func (b *Broker) Addr() net.Addr { return b.server.Addr() }

// InProcess returns how this program connects, with [Broker.Credentials].
func (b *Broker) InProcess() nats.InProcessConnProvider { return b.server }

// Credentials returns the file with which this program is a hub and a recorder of its own server.
func (b *Broker) Credentials() string { return credentialsIn(b.dir) }

func credentialsIn(dir string) string { return filepath.Join(dir, ownCredentials) }

// Authority returns what issues and revokes this server's credentials.
func (b *Broker) Authority() *Authority { return b.authority }

// Close ends the server. Everything that it keeps is on the disk then.
func (b *Broker) Close() (err error) {
	if b.cancel != nil {
		b.cancel()
		b.tasks.Wait()
	}
	if b.bus != nil {
		err = b.bus.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
		b.server.WaitForShutdown()
	}
	if b.release != nil {
		err = errors.Join(err, b.release())
		b.release = nil
	}
	return err
}

// follow applies changes that commands make to the authority, and renews the certificate.
func (b *Broker) follow(ctx context.Context, d *document, listen string) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last, failing, cleaned := fileState(b.authority.file()), false, false
	for {
		if !cleaned {
			cleaned = b.clean(ctx, d) == nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		b.mend()
		if err := b.renew(d, listen); err != nil {
			b.log.Error("can't renew the certificate of the fleet's server", "err", err)
		}
		state := fileState(b.authority.file())
		if state == last {
			continue
		}
		next, err := b.authority.read()
		if err == nil {
			err = b.apply(next)
		}
		if err != nil {
			if !failing {
				b.log.Error("can't read the list of who may join the fleet: it stays as it was", "err", err)
			}
			failing = true
			continue
		}
		failing, last, d, cleaned = false, state, next, false
	}
}

type trouble struct {
	what  gpu.Advice
	since time.Time
}

// Trouble returns why the server can't store messages, and since when; nil if it can.
func (b *Broker) Trouble() (what *gpu.Advice, since time.Time) {
	t := b.trouble.Load()
	if t == nil {
		return nil, time.Time{}
	}
	return &t.what, t.since
}

// mend makes the server write again after a failed write, for example on a full disk. On its own the server would refuse all
// messages of such a stream, without an answer, until it is restarted. So mend restarts its storage once the disk has
// space. Connections stay, and stored messages are read again.
func (b *Broker) mend() {
	failed := b.said.unwritten.Load()
	if failed == nil {
		return
	}
	now := time.Now()
	if b.trouble.Load() == nil {
		t := &trouble{gpu.Advice{
			What: "the fleet's server can't write to its disk: machines are still shown live, but their past and events wait", Err: errors.New(*failed),
			Try: "free space on the disk of " + b.dir + "; the server then continues on its own",
		}, now}
		b.trouble.Store(t)
		b.log.Error("the fleet's server can't write to its disk", "try", t.what.Try, "err", t.what.Err)
		return // so that people can read it
	}
	if now.Sub(b.tried) < mendPause {
		return
	}
	if b.tried = now; !b.roomy() {
		return
	}
	err := b.server.ShutdownJetStream()
	if err == nil {
		err = b.server.EnableJetStream(&natsserver.JetStreamConfig{StoreDir: b.store(), MaxStore: maxStore, MaxMemory: maxMemory, SyncAlways: syncAlways, Strict: true})
	}
	if err != nil {
		b.log.Warn("the fleet's server still can't keep messages", "err", err)
		return
	}
	b.said.unwritten.Store(nil)
	b.trouble.Store(nil)
	b.log.Info("the fleet's server keeps messages again")
}

// spare is how much a disk must have free before messages are kept again.
const spare = 8 << 20 // bytes

// roomy reports whether that much can be written. It only tries if the space seems to be free, since others use that disk too.
func (b *Broker) roomy() bool {
	if b.free != nil {
		if free, err := b.free(b.store()); err == nil && free < spare+spare/4 {
			return false
		}
	}
	name := filepath.Join(b.store(), ".room")
	err := os.WriteFile(name, make([]byte, spare), 0o600)
	return errors.Join(err, os.Remove(name)) == nil
}

// fileState differs when a file was written.
func fileState(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// apply tells the server who was removed, which closes their connections.
func (b *Broker) apply(d *document) error {
	claims, err := d.claims()
	if err != nil {
		return err
	}
	key := claims.account.Subject
	if err := b.server.AccountResolver().Store(key, claims.accounts[key]); err != nil {
		return err
	}
	account, err := b.server.LookupAccount(key)
	if err != nil {
		return err
	}
	b.server.UpdateAccountClaims(account, claims.account)
	return nil
}

// clean deletes nodes from the bucket that were removed and have not joined again.
func (b *Broker) clean(ctx context.Context, d *document) error {
	bucket, err := b.bus.JetStream().KeyValue(ctx, bus.Bucket)
	if err != nil {
		return err
	}
	for _, m := range d.Members {
		if m.Kind != Node || m.Removed.IsZero() || joined(d, m.Name) {
			continue
		}
		token := bus.Token(m.Name)
		if _, err := bucket.Get(ctx, token); errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		} else if err != nil {
			return err
		}
		if err := bucket.Delete(ctx, token); err != nil {
			return err
		}
	}
	return nil
}

// joined reports whether a node has credentials.
func joined(d *document, name string) bool {
	for _, m := range d.Members {
		if m.Kind == Node && m.Name == name && m.Removed.IsZero() {
			return true
		}
	}
	return false
}

// renew renews the certificate if it expires soon.
func (b *Broker) renew(d *document, listen string) error {
	if time.Until(b.cert.Load().Leaf.NotAfter) > certLife/3 {
		return nil
	}
	if err := b.certify(d, listen); err != nil {
		return err
	}
	return b.tellInfo()
}

// certify makes the server's certificate, for all names of this machine.
func (b *Broker) certify(d *document, listen string) error {
	ca, _ := pem.Decode([]byte(d.CA))
	caKey, _ := pem.Decode([]byte(d.CAKey))
	if ca == nil || caKey == nil {
		return errors.New("the fleet's CA is damaged")
	}
	parent, err := x509.ParseCertificate(ca.Bytes)
	if err != nil {
		return err
	}
	signer, err := x509.ParsePKCS8PrivateKey(caKey.Bytes)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "gpuwhy fleet server"}, NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter: time.Now().Add(certLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	host, _, _ := net.SplitHostPort(listen)
	for _, name := range append(ownNames(), append(b.hosts, host)...) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	b.cert.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf})
	return nil
}

// ownNames are the names and addresses that this machine knows of itself.
func ownNames() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	addresses, _ := net.InterfaceAddrs() // --fleet-host names what is missing
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			names = append(names, network.IP.String())
		}
	}
	return names
}

// logger receives the server's log. It limits how often it passes on lines that others can cause by connecting.
type logger struct {
	log       *slog.Logger
	often     *rate.Limiter
	fatal     atomic.Pointer[string]
	unwritten atomic.Pointer[string] // why a message could not be written; nil: all were
}

// some passes a line on now and then. It recognizes a failed write by the server's words, the only sign of it.
func (l *logger) some(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, words := range []string{"write error", "failed to store a msg", "disabling JetStream", "will be DISABLED"} {
		if strings.Contains(text, words) {
			l.unwritten.Store(&text)
		}
	}
	if l.often.Allow() {
		l.log.Warn("the fleet's server", "says", text)
	}
}

// Noticef logs at debug level.
func (l *logger) Noticef(format string, v ...any) { l.Debugf(format, v...) }

// Warnf logs now and then.
func (l *logger) Warnf(format string, v ...any) { l.some(format, v...) }

// Errorf logs now and then.
func (l *logger) Errorf(format string, v ...any) { l.some(format, v...) }

// Fatalf remembers why the server does not start, and does not exit.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.Store(&text)
}

// Debugf logs at debug level.
func (l *logger) Debugf(format string, v ...any) {
	l.log.Debug("the fleet's server", "says", fmt.Sprintf(format, v...))
}

// Tracef does nothing.
func (l *logger) Tracef(string, ...any) {}
