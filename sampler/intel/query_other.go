//go:build !linux

package intel

import "github.com/gpuwhy/gpuwhy/gpu"

func askMemory(string, string, []string) gpu.Reading[gpu.Bytes] {
	return gpu.Absent[gpu.Bytes](gpu.NotSupported)
}
