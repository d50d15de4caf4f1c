//go:build !race

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// checked parses a command line and checks what it sets.
func checked(args ...string) error {
	cmd, err := parse(args, io.Discard, io.Discard)
	if err == nil {
		err = cmd.check()
	}
	return err
}

// words are a command and what it can't be without.
func words(leaf *kong.Node) []string {
	args := strings.Fields(leaf.Path())
	for _, p := range leaf.Positional {
		switch {
		case p.Required && p.Enum != "":
			args = append(args, p.EnumSlice()[0])
		case p.Required:
			args = append(args, "x")
		}
	}
	for _, flag := range leaf.Flags {
		if flag.Required {
			args = append(args, "--"+flag.Name+"="+cmp.Or(map[string]string{"DURATION": "1h", "NUMBER": "1"}[flag.PlaceHolder], "x"))
		}
	}
	return args
}

// wrongValues are values that every command with the flag refuses. Flags without one accept any text, or are checked on use.
var wrongValues = map[string]string{
	"config": "/nowhere", "log-format": "xml", "log-level": "loud",
	"interval": "1ms", "idle-interval": "1s", "deadline": "1ms", "node": "..", "source": "magic", "kernel-log": "", "show-commands": "mine",
	"listen": "nowhere", "base-path": "x", "allow-origin": "x", "allow-embed": "x", "allow-host": "http://x", "max-viewers": "0", "max-viewers-per-address": "-1", "trusted-proxy": "x",
	"history": "mysql://x", "history-retention": "raw=x", "electricity-price": "-1",
	"alert-utilization": "100", "fleet": "http://x", "fleet-credentials": "x", "fleet-listen": "x", "fleet-host": "a:1", "cluster": "a:b", "label": "x", "clusters": "/nowhere",
	"tls-key": "x", "tls-cert": "x", "acme-domain": "gpu", "acme-email": "x", "acme-directory": "x", "redirect-listen": "80", "hsts": "1ms", "tls-ca": "/nowhere", "tls-fingerprint": "12",
	"public-url": "x", "oidc-providers": "x", "oidc-issuer": "http://x.example", "oidc-name": "x", "oidc-client-id": "x", "oidc-client-secret-file": "/nowhere", "oidc-client-secret-env": "X",
	"oidc-scopes": "x", "oidc-name-claim": "x", "oidc-groups-claim": "x", "oidc-role": "x", "oidc-default-role": "x", "oidc-create-users": "false",
	"proxy-sign-in": "x", "proxy-user": "x", "proxy-role": "x", "proxy-default-role": "x", "proxy-issuer": "x", "proxy-audience": "x",
	"no-sign-in": "x", "accounts": "mysql://x", "accounts-deadline": "1ms", "keep-audit": "x", "fleet-allow": "a=x",
	"remote-write": "x", "remote-write-credentials": "/nowhere", "otlp": "x", "otlp-credentials": "/nowhere",
}

// anyValue are the settings that accept any text.
var anyValue = []string{"nvml-library", "nvidia-smi", "sysfs-root", "proc-root", "pcie-throughput", "state-dir", "alert-rules", "metrics-families",
	"tls-self-signed", "allow-plain-sign-in", "token-file", "sign-in", "owner-group", "audit-syslog", "open-metrics",
}

// Each command refuses wrong values for all its flags, so none of its groups is left unchecked.
func TestEachCommandChecksItsFlags(t *testing.T) {
	t.Setenv("GPUWHY_STATE_DIR", "none")
	app := grammar()
	for _, flag := range settingFlags(app) {
		if _, wrong := wrongValues[flag.Name]; wrong == slices.Contains(anyValue, flag.Name) {
			t.Errorf("--%s: this test knows no wrong value, and not that any will do", flag.Name)
		}
	}
	for _, leaf := range app.Leaves(false) {
		if _, is := reflect.TypeAssert[runner](leaf.Target.Addr()); !is {
			t.Errorf("'gpuwhy %s' can't be checked", leaf.Path())
			continue
		}
		if leaf.Name == "help" {
			continue
		}
		if err := checked(words(leaf)...); err != nil {
			t.Errorf("%s: %v", leaf.Path(), err)
		}
		for _, flag := range leaf.Flags {
			if value, wrong := wrongValues[flag.Name]; wrong && flag.Group != nil {
				err := checked(append(words(leaf), "--"+flag.Name+"="+value)...)
				if err == nil || !strings.Contains(err.Error(), flag.Name) && !strings.Contains(err.Error(), value) {
					t.Errorf("'gpuwhy %s --%s=%s': %v", leaf.Path(), flag.Name, value, err)
				}
			}
		}
	}
}

// A command takes its own flags, in any position. For another command's flag, it says whose it is. Variables and the file may set
// flags of other commands.
func TestFlagsOfOtherCommands(t *testing.T) {
	t.Setenv("GPUWHY_OTLP", "nonsense")
	file := filepath.Join(t.TempDir(), "gpuwhy.yaml")
	if err := os.WriteFile(file, []byte("interval: nonsense\nnode: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUWHY_CONFIG", file)
	for args, says := range map[string]string{
		"version":                              "",
		"-- version":                           "",
		"--otlp past version":                  "'gpuwhy version' doesn't take --otlp",
		"fleet list --state-dir=x":             "",
		"fleet --state-dir=x list":             "",
		"--state-dir=x fleet list":             "",
		"--state-dir x fleet list --json":      "",
		"notify --alert-rules x test a b":      "",
		"version --otlp x":                     "'gpuwhy version' doesn't take --otlp, which is a flag of serve, agent, hub, doctor, check-config,",
		"version --config x":                   "'gpuwhy version' doesn't take --config, which is a flag of serve, agent,",
		"--label a=1 past":                     "'gpuwhy past' doesn't take --label, which is a flag of serve, agent, doctor, check-config,",
		"record --source auto":                 "'gpuwhy record' doesn't take --source, which is a flag of serve, agent, snapshot,",
		"history check --json":                 "'gpuwhy history check' doesn't take --json, which is a flag of snapshot,",
		"history --json":                       "'gpuwhy history' doesn't take --json, which is a flag of snapshot,",
		"version --otpl x":                     "unknown flag --otpl",
		"snapshot":                             "--interval",
		"--listen=127.0.0.1:0 --interval=1s":   "--otlp",
		"serve --interval=1s --otlp=http://a/": "",
		"past":                                 "--interval",
		"past --interval=1s":                   "",
		"dance --interval=1s":                  "unexpected argument dance",
		"--interval=1s dance":                  "unexpected argument dance",
		"--paint red":                          "unknown flag --paint",
	} {
		if err := checked(strings.Fields(args)...); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("gpuwhy %s: %v, want %q", args, err, says)
		}
	}
}

// A valid command line is parsed with only its command's flags, so that a health check, which runs every few seconds, does not pay for
// the flags of all others. The result is the same as with all flags.
func TestCommandsAreReadAlone(t *testing.T) {
	t.Setenv("GPUWHY_NODE", "a")
	for args, most := range map[string]int{
		"version": 1, "healthcheck": 10, "healthcheck --listen=127.0.0.1:1": 10, "--base-path /a healthcheck": 10, "fleet --state-dir=x list": 40, "-- past": 30,
		"past -5m --interval=1s": 30, "--listen=127.0.0.1:1": 90, "": 90, "--node past": 0, "--node=past --otlp http://a/": 90, "notify --alert-rules x test a b": 20, "history export events": 90, "--label a=1 check-config": 90,
	} {
		words := pastArgs(strings.Fields(args))
		whole, err := parseAs(commands, words, io.Discard, io.Discard)
		if err != nil {
			t.Errorf("gpuwhy %s: %v", args, err)
			continue
		}
		alone, err := parseAs(meant(words), words, io.Discard, io.Discard)
		if args == "--node past" { // looks like past, and is none
			if err == nil {
				t.Errorf("gpuwhy %s is read as %T", args, alone)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(alone, whole) {
			t.Errorf("gpuwhy %s: alone %+v, %v; with all commands %+v", args, alone, err, whole)
		}
		built := 0
		for _, leaf := range newParser(meant(words), io.Discard, io.Discard, nil).Model.Leaves(false) {
			built += len(leaf.Flags)
		}
		if built > most {
			t.Errorf("gpuwhy %s: %d flags are built, %d at most are for it", args, built, most)
		}
	}
}

// The help and the documents list every setting in a group. Each is declared once: commands with the same flag describe it in the same way.
func TestSettingsAreDeclaredOnce(t *testing.T) {
	t.Parallel()
	app := grammar()
	first := map[string]*kong.Flag{}
	for _, flag := range settingFlags(app) {
		first[flag.Name] = flag
		if groupOf(flag) < 0 && !slices.Contains([]string{"config", "log-format", "log-level"}, flag.Name) {
			t.Errorf("--%s is in no group of help", flag.Name)
		}
	}
	for _, leaf := range app.Leaves(false) {
		for _, flag := range leaf.Flags {
			if same := first[flag.Name]; flag.Group != nil && (same == nil || same.Help != flag.Help || same.Default != flag.Default) {
				t.Errorf("'gpuwhy %s' has its own --%s", leaf.Path(), flag.Name)
			}
		}
	}
}

// settingFlags are the flags of 'gpuwhy serve', and those of commands that ask a running one which are in a group.
func settingFlags(app *kong.Application) []*kong.Flag {
	all := slices.Clone(child(app.Node, "serve").Flags)
	for _, leaf := range app.Leaves(false) {
		for _, flag := range leaf.Flags {
			if flag.Group != nil && !slices.ContainsFunc(all, func(known *kong.Flag) bool { return known.Name == flag.Name }) {
				all = append(all, flag)
			}
		}
	}
	return all
}

// settingsTable returns the table of a group's flags.
func settingsTable(app *kong.Application, group string) string {
	var b strings.Builder
	b.WriteString("| flag | default | meaning | taken by |\n| --- | --- | --- | --- |\n")
	leaves := app.Leaves(false)
	for _, flag := range settingFlags(app) {
		if flag.Group == nil && group != "" || flag.Group != nil && flag.Group.Key != group {
			continue
		}
		var takers []string
		for _, leaf := range leaves {
			if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == flag.Name && len(f.Envs) > 0 }) {
				takers = append(takers, leaf.Path())
				if leaf.Parent.Name == "do" { // the commands of actions have the same settings
					takers[len(takers)-1] = leaf.Parent.Name
				}
			}
		}
		takers = slices.Compact(takers)
		initial, meaning := "", strings.ReplaceAll(flag.Help, "|", `\|`)
		if flag.Default != "" {
			initial = "`" + flag.Default + "`"
		}
		if page := flag.Tag.Get("docs"); page != "" {
			meaning += " [More](" + page + ")."
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", flag.Name, initial, meaning, strings.Join(takers, ", "))
	}
	return b.String()
}

// docs/settings.md has the program's flags.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	app := grammar()
	const marks = "<!-- generated from the program: go test ./cmd/gpuwhy -run TestSettingsAreDocumented -update -->\n"
	head, _, found := strings.Cut(readTop(t, "docs/settings.md"), marks)
	if !found {
		t.Fatal("docs/settings.md has no place for the flags")
	}
	text := head + marks + "\n## All commands\n\n" + settingsTable(app, "")
	for _, g := range helpGroups {
		text += "\n## " + strings.TrimSuffix(g.Title, ":") + "\n\n" + settingsTable(app, g.Key)
	}
	name := filepath.Join(top, "docs", "settings.md")
	if *updateDocs {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // it is for everybody
			t.Fatal(err)
		}
	}
	if readTop(t, "docs/settings.md") != text {
		t.Errorf("%s is not what the program has: go test ./cmd/gpuwhy -run TestSettingsAreDocumented -update", name)
	}
}

// An empty time span, for example from a script with an unset variable, does not mean the default: the answer would be about another time.
func TestEmptySpanOfTime(t *testing.T) {
	t.Setenv("GPUWHY_STATE_DIR", "none")
	for _, args := range [][]string{{"past", ""}, {"sessions", ""}, {"history", "export", "causes", ""}} {
		if err := checked(args...); err == nil || !strings.Contains(err.Error(), "the time span is empty") {
			t.Errorf("gpuwhy %q: %v", args, err)
		}
		if err := checked(args[:len(args)-1]...); err != nil {
			t.Errorf("gpuwhy %q: %v", args[:len(args)-1], err)
		}
	}
}
