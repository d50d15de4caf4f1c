//go:build !race

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/hub"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/internal/testkit/browser"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A proxy is Debian's nginx with one of our configuration files.
type proxy struct {
	t    testing.TB
	dir  string
	addr string // where it listens
	cmd  *exec.Cmd
	said *logBuffer
}

// surroundings are what a file in conf.d stands in, with all that nginx writes
// in a folder of the test.
const surroundings = `daemon off;
pid nginx.pid;
error_log stderr info;
%s
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  include site.conf;
}
`

// newProxy makes an nginx of a file of deploy/nginx that leads to the address,
// with more replacements in it, and starts it. It ends with the test.
func newProxy(t testing.TB, file, upstream string, replace ...string) *proxy {
	t.Helper()
	p := &proxy{t: t, dir: t.TempDir(), addr: freeAddress(t)}
	text := readTop(t, "deploy/nginx/"+file)
	replace = append([]string{"127.0.0.1:8003", upstream, "listen 80", "listen " + p.addr}, replace...)
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s has no %q", file, replace[i])
		}
	}
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // whose the folder is
	}
	for name, text := range map[string]string{
		"nginx.conf": fmt.Sprintf(surroundings, user),
		"site.conf":  strings.NewReplacer(replace...).Replace(text),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.start()
	t.Cleanup(p.stop)
	return p
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, err := testkit.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// start starts nginx and waits until it serves.
func (p *proxy) start() {
	p.t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not in everyone's PATH
	}
	p.cmd = exec.Command(program, "-p", p.dir, "-c", "nginx.conf", "-e", "stderr")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("%v: make needs-test installs it on Debian", err)
	}
	p.said = &logBuffer{}
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		fmt.Fprintln(p.said, lines.Text())
		if strings.Contains(lines.Text(), "start worker process ") {
			go func() { // until nginx ends
				for lines.Scan() {
					fmt.Fprintln(p.said, lines.Text())
				}
			}()
			return
		}
	}
	p.t.Fatalf("nginx did not start:\n%s", p.said)
}

// stop ends nginx at once, and every connection with it.
func (p *proxy) stop() {
	p.t.Helper()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("nginx: %v\n%s", err, p.said)
	}
	p.cmd = nil
}

// through returns the program as reached through the proxy.
func (p *proxy) through(behind *program, path string) *program {
	return &program{t: behind.t, cmd: behind.cmd, log: behind.log, end: behind.end, url: "http://" + p.addr + path}
}

// hostport returns the host and port of an address.
func hostport(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// The page, the socket and REST go through nginx with the files of
// deploy/nginx, at the root and below a path.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, path, name, flag string }{
		{"gpuwhy.conf", "/", "gpu.example.org", "--base-path=/"},
		{"gpuwhy-below.conf", "/gpuwhy/", "www.example.org", "--base-path=/gpuwhy"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			behind := start(t, nil, fast, "--source=simulate:dgx-h100", tt.flag, "--allow-host="+tt.name)
			p := newProxy(t, tt.file, hostport(t, behind.url)).through(behind, tt.path)
			p.await("eight GPUs are there", func(u contract.Update) bool { return u.Devices == 8 })
			if u := p.dial().request("x"); u.Devices != 8 {
				t.Errorf("a reading that was asked for has %d GPUs", u.Devices)
			}
			for _, path := range []string{"/api/gpu/summary", "/api/gpu/metrics", "/api/gpu/recent", "/health/ready"} {
				if code := p.get(path, new(map[string]any)); code != http.StatusOK {
					t.Errorf("GET %s: %d", path, code)
				}
			}
			answer, page := p.fetch("/", http.Header{"Accept": {"text/html"}, "Host": {tt.name}})
			if answer.StatusCode != http.StatusOK || !strings.Contains(string(page), `src="`+tt.path+"static/") {
				t.Errorf("the page: %s\n%.400s", answer.Status, page)
			}
			if answer.Header.Get("Content-Security-Policy") == "" {
				t.Error("nginx drops our headers")
			}
			// A browser that asked for the name sends it as its origin.
			for origin, ok := range map[string]bool{"http://" + tt.name: true, "http://evil.example": false} {
				conn, answer, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"ws",
					&websocket.DialOptions{Host: tt.name, HTTPHeader: http.Header{"Origin": {origin}}})
				if (err == nil) != ok {
					t.Errorf("origin %s: %v", origin, err)
				}
				if err == nil {
					conn.CloseNow()
				} else if answer.StatusCode != http.StatusForbidden {
					t.Errorf("origin %s: %s", origin, answer.Status)
				}
			}
		})
	}
}

// With a proxy that sends its own Host, every page counts as foreign until its
// origin is allowed.
func TestBehindAProxyThatChangesTheHost(t *testing.T) {
	t.Parallel()
	behind := start(t, nil, fast, "--source=simulate:rtx-4090", "--base-path=/gpuwhy", "--allow-origin=https://gpu.example.org")
	p := newProxy(t, "gpuwhy-below.conf", hostport(t, behind.url), "    proxy_set_header Host $http_host;\n", "").through(behind, "/gpuwhy/")
	for origin, ok := range map[string]bool{"https://gpu.example.org": true, "http://other.example.org": false} {
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"ws",
			&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		if (err == nil) != ok {
			t.Errorf("origin %s: %v", origin, err)
		}
		if conn != nil {
			conn.CloseNow()
		}
	}
}

// Pings keep a connection open on which nothing is sent for longer than the proxy's
// read timeout. Here both are short: nginx cuts after 10 s instead of 60 s, the hub
// pings every 3 s instead of every 20 s, and a hub that does not ping shows that nginx
// does cut. `make soak` uses the real times. A machine that stands still for so long
// misses a ping too; then the test tries again.
func TestPingsOutliveTheProxysTimeout(t *testing.T) {
	t.Parallel()
	testkit.Until(t, "the connection with pings stays, and the one without is cut", func() bool { return pingsOutlive(t) })
}

func pingsOutlive(t *testing.T) bool {
	newHub := func(pingEvery time.Duration) (*hub.Hub, *websocket.Conn, *proxy) {
		h := hub.New(hub.Config{
			Encode:    func(*insight.Moment, auth.Audience, func(*gpu.Device) bool) ([]byte, error) { return []byte("{}"), nil },
			Status:    func(auth.Audience, *insight.Fleet, []byte) ([]byte, error) { return []byte("{}"), nil },
			PingEvery: pingEvery, WriteTimeout: 3 * time.Second,
		})
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.Serve(w, r.WithContext(auth.NewContext(r.Context(), new(auth.LocalOwner()))), "")
		}))
		t.Cleanup(func() {
			if err := h.Shutdown(context.Background(), "the end"); err != nil {
				t.Error(err)
			}
			h.Wait()
			site.Close()
		})
		p := newProxy(t, "gpuwhy.conf", strings.TrimPrefix(site.URL, "http://"),
			"proxy_http_version 1.1;", "proxy_http_version 1.1; proxy_read_timeout 10s;")
		return h, dialQuiet(t, p), p
	}
	pinging, kept, _ := newHub(3 * time.Second)
	heard := make(chan error, 1)
	go func() {
		_, _, err := kept.Read(context.Background()) // and answers pings
		heard <- err
	}()
	_, quiet, p := newHub(time.Hour)
	if _, _, err := quiet.Read(t.Context()); err == nil {
		t.Fatal("a quiet hub has spoken")
	}
	p.said.await(t, "upstream timed out")
	pinging.Publish(insight.Of(&gpu.Snapshot{}))
	err := testkit.Receive(t, "an update, or the end of the connection with pings", heard)
	if err != nil {
		t.Logf("the connection with pings ended: %v", err)
	}
	return err == nil
}

// dialQuiet connects and reads the greeting; nothing comes after it.
func dialQuiet(t *testing.T, p *proxy) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://"+p.addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return conn
}

// serveHere serves without a sampler, in this process, until the test ends.
func serveHere(t *testing.T, basePath string) (a *app.App, address string) {
	t.Helper()
	f := &serveFlags{}
	f.Source, f.Listen, f.BasePath, f.Interval, f.Deadline, f.MaxViewers = []string{"simulate:rtx-4090"}, "127.0.0.1:0", basePath, time.Hour, time.Second, 9
	log := slog.New(slog.DiscardHandler)
	in, err := f.target().inputs(log)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = app.New((&daemon{programFlags: &f.programFlags}).options(), in, log); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		if err := a.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		site.Close()
	})
	return a, strings.TrimPrefix(site.URL, "http://")
}

// A page that is open while nginx restarts says that it is cut off, then reconnects on
// its own and shows what is new.
func TestPageReconnectsWhenNginxRestarts(t *testing.T) {
	t.Parallel()
	a, address := serveHere(t, "/gpuwhy/")
	b := browser.Open(t, 1440, 900)
	publish := func(snap *gpu.Snapshot) { // as one that was taken now
		snap.Time = time.Now()
		a.Publish(snap)
	}
	publish(fixture.Workstation())
	p := newProxy(t, "gpuwhy-below.conf", address)
	b.Visit("http://" + p.addr + "/gpuwhy/")
	b.Until(live)
	b.Do(chromedp.Evaluate[chromedp.Void](`void (window.sameDocument = true)`))
	b.Settle()
	p.stop()
	b.Until(`document.getElementById("state").dataset.state === "lost"`)
	if _, err := net.Dial("tcp", p.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("somebody listens where nginx was: %v", err)
	}
	publish(fixture.Server())
	p.start()
	b.Until(`document.getElementById("state").dataset.state === "live" && document.querySelectorAll(".cards > li").length === 8`)
	if !browser.Ask[bool](b, `window.sameDocument === true`) {
		t.Error("it was loaded anew")
	}
	b.Quiet("WebSocket connection to", "ERR_CONNECTION_REFUSED", "502 (Bad Gateway)", "Failed to fetch") // while it was away
}

// nginx asks another program who somebody is, and gpuwhy takes its word: with the person's role, on the page, over REST and the socket,
// whatever the client itself says.
func TestSignedInByNginx(t *testing.T) {
	t.Parallel()
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := r.Cookie("who")
		if r.URL.Path != "/oauth2/auth" || err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if who.Value != "nobody" {
			w.Header().Set("X-Auth-Request-Preferred-Username", who.Value)
		}
		if who.Value == "anna" {
			w.Header().Set("X-Auth-Request-Groups", "staff,gpu")
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	defer authority.Close()
	behind := start(t, nil, fast, "--source=simulate:rtx-4090", "--allow-host=gpu.example.org", "--trusted-proxy=127.0.0.1", "--proxy-sign-in=Remote-User",
		"--proxy-user="+strconv.Itoa(os.Getuid()), "--proxy-role=gpu=operator")
	p := newProxy(t, "gpuwhy-signed-in.conf", hostport(t, behind.url), "127.0.0.1:4180", strings.TrimPrefix(authority.URL, "http://")).through(behind, "/")
	as := func(who string, more ...string) http.Header {
		h := http.Header{"Host": {"gpu.example.org"}, "Accept": {"application/json"}, "Cookie": {"who=" + who}}
		for i := 0; i < len(more); i += 2 {
			h.Set(more[i], more[i+1])
		}
		return h
	}
	if answer, _ := p.fetch("/", http.Header{"Host": {"gpu.example.org"}, "Accept": {"text/html"}}); answer.StatusCode != http.StatusFound || !strings.HasSuffix(answer.Header.Get("Location"), "/oauth2/start?rd=/") {
		t.Errorf("a stranger gets %s to %s", answer.Status, answer.Header.Get("Location"))
	}
	silence := func(h http.Header) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"api/silences", strings.NewReader(`{"rule":"high_gpu_usage_alert","duration_seconds":60}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header, request.Host = h, "gpu.example.org"
		request.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for _, who := range []string{"anna", "otto"} {
		if answer, body := p.fetch("/api/gpu/summary", as(who)); answer.StatusCode != http.StatusOK {
			t.Errorf("%s may not look: %s %s", who, answer.Status, body)
		}
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(p.url, "http")+"ws", &websocket.DialOptions{Host: "gpu.example.org", HTTPHeader: http.Header{"Cookie": {"who=" + who}}})
		if err != nil {
			t.Errorf("%s has no socket: %v", who, err)
			continue
		}
		conn.CloseNow()
	}
	if code, said := silence(as("anna", "Remote-User", "root", "Remote-Groups", "nothing", "X-Forwarded-User", "root")); code != http.StatusCreated || !strings.Contains(said, `"by":"anna"`) {
		t.Errorf("an operator: %d %s", code, said)
	}
	if code, said := silence(as("otto", "Remote-Groups", "gpu")); code != http.StatusForbidden {
		t.Errorf("a viewer who says to be an operator: %d %s", code, said)
	}
	if code, said := silence(as("nobody", "Remote-User", "root")); code != http.StatusUnauthorized {
		t.Errorf("nobody who says to be root: %d %s", code, said)
	}
}
