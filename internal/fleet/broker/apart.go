package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/state"
)

// Name is the name of the helper process that runs the server; see [helper.Run].
const Name = "fleet"

const (
	// ready is how long a start waits for a server that has run before: its disk may accept no writes now.
	ready = 5 * time.Second
	// goodbye is how long the server has to shut down, dialing how long it has to accept a connection.
	goodbye, dialing = 2 * time.Second, 2 * time.Second
	// startAgain is the pause before the server is restarted. While it does not start, the pause doubles up to longestPause.
	startAgain, longestPause = time.Second, time.Minute
	// copied is how many bytes of a connection are forwarded at once, and mostPassed how many connections.
	copied, mostPassed = 8 << 10, maxConnections + 64
)

// A Server is a fleet's server: a [Broker], or one in its own process.
type Server interface {
	Addr() net.Addr
	InProcess() nats.InProcessConnProvider
	Credentials() string
	Trouble() (what *gpu.Advice, since time.Time)
	// Pid returns the server's process; 0 if it is this one, or if there is none now.
	Pid() int
	Close() error
}

// Pid returns 0.
func (b *Broker) Pid() int { return 0 }

// StartApart is like [Start], but runs the server in its own process, so that a hanging disk blocks only that process. This
// process listens on the address and forwards connections. If the server has run before and its disk accepts no writes now,
// StartApart does not wait: the server starts once the disk does. On systems without helpers it is Start.
func StartApart(ctx context.Context, cfg Config) (Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &apart{cfg: cfg, helper: helper.New(Name, nil, cfg.Log), first: make(chan error, 1), conns: map[net.Conn]bool{}, since: time.Now()}
	if cfg.Dir == "" {
		return Start(ctx, cfg)
	}
	if _, err := a.helper.Begin(); err != nil {
		err = errors.Join(err, a.helper.Close(0))
		if !errors.Is(err, errors.ErrUnsupported) {
			cfg.Log.Warn("the fleet's server runs in gpuwhy's own process, so a hanging disk can block both", "err", err)
		}
		return Start(ctx, cfg)
	}
	ln, err := listenOn(ctx, cfg.Listen)
	if err != nil {
		return nil, errors.Join(err, a.helper.Close(0))
	}
	a.ln = ln
	a.ctx, a.end = context.WithCancel(context.Background())
	a.tasks.Go(a.attend)
	a.tasks.Go(a.accept)
	wait := max(startPatience, cfg.Patience)
	if _, err := os.Stat(a.Credentials()); err == nil {
		wait = ready
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case err = <-a.first:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		if wait != ready {
			err = errNotThere
			break
		}
		cfg.Log.Warn("the fleet's server has not started yet", "err", errNotThere)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

var errNotThere = &gpu.Advice{
	What: "the fleet's server does not start", Try: "check the disk of the state directory, which accepts no writes or is slow; the server starts once it accepts writes",
}

var errEnded = &gpu.Advice{
	What: "the process of the fleet's server has ended", Try: "wait a few seconds: gpuwhy restarts it, and machines reconnect; gpuwhy's log says why it ended",
}

// apart is a server in a helper.
type apart struct {
	cfg    Config
	helper *helper.Helper
	ln     net.Listener
	first  chan error // whether the server could start first
	ctx    context.Context
	end    context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	process *helper.Process // whose server is there; nil: none is
	port    int             // where it takes connections, on the loopback
	trouble *gpu.Advice
	since   time.Time // of that, or since when there is no server
	was     bool      // there has been one
	failed  *gpu.Advice
	conns   map[net.Conn]bool
	closed  bool
}

// order is the first message to the helper.
type order struct {
	Dir, Listen string
	Address     string // on which the program takes connections
	Hosts       []string
	Patience    time.Duration
}

// report is the helper's message about its state, sent whenever the state changes.
type report struct {
	Port      int    // 0: the server has not started
	What, Try string // what is wrong; empty: nothing
	Err       string
	Since     time.Time
}

func (r *report) advice() *gpu.Advice {
	if r.What == "" && r.Err == "" {
		return nil
	}
	a := &gpu.Advice{What: r.What, Try: r.Try}
	if r.Err != "" {
		a.Err = errors.New(r.Err)
	}
	return a
}

// reportOf is a report of an error.
func reportOf(err error) *report {
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		r := &report{What: advice.What, Try: advice.Try}
		if advice.Err != nil {
			r.Err = advice.Err.Error()
		}
		return r
	}
	return &report{Err: err.Error()}
}

// attend keeps a server running until Close.
func (a *apart) attend() {
	for fails := 0; a.ctx.Err() == nil; fails++ {
		if p, err := a.helper.Running(); err == nil && a.hear(p) {
			fails = 0
		}
		again := time.NewTimer(min(startAgain<<min(fails, 10), longestPause))
		select {
		case <-again.C:
		case <-a.ctx.Done():
		}
		again.Stop()
	}
}

// hear tells a helper to be the server, and handles its reports until it ends. It reports whether the server started.
func (a *apart) hear(p *helper.Process) (was bool) {
	conn, err := p.Dial()
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(a.ctx, func() { _ = conn.Close() })()
	if json.NewEncoder(conn).Encode(order{a.cfg.Dir, a.cfg.Listen, a.ln.Addr().String(), a.cfg.Hosts, a.cfg.Patience}) != nil {
		return false
	}
	for reports := json.NewDecoder(conn); ; {
		var r report
		if reports.Decode(&r) != nil {
			break
		}
		a.note(p, &r)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if was = a.process != nil; was {
		a.process, a.since = nil, time.Now()
	}
	return was
}

func (a *apart) note(p *helper.Process, r *report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var first error
	if r.Port == 0 {
		a.failed = r.advice()
		first = a.failed
		if r.What == "" {
			first = a.failed.Err // no advice: for the log
			a.failed = nil
		}
	} else {
		a.process, a.port, a.trouble, a.since, a.failed, a.was = p, r.Port, r.advice(), r.Since, nil, true
	}
	select {
	case a.first <- first:
	default:
	}
}

// accept accepts connections, and forwards each.
func (a *apart) accept() {
	for {
		conn, err := a.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as no file descriptor left
			a.cfg.Log.Warn("the fleet's server can't accept a connection", "err", err)
			again := time.NewTimer(startAgain)
			select {
			case <-again.C:
			case <-a.ctx.Done():
			}
			again.Stop()
			continue
		}
		if a.keep(conn) {
			a.tasks.Go(func() {
				defer a.drop(conn)
				a.pass(conn)
			})
		}
	}
}

// keep registers a connection to be closed with the server; false if there are too many.
func (a *apart) keep(conn net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.conns) >= 2*mostPassed {
		_ = conn.Close()
		return false
	}
	a.conns[conn] = true
	return true
}

func (a *apart) drop(conn net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, conn)
	_ = conn.Close() // nothing waits to be written
}

// pass forwards a connection to the server, until one side closes it.
func (a *apart) pass(conn net.Conn) {
	a.mu.Lock()
	port, there := a.port, a.process != nil
	a.mu.Unlock()
	if !there {
		return // who connects tries again
	}
	dialer := net.Dialer{Timeout: dialing}
	upstream, err := dialer.DialContext(a.ctx, "tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return
	}
	defer upstream.Close()
	if _, err := io.WriteString(upstream, whoConnects(conn)); err == nil {
		join(conn, upstream)
	}
}

// whoConnects is the header of the PROXY protocol that tells the server a client's address.
func whoConnects(conn net.Conn) string {
	remote, is := conn.RemoteAddr().(*net.TCPAddr)
	local, also := conn.LocalAddr().(*net.TCPAddr)
	if !is || !also {
		return "PROXY UNKNOWN\r\n"
	}
	family := "TCP6"
	source, target := remote.AddrPort().Addr().Unmap().WithZone(""), local.AddrPort().Addr().Unmap().WithZone("")
	if source.Is4() {
		family = "TCP4"
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, source, target, remote.Port, local.Port)
}

// join forwards bytes in both directions, until one side ends.
func join(a, b net.Conn) {
	done := make(chan struct{}, 2)
	pass := func(dst, src net.Conn) {
		// Not the kernel's own way, which takes four file descriptors a connection.
		_, _ = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, copied)) // the end of a connection has many reasons
		done <- struct{}{}
	}
	go pass(a, b)
	go pass(b, a)
	<-done
	_, _ = a.Close(), b.Close() // which ends the other way
	<-done
}

// Addr returns the address to which machines connect.
func (a *apart) Addr() net.Addr { return a.ln.Addr() }

// InProcess returns how this program connects, with Credentials.
func (a *apart) InProcess() nats.InProcessConnProvider { return a }

// InProcessConn returns a connection for this program.
func (a *apart) InProcessConn() (net.Conn, error) {
	a.mu.Lock()
	p, why := a.process, a.away()
	a.mu.Unlock()
	if p == nil {
		return nil, why
	}
	return p.Dial()
}

// Credentials returns the file with which this program is a hub and a recorder of its own server.
func (a *apart) Credentials() string { return credentialsIn(a.cfg.Dir) }

// Trouble returns why the server does not run or can't store messages, and since when; nil if all is well.
func (a *apart) Trouble() (what *gpu.Advice, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.process != nil && a.trouble == nil:
		return nil, time.Time{}
	case a.process != nil:
		return a.trouble, a.since
	case a.failed != nil:
		return a.failed, a.since
	}
	return a.away(), a.since
}

// away says why there is no server. The caller holds mu.
func (a *apart) away() *gpu.Advice {
	if a.was && time.Since(a.since) < ready {
		return errEnded
	}
	return errNotThere
}

// Pid returns the helper's pid.
func (a *apart) Pid() int { return a.helper.Pid() }

// Close ends the server and all connections to it.
func (a *apart) Close() error {
	err := a.ln.Close()
	a.mu.Lock()
	a.closed = true
	a.end()
	a.mu.Unlock()
	err = errors.Join(err, a.helper.Close(goodbye))
	a.mu.Lock()
	for conn := range a.conns {
		_ = conn.Close() // the server has gone
	}
	a.mu.Unlock()
	a.tasks.Wait()
	return err
}

// Serve runs the server in a helper.
func Serve(t *helper.Task, free func(dir string) (uint64, error)) {
	state.OnBehalfOf(t.Owner)
	told, err := t.Accept()
	if err != nil {
		return
	}
	defer told.Close()
	var o order
	if err := json.NewDecoder(told).Decode(&o); err != nil {
		t.Log.Error("the process of the fleet's server can't read its instructions", "err", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan struct{})
	conns := make(chan net.Conn)
	go func() { // this is to end also while the server starts
		defer close(ended)
		for {
			conn, err := t.Accept()
			if err != nil {
				cancel()
				return
			}
			select {
			case conns <- conn:
			case <-ctx.Done():
				_ = conn.Close()
			}
		}
	}()
	tell := json.NewEncoder(told)
	started := make(chan struct{})
	go func() { // a start that hangs is left alone when this is to end
		select {
		case <-ended:
			select {
			case <-started:
			default:
				os.Exit(0)
			}
		case <-started:
		}
	}()
	b, err := Start(ctx, Config{Dir: o.Dir, Listen: o.Listen, Hosts: o.Hosts, Log: t.Log, Free: free, Patience: o.Patience, told: o.Address, behind: true})
	close(started)
	if err != nil {
		_ = tell.Encode(reportOf(err)) // nobody may hear it any more
		return
	}
	b.converse(ctx, tell, conns)
	if err := b.Close(); err != nil {
		t.Log.Warn("the fleet's server did not shut down cleanly", "err", err)
	}
}

// converse accepts connections from the program that started this one, and reports the server's state to it.
func (b *Broker) converse(ctx context.Context, tell *json.Encoder, conns <-chan net.Conn) {
	addr, _ := b.server.Addr().(*net.TCPAddr)
	r := report{Port: addr.Port}
	if tell.Encode(r) != nil {
		return
	}
	changes := time.NewTicker(look)
	defer changes.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case conn := <-conns:
			own, err := b.server.InProcessConn()
			if err != nil {
				_ = conn.Close()
				continue
			}
			go join(conn, own)
		case <-changes.C:
			now := report{Port: addr.Port}
			if what, since := b.Trouble(); what != nil {
				now = *reportOf(what)
				now.Port, now.Since = addr.Port, since
			}
			if cmp.Compare(now.What+now.Try+now.Err, r.What+r.Try+r.Err) != 0 && tell.Encode(now) != nil {
				return
			}
			r = now
		}
	}
}
