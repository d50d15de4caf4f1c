// Package promtest starts a Prometheus for tests: one of its own, with no data, that ends with the test.
package promtest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// Program finds one of Prometheus' programs.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("%s is missing; make test installs it, or on Debian: apt-get install --no-install-recommends prometheus", name)
	}
	return path
}

// A Server is a Prometheus that runs.
type Server struct {
	URL string // without a slash at its end
}

// Start starts one with the configuration and returns when it is ready.
func Start(tb testing.TB, config string, args ...string) *Server {
	tb.Helper()
	dir := tb.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), Program(tb, "prometheus"), append([]string{
		"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0",
	}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = testkit.Patience
	stderr, err := cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var log strings.Builder
	address, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(address)
		listening := regexp.MustCompile(`msg="Listening on" address=(\S+)`)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			log.WriteString(lines.Text() + "\n")
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	tb.Cleanup(func() { // the test's context has ended, and with it Prometheus
		<-ended
		if err := cmd.Wait(); tb.Failed() {
			tb.Logf("Prometheus: %v\n%s", err, log.String())
		}
	})
	addr, ok := <-address
	if !ok {
		tb.Fatal("Prometheus ended at once")
	}
	s := &Server{URL: "http://" + addr}
	// It listens before it answers questions and takes series.
	testkit.Until(tb, "Prometheus is ready", func() bool {
		res, err := s.ask(tb, "/-/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close() // nobody reads it
		return res.StatusCode == http.StatusOK
	})
	return s
}

func (s *Server) ask(tb testing.TB, path string) (*http.Response, error) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Close = true
	return http.DefaultClient.Do(req)
}

// Get asks the API and decodes what is under "data".
func (s *Server) Get(tb testing.TB, path string, values url.Values, data any) {
	tb.Helper()
	res, err := s.ask(tb, path+"?"+values.Encode())
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		tb.Fatalf("%s %v: %v", path, values, err)
	}
	if answer.Status != "success" {
		tb.Fatalf("%s %v: %s", path, values, answer.Error)
	}
}

// A Series is one of an answer to a query. Value has a time and a number as text; so has each of Values, of a range.
type Series struct {
	Metric map[string]string
	Value  [2]any
	Values [][2]any
}

// Query asks for an expression at a time, which is as Prometheus takes times.
func (s *Server) Query(tb testing.TB, expr, instant string) []Series {
	tb.Helper()
	var data struct{ Result []Series }
	s.Get(tb, "/api/v1/query", url.Values{"query": {expr}, "time": {instant}}, &data)
	return data.Result
}
