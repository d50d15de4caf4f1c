package intel

import (
	"context"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// Checks are what Intel GPUs need: also their render nodes, since the drivers tell how much memory a card has only to programs that may
// open one. read reads the source once.
func Checks(m *checkup.Machine, read func(ctx context.Context) (*gpu.Snapshot, error)) []checkup.Check {
	return drm.Family{Name: "Intel", Vendor: vendorID, Drivers: []string{"i915", "xe"}, Asks: true}.Checks(m, read)
}
