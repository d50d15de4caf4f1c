package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestNotifyTest(t *testing.T) {
	t.Parallel()
	var hooks atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || !strings.Contains(string(body), "This is a test of the messages that gpuwhy sends."):
			w.WriteHeader(http.StatusBadRequest)
		case strings.HasPrefix(r.URL.Path, "/hook"):
			hooks.Add(1)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const secret = "s3cr3t-t0ken-in-the-path"
	rules := write("rules.yaml", `
targets:
  - {name: hook, url: "generic://`+host+`/hook?disabletls=yes"}
  - {name: refuses, url_file: `+write("address", "generic://user:"+secret+"@"+host+"/"+secret+"?disabletls=yes\n")+`}
  - {name: other, url_env: NOTIFY_TEST_OTHER}
`)
	env := []string{"NOTIFY_TEST_OTHER=generic://" + host + "/hook/" + secret + "?disabletls=yes"}
	if r := command(t, env, "notify", "test", "hook", "other", "--alert-rules", rules); r.code != exitOK || r.stdout != "hook: ok\nother: ok\n" || hooks.Load() != 2 {
		t.Errorf("%+v, %d messages", r, hooks.Load())
	}
	r := command(t, env, "notify", "test", "--alert-rules", rules)
	if lines := strings.Split(r.stdout, "\n"); r.code != exitError || len(lines) != 4 || lines[0] != "hook: ok" || lines[2] != "other: ok" ||
		!strings.HasPrefix(lines[1], "refuses: failed: it refuses us: its key or password is wrong, or not valid any more (") {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"--alert-rules", rules, "nobody"}, "hook, refuses, other"},
		{nil, "--alert-rules"},
		{[]string{"--alert-rules", write("empty.yaml", "targets: []\n")}, "no targets"},
		{[]string{"--alert-rules", write("unset.yaml", "targets: [{name: a, url_env: NOTIFY_TEST_NOBODY_SETS_THIS}]\n")}, "NOTIFY_TEST_NOBODY_SETS_THIS"},
		{[]string{"--alert-rules", write("bare.yaml", "targets: [{name: a, url: 'slack://hook:"+secret+"@webhook'}]\n")}, "url_env"},
	} {
		if r := command(t, env, append([]string{"notify", "test"}, tt.args...)...); r.code != exitUsage || !strings.Contains(r.stderr, tt.says) || strings.Contains(r.stderr, secret) {
			t.Errorf("%v: %+v", tt.args, r)
		}
	}
	if strings.Contains(r.stdout+r.stderr, secret) || strings.Contains(r.stdout+r.stderr, host) {
		t.Errorf("the address is told: %+v", r)
	}
}
