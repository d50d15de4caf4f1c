package testkit

import (
	"os"
	"syscall"
)

// WriteProgram makes a program of a text or an image, for everyone to run. No process is
// started meanwhile: it would hold the file open for writing until it runs its own
// program, and Linux does not start a file that is open for writing (ETXTBSY).
func WriteProgram(path string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, content, 0o755)
}

// CopyProgram is [WriteProgram] with the content of another program.
func CopyProgram(path, from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return WriteProgram(path, content)
}
