//go:build packages

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The image is built by buildah, on a base named by its digest, and runs without root, without capabilities and on a read-only
// file system. No registry is needed: the base is the clean Debian. The program comes from the package, since the first part of
// the Dockerfile needs the image of a Go compiler.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "buildah", append([]string{"--root", filepath.Join(dir, "store"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs"}, args...)...)
		cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("buildah %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
		}
		return strings.TrimSpace(string(out))
	}
	empty := buildah("from", "scratch")
	buildah("add", "--quiet", empty, clean(t), "/")
	buildah("commit", "--quiet", empty, "localhost/base")
	digest := buildah("images", "--format", "{{.Digest}}", "localhost/base")

	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(string(text), "\nFROM ${BASE}\n")
	if !found {
		t.Fatal("the Dockerfile takes no base")
	}
	const copied = "COPY --from=build /out/gpuwhy "
	if strings.Count(last, copied) != 1 {
		t.Fatal("the Dockerfile copies no program")
	}
	context := filepath.Join(dir, "context")
	host(t, "dpkg-deb", "-x", one(t, "gpuwhy_*_amd64.deb"), context)
	host(t, "cp", "../../LICENSE", context)
	if err := os.WriteFile(filepath.Join(context, "Dockerfile"), []byte("ARG BASE\nFROM ${BASE}\n"+strings.Replace(last, copied, "COPY usr/bin/gpuwhy ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	buildah("build", "--quiet", "--format", "docker", "--pull=false", "--build-arg", "BASE=localhost/base@"+digest, "-t", "gpuwhy", context)

	var image struct {
		Docker struct {
			Config struct {
				User                 string
				Env, Entrypoint, Cmd []string
				Healthcheck          struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "gpuwhy")), &image); err != nil {
		t.Fatal(err)
	}
	config := image.Docker.Config
	if config.User != "10003:10003" || len(config.Healthcheck.Test) < 2 || config.Healthcheck.Test[0] != "CMD" {
		t.Fatalf("the image's configuration: %+v", config)
	}
	container := buildah("from", "--pull=false", "gpuwhy")
	root := buildah("mount", container)
	if state := host(t, "stat", "-c", "%u:%g %a", filepath.Join(root, "var/lib/gpuwhy")); state != "10003:10003 700\n" {
		t.Errorf("the state directory is %s", state)
	}

	// As an engine starts it, with the address as an argument.
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, 10003, 10003); err != nil {
		t.Fatal(err)
	}
	env := append(slices.Clone(config.Env), "GPUWHY_NO_SIGN_IN=operator", "GPUWHY_STATE_DIR=/var/lib/gpuwhy")
	args := []string{
		"--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--machine=image-" + strconv.Itoa(os.Getpid()), "--directory=" + root,
		"--read-only", "--bind=" + state + ":/var/lib/gpuwhy",
	}
	for _, e := range env {
		args = append(args, "--setenv="+e)
	}
	args = append(args, "setpriv", "--reuid=10003", "--regid=10003", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
	args = append(append(args, config.Entrypoint...), "--listen=0.0.0.0:9000", "--source=simulate:rtx-4090")
	var said bytes.Buffer
	nspawn := exec.Command("systemd-nspawn", args...)
	nspawn.Stdout, nspawn.Stderr = &said, &said
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait(); close(ended) }()
	t.Cleanup(func() {
		if pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = nspawn.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("the container said:\n%s", said.String())
		}
	})
	check := func() (string, error) {
		if pid = childOf(nspawn.Process.Pid); pid == 0 {
			return "it did not start", fmt.Errorf("no process")
		}
		line := append([]string{"--mount", "sh", "-c", inCgroup, strconv.Itoa(pid), "--setuid", "10003", "--setgid", "10003", "--", "env", "-i"}, env...)
		out, err := exec.CommandContext(t.Context(), "unshare", append(line, config.Healthcheck.Test[1:]...)...).CombinedOutput()
		return string(out), err
	}
	out, err := check()
	for late := time.Now().Add(patience); err != nil; out, err = check() {
		if time.Now().After(late) {
			t.Fatalf("it is not healthy: %s", out)
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	if out != "ready\n" {
		t.Errorf("the health check says %q", out)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Uid:\t10003\t10003\t10003\t10003", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("the program does not have %q:\n%s", line, status)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "nsenter", "--all", "--target", strconv.Itoa(pid), "--", "touch", "/usr/made").CombinedOutput(); err == nil || !strings.Contains(string(out), "Read-only") {
		t.Errorf("the file system of the container can be written: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(state, "history.db")); err != nil {
		t.Errorf("it keeps nothing: %v", err)
	}
}

// inCgroup is a script that enters the namespaces and control groups of process $0, as an engine does for a health check. The
// hierarchy of version 2 may not be mounted beside those of version 1.
const inCgroup = `while IFS=: read -r id controller path; do
  folder=/sys/fs/cgroup/${controller#name=}
  if [ -z "$controller" ] && [ ! -e /sys/fs/cgroup/cgroup.procs ]; then
    mount -t cgroup2 cgroup2 /mnt
    folder=/mnt
  fi
  [ ! -e "$folder$path/cgroup.procs" ] || echo $$ >"$folder$path/cgroup.procs"
done </proc/$0/cgroup
exec nsenter --all --target "$0" "$@"`

// childOf returns the first child of a process; 0 if it has none.
func childOf(pid int) int {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	first, _, _ := strings.Cut(strings.TrimSpace(string(children)), " ")
	child, _ := strconv.Atoi(first)
	return child
}

// The same commit gives the same packages, byte for byte, also from another folder, by another user's settings, at another time.
func TestReproducible(t *testing.T) {
	t.Setenv("SIGNING_PASSWORD_FILE", "")
	key := filepath.Join(t.TempDir(), "key")
	host(t, "minisign", "-G", "-W", "-p", key+".pub", "-s", key)
	var all [2]map[string]string
	for i := range all {
		dir := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i), "gpuwhy")
		host(t, "git", "clone", "--quiet", "--no-hardlinks", "../..", dir)
		if i == 1 {
			for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
				t.Setenv(name, strings.TrimSpace(host(t, "go", "env", name)))
			}
			t.Setenv("TZ", "Asia/Kathmandu")
			t.Setenv("HOME", t.TempDir())
			old := syscall.Umask(0o007)
			defer syscall.Umask(old)
		}
		out := filepath.Join(dir, "packages")
		if err := run(t.Context(), []string{"-root", dir, "-out", out, "-only", "linux_amd64", "-key", key}); err != nil {
			t.Fatal(err)
		}
		all[i] = map[string]string{}
		files, err := os.ReadDir(out)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			content, err := os.ReadFile(filepath.Join(out, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[i][f.Name()] = string(content)
		}
	}
	if len(all[0]) != 7 || len(all[1]) != 7 {
		t.Errorf("%d and %d files", len(all[0]), len(all[1]))
	}
	for name, content := range all[0] {
		if all[1][name] != content {
			t.Errorf("%s differs", name)
		}
	}
}
