//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A binary is the tests of one package.
type binary struct {
	name string // of the package, and whether it is built without the flags
	path string
	dir  string // of the package: its tests run there

	plain bool // it is built without the flags, for the second time
}

// build compiles the tests of the packages.
func build(ctx context.Context, o options, folder string) (all []binary, err error) {
	type listed struct {
		ImportPath, Dir           string
		TestGoFiles, XTestGoFiles []string
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, o.packages...)...)
	text, err := list.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("go list: %s", exit.Stderr)
		}
		return nil, err
	}
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		variants := [][]string{o.build}
		if slices.Contains(o.plain, p.Dir) && len(o.build) > 0 {
			variants = append(variants, nil)
		}
		for _, flags := range variants {
			b := binary{name: p.ImportPath, dir: p.Dir}
			if flags == nil && len(o.build) > 0 {
				b.plain = true
				b.name += " (plain)"
			}
			args := append([]string{"test", "-c", "-vet=off"}, flags...)
			b.path = filepath.Join(folder, strings.NewReplacer("/", "_", " ", "", "(", "_", ")", "").Replace(b.name)+".test")
			if out, err := exec.CommandContext(ctx, "go", append(args, "-o", b.path, p.ImportPath)...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("go test -c %s: %w\n%s", p.ImportPath, err, out)
			}
			if _, err := os.Stat(b.path); err == nil { // go writes none where no file of tests is compiled
				all = append(all, b)
			}
		}
	}
}
