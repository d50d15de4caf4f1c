//go:build !race && cross

package main

import (
	"bytes"
	"context"
	"debug/macho"
	"debug/pe"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// These tests build gpuwhy for other systems, and start it there if a program of this machine can
// emulate the system.

// A foreign is a gpuwhy for another system.
type foreign struct {
	t      testing.TB
	file   string
	player []string // the program that plays the system, with arguments
	env    []string
}

// cross builds one of our packages; "." is this one.
func cross(t testing.TB, what, file string, env ...string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, what)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s with %v: %v\n%s", what, env, err, out)
	}
}

func (f *foreign) command(ctx context.Context, args ...string) *exec.Cmd {
	all := slices.Concat(f.player, []string{f.file}, args)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Env = append(os.Environ(), f.env...)
	return cmd
}

// run runs it to its end.
func (f *foreign) run(args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), testkit.Patience)
	defer cancel()
	cmd := f.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("gpuwhy %s: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

func (f *foreign) serve(args ...string) *program {
	f.t.Helper()
	args = append([]string{"serve", "--listen=127.0.0.1:0", "--interval=1s"}, args...)
	return launch(f.t, f.command(context.Background(), args...))
}

// begins checks what works on every system: the program says what it is and can read, checks
// its configuration, and serves a simulated machine.
func (f *foreign) begins(system, reads string) {
	f.t.Helper()
	if version := f.run("version"); !strings.Contains(version, system) || !strings.Contains(version, reads) {
		f.t.Errorf("version: %s", version)
	}
	if said := f.run("check-config"); !strings.Contains(said, "The configuration is good") {
		f.t.Errorf("check-config: %s", said)
	}
	p := f.serve("--source=simulate:rtx-4090")
	u := p.await("the simulated GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	if u.Source != "simulate:rtx-4090" && u.Source != gpu.SourceSimulated {
		f.t.Errorf("source %q", u.Source)
	}
	var health contract.MonitorHealth
	if code := p.get("/api/health", &health); code != http.StatusOK || health.Status != "ok" || health.GPUCount != 1 {
		f.t.Errorf("%d %+v", code, health)
	}
	if _, page := p.fetch("/", http.Header{"Accept": {"text/html"}}); !bytes.Contains(page, []byte("RTX 4090")) {
		f.t.Errorf("the page:\n%s", page)
	}
	_ = p.stop(os.Kill) // it ends as one that was killed
}

// states returns the states of the parts of a gpuwhy that reads real sources.
func states(p *program) (health contract.MonitorHealth, states map[string]string) {
	p.t.Helper()
	if code := p.get("/api/health", &health); code != http.StatusOK && code != http.StatusServiceUnavailable {
		p.t.Errorf("/api/health: %d", code)
	}
	states = map[string]string{}
	for name, part := range health.Parts {
		states[name] = part.State
	}
	return health, states
}

func TestLinuxOnARM(t *testing.T) {
	t.Parallel()
	f := &foreign{t: t, file: filepath.Join(t.TempDir(), "gpuwhy"), player: []string{"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"}}
	const compiler = "aarch64-linux-gnu-gcc"
	cross(t, ".", f.file, "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=1", "CC="+compiler)
	f.begins("linux/arm64", "through NVIDIA's library or nvidia-smi")

	// The library is read as on other processors.
	lib := fakenvml.BuildWith(t, compiler)
	m := lib.Machine(t, fakenvml.RTX4090())
	m.GPU(0).Set(fakenvml.Temperature, 71)
	f.env = lib.Env()
	p := f.serve("--sysfs-root="+t.TempDir(), "--proc-root="+t.TempDir())
	u := p.await("the GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	if got := u.GPUs[0].Temperature.GPU.Or(0); u.Source != gpu.SourceNVML || got != 71 {
		t.Errorf("source %s, %v °C", u.Source, got)
	}
	if h := u.Host; h == nil || !h.MemoryTotal.Present() || !h.Cores.Present() {
		t.Errorf("host %+v", h)
	}
}

var windows = []string{"GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0"}

func TestWindowsBuilds(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gpuwhy.exe")
	cross(t, ".", file, windows...)
	program, err := pe.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Machine != pe.IMAGE_FILE_MACHINE_AMD64 || program.Characteristics&pe.IMAGE_FILE_EXECUTABLE_IMAGE == 0 {
		t.Errorf("built for %#x as %#x", program.Machine, program.Characteristics)
	}
}

// Wine emulates Windows. It is large, so make wine installs it, not make cross.
func TestWindows(t *testing.T) {
	t.Parallel()
	f := &foreign{t: t, file: filepath.Join(t.TempDir(), "gpuwhy.exe"), player: []string{"wine"}, env: wine(t)}
	cross(t, ".", f.file, windows...)
	f.begins("windows/amd64", "reads NVIDIA GPUs through nvidia-smi. It reads AMD and Intel GPUs")

	// Without a driver of NVIDIA it says so, and shows the machine.
	p := f.serve()
	u := p.await("the machine is read", func(u contract.Update) bool { return len(u.Failures) > 0 && u.Host != nil })
	if u.Host.OS == "" || !u.Host.MemoryTotal.Present() || len(u.Host.Disks) == 0 || u.Host.Disks[0].Mount != `C:\` {
		t.Errorf("host %+v", u.Host)
	}
	health, parts := states(p)
	if !strings.Contains(health.Reason, "nvidia-smi was not found") || strings.Contains(health.Reason, "container") {
		t.Errorf("health: %s", health.Reason)
	}
	if _, there := parts[gpu.SourceNVML]; there || parts[gpu.SourceNvidiaSMI] != "failed" {
		t.Errorf("parts %v", parts)
	}
	// A second one says who has the port.
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	address := strings.Trim(strings.TrimPrefix(p.url, "http:"), "/")
	if out, err := f.command(ctx, "serve", "--listen="+address).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("another program is listening")) {
		t.Errorf("a second gpuwhy: %v\n%s", err, out)
	}
	_ = p.stop(os.Kill) // it ends as one that was killed

	// With it, nothing is degraded: what is of Linux alone is absent.
	m := fakesmi.New(t, "windows-551")
	program := filepath.Join(m.Dir(), "nvidia-smi.exe")
	cross(t, "github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi/program", program, windows...)
	f.env = append(f.env, "GPUWHY_NVIDIA_SMI=Z:"+strings.ReplaceAll(program, "/", `\`), `GPUWHY_STATE_DIR=C:\state`)
	p = f.serve()
	u = p.await("the GPU answers", func(u contract.Update) bool { return u.Answering == 1 })
	if u.Source != gpu.SourceNvidiaSMI || u.Status != "ok" || len(u.Failures) != 0 || len(u.Notes) != 0 {
		t.Errorf("source %s, status %s, failures %v, notes %v", u.Source, u.Status, u.Failures, u.Notes)
	}
	if name := u.GPUs[0].Name; name != "NVIDIA GeForce RTX 2080 SUPER" {
		t.Errorf("GPU %q", name)
	}
	health, parts = states(p)
	want := map[string]string{
		"sampler": "ok", "hub": "ok", "state": "ok", gpu.SourceNvidiaSMI: "ok", gpu.SourceAMD: "absent", gpu.SourceIntel: "absent",
	}
	if health.Status != "ok" || !maps.Equal(parts, want) {
		t.Errorf("status %s, parts %v", health.Status, parts)
	}
}

// wine makes a folder for wine, and returns the environment that names it.
func wine(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	env := []string{
		"WINEPREFIX=" + dir, "WINEDEBUG=-all", "WINEARCH=win64", "DISPLAY=",
		"WINEDLLOVERRIDES=mscoree,mshtml,winemenubuilder.exe=", // which ask to be installed
	}
	call := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	t.Cleanup(func() {
		cmd := exec.Command("wineserver", "-k", "-w")
		cmd.Env = append(os.Environ(), env...)
		_ = cmd.Run() // it fails where none runs any more
	})
	call("wineboot", "--init")
	call("wineserver", "-w")

	// Go asks this library for random numbers. Wine has it from version 9 on.
	random := filepath.Join(dir, "drive_c/windows/system32/bcryptprimitives.dll")
	if _, err := os.Stat(random); err == nil {
		return env
	}
	exports, object := filepath.Join(t.TempDir(), "random.def"), filepath.Join(t.TempDir(), "random.exp")
	text := "LIBRARY bcryptprimitives.dll\nEXPORTS\nProcessPrng = advapi32.SystemFunction036\n" // RtlGenRandom
	if err := os.WriteFile(exports, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	call("x86_64-w64-mingw32-dlltool", "-d", exports, "-e", object)
	call("x86_64-w64-mingw32-ld", "-shared", "-e", "0", "-o", random, object)
	return env
}

// Nothing here emulates macOS.
func TestMacOS(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "gpuwhy")
	cross(t, ".", file, "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	program, err := macho.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if program.Cpu != macho.CpuArm64 || program.Type != macho.TypeExec {
		t.Errorf("built for %v as %v", program.Cpu, program.Type)
	}
}
