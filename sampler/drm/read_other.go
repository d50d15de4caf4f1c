//go:build !unix

package drm

import "os"

// ReadFile reads a small file, at most 64 KiB.
func ReadFile(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	return text[:min(len(text), mostFile-1)], err
}
