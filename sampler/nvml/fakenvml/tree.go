package fakenvml

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// tree is the machine as the kernel shows it without the driver: the parts of /sys and
// /proc about the power of PCI devices.
type tree struct{ sysfs, proc string }

func (t *tree) create(tb testing.TB, gpus []*Device) {
	t.sysfs, t.proc = tb.TempDir(), tb.TempDir()
	driver := filepath.Join(t.sysfs, "bus/pci/drivers/nvidia")
	check := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	check(os.MkdirAll(driver, 0o755))
	check(os.MkdirAll(filepath.Join(t.sysfs, "bus/pci/devices"), 0o755))
	for _, d := range gpus {
		dir := t.device(d.facts[PCI])
		check(cmp.Or(
			os.MkdirAll(filepath.Join(dir, "power"), 0o755),
			os.WriteFile(filepath.Join(dir, "vendor"), []byte("0x10de\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "device"), []byte("0x2684\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "class"), []byte("0x030000\n"), 0o644),
			os.Symlink(driver, filepath.Join(dir, "driver")),
			os.Symlink(dir, filepath.Join(driver, d.facts[PCI])),
			t.power(d.facts[PCI], "runtime_status", "active"),
			t.power(d.facts[PCI], "control", "on"),
			os.MkdirAll(filepath.Join(t.proc, "driver/nvidia/gpus", d.facts[PCI]), 0o755),
		))
	}
}

func (t *tree) device(address string) string {
	return filepath.Join(t.sysfs, "bus/pci/devices", address)
}

// power writes a file about the power of a device.
func (t *tree) power(address, file, value string) error {
	return replace(filepath.Join(t.device(address), "power", file), value+"\n")
}
