package kernellog

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Lines that people have published, from many years of drivers.
var lineTests = []struct {
	line string
	want event // zero: the line says nothing
}{
	{
		"NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
		event{driver: "nvidia", pci: "0000:01:00.0", xid: 79},
	},
	{"NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.", event{driver: "nvidia", pci: "0000:65:00.0", xid: 79}},
	{
		"NVRM: Xid (PCI:0000:01:00): 79, pid=1122, GPU has fallen off the bus.",
		event{driver: "nvidia", pci: "0000:01:00.0", xid: 79, culprit: gpu.Culprit{PID: 1122}},
	},
	{
		"NVRM: Xid (PCI:0000:00:06): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_7 " +
			"faulted @ 0x2b57_b3000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE",
		event{driver: "nvidia", pci: "0000:00:06.0", xid: 31, culprit: gpu.Culprit{PID: 79749, Name: "exe"}},
	},
	{
		"NVRM: Xid (PCI:0000:81:00): 31, pid='<unknown>', name=<unknown>, Ch 00000016, intr 10000000. MMU Fault: ENGINE GRAPHICS HUBCLIENT_FECS",
		event{driver: "nvidia", pci: "0000:81:00.0", xid: 31},
	},
	{
		"NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No",
		event{driver: "nvidia", pci: "0000:01:00.0", xid: 94, culprit: gpu.Culprit{PID: 7194}},
	},
	{
		"NVRM: Xid (PCI:000A:3B:00 GPU-I:01 GPU-CI:00): 43, pid=12, name=/usr/bin/python3, Ch 1",
		event{driver: "nvidia", pci: "000a:3b:00.0", xid: 43, culprit: gpu.Culprit{PID: 12, Name: "python3"}},
	},
	{"NVRM: Xid (0000:03:00): 14, Channel 00000001", event{driver: "nvidia", pci: "0000:03:00.0", xid: 14}},
	{
		"NVRM: Xid (PCI:10000:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
		event{driver: "nvidia", pci: "10000:01:00.0", xid: 154},
	},
	{"NVRM: Xid (PCI:0000:01:00): 0, nothing", event{}},
	{"NVRM: Xid error: xyz, invalid data", event{}},
	{"NVRM: GPU at PCI:0000:81:00: GPU-71dcdf29-68ae-87d1-b57b-86d9f8f01ffc", event{driver: "nvidia", pci: "0000:81:00.0", names: true}},

	// Without an XID.
	{
		"NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
		event{driver: "nvidia", pci: "0000:b3:00.0", kind: gpu.FaultOffBus},
	},
	{"NVRM: The NVIDIA GPU 0000:B3:00.0", event{driver: "nvidia", pci: "0000:b3:00.0", names: true}},
	{"NVRM: (PCI ID: 10de:26b5) installed in this system has", event{}},
	{"NVRM: fallen off the bus and is not responding to commands.", event{driver: "nvidia", kind: gpu.FaultOffBus}},
	{"NVRM: GPU 0000:08:00.0: GPU has fallen off the bus.", event{driver: "nvidia", pci: "0000:08:00.0", kind: gpu.FaultOffBus}},
	{"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x65:1239)", event{driver: "nvidia", pci: "0000:01:00.0", kind: gpu.FaultInitFailed}},
	{"NVRM: GPU 000f:01:00.0: rm_init_adapter failed, device minor number 0", event{driver: "nvidia", pci: "000f:01:00.0", kind: gpu.FaultInitFailed}},
	{"NVRM: RmInitAdapter failed! (0x30:0xffff:660)", event{driver: "nvidia", kind: gpu.FaultInitFailed}},
	{"NVRM: rm_init_adapter failed for device bearing minor number 0", event{driver: "nvidia", kind: gpu.FaultInitFailed}},
	{"NVRM: nvidia_frontend_open: minor 0, module->open() failed, error -5", event{driver: "nvidia", kind: gpu.FaultInitFailed}},
	{"NVRM: nvidia_open: device 0000:01:00.0 failed", event{driver: "nvidia", pci: "0000:01:00.0", kind: gpu.FaultInitFailed}},
	{"NVRM: The NVIDIA probe routine failed for 1 device(s).", event{}},
	{"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15", event{}},
	{"NVRM: failed to copy vbios to system memory.", event{}},
	{"python: GPU has fallen off the bus", event{}},
	{"nvidia-nvswitch3: SXid (PCI:0000:4e:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)", event{}},
	{"foo: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", event{}},

	{
		"amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=7292300, emitted seq=7292304",
		event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultEngineHang, engine: "gfx_0.0.0"},
	},
	{
		"amdgpu 0000:28:00.0: ring gfx_0.0.0 timeout, signaled seq=57638, emitted seq=57641",
		event{driver: "amdgpu", pci: "0000:28:00.0", kind: gpu.FaultEngineHang, engine: "gfx_0.0.0"},
	},
	{
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, signaled seq=73, emitted seq=75",
		event{driver: "amdgpu", kind: gpu.FaultEngineHang, engine: "gfx"},
	},
	{
		"amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, but soft recovered",
		event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultEngineHang, engine: "gfx_0.0.0"},
	},
	{"amdgpu 0000:03:00.0: amdgpu: ring gfx timeout, but device unplugged, skipping.", event{}},
	{
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process cosmic-comp pid 3503 thread cosmic-com:cs0 pid 3539",
		event{driver: "amdgpu", culprit: gpu.Culprit{PID: 3503, Name: "cosmic-comp"}},
	},
	{
		"amdgpu 0000:03:00.0: amdgpu:  Process WoWClassic.exe pid 47714 thread dxvk-submit pid 47850",
		event{driver: "amdgpu", pci: "0000:03:00.0", culprit: gpu.Culprit{PID: 47714, Name: "WoWClassic.exe"}},
	},
	{"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process  pid 0 thread  pid 0", event{}},
	{"amdgpu 0000:03:00.0: amdgpu: Starting gfx_0.0.0 ring reset", event{}},
	{
		"amdgpu 0000:03:00.0: amdgpu: Ring comp_1.1.0 reset succeeded",
		event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultEngineReset, engine: "comp_1.1.0"},
	},
	{"amdgpu 0000:03:00.0: amdgpu: Ring gfx_0.0.0 reset failed", event{}},
	{"amdgpu 0000:08:00.0: amdgpu: GPU reset begin!", event{driver: "amdgpu", pci: "0000:08:00.0", kind: gpu.FaultDeviceReset}},
	{"amdgpu 0000:28:00.0: GPU reset begin!. Source:  1", event{driver: "amdgpu", pci: "0000:28:00.0", kind: gpu.FaultDeviceReset}},
	{"amdgpu 0000:08:00.0: amdgpu: BACO reset", event{}},
	{"amdgpu 0000:08:00.0: amdgpu: MODE1 reset", event{}},
	{"amdgpu 0000:08:00.0: amdgpu: GPU reset succeeded, trying to resume", event{}},
	{"amdgpu 0000:08:00.0: amdgpu: GPU reset(2) succeeded!", event{}},
	{"amdgpu 0000:08:00.0: [drm] device wedged, but recovered through reset", event{}},
	{"amdgpu 0000:03:00.0: amdgpu: GPU reset(1) failed", event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultResetFailed}},
	{"amdgpu 0000:03:00.0: amdgpu: GPU reset end with ret = -19", event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultResetFailed}},
	{
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* GPU Recovery Failed: -110",
		event{driver: "amdgpu", kind: gpu.FaultResetFailed},
	},
	{"amdgpu 0000:03:00.0: amdgpu: device lost from bus!", event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultOffBus}},
	{
		"amdgpu 0000:00:07.0: amdgpu: [gfxhub] page fault (src_id:0 ring:153 vmid:8 pasid:32771, for process xgemmStandalone pid 3557 " +
			"thread xgemmStandalone pid 3557)",
		event{
			driver: "amdgpu", pci: "0000:00:07.0", kind: gpu.FaultPage, engine: "gfxhub",
			culprit: gpu.Culprit{PID: 3557, Name: "xgemmStandalone"},
		},
	},
	{
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:5 pasid:32778, for process sleep pid 9 thread sleep pid 9)",
		event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultPage, engine: "gfxhub0", culprit: gpu.Culprit{PID: 9, Name: "sleep"}},
	},
	{
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:32 vmid:0 pasid:0)",
		event{driver: "amdgpu", pci: "0000:03:00.0", kind: gpu.FaultPage, engine: "gfxhub"},
	},
	{
		"amdgpu 0000:c5:00.0: amdgpu:  in process python3 pid 2263 thread python3 pid 2263",
		event{driver: "amdgpu", pci: "0000:c5:00.0", culprit: gpu.Culprit{PID: 2263, Name: "python3"}},
	},
	{
		"amdgpu 0000:01:00.0: GPU fault detected: 147 0x0d684401 for process chrome pid 1234 thread chrome:cs0 pid 1240",
		event{driver: "amdgpu", pci: "0000:01:00.0", kind: gpu.FaultPage, culprit: gpu.Culprit{PID: 1234, Name: "chrome"}},
	},
	{
		"amdgpu 0000:de:ad.0: amdgpu: socket: 0 2 uncorrectable hardware errors detected in gfx block",
		event{driver: "amdgpu", pci: "0000:de:ad.0", kind: gpu.FaultMemory, engine: "gfx"},
	},
	{
		"amdgpu 0000:0b:00.0: {12}socket: 4, die: 0, 3 new uncorrectable hardware errors detected in umc block",
		event{driver: "amdgpu", pci: "0000:0b:00.0", kind: gpu.FaultMemory, engine: "umc"},
	},
	{"amdgpu 0000:0b:00.0: {12}socket: 4, die: 0, 3 uncorrectable hardware errors detected in total in umc block", event{}},
	{"amdgpu 0000:0b:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block", event{}},
	{"amdgpu 0000:0b:00.0: amdgpu: no uncorrectable hardware errors detected", event{}},
	{"amdgpu 0000:0b:00.0: amdgpu: 3 correctable hardware errors detected in umc block", event{}},

	{
		"i915 0000:00:02.0: [drm] GPU HANG: ecode 4:1:9fe7fbfd, in Xorg [996]",
		event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultEngineHang, culprit: gpu.Culprit{PID: 996, Name: "Xorg"}},
	},
	{"i915 0000:00:02.0: [drm] GPU HANG: ecode 12:0:00000000", event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultEngineHang}},
	{
		"[drm] GPU HANG: ecode 7:0:0x85df3c1c, in Xorg [19819], reason: Ring hung, action: reset",
		event{driver: "i915", kind: gpu.FaultEngineHang, culprit: gpu.Culprit{PID: 19819, Name: "Xorg"}},
	},
	{"drm/i915: Resetting chip after gpu hang", event{driver: "i915", kind: gpu.FaultDeviceReset}},
	{
		"i915 0000:00:02.0: Resetting rcs0 for stopped heartbeat on rcs0",
		event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultEngineReset, engine: "rcs0"},
	},
	{"i915 0000:00:02.0: [drm] Resetting chip for stopped heartbeat on rcs0", event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultDeviceReset}},
	{"i915 0000:00:02.0: [drm] GT0: Resetting chip for GuC failed to reset engine mask=0x1", event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultDeviceReset}},
	{"i915 0000:00:02.0: [drm] *ERROR* GT0: Failed to reset chip", event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultResetFailed}},
	{
		"i915 0000:00:02.0: [drm] *ERROR* intel_gt_reset_global timed out, cancel" + "ling all in-flight rendering.",
		event{driver: "i915", pci: "0000:00:02.0", kind: gpu.FaultWedged},
	},
	{"i915 0000:00:02.0: [drm] Xorg[996] context reset due to GPU hang", event{}},
	{"[drm] Initialized i915 1.6.0 20201103 for 0000:00:02.0 on minor 0", event{}},

	{
		"xe 0000:00:02.0: [drm] Tile0: GT0: Engine reset: engine_class=rcs, logical_mask: 0x1, guc_id=27, state=0x3",
		event{driver: "xe", pci: "0000:00:02.0", kind: gpu.FaultEngineReset, engine: "rcs"},
	},
	{
		"xe 0000:00:02.0: [drm] GT0: Timedout job: seqno=9883, lrc_seqno=9883, guc_id=3, flags=0x0 in Xorg [3245]",
		event{driver: "xe", pci: "0000:00:02.0", kind: gpu.FaultEngineHang, culprit: gpu.Culprit{PID: 3245, Name: "Xorg"}},
	},
	{
		"xe 0000:03:00.0: [drm] Tile0: GT0: Timedout job: seqno=4831999, lrc_seqno=4831999, guc_id=0, flags=0x73 in no process [-1]",
		event{driver: "xe", pci: "0000:03:00.0", kind: gpu.FaultEngineHang},
	},
	{"xe 0000:00:02.0: [drm] Tile0: GT0: reset started", event{driver: "xe", pci: "0000:00:02.0", kind: gpu.FaultDeviceReset}},
	{"xe 0000:00:02.0: [drm] Tile0: GT0: reset done", event{}},
	{"xe 0000:00:02.0: [drm] *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)", event{driver: "xe", pci: "0000:00:02.0", kind: gpu.FaultResetFailed}},
	{
		"xe 0000:00:02.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:00:02.0 as wedged.\nIOCTLs and executions are blocked.",
		event{driver: "xe", pci: "0000:00:02.0", kind: gpu.FaultWedged},
	},
	{"xe 0000:03:00.0: [drm] device wedged, needs recovery", event{driver: "xe", pci: "0000:03:00.0", kind: gpu.FaultWedged}},
	{
		"xe 0000:e3:00.0: [drm] Tile0: GT0: Fault response: Unsuccessful -EINVAL",
		event{driver: "xe", pci: "0000:e3:00.0", kind: gpu.FaultPage},
	},
	{
		"xe 0000:e3:00.0: [drm] Tile0: GT0: Engine memory CAT error [18]: class=bcs, logical_mask: 0x1, guc_id=18",
		event{driver: "xe", pci: "0000:e3:00.0", kind: gpu.FaultPage},
	},

	{"", event{}},
	{"EXT4-fs (vda): mounted filesystem r/w without journal. Quota mode: none.", event{}},
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, tt := range lineTests {
		got, ok := parse(tt.line)
		if !ok {
			got = event{}
		}
		if got != tt.want {
			t.Errorf("%s\n got  %+v\n want %+v", tt.line, got, tt.want)
		}
	}
}

// A name is foreign text.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"python3":                 "python3",
		"a\x1b[31mb\x00c\u202e":   "a[31mbc",
		strings.Repeat("é", 20):   strings.Repeat("é", 7),
		"15 bytes exact.":         "15 bytes exact.",
		"\xff\xfe":                "",
		"  around  ":              "around",
		strings.Repeat("x", 1000): strings.Repeat("x", mostName),
	} {
		if got := clean(in, mostName); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line string
		text string
		ok   bool
	}{
		{"3,1234,5678901,-;NVRM: Xid", "NVRM: Xid", true},
		{"6,339,5140900,-,caller=T1;a;b,c", "a;b,c", true},
		{`4,1,1,c;one\x0atwo\x5c \xzz \x4`, "one\ntwo\\ \\xzz \\x4", true},
		{"12,1,1,-;a program wrote it", "", false},
		{" SUBSYSTEM=pci", "", false},
		{"3,1,-5,-;x", "", false},
		{"3,1,9223372036854775807,-;x", "", false},
		{"3,1;x", "", false},
		{"no record", "", false},
	} {
		r, ok := parseRecord(tt.line)
		if ok != tt.ok || r.text != tt.text {
			t.Errorf("%q: %q, %v", tt.line, r.text, ok)
		}
	}
}

// FuzzKernelLogLine checks that, whatever a line says, an event has a known kind, and names are bounded.
func FuzzKernelLogLine(f *testing.F) {
	for _, tt := range lineTests {
		f.Add("3,1,1,-;" + tt.line)
	}
	f.Add(`3,18446744073709551615,0,-;amdgpu 0000:03:00.0: amdgpu:  Process \xff\x0a pid 2147483647 thread`)
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := parseRecord(line)
		if !ok {
			return
		}
		e, ok := parse(r.text)
		if !ok {
			return
		}
		if vendors[e.driver] == "" || e.xid < 0 || e.xid > 9999 || e.xid != 0 && e.kind != "" {
			t.Errorf("%+v", e)
		}
		if what, try := e.kind.Meaning(); e.kind != "" && (what == "" || try == "") {
			t.Errorf("a kind without a meaning: %+v", e)
		}
		for _, name := range []string{e.engine, e.culprit.Name} {
			if len(name) > mostEngine || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\n\x1b") {
				t.Errorf("it names %q", name)
			}
		}
		if e.culprit.PID < 0 || len(e.pci) > len("00000000:00:00.0") || strings.ToLower(e.pci) != e.pci {
			t.Errorf("%+v", e)
		}
	})
}
