//go:build !race && linux

package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A disk is a separate file system that can be frozen, as backups do: a process that writes to it waits in the kernel, where no
// signal reaches it.
type disk struct {
	t   *testing.T
	dir string
}

// newDisk mounts a disk until the test ends. Only root may do that.
func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may mount")
	}
	if free, err := exec.CommandContext(t.Context(), "losetup", "--find").CombinedOutput(); err != nil {
		if _, missing := os.Stat("/dev/loop-control"); missing != nil || strings.Contains(string(free), "not permitted") {
			t.Skipf("this kernel gives no loop device: %s", free)
		}
		t.Fatalf("losetup --find, of the package mount: %v\n%s", err, free)
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20)); err != nil {
		t.Fatal(err)
	}
	d := &disk{t, dir}
	d.do("mkfs.ext4", "-q", image)
	d.do("mount", "-o", "loop", image, dir)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) do(command string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(command, args...).CombinedOutput(); err != nil { // what ends the test must not end this
		d.t.Fatalf("%s %q: %v\n%s", command, args, err, out)
	}
}

// freeze freezes the disk until the returned function is called, or the test ends in any way.
func (d *disk) freeze() (thaw func()) {
	d.t.Helper()
	// A frozen disk that is left behind would hold the machine: this also thaws it where the tests are killed.
	guard := exec.Command("sh", "-c", `sleep 300; exec fsfreeze --unfreeze "$1"`, "guard", d.dir) // nor this
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		d.t.Fatal(err)
	}
	frozen := true
	thaw = func() {
		if frozen {
			frozen = false
			d.do("fsfreeze", "--unfreeze", d.dir)
			_ = syscall.Kill(-guard.Process.Pid, syscall.SIGKILL) // with what it sleeps in
			_ = guard.Wait()                                      // it ends as one that was killed
		}
	}
	d.t.Cleanup(thaw)
	syscall.Sync() // whoever writes to a page that is mapped then has to ask the disk
	d.do("fsfreeze", "--freeze", d.dir)
	return thaw
}

// While the state's disk is frozen, live updates go on, alerts fire and are sent, and health says that the past can't be written.
// SIGTERM ends the program. Another one can start on the same port, and stores its data once the disk is thawed.
func TestAFrozenDisk(t *testing.T) {
	t.Parallel()
	messages := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		messages <- string(body)
	}))
	t.Cleanup(server.Close)
	d := newDisk(t)
	lib, m := machine(t, fakenvml.RTX4090())
	args := []string{fast, recordedSoon, "--state-dir=" + filepath.Join(d.dir, "state"), "--alert-rules=" + rulesFile(t, hotRules+`
targets: [{name: hook, url: "generic://`+strings.TrimPrefix(server.URL, "http://")+`/?disabletls=yes"}]
group_wait: 1s
group_interval: 1s
`)}
	p := start(t, lib.Env(), args...)
	p.remembered()
	pid := p.cmd.Process.Pid
	if mapped, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps")); err != nil || strings.Contains(string(mapped), d.dir) {
		t.Errorf("the program has mapped a file of its state: %v", err)
	}

	thaw := d.freeze()
	v := p.dial()
	var last contract.Update
	updates := func(n int) {
		t.Helper()
		for range n {
			var u contract.Update
			if v.next("gpu_status_update", &u); u.Seq < last.Seq || u.Seq > last.Seq+4 && last.Seq > 0 {
				t.Errorf("after reading %d comes %d", last.Seq, u.Seq)
			}
			last = u
		}
	}
	updates(40)
	m.GPU(0).Set(fakenvml.Temperature, 88)
	if text := testkit.Receive(t, "a message of the alert", messages); !strings.Contains(text, "[warning hot] ") {
		t.Errorf("told: %q", text)
	}
	p.fails("is not answering")
	updates(80) // more than 20 s of them are of the time since it is frozen
	if err := v.stream.Close(); err != nil {
		t.Error(err)
	}
	if err := p.stop(syscall.SIGTERM); err == nil {
		t.Error("it ends as if all were kept")
	}
	for _, text := range []string{"the end of the history is lost", "a helper process of gpuwhy is stuck on the disk"} {
		if !strings.Contains(p.log.String(), text) {
			t.Errorf("the log does not say %q", text)
		}
	}
	address, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}

	again := start(t, lib.Env(), append(args, "--listen="+address.Host)...)
	again.fails("is not answering")
	thaw()
	again.remembered()
	again.part("state", "ok")
	if err := again.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// recordedSoon is the deadline of a program whose disk will not answer: the one that programs have by default.
const recordedSoon = "--accounts-deadline=2s"

// Data that waits while a disk is frozen is written by the running program once the disk is thawed.
func TestAThawedDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := aSimulation(t, filepath.Join(d.dir, "state"), recordedSoon)
	p.remembered()
	thaw := d.freeze()
	p.fails("is not answering")
	silenced(p, http.StatusServiceUnavailable) // since it can't be recorded
	thaw()
	p.remembered()
	p.whole(0)
	p.part("state", "ok")
	p.part("history", "ok")
	p.part("audit", "ok")
	killAndLook(p, filepath.Join(d.dir, "state"), silenced(p, http.StatusCreated))
}

// While the disk of a fleet's server is frozen, machines stay live and may reconnect. SIGTERM ends the server and all connections to
// it. Restarted on the frozen disk, it shows its own machine at once, and serves the fleet once the disk is thawed.
func TestAFrozenDiskOfAFleet(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	f := newFleet(t, filepath.Join(d.dir, "state"), recordedSoon)
	agent := f.agent("gpu-1", nil, "--source=simulate:rtx-4090", "--state-dir="+t.TempDir())
	w := f.server.watch()
	updates := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.updates["gpu-1"]
	}
	further := func(n int, what string) {
		t.Helper()
		before := updates()
		testkit.Until(t, what, func() bool { return updates() >= before+n })
	}
	further(3, "the machine is live")
	f.server.remembered()

	thaw := d.freeze()
	further(50, "the machine stays live") // 25 s
	f.server.fails("is not answering")
	if err := f.server.stop(syscall.SIGTERM); err == nil {
		t.Error("the server ends as if all were kept")
	}
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", f.addr)
	if err != nil {
		t.Fatalf("the port of the fleet is not free: %v", err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	agent.part("fleet", "failed")

	f.serve()
	f.server.fails("is not answering")
	f.server.part("fleet", "failed", "the fleet's server does not start")
	thaw()
	f.server.part("fleet", "ok")
	agent.part("fleet", "ok")
	testkit.Until(t, "the machine is live again", f.server.watch().news("gpu-1"))
	f.server.remembered()
	if err := f.server.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
