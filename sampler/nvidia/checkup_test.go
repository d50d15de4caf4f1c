package nvidia

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

// made makes a machine of files: a path that ends in a slash is a folder, and a text that begins with > is a link.
func made(t *testing.T, files map[string]string) *checkup.Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(text, ">"); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"dev", "proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &checkup.Machine{
		Sysfs: filepath.Join(root, "sys"), Proc: filepath.Join(root, "proc"), Dev: filepath.Join(root, "dev"), User: "ann",
		Access: func(path string, _ bool) error {
			text, err := os.ReadFile(path)
			if err == nil && string(text) == "closed" {
				err = &fs.PathError{Op: "access", Path: path, Err: fs.ErrPermission}
			}
			return err
		},
		Group: func(string) (string, bool) { return "video", true },
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	const bus, version = "sys/bus/pci/devices/0000:01:00.0/", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\n"
	card := map[string]string{bus + "vendor": "0x10de\n", bus + "class": "0x030000\n"}
	with := func(more ...string) map[string]string {
		all := maps.Clone(card)
		for pair := range slices.Chunk(more, 2) {
			all[pair[0]] = pair[1]
		}
		return all
	}
	loaded := []string{"proc/driver/nvidia/version", version, bus + "driver", ">../../../../bus/pci/drivers/nvidia"}
	reads := func(s *gpu.Snapshot, err error) func(context.Context) (*gpu.Snapshot, error) {
		return func(context.Context) (*gpu.Snapshot, error) { return s, err }
	}
	one := &gpu.Snapshot{Devices: []gpu.Device{{State: gpu.StateOK}}}
	lost := &gpu.Snapshot{Devices: []gpu.Device{{State: gpu.StateOK}, {State: gpu.StateLost, Identity: gpu.Identity{PCI: "0000:01:00.0"}}}}
	mismatch := VersionMismatch
	for _, tt := range []struct {
		name      string
		files     map[string]string
		contained bool
		read      func(context.Context) (*gpu.Snapshot, error)
		verdicts  []checkup.Verdict // of the driver, the device files and the readings
		mend      string            // in one of them
	}{
		{"no card", nil, false, reads(nil, errors.New("no library")), []checkup.Verdict{checkup.NotApplicable, checkup.NotApplicable, checkup.NotApplicable}, ""},
		{"all is well", with(append(loaded, "dev/nvidiactl", "", "dev/nvidia0", "")...), false, reads(one, nil), []checkup.Verdict{checkup.Fine, checkup.Fine, checkup.Fine}, ""},
		{"no driver", card, false, reads(nil, &NotLoaded), []checkup.Verdict{checkup.NotFine, checkup.NotApplicable, checkup.NotFine}, "sudo modprobe nvidia"},
		{"nouveau", with(bus+"driver", ">../../../../bus/pci/drivers/nouveau"), false, reads(nil, &NotLoaded), []checkup.Verdict{checkup.NotFine, checkup.NotApplicable, checkup.NotFine}, "blacklist nouveau"},
		{"given away", with(bus+"driver", ">../../../../bus/pci/drivers/vfio-pci"), false, reads(nil, gpu.ErrNoCard), []checkup.Verdict{checkup.NotApplicable, checkup.NotApplicable, checkup.NotApplicable}, ""},
		{"not permitted", with(append(loaded, "dev/nvidiactl", "closed", "dev/nvidia0", "")...), false, reads(nil, &NotPermitted), []checkup.Verdict{checkup.Fine, checkup.NotFine, checkup.NotFine}, "sudo usermod -aG video ann"},
		{"no device files", with(loaded...), false, reads(nil, &NoDevices), []checkup.Verdict{checkup.Fine, checkup.NotFine, checkup.NotFine}, "sudo nvidia-modprobe -c 0 -u"},
		{"a container without GPUs", with(loaded...), true, reads(nil, &NoDevices), []checkup.Verdict{checkup.Fine, checkup.NotFine, checkup.NotFine}, "docker run --gpus all"},
		{"another version", with(append(loaded, "dev/nvidiactl", "", "dev/nvidia0", "")...), false, reads(nil, &mismatch), []checkup.Verdict{checkup.Fine, checkup.Fine, checkup.NotFine}, "sudo modprobe -r nvidia_uvm"},
		{"a lost one", with(append(loaded, "dev/nvidiactl", "", "dev/nvidia0", "")...), false, reads(lost, nil), []checkup.Verdict{checkup.Fine, checkup.Fine, checkup.NotFine}, "sudo dmesg"},
	} {
		m := made(t, tt.files)
		m.Container = tt.contained
		var mends string
		for i, c := range Checks(m, tt.read) {
			f := c.Do(t.Context())
			if f.Verdict != tt.verdicts[i] {
				t.Errorf("%s: %s: %+v, want %s", tt.name, c.Name, f, tt.verdicts[i])
			}
			if f.Verdict == checkup.NotFine && f.Mend == "" {
				t.Errorf("%s: nothing mends %+v", tt.name, f)
			}
			mends += f.Mend + "\n"
		}
		if !strings.Contains(mends, tt.mend) {
			t.Errorf("%s: %q is not in\n%s", tt.name, tt.mend, mends)
		}
	}
}
