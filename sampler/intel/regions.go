package intel

import (
	"encoding/binary"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
)

// Both drivers describe their memory regions in the same form: the number of regions in 32 bits, other bytes, then regions of 88 bytes.
// Each begins with its class in 16 bits, and has its size in 64 bits at offset 8.
const (
	i915Regions = 16 // bytes before the first region
	xeRegions   = 8

	regionBytes = 88
	classLocal  = 1 // the card's own memory
	mostRegions = 64
)

// localMemory returns the total size of the card's own memory regions. NotSupported if there are none, as on integrated GPUs; NotReported
// if the answer makes no sense.
func localMemory(answer []byte, before int) gpu.Reading[gpu.Bytes] {
	if len(answer) < before || len(answer) < 4 {
		return gpu.Reading[gpu.Bytes]{}
	}
	count := binary.NativeEndian.Uint32(answer)
	if count > mostRegions || len(answer)-before < int(count)*regionBytes {
		return gpu.Reading[gpu.Bytes]{}
	}
	sum, found := 0.0, false
	for i := range int(count) {
		region := answer[before+i*regionBytes:]
		if binary.NativeEndian.Uint16(region) == classLocal {
			found = true
			sum += float64(binary.NativeEndian.Uint64(region[8:]))
		}
	}
	switch {
	case !found:
		return gpu.Absent[gpu.Bytes](gpu.NotSupported)
	case sum == 0:
		return gpu.Reading[gpu.Bytes]{}
	default:
		return drm.Of(sum, nil, 1, 0, drm.MostMemory)
	}
}
