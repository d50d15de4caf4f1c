//go:build !race

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// command runs gpuwhy to its end.
func command(t *testing.T, env []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// inside is [command] within this process, for commands that start nothing and ask nobody.
func inside(args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestBadConfigurationIsOneLineAndANonZeroExit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() }) // after the parallel subtests
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var keys strings.Builder
	for i := range 7_000 {
		fmt.Fprintf(&keys, "k%d: \n", i)
	}
	for _, tt := range []struct {
		name string
		env  []string // not nil: it must be a process that serves
		args []string
		says string
		code int
	}{
		{"unknown flag", nil, []string{"--paint", "red"}, "--paint", exitUsage},
		{"unknown command", []string{}, []string{"dance"}, "dance", exitUsage},
		{"interval too short", []string{}, []string{"--interval", "10ms"}, "250ms to 1h", exitUsage},
		{"interval no duration", nil, []string{"--interval", "soon"}, "interval", exitUsage},
		{"idle interval shorter than the interval", nil, []string{"--idle-interval", "1s"}, "idle-interval", exitUsage},
		{"idle interval that parts causes", nil, []string{"--idle-interval", "5m"}, "idle-interval", exitUsage},
		{"idle interval of a long interval", nil, []string{"--interval", "2m", "--idle-interval", "3m"}, "can't be used with an --interval of more than 1m", exitUsage},
		{"environment", []string{"GPUWHY_INTERVAL=2h"}, nil, "250ms to 1h", exitUsage},
		{"threshold", nil, []string{"--alert-utilization", "100"}, "less than 100", exitUsage},
		{"threshold NaN", nil, []string{"--alert-utilization", "NaN"}, "less than 100", exitUsage},
		{"source", []string{}, []string{"--source", "magic"}, "simulate:PROFILE", exitUsage},
		{"profile", nil, []string{"--source", "simulate:toaster"}, "rtx-4090", exitUsage},
		{"traffic of a simulation", nil, []string{"--source", "simulate:rtx-4090", "--pcie-throughput"}, "no effect with --source", exitUsage},
		{"traffic, perhaps", []string{"GPUWHY_PCIE_THROUGHPUT=perhaps"}, nil, "GPUWHY_PCIE_THROUGHPUT", exitUsage},
		{"fleet", nil, []string{"--source", "simulate:fleet:0"}, "fleet:0", exitUsage},
		{"listen without a port", nil, []string{"--listen", "127.0.0.1"}, "127.0.0.1:8003", exitUsage},
		{"listen port", nil, []string{"--listen", "127.0.0.1:99999"}, "65535", exitUsage},
		{"base path", nil, []string{"--base-path", "gpu"}, "slash", exitUsage},
		{"base path with a comma", nil, []string{"--base-path", "/a,b"}, "letters, digits", exitUsage},
		{"base path that is a pattern", nil, []string{"--base-path", "/{x}"}, "letters, digits", exitUsage},
		{"metrics families", nil, []string{"--metrics-families", "ours"}, "gpuwhy", exitUsage},
		{"embed", nil, []string{"--allow-embed", "https://a.example;b"}, "must be a scheme", exitUsage},
		{"origin", nil, []string{"--allow-origin", "example.org"}, "does not begin with http", exitUsage},
		{"host", nil, []string{"--allow-host", "http://x"}, "allow-host", exitUsage},
		{"log level", nil, []string{"--log-level", "loud"}, "log-level", exitUsage},
		{"state dir", []string{}, []string{"--state-dir", "/proc/nowhere"}, "state-dir", exitUsage},
		{"no file", nil, []string{"--config", filepath.Join(dir, "none.yaml")}, "none.yaml", exitUsage},
		{"a file without end", nil, []string{"--config", "/dev/zero"}, "/dev/zero: it is not a regular file", exitUsage},
		{"a pipe that nobody writes to", nil, []string{"--config", pipe}, "it is not a regular file", exitUsage},
		{"a long file", nil, []string{"--config", write("long.yaml", strings.Repeat("# long\n", 10_000))}, "it is too long: more than 64 KiB", exitUsage},
		{"a deep file", nil, []string{"--config", write("deep.yaml", "node: "+strings.Repeat("[", 60_000))}, "max depth", exitUsage},
		{"many keys", nil, []string{"--config", write("keys.yaml", keys.String())}, "unknown key", exitUsage},
		{"unknown key", []string{}, []string{"--config", write("key.yaml", "intervall: 5s\n")}, `unknown key "intervall"`, exitUsage},
		{"bad value in a file", nil, []string{"--config", write("value.yaml", "interval: 1ms\n")}, "250ms to 1h", exitUsage},
		{"a map in a file", nil, []string{"--config", write("map.yaml", "interval: {a: b}\n")}, "interval", exitUsage},
		{"a value of another type in a file", nil, []string{"--config", write("type.yaml", "- interval\n- 5s\n")}, "type.yaml", exitUsage},
		{"broken YAML", nil, []string{"--config", write("broken.yaml", "a: [\n")}, "broken.yaml", exitUsage},
		{"two documents", nil, []string{"--config", write("two.yaml", "interval: 5s\n---\nnode: x\n")}, "several YAML documents, and only one is allowed", exitUsage},
		{"busy port", nil, []string{"--listen", busy.Addr().String()}, "another program is listening", exitError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r result
			if tt.env == nil && tt.code == exitUsage { // all commands check the settings in the same way
				r = inside(append([]string{"check-config"}, tt.args...)...)
			} else {
				r = command(t, tt.env, tt.args...)
			}
			if r.code != tt.code || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("exit status %d (want %d), said %q (want %q in it)", r.code, tt.code, r.stderr, tt.says)
			}
			if lines := strings.Count(r.stderr, "\n"); lines != 1 || !strings.HasPrefix(r.stderr, "gpuwhy: ") {
				t.Errorf("%d lines, want one that begins with gpuwhy:\n%s", lines, r.stderr)
			}
		})
	}
}

func TestFlagOverEnvironmentOverFileOverDefault(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "gpuwhy.yaml")
	text := "node: from-file\nalert-utilization: 61\nsource: simulate:rtx-4090\nallow-host: [a.example, b.example]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"GPUWHY_ALERT_UTILIZATION=62", "GPUWHY_INTERVAL=7s", "GPUWHY_CONFIG=" + name}, "--interval=3s")
	var status contract.GPUStatus
	p.dial().next("gpu_status", &status)
	if status.Node != "from-file" || status.AlertThreshold != 62 || status.Interval != 3 || status.Source != "simulated" {
		t.Errorf("got %+v", status)
	}
}

// Traffic over PCIe is measured if that is set in any of the three ways.
func TestTrafficOverPCIeIsAskedFor(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "gpuwhy.yaml")
	if err := os.WriteFile(name, []byte("pcie-throughput: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		env, args []string
		measured  bool
	}{
		"not set":         {nil, nil, false},
		"flag":            {nil, []string{"--pcie-throughput"}, true},
		"environment":     {[]string{"GPUWHY_PCIE_THROUGHPUT=true"}, nil, true},
		"file":            {nil, []string{"--config", name}, true},
		"flag over file":  {nil, []string{"--config", name, "--pcie-throughput=false"}, false},
		"env over a file": {[]string{"GPUWHY_PCIE_THROUGHPUT=false"}, []string{"--config", name}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			lib, m := machine(t, fakenvml.RTX4090())
			r := command(t, append(lib.Env(), tt.env...), append([]string{"snapshot", "--json"}, tt.args...)...)
			var u contract.Update
			if err := json.Unmarshal([]byte(r.stdout), &u); err != nil || len(u.GPUs) != 1 {
				t.Fatalf("exit status %d, %v: %s", r.code, err, r.stderr)
			}
			calls := m.Calls("nvmlDeviceGetPcieThroughput")
			if a := u.GPUs[0].Activity; (a != nil && a.PCIeMeasuredAt.Present()) != tt.measured || (calls == 2) != tt.measured || !tt.measured && calls != 0 {
				t.Errorf("%d calls, activity %+v", calls, a)
			}
			if check := command(t, append(lib.Env(), tt.env...), append([]string{"check-config"}, tt.args...)...); check.code != exitOK {
				t.Errorf("check-config ends with %d: %s", check.code, check.stderr)
			}
		})
	}
}

func TestSnapshotPrintsATable(t *testing.T) {
	t.Parallel()
	lib, m := machine(t, fakenvml.RTX4090().With(fakenvml.Name, "RTX\x1b[31m 4090"))
	m.GPU(0).SetProcesses(fakenvml.Process{PID: uint32(os.Getpid()), Type: "compute", Memory: 1 << 30, SM: 12})
	r := command(t, lib.Env(), "snapshot")
	if r.code != exitOK || !strings.Contains(r.stdout, "UTIL") || !strings.Contains(r.stdout, "1024 MiB") || !strings.Contains(r.stdout, ".test") {
		t.Errorf("exit status %d:\n%s%s", r.code, r.stdout, r.stderr)
	}
	if strings.Contains(r.stdout, "\x1b") {
		t.Error("a device's name moves the terminal's cursor")
	}
}

func TestSnapshotPrintsJSON(t *testing.T) {
	t.Parallel()
	lib, _ := machine(t, fakenvml.H100().With(fakenvml.Name, "H100 \u009b31m\u202e red"))
	r := command(t, lib.Env(), "snapshot", "--json")
	var u contract.Update
	if err := json.Unmarshal([]byte(r.stdout), &u); err != nil || r.code != exitOK || u.Devices != 1 || u.Source != "nvml" {
		t.Fatalf("exit status %d, %v, %+v", r.code, err, u)
	}
	if strings.ContainsAny(r.stdout, "\u009b\u202e") || u.GPUs[0].Name != "H100 31m red" {
		t.Errorf("the name %q is printed raw, or is lost", u.GPUs[0].Name)
	}
}

func TestSnapshotWithoutADriverSaysWhy(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"LD_LIBRARY_PATH=" + t.TempDir()}, "snapshot")
	if r.code != exitError || !strings.Contains(r.stderr, "libnvidia-ml.so.1") {
		t.Errorf("exit status %d: %s", r.code, r.stderr)
	}
}

func TestSimulatedSaysSo(t *testing.T) {
	t.Parallel()
	r := inside("snapshot", "--source=simulate:dgx-h100")
	if r.code != exitOK || !strings.Contains(r.stdout, "SIMULATED") || strings.Count(r.stdout, "NVIDIA H100") < 8 {
		t.Errorf("exit status %d:\n%s", r.code, r.stdout)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--source=simulate:rtx-4090", "--base-path=/x/")
	p.dial().next("gpu_status", nil)
	p.await("there is a reading", func(contract.Update) bool { return true })
	if r := inside("healthcheck", p.url); r.code != exitOK || r.stdout != "ready\n" {
		t.Errorf("exit status %d: %s%s", r.code, r.stdout, r.stderr)
	}
	listen := strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/x/")
	if r := command(t, []string{"GPUWHY_LISTEN=" + listen, "GPUWHY_BASE_PATH=/x/"}, "healthcheck"); r.code != exitOK {
		t.Errorf("by its configuration: exit status %d: %s", r.code, r.stderr)
	}
	if err := p.stop(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if r := inside("healthcheck", p.url); r.code != exitError || strings.Count(r.stderr, "\n") != 1 {
		t.Errorf("of one that ended: exit status %d: %s", r.code, r.stderr)
	}
}

func TestAVariableWithoutAValueIsNotSet(t *testing.T) {
	t.Parallel()
	if r := command(t, []string{"GPUWHY_INTERVAL=", "GPUWHY_ALLOW_HOST="}, "snapshot", "--source=simulate:rtx-4090"); r.code != exitOK {
		t.Errorf("exit status %d: %s", r.code, r.stderr)
	}
}

func TestHealthcheckPrintsNothingThatActsOnATerminal(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"detail":"\u001b[31mred\u009b"}`)
	}))
	t.Cleanup(site.Close)
	r := inside("healthcheck", site.URL)
	if r.code != exitError || strings.ContainsAny(r.stderr, "\x1b\u009b") || !strings.Contains(r.stderr, "red") {
		t.Errorf("exit status %d: %q", r.code, r.stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if r := command(t, []string{"GPUWHY_STATE_DIR=" + dir}, "version"); r.code != exitOK {
		t.Errorf("exit status %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a command that keeps nothing made the state directory")
	}
	if r := command(t, nil, "version"); r.code != exitOK || !strings.HasPrefix(r.stdout, "gpuwhy "+release.Version+" (commit ") ||
		!strings.Contains(r.stdout, "\nIt reads NVIDIA GPUs through NVIDIA's library or nvidia-smi, and AMD and Intel GPUs.\n") {
		t.Errorf("exit status %d: %s", r.code, r.stdout)
	}
}

func TestWhatABuildReads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		system   string
		library  bool
		says, no string
	}{
		{"linux", true, "NVIDIA's library or nvidia-smi", "without cgo"},
		{"linux", false, "without cgo", "or nvidia-smi"},
		{"windows", false, "through nvidia-smi", "cgo"},
		{"darwin", false, "no GPU", "nvidia-smi"},
	} {
		if got := reads(tt.system, tt.library); !strings.Contains(got, tt.says) || strings.Contains(got, tt.no) {
			t.Errorf("%s: %s", tt.system, got)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	r := command(t, nil, "--help")
	if r.code != exitOK || !strings.Contains(r.stdout, "--nvml-library") || !strings.Contains(r.stdout, "snapshot") {
		t.Errorf("exit status %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
