//go:build linux && cgo

package nvml

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// A process is bound to its first library, so tests of other libraries run this test binary again: it reads once for each line on its
// input, and prints the result.

const childScenario, childLibrary = "GPUWHY_TEST_CHILD", "GPUWHY_TEST_LIBRARY"

func child(string) {
	s := New(Config{
		LibraryPath: os.Getenv(childLibrary), SysfsRoot: "/nonexistent", Deadline: time.Hour, Window: testWindow,
		PCIeThroughput: true, Log: slog.New(slog.DiscardHandler),
	})
	defer s.Close()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		snap, err := s.Read(context.Background())
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		d := snap.Devices[0]
		fmt.Printf("state=%s gpu=%v used=%v reserved=%v temperature=%v margin=%v reasons=%v fans=%v/%v jpeg=%v sessions=%v sent=%v processes=%v sm=%v driver=%v\n",
			d.State, d.Utilization.GPU, d.Memory.Used, d.Memory.Reserved, d.Thermal.GPU, d.Thermal.Margin, d.Clocks.EventReasons,
			d.Fans.Count, d.Fans.Commanded(), d.Utilization.JPEG, d.Encoding.Sessions, d.Activity.PCIeSent, pids(d), sms(d), d.DriverVersion)
	}
}

func pids(d gpu.Device) (out []int) {
	for _, p := range d.Processes.Or(nil) {
		out = append(out, p.PID)
	}
	return out
}

func sms(d gpu.Device) (out []gpu.Reading[gpu.Percent]) {
	for _, p := range d.Processes.Or(nil) {
		out = append(out, p.SM)
	}
	return out
}

// process is a child that reads when it is told to.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

func start(t *testing.T, path string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childScenario+"=read", childLibrary+"="+path), env...)
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child ended with: %v", err)
		}
	})
	return &process{in, bufio.NewScanner(out)}
}

func (p *process) read(t *testing.T) string {
	t.Helper()
	fmt.Fprintln(p.in, "read")
	if !p.out.Scan() {
		t.Fatal("the child said nothing: it has died")
	}
	return p.out.Text()
}

// afterR450 are functions that drivers of the 450 series lack.
var afterR450 = []string{
	"nvmlDeviceGetJpgUtilization", "nvmlDeviceGetOfaUtilization", "nvmlDeviceGetMemoryInfo_v2",
	"nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature",
	"nvmlDeviceGetNumFans", "nvmlDeviceGetFanSpeedRPM", "nvmlDeviceGetTargetFanSpeed", "nvmlDeviceGetFanControlPolicy_v2",
	"nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
	"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
	"nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet", "nvmlGpmSampleFree", "nvmlGpmMetricsGet",
	"nvmlInitWithFlags", "nvmlDeviceGetRetiredPages_v2",
}

func TestOldDriver(t *testing.T) {
	const used, reserved = 421 << 20, 345 << 20
	tests := map[string]struct {
		without []string
		want    string
	}{
		"new":             {nil, fmt.Sprintf("state=ok gpu=0 used=%d reserved=%d temperature=34 margin=49 reasons=1 fans=2/0 jpeg=0 sessions=0 sent=350000 processes=[77 1612] sm=[50 0] driver=550.54.15", used, reserved)},
		"450":             {afterR450, fmt.Sprintf("state=ok gpu=0 used=%d reserved=not_supported temperature=34 margin=not_supported reasons=1 fans=1/0 jpeg=not_supported sessions=0 sent=350000 processes=[77 1612] sm=[50 0] driver=550.54.15", used+reserved)},
		"next to nothing": {everythingBut(t, required), "state=ok gpu=not_supported used=not_supported reserved=not_supported temperature=not_supported margin=not_supported reasons=not_supported fans=not_supported/not_supported jpeg=not_supported sessions=not_supported sent=not_supported processes=[] sm=[] driver=not_supported"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old := fakenvml.Build(t, tt.without...)
			m := old.Machine(t, fakenvml.RTX4090())
			m.GPU(0).SetProcesses(fakenvml.Process{PID: 1612, Type: "graphics", Memory: 1}, fakenvml.Process{PID: 77, Type: "compute", Memory: 1, SM: 50})
			if got := start(t, old.Path()).read(t); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestOldDriverFails checks that functions that an old driver lacks don't make a device look failed.
func TestOldDriverFails(t *testing.T) {
	old := fakenvml.Build(t, afterR450...)
	m := old.Machine(t, fakenvml.RTX4090())
	p := start(t, old.Path())
	p.read(t)
	m.GPU(0).Answer(int(timeout))
	if got := p.read(t); !strings.HasPrefix(got, "state=not_answering") {
		t.Errorf("got %s, want a device that does not answer", got)
	}
}

func everythingBut(t *testing.T, keep []string) (out []string) {
	for name := range symbols(t) {
		if !slices.Contains(keep, name) {
			out = append(out, name)
		}
	}
	return out
}

func TestUnusableLibrary(t *testing.T) {
	broken := fakenvml.Build(t, "nvmlInit_v2")
	broken.Machine(t, fakenvml.RTX4090())
	got := start(t, broken.Path()).read(t)
	if !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "lacks nvmlInit_v2") {
		t.Errorf("got %q, want an error that names nvmlInit_v2", got)
	}
}

// TestLibraryAppears starts gpuwhy before the driver is installed.
func TestLibraryAppears(t *testing.T) {
	later := fakenvml.Build(t)
	later.Machine(t, fakenvml.RTX4090())
	if err := later.Hide(); err != nil {
		t.Fatal(err)
	}
	p := start(t, later.Path())
	for range 2 {
		if got := p.read(t); !strings.Contains(got, "management library was not found") || !strings.Contains(got, later.Path()) {
			t.Errorf("without a library: %q", got)
		}
	}
	if err := later.Show(); err != nil {
		t.Fatal(err)
	}
	if got := p.read(t); !strings.HasPrefix(got, "state=ok") {
		t.Errorf("with a library: %q", got)
	}
}

// TestUsualName checks that without a path the library is found by the name that every driver installs.
func TestUsualName(t *testing.T) {
	usual := fakenvml.Build(t)
	usual.Machine(t, fakenvml.H100())
	if got := start(t, "", usual.Env()...).read(t); !strings.HasPrefix(got, "state=ok gpu=97") {
		t.Errorf("got %q", got)
	}
}
