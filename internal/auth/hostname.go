package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// hostName matches a name in ASCII as browsers send it. An underscore is in names of machines that nobody has registered.
var hostName = regexp.MustCompile(`^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$`)

// numeral matches the end of an address in a form in which no browser sends it, such as 0x7f.1.
var numeral = regexp.MustCompile(`^0x[0-9a-f]*$`)

// longestHost is how long a name may be, in bytes.
const longestHost = 253

// HostName returns a host name or address in the form in which browsers send it: in lower case, without the root's dot, with
// non-ASCII letters in punycode ("xn--…"), and an address as [netip.Addr] writes it. Its error says what is wrong.
func HostName(text string) (string, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().String(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	switch {
	case name == "":
		return "", errors.New("it is empty")
	case strings.ContainsAny(name, "\"'`“”‘’„"):
		return "", errors.New("leave the quotes out")
	case strings.ContainsAny(name, " ,;|\t"):
		return "", errors.New("give each name separately, or separate several with commas")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", errors.New("it is not a name that a browser can request")
		}
		name = ascii
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; strings.Trim(last, "0123456789") == "" || numeral.MatchString(last) {
		return "", errors.New("a name that ends in a number is an address: write it as 192.0.2.7")
	}
	if len(name) > longestHost || !hostName.MatchString(name) {
		return "", errors.New("a name may only have letters, digits, dashes and dots")
	}
	return name, nil
}

// asciiOrigin writes the host of an origin, which may have a * in it, as browsers send it.
func asciiOrigin(origin string) (string, error) {
	if !strings.ContainsFunc(origin, func(r rune) bool { return r >= 0x80 }) {
		return origin, nil
	}
	scheme, host, found := strings.Cut(origin, "://")
	host, port, hasPort := strings.Cut(host, ":")
	below := strings.HasPrefix(host, "*.")
	name, err := HostName(strings.TrimPrefix(host, "*."))
	if err != nil || !found {
		return "", fmt.Errorf("origin %q: no browser can have this origin", origin)
	}
	if below {
		name = "*." + name
	}
	if hasPort {
		name += ":" + port
	}
	return scheme + "://" + name, nil
}
