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
	"strings"
)

// A binary is the tests of one package.
type binary struct {
	name string // of the package, and whether it has the race detector
	path string
	dir  string // of the package: its tests run there
}

// withoutRace begins a file of tests that is not compiled with the race detector.
const withoutRace = "//go:build !race"

// build compiles the tests of the packages.
func build(ctx context.Context, o options, to string) (all []binary, err error) {
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
		files := append(p.TestGoFiles, p.XTestGoFiles...)
		if len(files) == 0 {
			continue
		}
		plain, err := needsPlain(p.Dir, files)
		if err != nil {
			return nil, err
		}
		for _, race := range []bool{true, false} {
			if race && !o.race || !race && o.race && !plain {
				continue
			}
			b := binary{name: p.ImportPath, dir: p.Dir}
			args := []string{"test", "-c", "-vet=off"}
			if race {
				args = append(args, "-race")
				b.name += " (race)"
			}
			b.path = filepath.Join(to, strings.NewReplacer("/", "_", " ", "", "(", "_", ")", "").Replace(b.name)+".test")
			if out, err := exec.CommandContext(ctx, "go", append(args, "-o", b.path, p.ImportPath)...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("go test -c %s: %w\n%s", p.ImportPath, err, out)
			}
			if _, err := os.Stat(b.path); err == nil { // go writes none where no file of tests is compiled
				all = append(all, b)
			}
		}
	}
}

// needsPlain reports whether a file of tests is compiled without the race detector alone.
func needsPlain(dir string, files []string) (bool, error) {
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return false, err
		}
		if bytes.HasPrefix(text, []byte(withoutRace+"\n")) {
			return true, nil
		}
	}
	return false, nil
}
