package notify

import (
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// An address is a target's URL, taken apart. It is good if its whole query was read.
type address struct {
	*url.URL
	service        *service
	secure         string // "http" or "https" of a URL such as generic+https://; else empty
	user, password string
	parts          []string // of the path, without the slashes at its ends; at least one
	rest           url.Values
	urgency        string // of the message, see [letter]
	bad            bool   // it lacks something, or a parameter has a bad value
}

var errNoAddress = errors.New("is not a valid address")

// parse takes a URL apart. Its errors do not quote the URL.
func (s Secret) parse() (*address, error) {
	svc, ok := services[s.scheme()]
	if !ok {
		return nil, s.unknown()
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return nil, errNoAddress
	}
	_, secure, custom := strings.Cut(u.Scheme, "+")
	if custom && (!svc.custom || secure != "http" && secure != "https") {
		return nil, errNoAddress
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, ";", "%3b") // ntfy's actions have semicolons between them
	a := &address{URL: u, service: &svc, secure: secure, rest: u.Query(), user: u.User.Username()}
	a.parts = strings.Split(strings.Trim(u.Path, "/"), "/")
	a.password, _ = u.User.Password()
	a.ignore("title") // a message has its own
	return a, nil
}

// lookUp takes a parameter from the rest by one of its names, in lower case.
func (a *address) lookUp(names ...string) (value string, ok bool) {
	for _, key := range slices.Sorted(maps.Keys(a.rest)) {
		if slices.Contains(names, key) || !a.service.anyParameter && slices.Contains(names, strings.ToLower(key)) {
			value, ok = a.rest.Get(key), true
			delete(a.rest, key)
		}
	}
	return value, ok
}

// byUrgency is a value for the message's urgency, or of no known one.
func (a *address) byUrgency(unknown string, words map[string]string) string {
	if value, ok := words[a.urgency]; ok {
		return value
	}
	return unknown
}

func (a *address) ignore(names ...string) { _, _ = a.lookUp(names...) }

func (a *address) text(names ...string) string { return a.or("", names...) }

// or is a text with a value for where the URL has none.
func (a *address) or(fallback string, names ...string) string {
	if value, ok := a.lookUp(names...); ok {
		return value
	}
	return fallback
}

// need makes the URL bad unless a condition holds.
func (a *address) need(good bool) { a.bad = a.bad || !good }

// list is a text with commas between its items.
func (a *address) list(names ...string) []string {
	if value := a.text(names...); value != "" {
		return strings.Split(value, ",")
	}
	return nil
}

// oneOf is one of some texts, in any case; "urgent=Max" allows Max for urgent.
func (a *address) oneOf(all, fallback string, names ...string) string {
	value := a.or(fallback, names...)
	for allowed := range strings.SplitSeq(all, "|") {
		word, meaning, other := strings.Cut(allowed, "=")
		if strings.EqualFold(value, word) {
			if other {
				return meaning
			}
			return word
		}
	}
	a.bad = true
	return fallback
}

func (a *address) yes(fallback string, names ...string) bool {
	return a.oneOf("yes|y=yes|true=yes|1=yes|no|n=no|false=no|0=no", fallback, names...) == "yes"
}

// number is a whole number, which may begin with # or 0x in base 16.
func (a *address) number(base int, fallback string, names ...string) int {
	text := a.or(fallback, names...)
	if base == 16 {
		text = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(text), "0x"), "#")
	}
	n, err := strconv.ParseInt(text, base, 32)
	a.need(err == nil)
	return int(n)
}

// endpoint returns a URL of the target's own server.
func (a *address) endpoint(path string) string {
	u := url.URL{Scheme: a.or("https", "scheme"), Host: a.Host, Path: path}
	if a.yes("no", "disabletls") {
		u.Scheme = "http"
	}
	return u.String()
}

// fields are a JSON object.
type fields map[string]any

// set adds a text, a list or an object unless it is empty.
func (f fields) set(name string, value any) fields {
	if reflect.ValueOf(value).Len() > 0 {
		f[name] = value
	}
	return f
}

// add adds parameters of the URL under their own names.
func (f fields) add(a *address, names ...string) fields {
	for _, name := range names {
		f.set(name, a.text(name))
	}
	return f
}

// icon adds what a chat shows beside the message: a URL or an emoji.
func (f fields) icon(a *address) fields {
	icon := a.text("icon", "icon_emoji", "icon_url")
	if strings.HasPrefix(icon, "http://") || strings.HasPrefix(icon, "https://") {
		return f.set("icon_url", icon)
	}
	return f.set("icon_emoji", icon)
}
