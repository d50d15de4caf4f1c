// Package fakenvml builds a fake NVIDIA management library for tests: a libnvidia-ml.so.1 with the ABI of the real one. The test describes
// a machine and changes it while the program under test runs, in this process or in another.
//
//	lib := fakenvml.Build(t)
//	m := lib.Machine(t, fakenvml.RTX4090(), fakenvml.H100())
//	cmd.Env = append(os.Environ(), lib.Env()...) // or nvml.Config{LibraryPath: lib.Path()}
//	m.GPU(0).Set(fakenvml.Temperature, 83)
//	m.GPU(1).Hang()
//
// The C side is library/fake.c. It needs gcc, and Linux.
package fakenvml

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// fileName is the file name that programs look for.
const fileName = "libnvidia-ml.so.1"

// A Library is a library file in its own folder, next to the state of one machine. Two libraries share nothing. A process can use only one
// library, since resolved functions stay resolved: to test another library, use another process.
type Library struct {
	dir string
}

// Build builds a library that exists as long as the test. The functions in without are left out, as in an older driver's library:
// "nvmlDeviceGetMemoryInfo_v2".
func Build(tb testing.TB, without ...string) *Library {
	tb.Helper()
	return BuildWith(tb, "gcc", without...)
}

// BuildWith is [Build] with a given C compiler, for example for another processor.
func BuildWith(tb testing.TB, compiler string, without ...string) *Library {
	tb.Helper()
	lib, err := build(tb.TempDir(), compiler, without)
	if err != nil {
		tb.Fatal(err)
	}
	return lib
}

// New is [Build] for a TestMain, in an empty folder. A process runs the compiler once for each kind of library.
func New(dir string, without ...string) (*Library, error) { return build(dir, "gcc", without) }

func build(dir, compiler string, without []string) (*Library, error) {
	without = slices.Sorted(slices.Values(without))
	once, _ := compiled.LoadOrStore(compiler+" "+strings.Join(without, " "),
		sync.OnceValues(func() ([]byte, error) { return compile(compiler, without) }))
	image, err := once.(func() ([]byte, error))()
	if err != nil {
		return nil, fmt.Errorf("build the fake NVIDIA library: %w", err)
	}
	l := &Library{dir}
	zeros := make([]byte, unsafe.Sizeof(control{}))
	return l, cmp.Or(os.WriteFile(l.Path(), image, 0o755), os.WriteFile(l.controlPath(), zeros, 0o666))
}

// Open returns a library that another process has built in a folder.
func Open(dir string) *Library { return &Library{dir} }

// Dir returns the folder with the library and its machine's state.
func (l *Library) Dir() string { return l.dir }

// Path returns the library's file.
func (l *Library) Path() string { return filepath.Join(l.dir, fileName) }

// Env returns the environment that makes a program find this library by its usual name.
func (l *Library) Env() []string { return []string{"LD_LIBRARY_PATH=" + l.dir} }

// Hide renames the library's file, as if no driver were installed.
func (l *Library) Hide() error { return os.Rename(l.Path(), l.Path()+".hidden") }

// Show undoes Hide.
func (l *Library) Show() error { return os.Rename(l.Path()+".hidden", l.Path()) }

var compiled sync.Map // compiler and missing functions: the library's file, as a function that compiles it once

// compile returns the library's file. Functions to leave out get another name.
func compile(compiler string, without []string) ([]byte, error) {
	folders, err := run("go", "list", "-e", "-f", "{{.Dir}}",
		"github.com/NVIDIA/go-nvml/pkg/nvml", "github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml")
	if err != nil {
		return nil, err
	}
	headers, ours, _ := strings.Cut(folders, "\n")
	dir, err := os.MkdirTemp("", "fakenvml-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, fileName)
	args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname," + fileName, "-I" + headers, "-o", out}
	for _, name := range without {
		args = append(args, fmt.Sprintf("-D%s=nvmlLacks_%[1]s", name))
	}
	if _, err := run(compiler, append(args, filepath.Join(ours, "library/fake.c"), "-lpthread", "-ldl")...); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w\n%s", name, err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}
