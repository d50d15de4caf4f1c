//go:build !unix

package state

import "os"

// Bequeath does nothing: no service shares a folder with root here.
func Bequeath(string) error { return nil }

// BelongsToRoot reports nothing here: there is no such user.
func BelongsToRoot(string) bool { return false }

// MakeFolder makes a folder, with those above it, if it is not there yet.
func MakeFolder(dir string) error { return os.MkdirAll(dir, 0o700) }
