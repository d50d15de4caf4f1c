// Package captures has captures of many kinds of machines, for tests. docs/captures.md describes
// their contents, and each capture.yaml its origin. The package is not in the product.
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
