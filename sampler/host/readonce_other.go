//go:build !unix

package host

import (
	"os"
	"strings"
)

// readOnce reads a short file.
func readOnce(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}
