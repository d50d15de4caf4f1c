//go:build !race && linux

package main

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// radeon and iris have those files of an AMD GPU and an integrated Intel GPU that these tests
// need; packages amd and intel have complete ones.
func radeon(m *drmtest.Machine) *drmtest.Card {
	return m.Card(1, "0000:03:00.0", "amdgpu", map[string]string{
		"vendor": "0x1002\n", "device": "0x744c\n", "revision": "0xc8\n", "subsystem_vendor": "0x1002\n", "subsystem_device": "0x0e3b\n",
		"unique_id": "4c1a9f7e0b35d262\n", "gpu_busy_percent": "37\n",
		"mem_info_vram_total": "25753026560\n", "mem_info_vram_used": "3221225472\n",
		"hwmon/hwmon3/name": "amdgpu\n", "hwmon/hwmon3/temp1_label": "edge\n", "hwmon/hwmon3/temp1_input": "51000\n",
		"hwmon/hwmon3/power1_average": "212000000\n", "hwmon/hwmon3/fan1_input": "1123\n",
		"hwmon/hwmon3/pwm1": "92\n", "hwmon/hwmon3/pwm1_max": "255\n", "hwmon/hwmon3/pwm1_enable": "2\n",
	})
}

func iris(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:00:02.0", "i915", map[string]string{
		"vendor": "0x8086\n", "device": "0x4680\n", "revision": "0x0c\n", "subsystem_vendor": "0x8086\n", "subsystem_device": "0x1020\n",
		"drm/card0/gt/gt0/id": "0\n", "drm/card0/gt/gt0/rps_act_freq_mhz": "350\n", "drm/card0/gt/gt0/rps_RP0_freq_mhz": "1550\n",
		"drm/card0/gt/gt0/rc6_residency_ms": "100000\n",
	})
}

// withoutGPU returns the sysfs of a machine whose only PCI device is a network card.
func withoutGPU(t *testing.T) string {
	m := drmtest.New(t)
	m.Write(filepath.Join(m.Sysfs, "bus/pci/devices/0000:00:03.0/vendor"), "0x1af4\n")
	m.Write(filepath.Join(m.Sysfs, "bus/pci/devices/0000:00:03.0/class"), "0x020000\n")
	return m.Sysfs
}

func TestVendorsBesideEachOther(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	others := drmtest.In(t, m.SysfsRoot, m.ProcRoot)
	amd, _ := radeon(others), iris(others)
	p := start(t, lib.Env(), fast, "--sysfs-root="+m.SysfsRoot, "--proc-root="+m.ProcRoot)
	v := p.dial()
	u := v.await("all three answer", func(u contract.Update) bool { return u.Answering == 3 })
	var got []string
	for i := range u.GPUs {
		got = append(got, u.GPUs[i].Source+" "+u.GPUs[i].Vendor)
	}
	if want := []string{"intel intel", "nvml nvidia", "amdgpu amd"}; !slices.Equal(got, want) { // by PCI address
		t.Errorf("got %q", got)
	}
	if u.Source != gpu.SourceMixed || u.Status != "ok" || len(u.Failures) != 0 || u.Found != "nvml: 1 GPU; amdgpu: 1 GPU; intel: 1 GPU" {
		t.Errorf("source %s, status %s, failures %v, found %q", u.Source, u.Status, u.Failures, u.Found)
	}
	if busy := value(t, "utilization", u.GPUs[2].Utilization.GPU); busy != 37 {
		t.Errorf("the AMD GPU is busy for %v %%", busy)
	}

	amd.Unplug()
	u = v.await("one is gone", func(u contract.Update) bool { return u.GPUs[2].State == "lost" })
	if u.GPUs[0].State != "ok" || u.GPUs[1].State != "ok" || u.GPUs[2].UUID == "" {
		t.Errorf("the others are %s and %s", u.GPUs[0].State, u.GPUs[1].State)
	}
	uuid := u.GPUs[2].UUID
	amd.Plug()
	u = v.await("it is back", func(u contract.Update) bool { return u.GPUs[2].State == "ok" })
	if u.GPUs[2].UUID != uuid || u.Devices != 3 {
		t.Errorf("it is %s now, of %d", u.GPUs[2].UUID, u.Devices)
	}

	m.GPU(0).Lost()
	u = v.await("the NVIDIA GPU is lost", func(u contract.Update) bool { return u.GPUs[1].State == "lost" })
	if u.GPUs[0].State != "ok" || u.GPUs[2].State != "ok" || u.Status != "degraded" {
		t.Errorf("the others are %s and %s, the machine %s", u.GPUs[0].State, u.GPUs[2].State, u.Status)
	}
}

func TestVendorsThatAreNotHere(t *testing.T) {
	t.Parallel()
	m := drmtest.New(t)
	radeon(m)
	env := []string{"LD_LIBRARY_PATH=" + t.TempDir(), "PATH=" + t.TempDir()}
	p := start(t, env, fast, "--sysfs-root="+m.Sysfs, "--proc-root="+m.Proc)
	u := p.dial().await("the AMD GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	if u.Status != "ok" || len(u.Failures) != 0 || u.Source != gpu.SourceAMD || !strings.Contains(u.Found, "no NVIDIA GPU") {
		t.Errorf("status %s, failures %v, source %s, found %q", u.Status, u.Failures, u.Source, u.Found)
	}
	var health contract.MonitorHealth
	if code := p.get("/api/health", &health); code != http.StatusOK || health.Status != "ok" || health.Reason != "" {
		t.Errorf("%d %+v", code, health)
	}
	states := map[string]string{}
	for name, part := range health.Parts {
		states[name] = part.State
		if (part.State == "absent") != (part.Absent != nil) || part.State == "absent" && part.LastError != nil {
			t.Errorf("%s: %+v", name, part)
		}
	}
	want := map[string]string{"sampler": "ok", "hub": "ok", "nvml": "absent", "amdgpu": "ok", "intel": "absent", "access": "ok", "audit": "ok"}
	if !maps.Equal(states, want) {
		t.Errorf("parts %v", states)
	}
	if _, page := p.fetch("/about", http.Header{"Accept": {"text/html"}}); !strings.Contains(strings.ReplaceAll(string(page), "\u00a0", " "), "amdgpu: 1 GPU") {
		t.Error("no page says what was found")
	}

	// Without any card all of them are absent, and there is a reason.
	p = start(t, env, fast, "--sysfs-root="+withoutGPU(t), "--proc-root="+m.Proc)
	u = p.dial().await("there is a verdict", func(u contract.Update) bool { return u.Status == "no_gpu" })
	if len(u.Failures) != 3 || u.Reason == "" {
		t.Errorf("reason %q, failures %v", u.Reason, u.Failures)
	}
	if code := p.get("/api/health", &health); code != http.StatusOK || health.Parts["nvml"].State != "absent" || health.Parts["intel"].State != "absent" {
		t.Errorf("%d %+v", code, health)
	}

	// Who names a source wants it: then its absence is a failure.
	p = start(t, env, fast, "--source=amd,intel", "--sysfs-root="+m.Sysfs, "--proc-root="+m.Proc)
	u = p.dial().await("the AMD GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	if u.Status != "degraded" || len(u.Failures) != 1 || u.Failures[0].Source != gpu.SourceIntel {
		t.Errorf("status %s, failures %v", u.Status, u.Failures)
	}
}

func TestNvidiaSMIWhereThereIsNoLibrary(t *testing.T) {
	t.Parallel()
	m := fakesmi.New(t, "rtx4090-550")
	p := start(t, []string{"LD_LIBRARY_PATH=" + t.TempDir()}, fast, "--nvidia-smi="+m.Program(), "--sysfs-root="+t.TempDir())
	u := p.dial().await("the program is read", func(u contract.Update) bool { return u.Answering == 1 })
	note := func(text string) bool {
		return strings.Contains(text, "nvidia-smi") && strings.Contains(text, "libnvidia-ml.so.1")
	}
	if u.Source != gpu.SourceNvidiaSMI || u.Status != "ok" || !slices.ContainsFunc(u.Notes, note) {
		t.Errorf("source %s, status %s, notes %q", u.Source, u.Status, u.Notes)
	}
}

func TestSourcesThatDoNotFit(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"nvml,auto":                 "give it alone",
		"amd,simulate:rtx-4090":     "can't be combined",
		"amd,intel,amd":             "twice",
		"":                          "must be auto, or some of nvml, nvidia-smi, amd, intel",
		"rocm":                      "must be auto, or some of nvml, nvidia-smi, amd, intel",
		"simulate:rtx-1":            "rtx-4090",
		"simulate:rtx-4090,fleet:8": "can't be combined",
	} {
		if r := inside("check-config", "--source="+list); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit status %d, %s", list, r.code, r.stderr)
		}
	}
}

// Of sleeping cards, the program opens only their power states, and the links by which the
// kernel lists them. It calls no driver.
func TestAllVendorsAsleep(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	others := drmtest.In(t, m.SysfsRoot, m.ProcRoot)
	cards := []*drmtest.Card{radeon(others), iris(others)}
	p := start(t, lib.Env(), fast, "--sysfs-root="+m.SysfsRoot, "--proc-root="+m.ProcRoot)
	v := p.dial()
	v.await("all answer", func(u contract.Update) bool { return u.Answering == 3 })
	m.GPU(0).Sleep()
	for _, c := range cards {
		c.Sleep()
	}
	u := v.await("all sleep", func(u contract.Update) bool {
		return !slices.ContainsFunc(u.GPUs, func(g contract.UpdateGPU) bool { return g.State != "asleep" })
	})
	calls := m.GPU(0).Calls()
	var opened []func() []string
	for _, c := range cards {
		opened = append(opened, drmtest.Watch(t, c.Dir))
	}
	seq := u.Seq
	v.await("three more readings were made", func(u contract.Update) bool { return u.Seq > seq+3 })
	for i, c := range cards {
		files := opened[i]()
		if !slices.Contains(files, "power/runtime_status") {
			t.Errorf("%s: its power state was not looked at: %q", c.Address, files)
		}
		for _, file := range files {
			if file != "power/runtime_status" && file != "power" {
				t.Errorf("%s: %s was opened", c.Address, file)
			}
		}
	}
	if now := m.GPU(0).Calls(); now != calls {
		t.Errorf("NVIDIA's driver was called %d times", now-calls)
	}
	if u.Status != "ok" || u.GPUs[0].Utilization.GPU.Present() || u.GPUs[2].Power.Draw.Present() {
		t.Errorf("status %s, %+v", u.Status, u.GPUs)
	}
	for _, c := range cards {
		c.Wake()
	}
	m.GPU(0).Wake()
	v.await("all are awake", func(u contract.Update) bool { return u.Answering == 3 })
}
