//go:build !linux || !cgo

package nvml

import (
	"context"
	"runtime"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Built reports whether this build can load the library.
const Built = false

// A Source can't read NVIDIA GPUs in this build, and says so.
type Source struct{}

// New returns a source that can't read, since this build has no NVML.
func New(Config) *Source { return &Source{} }

// Name is the source's name on the wire.
func (*Source) Name() string { return gpu.SourceNVML }

// Read returns an error that says what is missing.
func (*Source) Read(context.Context) (*gpu.Snapshot, error) {
	if runtime.GOOS != "linux" {
		return nil, &gpu.Advice{
			What: "gpuwhy reads NVIDIA's library only on Linux",
			Try:  "use nvidia-smi instead (--source=nvidia-smi)",
			Err:  gpu.ErrNoLibrary,
		}
	}
	return nil, &gpu.Advice{
		What: "this build of gpuwhy can't read NVIDIA's library: it was built without cgo",
		Try:  "use a build made with CGO_ENABLED=1",
		Err:  gpu.ErrNoLibrary,
	}
}

// Close does nothing.
func (*Source) Close() error { return nil }
