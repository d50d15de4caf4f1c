//go:build !race

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The settings in force, and where each comes from.
func TestConfigShow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpuwhy.yaml")
	text := "interval: 7s\nnode: from-file\n\nhistory: postgres://ann:s3cret@db.example/past\nallow-host: [a.example, b.example]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUWHY_NODE", "from-environment")
	args := []string{"config", "show", "--config", file, "--interval=9s"}
	r := inside(append(args, "--json")...)
	var all []setting
	if err := json.Unmarshal([]byte(r.stdout), &all); r.code != exitOK || err != nil {
		t.Fatalf("status %d, %v: %s%s", r.code, err, r.stdout, r.stderr)
	}
	got := map[string]setting{}
	for _, s := range all {
		got[s.Name] = s
	}
	for _, want := range []setting{
		{"interval", "9s", "5s", fromLine, "--interval"},
		{"node", "from-environment", "", fromEnvironment, "$GPUWHY_NODE"},
		{"history", "postgres://ann:(hidden)@db.example/past", "sqlite", fromFile, file + ":4"},
		{"allow-host", "a.example, b.example", "", fromFile, file + ":5"},
		{"deadline", "1m0s", "2s", fromEnvironment, "$GPUWHY_DEADLINE"}, // of all tests
		{"listen", defaultListen, "", fromDefault, ""},
		{"source", "auto", "auto", fromDefault, ""},
	} {
		if got[want.Name] != want {
			t.Errorf("%+v, want %+v", got[want.Name], want)
		}
	}
	// All settings are there.
	for _, flag := range settings() {
		if _, shown := got[flag.Name]; !shown {
			t.Errorf("--%s is missing", flag.Name)
		}
	}
	if strings.Contains(r.stdout, "s3cret") {
		t.Error("the password is shown")
	}
	r = inside(append(args, "--changed")...)
	if r.code != exitOK || !strings.HasPrefix(r.stdout, "SETTING") || strings.Contains(r.stdout, "listen") || !strings.Contains(r.stdout, "--interval") {
		t.Errorf("status %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if err := checked("config", "check", "--interval=1ms"); err == nil {
		t.Error("config check takes anything")
	}
}

// Errors name what was probably meant.
func TestErrorsNameTheNearest(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"histry":                       `did you mean "history"`,
		"export":                       `did you mean "history export"`,
		"history exprt":                `did you mean "export"`,
		"do silnce x":                  `did you mean "silence"`,
		"why --wach":                   `did you mean "--watch"`,
		"why --showcommand=all":        `did you mean "--show-commands"`,
		"--source=nvdia-smi":           `did you mean "nvidia-smi"`,
		"--source=simulate:dgx":        `did you mean "dgx-h100"`,
		"snapshot -o jsn":              `did you mean "json"`,
		"completion bsh":               `did you mean "bash"`,
		"audit list --result=don":      `did you mean "done"`,
		"history export events --tire": `did you mean "--tier"`,
	} {
		cmd, err := parse(strings.Fields(line), io.Discard, io.Discard)
		if err == nil {
			err = cmd.check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("gpuwhy %s: %v, want %s", line, err, want)
		}
	}
}
