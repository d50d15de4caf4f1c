package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Config configures a connection: where the servers are, and who connects.
type Config struct {
	URLs        []string // of servers, nats:// or tls://; see [ParseURLs]
	Credentials string   // a file; empty for none
	Name        string   // this program's name in the server's lists
	// Node is the publishing node, which has its own inbox; empty for hubs and recorders.
	Node string
	Log  *slog.Logger // nil: nowhere
	// InProcess connects to a server in this program, instead of URLs.
	InProcess nats.InProcessConnProvider
	// Patience is how long servers may take to connect, and for each answer; 0: five seconds.
	Patience time.Duration

	// Pauses of tests; zero for those below.
	shortest, seldom, check time.Duration
}

const (
	// The pause after a failure starts at shortest and doubles up to rest, with jitter, so that not all programs reconnect to
	// a restarted server at once. Rejected credentials rarely become valid, so they are retried seldom.
	shortestPause = 250 * time.Millisecond
	longestPause  = 15 * time.Second
	seldomPause   = time.Minute

	patience      = 5 * time.Second
	closePatience = 2 * time.Second
	// After two of these without an answer, the server counts as gone.
	pingInterval = 10 * time.Second

	// How much may wait in a subscription that is too slow; beyond that, messages are dropped.
	pendingMessages = 64 << 10
	pendingBytes    = 64 << 20
)

// A Bus is a connection to the servers of a fleet. It connects in the background, and reconnects until it is closed.
// Several goroutines may call its methods.
type Bus struct {
	cfg  Config
	log  *slog.Logger
	conn *nats.Conn
	js   jetstream.JetStream

	ctx   context.Context // canceled by Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	// The connection reads credentials while it holds a lock of its own. So nothing may be asked of it under these.
	credsMu sync.Mutex
	creds   *credentials // nil for none

	mu       sync.Mutex
	since    time.Time
	link     *gpu.Advice // what is wrong with the connection
	refused  bool        // the last time, the server refused the credentials
	revoked  bool        // and it had told that they were revoked
	denied   *gpu.Advice // what this connection may not do
	stored   *gpu.Advice // why JetStream did not do what was asked of it last
	checked  *gpu.Advice // what is wrong with the streams
	told     string      // the last of these that the log has
	dropped  uint64
	slow     bool // told
	plain    bool // told
	checking bool
}

// Open begins to connect. An unreachable server is not an error. A URL or a credentials file that can never work is one,
// a [gpu.Advice].
func Open(cfg Config) (*Bus, error) {
	b := &Bus{cfg: cfg, log: cfg.Log, since: time.Now()}
	b.ctx, b.end = context.WithCancel(context.Background())
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	b.cfg.Patience = cmp.Or(cfg.Patience, patience)
	b.cfg.shortest = cmp.Or(cfg.shortest, shortestPause)
	b.cfg.seldom = cmp.Or(cfg.seldom, seldomPause)
	b.cfg.check = cmp.Or(cfg.check, checkPause)
	options := []nats.Option{
		nats.Name(cfg.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(b.pause), nats.Timeout(b.cfg.Patience), nats.PingInterval(max(pingInterval, b.cfg.Patience)), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // publishing without a connection fails at once, instead of sending old news later
		nats.SyncQueueLen(pendingMessages), nats.PermissionErrOnSubscribe(true),
		nats.ConnectHandler(b.connected), nats.ReconnectHandler(b.connected), nats.DisconnectErrHandler(b.disconnected),
		nats.ReconnectErrHandler(b.disconnected), nats.ErrorHandler(b.failed), nats.NoCallbacksAfterClientClose(),
	}
	if cfg.Node != "" {
		options = append(options, nats.CustomInboxPrefix(Inbox(cfg.Node)))
	}
	if cfg.Credentials != "" {
		creds, err := readCredentials(cfg.Credentials)
		if err != nil {
			return nil, err
		}
		warnOpen(cfg.Credentials, b.log)
		b.creds = creds
		options = append(options, creds.options(b.again)...)
	}
	var servers string
	if cfg.InProcess != nil {
		options = append(options, nats.InProcessServer(cfg.InProcess))
	} else {
		urls, err := ParseURLs(cfg.URLs)
		if err != nil {
			return nil, err
		}
		servers = strings.Join(urls, ",")
	}
	b.mu.Lock() // callbacks wait until the connection stands in the struct
	defer b.mu.Unlock()
	var err error
	if b.conn, err = nats.Connect(servers, options...); err != nil {
		return nil, &gpu.Advice{What: "can't set up the connection to the fleet", Try: "check --fleet and --fleet-credentials", Err: err}
	}
	if b.js, err = jetstream.New(b.conn, jetstream.WithDefaultTimeout(b.cfg.Patience)); err != nil {
		b.conn.Close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return b, nil
}

// Connected waits for a connection, at most as long as a step of signing in may take, and reports whether there is one.
func (b *Bus) Connected(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	changed := b.conn.StatusChanged(nats.CONNECTED)
	defer b.conn.RemoveStatusListener(changed)
	if b.conn.IsConnected() {
		return true
	}
	select {
	case <-changed:
		return true
	case <-ctx.Done():
	case <-b.ctx.Done():
	}
	return false
}

// ParseURLs checks the URLs of servers and adds missing ports. An item may have several URLs, separated by commas. Errors are
// a [gpu.Advice] that says what a URL must look like.
func ParseURLs(given []string) ([]string, error) {
	var urls []string
	for _, item := range given {
		for text := range strings.SplitSeq(item, ",") {
			text = strings.TrimSpace(text)
			u, err := url.Parse(text)
			what := ""
			var noPort error
			if err == nil && u.Port() != "" {
				_, noPort = strconv.ParseUint(u.Port(), 10, 16)
			}
			switch {
			case err != nil || u.Hostname() == "" && u.Opaque == "":
				what = "is not the URL of a NATS server"
			case u.Scheme != "nats" && u.Scheme != "tls":
				what = "does not begin with nats:// or tls://"
			case u.User != nil:
				// Not with what may be a password.
				return nil, &gpu.Advice{What: "a --fleet URL contains a user or a token, which everyone can see in the process list", Try: "put it into a file for --fleet-credentials"}
			case u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
				what = "has more than a host and a port"
			case noPort != nil || u.Port() == "0":
				what = "has an invalid port"
			}
			if what != "" {
				return nil, &gpu.Advice{What: fmt.Sprintf("%.300q %s", text, what), Try: "give --fleet a URL such as tls://gpu-1.example.org:4222; separate several with commas", Err: err}
			}
			urls = append(urls, u.Scheme+"://"+net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		}
	}
	if len(urls) == 0 {
		return nil, &gpu.Advice{What: "no fleet server is named", Try: "give --fleet a URL such as tls://gpu-1.example.org:4222"}
	}
	return urls, nil
}

// Conn returns the connection. If you subscribe with it, limit what may wait, as [Bus.Subscribe] does.
func (b *Bus) Conn() *nats.Conn { return b.conn }

// JetStream returns the client for stored messages. Pass its errors to [Bus.Note].
func (b *Bus) JetStream() jetstream.JetStream { return b.js }

// Subscribe calls a function with each message of a subject, one at a time. Only a limited amount may wait; more is dropped, and
// counted in State.
func (b *Bus) Subscribe(subject string, receive nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := b.conn.Subscribe(subject, receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe %s: %w", subject, err), sub.Unsubscribe())
	}
	return sub, nil
}

// Put stores a value as a node's state in the bucket, and returns once it is stored. A node has no other permission for the
// bucket, so it can't use jetstream.KeyValue. Put waits no longer than its patience, since an answer that was lost with a
// connection never arrives.
func (b *Bus) Put(ctx context.Context, node string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	_, err := b.js.Publish(ctx, Key(node), value)
	b.Note(err)
	if err != nil {
		return fmt.Errorf("state of %q: %w", node, err)
	}
	return nil
}

// Close sends what still waits, for at most two seconds, and closes the connection.
func (b *Bus) Close() error {
	b.mu.Lock() // Prepare starts nothing after this
	b.end()
	b.mu.Unlock()
	var err error
	if b.conn.IsConnected() {
		err = b.conn.FlushTimeout(closePatience)
	}
	b.conn.Close()
	b.tasks.Wait()
	if err != nil {
		b.log.Warn("some messages to the fleet may not have been sent", "err", err)
	}
	return nil
}

// pause is how long to wait before all servers are tried again.
func (b *Bus) pause(attempts int) time.Duration {
	b.mu.Lock() // waits for Open
	conn := b.conn
	b.mu.Unlock()
	err := conn.LastError()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil { // of a try that came as far as signing in, which no callback is told
		b.lost(err)
	}
	longest := min(b.cfg.shortest<<min(attempts-1, 20), longestPause)
	if b.refused {
		longest = b.cfg.seldom
	}
	return longest/2 + rand.N(longest/2+1) //nolint:gosec // no secret
}

// again rereads the credentials file. If it can't be read, or signs in in another way, nothing changes.
func (b *Bus) again() *credentials {
	now, err := readCredentials(b.cfg.Credentials)
	b.credsMu.Lock()
	defer b.credsMu.Unlock()
	if err == nil && now.like(b.creds) {
		b.creds = now
	}
	return b.creds
}

func (b *Bus) connected(conn *nats.Conn) {
	server := conn.ConnectedUrlRedacted()
	if b.cfg.InProcess != nil {
		server = "within this program"
	}
	_, notTLS := conn.TLSConnectionState()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since, b.link, b.denied, b.refused, b.revoked, b.slow = time.Now(), nil, nil, false, false, false
	b.log.Info("connected to the fleet", "server", server)
	if notTLS != nil && b.cfg.InProcess == nil && !loopback(server) && !b.plain {
		b.plain = true
		b.log.Warn("the connection to the fleet is not encrypted: anyone in between can read it", "server", server, "try", "set up TLS on the servers, and use tls:// URLs in --fleet")
	}
	b.tell()
}

// disconnected handles a lost connection and a failed attempt.
func (b *Bus) disconnected(_ *nats.Conn, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost(err)
}

// lost notes why there is no connection.
func (b *Bus) lost(err error) {
	if b.link == nil {
		b.since = time.Now()
	}
	if b.refused && (err == nil || errors.Is(err, io.EOF)) {
		return // the server has told before why it closes the connection
	}
	if err == nil {
		err = io.EOF
	}
	b.refused = isRefusal(err)
	b.revoked = b.revoked || errors.Is(err, nats.ErrAuthRevoked)
	switch {
	case !errors.Is(err, nats.ErrAuthorization): // which may mean anything
	case b.revoked:
		err = nats.ErrAuthRevoked // as it told when it ended the connection
	case b.expired():
		err = nats.ErrAuthExpired
	}
	b.link = Explain(err)
	b.tell()
}

func (b *Bus) expired() bool {
	b.credsMu.Lock()
	defer b.credsMu.Unlock()
	return b.creds != nil && !b.creds.expires.IsZero() && time.Now().After(b.creds.expires)
}

// failed handles errors during a connection.
func (b *Bus) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		b.dropped++
		if !b.slow && sub != nil {
			b.slow = true
			b.log.Warn("dropping messages from the fleet: this program is too slow to process them", "subject", sub.Subject)
		}
	case isRefusal(err):
		b.lost(err)
	case errors.Is(err, nats.ErrPermissionViolation):
		b.denied = Explain(err)
		b.tell()
	default:
		b.log.Debug("connection to the fleet", "err", err)
	}
}

// isRefusal reports whether the server rejected the credentials.
func isRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// loopback reports whether a URL is of this machine.
func loopback(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.IsLoopback() || u.Hostname() == "localhost"
}
