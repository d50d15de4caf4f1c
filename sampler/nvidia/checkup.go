package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// Contained reports whether this is a container or a batch job, as far as its /proc shows.
func Contained(sysfs, proc string) bool { return proc != "" && NewKernel(sysfs, proc).contained() }

var driverVersion = lazy.Pattern(`\b\d+\.\d+(?:\.\d+)?\b`)

// Checks are what NVIDIA GPUs need: the driver, its device files, and a library or program that answers. read reads the source once.
func Checks(m *checkup.Machine, read func(ctx context.Context) (*gpu.Snapshot, error)) []checkup.Check {
	return []checkup.Check{
		{Name: "NVIDIA driver", Run: func(context.Context) checkup.Finding { return driverFinding(m) }},
		{Name: "NVIDIA device files", Run: func(context.Context) checkup.Finding { return nodesFinding(m) }},
		{Name: "NVIDIA readings", Run: func(ctx context.Context) checkup.Finding { return readingsFinding(ctx, m, read) }},
	}
}

// cards are the addresses of NVIDIA's GPUs on the bus, whoever drives them.
func cards(m *checkup.Machine) (all []drm.Display) {
	if m.Sysfs == "" {
		return nil
	}
	return drm.NewFinder(m.Sysfs, nil).Displays(vendor)
}

// loadedDriver returns the version of the loaded kernel driver; empty if its version is unknown.
func loadedDriver(proc string) (version string, loaded bool) {
	text, err := os.ReadFile(filepath.Join(proc, "driver/nvidia/version"))
	if err != nil {
		return "", false
	}
	return driverVersion().FindString(string(text)), true
}

func driverFinding(m *checkup.Machine) checkup.Finding {
	if m.Sysfs == "" {
		return checkup.None("this system has no kernel files to look at")
	}
	version, loaded := loadedDriver(m.Proc)
	all := cards(m)
	if held := Held(m.Sysfs); held != nil {
		if errors.Is(held, gpu.ErrNoCard) {
			return checkup.None(held.What)
		}
		return checkup.Bad(held.What, `echo "blacklist nouveau" | sudo tee /etc/modprobe.d/nouveau.conf && sudo update-initramfs -u, install NVIDIA's driver, and restart the machine`)
	}
	switch {
	case len(all) == 0 && !loaded:
		return checkup.None("no NVIDIA GPU is on the bus")
	case !loaded:
		return checkup.Bad(fmt.Sprintf("%s on the bus, and NVIDIA's kernel driver is not loaded", gpus(len(all))), "sudo modprobe nvidia (if there is no such module, install the driver: sudo apt install nvidia-driver, or sudo dnf install nvidia-driver)")
	case version == "":
		return checkup.Good("loaded")
	}
	return checkup.Good("version " + version + " is loaded")
}

func gpus(n int) string {
	if n == 1 {
		return "1 NVIDIA GPU is"
	}
	return fmt.Sprintf("%d NVIDIA GPUs are", n)
}

var deviceNode = regexp.MustCompile(`^nvidia[0-9]+$`)

func nodesFinding(m *checkup.Machine) checkup.Finding {
	if _, loaded := loadedDriver(m.Proc); m.Dev == "" || !loaded {
		return checkup.None("no NVIDIA driver is loaded")
	}
	entries, err := os.ReadDir(m.Dev)
	if err != nil {
		return checkup.Bad(err.Error(), "")
	}
	nodes := []string{"nvidiactl"}
	for _, e := range entries {
		if deviceNode.MatchString(e.Name()) {
			nodes = append(nodes, e.Name())
		}
	}
	for _, node := range nodes {
		f, ok := m.Node(filepath.Join(m.Dev, node), true)
		switch {
		case ok:
		case f.Mend != "":
			return f
		case m.Container:
			return checkup.Bad(f.What+" in this container", "start the container with its GPUs: docker run --gpus all …, or with Kubernetes runtimeClassName: nvidia")
		default:
			return checkup.Bad(f.What, "sudo nvidia-modprobe -c 0 -u")
		}
	}
	if len(nodes) == 1 {
		mend := "sudo nvidia-modprobe -c 0 -u"
		if m.Container {
			mend = "start the container with its GPUs: docker run --gpus all …"
		}
		return checkup.Bad("there is no "+filepath.Join(m.Dev, "nvidia0"), mend)
	}
	return checkup.Good(fmt.Sprintf("%d may be opened", len(nodes)))
}

func readingsFinding(ctx context.Context, m *checkup.Machine, read func(ctx context.Context) (*gpu.Snapshot, error)) checkup.Finding {
	_, loaded := loadedDriver(m.Proc)
	snapshot, err := read(ctx)
	switch {
	case err != nil && (errors.Is(err, gpu.ErrNoCard) || m.Sysfs != "" && !loaded && len(cards(m)) == 0):
		return checkup.None("there is no NVIDIA GPU to read")
	case err != nil:
		advice := gpu.AsAdvice(err)
		return checkup.Bad(advice.What, command(err, advice.Try))
	}
	return Readings(snapshot)
}

// command returns what mends an error of the driver: one command, where one does.
func command(err error, try string) string {
	switch {
	case errors.Is(err, gpu.ErrNoLibrary):
		return try + "; NVIDIA's library and program come with the driver: sudo apt install libnvidia-ml1 nvidia-smi, or sudo dnf install nvidia-driver-cuda-libs nvidia-driver-cuda"
	case strings.Contains(gpu.AsAdvice(err).What, VersionMismatch.What):
		return "sudo reboot, or: sudo systemctl isolate multi-user.target && sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia"
	}
	return try
}

// Readings says how many devices a source reads, and what it notes about them.
func Readings(s *gpu.Snapshot) checkup.Finding {
	var wrong []string
	for i := range s.Devices {
		if d := &s.Devices[i]; d.State != gpu.StateOK && d.State != gpu.StateAsleep {
			wrong = append(wrong, fmt.Sprintf("GPU %s is %s", d.PCI, strings.ReplaceAll(string(d.State), "_", " ")))
		}
	}
	slices.Sort(wrong)
	switch {
	case len(s.Devices) == 0:
		return checkup.None("no GPU answers here")
	case len(wrong) > 0:
		return checkup.Bad(strings.Join(wrong, ", "), "look for messages of the driver: sudo dmesg | grep -iE 'xid|nvrm|amdgpu|i915|xe '")
	case len(s.Notes) > 0:
		return checkup.Less(fmt.Sprintf("%d can be read, but %s", len(s.Devices), s.Notes[0].What), s.Notes[0].Try)
	}
	return checkup.Good(fmt.Sprintf("%d can be read", len(s.Devices)))
}
