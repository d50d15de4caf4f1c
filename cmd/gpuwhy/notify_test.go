//go:build !race

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

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func TestNotifyTest(t *testing.T) {
	t.Parallel()
	var hooks atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || !strings.Contains(string(body), "This is a test message from gpuwhy."):
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
		!strings.HasPrefix(lines[1], "refuses: failed: it denied access: the key or password is wrong or no longer valid (") {
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

// What a target was sent is stored soon afterwards: a program that is killed later does
// not send it again, but still sends that the alert is over.
func TestToldOnceOverACrash(t *testing.T) {
	t.Parallel()
	messages := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		messages <- string(body)
	}))
	t.Cleanup(server.Close)
	next := func() string {
		t.Helper()
		return testkit.Receive(t, "a message", messages)
	}
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	dir := t.TempDir()
	args := []string{fast, "--history=off", "--state-dir=" + dir, "--alert-rules=" + rulesFile(t, hotRules+`
targets: [{name: hook, url: "generic://`+strings.TrimPrefix(server.URL, "http://")+`/?disabletls=yes"}]
group_wait: 1s
group_interval: 1s
`)}
	p := start(t, lib.Env(), args...)
	if text := next(); !strings.Contains(text, "[warning hot] ") {
		t.Fatalf("told: %q", text)
	}
	p.await("it is kept that the target was told", func(contract.Update) bool {
		text, err := os.ReadFile(filepath.Join(dir, "notifications.json"))
		return err == nil && strings.Contains(string(text), `"pending":[]`) && strings.Contains(string(text), `"told":true`)
	})
	p.kill()

	p = start(t, lib.Env(), args...)
	v := p.dial()
	v.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	m.GPU(0).Set(fakenvml.Temperature, 50)
	v.nextAlert("it is over", func(a contract.Alert) bool { return a.Rule == "hot" && a.State == "resolved" })
	if text := next(); !strings.Contains(text, ", over] ") || strings.Contains(text, "now; ") {
		t.Errorf("told: %q", text)
	}
}
