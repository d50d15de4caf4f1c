package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuwhy/gpuwhy/internal/certs"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// Over TLS there is all that there is without: pages by HTTP/2, and sockets, which get readings and are counted until they leave. Without
// TLS its port answers what is wrong, and another port leads to it.
func TestTLS(t *testing.T) {
	t.Parallel()
	listen := func() net.Listener {
		t.Helper()
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	nodes, err := sim.Nodes("dgx-h100", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ln, plain := listen(), listen()
	a, err := New(Options{
		Address: serve.Address{Listen: "127.0.0.1:0", BasePath: "/", MaxViewersOfAddress: 5}, MaxViewers: 100, Interval: 250 * time.Millisecond, AlertUtilization: 50,
		Deadline: testkit.Patience, Goodbye: testkit.Patience, TLS: &certs.Options{SelfSigned: true, Redirect: plain}, StateDir: t.TempDir(),
	}, []*reading.Inputs{{Node: nodes[0].Node(), Origin: "simulate:dgx-h100", Sources: []sampler.Source{nodes[0]}}}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, ln, make(chan os.Signal)) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	transport := http.DefaultTransport.(*http.Transport).Clone()      //nolint:forcetypeassert // it is one
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // other tests see to the certificate
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(address string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(body)
	}
	secure := "https://" + ln.Addr().String()
	if answer, _ := get(secure + "/"); answer.StatusCode != http.StatusOK || answer.ProtoMajor != 2 || answer.TLS.Version < tls.VersionTLS12 || answer.Header.Get("Strict-Transport-Security") != "" { //nolint:bodyclose // get closes it
		t.Errorf("the page: %d over %s, %v", answer.StatusCode, answer.Proto, answer.Header)
	}
	if answer, body := get("http://" + ln.Addr().String() + "/"); answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, "HTTPS") { //nolint:bodyclose // get closes it
		t.Errorf("without TLS: %d %s", answer.StatusCode, body)
	}
	if answer, _ := get("http://" + plain.Addr().String() + "/past?since=1h"); answer.StatusCode != http.StatusTemporaryRedirect || answer.Header.Get("Location") != secure+"/past?since=1h" { //nolint:bodyclose // get closes it
		t.Errorf("the other port: %d to %s", answer.StatusCode, answer.Header.Get("Location"))
	}
	var health struct {
		Parts map[string]struct{ State string }
	}
	if _, body := get(secure + "/api/health"); json.Unmarshal([]byte(body), &health) != nil || health.Parts["tls"].State != "ok" { //nolint:bodyclose // get closes it
		t.Errorf("health says %s", body)
	}

	// More than may be there at once, so that some are only let in because others have left.
	for range 8 {
		conn, _, err := websocket.Dial(t.Context(), secure+"/ws", &websocket.DialOptions{HTTPClient: browser}) //nolint:bodyclose // Dial says that nobody needs to
		if err != nil {
			t.Fatal(err)
		}
		conn.SetReadLimit(-1)
		for seen := ""; seen != "gpu_status_update"; {
			_, text, err := conn.Read(t.Context())
			var message struct{ Event string }
			if err := errors.Join(err, json.Unmarshal(text, &message)); err != nil {
				t.Fatal(err)
			}
			seen = message.Event
		}
		if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
		testkit.Until(t, "the viewer has left", func() bool { return a.Hub.Stats().Viewers == 0 && a.viewers.routes.Crowd().Refused == 0 })
	}
}
