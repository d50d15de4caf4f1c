package drm

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceNumber returns the number of a DRM character device.
func deviceNumber(file string) (major, minor uint32, ok bool) {
	var s syscall.Stat_t
	if err := syscall.Stat(file, &s); err != nil || s.Mode&syscall.S_IFMT != syscall.S_IFCHR {
		return 0, 0, false
	}
	const drm = 226
	major, minor = unix.Major(s.Rdev), unix.Minor(s.Rdev)
	return major, minor, major == drm
}
