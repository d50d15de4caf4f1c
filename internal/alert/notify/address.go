package notify

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// An address is a target's URL, taken apart.
type address struct {
	*url.URL
	service        *service
	secure         string // "http" or "https" of a URL such as generic+https://; else empty
	user, password string
	parts          []string          // of the path, without the slashes at its ends
	options        map[string]string // by their first name
	others         url.Values        // parameters that are no options, of a service that takes any
}

var errNoAddress = errors.New("is not an address")

// parse takes a URL apart. Its errors do not quote the URL.
func (s Secret) parse() (*address, error) {
	svc := services[s.scheme()]
	if svc == nil {
		return nil, errUnknownService
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return nil, errNoAddress
	}
	_, secure, custom := strings.Cut(u.Scheme, "+")
	if custom && (!svc.custom || secure != "http" && secure != "https") {
		return nil, errNoAddress
	}
	a := &address{URL: u, service: svc, secure: secure, others: url.Values{}}
	a.parts = strings.Split(strings.Trim(u.Path, "/"), "/")
	if u.User != nil {
		a.user = u.User.Username()
		a.password, _ = u.User.Password()
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, ";", "%3b") // actions of ntfy have semicolons between them
	return a, a.parseOptions()
}

// parseOptions reads the query by the service's list of options. An entry of
// the list is NAMES[=DEFAULT][:KIND]; a kind is bool, int, hex, json, or the
// allowed values: A|B|alias=B.
func (a *address) parseOptions() error {
	query := a.Query()
	a.options = map[string]string{}
	kinds, first := map[string]string{}, map[string]string{}
	for entry := range strings.FieldsSeq(a.service.options) {
		names, kind, _ := strings.Cut(entry, ":")
		names, value, _ := strings.Cut(names, "=")
		all := strings.Split(names, ",")
		for _, name := range all {
			first[name] = all[0]
		}
		kinds[all[0]], a.options[all[0]] = kind, value
	}
	for key, values := range query {
		name := key
		if !a.service.anyOption {
			name = strings.ToLower(key)
		}
		name, known := first[name]
		if !known {
			if !a.service.anyOption {
				return errNoAddress
			}
			if plain, escaped := strings.CutPrefix(key, "__"); escaped && first[plain] != "" {
				key = plain // a parameter of the receiver's own that is called like an option
			}
			a.others[key] = values
			continue
		}
		value, ok := optionValue(kinds[name], values[0])
		if !ok {
			return errNoAddress
		}
		a.options[name] = value
	}
	return nil
}

// optionValue checks a value and returns its usual spelling.
func optionValue(kind, value string) (string, bool) {
	switch kind {
	case "":
		return value, true
	case "bool":
		kind = "yes|no|y=yes|true=yes|1=yes|n=no|false=no|0=no"
	case "int":
		_, err := strconv.Atoi(value)
		return value, err == nil
	case "hex":
		digits := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(value), "0x"), "#")
		n, err := strconv.ParseUint(digits, 16, 32)
		return strconv.FormatUint(n, 10), err == nil
	case "json":
		return value, json.Valid([]byte(value))
	}
	for allowed := range strings.SplitSeq(kind, "|") {
		alias, name, aliased := strings.Cut(allowed, "=")
		if !aliased {
			name = alias
		}
		if strings.EqualFold(value, alias) {
			return name, true
		}
	}
	return "", false
}

func (a *address) is(option string) bool { return a.options[option] == "yes" }

func (a *address) number(option string) int {
	n, _ := strconv.Atoi(a.options[option]) //nolint:errcheck // the kinds int and hex are checked; empty is 0
	return n
}

// list returns the values of an option that have commas between them.
func (a *address) list(option string) []string {
	if a.options[option] == "" {
		return nil
	}
	return strings.Split(a.options[option], ",")
}

// part returns a part of the path; empty where it has fewer.
func (a *address) part(i int) string {
	if i >= len(a.parts) {
		return ""
	}
	return a.parts[i]
}

// at returns a URL of the target's own server.
func (a *address) at(path string) string {
	u := url.URL{Scheme: "https", Host: a.Host, Path: path}
	if scheme := a.options["scheme"]; scheme != "" {
		u.Scheme = scheme
	}
	if a.is("disabletls") {
		u.Scheme = "http"
	}
	return u.String()
}

// hostPort returns the server with its port.
func (a *address) hostPort(host, port string) string {
	if a.Hostname() != "" {
		host = a.Hostname()
	}
	if a.Port() != "" {
		port = a.Port()
	}
	return host + ":" + port
}

// fields are a JSON object.
type fields map[string]any

// with adds the options that are set, under their own names.
func (f fields) with(a *address, names ...string) fields {
	for _, name := range names {
		f.set(name, a.options[name])
	}
	return f
}

// set adds a text that is not empty.
func (f fields) set(name, value string) {
	if value != "" {
		f[name] = value
	}
}

// lists adds the options that are lists and set.
func (f fields) lists(a *address, names ...string) fields {
	for _, name := range names {
		if list := a.list(name); list != nil {
			f[name] = list
		}
	}
	return f
}

// icon adds the option "icon", which is a URL or an emoji.
func (f fields) icon(a *address) fields {
	name := "icon_emoji"
	if icon := a.options["icon"]; slices.ContainsFunc([]string{"http://", "https://"}, func(p string) bool { return strings.Contains(icon, p) }) {
		name = "icon_url"
	}
	f.set(name, a.options["icon"])
	return f
}
