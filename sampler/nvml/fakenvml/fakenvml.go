// Package fakenvml builds a fake NVIDIA management library for tests: a
// libnvidia-ml.so.1 with the ABI of the real one. The test describes a machine and
// changes it while the program under test runs, in this process or in another one. GPUs
// can hang, be slow, fall off the bus, sleep and refuse permission; drivers can be old,
// absent, loaded later or loaded again; and every call is counted.
//
//	lib := fakenvml.Build(t, fakenvml.Options{})
//	m := lib.Machine(t, fakenvml.RTX4090(), fakenvml.H100())
//	cmd.Env = append(os.Environ(), lib.Env()...) // or nvml.Config{LibraryPath: lib.Path()}
//	m.GPU(0).Set(fakenvml.Temperature, 83)
//	m.GPU(1).Hang()
//
// The C side is library/fake.c. It needs gcc, and Linux.
package fakenvml

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

//go:embed library/fake.c
var source []byte

// fileName is the name by which programs look for the library.
const fileName = "libnvidia-ml.so.1"

// Options say which library to build.
type Options struct {
	// Without lists functions that the library lacks, as that of an older
	// driver does: "nvmlDeviceGetMemoryInfo_v2".
	Without []string
}

// A Library is a library in a folder of its own, with the state of one machine beside
// it. Two libraries share nothing. A process can use only one library, since functions
// stay resolved: a test of another library needs another process.
type Library struct {
	dir string
}

// Build builds a library that exists as long as the test. The compiler runs once for
// each set of options in a process.
func Build(tb testing.TB, o Options) *Library {
	tb.Helper()
	lib, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := lib.Remove(); err != nil {
			tb.Error(err)
		}
	})
	return lib
}

// New is [Build] for a TestMain. The caller must call Remove.
func New(o Options) (*Library, error) {
	image, err := compile(o)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fakenvml-")
	if err != nil {
		return nil, err
	}
	lib := &Library{dir: dir}
	if err := cmp.Or(os.WriteFile(lib.Path(), image, 0o755), os.WriteFile(lib.controlPath(), make([]byte, controlSize), 0o666)); err != nil {
		return nil, errors.Join(err, lib.Remove())
	}
	return lib, nil
}

// Remove deletes the library's folder. A program that has loaded it continues.
func (l *Library) Remove() error { return os.RemoveAll(l.dir) }

// Path is the library's file.
func (l *Library) Path() string { return filepath.Join(l.dir, fileName) }

// Dir is the folder of the library's file, for LD_LIBRARY_PATH.
func (l *Library) Dir() string { return l.dir }

// Env makes a program find this library by its usual name.
func (l *Library) Env() []string { return []string{"LD_LIBRARY_PATH=" + l.dir} }

// Hide renames the library's file, as if no driver were installed.
func (l *Library) Hide() error { return os.Rename(l.Path(), l.Path()+".hidden") }

// Show brings the file back.
func (l *Library) Show() error { return os.Rename(l.Path()+".hidden", l.Path()) }

var compiled sync.Map // options: the library's file, as a function that compiles it once

// compile returns the library's file for the options.
func compile(o Options) ([]byte, error) {
	without := slices.Sorted(slices.Values(o.Without))
	once, _ := compiled.LoadOrStore(strings.Join(without, " "), sync.OnceValues(func() ([]byte, error) { return gcc(without) }))
	image, err := once.(func() ([]byte, error))()
	if err != nil {
		return nil, fmt.Errorf("build the fake NVIDIA library: %w", err)
	}
	return image, nil
}

func gcc(without []string) ([]byte, error) {
	headers, err := run("go", "list", "-e", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fakenvml-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	code, exports, out := filepath.Join(dir, "fake.c"), filepath.Join(dir, "exports"), filepath.Join(dir, fileName)
	if err := cmp.Or(os.WriteFile(code, source, 0o644), os.WriteFile(exports, exportList(without), 0o644)); err != nil {
		return nil, err
	}
	if _, err := run("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror",
		"-Wl,-soname,"+fileName, "-Wl,--version-script="+exports, "-I"+headers, "-o", out, code, "-lpthread", "-ldl"); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// exportList is a linker version script: nobody finds a function in the library that is
// local here.
func exportList(without []string) []byte {
	var b bytes.Buffer
	b.WriteString("{\n  global: nvml*;\n  local: *;\n")
	for _, name := range without {
		fmt.Fprintf(&b, "  %s;\n", name)
	}
	b.WriteString("};\n")
	return b.Bytes()
}

func run(name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}
