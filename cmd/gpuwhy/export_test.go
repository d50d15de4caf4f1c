//go:build !race

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// The program sends its series, says where sending fails, and shows no secret.
func TestSeriesAreSent(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-t0ken"
	var let atomic.Bool
	var taken atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/metrics" && r.Header.Get("Authorization") != "Bearer "+secret, !let.Load():
			w.WriteHeader(http.StatusUnauthorized)
		default:
			taken.Add(1)
			w.WriteHeader(http.StatusOK)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "credentials.yaml")
	if err := os.WriteFile(file, []byte("bearer_token: "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--remote-write=" + server.URL + "/write?key=" + secret, "--remote-write-credentials=" + file, "--otlp=" + server.URL}
	if r := inside(append([]string{"check-config"}, flags...)...); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, wrong := range [][]string{
		{"--remote-write=prometheus"},
		{"--otlp=http://user:" + secret + "@x"},
		{"--otlp-credentials=" + file},
		append(flags[:1:1], "--remote-write-credentials="+file+".none"),
	} {
		if r := inside(append([]string{"check-config"}, wrong...)...); r.code != exitUsage || strings.Contains(r.stdout+r.stderr, secret) {
			t.Errorf("%v: %d %s%s", wrong, r.code, r.stdout, r.stderr)
		}
	}

	p := start(t, nil, append(flags, "--source=simulate:rtx-4090", "--interval=250ms", "--state-dir="+nowhere)...)
	until := func(what string, is func(contract.Part, string) bool) {
		t.Helper()
		var part contract.Part
		testkit.Until(t, what, func() bool {
			var health contract.MonitorHealth
			p.get("/api/health", &health)
			part = health.Parts["export"]
			_, metrics := p.fetch("/metrics", nil)
			for _, text := range []string{string(metrics), p.log.String(), p.text("/about")} {
				if strings.Contains(text, secret) {
					t.Fatalf("it shows a secret:\n%s", text)
				}
			}
			return is(part, string(metrics))
		}, func() any { return part })
	}
	until("it says that it is not let in", func(part contract.Part, said string) bool {
		return part.State == "failed" && part.LastError != nil && strings.Contains(*part.LastError, "credentials") &&
			strings.Contains(said, `gpuwhy_export_failing{node="`) && strings.Contains(said, `result="failed"`)
	})
	let.Store(true)
	until("series are taken", func(part contract.Part, _ string) bool {
		return part.State == "ok" && part.LastSuccess != nil && taken.Load() > 3
	})
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
