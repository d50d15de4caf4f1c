package nvidia

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A box is a fake machine, or what a container sees of one.
type box struct {
	t                *testing.T
	sysfs, proc, dev string
	suspects         []gpu.Suspect
	kernel           *Kernel
	now              time.Time
}

const here, gone = "0000:01:00.0", "0000:b3:00.0"

func newBox(t *testing.T) *box {
	b := &box{t: t, sysfs: t.TempDir(), proc: t.TempDir(), dev: t.TempDir(), now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	b.kernel = NewKernel(b.sysfs, b.proc)
	b.kernel.Devices, b.kernel.Suspects = b.dev, func() []gpu.Suspect { return b.suspects }
	b.machine()
	b.card(here, "nvidia")
	return b
}

func (b *box) write(root, name, text string) {
	b.t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) link(target, root, name string) {
	b.t.Helper()
	path := filepath.Join(root, name)
	_ = os.Remove(path) // removes the previous one, if any
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		b.t.Fatal(err)
	}
}

// machine makes it the machine itself, not a container.
func (b *box) machine() {
	b.link(firstPIDs, b.proc, "1/ns/pid")
	b.write(b.proc, "1/cgroup", "0::/init.scope\n")
}

// card adds a card with a driver; "" for none.
func (b *box) card(address, driver string) {
	device := "bus/pci/devices/" + address
	b.write(b.sysfs, device+"/vendor", "0x10de\n")
	b.write(b.sysfs, device+"/device", "0x26b5\n")
	b.write(b.sysfs, device+"/class", "0x030200\n")
	if driver != "" {
		b.link("../../../bus/pci/drivers/"+driver, b.sysfs, device+"/driver")
		b.link("../../devices/"+address, b.sysfs, "bus/pci/drivers/"+driver+"/"+address)
	}
}

// inform writes the driver's information about a card to /proc.
func (b *box) inform(address string, minor int, more string) {
	b.write(b.proc, "driver/nvidia/gpus/"+address+"/information", fmt.Sprintf("Model: \t\t NVIDIA L40\nGPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t %d\n%s", minor, more))
}

// lacks returns the cards that are missing after a while in which the driver lists only the first one.
func (b *box) lacks() []gpu.Device {
	b.t.Helper()
	listed := []gpu.Device{{Identity: gpu.Identity{PCI: here}}}
	var out []gpu.Device
	for range 8 {
		out = b.kernel.Missing(b.now, b.kernel.Cards(), listed, func(c Card) gpu.Identity { return c.Identity(gpu.SourceNVML) })
		testkit.Until(b.t, "the files to be read", func() bool {
			b.kernel.looks.mu.Lock()
			defer b.kernel.looks.mu.Unlock()
			return !b.kernel.looks.busy
		})
		b.now = b.now.Add(time.Second)
	}
	return out
}

// A card that the driver should list but does not is lost, and says so; another job's card is ignored.
func TestMissingCards(t *testing.T) {
	forbid := func(b *box, err error) {
		b.kernel.mayOpen = func(node string) error {
			if filepath.Base(node) == "nvidia1" {
				return err
			}
			return mayOpen(node)
		}
	}
	two := func(b *box) { // with the nodes of both
		b.card(gone, "nvidia")
		b.inform(here, 0, "")
		b.inform(gone, 1, "")
		b.write(b.dev, "nvidia0", "")
		b.write(b.dev, "nvidia1", "")
	}
	unstarted := func(b *box) {
		b.suspects = []gpu.Suspect{{PCI: gone, Kind: gpu.FaultInitFailed, Last: b.now.Add(-time.Hour)}}
	}
	unbind := func(b *box) {
		for _, path := range []string{"bus/pci/devices/" + gone + "/driver", "bus/pci/drivers/nvidia/" + gone} {
			if err := os.Remove(filepath.Join(b.sysfs, path)); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	fell := func(b *box) {
		b.suspects = []gpu.Suspect{{PCI: gone, Kind: gpu.FaultOffBus, Last: b.now.Add(-time.Hour)}}
	}
	container := func(b *box) { b.link("pid:[4026532281]", b.proc, "1/ns/pid") }
	for what, c := range map[string]struct {
		change func(*box)
		want   string // a part of the reason; empty: it does not count
	}{
		"bound": {func(b *box) { b.card(gone, "nvidia") }, "the driver does not list the card at 0000:b3:00.0"},
		"bound, with its node": {func(b *box) {
			b.card(gone, "nvidia")
			b.inform(here, 0, "")
			b.inform(gone, 1, "")
			b.write(b.dev, "nvidia1", "")
		}, "does not list"},
		"off the bus, without a driver": {func(b *box) { b.card(gone, ""); fell(b) }, "fallen off the bus"},
		"off the bus, bound":            {func(b *box) { b.card(gone, "nvidia"); fell(b) }, "fallen off the bus"},
		"not started": {func(b *box) {
			b.card(gone, "nvidia")
			b.suspects = []gpu.Suspect{{PCI: gone, Kind: gpu.FaultInitFailed, Last: b.now}}
		}, "could not start"},
		"another job's, by the device rules of its control group": {func(b *box) { two(b); forbid(b, syscall.EPERM) }, ""},
		"another job's, and off the bus":                          {func(b *box) { two(b); forbid(b, syscall.EPERM); fell(b) }, ""},
		"for other users":                                         {func(b *box) { two(b); forbid(b, syscall.EACCES) }, ""},
		"given to this job": {func(b *box) {
			two(b)
			b.write(b.proc, "self/cgroup", "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n")
		}, "does not list"},
		"of a job, which card is not known": {func(b *box) {
			b.card(gone, "nvidia")
			b.write(b.proc, "self/cgroup", "5:devices:/slurm/uid_1000/job_42/step_0\n")
		}, ""},
		"not started, without a driver": {func(b *box) { b.card(gone, ""); unstarted(b) }, "could not start"},
		"not started days ago, without a driver": {func(b *box) {
			b.card(gone, "")
			b.suspects = []gpu.Suspect{{PCI: gone, Kind: gpu.FaultInitFailed, Last: b.now.Add(-50 * time.Hour)}}
		}, ""},
		"not started, and somebody took the driver away": {func(b *box) {
			b.card(gone, "nvidia")
			unstarted(b)
			b.lacks()
			unbind(b)
		}, ""},
		"off the bus, and somebody took the driver away": {func(b *box) {
			b.card(gone, "nvidia")
			fell(b)
			b.lacks()
			unbind(b)
			b.now = b.now.Add(looksAgain)
		}, "fallen off the bus"},
		"not started, bound": {func(b *box) { b.card(gone, "nvidia"); unstarted(b) }, "could not start"},
		"off the bus, answered since, and somebody took the driver away": {func(b *box) {
			b.card(gone, "nvidia")
			fell(b)
			both := []gpu.Device{{Identity: gpu.Identity{PCI: here}}, {Identity: gpu.Identity{PCI: gone}, State: gpu.StateOK}}
			b.kernel.Missing(b.now, b.kernel.Cards(), both, nil)
			unbind(b)
		}, ""},
		"without a driver, and no word": {func(b *box) { b.card(gone, "") }, ""},
		"taken out":                     {fell, ""},
		"given to a virtual machine":    {func(b *box) { b.card(gone, "vfio-pci"); fell(b) }, ""},
		"nouveau's":                     {func(b *box) { b.card(gone, "nouveau") }, ""},
		"asleep": {func(b *box) {
			b.card(gone, "nvidia")
			b.write(b.sysfs, "bus/pci/devices/"+gone+"/power/runtime_status", "suspended\n")
		}, ""},
		"excluded by the administrator": {func(b *box) {
			b.card(gone, "nvidia")
			b.inform(here, 0, "")
			b.inform(gone, 1, "GPU Excluded:\t Yes\n")
		}, ""},
		"another's, seen from a container": {func(b *box) { b.card(gone, "nvidia"); container(b) }, ""},
		"another's, and off the bus":       {func(b *box) { b.card(gone, "nvidia"); container(b); fell(b) }, ""},
		"by the cgroup of a pod": {func(b *box) {
			b.card(gone, "nvidia")
			b.write(b.proc, "1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-7.scope\n")
		}, ""},
		"by a cgroup namespace":             {func(b *box) { b.card(gone, "nvidia"); b.write(b.proc, "1/cgroup", "0::/../../init.scope\n") }, ""},
		"hidden by the container's runtime": {func(b *box) { b.card(gone, "nvidia"); b.inform(here, 0, "") }, ""},
		"given to this container": {func(b *box) {
			b.card(gone, "nvidia")
			container(b)
			b.inform(here, 0, "")
			b.inform(gone, 5, "")
			b.write(b.dev, "nvidia5", "")
		}, "does not list"},
		"of the machine whose /proc a container has": {func(b *box) {
			b.card(gone, "nvidia")
			b.inform(here, 0, "")
			b.inform(gone, 5, "")
			b.write(b.dev, "nvidia0", "")
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBox(t)
			c.change(b)
			out := b.lacks()
			if (len(out) == 1) != (c.want != "") || len(out) > 1 {
				t.Fatalf("%d cards: %+v", len(out), out)
			}
			if len(out) == 0 {
				return
			}
			d := &out[0]
			if d.State != gpu.StateLost || d.PCI != gone || d.UUID != gpu.UUIDAt(gone) || !strings.Contains(d.Reason.What, c.want) ||
				!strings.Contains(d.Reason.What, gone) || d.Reason.Try == "" || d.Since.IsZero() {
				t.Errorf("%s at %s since %v: %q, %q", d.State, d.PCI, d.Since, d.Reason.What, d.Reason.Try)
			}
			if c.want == "does not list" && !strings.Contains(d.Reason.Try, "has drained it") {
				t.Errorf("a drained card looks the same, and %q does not say so", d.Reason.Try)
			}
		})
	}
}

// A new card is not missing: the kernel lists it before the driver does.
func TestACardThatComes(t *testing.T) {
	b := newBox(t)
	if out := b.lacks(); len(out) != 0 {
		t.Fatalf("%+v", out)
	}
	b.card(gone, "nvidia")
	for range 3 {
		listed := []gpu.Device{{Identity: gpu.Identity{PCI: here}}}
		if out := b.kernel.Missing(b.now, b.kernel.Cards(), listed, nil); len(out) != 0 {
			t.Fatalf("it is missing already: %+v", out)
		}
		b.now = b.now.Add(900 * time.Millisecond)
	}
	unknown := []gpu.Device{{Identity: gpu.Identity{PCI: here}}, {}}
	if out := b.kernel.Missing(b.now.Add(time.Minute), b.kernel.Cards(), unknown, nil); len(out) != 0 {
		t.Errorf("a device without an address may be that card: %+v", out)
	}
}

// Invalid text from the driver reaches nobody.
func TestTexts(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA L40": "NVIDIA L40", "  NVIDIA\tL40 ": "NVIDIA L40", "\xf8\x95\xa0\x81\x12\x7f\xef\xbf": "", "NVIDIA\x00\x07 H100\xff": "NVIDIA H100",
		"\x01\x02\x03\x04A": "", "": "", "N/A": "", "n/a": "", "???": "", "\u202eevil": "evil", "GeForce RTX™ 4090": "GeForce RTX™ 4090",
		strings.Repeat("x", 1000): strings.Repeat("x", longestText),
	} {
		if got, ok := Text(in); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, ok, want)
		}
	}
	for in, want := range map[string]bool{
		"GPU-4e0a6b6c-5d1f-4c3a-9c0e-000000000001": true, "11112222-3333-4444-8555-666677778888": true, "MIG-GPU-1/2/3": true,
		"\xf8\x95 \x81": false, "GPU-4e0a\x016c": false, "GPU 1": false, "": false, "<b>": false, "GPU-1\"": false, "N/A": false,
	} {
		if got, ok := UUID(in); ok != want || ok && got != in {
			t.Errorf("%q: %q, %v", in, got, ok)
		}
	}
	for in, want := range map[string]string{
		"610.47 [Deprecated; use kmd_version]": "610.47", "550.54.15": "550.54.15", "540.4.0\n": "540.4.0", "580.126.09[x]": "580.126.09", "610.47, old": "610.47",
		"[N/A]": "", "\xf8\x12": "", "none": "",
	} {
		if got, ok := Version(in); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, ok, want)
		}
	}
}

func TestWhatIsAskedFor(t *testing.T) {
	for text, want := range map[string]string{
		"None": "true ", "Reset": "true needs_reset", "GPU Reset": "true needs_reset", "Reboot": "true needs_restart", "Drain P2P": "true needs_drain",
		"Drain and Reset": "true needs_drain_and_reset", "Bus Reset": "true needs_reset", "Recover IMEX Domain": "true needs_action",
		"[GPU requires reset]": "true needs_reset", "N/A": "false ", "[N/A]": "false ", "": "false ", "Requested functionality has been deprecated": "false ",
		"[Unknown Error]": "false ", "[Insufficient Permissions]": "false ", "Not Supported": "false ",
		"ERR!": "false ", "No": "false ", "Not Active": "false ", "Not Applicable": "false ", "No reset required": "false ", "-": "false ", "0": "false ", "Active": "false ",
		"Power Cycle": "true needs_action", "Replace GPU": "true needs_action",
	} {
		if kind, known := NeedsByWords(text); fmt.Sprint(known, " ", kind) != want {
			t.Errorf("%q: %v %q, want %s", text, known, kind, want)
		}
	}
	numbers := []gpu.FaultKind{
		"", gpu.FaultNeedsReset, gpu.FaultNeedsRestart, gpu.FaultNeedsDrain, gpu.FaultNeedsLaterReset, gpu.FaultNeedsAction, gpu.FaultNeedsReset,
		gpu.FaultNeedsRestart, gpu.FaultNeedsAction,
	}
	for n, want := range numbers {
		if got := NeedsByNumber(uint32(n)); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
