package nvidia

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// TestUnified checks that a missing memory reading alone does not make a system on a chip.
func TestUnified(t *testing.T) {
	none, unknown := gpu.Absent[gpu.Bytes](gpu.NotSupported), gpu.Reading[bool]{}
	slot := gpu.PCIe{Generation: gpu.Of(1), MaxGeneration: gpu.Of(4), Width: gpu.Of(16), MaxWidth: gpu.Of(16)}
	madeUp := gpu.PCIe{Generation: gpu.Of(1), MaxGeneration: gpu.Of(1), Width: gpu.Of(1), MaxWidth: gpu.Of(1)}
	type facts struct {
		name, pci string
		total     gpu.Reading[gpu.Bytes]
		link      gpu.PCIe
		more      func(*gpu.Readings)
		silent    bool // the device answers nothing
		want      gpu.Reading[bool]
	}
	for title, f := range map[string]facts{
		"DGX Spark":                                 {"NVIDIA GB10", "000f:01:00.0", none, madeUp, nil, false, gpu.Of(true)},
		"DGX Spark of a driver that says a size":    {"NVIDIA GB10", "000f:01:00.0", gpu.Of[gpu.Bytes](128 << 30), madeUp, nil, false, gpu.Of(true)},
		"Jetson Thor":                               {"NVIDIA Thor", "0000:01:00.0", none, gpu.PCIe{}, nil, false, gpu.Of(true)},
		"Jetson Orin, of which nothing is on offer": {"Orin (nvgpu)", "", none, gpu.PCIe{}, nil, true, gpu.Of(true)},
		"a chip to come, in no slot":                {"NVIDIA X", "0000:01:00.0", none, madeUp, nil, false, gpu.Of(true)},
		"a chip to come, on no bus":                 {"NVIDIA X", "", none, gpu.PCIe{}, nil, false, gpu.Of(true)},

		"a card":                       {"NVIDIA GeForce RTX 4090", "0000:01:00.0", gpu.Of[gpu.Bytes](24 << 30), slot, nil, false, gpu.Of(false)},
		"a card in a slot of one lane": {"NVIDIA GeForce GTX 1060 6GB", "0000:01:00.0", gpu.Of[gpu.Bytes](6 << 30), madeUp, nil, false, gpu.Of(false)},
		"an A100 in MIG mode":          {"NVIDIA A100-SXM4-80GB", "0000:07:00.0", none, slot, func(r *gpu.Readings) { r.Modes.MIG = gpu.Of(true) }, false, gpu.Of(false)},
		"an A100 in MIG mode, without rights": {"NVIDIA A100-SXM4-80GB", "0000:07:00.0", gpu.Absent[gpu.Bytes](gpu.NotPermitted), slot,
			func(r *gpu.Readings) { r.Modes.MIG = gpu.Of(true) }, false, gpu.Of(false)},
		"an H100 with MIG instances":             {"NVIDIA H100 80GB HBM3", "0000:07:00.0", none, slot, func(r *gpu.Readings) { r.Instances = make([]gpu.Instance, 2) }, false, gpu.Of(false)},
		"a virtual GPU":                          {"GRID A100D-20C", "0000:02:00.0", none, madeUp, func(r *gpu.Readings) { r.Modes.Virtualization = gpu.Of("vgpu") }, false, gpu.Of(false)},
		"a card with a window":                   {"NVIDIA GeForce RTX 4090", "0000:01:00.0", none, slot, func(r *gpu.Readings) { r.Memory.BAR1Total = gpu.Of[gpu.Bytes](256 << 20) }, false, gpu.Of(false)},
		"a card that says nothing of it":         {"NVIDIA L4", "0000:01:00.0", none, slot, nil, false, unknown},
		"a card that answers nothing":            {"NVIDIA GPU", "0000:01:00.0", none, madeUp, nil, true, unknown},
		"one that may not be asked":              {"NVIDIA L4", "0000:01:00.0", gpu.Absent[gpu.Bytes](gpu.NotPermitted), slot, nil, false, gpu.Absent[bool](gpu.NotPermitted)},
		"one whose reading fails":                {"NVIDIA L4", "0000:01:00.0", gpu.Reading[gpu.Bytes]{}, madeUp, nil, false, unknown},
		"a name that has such a word in another": {"NVIDIA Thorium 2", "0000:01:00.0", none, slot, nil, false, unknown},
	} {
		t.Run(title, func(t *testing.T) {
			var r gpu.Readings
			gpu.Withdraw(&r, gpu.NotSupported)
			r.Memory.Total, r.PCIe = f.total, f.link
			if !f.silent {
				r.Utilization.GPU = gpu.Of[gpu.Percent](3)
			}
			if f.more != nil {
				f.more(&r)
			}
			got := Unified(&gpu.Identity{Name: f.name, PCI: f.pci}, &r)
			if got != f.want {
				t.Errorf("unified is %v, want %v", got, f.want)
			}
			want := f.link
			if f.want.Or(false) {
				want = drm.NoSlot
			}
			if link := Link(r.PCIe, got); link != want {
				t.Errorf("the link is %+v, want %+v", link, want)
			}
		})
	}
}
