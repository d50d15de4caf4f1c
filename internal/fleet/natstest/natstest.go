// Package natstest starts NATS servers for tests, also in virtual time.
package natstest

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// Start starts a server with timeouts of minutes for clients. It ends with the test, unless [Stop] ends it before.
func Start(tb testing.TB, o *server.Options) *server.Server {
	tb.Helper()
	o.NoLog, o.NoSigs, o.AuthTimeout, o.WriteDeadline = true, true, testkit.Patience.Seconds(), testkit.Patience
	s, err := server.NewServer(o)
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() { Stop(s) })
	if !s.ReadyForConnections(testkit.Patience) {
		tb.Fatal("the NATS server does not start")
	}
	return s
}

// Stop stops a server, and returns once it has ended.
func Stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// Virtual runs a test in virtual time as [synctest.Test] does, with servers and clients in this program, so that nothing is late on a busy or
// stopped machine. No other test may run at the same time.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	// The files of all servers share a goroutine, which must not be in virtual time.
	ats.Register()
	defer ats.Unregister()
	// NATS's client keeps timers for reuse, and timers of virtual time must not be reused. They are gone after two collections.
	defer func() { runtime.GC(); runtime.GC() }()
	synctest.Test(t, test)
}

// A Server is a server without a port: a [nats.InProcessConnProvider]. It can be stopped and started again.
type Server struct {
	tb  testing.TB
	dir string

	mu     sync.Mutex
	server *server.Server // nil while it is stopped
}

// InProcess starts a server that stores its messages in a folder.
func InProcess(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir()}
	s.Start()
	return s
}

// Start restarts the server after Stop, with its stored messages.
func (s *Server) Start() {
	s.tb.Helper()
	started := Start(s.tb, &server.Options{DontListen: true, JetStream: true, StoreDir: s.dir, JetStreamMaxStore: 64 << 30})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = started
}

// Stop stops the server and ends all connections.
func (s *Server) Stop() {
	s.mu.Lock()
	stopped := s.server
	s.server = nil
	s.mu.Unlock()
	Stop(stopped)
}

// InProcessConn connects to the server.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil, errors.New("the server is stopped")
	}
	return s.server.InProcessConn()
}
