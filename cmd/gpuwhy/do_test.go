//go:build !race

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/serve/apidoc"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// Each action with an HTTP address has a command of its own, whose flags are its arguments.
func TestActionsAreCommands(t *testing.T) {
	t.Parallel()
	do := child(grammar().Node, "do")
	var names []string
	for _, a := range app.Actions() {
		parent, name := do, a.Command.Name
		if group, command, grouped := strings.Cut(name, " "); grouped {
			parent, name = child(grammar().Node, group), command
		}
		leaf := child(parent, name)
		if (a.HTTP == "") != (leaf == nil) {
			t.Errorf("%s: address %q, command %q", a.ID, a.HTTP, a.Command.Name)
		}
		if leaf == nil {
			continue
		}
		if parent == do {
			names = append(names, leaf.Name)
		}
		if want := a.Summary + "."; leaf.Help != want || leaf.Detail != string(a.Text) {
			t.Errorf("%s: help %q, %q", leaf.Path(), leaf.Help, leaf.Detail)
		}
		named := a.Command.Argument
		if a.Targeted() {
			named = a.Target.Name
		}
		if (named != "") != (len(leaf.Positional) == 1 && leaf.Positional[0].Required && leaf.Positional[0].Name == named) {
			t.Errorf("%s: target %q, arguments %v", leaf.Path(), a.Target.Name, leaf.Positional)
		}
		var flags, want []string
		for _, flag := range leaf.Flags {
			if len(flag.Envs) == 0 && flag.Name != "help" {
				flags = append(flags, flag.Name)
				if flag.Help == "" {
					t.Errorf("%s: --%s is not explained", leaf.Path(), flag.Name)
				}
			}
		}
		if a.Args != nil {
			for _, p := range apidoc.SchemaOf(a.Args).Properties {
				name := strings.ReplaceAll(strings.TrimSuffix(p.Name, "_seconds"), "_", "-")
				switch {
				case p.Value.Ignored, p.Name == a.Command.Argument:
				case p.Value.Secret: // never on a command line
					want = append(want, name+"-file")
				default:
					want = append(want, name)
				}
			}
		}
		if !slices.Equal(flags, want) {
			t.Errorf("%s: flags %v, arguments %v", leaf.Path(), flags, want)
		}
	}
	if slices.Sort(names); len(names) != len(do.Children) || len(slices.Compact(names)) != len(do.Children) {
		t.Errorf("commands %v for %d actions", names, len(do.Children))
	}
}

// A command line becomes the request of its action. Variables and the file, which are for settings, are no arguments.
func TestRequestsOfActions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpuwhy.yaml")
	if err := os.WriteFile(file, []byte("node: other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GPUWHY_CONFIG", file)
	t.Setenv("GPUWHY_NODE", "another")
	t.Setenv("GPUWHY_COMMENT", "none")
	for _, tt := range []struct{ line, asks, refused string }{
		{"acknowledge a/b", `POST /api/alerts/a%2Fb/acknowledge {}`, ""},
		{"acknowledge a --comment=x", `POST /api/alerts/a/acknowledge {"comment":"x"}`, ""},
		{"--comment x acknowledge a", `POST /api/alerts/a/acknowledge {"comment":"x"}`, ""},
		{"unacknowledge a", `DELETE /api/alerts/a/acknowledge null`, ""},
		{"dismiss a", `DELETE /api/alerts/a null`, ""},
		{"silence a --duration 8h", `POST /api/alerts/a/silence {"duration_seconds":28800}`, ""},
		{"silence a --duration 1m30s", `POST /api/alerts/a/silence {"duration_seconds":90}`, ""},
		{"silence-matching --duration 1h --rule hot --gpu-uuid GPU-5*", `POST /api/silences {"duration_seconds":3600,"gpu_uuid":"GPU-5*","rule":"hot"}`, ""},
		{"silence-matching --duration 1h --node gpu-1", `POST /api/silences {"duration_seconds":3600,"node":"gpu-1"}`, ""},
		{"acknowledge-several --alert-ids a,b --alert-ids c", `POST /api/alerts/acknowledge {"alert_ids":["a","b","c"]}`, ""},
		{"end-silence silence-1", `DELETE /api/silences/silence-1 null`, ""},
		{"test-target phone", `POST /api/targets/phone/test null`, ""},

		{"silence a", "", "missing flags: --duration=DURATION"},
		{"silence --duration 1h", "", `expected "<alert>"`},
		{"silence  --duration 1h", "", "alert is empty"},
		{"silence a --duration 8", "", `--duration "8": give a time with a unit, such as 5s`},
		{"silence a --duration 500ms", "", "--duration: must be from 1s to 8784h"},
		{"silence a --duration 9000h", "", "--duration: must be from 1s to 8784h"},
		{"acknowledge a --comment=" + strings.Repeat("x", 201), "", "--comment: must be at most 200 characters"},
		{"acknowledge a --by ann", "", "'gpuwhy do acknowledge' doesn't take --by"},
		{"dismiss a --comment x", "", "'gpuwhy do dismiss' doesn't take --comment, which is a flag of do acknowledge,"},
		{"dance", "", "unexpected argument dance"},
	} {
		args := strings.Split("do "+tt.line, " ")
		cmd, err := parse(args, io.Discard, io.Discard)
		if err == nil {
			err = cmd.check()
		}
		if err != nil || tt.refused != "" {
			if err == nil || tt.refused == "" || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("gpuwhy %q: %v", args, err)
			}
			continue
		}
		c, ok := reflect.TypeAssert[*actionCommand](reflect.ValueOf(cmd))
		if !ok {
			t.Errorf("gpuwhy %q is %T", args, cmd)
			continue
		}
		r, err := c.request()
		if err != nil {
			t.Errorf("gpuwhy %q: %v", args, err)
			continue
		}
		body, err := json.Marshal(r.Body)
		if got := r.Method + " " + r.Path + " " + string(body); err != nil || got != tt.asks {
			t.Errorf("gpuwhy %q asks %s, not %s; %v", args, got, tt.asks, err)
		}
	}
}

// In a shell, people acknowledge and silence an alert of a running gpuwhy, end the silence, and test a target.
func TestActionsInAShell(t *testing.T) {
	t.Parallel()
	var tested []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil || r.URL.Path != "/hook":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.Contains(string(body), "This is a test message from gpuwhy."):
			tested = append(tested, r.URL.Path)
		}
	}))
	t.Cleanup(receiver.Close)
	host := strings.TrimPrefix(receiver.URL, "http://")
	lib, m := machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 88)
	p := start(t, lib.Env(), fast, "--alert-rules="+rulesFile(t, onlyRules("{name: hot, above: 80, hold: 0s, enabled: true}")+`
targets:
  - {name: hook, url: "generic://`+host+`/hook?disabletls=yes"}
  - {name: locked, url: "generic://`+host+`/locked?disabletls=yes"}
`))
	v := p.dial()
	fired := v.nextAlert("it is hot", func(a contract.Alert) bool { return a.Rule == "hot" })
	do := func(code int, says string, args ...string) string {
		t.Helper()
		r := command(t, nil, append(append([]string{"do"}, args...), "--url", p.url)...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, says) || (code == exitOK) != (r.stderr == "") {
			t.Errorf("gpuwhy do %v: %+v, want %q", args, r, says)
		}
		return r.stdout
	}
	do(exitOK, "Acknowledged: "+fired.Message, "acknowledge", fired.ID, "--comment", "a new fan is on its way")
	v.nextAlert("it is acknowledged", func(a contract.Alert) bool {
		return a.ID == fired.ID && a.Acknowledged != nil && a.Acknowledged.Comment == "a new fan is on its way"
	})
	do(exitOK, ": rule hot, GPU "+fired.GPUUUID+", machine "+fired.Node+". To end it earlier: gpuwhy do end-silence ", "silence", fired.ID, "--duration", "8h")
	v.nextAlert("it is silenced", func(a contract.Alert) bool { return a.ID == fired.ID && a.SilencedUntil != nil })
	var silence contract.Silence
	if err := json.Unmarshal([]byte(do(exitOK, `"rule"`, "silence-matching", "--rule", "ecc", "--duration", "1h", "--json")), &silence); err != nil || silence.Rule != "ecc" {
		t.Errorf("%+v, %v", silence, err)
	}
	do(exitOK, "The silence has ended.\n", "end-silence", silence.ID)
	do(exitError, "gpuwhy: there is no such alert or silence: see /api/alerts", "end-silence", silence.ID)
	do(exitError, "readings for it still arrive", "dismiss", fired.ID)

	do(exitOK, "The target accepted the message.\n", "test-target", "hook")
	do(exitError, "gpuwhy: the target did not accept the message: it denied access", "test-target", "locked")
	do(exitError, "gpuwhy: there is no such target", "test-target", "nobody")
	do(exitUsage, "missing flags: --duration", "silence", fired.ID)
	receiver.Close() // it waits for what is being answered
	if len(tested) != 1 {
		t.Errorf("%d test messages", len(tested))
	}
	testkit.Until(t, "the log says who did what", func() bool { return strings.Contains(p.log.String(), "action=testTarget") })
}

// An action that is done and not saved is told with its result, and fails, as does one that is refused.
func TestActionsThatAreNotSaved(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST /api/alerts/a/acknowledge":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"message":"GPU 0 is\u001b hot"}`)
		case "DELETE /api/silences/s":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"detail":"you may not do\u001b this here"}`)
		}
	}))
	t.Cleanup(server.Close)
	const unsaved = "gpuwhy: the change is in effect, but gpuwhy could not save it to its state directory: check "
	for _, tt := range []struct{ line, stdout, stderr string }{
		{"acknowledge a", "Acknowledged: GPU 0 is", unsaved},
		{"end-silence s", "The silence has ended.\n", unsaved},
		{"end-silence s --json", "", unsaved},
		{"dismiss a", "", "gpuwhy: you may not do"},
	} {
		r := inside(append(strings.Fields("do "+tt.line), "--url", server.URL)...)
		if r.code != exitError || !strings.HasPrefix(r.stdout, tt.stdout) || (r.stdout == "") != (tt.stdout == "") || !strings.HasPrefix(r.stderr, tt.stderr) || strings.Contains(r.stdout+r.stderr, "\x1b") {
			t.Errorf("gpuwhy do %s: %+v", tt.line, r)
		}
	}
}
