//go:build !race && linux

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

const (
	amdAt, arcAt = "0000:43:00.0", "0000:03:00.0"
	gpusOfAll    = 6
)

// workshop is a machine with cards of every vendor, and the program.
type workshop struct {
	*stand
	nvidia     *fakenvml.Machine
	amd, intel *drmtest.Card
	arc        map[string]string      // the files of the card of Intel
	hung       map[string]string      // files that hang now, and what they say else
	out        map[*drmtest.Card]bool // cards that were taken out
}

// newWorkshop has four NVIDIA cards, two desktop cards, one with counters and one in MIG mode,
// an AMD card and an Intel card.
func newWorkshop(t *testing.T, begin starter, without ...string) *workshop {
	t.Helper()
	return makeWorkshop(t, begin, true, without...)
}

// newWorkshopWithout is a machine whose kernel does not show the NVIDIA cards.
func newWorkshopWithout(t *testing.T) *workshop {
	t.Helper()
	return makeWorkshop(t, start, false)
}

func makeWorkshop(t *testing.T, begin starter, shown bool, without ...string) *workshop {
	t.Helper()
	lib := fakenvml.Build(t, without...)
	mig := fakenvml.H100().At(0x83).With("mig", 1)
	for key, v := range map[fakenvml.Key]any{
		"uuid": "MIG-1", "name": "NVIDIA H100 MIG 1g.10gb", "gi": 7, "ci": 0,
		"memory_total": 10334765056, "memory_used": 12582912,
		"multiprocessors": 16, "slices": 1, "compute_slices": 1,
	} {
		mig = mig.With("mig0."+key, v)
	}
	m := lib.Machine(t, fakenvml.RTX4090().At(0x81), fakenvml.H100().At(0x82), mig, fakenvml.RTX4090().At(0x84))
	w := &workshop{nvidia: m, arc: map[string]string{}, hung: map[string]string{}, out: map[*drmtest.Card]bool{}}
	others := drmtest.New(t)
	if shown {
		others = drmtest.In(t, m.SysfsRoot, m.ProcRoot)
	}
	w.amd = others.Card(2, amdAt, "amdgpu", drmtest.Navi31())
	others.Open(os.Getpid(), 5, "dri/renderD130", "drm-driver:\tamdgpu\ndrm-pdev:\t"+amdAt+
		"\ndrm-client-id:\t7\ndrm-memory-vram:\t65536 KiB\ndrm-engine-gfx:\t1000 ns\n")
	w.intel = drmtest.ArcB580(others)
	// Then the reasons are read, too.
	w.intel.Set(map[string]string{"tile0/gt0/freq0/throttle/status": "1\n"})
	w.arc = w.intel.Files()
	w.stand = newStand(t, begin, lib.Env(), "--pcie-throughput", "--sysfs-root="+others.Sysfs, "--proc-root="+others.Proc)
	w.well(gpusOfAll)
	w.keepAccount()
	return w
}

// nvmlFaults are the faults of a function of NVIDIA's library.
var nvmlFaults = []struct {
	name string
	code int // what it returns; 0 where it hangs or is slow
}{
	{"hangs", 0},
	{"slow", 0},
	{"unknown error", 999},
	{"lost", 15},
	{"reset required", 16},
	{"not supported", 3},
	{"no permission", 4},
	{"missing", 13},
	{"no code of NVML", 4711},
}

// newer are the functions for which an older one can be called instead.
var newer = map[string][]string{
	"nvmlDeviceGetMemoryInfo":                    {"nvmlDeviceGetMemoryInfo_v2"},
	"nvmlDeviceGetTemperature":                   {"nvmlDeviceGetTemperatureV"},
	"nvmlDeviceGetFanSpeed":                      {"nvmlDeviceGetFanSpeed_v2", "nvmlDeviceGetNumFans"},
	"nvmlDeviceGetCurrentClocksThrottleReasons":  {"nvmlDeviceGetCurrentClocksEventReasons"},
	"nvmlDeviceGetComputeRunningProcesses_v2":    {"nvmlDeviceGetComputeRunningProcesses_v3"},
	"nvmlDeviceGetGraphicsRunningProcesses_v2":   {"nvmlDeviceGetGraphicsRunningProcesses_v3"},
	"nvmlDeviceGetMPSComputeRunningProcesses_v2": {"nvmlDeviceGetMPSComputeRunningProcesses_v3"},
	"nvmlDeviceGetComputeRunningProcesses": {
		"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
	},
	"nvmlDeviceGetGraphicsRunningProcesses": {
		"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
	},
	"nvmlDeviceGetMPSComputeRunningProcesses": {
		"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
	},
}

// atBegin are the functions called when the library is initialized, or when its devices are
// attached or released.
func atBegin(f string) bool {
	return !strings.HasPrefix(f, "nvmlDevice") && f != "nvmlEventSetWait_v2" && !strings.HasPrefix(f, "nvmlGpm") ||
		strings.HasPrefix(f, "nvmlDeviceGetHandleBy") || strings.HasPrefix(f, "nvmlDeviceGetCount") ||
		f == "nvmlDeviceRegisterEvents" || f == "nvmlGpmSampleFree" || f == "nvmlGpmSampleAlloc"
}

// usedFunctions returns the functions named in the source of package nvml, except one that is
// only looked up.
func usedFunctions(t *testing.T) (all []string) {
	t.Helper()
	files, err := filepath.Glob("../../sampler/nvml/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(nvml[A-Z]\w+)"`).FindAllStringSubmatch(string(text), -1) {
			all = append(all, m[1])
		}
	}
	for f := range newer {
		all = append(all, f, newer[f][0])
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(f string) bool { return f == "nvmlErrorString" })
}

// place returns the GPU that a function is called for; nil if it is for none, or is called
// when the library is initialized.
func (w *workshop) place(f string) *fakenvml.Device {
	if atBegin(f) {
		return nil
	}
	asked := f
	if n := newer[f]; n != nil {
		asked = n[0]
	}
	for _, i := range []int{0, 1, 2} {
		if d := w.nvidia.GPU(i); slices.Contains(d.Functions(), asked) {
			return d
		}
	}
	return nil
}

// strike makes one fault of a function, and returns what it did.
func (w *workshop) strike(f, fault string, code int) string {
	w.Helper()
	d := w.place(f)
	calls := func() int { return w.nvidia.Calls(f) }
	whom := hasVendor("nvidia")
	begin := func() {
		switch {
		case code != 0:
			w.nvidia.Answer(code, f)
		case fault == "slow":
			w.nvidia.Slow(hurried+hurried/10, f)
		default:
			w.nvidia.Hang(f)
		}
	}
	if d != nil {
		calls = func() int { return d.Calls(f) }
		whom = hasAddress(d.PCI)
		begin = func() {
			if older := newer[f]; older != nil {
				d.Answer(13, older...)
			}
			switch {
			case code != 0:
				d.Answer(code, f)
			case fault == "slow":
				d.Slow(hurried+hurried/10, f)
			default:
				d.Hang(f)
			}
		}
	}
	w.fault(whom)
	before := 0
	if d == nil {
		w.target = nil
		w.nvidia.Reload() // what failed to begin begins again
		w.until("it is loaded again", is(whom, func(g *contract.UpdateGPU) bool { return g.State != "ok" }))
		w.well(gpusOfAll)
		w.fault(whom)
		before = calls()
		w.nvidia.Together(func() { begin(); w.nvidia.Reload() })
	} else { // what is asked seldom is asked after the device was away
		d.Lost()
		w.until("it is lost", is(whom, func(g *contract.UpdateGPU) bool { return g.State == "lost" }))
		before = calls()
		w.nvidia.Together(func() { d.Back(); begin() })
	}
	w.until(f+" is called", func(*contract.Update) bool { return calls() > before })
	ok := func(g *contract.UpdateGPU) bool { return g.State == "ok" && w.fresh(g) }
	switch fault {
	case "slow":
		w.mark()
		w.until(f+" is slow and the GPU is read", is(whom, ok))
		w.heard(0)
	case "hangs":
		w.until(f+" hangs", func(u *contract.Update) bool {
			return !is(whom, func(g *contract.UpdateGPU) bool { return g.State == "ok" && g.StateReason == "" })(u)
		})
		w.heard(int(hurried / (250 * time.Millisecond)))
	default:
		w.heard(2)
	}
	outcome := w.words(whom)
	w.said(whom)
	w.nvidia.Heal()
	w.well(gpusOfAll)
	return outcome
}
