//go:build packages

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests install the packages in a clean Debian with a running systemd (systemd-nspawn), and with rpm's own tools. They need
// root, and the packages that make packages has made with the key -key: make test-packages.
var (
	packages = flag.String("packages", "", "the folder that make packages has made")
	cache    = flag.String("cache", "", "a folder that keeps the clean Debian for the next run")
)

// patience is how long something may take that should happen soon.
const patience = 3 * time.Minute

// served is the variable that makes this program serve a folder on served's port, in another network.
const served = "PACKAGES_SERVED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(served); dir != "" {
		listener, err := net.Listen("tcp", "127.0.0.1:8000")
		if err == nil {
			err = http.Serve(listener, http.FileServer(http.Dir(dir)))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// clean returns a new copy of a Debian with systemd.
func clean(t *testing.T) string {
	t.Helper()
	const suite = "bookworm"
	archive := filepath.Join(*cache, "debian-"+suite+".tar")
	if _, err := os.Stat(archive); err != nil {
		if err := os.MkdirAll(*cache, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Log("making a clean Debian takes minutes the first time")
		host(t, "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--format=tar",
			"--include=systemd,systemd-sysv,curl,ca-certificates,openssl", suite, archive+".new")
		if err := os.Rename(archive+".new", archive); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	host(t, "tar", "-xf", archive, "-C", root)
	return root
}

// host runs a program on this machine.
func host(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// one returns the only package with such a name.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*packages, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s in %s: %v, %v", pattern, *packages, found, err)
	}
	return found[0]
}

// A machine is a running Debian.
type machine struct {
	t      *testing.T
	root   string
	leader int // its systemd
}

// boot starts systemd in a folder, with a network of its own.
func boot(t *testing.T, root string) *machine {
	t.Helper()
	m := &machine{t: t, root: root}
	var said bytes.Buffer
	nspawn := exec.Command("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe",
		"--machine=packages-"+strconv.Itoa(os.Getpid()), "--directory="+root, "--boot")
	nspawn.Stdout, nspawn.Stderr = &said, &said
	if err := nspawn.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- nspawn.Wait() }()
	t.Cleanup(func() {
		if m.leader > 0 {
			_ = syscall.Kill(m.leader, syscall.SIGKILL) // and with it all that runs there
		} else {
			_ = nspawn.Process.Kill()
		}
		<-ended
		if t.Failed() {
			t.Logf("the machine said:\n%s", said.String())
		}
	})
	m.until("systemd runs", func() bool {
		m.leader = childOf(nspawn.Process.Pid)
		if m.leader == 0 {
			return false
		}
		state, _ := m.try("systemctl is-system-running")
		return strings.TrimSpace(state) == "running"
	})
	return m
}

// until waits for something to hold.
func (m *machine) until(what string, holds func() bool) {
	m.t.Helper()
	late := time.After(patience)
	for !holds() {
		select {
		case <-late:
			log, _ := m.try("journalctl --no-pager -n 40")
			m.t.Fatalf("it does not happen: %s\n%s", what, log)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (m *machine) command(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", "--all", "--target", strconv.Itoa(m.leader), "--", "env", "-i", "HOME=/root",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", line)
}

// try runs a line of shell there.
func (m *machine) try(line string) (string, error) {
	out, err := m.command(m.t.Context(), line).CombinedOutput()
	return string(out), err
}

// run runs a line of shell there, which must not fail.
func (m *machine) run(line string) string {
	m.t.Helper()
	out, err := m.try(line)
	if err != nil {
		log, _ := m.try("journalctl --no-pager -n 20 -u gpuwhy")
		m.t.Fatalf("%s: %v\n%s\n%s", line, err, out, log)
	}
	return strings.TrimSpace(out)
}

// says runs a line of shell whose output must have some texts.
func (m *machine) says(line string, texts ...string) string {
	m.t.Helper()
	out := m.run(line)
	for _, text := range texts {
		if !strings.Contains(out, text) {
			m.t.Errorf("%s does not say %q:\n%s", line, text, out)
		}
	}
	return out
}

// write writes a file there.
func (m *machine) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// gone checks that a file is no more.
func (m *machine) gone(names ...string) {
	m.t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(m.root, name)); err == nil {
			m.t.Errorf("%s is left", name)
		}
	}
}

// serves waits until the page answers, and returns the process of the service.
func (m *machine) serves() (pid string) {
	m.t.Helper()
	m.until("the page answers", func() bool {
		page, err := m.try("curl -fsS -H 'Accept: text/html' http://127.0.0.1:8003/")
		return err == nil && strings.Contains(page, "gpuwhy")
	})
	return m.run("systemctl show -P MainPID gpuwhy")
}

// began returns when the first session began that gpuwhy knows.
func (m *machine) began() (first string) {
	m.t.Helper()
	m.until("it has a session", func() bool {
		var answer struct{ Sessions []struct{ From string } }
		out, err := m.command(m.t.Context(), "curl -fsS 'http://127.0.0.1:8003/api/gpu/sessions?from=-1h'").Output()
		if err != nil || json.Unmarshal(out, &answer) != nil {
			return false
		}
		for _, s := range answer.Sessions {
			if first == "" || s.From < first {
				first = s.From
			}
		}
		return first != ""
	})
	return first
}

func (m *machine) copyTo(file string) string {
	m.t.Helper()
	target := filepath.Join("/root", filepath.Base(file))
	host(m.t, "cp", file, filepath.Join(m.root, target))
	return target
}

// later makes a package of the next version.
func (m *machine) later(deb string) string {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), "deb")
	host(m.t, "dpkg-deb", "-R", deb, dir)
	host(m.t, "sed", "-i", "s/^Version: .*/Version: 99.0.0-1/", filepath.Join(dir, "DEBIAN/control"))
	later := filepath.Join(m.root, "root/later.deb")
	host(m.t, "dpkg-deb", "-Znone", "-b", dir, later)
	return "/root/later.deb"
}

const simulated = "\nsource: simulate:rtx-4090\n"

// settings changes the configuration file that the package brought.
func (m *machine) settings(more string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, "etc/gpuwhy/gpuwhy.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(text), "\n# by the test")
	m.write("etc/gpuwhy/gpuwhy.yaml", before+"\n# by the test"+more)
}

// A new user installs gpuwhy with the installation line, and sees the page. It is upgraded, removed and purged.
func TestDebian(t *testing.T) {
	m := boot(t, clean(t))
	server := exec.Command("nsenter", "--net", "--target", strconv.Itoa(m.leader), "--", os.Args[0])
	server.Env = append(os.Environ(), served+"="+*packages)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	m.until("the packages are served", func() bool { _, err := m.try("curl -fsS http://127.0.0.1:8000/SHA256SUMS"); return err == nil })

	begin := time.Now()
	m.says("curl -fsSL http://127.0.0.1:8000/install.sh | GPUWHY_FROM=http://127.0.0.1:8000 sh", "the signature and the checksum of gpuwhy_", "installed gpuwhy_", "http://127.0.0.1:8003")
	pid := m.serves()
	t.Logf("from the installation line to the page: %.1f s", time.Since(begin).Seconds())

	m.says("id gpuwhy", "(video)", "(render)")
	m.says("stat -c %U /proc/"+pid, "gpuwhy")
	m.says("grep ^Groups: /proc/"+pid+"/status", m.run("getent group video | cut -d: -f3"), m.run("getent group render | cut -d: -f3"))
	m.says("stat -c '%U:%G %a' /var/lib/gpuwhy", "gpuwhy:gpuwhy 700")
	m.says("stat -c '%U:%G %a' /etc/gpuwhy/gpuwhy.yaml", "root:root 644")
	m.says("systemctl is-enabled gpuwhy", "enabled")
	m.says("cat /usr/share/bash-completion/completions/gpuwhy", "gpuwhy")
	m.says("dpkg -V gpuwhy; echo verified", "verified")
	m.says("gpuwhy version", "gpuwhy ")
	m.says("useradd -m alice && usermod -aG gpuwhy alice && su alice -c 'gpuwhy do silence-matching --help'", "silence")

	// A reload checks the settings; packages reload before they restart.
	m.settings(simulated)
	m.run("systemctl reload gpuwhy && systemctl restart gpuwhy")
	pid = m.serves()
	before := m.began()
	deb := one(t, "gpuwhy_*_amd64.deb")
	later := m.later(deb)
	m.settings(simulated + "listen: 0.0.0.0:8003\n")
	m.says("dpkg -i "+later, "NOT restarted", "journalctl")
	if same := m.run("systemctl show -P MainPID gpuwhy"); same != pid || m.serves() != pid {
		t.Errorf("it was restarted with settings that are refused: %s, before %s", same, pid)
	}
	m.says("journalctl -u gpuwhy", "no-sign-in")
	m.settings(simulated)
	m.run("dpkg -i " + later)
	if now := m.serves(); now == pid {
		t.Error("the upgrade did not restart it")
	}
	if after := m.began(); after != before {
		t.Errorf("after the upgrade, the first session began %s, and before %s", after, before)
	}
	m.says("cat /etc/gpuwhy/gpuwhy.yaml", "by the test")

	m.says("curl -fsSL http://127.0.0.1:8000/install.sh | sh -s -- --uninstall", "kept /var/lib/gpuwhy", "removed")
	m.gone("usr/bin/gpuwhy", "usr/lib/systemd/system/gpuwhy.service")
	if out, err := m.try("systemctl is-active gpuwhy"); err == nil {
		t.Errorf("it still runs: %s", out)
	}
	m.says("ls /var/lib/gpuwhy/history.db /etc/gpuwhy/gpuwhy.yaml", "history.db", "gpuwhy.yaml")
	m.run("dpkg -i " + m.copyTo(deb)) // and it is back, with its data
	m.serves()
	if after := m.began(); after != before {
		t.Errorf("after it was removed and installed again, the first session began %s, and before %s", after, before)
	}
	m.says("curl -fsSL http://127.0.0.1:8000/install.sh | sh -s -- --purge", "removed")
	m.gone("var/lib/gpuwhy", "etc/gpuwhy", "usr/bin/gpuwhy", "etc/systemd/system/multi-user.target.wants/gpuwhy.service")

	// The archive, where a system has neither dpkg nor rpm.
	m.says("curl -fsSL http://127.0.0.1:8000/install.sh | GPUWHY_PACKAGE=tar GPUWHY_FROM=http://127.0.0.1:8000 sh", "installed below /usr/local")
	pid = m.serves()
	m.says("readlink /proc/"+pid+"/exe", "/usr/local/bin/gpuwhy")
	m.says("curl -fsSL http://127.0.0.1:8000/install.sh | GPUWHY_PACKAGE=tar GPUWHY_FROM=http://127.0.0.1:8000 sh", "installed below /usr/local")
	if now := m.serves(); now == pid {
		t.Error("the upgrade of the archive did not restart it")
	}
	// A package in its place takes the state over.
	m.settings(simulated)
	m.run("systemctl restart gpuwhy")
	before = m.began()
	m.says("dpkg --force-confold -i /root/"+filepath.Base(deb), "was installed by hand")
	pid = m.serves()
	m.says("readlink /proc/"+pid+"/exe", "/usr/bin/gpuwhy")
	if after := m.began(); after != before {
		t.Errorf("after the archive was replaced, the first session began %s, and before %s", after, before)
	}
	m.run("dpkg -P gpuwhy")
	m.says("sh /usr/local/lib/gpuwhy/setup purge")
	m.gone("usr/local/bin/gpuwhy", "usr/local/share/man/man1/gpuwhy.1.gz", "var/lib/gpuwhy")
}

// A gpuwhy that somebody installed by hand, as a dynamic user, becomes the package's, with its data.
func TestDynamicUser(t *testing.T) {
	m := boot(t, clean(t))
	deb := one(t, "gpuwhy_*_amd64.deb")
	host(t, "dpkg-deb", "-x", deb, filepath.Join(m.root, "root/unpacked"))
	host(t, "install", "-D", filepath.Join(m.root, "root/unpacked/usr/bin/gpuwhy"), filepath.Join(m.root, "usr/local/bin/gpuwhy"))
	unit, err := os.ReadFile("testdata/handmade.service")
	if err != nil {
		t.Fatal(err)
	}
	m.write("etc/systemd/system/gpuwhy.service", string(unit))
	m.write("etc/default/gpuwhy", "# by hand\nGPUWHY_SOURCE=\"simulate:rtx-4090\"\n")
	m.run("systemctl daemon-reload && systemctl enable --now gpuwhy")
	pid := m.serves()
	before := m.began()
	m.says("readlink /var/lib/gpuwhy", "private/gpuwhy")

	// Settings that this version refuses leave all as it was.
	m.write("etc/default/gpuwhy", "GPUWHY_SOURCE=\"simulate:rtx-4090\"\nGPUWHY_LISTEN=0.0.0.0:8003\n")
	m.says("dpkg -i "+m.copyTo(deb), "no-sign-in", "does not accept its settings", "install this package again")
	if now := m.serves(); now != pid {
		t.Errorf("it runs as %s, and ran as %s", now, pid)
	}
	m.says("systemctl show -P FragmentPath gpuwhy", "/etc/systemd/system/gpuwhy.service")

	m.write("etc/default/gpuwhy", "GPUWHY_SOURCE=\"simulate:rtx-4090\"\n")
	m.says("dpkg -i /root/"+filepath.Base(deb), "was installed by hand", "before-package")
	pid = m.serves()
	m.says("readlink /proc/"+pid+"/exe", "/usr/bin/gpuwhy")
	m.says("systemctl show -P FragmentPath gpuwhy", "/lib/systemd/system/gpuwhy.service")
	m.says("systemctl is-enabled gpuwhy", "enabled")
	m.says("stat -c '%F %U:%G %a' /var/lib/gpuwhy", "directory gpuwhy:gpuwhy 700")
	m.says("find /var/lib/gpuwhy ! -user gpuwhy | wc -l", "0")
	m.gone("var/lib/private/gpuwhy")
	if after := m.began(); after != before {
		t.Errorf("the first session began %s, and before %s", after, before)
	}
}

// rpm installs, upgrades and removes the package. systemd is not there, as in an image that is being made: the user comes from
// useradd, and the program starts as the unit says.
func TestRPM(t *testing.T) {
	root := clean(t)
	package_ := one(t, "gpuwhy-*.x86_64.rpm")
	host(t, "mv", filepath.Join(root, "usr/bin/systemd-sysusers"), filepath.Join(root, "usr/bin/systemctl"), filepath.Join(root, "root"))
	rpm := func(args ...string) string {
		t.Helper()
		return host(t, "rpm", append([]string{"--root", root, "--nodeps", "--noplugins"}, args...)...)
	}
	if said := host(t, "rpm", "-qp", "--nosignature", "--requires", package_); !strings.Contains(said, "glibc >= 2.34") {
		t.Errorf("it requires %s", said)
	}
	if said := rpm("-i", package_); !strings.Contains(said, "systemctl enable --now gpuwhy") {
		t.Errorf("rpm -i says %s", said)
	}
	chroot := func(line string) string {
		t.Helper()
		return strings.TrimSpace(host(t, "chroot", root, "sh", "-c", line))
	}
	if said := chroot("id gpuwhy; stat -c '%U:%G %a' /var/lib/gpuwhy"); !strings.Contains(said, "(video)") || !strings.Contains(said, "(render)") || !strings.Contains(said, "gpuwhy:gpuwhy 700") {
		t.Error(said)
	}
	if said := rpm("-V", "gpuwhy"); strings.TrimSpace(said) != "" {
		t.Errorf("rpm -V says %s", said)
	}
	// What the unit starts, as the unit's user.
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/gpuwhy.service"))
	if err != nil {
		t.Fatal(err)
	}
	start, user, config := "", "", ""
	for line := range strings.Lines(string(unit)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "ExecStart":
			start = value
		case "User":
			user = value
		case "Environment":
			if strings.HasPrefix(value, "GPUWHY_CONFIG=") {
				config = value
			}
		}
	}
	said := chroot("env " + config + " setpriv --reuid=" + user + " --regid=" + user + " --init-groups timeout --preserve-status 20 " + start + " --listen=127.0.0.1:0 --source=simulate:rtx-4090; echo ended $?")
	if !strings.Contains(said, "http://127.0.0.1:") || !strings.Contains(said, "ended 0") {
		t.Errorf("%s says %s", start, said)
	}
	if said := chroot("ls -l /var/lib/gpuwhy/history.db"); !strings.Contains(said, "gpuwhy gpuwhy") {
		t.Error(said)
	}
	if said := rpm("-U", "--replacepkgs", package_); strings.Contains(said, "enable --now") {
		t.Errorf("rpm -U says %s", said)
	}
	if said := rpm("-e", "gpuwhy"); !strings.Contains(said, "kept /var/lib/gpuwhy") {
		t.Errorf("rpm -e says %s", said)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/gpuwhy")); err == nil {
		t.Error("rpm -e left the program")
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/gpuwhy/history.db")); err != nil {
		t.Errorf("rpm -e took the data: %v", err)
	}
}
