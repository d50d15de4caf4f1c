// Package captures has a capture of each of many kinds of machines, for tests: those of the
// sources, and one that plays each of them. See docs/captures.md for what lies in them, and
// the capture.yaml of each for where it is from. It is not in the product.
package captures

import "embed"

// Files are the captures, by the names of their folders.
//
//go:embed */capture.yaml */raw
var Files embed.FS

// Names returns the names of all captures.
func Names() (names []string) {
	entries, err := Files.ReadDir(".")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
