//go:build !race

package main

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// askingCommands are all commands that ask a gpuwhy at an address.
var askingCommands = [][]string{
	{"past"}, {"sessions"}, {"usage"}, {"sessions", "--csv"}, {"why"}, {"why", "--watch", "0"}, {"top"}, {"history", "size"}, {"history", "export", "readings"},
	{"history", "export", "events", "--json"},
}

// raw is a server that reads each request, writes a text, and then nothing more. With an empty text, it writes nothing.
func raw(t *testing.T, text string) (address string) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil || strings.HasPrefix(text, "SSH") {
					_, _ = io.WriteString(c, text)
				}
				context.AfterFunc(t.Context(), func() { c.Close() })
			}()
		}
	}()
	return ln.Addr().String()
}

// Whatever answers, or if nothing does, a command ends and says what to do.
func TestCommandsEndWhateverAnswers(t *testing.T) {
	t.Parallel()
	page := func(status int, kind, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Location", "https://login.example.org/in?to="+r.URL.Path)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	circle := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	t.Cleanup(circle.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := page(200, "text/html", "<!doctype html>")
	for _, tt := range []struct{ name, url, says string }{
		{"accepts, and never answers", "http://" + raw(t, ""), "accepts connections but does not answer within 10s: check that this is gpuwhy's address"},
		{"answers garbage", "http://" + raw(t, "SSH-2.0-OpenSSH_9.2\r\n"), "is not gpuwhy: give its address with --url"},
		{"answers a page", plain, "is not gpuwhy: give its address with --url; if it is behind a sign-in"},
		{"leads to a sign-in", page(302, "text/html", ""), "redirects to https://login.example.org, as a sign-in would: give an address of gpuwhy"},
		{"leads in a circle", circle.URL, "redirects in a circle"},
		{"asks for a sign-in", page(401, "text/html", "no"), "asks for a sign-in (401 Unauthorized)"},
		{"is a proxy before nothing", page(502, "text/html", "no"), "can't reach gpuwhy (502 Bad Gateway): check that gpuwhy is running behind it"},
		{"speaks TLS", strings.Replace(secure.URL, "https", "http", 1), "speaks HTTPS: write https:// instead of http://"},
		{"speaks no TLS", strings.Replace(plain, "http", "https", 1), "speaks plain HTTP: write http:// instead of https://"},
		{"has a certificate of nobody", secure.URL, "is not trusted"},
		{"has no scheme", strings.TrimPrefix(plain, "http://"), "does not begin with http:// or https://: write " + plain},
		{"is no URL", "gpu box", "is not a URL of gpuwhy: write it as http://127.0.0.1:8003"},
		{"is a scheme alone", "http://", "is not a URL of gpuwhy: write it as"},
		{"has a password", "http://bob:hunter2@" + freeAddress(t), "no gpuwhy answers at http://bob:xxxxx@127.0.0.1:"},
		{"has no name", "http://nowhere.invalid", "there is no machine named \"nowhere.invalid\""},
		{"is not there", "http://" + freeAddress(t), "start it, or give its address with --url"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			commands := askingCommands
			if tt.name != "accepts, and never answers" { // the others ask in one of these ways
				commands = [][]string{{"past"}, {"why"}}
			}
			results := make([]result, len(commands))
			var all sync.WaitGroup // at once: they wait, and use no processor
			for i, args := range commands {
				all.Go(func() { results[i] = inside(append(args, "--url="+tt.url)...) })
			}
			all.Wait()
			for i, r := range results {
				if r.code == exitOK || r.stdout != "" || !strings.Contains(r.stderr, tt.says) || strings.Count(r.stderr, "\n") != 1 {
					t.Errorf("%v: exit status %d, %q, %s", commands[i], r.code, r.stdout, r.stderr)
				}
			}
		})
	}
}
