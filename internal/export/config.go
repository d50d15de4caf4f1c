package export

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/gpuwhy/gpuwhy/internal/regular"
)

type format uint8

const (
	remoteWrite format = iota
	otlp
)

var names = [...]string{remoteWrite: "remote-write", otlp: "otlp"}

// A Destination is where series are sent.
type Destination struct {
	Name   string // the format and the address, without what may be secret
	format format
	url    string
	credentials
}

// credentials are what a file has for a destination.
type credentials struct {
	URL         string            `yaml:"url"` // of the destination; empty where there is only one
	Username    string            `yaml:"username"`
	Password    string            `yaml:"password"`
	BearerToken string            `yaml:"bearer_token"`
	Headers     map[string]string `yaml:"headers"`
}

// set sets the headers of a request.
func (c *credentials) set(h http.Header) {
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	switch {
	case c.BearerToken != "":
		h.Set("Authorization", "Bearer "+c.BearerToken)
	case c.Username != "":
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
	}
}

const (
	mostDestinations = 16
	largestFile      = 64 << 10
)

// RemoteWrite checks the addresses that take remote write, and reads the file of their credentials; "": there is none.
func RemoteWrite(urls []string, file string) ([]Destination, error) {
	return destinations(remoteWrite, urls, file)
}

// OTLP checks the addresses of receivers of OTLP. One without a path gets /v1/metrics.
func OTLP(urls []string, file string) ([]Destination, error) { return destinations(otlp, urls, file) }

func destinations(f format, urls []string, file string) (all []Destination, err error) {
	if len(urls) > mostDestinations {
		return nil, fmt.Errorf("--%s: %d addresses given, at most %d are allowed", names[f], len(urls), mostDestinations)
	}
	for _, text := range urls {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Fragment != "":
			// The text may have a secret.
			return nil, fmt.Errorf("--%s: give a URL that begins with http:// or https://, such as https://metrics.example.org%s", names[f], examplePath[f])
		case u.User != nil:
			return nil, fmt.Errorf("--%s: a password in a URL is visible to everybody who lists processes: put it in the file of --%s-credentials", names[f], names[f])
		}
		if f == otlp && strings.Trim(u.Path, "/") == "" {
			u.Path = examplePath[otlp]
		}
		shown := *u
		shown.RawQuery = ""
		d := Destination{Name: names[f] + " " + shown.String(), format: f, url: u.String()}
		if slices.ContainsFunc(all, func(other Destination) bool { return other.Name == d.Name }) {
			return nil, fmt.Errorf("--%s: %s is given twice", names[f], shown.String())
		}
		all = append(all, d)
	}
	if file == "" {
		return all, nil
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--%s-credentials has no effect without --%s", names[f], names[f])
	}
	if err := readCredentials(all, urls, file); err != nil {
		return nil, fmt.Errorf("--%s-credentials %s: %w", names[f], file, err)
	}
	return all, nil
}

var examplePath = [...]string{remoteWrite: "/api/v1/write", otlp: "/v1/metrics"}

// readCredentials gives destinations their credentials from a file. Its errors don't quote the file.
func readCredentials(all []Destination, urls []string, file string) error {
	text, err := regular.Read(file, largestFile)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil || len(node.Content) == 0 {
		return errors.New("it is not valid YAML")
	}
	var list []credentials
	var one credentials
	into := any(&one)
	if node.Content[0].Kind == yaml.SequenceNode {
		into = &list
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return errors.New("it may have url, username, password, bearer_token and headers, or a list of such entries")
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return errors.New("it has several YAML documents, and only one is allowed")
	}
	if list == nil {
		list = []credentials{one}
	}
	for i := range list {
		c := &list[i]
		index := slices.Index(urls, c.URL)
		switch {
		case c.URL == "" && len(all) == 1 && len(list) == 1:
			index = 0
		case c.URL == "":
			return errors.New("with several addresses, each entry needs its url")
		case index < 0:
			return errors.New("it has credentials for an address that is not given")
		case all[index].URL != "":
			return errors.New("it has two sets of credentials for one address")
		}
		if err := c.check(); err != nil {
			return err
		}
		c.URL = all[index].url
		all[index].credentials = *c
	}
	return nil
}

// own are the headers that a request has itself.
var own = []string{"Content-Type", "Content-Encoding", "Content-Length", "Host", "User-Agent", "X-Prometheus-Remote-Write-Version"}

func (c *credentials) check() error {
	switch {
	case c.BearerToken != "" && c.Username != "":
		return errors.New("give a bearer_token, or a username and a password")
	case c.Password != "" && c.Username == "":
		return errors.New("a password needs a username")
	case strings.Contains(c.Username, ":"):
		return errors.New("a username can't contain a colon")
	}
	for _, value := range []string{c.Username, c.Password, c.BearerToken} {
		if !httpguts.ValidHeaderFieldValue(value) || strings.TrimSpace(value) != value {
			return errors.New("a value has a character that can't be sent, or starts or ends with a space")
		}
	}
	for name, value := range c.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) || slices.Contains(own, http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("the header %q can't be sent", name)
		}
	}
	return nil
}
