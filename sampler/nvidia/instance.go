package nvidia

import (
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Profile is how a MIG instance was cut, from its name: "1c.3g.40gb" of "NVIDIA H100 80GB HBM3
// MIG 1c.3g.40gb".
func Profile(name gpu.Reading[string]) gpu.Reading[string] {
	text, ok := name.Get()
	if !ok {
		return name
	}
	if _, profile, named := strings.Cut(text, " MIG "); named {
		return gpu.Of(profile)
	}
	return gpu.Reading[string]{}
}
