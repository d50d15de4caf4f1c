package serve

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestProxiesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "192.0.2.7": "192.0.2.7/32", "fd00::/8": "fd00::/8", "2001:db8::1": "2001:db8::1/128", "::ffff:10.0.0.0/104": "10.0.0.0/8",
		"": "", "proxy": "", "0.0.0.0/0": "", "10.0.0.0/33": "", "10.0.0.0/8 ": "", "fe80::1%eth0": "", "10.0.0": "",
	} {
		got, err := ParseProxies([]string{text})
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is taken for %v", text, got)
		case want != "" && (err != nil || got.Networks[0].String() != want):
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestWhoTheClientIs(t *testing.T) {
	proxies, err := ParseProxies([]string{"10.0.0.0/8", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"192.0.2.1:99", nil, "192.0.2.1"},
		{"192.0.2.1:99", []string{"198.51.100.7"}, "192.0.2.1"}, // no proxy of ours
		{"10.0.0.1:99", nil, "10.0.0.1"},
		{"10.0.0.1:99", []string{"198.51.100.7"}, "198.51.100.7"},
		{"[::ffff:10.0.0.1]:99", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.1:99", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"}, // the client says the rest
		{"10.0.0.1:99", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.1:99", []string{"203.0.113.9", "198.51.100.7,fd00::2 , 10.9.9.9"}, "198.51.100.7"},
		{"10.0.0.1:99", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"10.0.0.1:99", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		{"[fd00::1]:99", []string{"[2001:db8::5]:4711"}, "2001:db8::5"},
		{"10.0.0.1:99", []string{"198.51.100.7, unknown"}, "10.0.0.1"},
		{"10.0.0.1:99", []string{"198.51.100.7, nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:99", []string{"198.51.100.7,"}, "10.0.0.1"},
		{"10.0.0.1:99", []string{""}, "10.0.0.1"},
		{"pipe", []string{"198.51.100.7"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded, "Forwarded": {"for=203.0.113.200"}}}
		if got := proxies.Client(r).String(); got != tt.want {
			t.Errorf("%s with %q: %s, want %s", tt.peer, tt.forwarded, got, tt.want)
		}
	}
	for _, tt := range []struct {
		here      bool // a user of a proxy has connected
		peer      string
		forwarded string
		want      string
	}{
		{true, "@", "203.0.113.9, 198.51.100.7", "198.51.100.7"}, // a Unix socket has no address
		{true, "@", "198.51.100.7, 10.0.0.2", "198.51.100.7"},
		{true, "127.0.0.1:99", "198.51.100.7, 127.0.0.1", "127.0.0.1"}, // anybody on this machine may have told the proxy so
		{true, "@", "nonsense", "invalid IP"},
		{false, "10.0.0.1:99", "198.51.100.7", "10.0.0.1"},
	} {
		mixed := Proxies{proxies.Networks, func(*http.Request) (bool, bool) { return tt.here, true }}
		if got := mixed.Client(&http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": {tt.forwarded}}}).String(); got != tt.want {
			t.Errorf("%s of this machine, a proxy %v, with %q: %s, want %s", tt.peer, tt.here, tt.forwarded, got, tt.want)
		}
	}
}

// Each header by which proxies say something of their clients tells a request that was passed on from one of a person at the machine.
func TestPassedOn(t *testing.T) {
	request := func(header string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		if r.RemoteAddr = "127.0.0.1:99"; header != "" {
			r.Header.Set(header, "")
		}
		return r
	}
	names := slices.Collect(maps.Keys(proxyHeaders))
	for _, name := range names {
		if name != http.CanonicalHeaderKey(name) {
			t.Errorf("no request has %s: Go writes it %s", name, http.CanonicalHeaderKey(name))
		}
	}
	for _, name := range append(names, "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server",
		"Forwarded", "Via", "X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP") {
		if r := request(name); !PassedOn(r) || (Proxies{}).Direct(r) {
			t.Errorf("%s does not tell that a proxy has sent it", name)
		}
	}
	for _, name := range []string{"", "Accept", "Cookie", "Origin", "X-Requested-With", "Sec-Fetch-Site"} {
		if r := request(name); PassedOn(r) || !(Proxies{}).Direct(r) {
			t.Errorf("with %q, a person at the machine is taken for a proxy", name)
		}
	}
	if (Proxies{Here: func(*http.Request) (bool, bool) { return true, true }}).Direct(request("")) {
		t.Error("a proxy that adds no header is taken for a person, although its user is named")
	}
}

func TestHouseholds(t *testing.T) {
	same := func(a, b string) bool {
		return Household(netip.MustParseAddr(a)) == Household(netip.MustParseAddr(b))
	}
	if !same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9") || same("2001:db8:1:2::1", "2001:db8:1:3::1") {
		t.Error("of IPv6 the first 64 bits are to count")
	}
	if !same("192.0.2.1", "192.0.2.1") || same("192.0.2.1", "192.0.2.2") {
		t.Error("of IPv4 the whole address is to count")
	}
	if got := Household(netip.Addr{}); got.IsValid() {
		t.Errorf("no address is of %v", got)
	}
}

// No household ever has more viewers than it may, and nothing is left of those who are gone.
func TestViewersAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		c := newCrowd(0, most, Proxies{})
		peers := []string{"192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1", "127.0.0.1:1"}
		plans := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(-1, len(peers)-1), 1, 12), 1, 6).Draw(t, "who comes, or -1: the last leaves")
		var all sync.WaitGroup
		for _, plan := range plans {
			all.Go(func() {
				var leave []func()
				for _, who := range plan {
					if who < 0 {
						if n := len(leave); n > 0 {
							leave[n-1]()
							leave = leave[:n-1]
						}
					} else if done, err := c.enter(&http.Request{RemoteAddr: peers[who]}); err == nil {
						leave = append(leave, done)
					}
					c.mu.Lock()
					for household, n := range c.viewers {
						if n < 1 || n > most {
							t.Errorf("%v has %d viewers of %d", household, n, most)
						}
					}
					c.mu.Unlock()
				}
				for _, done := range leave {
					done()
				}
			})
		}
		all.Wait()
		if len(c.viewers) != 0 {
			t.Fatalf("after all have gone there are %v", c.viewers)
		}
		for range most {
			if _, err := c.enter(&http.Request{RemoteAddr: peers[0]}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.enter(&http.Request{RemoteAddr: peers[0]}); err == nil {
			t.Fatalf("more than %d got in", most)
		}
	})
}

// A fakeConn knows where it is from, and whether it was closed.
type fakeConn struct {
	net.Conn
	client string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.client + ":1"))
}
func (c *fakeConn) Close() error { c.closed = true; return nil }

// Whatever connections do, there are never too many, and those that answer a request are left alone.
func TestConnectionsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		proxies, err := ParseProxies([]string{"10.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		c := newCrowd(0, 1, proxies)
		c.inAll = 100 - moreInAll
		froms := []string{"192.0.2.1", "192.0.2.2", "10.0.0.1"}
		var conns []*fakeConn
		busy := map[*fakeConn]bool{}
		come := func(client string) {
			conn := &fakeConn{client: client}
			c.changed(conn, http.StateNew)
			conns = append(conns, conn)
		}
		for range 90 { // most of them, so that the bounds matter
			come(rapid.SampledFrom(froms).Draw(t, "from"))
		}
		t.Repeat(map[string]func(*rapid.T){
			"comes": func(t *rapid.T) { come(rapid.SampledFrom(froms).Draw(t, "from")) },
			"changes": func(t *rapid.T) {
				conn := rapid.SampledFrom(conns).Draw(t, "which")
				state := rapid.SampledFrom([]http.ConnState{http.StateActive, http.StateIdle, http.StateClosed, http.StateHijacked}).Draw(t, "state")
				busy[conn] = state == http.StateActive && !conn.closed
				c.changed(conn, state)
			},
			"": func(t *rapid.T) {
				if len(c.open) > 100 {
					t.Fatalf("%d connections", len(c.open))
				}
				counts := map[netip.Prefix]int{}
				for conn, known := range c.open {
					counts[known.household]++
					if conn.(*fakeConn).closed {
						t.Fatal("a connection that was closed counts")
					}
				}
				for household, n := range counts {
					if household.IsValid() && n > 1+moreOfAddress || n != c.ofOne[household] {
						t.Fatalf("%v has %d connections, and %d are counted", household, n, c.ofOne[household])
					}
				}
				for conn, is := range busy {
					if is && conn.closed {
						t.Fatal("a connection that answers a request was closed")
					}
				}
			},
		})
		for _, conn := range conns {
			c.changed(conn, http.StateClosed)
		}
		if len(c.open) != 0 || len(c.ofOne) != 0 {
			t.Fatalf("after all are gone there are %v, %v", c.open, c.ofOne)
		}
	})
}

// A newcomer takes the place of the connection that has waited longest.
func TestTheLongestRestingMakesRoom(t *testing.T) {
	c := newCrowd(0, 1, Proxies{})
	conns := make([]*fakeConn, 1+moreOfAddress)
	for i := range conns {
		conns[i] = &fakeConn{client: "192.0.2.1"}
		c.changed(conns[i], http.StateNew)
	}
	c.changed(conns[0], http.StateActive)
	c.changed(conns[0], http.StateIdle) // now the last of all
	c.changed(conns[1], http.StateActive)
	for want, last := 2, len(conns); want < last; want++ {
		c.changed(&fakeConn{client: "192.0.2.1"}, http.StateNew)
		if !conns[want].closed {
			t.Fatalf("connection %d is still there", want)
		}
	}
	c.changed(&fakeConn{client: "192.0.2.1"}, http.StateNew)
	if !conns[0].closed || conns[1].closed {
		t.Error("the next that has waited longest was to go, and not who answers a request")
	}
	if c.displaced != uint64(len(conns)-1) {
		t.Errorf("%d are counted", c.displaced)
	}
	other := &fakeConn{client: "192.0.2.2"}
	if c.changed(other, http.StateNew); other.closed {
		t.Error("another address suffers")
	}
}
