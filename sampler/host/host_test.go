package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

func readHost(t testing.TB, r *Reader) gpu.Host {
	t.Helper()
	h, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// readings compares readings as they print, with their quality.
var readings = cmp.Options{
	cmp.Comparer(func(a, b gpu.Reading[float64]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[int]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[string]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[gpu.Bytes]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[gpu.Percent]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[gpu.BytesPerSecond]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[time.Duration]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[gpu.Watts]) bool { return a == b }),
	cmp.Comparer(func(a, b gpu.Reading[bool]) bool { return a == b }),
	cmpopts.IgnoreFields(gpu.Host{}, "Busiest"),       // they have their own tests
	cmpopts.IgnoreFields(gpu.Disk{}, "Total", "Used"), // of the file system that the test runs on
}

func TestReadMachine(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowOwn)
	kib := func(n gpu.Bytes) gpu.Reading[gpu.Bytes] { return gpu.Of(n << 10) }
	page := gpu.Bytes(os.Getpagesize())
	name, _ := os.Hostname()
	want := gpu.Host{
		Hostname: name, OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.1.0-test",
		Uptime:   gpu.Of(1000 * time.Second),
		Boot:     "0b9b32d1-5a31-4a87-8f3c-3d5d2a1e6f70",
		CPUModel: gpu.Of("Fast CPU"), Cores: gpu.Of(2),
		Load1: gpu.Of(0.5), Load5: gpu.Of(1.25), Load15: gpu.Of(2.0),
		MemoryTotal: kib(16000), MemoryAvailable: kib(6000), MemoryUsed: kib(10000),
		SwapTotal: kib(2000), SwapUsed: kib(500),
		Disks:    []gpu.Disk{{Device: "/dev/sda2", Mount: "/", FileSystem: "ext4"}},
		Networks: []gpu.Interface{{Name: "eth0", ReceivedTotal: gpu.Of[gpu.Bytes](5000), SentTotal: gpu.Of[gpu.Bytes](700)}},
		Self:     gpu.Self{RSS: gpu.Of(6400 * page)},
		CPUPower: gpu.Absent[gpu.Watts](gpu.NotSupported), CPUThrottled: gpu.Absent[bool](gpu.NotSupported),
		NoFans: gpu.Advice{
			What: "the system exposes no sensors here",
			Try:  "in a container, mount the machine's sysfs and name it with --sysfs-root; otherwise load a driver for the board's sensors",
		},
	}
	got := readHost(t, r)
	if diff := cmp.Diff(want, got, readings); diff != "" {
		t.Errorf("first reading (-want +got):\n%s", diff)
	}
	if d := got.Disks[0]; d.Total.Or(0) == 0 || d.Used.Or(0) > d.Total.Or(0) {
		t.Errorf("disk = %+v", d)
	}

	// Two seconds later: 3 of 4 CPU seconds busy, and traffic.
	m.now = m.now.Add(2 * time.Second)
	m.write("proc/stat", "cpu  250 50 200 750 150 0 0 0 100 0\n")
	m.disk("sda2", 1000+4096, 500+2048)
	m.network(5000+3000, 700+600)
	m.write("proc/self/stat", statLine(77, "gpuwhy", 102, 21, 5000, 6400))
	got = readHost(t, r)
	want.CPU = gpu.Of[gpu.Percent](75)
	want.Disks[0].Read, want.Disks[0].Write = gpu.Of[gpu.BytesPerSecond](1<<20), gpu.Of[gpu.BytesPerSecond](1<<19)
	want.Networks[0] = gpu.Interface{Name: "eth0",
		Received: gpu.Of[gpu.BytesPerSecond](1500), Sent: gpu.Of[gpu.BytesPerSecond](300),
		ReceivedTotal: gpu.Of[gpu.Bytes](8000), SentTotal: gpu.Of[gpu.Bytes](1300)}
	want.Self.CPU = gpu.Of[gpu.Percent](1.5)
	if diff := cmp.Diff(want, got, readings); diff != "" {
		t.Errorf("second reading (-want +got):\n%s", diff)
	}

	// A moment later: the same rates. Then a counter goes back.
	m.now = m.now.Add(time.Millisecond)
	m.network(0, 9000)
	if again := readHost(t, r); again.CPU != want.CPU || again.Networks[0].Sent != want.Networks[0].Sent {
		t.Errorf("rates after a millisecond: %v, %+v", again.CPU, again.Networks[0])
	}
	m.now = m.now.Add(time.Second)
	if n := readHost(t, r).Networks[0]; n.Received.Present() || !n.Sent.Present() {
		t.Errorf("after the counter went back: %+v", n)
	}
}

// A network that was gone for a while has no rate over that time.
func TestNetworkThatWasGone(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowAll)
	readHost(t, r)
	for i, tt := range []struct {
		state string
		rate  bool
	}{{"up", true}, {"down", false}, {"up", false}, {"up", true}} {
		m.now = m.now.Add(time.Second)
		m.network(6000+i, 800+i)
		m.iface("eth0", "0x1003", tt.state)
		h := readHost(t, r)
		if tt.state == "down" && len(h.Networks) != 0 || tt.state == "up" && h.Networks[0].Received.Present() != tt.rate {
			t.Errorf("%d: %+v", i, h.Networks)
		}
		if n := len(r.rates.these); tt.state == "down" && n != 5 { // of the CPU, the disk and this process
			t.Errorf("%d counters are kept", n)
		}
	}
}

// A part that can't be read is absent and named in the error; the other parts are present.
func TestPartsFailAlone(t *testing.T) {
	tests := map[string]struct {
		damage func(m *machine)
		absent func(h gpu.Host) bool
	}{
		"memory":        {func(m *machine) { m.remove("proc/meminfo") }, func(h gpu.Host) bool { return !h.MemoryTotal.Present() && !h.SwapUsed.Present() }},
		"CPU":           {func(m *machine) { m.remove("proc/stat") }, func(h gpu.Host) bool { return !h.CPU.Present() }},
		"uptime":        {func(m *machine) { m.remove("proc/uptime") }, func(h gpu.Host) bool { return !h.Uptime.Present() }},
		"disks":         {func(m *machine) { m.remove("proc/self/mountinfo") }, func(h gpu.Host) bool { return len(h.Disks) == 0 }},
		"network":       {func(m *machine) { m.remove("proc/net/dev") }, func(h gpu.Host) bool { return len(h.Networks) == 0 }},
		"gpuwhy itself": {func(m *machine) { m.write("proc/self/stat", "77 (gpuwhy) S") }, func(h gpu.Host) bool { return !h.Self.RSS.Present() }},
		"system":        {func(m *machine) { m.remove("proc/cpuinfo"); m.remove("etc/os-release") }, func(h gpu.Host) bool { return !h.Cores.Present() && h.OS == "" && h.Kernel != "" }},
	}
	parts := []string{"memory", "CPU", "uptime", "disks", "network", "gpuwhy itself", "system"}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tt.damage(m)
			r := m.reader(ShowOwn)
			h, err := r.Read(t.Context())
			if err == nil || !tt.absent(h) {
				t.Fatalf("err = %v, host = %+v", err, h)
			}
			for _, part := range parts {
				if named := strings.Contains("\n"+err.Error(), "\n"+part+": "); named != (part == name) {
					t.Errorf("%s named: %v, in %q", part, named, err)
				}
			}
			if !h.Load1.Present() || h.Hostname == "" {
				t.Errorf("the rest is missing: %+v", h)
			}
		})
	}
}

func TestStaticFactsAreReadOnceComplete(t *testing.T) {
	m := newMachine(t)
	m.remove("etc/os-release")
	r := m.reader(ShowOwn)
	if _, err := r.Read(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("err = %v", err)
	}
	m.write("usr/lib/os-release", "PRETTY_NAME='Fedora Linux 42'\n")
	if h := readHost(t, r); h.OS != "Fedora Linux 42" {
		t.Errorf("OS = %q", h.OS)
	}
	m.remove("usr")
	m.remove("proc/cpuinfo")
	if h := readHost(t, r); h.OS != "Fedora Linux 42" || h.Cores != gpu.Of(2) {
		t.Errorf("read again: %q, %v", h.OS, h.Cores)
	}
}

func TestMounts(t *testing.T) {
	type shown struct{ Device, Mount, FileSystem string }
	tests := map[string]struct {
		mounts []string
		want   []shown
	}{
		"a machine": {[]string{
			"22 27 0:21 / /proc rw - proc proc rw",
			"24 27 0:6 / /dev rw - devtmpfs udev rw",
			"27 1 8:2 / / rw - ext4 /dev/sda2 rw",
			"30 27 8:1 / /boot/efi rw - vfat /dev/sda1 rw",
			"31 27 7:0 / /snap/core/1 ro - squashfs /dev/loop0 ro",
			"33 27 0:50 / /run/user/1000/doc rw - fuse.portal /dev/fuse rw",
			"34 27 0:51 / /nfs rw - nfs4 server:/export rw",
			"32 27 0:40 / /tmp rw - tmpfs tmpfs rw",
		}, []shown{{"/dev/sda2", "/", "ext4"}, {"/dev/sda1", "/boot/efi", "vfat"}}},
		"bind mounts": {[]string{
			"27 1 8:2 / / rw - ext4 /dev/sda2 rw",
			"28 27 8:2 /var/lib/data /d rw - ext4 /dev/sda2 rw",
			"29 27 8:3 /a /long/mount rw - xfs /dev/sda3 rw",
			"30 27 8:3 / /a/longer/mount rw - xfs /dev/sda3 rw",
		}, []shown{{"/dev/sda2", "/", "ext4"}, {"/dev/sda3", "/a/longer/mount", "xfs"}}},
		"a container": {[]string{
			"600 500 0:60 / / rw - overlay overlay rw,lowerdir=/x",
			"601 600 0:61 / /proc rw - proc proc rw",
			"602 600 8:2 /docker/hosts /etc/hosts rw - ext4 /dev/sda2 rw",
			"603 600 8:4 /volumes/m /models rw - ext4 /dev/sda4 rw",
		}, []shown{{"overlay", "/", "overlay"}, {"/dev/sda4", "/models", "ext4"}}},
		"ZFS": {[]string{
			"27 1 0:30 / / rw - zfs rpool/ROOT/ubuntu rw",
			"28 27 0:31 / /home rw - zfs rpool/home rw",
		}, []shown{{"rpool/ROOT/ubuntu", "/", "zfs"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.write("proc/self/mountinfo", strings.Join(tt.mounts, "\n")+"\n")
			for _, dir := range []string{"boot/efi", "d", "long/mount", "a/longer/mount", "models"} {
				if err := os.MkdirAll(m.root+"/"+dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			m.write("etc/hosts", "127.0.0.1 localhost\n")
			var got []shown
			for _, d := range readHost(t, m.reader(ShowOwn)).Disks {
				got = append(got, shown{d.Device, d.Mount, d.FileSystem})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMountsAreLookedForAgain(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowOwn)
	readHost(t, r)
	m.write("proc/self/mountinfo", "27 1 8:2 / / rw - ext4 /dev/sda2 rw\n28 27 8:9 / /gone rw - ext4 /dev/sdb1 rw\n")
	m.now = m.now.Add(mountsFor - time.Second)
	if disks := readHost(t, r).Disks; len(disks) != 1 {
		t.Fatalf("disks = %+v", disks)
	}
	m.now = m.now.Add(time.Second)
	h, err := r.Read(t.Context())
	if len(h.Disks) != 2 || h.Disks[1].Total.Present() || err == nil || !strings.Contains(err.Error(), "/gone") {
		t.Errorf("a disk that can't be asked: %+v, err %v", h.Disks, err)
	}
}

// The CPU time and memory of gpuwhy's helper processes count as gpuwhy's own. An ended helper counts nothing.
func TestHelpersCount(t *testing.T) {
	m := newMachine(t)
	r := m.reader(ShowOwn)
	r.Helpers = func() []int { return []int{78, 79} }
	m.write("proc/78/stat", statLine(78, "gpuwhy", 10, 5, 5010, 600))
	page := gpu.Bytes(os.Getpagesize())
	if h := readHost(t, r); h.Self.RSS != gpu.Of(7000*page) || h.Self.CPU.Present() {
		t.Errorf("first reading: %v, %v", h.Self.RSS, h.Self.CPU)
	}
	m.now = m.now.Add(2 * time.Second)
	m.write("proc/self/stat", statLine(77, "gpuwhy", 102, 21, 5000, 6400))
	m.write("proc/78/stat", statLine(78, "gpuwhy", 12, 6, 5010, 600))
	if h := readHost(t, r); h.Self.CPU != gpu.Of[gpu.Percent](3) {
		t.Errorf("second reading: %v", h.Self.CPU)
	}
}

func TestReadAfterContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newMachine(t).reader(ShowOwn).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// The machine that runs the test: what must hold anywhere.
func TestReadThisMachine(t *testing.T) {
	h, r := readThisMachine(t, thisMachine)
	if h.CPU.Present() || h.Self.CPU.Present() {
		t.Errorf("rates at the first reading: %v, %v", h.CPU, h.Self.CPU)
	}
	if h.Hostname == "" || h.Kernel == "" || h.OS == "" || h.Cores.Or(0) < 1 || h.Uptime.Or(0) <= 0 || !h.Load1.Present() {
		t.Errorf("host = %+v", h)
	}
	if h.MemoryUsed.Or(0)+h.MemoryAvailable.Or(0) != h.MemoryTotal.Or(1) || h.MemoryUsed.Or(0) == 0 {
		t.Errorf("memory: %v + %v of %v", h.MemoryUsed, h.MemoryAvailable, h.MemoryTotal)
	}
	if h.Self.RSS.Or(0) < 1<<20 {
		t.Errorf("own memory = %v", h.Self.RSS)
	}
	if len(h.Disks) == 0 || h.Disks[0].Mount != "/" || h.Disks[0].Total.Or(0) == 0 {
		t.Errorf("disks = %+v", h.Disks)
	}
	for _, n := range h.Networks {
		if n.Name == "lo" || n.Received.Present() {
			t.Errorf("network = %+v", n)
		}
	}
	readRates(t, r)
}

// readThisMachine returns a complete first reading; a reading is incomplete if somebody removes a disk meanwhile.
func readThisMachine(t *testing.T, newReader func(ShowCommands) *Reader) (h gpu.Host, r *Reader) {
	t.Helper()
	var err error
	testkit.Until(t, "a whole reading", func() bool {
		r = newReader(ShowOwn)
		h, err = r.Read(t.Context())
		return err == nil
	}, func() any { return err })
	return h, r
}

// readRates reads until there are rates, which this process causes by reading.
func readRates(t *testing.T, r *Reader) {
	t.Helper()
	now := r.now()
	r.now = func() time.Time { now = now.Add(time.Second); return now }
	var h gpu.Host
	var err error
	testkit.Until(t, "rates", func() bool {
		h, err = r.Read(t.Context())
		return h.CPU.Or(0) > 0 && h.Self.CPU.Or(0) > 0
	}, func() string { return fmt.Sprintf("%v, %v, %v", h.CPU, h.Self.CPU, err) })
	if cpu := h.CPU.Or(0); cpu > 100 {
		t.Errorf("CPU = %v", cpu)
	}
}

func BenchmarkRead(b *testing.B) {
	r := New("/sys", ShowOwn, slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		readHost(b, r)
	}
}

func TestFreeSpace(t *testing.T) {
	if free, err := FreeSpace(t.TempDir()); err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
	if _, err := FreeSpace("/nowhere"); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("of a folder that is not there: %v", err)
	}
}
