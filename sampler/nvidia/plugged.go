package nvidia

import (
	"slices"
	"strings"
)

// none reports whether a list of PCI devices as Windows names them, such as "VEN_10DE&DEV_2684&SUBSYS_…", has no
// NVIDIA device. An empty list says nothing.
func none(names []string) bool {
	nvidia := func(name string) bool { return strings.HasPrefix(strings.ToUpper(name), "VEN_10DE") }
	return len(names) > 0 && !slices.ContainsFunc(names, nvidia)
}
