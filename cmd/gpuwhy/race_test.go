//go:build race

package main

func init() { buildFlags = append(buildFlags, "-race") } //nolint:gochecknoinits // a build tag decides
