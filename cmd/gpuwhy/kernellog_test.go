//go:build !race && linux

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// kernel is a named pipe in place of the kernel log. Nobody else has it open for writing while
// the program reads it.
type kernel struct {
	t    *testing.T
	path string
	pipe io.Writer
	seq  int
}

func newKernel(t *testing.T) *kernel {
	path := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for a reader
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close() })
	return &kernel{t: t, path: path, pipe: pipe}
}

func (k *kernel) write(text string) {
	k.t.Helper()
	k.seq++
	if _, err := fmt.Fprintf(k.pipe, "3,%d,%d,-;%s\n", k.seq, k.seq, text); err != nil {
		k.t.Fatal(err)
	}
}

// Errors in the kernel log show up with the next reading. An error that the driver's events
// also report counts once.
func TestErrorsInTheKernelLog(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090(), fakenvml.RTX4090().At(2))
	k := newKernel(t)
	p := start(t, lib.Env(), "--interval=1h", "--kernel-log="+k.path)
	v := p.dial()
	first := p.reads("both answer, and the log was read", func(u contract.Update) bool {
		return u.Answering == 2 && u.GPUs[0].Health.XIDs != nil && u.GPUs[1].Health.XIDs != nil
	})
	if h := &first.GPUs[0].Health; len(h.XIDs) != 0 || h.Faults == nil || len(h.Faults) != 0 {
		t.Errorf("before any error: %v", first.GPUs[0].Health)
	}

	k.write("NVRM: Xid (PCI:0000:01:00): 31, pid=4194304, name=/usr/bin/python3, Ch 0000000a, intr 00000000. MMU Fault")
	m.GPU(0).RaiseXID(31)
	k.write("NVRM: Xid (PCI:0000:02:00): 119, pid='<unknown>', name=<unknown>, Timeout after 6s of waiting for RPC response from GPU1 GSP!")
	var u contract.Update
	testkit.Until(t, "both errors are known", func() bool { // by readings that are asked for: there is no other
		u = v.request("r")
		return len(u.GPUs[0].Health.XIDs) > 0 && len(u.GPUs[1].Health.XIDs) > 0
	}, func() any { return u })
	x := u.GPUs[0].Health.XIDs
	if len(x) != 1 || x[0].Code != 31 || x[0].Count != 1 || x[0].Earlier != 0 || x[0].Process.Or("") != "python3" || x[0].PID.Or(0) != fakenvml.NoProcess {
		t.Fatalf("the first GPU: %+v", x)
	}
	if x[0].Severity.Or("") != "warning" || !strings.Contains(x[0].Meaning.Or(""), "memory address") || x[0].Advice.Or("") == "" {
		t.Errorf("%+v", x[0])
	}
	if x := u.GPUs[1].Health.XIDs; len(x) != 1 || x[0].Code != 119 || x[0].Severity.Or("") != "critical" || x[0].Process.Present() {
		t.Errorf("the second GPU, of whose error the log alone tells: %+v", x)
	}
	if len(u.Notes) != len(first.Notes) || strings.Contains(strings.Join(u.Notes, " "), "kernel") {
		t.Errorf("notes: %q", u.Notes)
	}

	m.GPU(1).Lost()
	testkit.Until(t, "one is lost", func() bool { u = v.request("r"); return u.GPUs[1].State == "lost" }, func() any { return u })
	if !strings.HasPrefix(u.GPUs[1].StateReason, "XID 119: ") {
		t.Errorf("why it is lost: %s", u.GPUs[1].StateReason)
	}
}

// Prometheus has the errors too, including those from before the program started.
func TestErrorsInTheKernelLogAreCounted(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.RTX4090())
	k := newKernel(t)
	k.write("NVRM: Xid (PCI:0000:01:00): 31, pid=4194304, name=python3, Ch 0000000a")
	p := start(t, lib.Env(), fast, "--kernel-log="+k.path)
	v := p.dial()
	v.await("the old one is known", func(u contract.Update) bool {
		x := u.GPUs[0].Health.XIDs
		return len(x) == 1 && x[0].Count == 1 && x[0].Earlier == 1
	})
	k.write("NVRM: Xid (PCI:0000:01:00): 31, pid=4194304, name=python3, Ch 0000000a")
	fired := v.nextAlert("one is news", func(a contract.Alert) bool { return a.Rule == "xid_of_program" })
	if !strings.Contains(fired.Message, "had 1 driver error") {
		t.Errorf("one is news: %s", fired.Message)
	}
	v.await("the new one is known", func(u contract.Update) bool { return u.GPUs[0].Health.XIDs[0].Count == 2 })
	_, text := p.fetch("/metrics", nil)
	for _, want := range []string{`xid="31"} 2`, "gpuwhy_gpu_xid_last_timestamp_seconds{"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("/metrics does not have %s", want)
		}
	}
}

// If neither the driver nor the log reports errors, the reading is absent, not zero, and the page says why.
func TestNoKernelLog(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	m.Answer(3, "nvmlDeviceRegisterEvents") // NVML_ERROR_NOT_SUPPORTED
	missing := filepath.Join(t.TempDir(), "kmsg")
	p := start(t, lib.Env(), fast, "--kernel-log="+missing)
	u := p.await("it answers", func(u contract.Update) bool { return u.Answering == 1 })
	if x, q := u.GPUs[0].Health.XIDs, u.GPUs[0].Quality["health.xids"]; x != nil || q != "not_supported" {
		t.Errorf("XIDs %v, %q", x, q)
	}
	if !strings.Contains(strings.Join(u.Notes, "\n"), "there is no "+missing+" here, so that errors of GPU drivers are not seen") {
		t.Errorf("notes: %q", u.Notes)
	}
}

// The log reports on devices of all vendors, and why a device is lost.
func TestErrorsOfEveryVendorInTheKernelLog(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090())
	others := drmtest.In(t, m.SysfsRoot, m.ProcRoot)
	amd, _ := radeon(others), iris(others)
	k := newKernel(t)
	p := start(t, lib.Env(), fast, "--sysfs-root="+m.SysfsRoot, "--proc-root="+m.ProcRoot, "--kernel-log="+k.path)
	v := p.dial()
	u := v.await("all three answer, and the log was read", func(u contract.Update) bool {
		return u.Answering == 3 && u.GPUs[0].Health.Faults != nil && u.GPUs[2].Health.Faults != nil
	})
	for i := range u.GPUs {
		if h := &u.GPUs[i].Health; h.Faults == nil || len(h.Faults) != 0 || len(h.XIDs) != 0 {
			t.Errorf("%s, before any error: %+v, %+v", u.GPUs[i].Vendor, h.XIDs, h.Faults)
		}
	}
	k.write("i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in renderThread [22381]")
	k.write("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7")
	k.write("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process Game.exe pid 47714 thread Game.exe:cs0 pid 47850")
	k.write("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!")
	u = v.await("their faults are known", func(u contract.Update) bool {
		return len(u.GPUs[0].Health.Faults) == 1 && len(u.GPUs[2].Health.Faults) == 2
	})
	if f := u.GPUs[0].Health.Faults[0]; f.Kind != "engine_hang" || f.Count != 1 || f.Process.Or("") != "renderThread" {
		t.Errorf("Intel: %+v", f)
	}
	if f := u.GPUs[2].Health.Faults[1]; f.Kind != "engine_hang" || f.Engine.Or("") != "gfx_0.0.0" || f.Process.Or("") != "Game.exe" || f.PID.Or(0) != 47714 {
		t.Errorf("AMD: %+v", f)
	}
	_, text := p.fetch("/metrics", nil)
	if !strings.Contains(string(text), `kind="device_reset"`) || strings.Count(string(text), `kind="engine_hang"`) != 4 { // each with its time
		t.Error("/metrics does not have them")
	}

	k.write("amdgpu 0000:03:00.0: amdgpu: GPU reset(1) failed")
	amd.Unplug()
	u = v.await("it is lost, and why is known", func(u contract.Update) bool {
		return u.GPUs[2].State == "lost" && len(u.GPUs[2].Health.Faults) == 3
	})
	if !strings.HasPrefix(u.GPUs[2].StateReason, "the GPU could not be reset: ") {
		t.Errorf("why it is lost: %s", u.GPUs[2].StateReason)
	}
}
