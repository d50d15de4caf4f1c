//go:build !linux

package drm

// deviceNumber: other systems have none that Linux would know.
func deviceNumber(string) (major, minor uint32, ok bool) { return 0, 0, false }
