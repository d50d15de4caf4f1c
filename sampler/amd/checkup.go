package amd

import (
	"context"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/checkup"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// Checks are what AMD GPUs need. read reads the source once.
func Checks(m *checkup.Machine, read func(ctx context.Context) (*gpu.Snapshot, error)) []checkup.Check {
	return drm.Family{Name: "AMD", Vendor: vendor, Drivers: []string{driver}}.Checks(m, read)
}
