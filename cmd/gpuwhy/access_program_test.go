//go:build !race

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// An owner of the machine may silence alerts. Another user may only read, over TCP and over a Unix socket, and nobody has to sign in.
func TestAnotherUserOnlyReads(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start programs of other users")
	}
	dir := publicDir(t)
	p := start(t, nil, "--listen=unix:"+filepath.Join(dir, "page"), "--base-path=/gpus", "--source=simulate:rtx-4090", fast)
	if want := "unix:" + filepath.Join(dir, "page") + ":/gpus/"; p.url != want {
		t.Fatalf("it says that it listens on %s, not %s", p.url, want)
	}
	if err := os.Chmod(filepath.Join(dir, "page"), 0o666); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it is ready", func() bool { return command(t, nil, "healthcheck", p.url).code == exitOK })
	silence := []string{"do", "silence-matching", "--duration=1h", "--rule=hot", "--url=" + p.url}
	if out, err := asNobody(t, "why", "--url="+p.url).CombinedOutput(); err != nil {
		t.Errorf("another user may not read: %v\n%s", err, out)
	}
	if out, err := asNobody(t, silence...).CombinedOutput(); err == nil || !strings.Contains(string(out), "you may not do this here") {
		t.Errorf("another user silences alerts: %v\n%s", err, out)
	}
	if r := command(t, nil, silence...); r.code != exitOK {
		t.Errorf("the owner may not silence alerts: %+v", r)
	}
	var said strings.Builder
	if err := p.client(client.Options{}).Copy(t.Context(), &said, client.Request{Path: "/api/alerts"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), `"`+owner()+`"`) {
		t.Errorf("nobody says that %s has silenced: %s", owner(), &said)
	}
}

// A proxy of the machine that nobody has named may only read, whoever runs it. Health says so.
func TestAnUnnamedProxyOnlyReads(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", fast)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSuffix(p.url, "/")+"/api/silences", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"X-Forwarded-For": {"203.0.113.9"}, "Content-Type": {"application/json"}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("it gets %s", answer.Status)
	}
	var health contract.MonitorHealth
	p.get("/api/health", &health)
	if part := health.Parts["access"]; part.LastError == nil || !strings.Contains(*part.LastError, "--trusted-proxy") || part.State == "failed" {
		t.Errorf("health says %+v", part)
	}
	if _, page := p.fetch("/", http.Header{"Accept": {"text/html"}}); !strings.Contains(string(page), "nobody has named it as a trusted proxy") {
		t.Error("the page does not say so")
	}
}

// The first start with sign-in prints a link to a page that makes the first administrator.
func TestFirstStartWithSignIn(t *testing.T) {
	t.Parallel()
	cmd := gpuwhy(nil, "--listen=127.0.0.1:0", "--base-path=/gpus", "--sign-in", "--source=simulate:rtx-4090", "--state-dir="+t.TempDir(), fast)
	p := &program{t: t, cmd: cmd, log: &logBuffer{}, end: make(chan error, 1)}
	cmd.Stderr = p.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	_, p.url, _ = strings.Cut(lines.Text(), ": ")
	lines.Scan()
	p.attend()
	_, link, _ := strings.Cut(lines.Text(), " at ")
	if !strings.HasPrefix(link, p.url+"setup?link=") {
		t.Fatalf("after %s it prints %q", p.url, lines.Text())
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(page), "<form") {
		t.Errorf("%s, %v:\n%s", answer.Status, err, page)
	}
}

// On a Unix socket, too, the link makes the first administrator: a password does not cross a network there.
func TestFirstStartOnAUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page")
	cmd := gpuwhy(nil, "--listen=unix:"+path, "--base-path=/gpus", "--sign-in", "--source=simulate:rtx-4090", "--state-dir="+t.TempDir(), fast)
	p := &program{t: t, cmd: cmd, log: &logBuffer{}, end: make(chan error, 1)}
	cmd.Stderr = p.log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	lines.Scan()
	p.attend()
	said, link, _ := strings.Cut(lines.Text(), ", at ")
	if !strings.Contains(said, path) || !strings.HasPrefix(link, "/gpus/setup?link=") {
		t.Fatalf("it prints %q", lines.Text())
	}
	_, secret, _ := strings.Cut(link, "link=")
	reach := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := reach.PostForm("http://localhost/gpus/setup", url.Values{"link": {secret}, "name": {"ann"}, "password": {"seven wet otters in a tub"}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSeeOther || len(answer.Cookies()) == 0 {
		text, _ := io.ReadAll(answer.Body)
		t.Errorf("%s: %s", answer.Status, text)
	}
}
