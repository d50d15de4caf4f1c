package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A running program is the whole program, in this process, on a simulated machine.
type running struct {
	t      *testing.T
	url    string // ends with a slash
	reload chan os.Signal
	stop   func() // ends it and waits for that
}

// run runs the program until the test ends. No device and no viewer is too slow for it, so that it works on a
// busy machine.
func run(t *testing.T, opt Options) *running {
	t.Helper()
	nodes, err := sim.Nodes("dgx-h100", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	source := nodes[0]
	opt.Listen, opt.BasePath, opt.MaxViewers = "127.0.0.1:0", "/", 100
	opt.Interval, opt.AlertUtilization = 250*time.Millisecond, 50
	opt.Deadline, opt.Goodbye = testkit.Patience, testkit.Patience
	in := &Inputs{Node: source.Node(), Origin: "simulate:dgx-h100", Sources: []sampler.Source{source}}
	a, err := New(opt, []*Inputs{in}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", opt.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &running{t: t, url: "http://" + ln.Addr().String() + "/", reload: make(chan os.Signal, 1)}
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, ln, p.reload) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// ask sends a request and returns the status and the text of the answer.
func (p *running) ask(method, path, body string, header http.Header) (int, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	r.Host = header.Get("Host")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// A page sends requests like a page of some origin.
type page struct{ origin string }

func (p page) RoundTrip(r *http.Request) (*http.Response, error) {
	if r = r.Clone(r.Context()); p.origin != "" {
		r.Header.Set("Origin", p.origin)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// dial connects to the socket like a page of that origin; "" for none.
func (p *running) dial(origin string) (*client.Stream, error) {
	c, err := client.New(p.url, client.Options{Transport: page{origin}})
	if err != nil {
		return nil, err
	}
	stream, err := c.Dial(p.t.Context(), "")
	if err == nil {
		p.t.Cleanup(func() { stream.Close() })
	}
	return stream, err
}

func (p *running) viewer() *client.Stream {
	p.t.Helper()
	stream, err := p.dial("")
	if err != nil {
		p.t.Fatal(err)
	}
	return stream
}

// await reads messages until one satisfies the condition.
func (p *running) await(stream *client.Stream, what string, is func(*client.Message) bool) {
	p.t.Helper()
	if err := read(stream, is); err != nil {
		p.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// read reads messages until one satisfies the condition.
func read(stream *client.Stream, is func(*client.Message) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	for {
		m, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		if is(&m) {
			return nil
		}
	}
}

// All parts of the program work together while viewers connect, ask, never read and
// leave. With the race detector, this shows that they share nothing unguarded.
func TestTheWholeProgram(t *testing.T) {
	told := make(chan string, 1000)
	phone := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // the test looks at what has come
		told <- string(text)
	}))
	t.Cleanup(phone.Close)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	write := func(rules string) {
		t.Helper()
		text := rules + "\ngroup_wait: 0s\ntargets:\n" +
			"- {name: phone, url: '" + strings.Replace(phone.URL, "http", "generic", 1) + "/hook?disabletls=yes'}\n" +
			"- {name: dead, url: '" + strings.Replace(dead.URL, "http", "generic", 1) + "/hook?disabletls=yes'}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("rules: [{name: busy, watch: utilization, above: 0, hold: 0s}]")
	opt := Options{Version: "test", AlertRules: file, StateDir: t.TempDir()}
	p := run(t, opt)

	p.viewer() // never reads
	viewers := make([]*client.Stream, 8)
	var asking sync.WaitGroup
	for i := range viewers {
		viewers[i] = p.viewer()
		asking.Go(func() {
			for _, text := range []string{`{"event":"subscribe","data":{"gpus":[1]}}`, `{"event":"request_gpu_update","id":1}`} {
				if err := viewers[i].SendText(t.Context(), text); err != nil {
					t.Error(err)
				}
			}
			if err := read(viewers[i], func(m *client.Message) bool { return m.Event == client.EventUpdate && string(m.ID) == "1" }); err != nil {
				t.Errorf("waiting for an answer: %v", err)
			}
		})
		for _, path := range []string{"", "alerts", "gpu/0", "metrics", "api/gpu/summary", "api/gpu/why", "api/gpu/recent", "api/alerts", "health/detailed", "docs/events"} {
			asking.Go(func() {
				if status, text := p.ask(http.MethodGet, path, "", nil); status != http.StatusOK && status != http.StatusServiceUnavailable && path != "gpu/0" {
					t.Errorf("%s: %d: %s", path, status, text)
				}
			})
		}
	}
	asking.Wait()
	for _, v := range viewers {
		v.Close()
	}
	first := p.viewer() // is sent what fires already
	var alert client.Alert
	is := func(rule, state string) func(*client.Message) bool {
		return func(m *client.Message) bool {
			return m.Event == client.EventAlert && m.Decode(&alert) == nil && alert.Rule == rule && alert.State == state
		}
	}
	p.await(first, "the rule fires", is("busy", "firing"))
	if status, text := p.ask(http.MethodPost, "api/alerts/"+alert.ID+"/acknowledge", `{"comment":"known"}`, nil); status != http.StatusOK {
		t.Errorf("acknowledge: %d: %s", status, text)
	}
	testkit.Receive(t, "a message to the phone", told)
	// A target that is dead is on /metrics, by its name alone.
	lines := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^gpuwhy_notifications_total\{node="[^"]*",target="dead",result="sent"\} 0$`),
		regexp.MustCompile(`(?m)^gpuwhy_notification_target_failing\{node="[^"]*",target="dead"\} 1$`),
	}
	p.await(first, "the target is failing", func(*client.Message) bool {
		_, text := p.ask(http.MethodGet, "metrics", "", nil)
		if strings.Contains(text, strings.TrimPrefix(dead.URL, "http://")) {
			t.Error("/metrics has the address of a target")
		}
		return lines[0].MatchString(text) && lines[1].MatchString(text)
	})
	write("rules: [{name: busy, watch: utilization, above: 0, hold: 0s}, {name: warm, watch: temperature, above: 1, hold: 0s}]")
	p.reload <- syscall.SIGHUP
	p.await(first, "the new rule fires", is("warm", "firing"))
	left := make(chan error, 1)
	go func() { left <- read(first, func(*client.Message) bool { return false }) }()
	p.stop()
	goodbye, ok := errors.AsType[websocket.CloseError](testkit.Receive(t, "a goodbye", left))
	if !ok || goodbye.Code != websocket.StatusGoingAway || goodbye.Reason == "" {
		t.Errorf("the viewer got %v, want 1001 and a reason", goodbye)
	}

	p = run(t, opt)
	p.await(p.viewer(), "an alert is there again", func(m *client.Message) bool { return m.Event == client.EventAlert })
	if _, text := p.ask(http.MethodGet, "api/alerts", "", nil); !strings.Contains(text, `"by":"local owner","comment":"known"`) {
		t.Errorf("after a restart nobody has acknowledged: %.300s", text)
	}
}

// Without a rules file, a signal to reread the rules changes nothing.
func TestAReloadWithoutRules(t *testing.T) {
	p := run(t, Options{})
	p.reload <- syscall.SIGHUP
	p.reload <- syscall.SIGHUP // has room once the first was taken
	p.await(p.viewer(), "there is a reading", func(m *client.Message) bool { return m.Event == client.EventUpdate })
}

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	origins, err := auth.ParseOrigins([]string{"https://board.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	p := run(t, Options{Address: serve.Address{AllowHosts: []string{"gpu.example.org"}, AllowOrigins: origins}})
	for host, ok := range map[string]bool{"evil.example": false, "gpu.example.org": true, "localhost:8003": true, "127.0.0.1": true} {
		if status, text := p.ask(http.MethodGet, "api/gpu/summary", "", http.Header{"Host": {host}}); (status == http.StatusOK) != ok {
			t.Errorf("Host %s: %d\n%s", host, status, text)
		}
	}
	for origin, ok := range map[string]bool{"https://evil.example": false, "https://board.example.org": true, strings.TrimSuffix(p.url, "/"): true} {
		if _, err := p.dial(origin); (err == nil) != ok {
			t.Errorf("Origin %s: %v", origin, err)
		}
	}
}
