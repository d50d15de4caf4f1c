package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the build of a release (-ldflags -X main.version=…).
var version string

func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	fromModule := info.Main.Version
	if fromModule == "(devel)" {
		fromModule = ""
	}
	return cmp.Or(version, fromModule, "devel")
}

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(env *environment) error {
	_, err := fmt.Fprintf(env.stdout, "gpuwhy %s (%s, %s/%s)\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
