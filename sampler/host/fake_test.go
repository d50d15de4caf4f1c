package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func TestMain(m *testing.M) {
	quietGRPC() // before the tests' own servers
	os.Exit(testkit.RunTests(m))
}

// A machine is a root directory made for a test, with its clock.
type machine struct {
	t    *testing.T
	root string
	now  time.Time
	// giveUp ends the current wait: no time passes by itself.
	giveUp atomic.Pointer[context.CancelFunc]
}

// newMachine makes a machine that has been up for a thousand seconds, in the initial pid namespace, with one disk, one interface and no
// processes.
func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir(), now: time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)}
	m.link("proc/self/ns/pid", "pid:[4026531836]")
	m.write("proc/self/status", "Name:\tgpuwhy\nNSpid:\t77\n")
	m.write("proc/self/stat", statLine(77, "gpuwhy", 100, 20, 5000, 6400))
	m.write("proc/uptime", "1000.00 3600.00\n")
	m.write("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 100 0 100 700 100 0 0 0 0 0\n")
	m.write("proc/loadavg", "0.50 1.25 2.00 1/200 4711\n")
	m.write("proc/meminfo", "MemTotal: 16000 kB\nMemFree: 1000 kB\nMemAvailable: 6000 kB\nSwapTotal: 2000 kB\nSwapFree: 1500 kB\n")
	m.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast  CPU\n\nprocessor\t: 1\nmodel name\t: Fast  CPU\n\n")
	m.write("proc/sys/kernel/osrelease", "6.1.0-test\n")
	m.write("proc/sys/kernel/random/boot_id", "0b9b32d1-5a31-4a87-8f3c-3d5d2a1e6f70\n")
	m.write("etc/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n")
	m.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n")
	m.write("proc/filesystems", "nodev\tproc\n\text4\n")
	m.write("proc/1/comm", "init\n")
	m.write("proc/self/mountinfo", "27 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw\n")
	m.disk("sda2", 1000, 500)
	m.network(5000, 700)
	m.iface("eth0", "0x1003", "up")
	m.iface("lo", "0x9", "unknown")
	m.iface("wlan0", "0x1002", "down")
	m.iface("eth1", "0x1003", "down")
	m.iface("veth12", "0x1003", "up")
	return m
}

func (m *machine) reader(show ShowCommands) *Reader {
	r := newReader(m.root, m.root+"/sys", show, slog.New(slog.NewTextHandler(m.t.Output(), nil)))
	r.now = func() time.Time { return m.now }
	r.names.timeout, r.reservations.timeout, r.sensors.timeout = m.timeout, m.timeout, m.timeout
	return r
}

func (m *machine) timeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	m.giveUp.Store(&cancel)
	return ctx, cancel
}

// pass lets the deadline of a question pass after it has reached a service.
func (m *machine) pass(comes <-chan struct{}) {
	m.t.Helper()
	testkit.Receive(m.t, "the question comes", comes)
	(*m.giveUp.Load())()
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	file := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) link(name, target string) {
	m.t.Helper()
	file := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	m.remove(name)
	if err := os.Symlink(target, file); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) remove(name string) {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.root, name)); err != nil {
		m.t.Fatal(err)
	}
}

// disk sets how many sectors were read and written.
func (m *machine) disk(name string, read, written int) {
	m.write("proc/diskstats", fmt.Sprintf("   8       2 %s 10 0 %d 5 20 0 %d 9 0 8 14\n", name, read, written))
}

func (m *machine) network(received, sent int) {
	const line = "%6s: %d 10 0 0 0 0 0 0 %d 12 0 0 0 0 0 0\n"
	text := "Inter-|   Receive  |  Transmit\n face |bytes    packets |bytes    packets\n"
	for _, name := range []string{"lo", "eth0", "wlan0", "eth1", "veth12"} {
		text += fmt.Sprintf(line, name, received, sent)
	}
	m.write("proc/net/dev", text)
}

func (m *machine) iface(name, flags, state string) {
	m.write("sys/class/net/"+name+"/flags", flags+"\n")
	m.write("sys/class/net/"+name+"/operstate", state+"\n")
}

// process starts or changes a process; start and cpu are in ticks.
func (m *machine) process(pid int, comm string, uid, start, cpu int, args ...string) {
	dir := fmt.Sprintf("proc/%d/", pid)
	m.write(dir+"stat", statLine(pid, comm, cpu, 0, start, 300))
	m.write(dir+"status", fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n", comm, uid+1, uid, uid, uid))
	m.write(dir+"cmdline", strings.Join(args, "\x00")+"\x00")
}

func (m *machine) end(pid int) { m.remove(fmt.Sprintf("proc/%d", pid)) }

func statLine(pid int, comm string, utime, stime, start, pages int) string {
	return fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194304 100 0 0 0 %d %d 0 0 20 0 1 0 %d 1000000 %d 18446744073709551615 1 1 0\n", pid, comm, utime, stime, start, pages)
}

// facts describes one process.
func facts(t *testing.T, r *Reader, pid int) gpu.ProcessFacts {
	t.Helper()
	ps := []gpu.Process{{PID: pid}}
	r.Describe(t.Context(), ps)
	return ps[0].Facts
}
