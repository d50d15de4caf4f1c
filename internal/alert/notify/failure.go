package notify

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A failure is why a target did not take a message, in words for people:
// nothing of the target's address is in it.
type failure struct {
	text string
	// permanent says that trying again won't help until somebody changes
	// something.
	permanent bool
}

func (f *failure) Error() string { return f.text }

// statusText finds the HTTP status in an error's text: shoutrrr hands on text
// alone. A port, which follows a colon, is none; ntfy adds two digits of its own.
var statusText = regexp.MustCompile(`(?:^|[\s("])([45]\d\d)(?:\d\d)?(?:$|[\s):,.;"-])`)

const refused = "nobody listens there: check the address, and that its server runs"

// networkTexts are parts of errors of the network, and what they are to people.
var networkTexts = []struct{ part, text string }{
	{errRedirect.Error(), "its server sends us elsewhere: give the address that it leads to; if that is a login page, let gpuwhy past it"},
	{"no such host", "its server's name is not known: check the address and the name service"},
	{"server misbehaving", "its server's name can't be looked up: check the name service"},
	{"connection was refused", refused},
	{"connection refused", refused},
	{"certificate", "its certificate is not trusted: give the server a valid one, or add its authority to this machine"},
	{"tls:", "no secure connection: check whether its server speaks TLS there"},
	{"HTTP response to HTTPS client", "its server does not speak TLS: say so in the address (disabletls=yes)"},
	{"network is unreachable", "there is no way to its server: check the network"},
	{"no route to host", "there is no way to its server: check the network and the firewall"},
	{"deadline exceeded", "its server did not answer in time"},
	{"timeout", "its server did not answer in time"},
	{"reset by peer", "its server closed the connection"},
	{"was reset", "its server closed the connection"},
	{"EOF", "its server closed the connection"},
	{"broken pipe", "its server closed the connection"},
}

// statusTexts are HTTP statuses that a target may answer with.
var statusTexts = map[string]string{
	"400": "it does not accept the message",
	"401": "it refuses us: its key or password is wrong, or not valid any more",
	"403": "it refuses us: its key or password is wrong, or may not write there",
	"404": "it is not there: the address is wrong, or its hook was taken away",
	"410": "it is not there any more: its hook was taken away",
	"413": "the message is too long for it: give a shorter template",
	"429": "it has had too many messages",
}

var lasting = []string{"400", "401", "403", "404", "410", "413"}

// telegramTexts begin what Telegram says instead of a status.
var telegramTexts = map[string]string{"Bad Request": "400", "Unauthorized": "401", "Forbidden": "403", "Not Found": "404", "Too Many Requests": "429"}

// tell makes a failure of what shoutrrr says, which quotes addresses.
func tell(s Secret, err error) error {
	raw := err.Error()
	f := &failure{text: "it failed"}
	if text, ok := network(raw); ok {
		f.text = text
		return f.with(s, "", raw)
	}
	status := ""
	if m := statusText.FindStringSubmatch(raw); m != nil {
		status = m[1]
	}
	for begin, code := range telegramTexts {
		if s.scheme() == "telegram" && strings.HasPrefix(raw, begin) {
			status = code
		}
	}
	if reply, ok := errors.AsType[*textproto.Error](err); ok { // of a mail server
		f.permanent = reply.Code >= 500
		f.text = "its mail server refuses"
		return f.with(s, status, raw)
	}
	f.permanent = slices.Contains(lasting, status)
	switch {
	case statusTexts[status] != "":
		f.text = statusTexts[status]
	case status >= "500":
		f.text = "its server has a problem"
	}
	return f.with(s, status, raw)
}

func network(raw string) (string, bool) {
	for _, n := range networkTexts {
		if strings.Contains(raw, n.part) {
			return n.text, true
		}
	}
	return "", false
}

// with adds what was said, without what may be secret.
func (f *failure) with(s Secret, status, raw string) error {
	said := scrub(s, raw)
	if said == "" {
		said = status
	}
	if said != "" {
		f.text += " (" + said + ")"
	}
	return f
}

const longestSaid = 160 // characters

var (
	addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s"'<>]*`)
	words     = regexp.MustCompile(`[A-Za-z0-9]+`)
)

// scrub takes from what a service says all addresses and whatever stands in the
// target's own. Where a piece of it is left, nothing is.
func scrub(s Secret, text string) string {
	hidden := s.pieces()
	text = addresses.ReplaceAllString(text, "(address)")
	for _, piece := range hidden {
		text = hide(text, piece)
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if leaks(text, hidden) {
		return ""
	}
	return cut(text, longestSaid)
}

// hide takes a piece out of text: a short one only where it is no part of a word,
// as "hook" is of "webhook".
func hide(text, piece string) string {
	if len(piece) >= shortest || !words.MatchString(piece) {
		return strings.ReplaceAll(text, piece, "…")
	}
	whole, err := regexp.Compile(`(^|[^A-Za-z0-9])` + regexp.QuoteMeta(piece) + `($|[^A-Za-z0-9])`)
	if err != nil {
		return strings.ReplaceAll(text, piece, "…")
	}
	return whole.ReplaceAllString(text, "$1…$2")
}

// shortest is how long a word is that is hidden wherever it stands.
const shortest = 6

// pieces are the parts of a URL in all the forms in which they may be quoted,
// the longest first.
func (s Secret) pieces() []string {
	set := map[string]bool{string(s): true}
	add := func(part string) {
		quoted, _ := json.Marshal(part) //nolint:errchkjson // a string
		decoded, err := url.QueryUnescape(part)
		if err != nil {
			decoded = part
		}
		for _, form := range []string{
			part, decoded, url.QueryEscape(part), url.PathEscape(part), url.QueryEscape(decoded),
			strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(part)), strings.ToLower(part),
		} {
			set[form] = true
		}
	}
	u, err := url.Parse(string(s))
	if err != nil {
		_, rest, _ := strings.Cut(string(s), ":")
		u = &url.URL{Path: rest}
	}
	add(u.Host)
	add(u.Hostname())
	add(u.Path)
	add(u.RawQuery)
	add(u.Fragment)
	if u.User != nil {
		password, _ := u.User.Password()
		add(u.User.String())
		add(u.User.Username() + ":" + password)
		add(u.User.Username())
		add(password)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		add(part)
	}
	for key, values := range u.Query() {
		for _, v := range values {
			if strings.HasPrefix(key, "@") || strings.HasPrefix(key, "$") || len(v) > 5 {
				add(v)
			}
		}
	}
	var out []string
	scheme := s.scheme()
	for piece := range set {
		out = append(out, piece)
		for _, word := range words.FindAllString(piece, -1) {
			if len(word) >= shortest && word != scheme {
				out = append(out, word)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(p string) bool { return len(p) < 3 })
}

// leaks reports whether eight characters in a row of a piece stand in text.
func leaks(text string, pieces []string) bool {
	const window = 8
	lower := strings.ToLower(text)
	for _, piece := range pieces {
		piece = strings.ToLower(piece)
		for i := 0; i+window <= len(piece); i++ {
			if strings.Contains(lower, piece[i:i+window]) {
				return true
			}
		}
	}
	return false
}
