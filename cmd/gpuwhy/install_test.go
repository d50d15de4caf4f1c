//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// tools/install waits for another apt, fetches no package lists unless it needs them,
// and says why it can't install a package. The real apt-get works on the test's own
// directories.
func TestToolsInstall(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root installs packages: another user is told what to install")
	}
	dir := t.TempDir()
	status, err := os.ReadFile("/var/lib/dpkg/status")
	if err != nil {
		t.Fatal(err) // no Debian: `make test` could not have installed anything either
	}
	for name, text := range map[string]string{
		"dpkg/status": string(status), "state/lists/partial/none": "", "cache/archives/partial/none": "", "sources/none.list": "",
		"apt.conf": fmt.Sprintf("Dir::State %q;\nDir::State::status %q;\nDir::Cache %q;\nDir::Etc::sourcelist \"none\";\nDir::Etc::sourceparts %q;\n",
			dir+"/state", dir+"/dpkg/status", dir+"/cache", dir+"/sources"),
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	install := func(name string) (*exec.Cmd, *logBuffer) {
		said := new(logBuffer)
		cmd := exec.CommandContext(t.Context(), filepath.Join(top, "tools/install"), name)
		cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(dir, "apt.conf"))
		cmd.Stdout, cmd.Stderr = said, said
		return cmd, said
	}

	other, err := os.OpenFile(filepath.Join(dir, "dpkg/lock-frontend"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.FcntlFlock(other.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		t.Fatal(err)
	}
	cmd, said := install("coreutils") // which every Debian has
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said.await(t, "waiting for it")
	if err := other.Close(); err != nil { // the other one is done
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after the other apt: %v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "state/lists/lock")); err == nil {
		t.Error("it asked for lists, though the package is there")
	}

	cmd, said = install("no-such-package")
	if err := cmd.Run(); err == nil || !strings.Contains(said.String(), "no-such-package") {
		t.Errorf("a package that does not exist: %v, %s", err, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "state/lists/lock")); err != nil {
		t.Errorf("it did not ask for lists: %v", err)
	}
}
