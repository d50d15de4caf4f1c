//go:build !race

package contract_test

import (
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// The library is installed where it could be loaded, also where the driver behind
// it does not answer; another source's library says nothing.
func TestPynvmlInstalled(t *testing.T) {
	for name, tt := range map[string]struct {
		s    *gpu.Snapshot
		want bool
	}{
		"no snapshot":              {nil, false},
		"nothing tried":            {&gpu.Snapshot{}, false},
		"the driver answers":       {&gpu.Snapshot{Drivers: []gpu.Driver{{Source: gpu.SourceNVML}}}, true},
		"nvidia-smi answers":       {&gpu.Snapshot{Drivers: []gpu.Driver{{Source: gpu.SourceNvidiaSMI}}}, false},
		"the library is not there": {failed(gpu.SourceNVML, gpu.ErrNoLibrary), false},
		"the driver fails":         {failed(gpu.SourceNVML, gpu.ErrNoDriver), true},
		"another library":          {failed(gpu.SourceAMD, gpu.ErrNoDriver), false},
	} {
		if got := contract.NewGPUInfo(contract.Monitor{}, fleetOf(tt.s)).PynvmlInstalled; got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func failed(source string, err error) *gpu.Snapshot {
	return &gpu.Snapshot{Failures: []gpu.Failure{{Source: source, Advice: gpu.Advice{What: "it fails", Err: err}}}}
}

// fleetOf is nil for a machine that was not read yet.
func fleetOf(s *gpu.Snapshot) *insight.Fleet {
	if s == nil {
		return nil
	}
	return alone(s)
}
