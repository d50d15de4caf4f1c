package notify

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/gpuwhy/gpuwhy/internal/alert"
)

// Config is who is told of alerts, as a file of rules says it. Decode it over
// [Defaults]: what is zero was set to zero.
type Config struct {
	Targets []Target `yaml:"targets"`
	// GroupWait is how long the first change waits for others that go in the
	// same message, 0s to 10m.
	GroupWait time.Duration `yaml:"group_wait"`
	// GroupInterval is the least time between two messages to a target, 1s to
	// 24h.
	GroupInterval time.Duration `yaml:"group_interval"`
	// PublicURL is where people open the page, such as
	// https://gpus.example.org/gpuwhy/; empty: messages have no links.
	PublicURL string `yaml:"public_url"`
}

// Defaults is the configuration of a file that says nothing.
func Defaults() Config {
	return Config{GroupWait: 10 * time.Second, GroupInterval: time.Minute}
}

// A Target is one place that messages are sent to.
type Target struct {
	// Name is what rules call it: letters, digits, '_' and '-'.
	Name string `yaml:"name"`
	// Exactly one of URL, URLEnv and URLFile says where it is, as a service URL
	// of shoutrrr: itself, or the name of an environment variable, or a file
	// that has it on its one line. URL is for addresses that carry no secret
	// alone: see Check.
	URL     Secret `yaml:"url"`
	URLEnv  string `yaml:"url_env"`
	URLFile string `yaml:"url_file"`
	// Severity is the least that it is told of; empty: everything.
	Severity alert.Severity `yaml:"severity"`
	// Title and Message are templates (text/template) that are given a
	// [Message]; empty: the default ones.
	Title   string `yaml:"title"`
	Message string `yaml:"message"`
}

// The bounds of what a configuration may say.
const (
	mostTargets      = 50
	longestWait      = 10 * time.Minute
	leastInterval    = time.Second
	longestInterval  = 24 * time.Hour
	longestURL       = 8 << 10 // bytes
	longestTemplate  = 16 << 10
	longestPublicURL = 2 << 10
)

var (
	targetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

func invalid(field, format string, args ...any) error {
	return &alert.Invalid{Field: field, What: fmt.Sprintf(format, args...)}
}

// Check returns all that is wrong with a configuration, as [alert.Invalid]
// errors joined, whose fields are paths such as "targets[0].url". It reads
// neither the environment nor files; [Config.Resolve] does. No error quotes
// what was given, which may be a secret in the wrong place.
func (c *Config) Check() error {
	errs := []error{c.checkTimes(), c.checkPublicURL()}
	if len(c.Targets) > mostTargets {
		errs = append(errs, invalid("targets", "there can be %d at most", mostTargets))
	}
	for i := range c.Targets {
		t, at := &c.Targets[i], fmt.Sprintf("targets[%d].", i)
		errs = append(errs, t.check(at))
		if j := slices.IndexFunc(c.Targets, func(o Target) bool { return o.Name == t.Name }); j < i {
			errs = append(errs, invalid(at+"name", "is the name of targets[%d] too: give each another", j))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkTimes() error {
	var errs []error
	if c.GroupWait < 0 || c.GroupWait > longestWait {
		errs = append(errs, invalid("group_wait", "must be from 0s to 10m"))
	}
	if c.GroupInterval < leastInterval || c.GroupInterval > longestInterval {
		errs = append(errs, invalid("group_interval", "must be from 1s to 24h"))
	}
	return errors.Join(errs...)
}

func (c *Config) checkPublicURL() error {
	if c.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(c.PublicURL)
	switch {
	case err != nil || len(c.PublicURL) > longestPublicURL || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return invalid("public_url", "must be an address such as https://gpus.example.org/")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return invalid("public_url", "must be an address without user, query and fragment: it goes into messages")
	}
	return nil
}

func (t *Target) least() alert.Severity { return cmp.Or(t.Severity, alert.Info) }

// check is about one target, whose fields are at a path.
func (t *Target) check(at string) error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, invalid(at+field, format, args...))
	}
	if !targetName.MatchString(t.Name) {
		wrong("name", "must be letters, digits, '_' and '-', at most 64 of them")
	}
	if t.Severity != "" && !slices.Contains(alert.Severities(), t.Severity) {
		wrong("severity", "must be one of %v", alert.Severities())
	}
	given := 0
	for _, way := range []string{string(t.URL), t.URLEnv, t.URLFile} {
		if way != "" {
			given++
		}
	}
	switch {
	case given != 1:
		wrong("url", "give exactly one of url, url_env and url_file")
	case t.URL != "":
		if err := t.URL.plain(); err != nil {
			wrong("url", "%v", err)
		}
	case t.URLEnv != "" && !envName.MatchString(t.URLEnv):
		wrong("url_env", "must be the name of an environment variable, not the address itself")
	case strings.Contains(t.URLFile, "://") || strings.ContainsFunc(t.URLFile, unicode.IsControl):
		wrong("url_file", "must be the name of a file, not the address itself")
	}
	for _, text := range []struct{ field, text, fallback string }{
		{"title", t.Title, defaultTitle}, {"message", t.Message, defaultMessage},
	} {
		if _, err := parseTemplate(text.text, text.fallback); err != nil {
			wrong(text.field, "%v", err)
		}
	}
	return errors.Join(errs...)
}

// A Secret is a service URL. It prints and encodes as what it is not.
type Secret string

const redacted = "(secret)"

// String hides it, as do the ways below: fmt, encoding/json, yaml and slog.
func (Secret) String() string { return redacted }

// GoString hides it from %#v.
func (Secret) GoString() string { return redacted }

// MarshalText hides it from encodings.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format hides it from each verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// scheme is the service's name, such as "slack"; "unknown" where it is none
// of the known ones, which may be a secret in the wrong place.
func (s Secret) scheme() string {
	name, _, _ := strings.Cut(string(s), ":")
	name, _, _ = strings.Cut(strings.ToLower(name), "+")
	if _, known := services[name]; !known {
		return "unknown"
	}
	return name
}

// harmless are the parameters that a URL in the file of rules itself may have.
var harmless = map[string][]string{
	"generic": {"contenttype", "disabletls", "messagekey", "method", "template", "titlekey"},
	"ntfy":    {"cache", "disabletls", "firebase", "priority", "scheme", "tags"},
	"smtp": {"auth", "clienthost", "encryption", "from", "fromaddress", "fromname", "subject", "timeout", "to", "toaddresses",
		"usehtml", "usestarttls"},
}

// errSecret is about an address in a file that does not belong there.
var errSecret = errors.New("is an address that carries a secret, or may: put it into an environment variable or a file of its own, and name that with url_env or url_file" +
	" (allowed here are generic and ntfy on a loopback address and smtp, without user and password)")

// plain reports why a URL may not stand in the file itself: there only those
// may that are of no use to who reads the file. Elsewhere than on loopback a
// webhook's path and a topic are passwords.
func (s Secret) plain() error {
	if s.scheme() == "unknown" {
		return errUnknownService
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return errors.New("is no address")
	}
	allowed, ok := harmless[s.scheme()]
	if !ok || u.User != nil || s.scheme() != "smtp" && !loopback(u.Hostname()) {
		return errSecret
	}
	for key := range u.Query() {
		if !slices.Contains(allowed, strings.ToLower(key)) {
			return errSecret
		}
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
