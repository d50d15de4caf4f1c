//go:build linux

package amd

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

// client returns the fdinfo of a client of the card at 03:00.0, as amdgpu of Linux 6.12 is known to write it.
func client(number int, lines ...string) string {
	head := fmt.Sprintf("pasid:\t3%d\ndrm-driver:\tamdgpu\ndrm-pdev:\t%s\ndrm-client-id:\t%d\n", number, address, number)
	return head + strings.Join(lines, "\n") + "\n"
}

func ran(engine string, d time.Duration) string {
	return fmt.Sprintf("drm-engine-%s:\t%d ns", engine, d.Nanoseconds())
}

const (
	mib  = 1 << 20
	vram = "drm-memory-vram:\t65536 KiB\ndrm-memory-gtt: \t1024 KiB\ndrm-memory-cpu: \t0 KiB"
)

func processes(d *gpu.Device) string {
	var out []string
	for _, p := range d.Processes.Or(nil) {
		out = append(out, fmt.Sprintf("%d %s %v gpu %v enc %v dec %v video %v", p.PID, p.Type, p.Memory, p.SM, p.Encoder, p.Decoder, p.Video))
	}
	return strings.Join(out, "\n")
}

func TestProcesses(t *testing.T) {
	t.Run("encoder and decoder", func(t *testing.T) { testProcesses(t, "3", "enc %[1]v dec %[1]v video not_supported") })
	t.Run("one video engine", func(t *testing.T) { testProcesses(t, "4", "enc not_supported dec not_supported video %[1]v") })
}

// In testProcesses, vcn is the version of the video engine, and video how its shares are reported.
func testProcesses(t *testing.T, vcn, video string) {
	shares := func(share any) string { return fmt.Sprintf(video, share) }
	m := drmtest.New(t)
	topology(m)
	files := navi31()
	files["ip_discovery/die/0/12/0/major"] = vcn + "\n"
	m.Card(0, address, "amdgpu", files)
	// holds the card for others, and uses nothing
	m.Open(200, 9, "dri/card0", client(1))
	// a compositor
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Second)))
	// a recorder
	m.Open(202, 10, "dri/renderD128", client(3, vram, ran("enc", time.Second)))
	// computes through the compute driver, and has the render node open as all ROCm programs do
	m.Open(203, 4, "dri/renderD128", client(4, "drm-memory-vram:\t1024 KiB"))
	// on another card
	other := strings.ReplaceAll(client(5, vram), address, "0000:0c:00.0")
	m.Open(204, 4, "dri/renderD129", other)
	kfdUser(m, 203, 4711, fmt.Sprint(512*mib))
	kfdUser(m, 205, 4711, fmt.Sprint(256*mib))
	kfdUser(m, 206, 103, fmt.Sprint(128*mib)) // of another card
	kfdUser(m, 206, 4711, "0")                // a process has a file for each card
	kfdUser(m, 202, 4711, "0")
	s := newSource(t, m, nil)
	first := only(t, s)
	want := strings.Join([]string{
		"203 compute 536870912 gpu not_supported " + shares(0),
		"205 compute 268435456 gpu not_supported " + fmt.Sprintf("enc %[1]v dec %[1]v video %[1]v", gpu.NotSupported),
		"201 graphics 67108864 gpu not_reported " + shares(gpu.NotReported),
		"202 unknown 67108864 gpu not_reported " + shares(gpu.NotReported),
	}, "\n")
	if got := processes(first); got != want {
		t.Errorf("the first reading has\n%s\nwant\n%s", got, want)
	}
	busy := func(d *gpu.Device) string {
		u := &d.Utilization
		return fmt.Sprintf("enc %v dec %v video %v", u.Encoder, u.Decoder, u.Video)
	}
	if got, want := busy(first), shares(gpu.NotReported); got != want {
		t.Errorf("the first reading has %s, want %s", got, want)
	}
	if first.ProcessesPartial != gpu.Of(false) {
		t.Errorf("partial is %v", first.ProcessesPartial)
	}

	clockOf(s).Advance(300 * time.Millisecond)
	// more than possible
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Minute), ran("compute", time.Minute)))
	m.Open(202, 10, "dri/renderD128", client(3, vram, ran("enc", time.Second)))
	m.Exit(205)
	second := only(t, s)
	got := processes(second)
	if !strings.Contains(got, "202 unknown 67108864 gpu 0 "+shares(0)) || strings.Contains(got, "201 graphics ") {
		t.Errorf("the second reading has\n%s", got)
	}
	if got, want := busy(second), shares(0); got != want {
		t.Errorf("the second reading has %s, want %s", got, want)
	}
	if got := only(t, s).Processes.Or(nil); len(got) != 4 { // the compute driver still lists 205
		t.Errorf("%d processes", len(got))
	}
}

// Hidden usage is NotPermitted, noted once for the machine, and no reading claims to cover all processes.
func TestHiddenProcesses(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	m.Card(0, address, "amdgpu", navi31())
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Second)))
	f.set(m.Proc+"/201/fdinfo", syscall.EACCES)
	s := newSource(t, m, f)
	snap := read(t, s)
	d := &snap.Devices[0]
	if got, want := processes(d), "201 unknown not_permitted gpu not_permitted enc not_supported dec not_supported video not_permitted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d.ProcessesPartial != gpu.Of(true) {
		t.Errorf("partial is %v", d.ProcessesPartial)
	}
	if len(snap.Notes) != 1 || !strings.Contains(snap.Notes[0].Try, "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH") {
		t.Errorf("the notes are %v", snap.Notes)
	}
	if d.Utilization.Video.Quality() != gpu.NotPermitted || d.Utilization.JPEG.Quality() != gpu.NotPermitted {
		t.Errorf("the video engines have %v", d.Utilization.Video)
	}
	f.set(m.Proc+"/201/fdinfo", 0)
	if snap := read(t, s); len(snap.Notes) != 0 {
		t.Errorf("then the notes are %v", snap.Notes)
	}
}

// In a container, other containers' processes are not listed at all.
func TestProcessesOfContainer(t *testing.T) {
	m := drmtest.New(t)
	m.Card(0, address, "amdgpu", navi31())
	if err := os.MkdirAll(m.Proc+"/1/ns", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:[4026532448]", m.Proc+"/1/ns/pid"); err != nil {
		t.Fatal(err)
	}
	topology(m)
	m.Write(m.Sysfs+"/class/kfd/kfd/proc/4242/vram_4711", "2147483648\n") // the machine's pid, which is another process here
	s := newSource(t, m, nil)
	read(t, s)
	snap := read(t, s)
	d := &snap.Devices[0]
	if d.Processes.Quality() != gpu.NotPermitted || d.Utilization.Video.Quality() != gpu.NotPermitted {
		t.Errorf("processes %v, video %v", d.Processes, d.Utilization.Video)
	}
	if len(snap.Notes) != 1 || !strings.Contains(snap.Notes[0].Try, "the host's process IDs") {
		t.Errorf("the notes are %v", snap.Notes)
	}
}

// Nor are they if procfs hides them.
func TestInvisibleProcesses(t *testing.T) {
	m := drmtest.New(t)
	m.Card(0, address, "amdgpu", navi31())
	m.Write(m.Proc+"/mounts", "proc /proc proc rw,nosuid,nodev,noexec,relatime,hidepid=invisible 0 0\n")
	s := newSource(t, m, nil)
	read(t, s)
	if snap := read(t, s); snap.Devices[0].Utilization.Video.Quality() != gpu.NotPermitted || len(snap.Notes) != 1 {
		t.Errorf("video has %v, the notes are %v", snap.Devices[0].Utilization.Video, snap.Notes)
	}
}

// Before Linux 5.19 the driver wrote other lines: then it is not known who uses the card, which does not mean that nobody does.
func TestProcessesOfOldKernel(t *testing.T) {
	m := drmtest.New(t)
	m.Card(0, address, "amdgpu", navi31())
	m.Open(201, 10, "dri/renderD128", "pos:\t0\npdev:\t"+address+"\npasid:\t32769\nvram mem:\t1500000 kB\ngfx0:\t78%\ndec0:\t30%\n")
	s := newSource(t, m, nil)
	only(t, s)
	d := only(t, s)
	if d.Processes.Quality() != gpu.NotSupported || d.Utilization.Decoder.Quality() != gpu.NotSupported {
		t.Errorf("processes %v, decoder %v", d.Processes, d.Utilization.Decoder)
	}
}

// The compute driver also names the card's own render node. Its descriptor is read only once.
func TestDescriptorIsReadOnce(t *testing.T) {
	m := drmtest.New(t)
	topology(m)
	m.Card(0, address, "amdgpu", navi31())
	m.Open(201, 10, "dri/renderD128", client(2, vram, ran("gfx", time.Second)))
	cfg := config(t, m, nil)
	var reads atomic.Int32
	cfg.Read = func(file string) ([]byte, error) {
		if strings.HasSuffix(file, "/201/fdinfo/10") {
			reads.Add(1)
		}
		return drm.ReadFile(file)
	}
	s := openSource(t, cfg)
	if only(t, s); reads.Load() != 1 {
		t.Errorf("it was read %d times", reads.Load())
	}
}

// Without a walk over /proc only compute processes are known.
func TestWithoutProc(t *testing.T) {
	m := drmtest.New(t)
	topology(m)
	m.Card(0, address, "amdgpu", navi31())
	kfdUser(m, 203, 4711, fmt.Sprint(512*mib))
	cfg := config(t, m, nil)
	cfg.Holders = drm.NewHolders(m.Proc+"/nothing", m.Sysfs)
	s := openSource(t, cfg)
	if got := processes(only(t, s)); got != "203 compute 536870912 gpu not_supported enc not_supported dec not_supported video not_supported" {
		t.Errorf("it has %s", got)
	}
}

// Impossible numbers from the compute driver.
func TestBadTopology(t *testing.T) {
	m := drmtest.New(t)
	m.Card(0, address, "amdgpu", navi31())
	const properties = "vendor_id 4098\nlocation_id 768\ndomain 0\nsimd_count 18446744073709551615\nsimd_per_cu 1\n" +
		"num_xcc 99999999999\ndrm_render_minor 99999999999\ngfx_target_version 999999\n"
	kfdNode(m, 1, 4711, properties, "18446744073709551615")
	kfdNode(m, 2, 4712, properties, "")
	kfdNode(m, 3, 0, properties, "")
	kfdNode(m, 4, 5, "\x00 garbage\n", "x")
	kfdUser(m, 203, 4711, "18446744073709551615")
	kfdUser(m, 204, 4711, "-1")
	kfdUser(m, 205, 4711, "99999999999999\n")
	d := only(t, newSource(t, m, nil))
	if len(d.Instances) != 2 || d.Instances[0].Memory.Total.Present() || d.Architecture.Present() {
		t.Errorf("instances %+v, architecture %v", d.Instances, d.Architecture)
	}
	want := strings.Join([]string{
		"205 compute 99999999999999 (doubtful) gpu not_supported enc not_supported dec not_supported video not_supported",
		"203 compute not_reported gpu not_supported enc not_supported dec not_supported video not_supported",
		"204 compute not_reported gpu not_supported enc not_supported dec not_supported video not_supported",
	}, "\n")
	if got := processes(d); got != want {
		t.Errorf("processes\n%s\nwant\n%s", got, want)
	}
}

// On an APU, a process's use of the host's memory is the GPU's, too. The table of a Ryzen AI Max+ 395 has version 3.0.
func TestProcessesOfAPU(t *testing.T) {
	m := drmtest.New(t)
	files := phoenix()
	residencies := func(power uint32) string {
		m := newTable(3, 0, 264).Short(184, 1100).Word(228, 0).Word(232, power).Word(236, 0).Word(240, 0)
		return string(m.Word(244, 0).Word(248, 9).Word(252, 0))
	}
	files["gpu_metrics"] = residencies(1)
	c := m.Card(0, address, "amdgpu", files)
	m.Open(201, 10, "dri/renderD128", client(2, "drm-memory-vram:\t64 MiB\ndrm-memory-gtt: \t8192 MiB", ran("compute", time.Second)))
	s := newSource(t, m, nil)
	d := only(t, s)
	if got := d.Processes.Or(nil); len(got) != 1 || got[0].Memory != gpu.Of(gpu.Bytes(8256*mib)) || got[0].Type != gpu.TypeCompute {
		t.Errorf("it has %+v", got)
	}
	c.Set(map[string]string{"gpu_metrics": residencies(2)})
	if d := only(t, s); d.Clocks.EventReasons != gpu.Of(gpu.ReasonPowerCap) || d.Clocks.Video != gpu.Of[gpu.Megahertz](1100) {
		t.Errorf("reasons %v, video clock %v", d.Clocks.EventReasons, d.Clocks.Video)
	}
}
