package serve

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
)

const (
	// viewersOfAddress is how many viewers an address may have: a whole laboratory behind one.
	viewersOfAddress = 256
	// Connections that are not viewers may be as many as the viewers, and these more: of one address,
	// for pages that load while all its viewers are there, and in all.
	moreOfAddress, moreInAll = 64, 1000
)

// A crowd counts the connections and the viewers of each address, and keeps them within bounds.
type crowd struct {
	inAll     int // viewers; the hub refuses more
	ofAddress int // viewers; 0: viewersOfAddress, and no bound for the machine itself
	proxies   Proxies

	mu      sync.Mutex
	viewers map[netip.Prefix]int // by household
	refused uint64               // viewers

	open      map[net.Conn]*connection // that are not handed over
	ofOne     map[netip.Prefix]int     // of them, by household
	turn      uint64
	displaced uint64
}

// A connection waits for a request, or answers one.
type connection struct {
	household netip.Prefix
	rests     uint64 // since which turn it waits for a request; 0 while it answers one
}

func newCrowd(inAll, ofAddress int, proxies Proxies) *crowd {
	return &crowd{
		inAll: cmp.Or(inAll, 1000), ofAddress: ofAddress, proxies: proxies,
		viewers: map[netip.Prefix]int{}, open: map[net.Conn]*connection{}, ofOne: map[netip.Prefix]int{},
	}
}

// most is how many viewers a household may have. Unless somebody said a number, the machine itself has
// no bound of its own: it is a program of this machine, or a proxy that speaks for many.
func (c *crowd) most(household netip.Prefix) (viewers int, bounded bool) {
	if !household.IsValid() || c.ofAddress == 0 && household.Addr().IsLoopback() {
		return 0, false
	}
	return cmp.Or(c.ofAddress, viewersOfAddress), true
}

// enter counts a viewer until it leaves, once or more often, or says why there can't be one more of its address.
func (c *crowd) enter(r *http.Request) (leave func(), err error) {
	client := c.proxies.Client(r)
	household := Household(client)
	most, bounded := c.most(household)
	if !bounded {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.viewers[household] >= most {
		c.refused++
		return nil, tooManyViewers(client, most)
	}
	c.viewers[household]++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		less(c.viewers, household)
	}), nil
}

// entering is the ResponseWriter of a viewer that may get in.
type entering struct {
	http.ResponseWriter
	leave      func()
	handedOver bool
}

// Unwrap is for http.ResponseController.
func (e *entering) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Hijack implements [http.Hijacker]: the viewer leaves when its connection is closed.
func (e *entering) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(e.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	e.handedOver = true
	switch c := conn.(type) {
	case *net.TCPConn:
		return &viewerTCP{c, e.leave}, buffered, nil
	case *tls.Conn:
		return &viewerTLS{c, e.leave}, buffered, nil
	}
	return &viewerConn{conn, e.leave}, buffered, nil
}

// viewerConn is a viewer's connection.
type viewerConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *viewerConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// viewerTCP is a viewer's connection with all that TCP can do.
type viewerTCP struct {
	*net.TCPConn
	leave func()
}

// Close implements [net.Conn].
func (c *viewerTCP) Close() error {
	c.leave()
	return c.TCPConn.Close()
}

// viewerTLS is a viewer's encrypted connection.
type viewerTLS struct {
	*tls.Conn
	leave func()
}

// Close implements [net.Conn]. A WebSocket has its own goodbye. That of TLS would wait up to 5 s for a client that reads nothing.
func (c *viewerTLS) Close() error {
	c.leave()
	return c.NetConn().Close()
}

func tooManyViewers(client netip.Addr, most int) error {
	addresses := client.String()
	if household := Household(client); household.IsValid() && !household.IsSingleIP() {
		addresses += ", or from " + household.String() + ","
	}
	e := Refuse(http.StatusTooManyRequests, strconv.Itoa(most)+" viewers of "+addresses+" are connected, the most allowed for one address",
		"close unused pages, or start gpuwhy with a larger --max-viewers-per-address; if this is a proxy's address, "+
			"name it with --trusted-proxy and have it send its clients' addresses in X-Forwarded-For")
	e.header, e.value = "Retry-After", "5"
	return e
}

func less(counts map[netip.Prefix]int, household netip.Prefix) {
	if counts[household]--; counts[household] == 0 {
		delete(counts, household)
	}
}

// changed is for [http.Server.ConnState]. A connection that is one too many takes the place of the one
// that has waited longest for a request: of its address, or of all. If none waits, it is closed itself.
func (c *crowd) changed(conn net.Conn, state http.ConnState) {
	if leaves := c.note(conn, state); leaves != nil {
		_ = leaves.Close() // its goroutine then ends
	}
}

func (c *crowd) note(conn net.Conn, state http.ConnState) (leaves net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch known := c.open[conn]; {
	case state == http.StateNew:
		return c.add(conn)
	case known == nil: // it had to leave
	case state == http.StateActive:
		known.rests = 0
	case state == http.StateIdle:
		c.turn++
		known.rests = c.turn
	default: // closed, or handed over
		c.remove(conn)
	}
	return nil
}

func (c *crowd) add(conn net.Conn) (leaves net.Conn) {
	var household netip.Prefix
	if peer := addressOf(conn.RemoteAddr().String()); !c.proxies.contains(peer) { // a proxy speaks for many
		household = Household(peer)
	}
	c.turn++
	most, bounded := c.most(household)
	switch {
	case bounded && c.ofOne[household] >= most+moreOfAddress:
		leaves = c.longestResting(func(known *connection) bool { return known.household == household })
	case len(c.open) >= c.inAll+moreInAll:
		leaves = c.longestResting(func(*connection) bool { return true })
	default:
		c.open[conn] = &connection{household, c.turn}
		c.ofOne[household]++
		return nil
	}
	c.displaced++
	if leaves == nil {
		return conn
	}
	c.remove(leaves)
	c.open[conn] = &connection{household, c.turn}
	c.ofOne[household]++
	return leaves
}

func (c *crowd) remove(conn net.Conn) {
	less(c.ofOne, c.open[conn].household)
	delete(c.open, conn)
}

// longestResting is one of those; nil if all of them answer requests.
func (c *crowd) longestResting(among func(*connection) bool) (longest net.Conn) {
	since := c.turn + 1
	for conn, known := range c.open {
		if known.rests > 0 && known.rests < since && among(known) {
			longest, since = conn, known.rests
		}
	}
	return longest
}

// A Crowd counts the open connections, and those that were refused or closed.
type Crowd struct {
	Connections int    // that are no viewers
	Displaced   uint64 // connections that were closed to make room, since the program began
	Refused     uint64 // viewers of addresses that had too many
}

// Crowd returns it.
func (s *Server) Crowd() Crowd {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	return Crowd{len(s.crowd.open), s.crowd.displaced, s.crowd.refused}
}
