package nvidia_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// A device whose memory the driver does not tell is part of a processor only where something else says so, too.
func TestUnified(t *testing.T) {
	no := gpu.Absent[int](gpu.NotSupported)
	card := gpu.PCIe{MaxWidth: gpu.Of(16), MaxGeneration: gpu.Of(4)}
	for name, tt := range map[string]struct {
		product string
		r       gpu.Readings
		want    gpu.Reading[bool]
	}{
		"Orin by name":              {"Orin (nvgpu)", gpu.Readings{}, gpu.Of(true)},
		"Thor, which has MIG":       {"NVIDIA Thor", gpu.Readings{Modes: gpu.Modes{MIG: gpu.Of(false)}}, gpu.Of(true)},
		"GB10":                      {"NVIDIA GB10", gpu.Readings{}, gpu.Of(true)},
		"a chip without a slot":     {"NVIDIA Something New", gpu.Readings{PCIe: gpu.PCIe{MaxWidth: no}}, gpu.Of(true)},
		"one lane of the first PCI": {"NVIDIA Something New", gpu.Readings{PCIe: gpu.PCIe{MaxWidth: gpu.Of(1), MaxGeneration: gpu.Of(1)}}, gpu.Of(true)},
		"A100 in MIG mode":          {"NVIDIA A100-SXM4-40GB", gpu.Readings{PCIe: card, Modes: gpu.Modes{MIG: gpu.Of(true)}}, gpu.Reading[bool]{}},
		"H100 in MIG mode, no link": {"NVIDIA H100 PCIe", gpu.Readings{PCIe: gpu.PCIe{MaxWidth: no}, Modes: gpu.Modes{MIG: gpu.Of(true)}}, gpu.Reading[bool]{}},
		"part of a card in a guest": {"GRID T4-8Q", gpu.Readings{PCIe: gpu.PCIe{MaxWidth: no}, Modes: gpu.Modes{Virtualization: gpu.Of("vgpu")}}, gpu.Reading[bool]{}},
		"a card with fans":          {"NVIDIA GeForce RTX 4090", gpu.Readings{PCIe: gpu.PCIe{MaxWidth: no}, Fans: gpu.Fans{Count: gpu.Of(2)}}, gpu.Reading[bool]{}},
	} {
		if got := nvidia.Unified(tt.product, &tt.r); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
