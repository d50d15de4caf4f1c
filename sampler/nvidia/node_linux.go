package nvidia

import "golang.org/x/sys/unix"

// mayOpen reports whether this process may open a device node. Opening NVIDIA's nodes can start the card, so it asks with
// access(2), which opens nothing. The kernel answers it by the file's mode and by the device rules of the control group
// alike: those of a job or a unit forbid cards whose nodes are there for all to see.
func mayOpen(path string) error { return unix.Access(path, unix.R_OK|unix.W_OK) }
