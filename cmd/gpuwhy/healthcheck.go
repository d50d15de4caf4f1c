package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

type healthcheckCommand struct {
	URL string `arg:"" optional:"" help:"Where gpuwhy is served; by default what --listen and --base-path say."`
}

// Run asks a running gpuwhy whether it is ready.
func (c healthcheckCommand) Run(env *environment) error {
	base := c.URL
	if base == "" {
		base = ownURL(env.cfg.Listen, env.cfg.BasePath)
	}
	ctx, cancel := context.WithTimeout(env.ctx, 5*time.Second)
	defer cancel()
	url := strings.TrimSuffix(base, "/") + "/health/ready"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("%q is no URL: %w", base, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("gpuwhy does not answer: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("gpuwhy does not answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s: %s", answer.Status, detail(body))
	}
	_, err = fmt.Fprintln(env.stdout, "ready")
	return err
}

func detail(body []byte) string {
	var problem struct{ Detail string }
	if err := json.Unmarshal(body, &problem); err == nil && problem.Detail != "" {
		return printable(problem.Detail)
	}
	return printable(strings.TrimSpace(string(body)))
}

// ownURL is where a gpuwhy that listens on this address is reached from the
// machine itself.
func ownURL(listen, basePath string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen + basePath
	}
	if addr, err := netip.ParseAddr(host); host == "" || (err == nil && addr.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + basePath
}
