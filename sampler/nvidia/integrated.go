package nvidia

import (
	"slices"
	"strings"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// chips are words in the GPU names of NVIDIA's systems on a chip: "NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor".
var chips = []string{"gb10", "n1x", "thor", "orin", "xavier", "tegra", "jetson", "nvgpu"}

// Unified reports whether a device has no memory of its own and works in the machine's memory. A missing memory reading is not enough: the
// driver may also omit it for a card divided into MIG instances or virtual GPUs. Another sign of a system on a chip is needed: the name,
// the absence of a bus, or a PCIe link of at most one lane of generation 1, which the driver reports if there is no link. The last two
// signs don't count for a device that answers nothing.
//
// All other readings of the device must be filled in already. The result is NotReported if nothing is known, or has the quality of the
// absent memory reading.
func Unified(id *gpu.Identity, r *gpu.Readings) gpu.Reading[bool] {
	answers := r.Utilization.GPU.Present() || r.Thermal.GPU.Present() || r.Power.Draw.Present()
	virtual := strings.Contains(r.Modes.Virtualization.Or(""), "vgpu")
	switch total := r.Memory.Total; {
	case chip(id.Name):
		return gpu.Of(true)
	case total.Present(), r.Modes.MIG.Or(false), len(r.Instances) > 0, virtual, r.Memory.BAR1Total.Or(0) > 0:
		return gpu.Of(false)
	case total.Quality() != gpu.NotSupported:
		return gpu.Absent[bool](total.Quality())
	case answers && (id.PCI == "" || least(&r.PCIe)):
		return gpu.Of(true)
	default:
		return gpu.Reading[bool]{}
	}
}

// least reports whether one lane of generation 1 is the best that a link can do.
func least(p *gpu.PCIe) bool {
	best := func(now, most gpu.Reading[int]) int { return max(now.Or(0), most.Or(0)) }
	return best(p.Generation, p.MaxGeneration) == 1 && best(p.Width, p.MaxWidth) == 1
}

// Link returns the device's link as the driver reports it, or that there is none: a GPU in a system on a chip is in no slot.
func Link(said gpu.PCIe, unified gpu.Reading[bool]) gpu.PCIe {
	if unified.Or(false) {
		return drm.NoSlot
	}
	return said
}

// chip reports whether a name belongs to a system on a chip. It is called at each reading.
func chip(name string) bool {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if slices.ContainsFunc(chips, func(c string) bool { return strings.EqualFold(word, c) }) {
			return true
		}
	}
	return false
}
