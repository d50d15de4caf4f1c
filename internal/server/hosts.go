package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// hostRules are the host names that a request may ask for. A foreign page can let
// its own name point to this machine and then read answers as its own (DNS
// rebinding). But it can't make a browser send another name, or an IP address.
type hostRules struct {
	anyAddress bool     // it listens on all addresses: each may be ours
	names      []string // names and addresses as hostName writes them; "*.name" stands for all below it
	// last was allowed before: most requests are for the same.
	last atomic.Pointer[string]
}

func newHostRules(listen, hostname string, allow []string) (*hostRules, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	name, address := hostName(host)
	rules := &hostRules{anyAddress: host == "" || address.IsUnspecified(), names: []string{"localhost", "*.localhost"}}
	if !rules.anyAddress {
		rules.names = append(rules.names, name)
	} else if name, _ := hostName(hostname); name != "" {
		rules.names = append(rules.names, name, name+".local") // the second is its name in multicast DNS
	}
	for _, entry := range allow {
		name, _ := hostName(entry)
		domain := strings.TrimPrefix(name, "*.")
		if domain == "" || strings.Contains(domain, "*") || strings.ContainsAny(entry, "/@? ") {
			return nil, &gpu.Advice{
				What: quote(entry) + " is no host name",
				Try:  "give --allow-host a name such as gpu.example.org, or *.example.org for all below it",
			}
		}
		rules.names = append(rules.names, name)
	}
	return rules, nil
}

// hostName returns the host of "host:port" in the form in which hosts are compared:
// in lower case, without brackets and without the dot of the root. If the host is
// an address, it returns that too.
func hostName(hostport string) (string, netip.Addr) {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(hostport, "[") && strings.HasSuffix(hostport, "]") {
		host = hostport[1 : len(hostport)-1]
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	address, err := netip.ParseAddr(host)
	if address = address.Unmap(); err == nil && strings.Contains(host, ":") { // IPv6 has several ways to write one
		host = address.String()
	}
	return host, address
}

// allowed reports whether a request for the host may be answered.
func (h *hostRules) allowed(hostport string) bool {
	if last := h.last.Load(); last != nil && *last == hostport {
		return true
	}
	allowed := h.check(hostport)
	if allowed {
		h.last.Store(&hostport)
	}
	return allowed
}

func (h *hostRules) check(hostport string) bool {
	host, address := hostName(hostport)
	return address.IsLoopback() || address.IsValid() && h.anyAddress || slices.ContainsFunc(h.names, func(name string) bool {
		domain, below := strings.CutPrefix(name, "*")
		return host == name || below && len(host) > len(domain) && strings.HasSuffix(host, domain)
	})
}

func foreignHost(host string) error {
	name, _ := hostName(host)
	if name == "" {
		return refuse(http.StatusMisdirectedRequest, "the request does not say which host it is for", "send a Host header")
	}
	return refuse(http.StatusMisdirectedRequest, "gpuwhy does not answer to the name "+quote(name),
		"if the name is yours, start gpuwhy with --allow-host and this name")
}
