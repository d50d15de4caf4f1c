//go:build linux

package amd

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The cards are made up from public facts: the files that the documents of amdgpu (Linux
// 6.1 to 6.12, Documentation/gpu/amdgpu) describe, the ids of AMD's amdgpu.ids, the
// products' data sheets for memory, power and clocks. No such card was read for them.

// A table is a gpu_metrics table in the making: all bits are set where nothing is put.
type table []byte

func newTable(format, content byte, size int) table {
	t := make(table, size)
	for i := range t {
		t[i] = 0xff
	}
	binary.LittleEndian.PutUint16(t, uint16(size))
	t[2], t[3] = format, content
	return t
}

func (t table) short(at int, v uint16) table { binary.LittleEndian.PutUint16(t[at:], v); return t }
func (t table) word(at int, v uint32) table  { binary.LittleEndian.PutUint32(t[at:], v); return t }
func (t table) long(at int, v uint64) table  { binary.LittleEndian.PutUint64(t[at:], v); return t }

// navi31 is a Radeon RX 7900 XTX, a desktop card.
func navi31() map[string]string {
	m := newTable(1, 3, 120).short(4, 51).short(6, 67).short(8, 70).short(16, 37).short(18, 11).short(22, 212)
	m = m.long(24, 123456789).short(54, 2290).short(58, 1249).short(60, 1200)
	m = m.word(68, 0).short(72, 1123).short(74, 16).short(76, 160)
	m = m.long(112, 0)
	return map[string]string{
		"vendor": "0x1002\n", "device": "0x744c\n", "revision": "0xc8\n",
		"subsystem_vendor": "0x1da2\n", "subsystem_device": "0xe471\n",
		"unique_id": "4c1a9f7e0b35d262\n", "vbios_version": "113-D7020100-102\n",
		"gpu_busy_percent": "37\n", "mem_busy_percent": "11\n",
		"mem_info_vram_total": "25753026560\n", "mem_info_vram_used": "3221225472\n",
		"mem_info_vis_vram_total": "25753026560\n", "mem_info_vis_vram_used": "3221225472\n",
		"mem_info_gtt_total": "33554432000\n", "mem_info_gtt_used": "104857600\n",
		"ip_discovery/die/0/12/0/major": "4\n", // VCN 4.0.0
		"pp_dpm_sclk":                   "0: 500Mhz \n1: 2290Mhz *\n2: 2525Mhz \n", "pp_dpm_mclk": "0: 96Mhz \n1: 456Mhz \n2: 1249Mhz *\n",
		"pp_dpm_vclk":        "0: 1200Mhz *\n1: 2400Mhz \n",
		"current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n",
		"max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n", "pcie_replay_count": "3\n",
		"gpu_metrics": string(m), "drm/card0/card0-DP-1/enabled": "enabled\n", "drm/card0/card0-HDMI-A-1/enabled": "disabled\n",
		"hwmon/hwmon4/name":               "amdgpu\n",
		"hwmon/hwmon4/temp1_input":        "51000\n",
		"hwmon/hwmon4/temp1_label":        "edge\n",
		"hwmon/hwmon4/temp1_crit":         "100000\n",
		"hwmon/hwmon4/temp1_emergency":    "105000\n",
		"hwmon/hwmon4/temp2_input":        "67000\n",
		"hwmon/hwmon4/temp2_label":        "junction\n",
		"hwmon/hwmon4/temp2_crit":         "110000\n",
		"hwmon/hwmon4/temp2_emergency":    "115000\n",
		"hwmon/hwmon4/temp3_input":        "70000\n",
		"hwmon/hwmon4/temp3_label":        "mem\n",
		"hwmon/hwmon4/temp3_crit":         "108000\n",
		"hwmon/hwmon4/power1_average":     "212000000\n",
		"hwmon/hwmon4/power1_label":       "PPT\n",
		"hwmon/hwmon4/power1_cap":         "339000000\n",
		"hwmon/hwmon4/power1_cap_max":     "389000000\n",
		"hwmon/hwmon4/power1_cap_min":     "305000000\n",
		"hwmon/hwmon4/power1_cap_default": "339000000\n",
		"hwmon/hwmon4/pwm1":               "102\n",
		"hwmon/hwmon4/pwm1_max":           "255\n",
		"hwmon/hwmon4/pwm1_min":           "0\n",
		"hwmon/hwmon4/pwm1_enable":        "2\n",
		"hwmon/hwmon4/fan1_input":         "1123\n",
		"hwmon/hwmon4/fan1_max":           "3300\n",
		"hwmon/hwmon4/freq1_input":        "2290000000\n",
		"hwmon/hwmon4/freq1_label":        "sclk\n",
		"hwmon/hwmon4/freq2_input":        "1249000000\n",
		"hwmon/hwmon4/freq2_label":        "mclk\n",
		"hwmon/hwmon4/in0_input":          "1087\n",
	}
}

// laptop is a Radeon RX 7600S beside an APU: without a fan of its own, and may sleep.
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

// phoenix is the Radeon 780M of a Ryzen 7 7840U: its power is that of the package.
func phoenix() map[string]string {
	m := newTable(2, 3, 152).short(4, 4800).short(28, 1200).short(40, 21000).word(108, 0).long(120, 1<<5|1<<36)
	return map[string]string{
		"vendor": "0x1002\n", "device": "0x15bf\n", "revision": "0xc4\n",
		"gpu_busy_percent": "12\n", "vbios_version": "113-PHXGENERIC-001\n",
		"mem_info_vram_total": "536870912\n", "mem_info_vram_used": "402653184\n",
		"mem_info_vis_vram_total": "536870912\n", "mem_info_vis_vram_used": "402653184\n",
		"mem_info_gtt_total": "15032385536\n", "mem_info_gtt_used": "1073741824\n",
		"ip_discovery/die/0/12/0/major": "4\n", "vcn_busy_percent": "7\n", // VCN 4.0.2
		"pp_dpm_sclk": "0: 800Mhz *\n1: 1100Mhz \n2: 2700Mhz \n", "pp_dpm_mclk": "0: 1000Mhz \n1: 2800Mhz *\n",
		"gpu_metrics": string(m), "drm/card1/card1-eDP-1/enabled": "enabled\n",
		"hwmon/hwmon2/name": "amdgpu\n", "hwmon/hwmon2/temp1_input": "48000\n", "hwmon/hwmon2/temp1_label": "edge\n",
		"hwmon/hwmon2/power1_input": "21000000\n", "hwmon/hwmon2/power1_label": "PPT\n", "hwmon/hwmon2/power1_cap": "0\n",
		"hwmon/hwmon2/freq1_input": "800000000\n", "hwmon/hwmon2/freq1_label": "sclk\n",
	}
}

// mi300x is an Instinct MI300X.
func mi300x() map[string]string {
	m := newTable(1, 6, 1664).short(4, 58).short(6, 45).short(10, 301).short(12, 64).short(14, 22)
	m = m.long(16, 655360).word(36, 0).word(40, 500).word(44, 0).word(48, 0).word(52, 0)
	m = m.short(60, 16).short(62, 320).long(104, 7).short(264, 2100).short(288, 1300).short(304, 1300)
	return map[string]string{
		"vendor": "0x1002\n", "device": "0x74a1\n", "revision": "0x00\n", "class": "0x120000\n",
		"unique_id": "a1b2c3d4e5f60718\n", "serial_number": "692251001234\n", "product_name": "AMD Instinct MI300X OAM\n",
		"gpu_busy_percent": "64\n", "mem_busy_percent": "22\n",
		"mem_info_vram_total": "206141652992\n", "mem_info_vram_used": "68719476736\n",
		"current_compute_partition": "CPX\n", "current_memory_partition": "NPS1\n",
		"gpu_metrics": string(m), "pp_dpm_sclk": "S: 132Mhz \n0: 500Mhz \n1: 2100Mhz *\n",
		"ras/features": "feature mask: 0x1\n", "ras/umc_err_count": "ue: 0\nce: 12\nde: 1\n",
		"ras/gfx_err_count":      "ue: 1\nce: 0\n",
		"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x0000a001 : 0x00001000 : P\n",
		"hwmon/hwmon9/name":      "amdgpu\n", "hwmon/hwmon9/temp2_input": "58000\n", "hwmon/hwmon9/temp2_label": "junction\n",
		"hwmon/hwmon9/temp2_crit": "100000\n", "hwmon/hwmon9/temp2_emergency": "105000\n",
		"hwmon/hwmon9/temp3_input": "45000\n", "hwmon/hwmon9/temp3_label": "mem\n", "hwmon/hwmon9/temp3_crit": "105000\n",
		"hwmon/hwmon9/power1_input": "301000000\n", "hwmon/hwmon9/power1_cap": "750000000\n",
		"hwmon/hwmon9/power1_cap_max": "750000000\n",
		"hwmon/hwmon9/freq1_input":    "2100000000\n", "hwmon/hwmon9/freq1_label": "sclk\n",
	}
}

// polaris is a Radeon RX 580: older than gpu_metrics, and with one sensor of heat.
func polaris() map[string]string {
	return map[string]string{
		"vendor": "0x1002\n", "device": "0x67df\n", "revision": "0xe7\n", "gpu_busy_percent": "0\n",
		"mem_info_vram_total": "8589934592\n", "mem_info_vram_used": "268435456\n",
		"pp_dpm_sclk": "0: 300Mhz *\n1: 1340Mhz \n", "pp_dpm_mclk": "0: 300Mhz *\n1: 2000Mhz \n",
		"hwmon/hwmon1/name": "amdgpu\n", "hwmon/hwmon1/temp1_input": "34000\n", "hwmon/hwmon1/temp1_crit": "94000\n",
		"hwmon/hwmon1/power1_average": "31107000\n", "hwmon/hwmon1/power1_cap": "145000000\n",
		"hwmon/hwmon1/power1_cap_max": "217000000\n", "hwmon/hwmon1/power1_cap_min": "0\n",
		"hwmon/hwmon1/pwm1": "0\n", "hwmon/hwmon1/pwm1_enable": "2\n", "hwmon/hwmon1/fan1_input": "0\n",
	}
}

// topology is that of a machine with two of the cards: the MI300X at 75:00.0 in 8 parts,
// and the RX 7900 XTX at 03:00.0.
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

// kfdNode is a node of the compute driver's topology.
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

// faults are errors that the files of a folder have, as the kernel would answer them.
type faults struct {
	mu  sync.Mutex
	all map[string]syscall.Errno
}

// set makes reading what is below a path fail; 0 ends that.
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

// newSource returns a source of a machine, closed at the end of the test.
func newSource(t *testing.T, m *drmtest.Machine, f *faults) *Source {
	s := New(config(t, m, f))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func config(t *testing.T, m *drmtest.Machine, f *faults) Config {
	cfg := Config{
		SysfsRoot: m.Sysfs, ProcRoot: m.Proc, Deadline: 10 * time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if f != nil {
		cfg.read = f.read
	}
	return cfg
}

// read reads a source that must answer.
func read(t *testing.T, s *Source) *gpu.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	snap, err := s.Read(ctx)
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
