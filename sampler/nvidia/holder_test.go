package nvidia

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// plug adds an NVIDIA card to a machine; an empty driver means none.
func plug(t *testing.T, sysfs, address, driver string) {
	t.Helper()
	device := filepath.Join(sysfs, "bus/pci/devices", address)
	target := filepath.Join(sysfs, "bus/pci/drivers", driver)
	err := errors.Join(os.MkdirAll(device, 0o755), os.MkdirAll(target, 0o755),
		os.WriteFile(filepath.Join(device, "vendor"), []byte("0x10de\n"), 0o600), os.WriteFile(filepath.Join(device, "class"), []byte("0x030000\n"), 0o600))
	if err == nil && driver != "" {
		err = os.Symlink(target, filepath.Join(device, "driver"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnotherDriverHasTheCard checks that the other driver is named, whichever it is, with advice.
func TestAnotherDriverHasTheCard(t *testing.T) {
	noDriver := &gpu.Advice{What: "the driver is not loaded", Try: "load it", Err: gpu.ErrNoDriver}
	for name, tt := range map[string]struct {
		drivers []string
		what    string // replaces the error; empty: the error stays
		is, not error
	}{
		"nouveau":                     {[]string{"nouveau"}, "the driver nouveau has the NVIDIA GPU at 0000:01:00.0, and", gpu.ErrNoDriver, gpu.ErrNoCard},
		"the driver to come":          {[]string{"NovaCore"}, "the driver NovaCore has the NVIDIA GPU at 0000:01:00.0, and", gpu.ErrNoDriver, gpu.ErrNoCard},
		"two cards":                   {[]string{"nouveau", "nouveau"}, "at 0000:01:00.0, 0000:02:00.0, and", gpu.ErrNoDriver, gpu.ErrNoCard},
		"given to a virtual machine":  {[]string{"vfio-pci"}, "the driver vfio-pci has the NVIDIA GPU at 0000:01:00.0 and reserves it", gpu.ErrNoCard, nil},
		"given in a Grace machine":    {[]string{"nvgrace-gpu-vfio-pci"}, "reserves it for a virtual machine", gpu.ErrNoCard, nil},
		"one given, one with nouveau": {[]string{"vfio-pci", "nouveau"}, "the driver nouveau has the NVIDIA GPU at 0000:02:00.0, and", gpu.ErrNoDriver, gpu.ErrNoCard},
		"NVIDIA's":                    {[]string{"nvidia"}, "", gpu.ErrNoDriver, gpu.ErrNoCard},
		"NVIDIA's has one":            {[]string{"nouveau", "nvidia"}, "", gpu.ErrNoDriver, gpu.ErrNoCard},
		"none":                        {[]string{""}, "", gpu.ErrNoDriver, gpu.ErrNoCard},
	} {
		t.Run(name, func(t *testing.T) {
			sysfs := t.TempDir()
			for i, driver := range tt.drivers {
				plug(t, sysfs, []string{"0000:01:00.0", "0000:02:00.0"}[i], driver)
			}
			for _, e := range []*Either{
				{Library: &way{err: noDriver}, SysfsRoot: sysfs},
				{Library: &way{err: missing}, Program: func() Source { return &way{err: noDriver} }, SysfsRoot: sysfs},
			} {
				_, err := e.Read(t.Context())
				a := gpu.AsAdvice(err)
				want := tt.what
				if want == "" {
					want = noDriver.What
				}
				if !strings.Contains(a.What, want) || a.Try == "" || !errors.Is(err, tt.is) || tt.not != nil && errors.Is(err, tt.not) {
					t.Errorf("%q, try %q, is %v; want %q, %v", a.What, a.Try, err, want, tt.is)
				}
				if !errors.Is(err, gpu.ErrNoDriver) {
					t.Errorf("%v has lost its cause", err)
				}
			}
		})
	}
	if Held("") != nil || Held(t.TempDir()) != nil {
		t.Error("a machine without a list of PCI devices has a card")
	}
}
