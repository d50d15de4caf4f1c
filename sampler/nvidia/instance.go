package nvidia

import (
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Profile returns the profile of a MIG instance from its name: "1c.3g.40gb" from "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb".
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
