package nvidia

import (
	"regexp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// integrated finds the chips that NVIDIA makes with a processor: Tegra (Jetson, Drive) and Grace Blackwell's small one.
var integrated = regexp.MustCompile(`(?i)\b(nvgpu|tegra\w*|jetson\w*|orin\w*|thor\w*|xavier\w*|GB1[01]|N1X?)\b`)

// Unified reports whether a device that works, and of which the driver does not say how much memory it has, uses the machine's.
// That alone shows nothing: in MIG mode, in a virtual machine and without the right to ask, cards say none, too. It is so if the
// product's name says so, or if it has no slot either; not known where it may be both.
func Unified(name string, r *gpu.Readings) gpu.Reading[bool] {
	part := r.Modes.MIG.Or(false) || r.Modes.MIGPending.Or(false) || len(r.Instances) > 0
	switch r.Modes.Virtualization.Or("none") {
	case "none", "passthrough":
	default:
		part = true
	}
	lanes, inSlot := r.PCIe.MaxWidth.Get()
	switch {
	case integrated.MatchString(name):
		return gpu.Of(true)
	case part, inSlot && lanes > 1, r.Fans.Count.Or(0) > 0, r.Memory.BAR1Total.Present(), r.Modes.MIG.Present():
		return gpu.Reading[bool]{}
	case r.PCIe.MaxWidth.Quality() == gpu.NotSupported, inSlot && lanes <= 1 && r.PCIe.MaxGeneration.Or(1) <= 1:
		return gpu.Of(true)
	default:
		return gpu.Reading[bool]{}
	}
}
