package nvidia

import "golang.org/x/sys/unix"

// mayOpen returns nil if this process may open a device node. Opening NVIDIA's nodes can start the card, so it calls access(2), which opens
// nothing. The kernel's answer covers the file mode and the device rules of the control group: the rules of a job or a unit can forbid
// cards whose nodes everybody sees.
func mayOpen(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }
