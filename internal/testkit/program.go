package testkit

import (
	"os"
	"syscall"
)

// WriteProgram writes a program, a script or an image, that everyone may run. It starts no
// process meanwhile, since that would hold the file open for writing until it runs its own
// program, and Linux does not start a file that is open for writing (ETXTBSY).
func WriteProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, 0o755)
}

// CopyProgram is like [WriteProgram], with the content of another program.
func CopyProgram(path, original string) error {
	content, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	return WriteProgram(path, content)
}
