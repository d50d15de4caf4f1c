//go:build !windows

package nvidia

func neverPluggedIn() bool { return false }
