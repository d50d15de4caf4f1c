package intel

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

func TestProductNames(t *testing.T) {
	for id, want := range map[uint32]struct {
		name, architecture string
		integrated         bool
	}{
		0xe223: {"Intel Arc Pro B70", "Xe2", false},
		0xe222: {"Intel Arc Pro B65", "Xe2", false},
		0xe211: {"Intel Arc Pro B60", "Xe2", false},
		0xe20b: {"Intel Arc B580", "Xe2", false},
		0x56c2: {"Intel Data Center GPU Flex 170V", "Xe-HPG", false},
		0xb080: {"Intel Arc B390", "Xe3", true},
		0x64a0: {"Intel Arc Graphics 130V/140V", "Xe2", true},
	} {
		c := drm.Card{Address: "0000:03:00.0", Vendor: vendorID, Product: id}
		if got := productName(&c); got != want.name || architecture(id) != gpu.Of(want.architecture) {
			t.Errorf("%04x is %q, %v; want %q, %s", id, got, architecture(id), want.name, want.architecture)
		}
		if integrated(id, c.Address) != want.integrated {
			t.Errorf("%04x is integrated: %v", id, !want.integrated)
		}
	}
}
