//go:build !race

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error for an unknown name lists the known ones, and suggests the likely one.
func TestUnknownNamesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		args []string
		says []string
	}{
		{[]string{"usage", "--by=usr"}, []string{`must be one of "user","process",`, `(did you mean "user"?)`}},
		{[]string{"history", "export", "reading"}, []string{`must be one of "readings",`, `(did you mean "readings"?)`}},
		{[]string{"--log-level=warning"}, []string{`must be one of "debug",`, `(did you mean "warn"?)`}},
		{[]string{"--lisen=:1"}, []string{`did you mean`, `--listen`}},
		{[]string{"sesions"}, []string{`did you mean one of "sessions"`}},
		{[]string{"--config=" + write("key.yaml", "alow-host: a\n")}, []string{`unknown key "alow-host" (did you mean "allow-host"?)`}},
		{[]string{"check-config", "--alert-rules=" + write("watch.yaml", "rules: [{name: mine, watch: temprature}]\n")}, []string{`(did you mean "temperature"?); use one of`}},
		{[]string{"check-config", "--alert-rules=" + write("target.yaml", "rules: [{name: hot, notify: [op]}]\ntargets: [{name: ops, url: 'generic://127.0.0.1:1/'}]\n")}, []string{`no target is named "op" (did you mean "ops"?); targets: ops`}},
		{[]string{"notify", "test", "op", "--alert-rules=" + write("ops.yaml", "targets: [{name: ops, url: 'generic://127.0.0.1:1/'}]\n")}, []string{`there is no target "op" (did you mean "ops"?); the targets are ops`}},
	} {
		r := command(t, nil, tt.args...)
		for _, want := range tt.says {
			if r.code == exitOK || !strings.Contains(r.stderr, want) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%v: exit status %d: %s, want %s", tt.args, r.code, r.stderr, want)
			}
		}
	}
}
