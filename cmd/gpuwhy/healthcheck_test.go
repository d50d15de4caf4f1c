//go:build !race

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A container's health check finds a program whose settings are arguments, though the check itself has only the variables.
func TestHealthcheckFindsArguments(t *testing.T) {
	t.Parallel()
	own := filepath.Join(t.TempDir(), "gpuwhy-in-a-container") // no other test's programs are called so
	if err := os.Symlink(binary, own); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GPUWHY_LISTEN=127.0.0.1:1", "GPUWHY_STATE_DIR=none") // as the image has one
	check := func(args ...string) (string, error) {
		cmd := exec.Command(own, append([]string{"healthcheck"}, args...)...)
		cmd.Env = env
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := check(); err == nil || said != "gpuwhy: no gpuwhy answers at http://127.0.0.1:1: start it, or give its address\n" { // it has no --url
		t.Errorf("without a program: %q, %v", said, err)
	}
	cmd := exec.Command(own, "--listen", freeAddress(t), "--base-path=/x", "--source=simulate:rtx-4090")
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var said string
	testkit.Until(t, "the check finds it", func() bool {
		var err error
		said, err = check()
		return err == nil && said == "ready\n"
	}, func() any { return said })
	if said, err := check("--listen=127.0.0.1:1"); err == nil {
		t.Errorf("of another address: %q", said)
	}
}

func TestSettingsOfAProgramBeside(t *testing.T) {
	t.Setenv("GPUWHY_LISTEN", "0.0.0.0:8003")
	t.Setenv("GPUWHY_STATE_DIR", "none")
	name := filepath.Base(os.Args[0])
	const ours, host = "0::/\n", "0::/../other\n"
	for what, tt := range map[string]struct {
		programs [][2]string // its group, and its arguments with spaces
		want     string      // its address; "" for that of the settings
		records  bool
	}{
		"none":                     {nil, "", false},
		"by an argument":           {[][2]string{{ours, name + " --listen 0.0.0.0:9000"}}, "0.0.0.0:9000", false},
		"by a command":             {[][2]string{{ours, "/usr/local/bin/" + name + " hub --clusters=x --listen=:9001"}}, "", false}, // which is not sound
		"below an init":            {[][2]string{{ours, "/sbin/docker-init -- " + name + " --listen=:9000"}, {ours, name + " --listen=:9000"}}, ":9000", false},
		"on the host":              {[][2]string{{host, name + " --listen=:9000"}}, "", false},
		"on the host, and here":    {[][2]string{{host, name + " --listen=:9001"}, {ours, name + " serve --listen=:9000"}}, ":9000", false},
		"a port that is taken":     {[][2]string{{ours, name + " --listen=:0"}}, "", false},
		"two":                      {[][2]string{{ours, name + " --listen=:9001"}, {ours, name + " --listen=:9000"}}, "", false},
		"one as the settings have": {[][2]string{{ours, name + " --listen=:9001"}, {ours, name}}, "", false},
		"another program":          {[][2]string{{ours, "nginx --listen=:9000"}}, "", false},
		"a command that asks":      {[][2]string{{ours, name + " why --listen=:9000"}, {ours, name + " healthcheck --listen=:9000"}}, "", false},
		"a recorder":               {[][2]string{{ours, name + " record --fleet=tls://a --history=postgres://a/b"}}, "", true},
		"wrong arguments":          {[][2]string{{ours, name + " --listen=:x"}, {ours, name + " --paint"}}, "", false},
		"without a command line":   {[][2]string{{ours, ""}}, "", false},
	} {
		t.Run(what, func(t *testing.T) {
			proc := t.TempDir()
			put := func(pid, file, text string) {
				if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(proc, pid, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("self", "cgroup", ours)
			for i, p := range tt.programs {
				pid := string(rune('1' + i))
				put(pid, "cgroup", p[0])
				put(pid, "cmdline", strings.ReplaceAll(p[1], " ", "\x00")+"\x00")
			}
			own, _ := settingsOf(nil)
			if own == nil {
				t.Fatal("the settings are not sound")
			}
			found, records := beside(proc, own)
			if want := tt.want; records != tt.records || want == "" && found != own || want != "" && found.Listen != want {
				t.Errorf("%s, records %v", found.Listen, records)
			}
		})
	}
}
