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
	"syscall"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"
)

// A failure is why a target did not take a message, in words for people. It has
// nothing of the target's URL.
type failure struct {
	text string
	// permanent says that another try fails too until somebody changes
	// something.
	permanent bool
	after     time.Duration // how long the server asks to wait; 0 where it does not say
}

func (f *failure) Error() string { return f.text }

// A statusError is an answer that says that a message was not taken.
type statusError struct {
	code  int
	reply reply
	after time.Duration
}

// Error returns what the service says.
func (e *statusError) Error() string {
	inner, _ := e.reply.json["error"].(map[string]any)
	for _, said := range []map[string]any{e.reply.json, inner} {
		for _, name := range []string{"description", "errorDescription", "message", "msg", "errmsg", "error"} {
			if text, ok := said[name].(string); ok && text != "" {
				return text
			}
		}
	}
	if e.reply.json == nil && e.reply.text != "" && !strings.Contains(e.reply.text, "<") {
		return e.reply.text
	}
	return http.StatusText(e.code)
}

// statusTexts are what HTTP statuses mean to people.
var statusTexts = map[int]string{
	400: "it does not accept the message",
	401: "it refuses us: its key or password is wrong, or not valid any more",
	403: "it refuses us: its key or password is wrong, or may not write there",
	404: "it is not there: the address is wrong, or its hook was taken away",
	410: "it is not there any more: its hook was taken away",
	413: "the message is too long for it: give a shorter template",
	429: "it has had too many messages",
}

// permanent are the HTTP statuses that stay until somebody changes something.
var permanent = []int{400, 401, 403, 404, 410, 413}

func (e *statusError) failure() *failure {
	f := &failure{text: statusTexts[e.code], permanent: slices.Contains(permanent, e.code), after: e.after}
	switch {
	case f.text != "":
	case e.code < 300:
		f.text = "it did not take the message"
	case e.code < 400:
		f.text = "its server sends us elsewhere: give the address that it leads to; if that is a login page, let gpuwhy past it"
	case e.code < 500:
		f.text = "it failed"
	default:
		f.text = "its server has a problem"
	}
	return f
}

// networkTexts are what errors of the network mean to people. The first that fits counts.
var networkTexts = []struct {
	fits func(error) bool
	text string
}{
	{func(err error) bool { e, ok := errors.AsType[*net.DNSError](err); return ok && e.IsNotFound },
		"its server's name is not known: check the address and the name service"},
	{isType[*net.DNSError], "its server's name can't be looked up: check the name service"},
	{isAny(syscall.ECONNREFUSED), "nobody listens there: check the address, and that its server runs"},
	{isType[*tls.CertificateVerificationError], "its certificate is not trusted: give the server a valid one, or add its authority to this machine"},
	{isAny(http.ErrSchemeMismatch), "its server does not speak TLS: say so in the address (disabletls=yes)"},
	{func(err error) bool { return isType[tls.RecordHeaderError](err) || isType[tls.AlertError](err) },
		"no secure connection: check whether its server speaks TLS there"},
	{isAny(syscall.ENETUNREACH), "there is no way to its server: check the network"},
	{isAny(syscall.EHOSTUNREACH), "there is no way to its server: check the network and the firewall"},
	{func(err error) bool { e, ok := errors.AsType[net.Error](err); return ok && e.Timeout() },
		"its server did not answer in time"},
	{isAny(io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE), "its server closed the connection"},
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isAny(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
}

// explainFailure makes a failure of an error, whose text may quote the URL.
func explainFailure(s Secret, err error) error {
	if err == nil || isType[*failure](err) {
		return err
	}
	f := &failure{text: "it failed"}
	if e, ok := errors.AsType[*statusError](err); ok {
		f, err = e.failure(), e
	} else if code := mailCode(err); code > 0 {
		f.text, f.permanent = "its mail server refuses", code >= 500
	} else {
		for _, n := range networkTexts {
			if n.fits(err) {
				f.text = n.text
				break
			}
		}
		err = innermost(err)
	}
	if said := scrub(s, err.Error()); said != "" {
		f.text += " (" + said + ")"
	}
	return f
}

// mailCode returns the code of a mail server's reply; 0 where err is none.
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
	addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:/{1,2}[^\s"'<>]*`)
	words     = regexp.MustCompile(`[A-Za-z0-9]+`)
)

// shortest is the length from which a word is hidden in longer words too. A
// shorter one stays there, such as "hook" in "webhook".
const shortest = 6

// scrub takes all addresses out of what a service says, and all pieces of the
// target's URL. It returns nothing where a part of a piece is left.
func scrub(s Secret, text string) string {
	hidden := s.pieces()
	text = addresses.ReplaceAllString(text, "(address)")
	for _, piece := range hidden {
		pattern := regexp.QuoteMeta(piece)
		if len(piece) < shortest && words.MatchString(piece) {
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

// pieces returns the parts of a URL in all the forms in which a text may quote
// them, the longest first.
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
	for _, word := range words.FindAllString(strings.Join(out, " "), -1) {
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
