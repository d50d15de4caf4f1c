package notify

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gpuwhy/gpuwhy/internal/alerts/alert"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// Config says who gets messages, as in a rules file. Decode it over [Defaults], because zero is a
// valid value.
type Config struct {
	Targets []Target `yaml:"targets"`
	// GroupWait is how long the first change waits for others to share its message, 0s to 10m.
	GroupWait time.Duration `yaml:"group_wait"`
	// GroupInterval is the least time between two messages, 1s to 24h.
	GroupInterval time.Duration `yaml:"group_interval"`
	// PublicURL is the page's address for people; without it messages have no links.
	PublicURL string `yaml:"public_url"`
}

// Defaults is the configuration of an empty file.
func Defaults() Config {
	return Config{GroupWait: 10 * time.Second, GroupInterval: time.Minute}
}

// A Target is one destination of messages.
type Target struct {
	// Name is the name that rules use: letters, digits, '_' and '-'.
	Name string `yaml:"name"`
	// Exactly one of URL, URLEnv and URLFile says where messages go: the URL
	// itself, the name of an environment variable that has it, or a file that
	// has it on its only line. URL itself must not carry a secret.
	URL     Secret `yaml:"url"`
	URLEnv  string `yaml:"url_env"`
	URLFile string `yaml:"url_file"`
	// Severity is the lowest that it gets; empty: all.
	Severity alert.Severity `yaml:"severity"`
	// Title and Message are templates of a [Message]; empty: the default ones.
	Title   string `yaml:"title"`
	Message string `yaml:"message"`
}

// Limits of a configuration.
const (
	mostTargets      = 50
	longestURL       = 8 << 10 // bytes
	longestTemplate  = 16 << 10
	longestPublicURL = 2 << 10
)

var (
	targetName = lazy.Pattern(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	envName    = lazy.Pattern(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

// templates checks everything that needs neither the environment nor files, and returns the
// templates.
func (c *Config) templates() ([]templates, error) {
	var p alert.Problems
	p.Unless(c.GroupWait >= 0 && c.GroupWait <= 10*time.Minute, "group_wait", "must be from 0s to 10m")
	p.Unless(c.GroupInterval >= time.Second && c.GroupInterval <= 24*time.Hour, "group_interval", "must be from 1s to 24h")
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" {
		good := err == nil && len(c.PublicURL) <= longestPublicURL && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
		p.Unless(good, "public_url", "must be an address such as https://gpus.example.org/")
		p.Unless(!good || u.User == nil && u.RawQuery == "" && u.Fragment == "", "public_url",
			"must be an address without user, query or fragment, because messages show it")
	}
	p.Unless(len(c.Targets) <= mostTargets, "targets", "at most %d are allowed", mostTargets)
	out := make([]templates, len(c.Targets))
	for i := range c.Targets {
		t, prefix := &c.Targets[i], fmt.Sprintf("targets[%d].", i)
		out[i] = t.check(&p, prefix)
		j := slices.IndexFunc(c.Targets, func(o Target) bool { return o.Name == t.Name })
		p.Unless(j == i, prefix+"name", "is also the name of targets[%d]: give each its own", j)
	}
	return out, errors.Join(p...)
}

func (t *Target) least() alert.Severity { return cmp.Or(t.Severity, alert.Info) }

func (t *Target) check(p *alert.Problems, prefix string) templates {
	p.Unless(targetName().MatchString(t.Name), prefix+"name", "must be letters, digits, '_' and '-', at most 64 of them")
	p.Unless(t.Severity == "" || slices.Contains(alert.Severities(), t.Severity), prefix+"severity", "must be one of %v", alert.Severities())
	given := slices.DeleteFunc([]string{string(t.URL), t.URLEnv, t.URLFile}, func(way string) bool { return way == "" })
	switch {
	case len(given) != 1:
		p.Unless(false, prefix+"url", "give exactly one of url, url_env and url_file")
	case t.URL != "":
		err := t.URL.written().plain()
		p.Unless(err == nil, prefix+"url", "%v", err)
	case t.URLEnv != "":
		p.Unless(envName().MatchString(t.URLEnv), prefix+"url_env", "must be the name of an environment variable, not the address itself")
	default:
		p.Unless(!strings.Contains(t.URLFile, "://") && !strings.ContainsFunc(t.URLFile, unicode.IsControl), prefix+"url_file",
			"must be the name of a file, not the address itself")
	}
	title, err := parseTemplate(t.Title)
	p.Unless(err == nil, prefix+"title", "%v", err)
	message, err := parseTemplate(t.Message)
	p.Unless(err == nil, prefix+"message", "%v", err)
	return templates{title, message}
}

// Resolve checks a configuration and reads the targets' URLs from where it says they are. It sends
// nothing. It returns everything that is wrong: joined [alert.Invalid] errors whose fields are
// paths such as "targets[0].url". No error quotes a value, because it may be a secret in the wrong
// place. [New] and [Notifier.Reload] check the same.
func (c *Config) Resolve() error {
	_, err := c.settings()
	return err
}

func (c *Config) settings() ([]settings, error) {
	texts, err := c.templates()
	if err != nil {
		return nil, err
	}
	var p alert.Problems
	out, wrong := make([]settings, len(c.Targets)), make([]error, len(c.Targets))
	fields := make([]string, len(c.Targets))
	var reading sync.WaitGroup // in parallel, because a dead mount takes long to fail
	for i, t := range c.Targets {
		reading.Go(func() {
			var s Secret
			fields[i], s, wrong[i] = t.resolve()
			out[i] = settings{t, s, serviceOf(s), texts[i], c.GroupWait, c.GroupInterval, c.PublicURL}
		})
	}
	reading.Wait()
	for i, err := range wrong {
		p.Unless(err == nil, fmt.Sprintf("targets[%d].%s", i, fields[i]), "%v", err)
	}
	return out, errors.Join(p...)
}

func (t *Target) resolve() (field string, s Secret, err error) {
	field, s = "url", t.URL
	switch {
	case t.URLEnv != "":
		field, s = "url_env", Secret(strings.TrimSpace(os.Getenv(t.URLEnv)))
		if s == "" {
			err = fmt.Errorf("%s is unset or empty in the environment: set it to the address", t.URLEnv)
		}
	case t.URLFile != "":
		field = "url_file"
		path, wrong := regular.Path(t.URLFile)
		if wrong != nil {
			return field, "", wrong
		}
		text, failed := regular.Read(path, longestURL+1) // with the end of its line
		s = Secret(strings.TrimSpace(string(text)))
		if e, ok := errors.AsType[*os.PathError](failed); ok { // without the file's name
			err = fmt.Errorf("the file can't be read: %w", e.Err)
		} else if s == "" {
			err = errors.New("the file is empty: put the address on its only line")
		}
	}
	s = s.written()
	return field, s, cmp.Or(err, s.usable())
}

// A Secret is the URL of a target. It is hidden from fmt, encoding/json, yaml and slog.
type Secret string

const redacted = "(secret)"

// MarshalText implements [encoding.TextMarshaler].
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// scheme is the service's name; "unknown" for any other text, which may be a secret.
func (s Secret) scheme() string {
	name := s.begin()
	if _, known := services[name]; !known {
		return "unknown"
	}
	return name
}

// begin is where the name of a service stands.
func (s Secret) begin() string {
	name, _, _ := strings.Cut(string(s), ":")
	name, _, _ = strings.Cut(strings.ToLower(name), "+")
	return name
}

// copied are the addresses that services show to people, and their form here.
var copied = []struct {
	pattern     func() *regexp.Regexp
	replacement string
}{
	{lazy.Pattern(`^https://hooks\.slack\.com/services/([A-Z0-9]+)/([A-Z0-9]+)/([A-Za-z0-9]+)/?$`), "slack://hook:$1-$2-$3@webhook"},
	{lazy.Pattern(`^https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d+)/([\w-]+)/?\?(?:wait=\w+&)?(thread_id=\d+)(?:&wait=\w+)?$`), "discord://$2@$1?$3"},
	{lazy.Pattern(`^https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/(?:v\d+/)?webhooks/(\d+)/([\w-]+)/?(?:\?wait=\w+)?$`), "discord://$2@$1"},
	{lazy.Pattern(`^(https)://([a-zA-Z0-9-]+\.webhook\.office\.com/webhookb2/.+)$`), "teams+$1://$2"},
	{lazy.Pattern(`^https://(ntfy\.sh/[\w-]+)/?((?:\?.*)?)$`), "ntfy://$1$2"},
	{lazy.Pattern(`^https://(chat\.googleapis\.com/.+)$`), "googlechat://$1"},
	{lazy.Pattern(`^https://(open\.(?:larksuite\.com|feishu\.cn))/open-apis/bot/v2/hook/([\w-]+)/?$`), "lark://$1/$2"},
	{lazy.Pattern(`^https://qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=([\w-]+)$`), "wecom://$1"},
}

// written converts an address to its form here: people may give a known service's webhook as the service shows
// it.
func (s Secret) written() Secret {
	shown := string(s)
	if scheme, rest, ok := strings.Cut(shown, "://"); ok && strings.EqualFold(scheme, "https") {
		host, path, _ := strings.Cut(rest, "/")
		shown = "https://" + strings.ToLower(host) + "/" + path
	}
	for _, c := range copied {
		if c.pattern().MatchString(shown) {
			return Secret(c.pattern().ReplaceAllString(shown, c.replacement))
		}
	}
	return s
}

// An unknownService says what to write instead of an address that no service understands.
type unknownService string

// Error implements error.
func (e unknownService) Error() string { return string(e) }

func (s Secret) unknown() error {
	if instead, was := replaced[s.begin()]; was {
		return unknownService("begins with " + s.begin() + "://, which gpuwhy no longer supports: " + instead + " (see the guide, at /guide/notifications)")
	}
	return unknownService("does not begin with a known service such as slack://, ntfy:// or generic+https://; for any other webhook, write generic+ before https://")
}

// usable reports what is wrong with a URL, without quoting it. It asks no server.
func (s Secret) usable() error {
	if len(s) > longestURL {
		return fmt.Errorf("is longer than %d bytes", longestURL)
	}
	if strings.ContainsFunc(string(s), func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
		return errors.New("has more than one line, or is not text: it must be only the address")
	}
	if strings.HasPrefix(string(s), `"`) || strings.HasPrefix(string(s), "'") {
		return errors.New("begins with a quote: leave the quotes out")
	}
	a, err := s.parse()
	if _, unknown := errors.AsType[unknownService](err); unknown || err == nil && a.understood() {
		return err
	}
	return fmt.Errorf("is not a valid address for the %s service: see the guide, at /guide/notifications", s.scheme())
}

var errSecret = errors.New("carries a secret, or may: put it in an environment variable or its own file, and name that with url_env or url_file" +
	" (allowed here: generic and ntfy on a loopback address, and smtp, all without user and password)")

// plain reports why a URL must not be in the rules file itself. A webhook's path and a topic are
// passwords, except on loopback.
func (s Secret) plain() error {
	a, err := s.parse()
	if err != nil {
		return err
	}
	allowed := a.service.harmless
	if allowed == nil || a.User != nil || !a.service.mail() && !loopback(a.Hostname()) {
		return errSecret
	}
	for key := range a.Query() {
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
