package nvidia

import "golang.org/x/sys/windows/registry"

// neverPluggedIn reports whether Windows has certainly never had an NVIDIA device on PCI. Windows lists every device it has ever found
// there.
func neverPluggedIn() bool {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Enum\PCI`, registry.ENUMERATE_SUB_KEYS)
	if err != nil {
		return false
	}
	defer key.Close()
	names, err := key.ReadSubKeyNames(0)
	return err == nil && none(names)
}
