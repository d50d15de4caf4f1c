//go:build !unix

package state

// running can't tell: a lock ends with the process that has it.
func running(int) bool { return true }
