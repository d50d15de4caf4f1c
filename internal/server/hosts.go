package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// hostRules say which names a request may ask for. A page of the Internet can
// let its own name point to this machine and then read answers as its own (DNS
// rebinding); it can't make a browser send another name, or an IP address.
type hostRules struct {
	anyAddress bool // listening on all of them: every one may be ours
	addresses  map[netip.Addr]bool
	names      map[string]bool
	suffixes   []string // ".example.org"
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
	rules := &hostRules{
		addresses: map[netip.Addr]bool{},
		names:     map[string]bool{"localhost": true},
		suffixes:  []string{".localhost"},
	}
	switch address, err := netip.ParseAddr(host); {
	case host == "" || err == nil && address.IsUnspecified():
		rules.anyAddress = true
		if name := hostName(hostname); name != "" {
			rules.names[name] = true
			rules.names[name+".local"] = true // its name in multicast DNS
		}
	case err == nil:
		rules.addresses[address.Unmap()] = true
	default:
		rules.names[hostName(host)] = true
	}
	for _, entry := range allow {
		if err := rules.allow(entry); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func (h *hostRules) allow(entry string) error {
	name, below := strings.CutPrefix(hostName(entry), "*.")
	address, err := netip.ParseAddr(name)
	switch {
	case name == "" || strings.Contains(name, "*") || strings.ContainsAny(entry, "/@? "):
		return &gpu.Advice{
			What: quote(entry) + " is no host name",
			Try:  "give --allow-host a name such as gpu.example.org, or *.example.org for all below it",
		}
	case err == nil:
		h.addresses[address.Unmap()] = true
	case below:
		h.suffixes = append(h.suffixes, "."+name)
	default:
		h.names[name] = true
	}
	return nil
}

// hostName returns the host of "host:port" as it is compared: in lower case,
// without brackets and without the dot of the root.
func hostName(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	} else if strings.HasPrefix(hostport, "[") && strings.HasSuffix(hostport, "]") {
		host = hostport[1 : len(hostport)-1]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// allowed reports whether a request for the host may be answered.
func (h *hostRules) allowed(hostport string) bool {
	host := hostName(hostport)
	if h.names[host] {
		return true
	}
	if address, err := netip.ParseAddr(host); err == nil {
		address = address.Unmap()
		return h.anyAddress || address.IsLoopback() || h.addresses[address]
	}
	for _, suffix := range h.suffixes {
		if len(host) > len(suffix) && strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
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
	name := hostName(host)
	if name == "" {
		return refuse(http.StatusMisdirectedRequest, "the request does not say which host it is for", "send a Host header")
	}
	return refuse(http.StatusMisdirectedRequest, "gpuwhy does not answer to the name "+quote(name),
		"if the name is yours, start gpuwhy with --allow-host and this name")
}
