//go:build !race

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// Without a GPU, the program is about the machine, whose sensors are below --sysfs-root.
func TestWithoutAGPUTheMachineIsShown(t *testing.T) {
	t.Parallel()
	sysfs := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(sysfs, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("bus/pci/devices/0000:00:00.0/vendor", "0x8086")
	write("bus/pci/devices/0000:00:00.0/class", "0x060000")
	write("class/hwmon/hwmon0/name", "nct6798")
	write("class/hwmon/hwmon0/fan1_label", "CPU_FAN")
	write("class/hwmon/hwmon0/fan1_input", "812")
	write("class/hwmon/hwmon1/name", "coretemp")
	write("class/hwmon/hwmon1/temp1_label", "Package id 0")
	write("class/hwmon/hwmon1/temp1_input", "41000")
	p := start(t, nil, fast, "--sysfs-root="+sysfs, "--nvml-library="+filepath.Join(sysfs, "none.so"))
	fan := func(rpm float64) func(contract.Update) bool {
		return func(u contract.Update) bool {
			if u.Host == nil || len(u.Host.Fans) != 1 || len(u.Host.Temperatures) != 1 || !u.Host.CPU.Present() || u.Host.Busiest == nil {
				return false
			}
			v, ok := u.Host.Fans[0].RPM.Get()
			return ok && float64(v) == rpm
		}
	}
	u := p.await("the machine's fan and who uses the CPU", fan(812))
	if u.Host.Fans[0].Name != "CPU fan" || u.Host.Temperatures[0].Name != "CPU" || u.Host.NoFans != "" {
		t.Errorf("fans %+v, temperatures %+v, %q", u.Host.Fans, u.Host.Temperatures, u.Host.NoFans)
	}
	if u.Available || len(u.Failures) == 0 {
		t.Errorf("it has a GPU: %v, failures %+v", u.Available, u.Failures)
	}
	for _, metric := range []string{"cpu_percent", "cpu_celsius", "host_fan_rpm"} {
		if !u.Host.Kept[metric].Present() {
			t.Errorf("%s is not kept: %v", metric, u.Host.Kept)
		}
	}
	write("class/hwmon/hwmon0/fan1_input", "4000")
	u = p.await("the fan is loud", fan(4000))
	about := []string{"cpu_work", "cpu_cooling_down", "machine_fan"} // by what else this machine does
	if !slices.ContainsFunc(u.Causes, func(c contract.Cause) bool {
		return slices.Contains(about, c.Kind) && strings.Contains(c.Sentence, "4000")
	}) {
		t.Errorf("nothing is said of the fan: %+v", u.Causes)
	}
	var past contract.Recent
	p.get("/api/gpu/recent", &past)
	if len(past.Machines) != 1 || past.Machines[0].Node != u.Node || len(past.Machines[0].Values["host_fan_rpm"]) == 0 {
		t.Errorf("the past: %+v", past.Machines)
	}
	// A chart begins when its first step is over.
	parts := []string{"CPU fan", "CPU temperature", "Who uses the CPU", `data-metric="host_fan_rpm"`}
	var lacks []string
	testkit.Until(t, "the page has all of the machine", func() bool {
		_, page := p.fetch("/", http.Header{"Accept": {"text/html"}})
		lacks = slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return strings.Contains(string(page), part) })
		return len(lacks) == 0
	}, func() string { return fmt.Sprintf("it lacks %q", lacks) })
}
