//go:build !unix

package state

// running does not know: a lock ends with the process that has it.
func running(int) bool { return true }
