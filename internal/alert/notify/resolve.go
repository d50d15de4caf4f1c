package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
)

var errUnknownService = errors.New("begins with no known service, such as slack://, ntfy:// or generic+https://")

// Resolve reads the targets' URLs where the configuration says they are, and
// checks that they are some: what can be seen without sending anything. Errors
// are as those of [Config.Check], which has to have passed. Call it where a
// bad configuration is to be found before it is put to use; [New] and
// [Notifier.Reload] do it themselves.
func (c *Config) Resolve() error {
	_, err := c.resolve()
	return err
}

// resolve returns the URLs of the targets, in their order.
func (c *Config) resolve() ([]Secret, error) {
	var errs []error
	urls := make([]Secret, len(c.Targets))
	for i := range c.Targets {
		field, s, err := c.Targets[i].resolve()
		if err != nil {
			errs = append(errs, invalid(fmt.Sprintf("targets[%d].%s", i, field), "%v", err))
		}
		urls[i] = s
	}
	return urls, errors.Join(errs...)
}

// resolve returns a target's URL, and the field that says where it is.
func (t *Target) resolve() (field string, s Secret, err error) {
	switch {
	case t.URLEnv != "":
		field, s = "url_env", Secret(strings.TrimSpace(os.Getenv(t.URLEnv)))
		if s == "" {
			return field, "", fmt.Errorf("the environment has no %s, or an empty one: set it to the address", t.URLEnv)
		}
	case t.URLFile != "":
		field = "url_file"
		if s, err = readSecret(t.URLFile); err != nil {
			return field, "", err
		}
	default:
		field, s = "url", t.URL
	}
	return field, s, s.usable()
}

// readSecret reads a file that has an address on its only line.
func readSecret(name string) (Secret, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("the file can't be read: %w", bare(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestURL+2))
	if err != nil {
		return "", fmt.Errorf("the file can't be read: %w", bare(err))
	}
	s := Secret(strings.TrimSpace(string(text)))
	if s == "" {
		return "", errors.New("the file is empty: it must have the address on its only line")
	}
	return s, nil
}

// bare is a file's error without its name.
func bare(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// usable reports what is wrong with a URL that is known, without quoting it.
func (s Secret) usable() error {
	switch {
	case len(s) > longestURL:
		return fmt.Errorf("has an address of more than %d bytes", longestURL)
	case strings.ContainsFunc(string(s), func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return errors.New("has more than one line, or no text: it must be the address alone")
	case s.scheme() == "unknown":
		return errUnknownService
	}
	return check(s)
}
