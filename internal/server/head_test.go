package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/fixture"
)

// Headers that are ready are the same headers: each answer over a connection that has them ready is as one
// without, for all addresses, and for requests that ask in other ways.
func TestReadyHeadersAreTheSameHeaders(t *testing.T) {
	change := func(c *Config) {
		c.AllowOrigins, c.AllowEmbed = origins(t, board), auth.Frames{"https://wiki.example.org"}
	}
	st, cfg := newStage()
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st.show(t, fixture.Server())
	ask := pair(t, s.Handler())
	paths := slices.Collect(maps.Keys(addresses(t, cfg)))
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return path == "/api/health" || path == "/health/detailed" || path == "/" // for how long it runs, and how often a page was made
	})
	paths = append(paths, "/nothing", "/gpu/metrics/99", "/gpu/metrics?a=b;c", "/node/dgx-1/api/gpu/summary", "/static", "/api//gpu/summary")
	etag := ask(t, "GET /api/gpu/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").Get("Etag")
	zipped := ask(t, "GET /api/gpu/summary HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n").Get("Etag")
	if etag == "" || zipped == "" || etag == zipped {
		t.Fatalf("ETags %q and %q", etag, zipped)
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			for _, headers := range []string{
				"", "Accept-Encoding: gzip\r\n", "Accept: text/html\r\n", "Origin: " + board + "\r\n", "If-None-Match: *\r\n",
				"If-None-Match: " + etag + "\r\n", "Accept-Encoding: gzip\r\nIf-None-Match: " + zipped + "\r\n",
			} {
				ask(t, method+" "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+headers+"\r\n")
			}
		}
	}
	ask(t, "GET /api/gpu/summary HTTP/1.0\r\nHost: localhost\r\n\r\n")
	ask(t, "GET /api/gpu/summary HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
	ask(t, "GET /api/gpu/summary HTTP/1.1\r\n\r\n")
	ask(t, "nonsense\r\n\r\n")
	ask(t, "POST /api/silences HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]")
	pipelined := "GET /api/gpu/summary HTTP/1.1\r\nHost: localhost\r\n\r\n"
	ask(t, pipelined+pipelined+"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n"+pipelined+"GET /docs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

func FuzzReadyHeaders(f *testing.F) {
	st, h := serving(f)
	st.show(f, fixture.Server())
	ask := pair(f, h)
	f.Add("GET", "/api/gpu/summary", "Accept-Encoding: gzip", "")
	f.Add("HEAD", "/docs", "If-None-Match: *", "")
	f.Add("POST", "/api/silences", "Expect: 100-continue", "{}")
	f.Fuzz(func(t *testing.T, method, path, header, body string) {
		name, _, _ := strings.Cut(strings.ToLower(header), ":")
		if strings.ContainsAny(method+path+header, "\r\n") || strings.Contains(path, "health") || slices.Contains([]string{"transfer-encoding", "content-length"}, name) {
			t.Skip("more than a header, another answer each time, or a body that never comes")
		}
		ask(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\nContent-Length: %d\r\n\r\n%s", method, path, header, len(body), body))
	})
}

// pair returns a function that asks two servers the same, one of which has headers ready. It compares all
// that they answer, but for the order of headers and the time, and returns the headers of the first answer.
func pair(tb testing.TB, h http.Handler) func(t *testing.T, request string) http.Header {
	tb.Helper()
	serve := func(ready bool) (address string) {
		ts := httptest.NewUnstartedServer(nil)
		ts.Config = HTTPServer(h, slog.New(slog.DiscardHandler))
		if ready {
			ts.Listener, ts.Config.ConnContext = Listen(ts.Listener), withHead
		}
		ts.Start()
		tb.Cleanup(ts.Close)
		return ts.Listener.Addr().String()
	}
	with, without := serve(true), serve(false)
	return func(t *testing.T, request string) http.Header {
		t.Helper()
		method, _, _ := strings.Cut(request, " ")
		got, header := answersIn(t, method, written(t, with, request))
		want, _ := answersIn(t, method, written(t, without, request))
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n%.2000q\nwithout ready headers:\n%.2000q", request, got, want)
		}
		return header
	}
}

// answersIn takes apart what a server wrote.
func answersIn(t *testing.T, method string, text []byte) (answers []string, first http.Header) {
	t.Helper()
	for in := bufio.NewReader(bytes.NewReader(text)); ; {
		if _, err := in.Peek(1); err != nil {
			return answers, first
		}
		answer, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			rest, _ := io.ReadAll(in) // what net/http says of what is no request
			return append(answers, err.Error(), string(rest)), first
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		answer.Header.Del("Date")
		var lines []string
		for name, values := range answer.Header {
			for _, value := range values {
				lines = append(lines, name+": "+value)
			}
		}
		slices.Sort(lines)
		answers = append(answers, fmt.Sprint(answer.Proto, answer.Status, answer.ContentLength, answer.TransferEncoding, answer.Close, lines, string(body)))
		if first == nil {
			first = answer.Header
		}
	}
}

// written is all that a server answers until it closes the connection.
func written(t *testing.T, address, request string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request) // it fails where the server has seen enough
	answer, _ := io.ReadAll(conn)        // or what there is before it was reset
	return answer
}

// What is no beginning of an answer is not written with headers in it.
func TestReadyHeadersNeedAnAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := Listen(ln).Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := accepted.(*headConn)
	for _, text := range []string{"half of a body", "half of a\r\nbody", "HTTP/1.1 200 OK", ""} {
		c.head = fixedHead
		if n, err := c.Write([]byte(text)); err == nil || n != 0 {
			t.Errorf("%q: %d bytes, %v", text, n, err)
		}
	}
	const answer = "HTTP/1.1 204 No Content\r\n\r\n"
	for range 2 { // the second has none
		if n, err := io.WriteString(c, answer); err != nil || n != len(answer) {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	_ = c.Close()
	got, err := io.ReadAll(client)
	if want := "HTTP/1.1 204 No Content\r\n" + string(fixedHead) + "\r\n" + answer; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
