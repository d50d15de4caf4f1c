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
		"the library is not there": {&gpu.Snapshot{Failures: []gpu.Failure{{Source: gpu.SourceNVML}}}, false},
		"the driver fails":         {&gpu.Snapshot{Failures: []gpu.Failure{{Source: gpu.SourceNVML, LibraryLoaded: true}}}, true},
		"another library":          {&gpu.Snapshot{Failures: []gpu.Failure{{Source: gpu.SourceAMD, LibraryLoaded: true}}}, false},
	} {
		if got := contract.NewGPUInfo(contract.Monitor{}, fleetOf(tt.s)).PynvmlInstalled; got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// fleetOf is nil for a machine that was not read yet.
func fleetOf(s *gpu.Snapshot) *insight.Fleet {
	if s == nil {
		return nil
	}
	return alone(s)
}
