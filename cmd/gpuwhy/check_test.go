//go:build !race

package main

import (
	"database/sql"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// check-config rejects every configuration with which serve does not start, with the same error.
func TestCheckConfigSaysWhatServeSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := write("file", "")
	keys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(keys, "fleet", "authority.json"), 0o700); err != nil { // no file at all
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"a host with quotes":               {`--allow-host="gpu.example"`},
		"two hosts in one":                 {"--allow-host=a.example b.example"},
		"a host of no letters":             {"--allow-host=gpu[0-9].example"},
		"a host with a carriage return":    {"--allow-host=gpu.example\r"},
		"no family of metrics":             {"--metrics-families=ours"},
		"a state folder that is a file":    {"--state-dir=" + file},
		"a state folder below a file":      {"--state-dir=" + file + "/x"},
		"a state folder nobody can make":   {"--state-dir=/proc/nowhere"},
		"a state folder of a shell":        {"--state-dir=$HOME/x"},
		"a server and a member":            {"--fleet=tls://a", "--fleet-listen=127.0.0.1:0", "--state-dir=" + dir},
		"no credentials":                   {"--fleet=tls://a", "--fleet-credentials=/nowhere/creds"},
		"empty credentials":                {"--fleet=tls://a", "--fleet-credentials=" + file},
		"an address of another":            {"--listen=192.0.2.7:8003"},
		"a name that nobody has":           {"--listen=nowhere.invalid:8003"},
		"a fleet's address of another":     {"--fleet-listen=192.0.2.7:4222", "--state-dir=" + t.TempDir()},
		"keys of a fleet that are no file": {"--fleet-listen=127.0.0.1:0", "--state-dir=" + keys},
		"no clusters":                      {"--clusters=/nowhere/clusters.yaml"},
		"clusters without a kubeconfig":    {"--clusters=" + write("clusters.yaml", "clusters:\n- name: a\n  kubeconfig: /nowhere/kubeconfig\n")},
		"no rules":                         {"--alert-rules=/nowhere/rules.yaml"},
		"wrong rules":                      {"--alert-rules=" + write("rules.yaml", "rules:\n- name: hot\n  above: 900\n")},
		"a target without its variable":    {"--alert-rules=" + write("targets.yaml", "targets:\n- {name: a, url_env: NOWHERE_AT_ALL}\n")},
		"no credentials for remote write":  {"--remote-write=http://127.0.0.1:1/", "--remote-write-credentials=/nowhere/creds"},
		"no capture":                       {"--source=replay:/nowhere"},
		"a database of another kind":       {"--history=mysql://a/b"},
		"a proxy that is a name":           {"--trusted-proxy=proxy.example"},
		"an origin without a scheme":       {"--allow-origin=10.0.0.1:8003"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := map[string]string{}
			for _, which := range []string{"check-config", "serve"} {
				given := append([]string{which}, args...)
				if !strings.Contains(strings.Join(args, " "), "--listen=") {
					given = append(given, "--listen=127.0.0.1:0")
				}
				if !strings.Contains(strings.Join(args, " "), "--state-dir=") {
					given = append(given, "--state-dir=none")
				}
				var r result
				if which == "check-config" {
					r = inside(given...)
				} else {
					r = command(t, nil, given...)
				}
				if r.code == exitOK || strings.Contains(r.stdout, "is valid") {
					t.Errorf("%s ends with %d: %+v", which, r.code, r)
				}
				said[which] = r.stderr
			}
			if said["check-config"] != said["serve"] && !strings.HasPrefix(name, "a state folder") && !strings.HasPrefix(name, "a fleet's") { // which serve tries otherwise
				t.Errorf("check-config says %q, serve %q", said["check-config"], said["serve"])
			}
		})
	}
}

// A problem that may be gone by the start is reported, and the settings still count as valid.
func TestCheckConfigBesideARunningProgram(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := filepath.Join(t.TempDir(), "not", "yet")
	r := inside("check-config", "--state-dir="+dir, "--listen="+ln.Addr().String(), "--source=simulate:rtx-4090")
	if r.code != exitOK || !strings.Contains(r.stdout, "is valid") || !strings.Contains(r.stderr, "another program is listening on "+ln.Addr().String()) {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Error("it made the folder")
	}
}

// check-config changes no file of a state directory, also where serve would bring an earlier version's tables up to date or take permissions
// away, and whether a program runs there or not.
func TestCheckConfigChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serving := start(t, nil, fast, "--source=simulate:rtx-4090", "--state-dir="+dir, "--tls-self-signed")
	if r := command(t, nil, "user", "add", "ann", "--role=administrator", "--state-dir="+dir); r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	check := func(what string, wants int, args ...string) {
		t.Helper()
		before := contentOf(t, dir)
		if before["access.db"] == "" || before["history.db"] == "" {
			t.Fatalf("it has only %v", slices.Collect(maps.Keys(before)))
		}
		r := inside(append([]string{"check-config", "--source=simulate:rtx-4090", "--state-dir=" + dir, "--listen=0.0.0.0:0", "--tls-self-signed"}, args...)...)
		if r.code != wants {
			t.Errorf("%s: %+v", what, r)
		}
		after := contentOf(t, dir)
		for name := range maps.Keys(before) {
			if before[name] != after[name] {
				t.Errorf("%s: %s was changed", what, name)
			}
		}
		if len(before) != len(after) {
			t.Errorf("%s: of %v it made %v", what, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
	}
	if err := serving.stop(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	check("after a run", exitOK)
	accounts := filepath.Join(dir, "access.db")
	if err := os.Chmod(accounts, 0o644); err != nil {
		t.Fatal(err)
	}
	check("accounts that others may read", exitOK)
	if err := os.Remove(accounts); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", accounts) // as before the first migration
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA application_id = 0x67776c67; CREATE TABLE earlier (a INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check("tables of an earlier version", exitOK)
	if err := os.WriteFile(accounts, []byte("no database, but long enough to look like one, if nobody looks closely"), 0o600); err != nil {
		t.Fatal(err)
	}
	check("damaged accounts", exitOK)
}

// contentOf is the content, the permissions and the time of each file below a folder, by name.
func contentOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = fmt.Sprint(info.Mode(), info.ModTime(), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Leftovers of a shell or a Windows editor in a value are refused or understood, and gpuwhy does not create a folder with such a name.
func TestPathsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for value, says := range map[string]string{
		`"/tmp/x"`: "remove the quotes", "'/tmp/x'": "remove the quotes", "/tmp/x\r": "carriage return", "/tmp/\x1bx": "control character", " /tmp/x": "remove the space",
		"$HOME/x": "variables are not expanded", "%h/x": "variables are not expanded", "~bob/x": "other users' home",
	} {
		for _, flag := range []string{"--state-dir", "--config", "--nvidia-smi"} {
			r := inside("check-config", flag+"="+value)
			if r.code != exitUsage || !strings.Contains(r.stderr, says) || !strings.Contains(r.stderr, flag) {
				t.Errorf("%s=%q: %+v", flag, value, r)
			}
		}
	}
	if r := command(t, []string{"HOME=" + home}, "capture", "~/"+`x"`, "--for=1s"); r.code != exitUsage || !strings.Contains(r.stderr, "quotes") {
		t.Errorf("capture: %+v", r)
	}
	rules := filepath.Join(home, "rules.yaml")
	if err := os.WriteFile(rules, []byte("rules: [{name: hot, enabled: true}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := command(t, []string{"HOME=" + home}, "check-config", "--state-dir=~/state", "--alert-rules=~/rules.yaml")
	if r.code != exitOK || !strings.Contains(r.stdout, "23 of them enabled") {
		t.Errorf("a home folder: %+v", r)
	}
}

// Lists may have spaces after commas, and a trailing comma.
func TestListsWithSpaces(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--allow-host=a.example, b.example,"}, {"--metrics-families=gpuwhy, dcgm"}, {"--trusted-proxy=10.0.0.1, 10.0.0.0/8"}, {"--label=a=1, b=2"},
		{"--allow-origin=https://a.example, https://b.example"}, {"--fleet-host=a, b"}, {"--source=amd, intel"}, {"--remote-write=http://127.0.0.1:1/a, http://127.0.0.1:1/b"},
	} {
		if r := inside(append(args, "check-config", "--state-dir=none", "--listen=127.0.0.1:0")...); r.code != exitOK {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// gpuwhy warns about variables that look like settings but are not, except those of Kubernetes and of targets.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("targets: [{name: a, url_env: GPUWHY_CHAT}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"GPUWHY_LISTN=127.0.0.1:1", "GPUWHY_ALLOW_HOSTS=a", "GPUWHY_PORT=9000", "GPUWHY_COLOUR_SCHEME=x", "GPUWHY_CHAT=generic://127.0.0.1:1/", "GPUWHY_STATE_DIR=none", "GPUWHY_EMPTY=",
		"GPUWHY_SERVICE_HOST=10.0.0.1", "GPUWHY_SERVICE_PORT=8003", "GPUWHY_SERVICE_PORT_HTTP=8003", "GPUWHY_PORT_8003_TCP=tcp://10.0.0.1:8003", "GPUWHY_PORT_8003_TCP_ADDR=10.0.0.1",
		"GPUWHY_PORT_8003_TCP_PORT=8003", "GPUWHY_PORT_8003_TCP_PROTO=tcp", "GPUWHY_HUB_PORT=tcp://10.0.0.1:8003", "GPUWHY_HUB_SERVICE_HOST=10.0.0.1",
	}
	want := []string{
		"GPUWHY_ALLOW_HOSTS is not a setting and is ignored: did you mean GPUWHY_ALLOW_HOST?", "GPUWHY_COLOUR_SCHEME is not a setting and is ignored: 'gpuwhy --help' lists",
		"GPUWHY_LISTN is not a setting and is ignored: did you mean GPUWHY_LISTEN?", "GPUWHY_PORT is not a setting and is ignored: did you mean GPUWHY_LISTEN?",
	}
	r := command(t, env, "check-config", "--alert-rules="+rules, "--listen=127.0.0.1:0")
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	if r.code != exitOK || len(lines) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("%q, want %q", lines[i], want[i])
		}
	}
	if r := command(t, env[:1], "serve", "--listen=192.0.2.1:1", "--state-dir=none", "--source=simulate:rtx-4090"); !strings.Contains(r.stderr, "did you mean GPUWHY_LISTEN?") {
		t.Errorf("serve: %s", r.stderr)
	}
}

// Leftovers of a variables file around a value are removed or refused, and the error for a bad number has an example.
func TestValuesAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	secret := filepath.Join(home, "hook")
	if err := os.WriteFile(secret, []byte("ntfy://ntfy.sh/topic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(home, "rules.yaml")
	if err := os.WriteFile(rules, []byte("targets: [{name: a, url_file: ~/hook}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	clusters := filepath.Join(home, "clusters.yaml")
	if err := os.WriteFile(clusters, []byte("clusters: [{id: lab, kubeconfig: '\"/x\"'}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for variable, says := range map[string]string{
		"LISTEN= 127.0.0.1:0 ": "", "HISTORY= off": "", "STATE_DIR=NONE": "", "ALERT_RULES=" + rules: "",
		`NODE="gpu-1"`: `--node "\"gpu-1\"": remove the quotes`, "LISTEN='127.0.0.1:0'": "remove the quotes", `ALLOW_ORIGIN="https://a.example"`: "remove the quotes",
		"CLUSTERS=" + clusters: `kubeconfig "\"/x\"": remove the quotes`,
		"INTERVAL=5":           `--interval "5": give a time with a unit, such as 5s, 500ms or 1h30m`,
		"DEADLINE=2s\r":        `--deadline "2s\r": give a time with a unit`,
		"MAX_VIEWERS=many":     `--max-viewers "many": give a whole number`, "ELECTRICITY_PRICE=0,30": `--electricity-price "0,30": give a number, such as 0.3`,
	} {
		r := command(t, []string{"HOME=" + home, "GPUWHY_" + variable}, "check-config", "--source=simulate:rtx-4090")
		if (r.code == exitOK) != (says == "") || !strings.Contains(r.stderr, says) || strings.Count(r.stderr, "\n") > 1 {
			t.Errorf("%s: %+v, want %q", variable, r, says)
		}
	}
	if _, err := os.Stat("NONE"); err == nil {
		t.Error("a folder NONE was made")
	}
}

// The words that people try first work.
func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "version", "-V", "-v", "serve --version", "--log-level=info --version"} {
		if r := command(t, nil, strings.Fields(args)...); r.code != exitOK || !strings.HasPrefix(r.stdout, "gpuwhy ") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for args, says := range map[string]string{"help": "Usage: gpuwhy <command>", "--help": "Usage: gpuwhy <command>", "-h": "Usage: gpuwhy", "-help": "Usage: gpuwhy <command>", "help past": "Usage: gpuwhy past", "help history size": "Usage: gpuwhy history size"} {
		if r := inside(strings.Fields(args)...); r.code != exitOK || !strings.HasPrefix(r.stdout, says) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
