//go:build !linux || !cgo

package nvml

import (
	"context"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A Source can't read NVIDIA GPUs in this build, and says so.
type Source struct{}

// New returns a source that can't read, since this build has no NVML.
func New(Config) *Source { return &Source{} }

// Name is the source's name on the wire.
func (*Source) Name() string { return gpu.SourceNVML }

// Read returns an error that says what is missing.
func (*Source) Read(context.Context) (*gpu.Snapshot, error) {
	return nil, &gpu.Advice{
		What: "this build of gpuwhy can't read NVML: it was made for another system than Linux, or without cgo",
		Try:  "use a Linux build made with CGO_ENABLED=1, or read nvidia-smi instead",
		Err:  gpu.ErrNoLibrary,
	}
}

// Close does nothing.
func (*Source) Close() error { return nil }
