package serve

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Proxies are the networks of proxies whose word is taken for who their clients are.
type Proxies []netip.Prefix

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
			return nil, &gpu.Advice{
				What: Quote(text) + " is not an address or network of proxies",
				Try:  "give --trusted-proxy an address such as 192.0.2.7, or a network such as 10.0.0.0/8",
				Err:  err,
			}
		}
		proxies = append(proxies, network.Masked())
	}
	return proxies, nil
}

func (p Proxies) contains(address netip.Addr) bool {
	for _, network := range p {
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
	for _, rest := range slices.Backward(lines) {
		for more := true; more; {
			if !p.contains(client) {
				return client
			}
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
			client = further
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
func (p Proxies) Trusts(r *http.Request) bool { return p.contains(addressOf(r.RemoteAddr)) }

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

// aboutClients are headers in which proxies say something of their clients.
var aboutClients = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// Direct reports whether a request was sent on this machine, over loopback or a Unix socket, and to a name of this machine alone, such as
// localhost, with no proxy that says so of itself between them.
func Direct(r *http.Request) bool {
	name, address := HostName(r.Host)
	local := address.IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
	_, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr)
	return local && (unix || addressOf(r.RemoteAddr).IsLoopback()) && !slices.ContainsFunc(aboutClients, func(header string) bool { return r.Header[header] != nil })
}
