package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/alerts/rulefile"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/serve"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
)

type checkConfigCommand struct {
	Schema bool `name:"schema" help:"Print the JSON schema of the alert rules file instead."`
	serveFlags
}

// Run checks whether 'gpuwhy serve' would start.
func (c checkConfigCommand) Run(env *environment) error {
	if c.Schema {
		_, err := env.stdout.Write(rulefile.Schema)
		return err
	}
	file, err := c.rules()
	if err != nil {
		return usageError{err}
	}
	notes, err := env.checkServe(&c.serveFlags)
	if err != nil {
		return err
	}
	for _, note := range append(notes, unknownVariables(os.Environ(), append(variablesOf(file), c.secretVariables()...))...) {
		tell(env.stderr, errors.New(note))
	}
	enabled := 0
	for i := range file.Rules {
		if file.Rules[i].Enabled {
			enabled++
		}
	}
	_, err = fmt.Fprintf(env.stdout, "The configuration is valid: %d alert rules, %d of them enabled; targets for messages: %d.\n",
		len(file.Rules), enabled, len(file.Notify.Targets))
	return err
}

// ownURL returns where programs on this machine reach a gpuwhy that listens on an address.
func ownURL(listen, basePath string) string {
	if _, unix := serve.UnixSocket(listen); unix {
		if basePath == "/" {
			return listen
		}
		return listen + ":" + basePath
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen + basePath
	}
	if addr, err := netip.ParseAddr(host); host == "" || (err == nil && addr.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + basePath
}

type versionCommand struct {
	JSON bool `name:"json" help:"Print it for programs."`
}

func (versionCommand) check() error { return nil }

// Run prints the version, where it was built from, and what this build can read.
func (c versionCommand) Run(env *environment) error {
	build, what := release.ThisBuild(), reads(runtime.GOOS, nvml.Built)
	if c.JSON {
		answer := versionAnswer{release.Version, build.Commit, nil, build.Modified, runtime.Version(), runtime.GOOS, runtime.GOARCH, what}
		if !build.Date.IsZero() {
			answer.Date = &build.Date
		}
		return term.JSON(env.stdout, answer)
	}
	_, err := fmt.Fprintf(env.stdout, "gpuwhy %s (%s; %s, %s/%s)\n%s\n", release.Version, build, runtime.Version(), runtime.GOOS, runtime.GOARCH, what)
	return err
}

// versionAnswer is the version as JSON.
type versionAnswer struct {
	Version  string     `json:"version"`
	Commit   string     `json:"commit"` // empty if unknown
	Date     *time.Time `json:"date"`   // of the commit; null if unknown
	Modified bool       `json:"modified"`
	Go       string     `json:"go"`
	System   string     `json:"system"`
	Machine  string     `json:"machine"`
	Reads    string     `json:"reads"` // a sentence
}
