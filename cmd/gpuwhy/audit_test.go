//go:build !race

package main

import (
	"database/sql"
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/contract"
)

// Who did what is recorded by the running program and by commands without one, in one chain, which shows where somebody changed it. The log has
// each entry, too. What has changed of the settings since the last run is an entry.
func TestAudit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	do := func(code int, says string, args ...string) string {
		t.Helper()
		r := command(t, nil, append(args, "--state-dir", dir)...)
		if r.code != code || !strings.Contains(r.stdout, says) || r.stderr != "" {
			t.Errorf("gpuwhy %v: %+v, want %q", args, r, says)
		}
		return r.stdout
	}
	do(exitOK, "There is no such entry.\n", "audit", "list", "--result", "failed")
	do(exitOK, "ann", "user", "add", "ann", "--role", "viewer")
	do(exitOK, "was changed. The hash of the last is ", "audit", "check")

	p := start(t, nil, "--source", "simulate:rtx-4090", "--interval", "250ms", "--state-dir", dir, "--log-format", "json", "--keep-audit", "2y")
	p.await("it reads", func(u contract.Update) bool { return u.Available })
	if r := command(t, nil, "do", "silence-matching", "--rule", "xid", "--duration", "1m", "--comment", "a test", "--url", p.url); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	listed := do(exitOK, "silenceAlerts", "audit", "list")
	for _, want := range []string{"addUser", "changeSettings", `{"rule":"xid","comment":"a test","duration_seconds":60}`, "readAudit"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%s is not in\n%s", want, listed)
		}
	}
	var found client.Audit
	if err := json.Unmarshal([]byte(do(exitOK, "", "audit", "list", "--json", "--action", "silenceAlerts", "--result", "done")), &found); err != nil || len(found.Entries) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if e := &found.Entries[0]; e.Of == 0 || e.Way != "local" || !strings.Contains(string(e.After), `"comment": "a test"`) || e.Address == "" {
		t.Errorf("%+v", e)
	}
	settings := do(exitOK, "", "audit", "list", "--json", "--action", "changeSettings")
	if !strings.Contains(settings, `"keep-audit": "2y"`) {
		t.Errorf("%s", settings)
	}
	do(exitOK, "was changed", "audit", "check")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if text := p.log.String(); !strings.Contains(text, `"msg":"audit","part":"audit","entry":`) {
		t.Errorf("the log has no entry: %s", text)
	}

	db, err := sql.Open("sqlite", filepath.Join(dir, accountsFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE audit SET doc = replace(doc, 'a test', 'no test') WHERE number = ?", found.Entries[0].Of); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	do(exitError, "Somebody changed the database by hand", "audit", "check")
}

// Settings are recorded without secrets, and only those that differ from the default.
func TestUnusualSettings(t *testing.T) {
	t.Parallel()
	cmd, err := parse([]string{
		"serve", "--interval", "5s", "--history", "postgres://anna:sesame@db/gpuwhy?sslpassword=sesame&x=y", "--allow-host", "a.example,b.example", "--listen", ":9000",
	}, t.Output(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	got := cmd.(*serveCommand).settings
	want := map[string]string{
		"history": "postgres://anna:(hidden)@db/gpuwhy?sslpassword=(hidden)&x=y", "allow-host": "a.example, b.example", "listen": ":9000",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if got["interval"] != "" || strings.Contains(strings.Join(values(got), " "), "sesame") {
		t.Errorf("%v", got)
	}
}

func values(all map[string]string) (list []string) {
	for _, v := range all {
		list = append(list, v)
	}
	return list
}
