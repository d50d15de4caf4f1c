package nvidia

import "golang.org/x/sys/windows/registry"

// neverPluggedIn reports whether Windows certainly has no NVIDIA device on PCI. It lists all
// that it has ever found there.
func neverPluggedIn() bool {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Enum\PCI`, registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return false
	}
	defer key.Close()
	names, err := key.ReadSubKeyNames(0)
	return err == nil && none(names)
}
