//go:build linux

package intel

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

func TestProcessesOfXe(t *testing.T) {
	m := drmtest.New(t)
	arcB580(m)
	const address = "0000:03:00.0"
	open := func(total uint64, rcs, ccs, vcs uint64) {
		m.Open(100, 7, "dri/renderD129", xeClient(address, 3, rcs, 0, 0, total,
			"drm-resident-vram0:\t512 MiB\ndrm-resident-gtt:\t64 MiB\n"))
		m.Open(200, 8, "dri/card1", xeClient(address, 4, 0, ccs, 0, total, "drm-resident-vram0:\t2048 MiB\ndrm-resident-stolen:\t0\n"))
		m.Open(300, 9, "dri/renderD129", xeClient(address, 5, 0, 0, vcs, total, "drm-resident-vram0:\t16 MiB\n"))
		m.Open(400, 3, "dri/card1", xeClient(address, 6, 0, 0, 0, total, "drm-resident-vram0:\t0\n")) // a display manager
		m.Open(500, 3, "dri/card0", xeClient("0000:00:02.0", 7, rcs, 0, 0, total, ""))                // of another card
	}
	open(1000, 10, 10, 10)
	s := source(t, m)
	d := read(t, s)
	if d.Utilization.GPU != (gpu.Reading[gpu.Percent]{}) {
		t.Errorf("at first the utilization is %v", d.Utilization.GPU)
	}
	list := d.Processes.Or(nil)
	if len(list) != 3 || list[0].SM != (gpu.Reading[gpu.Percent]{}) {
		t.Fatalf("at first the processes are %+v", list)
	}
	open(2000, 110, 2010, 610) // 10 % of the 3D engine, 50 % of four for computing, 30 % of two for video
	inherited := xeClient(address, 4, 0, 2010, 0, 2000, "drm-resident-vram0:\t2048 MiB\ndrm-resident-stolen:\t0\n")
	m.Open(201, 8, "dri/card1", inherited)
	d = after(t, s, time.Second)
	if d.Utilization.GPU != gpu.Of[gpu.Percent](50) {
		t.Errorf("the utilization is %v", d.Utilization.GPU)
	}
	if d.Memory.Used != gpu.Of[gpu.Bytes](2576<<20) {
		t.Errorf("the memory in use is %v", d.Memory.Used)
	}
	if d.Shared.Used != gpu.Of[gpu.Bytes](64<<20) || d.Shared.Unified != gpu.Of(false) || d.ProcessesPartial != gpu.Of(false) {
		t.Errorf("of the machine's memory it uses %+v; partial is %v", d.Shared, d.ProcessesPartial)
	}
	if video := d.Processes.Or(nil)[2].Video; d.Utilization.Video != gpu.Of[gpu.Percent](30) || video != gpu.Of[gpu.Percent](30) {
		t.Errorf("the video engines have %v, of process 300 %v", d.Utilization.Video, video)
	}
	m.Exit(201)
	want := "200 compute 50 2147483648; 201 compute 50 2147483648; 300 unknown 30 16777216; 100 graphics 10 536870912; "
	if got := lines(d); got != want {
		t.Errorf("the processes are\n%s, want\n%s", got, want)
	}
	open(3000, 110, 2010, 610)
	if d = after(t, s, time.Second); d.Utilization.GPU != gpu.Of[gpu.Percent](0) {
		t.Errorf("at rest the utilization is %v", d.Utilization.GPU)
	}
	open(3500, 110, 2010, 610)
	m.Open(600, 7, "dri/renderD129", xeClient(address, 9, 900, 0, 0, 3500, "")) // a program that has just begun
	if d = after(t, s, time.Second); d.Utilization.GPU != (gpu.Reading[gpu.Percent]{}) {
		t.Errorf("beside work that is not measured yet the utilization is %v", d.Utilization.GPU)
	}
	m.Exit(600)
	open(4000, 10, 10, 10) // counters that jump back
	if d = after(t, s, time.Second); d.Utilization.GPU.Or(0) != 0 {
		t.Errorf("after a jump back the utilization is %v", d.Utilization.GPU)
	}
	for _, pid := range []int{100, 200, 300, 400, 500} {
		m.Exit(pid)
	}
	d = after(t, s, time.Second)
	nobody := d.Processes.Present() && len(d.Processes.Or(nil)) == 0
	if !nobody || d.Utilization.GPU != gpu.Of[gpu.Percent](0) || d.Memory.Used != gpu.Of[gpu.Bytes](0) {
		t.Errorf("without a process: %v, %v, %v", d.Utilization.GPU, d.Processes, d.Memory.Used)
	}
}

func lines(d gpu.Device) (out string) {
	for _, p := range d.Processes.Or(nil) {
		out += fmt.Sprint(p.PID, " ", p.Type, " ", p.SM, " ", uint64(p.Memory.Or(0)), "; ")
	}
	return out
}

func TestProcessesOfI915(t *testing.T) {
	m := drmtest.New(t)
	uhd770(m)
	const address = "0000:00:02.0"
	memory := "drm-resident-system0:\t100 MiB\ndrm-resident-stolen-system0:\t28 MiB\n"
	m.Open(100, 7, "dri/renderD128", i915Client(address, 3, 500, 0, memory))
	m.Open(100, 8, "dri/renderD128", i915Client(address, 3, 500, 0, memory)) // the same client
	m.Open(101, 8, "dri/renderD128", i915Client(address, 3, 500, 0, memory)) // inherited
	s := source(t, m)
	read(t, s)
	const used = 500 + uint64(time.Second/2)
	for pid, fd := range map[int]int{100: 7, 101: 8} {
		m.Open(pid, fd, "dri/renderD128", i915Client(address, 3, used, 0, memory))
	}
	m.Open(100, 8, "dri/renderD128", i915Client(address, 3, used, 0, memory))
	d := after(t, s, time.Second)
	if d.Utilization.GPU != gpu.Of[gpu.Percent](50) {
		t.Errorf("the utilization is %v", d.Utilization.GPU)
	}
	if want := "100 graphics 50 134217728; 101 graphics 50 134217728; "; lines(d) != want {
		t.Errorf("the processes are %s, want %s", lines(d), want)
	}
	if d.Shared.Unified != gpu.Of(true) || d.Shared.Used != gpu.Of[gpu.Bytes](128<<20) || d.Utilization.Video != gpu.Of[gpu.Percent](0) {
		t.Errorf("of the machine's memory it uses %+v, video %v", d.Shared, d.Utilization.Video)
	}
	if d.Memory.Used.Quality() != gpu.NotSupported {
		t.Errorf("a GPU without memory of its own uses %v of it", d.Memory.Used)
	}
}

// TestOldKernels checks that the utilization is absent, not 0, if a driver does not report what clients use.
func TestOldKernels(t *testing.T) {
	tests := map[string]string{
		"i915 before 5.19": "pos:\t0\nflags:\t02100002\nmnt_id:\t24\n",
		"xe before 6.11":   "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:00:02.0\ndrm-resident-gtt:\t4 MiB\n",
	}
	for name, info := range tests {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			uhd770(m)
			m.Open(100, 7, "dri/renderD128", info)
			s := source(t, m)
			read(t, s)
			after(t, s, time.Second)
			if d := after(t, s, time.Second); d.Utilization.GPU.Quality() != gpu.NotSupported {
				t.Errorf("the utilization is %v", d.Utilization.GPU)
			} else if silent := d.Processes.Quality() == gpu.NotSupported; silent != (name == "i915 before 5.19") {
				t.Errorf("the processes are %v", d.Processes)
			}
		})
	}
}

// TestNotAllMayBeRead checks that, if some processes may not be read, the utilization is known only for a GPU that was idle all the time.
func TestNotAllMayBeRead(t *testing.T) {
	m := drmtest.New(t)
	c := uhd770(m)
	m.Open(100, 7, "dri/renderD128", i915Client("0000:00:02.0", 3, 500, 0, "drm-resident-system0:\t1 MiB\n"))
	if err := os.MkdirAll(filepath.Join(m.Proc, "1/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	namespace := func(target string) {
		link := filepath.Join(m.Proc, "1/ns/pid")
		_ = os.Remove(link)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	namespace("pid:[4026532448]")
	s := source(t, m)
	idle := "drm/card0/gt/gt0/rc6_residency_ms"
	snap, err := drmtest.Read(t, s)
	if err != nil || len(snap.Notes) != 1 {
		t.Fatalf("notes %v, %v; want one", snap, err)
	}
	after(t, s, time.Second)
	c.Set(map[string]string{idle: "100100\n"})
	d := after(t, s, time.Second)
	if d.Utilization.GPU.Quality() != gpu.NotPermitted || len(d.Processes.Or(nil)) != 1 {
		t.Errorf("awake, the utilization is %v, the processes %v", d.Utilization.GPU, d.Processes)
	}
	if d.ProcessesPartial != gpu.Of(true) || d.Utilization.Video.Quality() != gpu.NotPermitted || d.Shared.Used.Quality() != gpu.NotPermitted {
		t.Errorf("partial is %v, video %v, of the machine's memory %v", d.ProcessesPartial, d.Utilization.Video, d.Shared.Used)
	}
	c.Set(map[string]string{idle: "101100\n"})
	if d = after(t, s, time.Second); d.Utilization.GPU != gpu.Of[gpu.Percent](0) {
		t.Errorf("in its idle state, the utilization is %v", d.Utilization.GPU)
	}
	m.Exit(100)
	if d = after(t, s, time.Second); d.Processes.Quality() != gpu.NotPermitted {
		t.Errorf("the processes are %v", d.Processes)
	}
	namespace("pid:[4026531836]")
	m.Open(100, 7, "dri/renderD128", i915Client("0000:00:02.0", 3, 500, 0, "drm-resident-system0:\t1 MiB\n"))
	after(t, s, time.Second)
	if d = after(t, s, time.Second); d.Utilization.GPU != gpu.Of[gpu.Percent](0) {
		t.Errorf("with all processes, the utilization is %v", d.Utilization.GPU)
	}
}
