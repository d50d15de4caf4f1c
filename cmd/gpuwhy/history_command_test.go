//go:build !race

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// unserved runs a command that finds no server, if it looks for one.
func unserved(args ...string) []string {
	if slices.Contains(args, "check") || slices.Contains(args, "compact") {
		return slices.Clone(args)
	}
	return append(slices.Clone(args), noServer)
}

// A program's database can be measured, printed and checked while the program writes, and afterwards. It can be compacted only
// afterwards.
func TestTheDatabase(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	dir := t.TempDir()
	file := filepath.Join(dir, historyFile)
	p := start(t, lib.Env(), fast, "--state-dir="+dir)
	p.await("it answers, and the machine is known", func(u contract.Update) bool { return u.Answering == 1 && u.Host != nil })
	p.remembered()
	ask := func(where string, args ...string) result {
		t.Helper()
		args = append(unserved(append([]string{"history"}, args...)...), "--state-dir="+dir)
		if where != "" {
			args = append(args, where)
		}
		r := command(t, nil, args...)
		if r.code != exitOK {
			t.Fatalf("%v: %+v", args, r)
		}
		if said := strings.Contains(r.stderr, "the answer is from "+file); said != (where == "") && args[1] != "check" && args[1] != "compact" {
			t.Errorf("%v: where the answer comes from: %s", args, r.stderr)
		}
		return r
	}
	everything := func(where string) {
		t.Helper()
		var size contract.PastSize
		if err := json.Unmarshal([]byte(ask(where, "size", "--json").stdout), &size); err != nil {
			t.Fatal(err)
		}
		if len(size.Kinds) != 8 || size.Kinds[0].Rows < 1 || size.Kinds[0].Oldest == nil || size.Bytes < 1000 || size.Full < 50e6 || size.Full > 500e6 {
			t.Errorf("the size is %+v, of readings %+v", size, size.Kinds[0])
		}
		if text := ask(where, "size").stdout; !strings.Contains(text, "WHEN FULL") || !strings.Contains(text, "2 GPUs and machines with a reading every ") {
			t.Errorf("the size is\n%s", text)
		}
		for what, column := range map[string]string{"readings": "power_draw", "sessions": "pid", "causes": "sentence", "events": "kind"} {
			table, err := csv.NewReader(strings.NewReader(ask(where, "export", what, "10m").stdout)).ReadAll()
			if err != nil || len(table) < 2 || !slices.Contains(table[0], column) {
				t.Errorf("%s as a table: %v, %d lines", what, err, len(table))
			}
			var answer map[string]any
			err = json.Unmarshal([]byte(ask(where, "export", what, "10m", "--json").stdout), &answer)
			if list, _ := answer[what].([]any); err != nil || len(list) == 0 {
				t.Errorf("%s as JSON: %v, %v", what, err, answer)
			}
		}
		header, _, _ := strings.Cut(ask(where, "export", "readings", "10m", "--tier=1m", "--metric=power_draw", "--gpu=0").stdout, "\n")
		if !strings.HasSuffix(header, "doubtful,power_draw,power_draw_least,power_draw_most") {
			t.Errorf("the columns of a quantity are %q", header)
		}
		if events := ask(where, "export", "events", "10m", "--kind=started").stdout; strings.Count(events, "\n") != 2 {
			t.Errorf("it started once: %s", events)
		}
	}
	everything("--url=" + p.url)
	everything("")
	if _, page := p.fetch("/", http.Header{"Accept": {"text/html"}}); !strings.Contains(string(page), ">Stored history</a> takes ") {
		t.Error("the page does not say how much is kept")
	}
	_, metrics := p.fetch("/metrics", nil)
	for _, line := range []string{`gpuwhy_history_written_total\{[^}]*kind="readings"[^}]*\} [1-9]`, `gpuwhy_history_bytes\{[^}]*\} [1-9]`, `gpuwhy_history_write_failing\{[^}]*\} 0`} {
		if !regexp.MustCompile(line).Match(metrics) {
			t.Errorf("/metrics has no %s", line)
		}
	}
	if r := ask("", "check"); !strings.Contains(r.stdout, file+" is sound: ") {
		t.Errorf("%+v", r)
	}
	r := command(t, nil, "history", "compact", "--state-dir="+dir)
	if r.code != exitError || !strings.Contains(r.stderr, fmt.Sprintf("another gpuwhy, process %d", p.cmd.Process.Pid)) || !strings.Contains(r.stderr, "stop it first") {
		t.Errorf("while it runs: %+v", r)
	}
	p.remembered() // nothing of this has kept it from writing
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	everything("")
	if text := ask("", "size").stdout; strings.Contains(text, "a reading every 5s") { // of --interval, which was another then
		t.Errorf("the size is\n%s", text)
	}
	if r := ask("", "compact"); !strings.Contains(r.stdout, file+" took ") {
		t.Errorf("%+v", r)
	}
	if r := ask("", "check"); !strings.Contains(r.stdout, "is sound") {
		t.Errorf("%+v", r)
	}

	// A part of the file is not what it was.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	for i := 4096; i < len(damaged)-4096; i += 512 { // not the first page, without which it is no database
		damaged[i+8] ^= 0x5a
	}
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check"}, {"compact"}} {
		r := command(t, nil, append([]string{"history", "--state-dir=" + dir}, args...)...)
		if r.code != exitError || !strings.Contains(r.stderr, file+" is damaged: ") || args[0] == "check" && (r.stdout == "" || !strings.Contains(r.stderr, ".recover")) {
			t.Errorf("%v of a damaged file: %+v", args, r)
		}
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, damaged) {
		t.Errorf("what looked at a damaged file has changed it: %v", err)
	}
	if r := command(t, nil, "history", "export", "readings", "10m", "--state-dir="+dir, noServer); r.code != exitError || !strings.Contains(r.stderr, "damaged") {
		t.Errorf("export of a damaged file: %d %s", r.code, r.stderr)
	}
}

// Wrong questions are refused before anything is opened. If the database can't be opened, the error says what to do.
func TestWrongQuestionsToTheDatabase(t *testing.T) {
	t.Parallel()
	text := t.TempDir()
	if err := os.WriteFile(filepath.Join(text, historyFile), []byte(strings.Repeat("no database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`must be one of "readings"`:              {"export", "moons"},
		`expected "<what>"`:                      {"export"},
		"--tier is about readings, not sessions": {"export", "sessions", "--tier=1m"},
		"--kind is about events, not causes":     {"export", "causes", "--kind=xid"},
		"--user is about sessions, not readings": {"export", "readings", "--user=ann"},
	} {
		if r := command(t, nil, append(unserved(append([]string{"history"}, args...)...), "--state-dir="+text)...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	for name, tt := range map[string]struct{ arg, says string }{
		"nothing kept": {"--state-dir=none", "no past is kept with these settings: name the folder with --state-dir"},
		"no file":      {"--state-dir=" + t.TempDir(), "no history is kept there: start gpuwhy"},
		"no database":  {"--state-dir=" + text, "is damaged: "},
		"no server":    {"--history=postgres://me@127.0.0.1:1/past", "PostgreSQL server at 127.0.0.1:1 is not answering"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"size"}, {"export", "events"}, {"compact"}, {"check"}} {
				r := command(t, nil, append(unserved(append([]string{"history"}, args...)...), tt.arg)...)
				if r.code != exitError || r.stdout != "" && args[0] != "check" || !strings.Contains(r.stderr, tt.says) {
					t.Errorf("%v: %+v", args, r)
				}
			}
		})
	}
}

// A user who may not read the file learns who may.
func TestADatabaseOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	p := start(t, nil, "--source=simulate:rtx-4090", fast, "--state-dir="+dir)
	p.remembered()
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, historyFile)
	for mode, want := range map[os.FileMode]string{
		0o000: "not permitted to read " + file + ": run this as the user that runs gpuwhy",
		0o444: file + " can't be opened: run this as the user that runs gpuwhy, who has write access to its folder",
	} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"past", noServer}, {"history", "size", noServer}, {"history", "check"}, {"history", "compact"}} {
			if code, out := refused(t, append(args, "--state-dir="+dir)...); code != exitError || !strings.Contains(out, want) {
				t.Errorf("%v of %v: %d %s", args, mode, code, out)
			}
		}
	}
}

// refused runs gpuwhy as a user who is subject to file modes.
func refused(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	child := asNobody(t, args...)
	text, err := child.CombinedOutput()
	if child.ProcessState == nil {
		t.Fatal(err)
	}
	return child.ProcessState.ExitCode(), string(text)
}
