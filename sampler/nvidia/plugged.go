package nvidia

import (
	"slices"
	"strings"
)

// none reports whether a list of PCI devices, named as Windows does ("VEN_10DE&DEV_2684&SUBSYS_…"), contains no NVIDIA device. It is false
// for an empty list.
func none(names []string) bool {
	nvidia := func(name string) bool { return strings.HasPrefix(strings.ToUpper(name), "VEN_10DE") }
	return len(names) > 0 && !slices.ContainsFunc(names, nvidia)
}
