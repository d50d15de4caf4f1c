package notify

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/neterr"
)

// A failure says why a target did not accept a message, in words for people.
type failure struct {
	text      string        // it has nothing of the target's URL
	said      string        // what the service or the network says, which may contain the URL; empty once it is part of the text
	permanent bool          // retrying fails until somebody changes something
	after     time.Duration // how long the server asks to wait; 0 if it does not say
	unsure    bool          // the target may have accepted the message, so it is not resent on its own soon
}

func (f *failure) Error() string { return f.text }

// refusals are what the HTTP statuses of permanent failures mean to people.
var refusals = map[int]string{
	400: "it rejected the message",
	401: "it denied access: the key or password is wrong or no longer valid",
	403: "it denied access: the key or password is wrong, or may not post there",
	404: "not found: the address is wrong, or its webhook was removed",
	410: "it is gone: its webhook was removed",
	413: "the message is too long for it: use a shorter template",
}

// refused makes a failure from an answer that says that a message was not accepted.
func refused(status int, r reply, after time.Duration) *failure {
	text, permanent := refusals[status]
	switch {
	case permanent:
	case status < 300:
		text = "it did not accept the message"
	case status < 400:
		text = "its server redirects: use the address it redirects to; if that is a login page, let gpuwhy past it"
	case status == 429:
		text = "it has received too many messages"
	case status < 500:
		text = "sending failed"
	default:
		text = "its server reported an error"
	}
	// Behind a proxy that timed out, the service may have accepted it.
	const timedOut = 524 // of Cloudflare
	return &failure{text, r.says(status), permanent, after, status == http.StatusGatewayTimeout || status == timedOut}
}

// says is the service's own text about a message that it does not accept.
func (r reply) says(status int) string {
	inner, _ := r.json["error"].(map[string]any)
	for _, said := range []map[string]any{r.json, inner} {
		for _, name := range []string{"description", "errorDescription", "message", "msg", "errmsg", "error"} {
			if text, ok := said[name].(string); ok && text != "" {
				return text
			}
		}
	}
	if r.json == nil && r.text != "" && !strings.Contains(r.text, "<") {
		return r.text
	}
	return http.StatusText(status)
}

// unreached says in words for people what a network error means.
func unreached(err error) string {
	is := func(some ...error) bool {
		return slices.ContainsFunc(some, func(target error) bool { return errors.Is(err, target) })
	}
	dns, badName := errors.AsType[*net.DNSError](err)
	_, badCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	network, ok := errors.AsType[net.Error](err)
	switch {
	case badName && dns.IsNotFound:
		return "its server's name is unknown: check the address and DNS"
	case badName:
		return "its server's name can't be looked up: check DNS"
	case neterr.Refused(err):
		return "nothing is listening there: check the address, and that its server is running"
	case badCertificate:
		return "its certificate is not trusted: give the server a valid one, or trust its authority on this machine"
	case is(http.ErrSchemeMismatch):
		return "its server does not speak TLS: add disabletls=yes to the address"
	case noTLS, alert:
		return "the TLS connection failed: check whether its server speaks TLS there"
	case neterr.NoNetwork(err):
		return "its server is unreachable: check the network"
	case neterr.NoHost(err):
		return "its server is unreachable: check the network and the firewall"
	case ok && network.Timeout():
		return "its server did not answer in time"
	case is(io.EOF, io.ErrUnexpectedEOF), neterr.Cut(err):
		return "its server closed the connection"
	}
	return "sending failed"
}

// failed makes a failure from an error whose text may quote the URL.
func failed(s Secret, err error) error {
	f, known := errors.AsType[*failure](err)
	if code := mailCode(err); !known && code > 0 {
		f = &failure{text: "its mail server refused the message", said: err.Error(), permanent: code >= 500}
	} else if !known {
		f = &failure{text: unreached(err), said: innermost(err).Error()}
	}
	if said := scrub(s, f.said); said != "" {
		return &failure{text: f.text + " (" + said + ")", permanent: f.permanent, after: f.after, unsure: f.unsure}
	}
	return f
}

func mailCode(err error) int {
	if e, ok := errors.AsType[*mail.SendError](err); ok {
		return e.ErrorCode()
	}
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		return e.Code
	}
	return 0
}

// innermost leaves out the parts of an error that say where it happened.
func innermost(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	return err
}

const longestSaid = 160 // characters

var (
	addresses = lazy.Pattern(`[A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s"'<>]*`)
	words     = lazy.Pattern(`[A-Za-z0-9]+`)
)

// shortest is the length from which a word is hidden in longer words too. A
// shorter one stays there, such as "hook" in "webhook".
const shortest = 6

// scrub takes all addresses out of what a service says, and all pieces of the
// target's URL. It returns nothing where a part of a piece is left.
func scrub(s Secret, text string) string {
	hidden := s.pieces()
	text = addresses().ReplaceAllString(text, "(address)")
	for _, piece := range hidden {
		pattern := regexp.QuoteMeta(piece)
		if len(piece) < shortest && words().MatchString(piece) {
			pattern = `(^|[^a-z0-9])` + pattern + `($|[^a-z0-9])`
		}
		text = regexp.MustCompile("(?i)"+pattern).ReplaceAllString(text, "$1…$2")
	}
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if leaks(text, hidden) {
		return ""
	}
	return cut(text, longestSaid)
}

// pieces are the parts of a URL as a text may quote them, the longest first.
func (s Secret) pieces() []string {
	u, err := url.Parse(string(s))
	if err != nil {
		_, rest, _ := strings.Cut(string(s), ":")
		u = &url.URL{Path: rest}
	}
	password, _ := u.User.Password()
	parts := append(strings.Split(u.Path, "/"), string(s), u.Host, u.Hostname(), u.Path, u.RawQuery, u.Fragment,
		u.User.String(), u.User.Username(), password, u.User.Username()+":"+password)
	for key, values := range u.Query() {
		for _, v := range values {
			if strings.HasPrefix(key, "@") || strings.HasPrefix(key, "$") || len(v) > 5 {
				parts = append(parts, v)
			}
		}
	}
	var out []string
	for _, part := range parts {
		quoted, _ := json.Marshal(part)       //nolint:errchkjson // a string
		decoded, _ := url.QueryUnescape(part) // empty where it fails
		out = append(out, part, decoded, url.QueryEscape(part), url.PathEscape(part), url.QueryEscape(decoded),
			strings.Trim(string(quoted), `"`), base64.StdEncoding.EncodeToString([]byte(part)))
	}
	for _, word := range words().FindAllString(strings.Join(out, " "), -1) {
		if len(word) >= shortest && word != s.scheme() {
			out = append(out, word)
		}
	}
	for i := range out {
		out[i] = strings.ToValidUTF8(out[i], "")
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.DeleteFunc(slices.Compact(out), func(p string) bool { return len(p) < 3 })
}

// leaks reports whether a text has eight characters in a row of a piece.
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
