package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// compilers are the C compilers that build for another processor than this machine's.
var compilers = map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}

// environment is what the go command is told to build a target.
func (t target) environment() []string {
	cgo := "CGO_ENABLED=1"
	if t.static {
		cgo = "CGO_ENABLED=0"
	}
	env := []string{
		"GOOS=linux", "GOARCH=" + t.arch, cgo, "GOFLAGS=-trimpath -buildvcs=false", "GOAMD64=v1", "GOARM64=v8.0",
		"CGO_CFLAGS=-O2 -g -Wno-deprecated-declarations", "CGO_LDFLAGS=",
	}
	if !t.static && !t.runsHere() {
		env = append(env, "CC="+compilers[t.arch])
	}
	return env
}

// program is where the program of a target is.
func (r *release) program(t target) string { return filepath.Join(r.dir, t.String(), "gpuwhy") }

func (r *release) build(ctx context.Context, t target) error {
	const where = "github.com/gpuwhy/gpuwhy/internal/release."
	flags := fmt.Sprintf("-s -w -X %scommit=%s -X %sdate=%s", where, r.commit, where, r.date.Format("2006-01-02T15:04:05Z07:00"))
	if _, err := r.output(ctx, t.environment(), "go", "build", "-ldflags", flags, "-o", r.program(t), "./cmd/gpuwhy"); err != nil {
		return err
	}
	return checkLibraries(r.program(t), t.static)
}

// common is the folder of what all targets have in common.
func (r *release) common() string { return filepath.Join(r.dir, "common") }

// describe has a program write its man pages and completions, and compresses the changelog.
func (r *release) describe(ctx context.Context, t target) error {
	pages := filepath.Join(r.common(), "man1")
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	// Nothing of this machine shows in them.
	clean := []string{"HOME=/nonexistent", "GPUWHY_STATE_DIR=none", "GPUWHY_CONFIG="}
	if _, err := r.output(ctx, clean, r.program(t), "man", pages); err != nil {
		return err
	}
	written, err := filepath.Glob(filepath.Join(pages, "*.1"))
	if err != nil || len(written) == 0 {
		return fmt.Errorf("gpuwhy man wrote no pages: %w", err)
	}
	for _, page := range written {
		if err := compress(page, page+".gz"); err != nil {
			return err
		}
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := r.output(ctx, clean, r.program(t), "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.common(), "gpuwhy."+shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return compress(filepath.Join(r.root, "CHANGELOG.md"), filepath.Join(r.common(), "changelog.gz"))
}

// compress writes a file as gzip does with -9n: without its name and time.
func compress(file, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// licenses gathers the licenses of all modules that are in a program, as they ask for. A module without one is an error.
func (r *release) licenses(ctx context.Context, t target) error {
	text, err := r.output(ctx, t.environment(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}", "./cmd/gpuwhy")
	if err != nil {
		return err
	}
	lines := slices.Sorted(strings.SplitSeq(text, "\n"))
	goroot, err := r.output(ctx, nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	dir, version, _ := strings.Cut(goroot, "\n")
	lines = append([]string{"Go " + version + " " + dir}, slices.Compact(lines)...)
	var b bytes.Buffer
	var errs []error
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) < 3 { // no module, or gpuwhy's
			continue
		}
		found, err := licensesIn(fields[2])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fields[0], err))
		}
		fmt.Fprintf(&b, "==== %s %s ====\n\n%s\n", fields[0], fields[1], found)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	name := filepath.Join(r.dir, t.String(), "THIRD-PARTY-LICENSES")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		return err
	}
	return compress(name, name+".gz")
}

// licensesIn returns the texts of the licenses and notices in a module's folder.
func licensesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		if entry.IsDir() || strings.HasSuffix(name, ".GO") ||
			!slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"}, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "", errors.New("it has no license")
	}
	return b.String(), nil
}
