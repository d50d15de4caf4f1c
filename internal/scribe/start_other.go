//go:build !linux

package scribe

import "log/slog"

// Asked reports whether the arguments of a program are those with which [Start] starts it.
func Asked([]string) bool { return false }

// Serve is what such a program does.
func Serve([]string) int { return 2 }

// Start returns the scribe of [Here]: only Linux has one in a process of its own.
func Start(dir string, log *slog.Logger) Scribe { return Here(dir, log) }
