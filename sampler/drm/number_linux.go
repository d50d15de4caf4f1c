package drm

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceNumber is the number of a character device of the DRM.
func deviceNumber(file string) (major, minor uint32, ok bool) {
	var s syscall.Stat_t
	if err := syscall.Stat(file, &s); err != nil || s.Mode&syscall.S_IFMT != syscall.S_IFCHR {
		return 0, 0, false
	}
	const drm = 226
	major, minor = unix.Major(s.Rdev), unix.Minor(s.Rdev)
	return major, minor, major == drm
}
