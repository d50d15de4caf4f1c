//go:build !unix

package checkup

import "os"

// Access reports whether a file exists: this system decides about access only when a file is opened.
func Access(path string, _ bool) error {
	_, err := os.Stat(path)
	return err
}

// GroupOf returns nothing: this system's files have no group.
func GroupOf(string) (name string, ok bool) { return "", false }
