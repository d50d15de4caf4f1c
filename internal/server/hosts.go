package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// hostRules are the host names that a request may ask for. A foreign page can let
// its own name point to this machine and then read answers as its own (DNS
// rebinding). But it can't make a browser send another name, or an IP address.
type hostRules struct {
	anyAddress bool            // it listens on all addresses: each may be ours
	names      map[string]bool // names and addresses, as hostName writes them
	suffixes   []string        // ".example.org"
}

func newHostRules(listen, hostname string, allow []string) (*hostRules, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, &gpu.Advice{
			What: "the address " + quote(listen) + " can't be listened on",
			Try:  "give --listen a host and a port, such as 127.0.0.1:8003",
			Err:  err,
		}
	}
	rules := &hostRules{names: map[string]bool{"localhost": true}, suffixes: []string{".localhost"}}
	name, address := hostName(host)
	if rules.anyAddress = host == "" || address.IsUnspecified(); !rules.anyAddress {
		rules.names[name] = true
	} else if name, _ := hostName(hostname); name != "" {
		rules.names[name] = true
		rules.names[name+".local"] = true // its name in multicast DNS
	}
	for _, entry := range allow {
		name, _ := hostName(entry)
		suffix, below := strings.CutPrefix(name, "*.")
		switch {
		case suffix == "" || strings.Contains(suffix, "*") || strings.ContainsAny(entry, "/@? "):
			return nil, &gpu.Advice{
				What: quote(entry) + " is no host name",
				Try:  "give --allow-host a name such as gpu.example.org, or *.example.org for all below it",
			}
		case below:
			rules.suffixes = append(rules.suffixes, "."+suffix)
		default:
			rules.names[name] = true
		}
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
	host, address := hostName(hostport)
	if address.IsLoopback() || address.IsValid() && h.anyAddress || h.names[host] {
		return true
	}
	return slices.ContainsFunc(h.suffixes, func(suffix string) bool {
		return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
	})
}

// checkHost refuses requests for names that are not this server's.
func (s *Server) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hosts.allowed(r.Host) {
			s.fail(w, r, foreignHost(r.Host))
			return
		}
		next.ServeHTTP(w, r)
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
