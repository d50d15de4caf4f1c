//go:build linux

package amd

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// files returns the files of a capture's card, with names relative to its folder.
func files(capture string) map[string]string {
	tree := drmtest.Captured(capture, "sysfs")
	all := map[string]string{}
	for name, e := range tree {
		if _, own, is := strings.Cut(name, card(tree)+"/"); is && e.Link == "" {
			all[own] = string(e.Text)
		}
	}
	return all
}

// card returns the folder of the only card.
func card(tree recording.Tree) string {
	for name, e := range tree {
		if strings.HasPrefix(name, "bus/pci/drivers/amdgpu/") {
			return path.Join(path.Dir(name), e.Link)
		}
	}
	panic("there is no card")
}

func newTable(format, content byte, size int) drmtest.Metrics {
	return drmtest.NewMetrics(format, content, size)
}

// navi31 is a Radeon RX 7900 XTX, a desktop card.
func navi31() map[string]string { return files("radeon-rx-7900-xtx") }

// laptop is a Radeon RX 7600S beside an APU: it has no fan of its own, and may sleep.
func laptop() map[string]string {
	files := navi31()
	for name := range files {
		for _, part := range []string{"pwm", "fan1", "drm/", "power1_cap"} {
			if strings.Contains(name, part) {
				delete(files, name)
			}
		}
	}
	files["device"], files["revision"] = "0x7480\n", "0xc3\n"
	files["power/control"] = "auto\n"
	files["gpu_busy_percent"] = "0\n"
	delete(files, "unique_id")
	return files
}

// phoenix is the Radeon 780M of a Ryzen 7 7840U: its power is the package's.
func phoenix() map[string]string { return files("radeon-780m") }

// mi300x is an Instinct MI300X.
func mi300x() map[string]string { return files("instinct-mi300x") }

// polaris is a Radeon RX 580: older than gpu_metrics, with only one temperature sensor.
func polaris() map[string]string { return files("radeon-rx-580") }

// topology adds the topology of a machine with two of the cards: the MI300X at 75:00.0 in 8 parts, and the RX 7900 XTX at 03:00.0.
func topology(m *drmtest.Machine) {
	kfdNode(m, 0, 0, "cpu_cores_count 96\nsimd_count 0\n", "")
	kfdNode(m, 1, 4711, "simd_count 192\nsimd_per_cu 2\nnum_xcc 1\ngfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\n"+
		"location_id 768\ndomain 0\ndrm_render_minor 128\n", "25753026560")
	for i := range 8 {
		properties := "simd_count 152\nsimd_per_cu 4\nnum_xcc 1\ngfx_target_version 90402\nvendor_id 4098\ndevice_id 29857\n" +
			"location_id %d\ndomain 0\ndrm_render_minor %d\n"
		render := 130
		if i > 0 {
			render = 135 + i
		}
		kfdNode(m, 2+i, uint64(100+i), fmt.Sprintf(properties, 0x7500+i, render), "25767706624")
	}
}

// kfdNode adds a node to the compute driver's topology.
func kfdNode(m *drmtest.Machine, number int, gpuID uint64, properties, memory string) {
	dir := filepath.Join(m.Sysfs, "class/kfd/kfd/topology/nodes", fmt.Sprint(number))
	m.Write(filepath.Join(dir, "gpu_id"), fmt.Sprintln(gpuID))
	m.Write(filepath.Join(dir, "properties"), properties)
	if memory != "" {
		m.Write(filepath.Join(dir, "mem_banks/0/properties"), "heap_type 1\nsize_in_bytes "+memory+"\nflags 0\nwidth 8192\n")
	}
}

// kfdUser makes a process compute on a node.
func kfdUser(m *drmtest.Machine, pid int, gpuID uint64, bytes string) {
	m.Write(filepath.Join(m.Sysfs, "class/kfd/kfd/proc", fmt.Sprint(pid), fmt.Sprint("vram_", gpuID)), bytes+"\n")
}

// faults are errors of files in a folder, as the kernel would return them.
type faults struct {
	mu  sync.Mutex
	all map[string]syscall.Errno
}

// set makes every read below a path fail; 0 ends that.
func (f *faults) set(path string, errno syscall.Errno) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]syscall.Errno{}
	}
	f.all[path] = errno
}

func (f *faults) read(file string) ([]byte, error) {
	f.mu.Lock()
	errno := syscall.Errno(0)
	for path, e := range f.all {
		if file == path || strings.HasPrefix(file, path+"/") {
			errno = e
		}
	}
	f.mu.Unlock()
	switch errno {
	case 0:
		return drm.ReadFile(file)
	case syscall.EACCES:
		return nil, &fs.PathError{Op: "open", Path: file, Err: errno}
	default:
		return nil, &fs.PathError{Op: "read", Path: file, Err: errno}
	}
}

// newSource returns a source of a machine, which is closed at the end of the test.
func newSource(t *testing.T, m *drmtest.Machine, f *faults) *Source {
	return openSource(t, config(t, m, f))
}

func openSource(t *testing.T, cfg Config) *Source {
	s := New(cfg)
	t.Cleanup(func() {
		_ = s.Close() // it never fails
		testkit.Until(t, "no card is read any more", func() bool { return s.set.Flying() == 0 })
	})
	return s
}

// config configures a source whose clock the test moves.
func config(t *testing.T, m *drmtest.Machine, f *faults) Config {
	cfg := Config{
		SysfsRoot: m.Sysfs, ProcRoot: m.Proc, Deadline: 2 * time.Second, Clock: clockwork.NewFakeClock(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if f != nil {
		cfg.Read = f.read
	}
	return cfg
}

// clockOf returns a source's clock.
func clockOf(s *Source) *clockwork.FakeClock { return s.cfg.Clock.(*clockwork.FakeClock) }

// read reads a source that must answer.
func read(t *testing.T, s *Source) *gpu.Snapshot {
	t.Helper()
	snap, err := drmtest.Read(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// only reads a source of one card.
func only(t *testing.T, s *Source) *gpu.Device {
	t.Helper()
	snap := read(t, s)
	if len(snap.Devices) != 1 {
		t.Fatalf("%d devices", len(snap.Devices))
	}
	return &snap.Devices[0]
}
