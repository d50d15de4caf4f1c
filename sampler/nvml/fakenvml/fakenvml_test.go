package fakenvml_test

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

func TestExports(t *testing.T) {
	lib := fakenvml.Build(t, "nvmlDeviceGetMemoryInfo_v2")
	names := exports(t, lib.Path())
	for _, want := range []string{"nvmlInit_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3"} {
		if !slices.Contains(names, want) {
			t.Errorf("the library lacks %s", want)
		}
	}
	if slices.Contains(names, "nvmlDeviceGetMemoryInfo_v2") {
		t.Error("the library has nvmlDeviceGetMemoryInfo_v2, which it was built without")
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "nvml") {
			t.Errorf("the library exports %s", name)
		}
	}
}

func TestMachinesAreSeparate(t *testing.T) {
	a, b := fakenvml.Build(t), fakenvml.Build(t)
	if a.Path() == b.Path() {
		t.Fatal("two libraries in one folder")
	}
}

// TestFromC uses the library as any program does, in its own process.
func TestFromC(t *testing.T) {
	lib := fakenvml.Build(t)
	m := lib.Machine(t, fakenvml.RTX4090(), fakenvml.H100())
	program := compile(t, `
		#include <stdio.h>
		#include <dlfcn.h>
		int main(int argc, char **argv) {
			void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);
			if (!lib) { puts(dlerror()); return 1; }
			int (*init)(void) = dlsym(lib, "nvmlInit_v2");
			int (*handle)(unsigned, void **) = dlsym(lib, "nvmlDeviceGetHandleByIndex_v2");
			int (*temperature)(void *, int, unsigned *) = dlsym(lib, "nvmlDeviceGetTemperature");
			int ret = init();
			for (unsigned i = 0; ret == 0 && i < 2; i++) {
				void *d; unsigned c = 0;
				ret = handle(i, &d);
				if (ret == 0) ret = temperature(d, 0, &c);
				printf("%u:%d:%u ", i, ret, c);
			}
			printf("end %d\n", ret);
		}`)
	ask := func() string {
		t.Helper()
		cmd := exec.Command(program)
		cmd.Env = lib.Env()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	check := func(want string) {
		t.Helper()
		if got := ask(); got != want {
			t.Errorf("the program says %q, want %q", got, want)
		}
	}
	check("0:0:34 1:0:58 end 0")
	m.GPU(0).Set(fakenvml.Temperature, 0)
	m.GPU(1).Lost()
	check("0:0:0 1:15:0 end 15")
	m.GPU(1).Back()
	m.GPU(1).Unset(fakenvml.Temperature)
	check("0:0:0 1:3:0 end 3")
	m.Unload()
	check("end 9")
	m.Load()
	m.Answer(18, "nvmlInit_v2")
	check("end 18")
	if got := m.GPU(0).Calls("nvmlDeviceGetTemperature"); got != 3 {
		t.Errorf("counted %d calls of nvmlDeviceGetTemperature on the first GPU, want 3", got)
	}
	if got := m.GPU(1).Calls("nvmlDeviceGetTemperature"); got != 2 {
		t.Errorf("counted %d calls of nvmlDeviceGetTemperature on the second GPU, want 2: it was lost the second time", got)
	}
}

func compile(t *testing.T, program string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "ask")
	cmd := exec.Command("gcc", "-w", "-x", "c", "-o", out, "-", "-ldl")
	cmd.Stdin = strings.NewReader(program)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func exports(t *testing.T, path string) []string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}
