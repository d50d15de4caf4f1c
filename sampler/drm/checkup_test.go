package drm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
)

func TestChecksOfAFamily(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	device := filepath.Join(root, "sys/devices/pci0000:00/0000:03:00.0")
	for _, dir := range []string{device + "/drm/card0", device + "/drm/renderD128", root + "/sys/class/drm", root + "/sys/bus/pci/devices", root + "/sys/bus/pci/drivers/xe"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"vendor": "0x8086\n", "class": "0x030000\n"} {
		if err := os.WriteFile(filepath.Join(device, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	link(device, root+"/sys/bus/pci/devices/0000:03:00.0")
	link(device+"/drm/card0", root+"/sys/class/drm/card0")
	link(device, device+"/drm/card0/device")
	may := true
	m := &checkup.Machine{Sysfs: root + "/sys", Dev: "/dev", User: "ann", Group: func(string) (string, bool) { return "render", true }, Access: func(path string, _ bool) error {
		if !may {
			return &fs.PathError{Op: "access", Path: path, Err: fs.ErrPermission}
		}
		return nil
	}}
	snapshot, failed := &gpu.Snapshot{Devices: make([]gpu.Device, 1)}, error(nil)
	read := func(context.Context) (*gpu.Snapshot, error) { return snapshot, failed }
	intel := Family{Name: "Intel", Vendor: 0x8086, Drivers: []string{"i915", "xe"}, Asks: true}
	expect := func(name string, family Family, want [3]checkup.Verdict, mend string) {
		t.Helper()
		mends := ""
		for i, c := range family.Checks(m, read) {
			f := c.Do(t.Context())
			if f.Verdict != want[i] {
				t.Errorf("%s: %s: %+v, want %s", name, c.Name, f, want[i])
			}
			mends += f.Mend
		}
		if !strings.Contains(mends, mend) {
			t.Errorf("%s: %q, want %q", name, mends, mend)
		}
	}
	const fine, less, bad, none = checkup.Fine, checkup.Limited, checkup.NotFine, checkup.NotApplicable
	expect("another vendor", Family{Name: "AMD", Vendor: 0x1002, Drivers: []string{"amdgpu"}}, [3]checkup.Verdict{none, none, none}, "")
	expect("no driver", intel, [3]checkup.Verdict{bad, fine, fine}, "sudo modprobe i915")
	link("../../../bus/pci/drivers/xe", device+"/driver")
	expect("all is well", intel, [3]checkup.Verdict{fine, fine, fine}, "")
	may = false
	expect("not permitted", intel, [3]checkup.Verdict{fine, less, fine}, "sudo usermod -aG render ann")
	may, failed = true, errors.New("broken")
	expect("broken", intel, [3]checkup.Verdict{fine, fine, bad}, "")
	failed, snapshot.Notes = nil, []gpu.Advice{{What: "others are hidden", Try: "add CAP_SYS_PTRACE"}}
	expect("with a note", intel, [3]checkup.Verdict{fine, fine, less}, "CAP_SYS_PTRACE")
}
