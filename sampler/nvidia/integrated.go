package nvidia

import (
	"slices"
	"strings"
	"unicode"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// chips are NVIDIA's systems on a chip, by a word of the GPU's name: "NVIDIA GB10", "Orin
// (nvgpu)", "NVIDIA Thor".
var chips = []string{"gb10", "n1x", "thor", "orin", "xavier", "tegra", "jetson", "nvgpu"}

// Unified reports whether a device works in the machine's memory and has none of its own. That
// the driver does not offer its memory is not enough: nor does it always of a card that is divided
// into MIG instances or into virtual GPUs. It takes another sign that it is part of a system on a
// chip: its name, that it is on no bus, or a link that can be no better than one lane of the first
// generation, which is what the driver says where there is none. A device that answers nothing is
// not known by those.
//
// All other readings of the device must be there. NotReported where nothing is known, or why the
// memory is absent.
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

// least reports whether a link can be no better than one lane of the first generation.
func least(p *gpu.PCIe) bool {
	best := func(now, most gpu.Reading[int]) int { return max(now.Or(0), most.Or(0)) }
	return best(p.Generation, p.MaxGeneration) == 1 && best(p.Width, p.MaxWidth) == 1
}

// Link is the device's link as the driver says it, or that it has none: a GPU in a system on a
// chip is in no slot.
func Link(said gpu.PCIe, unified gpu.Reading[bool]) gpu.PCIe {
	if unified.Or(false) {
		return drm.NoSlot
	}
	return said
}

// chip reports whether a name is of a system on a chip. It is asked at each reading.
func chip(name string) bool {
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if slices.ContainsFunc(chips, func(c string) bool { return strings.EqualFold(word, c) }) {
			return true
		}
	}
	return false
}
