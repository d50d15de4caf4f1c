package serve

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Proxies are those proxies whose word is taken for who their clients are, and whether these speak TLS.
type Proxies struct {
	Networks []netip.Prefix
	// Here decides about connections of this machine, if somebody has said as which users its proxies run: Networks then have no say about
	// these. decided is false for all other connections. nil: it decides about none.
	Here func(*http.Request) (proxy, decided bool)
}

// None reports whether there is no such proxy.
func (p Proxies) None() bool { return len(p.Networks) == 0 && p.Here == nil }

// ParseProxies reads networks, such as 10.0.0.0/8 or fd00::/8, and single addresses.
// Its error says which one is wrong.
func ParseProxies(list []string) (Proxies, error) {
	var proxies Proxies
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if address, single := netip.ParseAddr(text); single == nil && address.Zone() == "" {
			network, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err == nil && network.Addr().Is4In6() && network.Bits() >= 96 { // clients are compared as IPv4
			network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
		if err != nil || network.Bits() == 0 {
			return Proxies{}, &gpu.Advice{
				What: Quote(text) + " is not an address or network of proxies",
				Try:  "give --trusted-proxy an address such as 192.0.2.7, or a network such as 10.0.0.0/8",
				Err:  err,
			}
		}
		proxies.Networks = append(proxies.Networks, network.Masked())
	}
	return proxies, nil
}

func (p Proxies) contains(address netip.Addr) bool {
	for _, network := range p.Networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// Client is the address that a request comes from; the zero address where that is none, as of a pipe.
//
// If a trusted proxy sent it, that is the rightmost entry of X-Forwarded-For that is not itself such a
// proxy: what stands left of it is what the client says. An entry that can't be read ends the search, and
// the proxy that wrote it counts as the client. Forwarded (RFC 7239) is not read: a proxy that writes one
// of the two headers passes on what the client has put into the other.
func (p Proxies) Client(r *http.Request) netip.Addr {
	client := addressOf(r.RemoteAddr)
	lines := r.Header["X-Forwarded-For"]
	if len(lines) == 0 || !p.Trusts(r) {
		return client
	}
	for _, rest := range slices.Backward(lines) {
		for more := true; more; {
			var entry string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, entry = rest[:comma], rest[comma+1:]
			} else {
				entry, more = rest, false
			}
			further := addressOf(strings.TrimSpace(entry))
			if !further.IsValid() {
				return client
			}
			if client = further; !p.contains(client) {
				return client
			}
		}
	}
	return client
}

// addressOf reads an address, with a port or without, in the form in which addresses are compared.
func addressOf(text string) netip.Addr {
	bare, bracketed := strings.CutPrefix(text, "[")
	if bracketed {
		bare, bracketed = strings.CutSuffix(bare, "]")
	}
	if !bracketed {
		bare = text
	}
	address, err := netip.ParseAddr(bare)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}
		}
		address = withPort.Addr()
	}
	return address.Unmap().WithZone("")
}

// Household is what counts as one client: an address of IPv4, and of IPv6 the network of 64 bits that
// one household, or one machine, has all to itself.
func Household(address netip.Addr) netip.Prefix {
	bits := 32
	if address.Is6() {
		bits = 64
	}
	household, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // it is no address
	}
	return household
}

// Trusts reports whether a trusted proxy sent a request.
func (p Proxies) Trusts(r *http.Request) bool {
	if p.Here != nil {
		if proxy, decided := p.Here(r); decided {
			return proxy
		}
	}
	return p.contains(addressOf(r.RemoteAddr))
}

// Secure reports whether nobody between the client and this machine can read a request: its connection is TLS, or it comes from a
// trusted proxy which says so in X-Forwarded-Proto. If several proxies have written that header, each of them must have said https.
func (p Proxies) Secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	said := r.Header["X-Forwarded-Proto"]
	if len(said) == 0 || !p.Trusts(r) {
		return false
	}
	for _, line := range said {
		for scheme := range strings.SplitSeq(line, ",") {
			if !strings.EqualFold(strings.TrimSpace(scheme), "https") {
				return false
			}
		}
	}
	return true
}

// proxyHeaders are the headers in which proxies say something of their clients, as Go writes them, besides those that begin with
// forwardedPrefix. Browsers send none of them.
var proxyHeaders = map[string]bool{
	"Forwarded": true, "Via": true,
	"X-Real-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "Client-Ip": true, "True-Client-Ip": true,
	"Cf-Connecting-Ip": true, "Cf-Connecting-Ipv6": true, "Fastly-Client-Ip": true, "Fly-Client-Ip": true, "X-Azure-Clientip": true,
	"X-Appengine-User-Ip": true, "X-Envoy-External-Address": true, "X-Original-Forwarded-For": true, "X-Original-Host": true, "X-Original-Url": true,
	"X-Url-Scheme": true, "Front-End-Https": true,
}

// forwardedPrefix begins X-Forwarded-For, -Host, -Proto, -Port, -Prefix, -Server and others.
const forwardedPrefix = "X-Forwarded-"

// PassedOn reports whether a proxy says that it has sent a request on behalf of somebody else.
func PassedOn(r *http.Request) bool {
	for name := range r.Header {
		if proxyHeaders[name] || strings.HasPrefix(name, forwardedPrefix) {
			return true
		}
	}
	return false
}

// Direct reports whether a request was sent on this machine, over loopback or a Unix socket, and to a name of this machine alone, such as
// localhost, with no proxy that says so of itself between them, or that runs as the user of one.
func (p Proxies) Direct(r *http.Request) bool {
	name, address := HostName(r.Host)
	local := address.IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
	_, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	if !local || !unix && !addressOf(r.RemoteAddr).IsLoopback() || PassedOn(r) {
		return false
	}
	if p.Here == nil {
		return true
	}
	proxy, _ := p.Here(r)
	return !proxy
}
