package serve

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/auth"
)

// hostRules are the host names that a request may ask for. A foreign page can let
// its own name point to this machine and then read answers as its own (DNS
// rebinding). But it can't make a browser send another name, or an IP address.
type hostRules struct {
	anyAddress bool     // it listens on all addresses: each may be ours
	names      []string // names and addresses as HostName writes them; "*.name" stands for all below it
	// last was allowed before: most requests are for the same.
	last atomic.Pointer[string]
}

// UnixSocket returns the path of an address to listen on that is a Unix socket, "unix:PATH".
func UnixSocket(listen string) (path string, is bool) { return strings.CutPrefix(listen, "unix:") }

func newHostRules(listen, hostname string, allow []string) (*hostRules, error) {
	rules := &hostRules{names: []string{"localhost", "*.localhost"}}
	if _, unix := UnixSocket(listen); !unix {
		if err := rules.addOwn(listen, hostname); err != nil {
			return nil, err
		}
	}
	names, err := ParseHosts(allow)
	if err != nil {
		return nil, err
	}
	rules.names = append(rules.names, names...)
	return rules, nil
}

// addOwn adds the names under which an address is reached that the server listens on.
func (h *hostRules) addOwn(listen, hostname string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return err
	}
	name, address := HostName(host)
	h.anyAddress = host == "" || address.IsUnspecified()
	if !h.anyAddress {
		h.names = append(h.names, name)
	} else if name, _ := HostName(hostname); name != "" {
		h.names = append(h.names, name, name+".local") // the second is its name in multicast DNS
	}
	return nil
}

// ParseHosts reads names of hosts, "*.name" for all below one, and addresses, with or without a port. They are returned as requests
// have them. Its error says which one is wrong.
func ParseHosts(list []string) ([]string, error) {
	names := make([]string, len(list))
	for i, entry := range list {
		host := entry
		if h, port, err := net.SplitHostPort(entry); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
			host = h
		} else if strings.HasPrefix(entry, "[") && strings.HasSuffix(entry, "]") {
			host = entry[1 : len(entry)-1]
		}
		domain, below := strings.CutPrefix(host, "*.")
		name, err := auth.HostName(domain)
		if err != nil {
			return nil, &gpu.Advice{
				What: Quote(entry) + " is not a valid host name: " + err.Error(),
				Try:  "give --allow-host a name such as gpu.example.org, or *.example.org for all its subdomains", Err: err,
			}
		}
		if names[i] = name; below {
			names[i] = "*." + name
		}
	}
	return names, nil
}

// HostName returns the host of "host:port" in the form in which hosts are compared:
// in lower case, without brackets and without the dot of the root. If the host is
// an address, it returns that too.
func HostName(hostport string) (string, netip.Addr) {
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
	host, address := HostName(hostport)
	return address.IsLoopback() || address.IsValid() && h.anyAddress || slices.ContainsFunc(h.names, func(name string) bool {
		domain, below := strings.CutPrefix(name, "*")
		return host == name || below && len(host) > len(domain) && strings.HasSuffix(host, domain)
	})
}

func foreignHost(host string) error {
	name, _ := HostName(host)
	if name == "" {
		return Refuse(http.StatusMisdirectedRequest, "the request names no host", "send a Host header")
	}
	return Refuse(http.StatusMisdirectedRequest, "gpuwhy does not answer to the name "+Quote(name),
		"if this name is yours, start gpuwhy with --allow-host and the name")
}
