package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
)

// An api is a cluster's API server.
type api struct {
	cfg  *rest.Config
	http *http.Client
	base string // without a slash at its end
	// clock dates requests to nodes, and limits how long a node may take. Requests to the server itself use the system's time.
	clock clockwork.Clock
}

const userAgent = "gpuwhy"

// restConfig returns what client-go needs for a cluster. A token file is read again when it changes.
func restConfig(c *Cluster) (*rest.Config, error) {
	switch {
	case c.InCluster:
		return rest.InClusterConfig()
	case c.Kubeconfig != "":
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig}
		return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	default:
		return &rest.Config{
			Host: c.URL, BearerTokenFile: c.TokenFile,
			TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile, Insecure: c.SkipTLSVerify},
		}, nil
	}
}

func newAPI(c *Cluster) (*api, error) {
	cfg, err := restConfig(c)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = userAgent
	if cfg.BearerTokenFile != "" {
		// By itself client-go reads the file once a minute. This makes it also read the file when a token is refused.
		cfg.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(cfg.BearerTokenFile)))
		cfg.BearerToken, cfg.BearerTokenFile = "", ""
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	return &api{cfg: cfg, http: client, base: strings.TrimSuffix(base.String(), "/"), clock: clockwork.NewRealClock()}, nil
}

// close closes idle connections.
func (a *api) close() { a.http.CloseIdleConnections() }

// A refusal is an error response of the API server.
type refusal struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Code, r.Reason, clean(r.Message)) }

// errGone means that the server no longer has a version: everything must be listed again.
var errGone = errors.New("the server no longer has that version")

const (
	longestPage  = 64 << 20 // of a list
	longestEvent = 4 << 20  // of a watch; etcd takes 1.5 MiB
	pageSize     = "500"
	listDeadline = time.Minute
	watchFor     = 5 * time.Minute // plus up to as much again
)

// do sends a request to the API server. The caller closes the body.
func (a *api) do(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := a.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	r := &refusal{}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if json.Unmarshal(text, r) != nil || r.Message == "" {
		r.Message = string(text)
	}
	if r.Code = resp.StatusCode; r.Code == http.StatusGone {
		return nil, errGone
	}
	return nil, r
}

// get reads an object or a page of a list.
func (a *api) get(ctx context.Context, path string, query url.Values, into any) error {
	return a.exchange(ctx, http.MethodGet, path, query, nil, into)
}

func (a *api) exchange(ctx context.Context, method, path string, query url.Values, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	resp, err := a.do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, longestPage)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

type meta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Labels          map[string]string `json:"labels"`
	Deleted         string            `json:"deletionTimestamp"`
}

type page[T any] struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []T `json:"items"`
}

// list reads all objects of a collection, and its version.
func list[T any](ctx context.Context, a *api, path string, query url.Values, most int) (all []T, version string, err error) {
	query = cloned(query)
	query.Set("limit", pageSize)
	for {
		var p page[T]
		if err := a.get(ctx, path, query, &p); err != nil {
			return nil, "", err
		}
		all = append(all, p.Items...)
		if len(all) > most {
			return nil, "", fmt.Errorf("%s has more than %d objects", path, most)
		}
		if p.Metadata.Continue == "" {
			return all, p.Metadata.ResourceVersion, nil
		}
		query.Set("continue", p.Metadata.Continue)
	}
}

func cloned(query url.Values) url.Values {
	out := url.Values{}
	maps.Copy(out, query)
	return out
}

// A collection is what is watched: the nodes, or the pods of a namespace.
type collection[T any] struct {
	path   string
	query  url.Values
	most   int
	meta   func(*T) *meta
	set    func(all []T)   // the content of a list
	put    func(T)         // an object that is new or has changed
	remove func(T)         // an object that is gone
	state  func(err error) // whether it can be read now; nil: it can
}

const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// follow lists a collection and watches it until ctx ends.
func (c *collection[T]) follow(ctx context.Context, a *api) {
	pause := time.Duration(0)
	version := ""
	for ctx.Err() == nil {
		err := error(nil)
		if version == "" {
			var all []T
			if all, version, err = list[T](ctx, a, c.path, c.query, c.most); err == nil {
				c.set(all)
			}
		}
		if err == nil {
			c.state(nil)
			began := a.clock.Now()
			version, err = c.watch(ctx, a, version)
			if a.clock.Since(began) > lastPause {
				pause = 0
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errGone):
			version = ""
		case err != nil:
			c.state(err)
		}
		// After a normal end it continues at once, unless watches end immediately.
		pause = min(max(2*pause, firstPause), lastPause)
		if !a.sleep(ctx, jitter(pause)) {
			return
		}
	}
}

// jitter varies a time by up to a quarter, so that clients don't all come back at once.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(rand.Int64N(int64(d/2)+1)) //nolint:gosec // it spreads load
}

// sleep reports whether the time passed before ctx ended.
func (a *api) sleep(ctx context.Context, d time.Duration) bool {
	t := a.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.Chan():
		return true
	case <-ctx.Done():
		return false
	}
}

// watch takes changes after a version, until the server ends the watch, as it does after some minutes. It returns the version up to which
// it has taken all changes.
func (c *collection[T]) watch(ctx context.Context, a *api, version string) (string, error) {
	lasts := watchFor + jitter(watchFor/2)
	ctx, cancel := context.WithTimeout(ctx, lasts+30*time.Second)
	defer cancel()
	query := cloned(c.query)
	query.Set("watch", "1")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", fmt.Sprint(int(lasts.Seconds())))
	resp, err := a.do(ctx, http.MethodGet, c.path, query, nil)
	if err != nil {
		return version, err
	}
	defer resp.Body.Close()
	body := &limitedReader{r: resp.Body}
	events := json.NewDecoder(body)
	for {
		var e struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		body.left = longestEvent
		if err := events.Decode(&e); err == io.EOF {
			return version, nil
		} else if err != nil {
			return version, fmt.Errorf("the watch of %s: %w", c.path, err)
		}
		if e.Type == "ERROR" {
			r := &refusal{}
			if err := json.Unmarshal(e.Object, r); err != nil {
				return version, err
			}
			if r.Code == http.StatusGone {
				return version, errGone
			}
			return version, r
		}
		var object T
		if err := json.Unmarshal(e.Object, &object); err != nil {
			return version, fmt.Errorf("the watch of %s: %w", c.path, err)
		}
		if v := c.meta(&object).ResourceVersion; v != "" {
			version = v
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			c.put(object)
		case "DELETED":
			c.remove(object)
		}
	}
}

// limitedReader fails after its limit of bytes.
type limitedReader struct {
	r    io.Reader
	left int
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errors.New("an object is too large")
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
