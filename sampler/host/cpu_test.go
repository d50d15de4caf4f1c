package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// The processors' energy counters give watts; a machine without counters, or without access to them, says so.
func TestPower(t *testing.T) {
	m := newMachine(t)
	zone := func(n int, name string, joules float64) {
		dir := fmt.Sprintf("sys/class/powercap/intel-rapl:%d/", n)
		m.write(dir+"name", name+"\n")
		m.write(dir+"energy_uj", fmt.Sprintf("%.0f\n", joules*1e6))
	}
	zone(0, "package-0", 1000)
	zone(1, "package-1", 9000)
	zone(2, "psys", 1)
	m.write("sys/class/powercap/intel-rapl:0:0/name", "core\n")
	m.write("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n")
	r := m.reader(ShowOwn)
	if h := readHost(t, r); h.CPUPower != (gpu.Reading[gpu.Watts]{}) {
		t.Errorf("at the first reading: %v", h.CPUPower)
	}
	step := func(first, second float64) gpu.Reading[gpu.Watts] {
		t.Helper()
		m.now = m.now.Add(2 * time.Second)
		zone(0, "package-0", first)
		zone(1, "package-1", second)
		return readHost(t, r).CPUPower
	}
	if got := step(1130, 9050); got != gpu.Of[gpu.Watts](90) {
		t.Errorf("130 J and 50 J in 2 s: %v", got)
	}
	if got := step(20, 9100); got.Present() {
		t.Errorf("after a counter began anew: %v", got)
	}
	if got := step(120, 9200); got != gpu.Of[gpu.Watts](100) {
		t.Errorf("after that: %v", got)
	}
	if got := step(1e6, 9200); got.Present() {
		t.Errorf("half a megawatt: %v", got)
	}
	m.write("sys/class/powercap/intel-rapl:0/energy_uj", "many\n")
	if h, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "CPU power: intel-rapl:0") || h.CPUPower.Present() {
		t.Errorf("of what is no number: %v, %v", h.CPUPower, err)
	}
	m.remove("sys/class/powercap")
	if h := readHost(t, r); h.CPUPower != gpu.Absent[gpu.Watts](gpu.NotSupported) {
		t.Errorf("without counters: %v", h.CPUPower)
	}
}

// Most systems let only root read the energy counters.
func TestPowerOfOthers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every file")
	}
	m := newMachine(t)
	m.write("sys/class/powercap/intel-rapl:0/name", "package-0\n")
	m.write("sys/class/powercap/intel-rapl:0/energy_uj", "1\n")
	if err := os.Chmod(m.root+"/sys/class/powercap/intel-rapl:0/energy_uj", 0); err != nil {
		t.Fatal(err)
	}
	if h := readHost(t, m.reader(ShowOwn)); h.CPUPower != gpu.Absent[gpu.Watts](gpu.NotPermitted) {
		t.Errorf("got %v", h.CPUPower)
	}
}

// Each processor counts how often it slowed down; each of its cores shows that count.
func TestThrottling(t *testing.T) {
	m := newMachine(t)
	count := func(cpu, processor, times int) {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", cpu)
		m.write(dir+"topology/physical_package_id", fmt.Sprintf("%d\n", processor))
		m.write(dir+"thermal_throttle/package_throttle_count", fmt.Sprintf("%d\n", times))
	}
	for cpu := range 4 {
		count(cpu, cpu/2, 7)
	}
	r := m.reader(ShowOwn)
	if h := readHost(t, r); h.CPUThrottled != (gpu.Reading[bool]{}) || len(r.packages) != 2 {
		t.Errorf("at the first reading: %v, of %q", h.CPUThrottled, r.packages)
	}
	for i, want := range []bool{false, true, false} {
		m.now = m.now.Add(2 * time.Second)
		count(2, 1, 7+min(i, 1)*3)
		if h := readHost(t, r); h.CPUThrottled != gpu.Of(want) {
			t.Errorf("%d: %v, want %v", i, h.CPUThrottled, want)
		}
	}
}

// The reason why no fan is shown depends on the kind of machine.
func TestNoFans(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*machine)
		want string
	}{
		{"no hwmon", func(*machine) {}, "the system exposes no sensors here"},
		{"virtual", func(m *machine) {
			m.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\nflags\t\t: fpu hypervisor lm\n")
		}, "this is a virtual machine, which has no fans of its own"},
		{"temperatures alone", func(m *machine) {
			m.write("sys/class/hwmon/hwmon0/name", "coretemp\n")
			m.write("sys/class/hwmon/hwmon0/temp1_input", "45000\n")
		}, "no fan sensor driver is loaded, or this machine reports no fan"},
		{"a fan", func(m *machine) {
			m.write("sys/class/hwmon/hwmon0/name", "nct6798\n")
			m.write("sys/class/hwmon/hwmon0/fan1_input", "0\n")
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			tt.make(m)
			if h := readHost(t, m.reader(ShowOwn)); h.NoFans.What != tt.want || (h.NoFans.Try == "") != (tt.want == "") {
				t.Errorf("got %+v", h.NoFans)
			}
		})
	}
}

// The kind of machine never changes, and the file that shows it is long: it is read only once for that.
func TestWhatNeverChangesIsReadOnce(t *testing.T) {
	m := newMachine(t)
	m.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\nflags\t\t: fpu hypervisor lm\n")
	r := m.reader(ShowOwn)
	first := readHost(t, r)
	m.write("proc/cpuinfo", "processor\t: 0\n")
	m.write("etc/os-release", "PRETTY_NAME=another\n")
	if again := readHost(t, r); again.NoFans != first.NoFans || again.OS != first.OS || again.CPUModel != first.CPUModel {
		t.Errorf("first %+v, then %+v", first, again)
	}
}

// Sensors are read in the machine's sysfs, which may be elsewhere.
func TestSysfsElsewhere(t *testing.T) {
	m, other := newMachine(t), newMachine(t)
	m.write("sys/class/hwmon/hwmon0/name", "nct6798\n")
	m.write("sys/class/hwmon/hwmon0/fan1_input", "1\n")
	other.write("sys/class/hwmon/hwmon0/name", "nct6775\n")
	other.write("sys/class/hwmon/hwmon0/fan2_input", "812\n")
	r := m.reader(ShowOwn)
	r.sysfs, r.sensors.sysfs = other.root+"/sys", other.root+"/sys"
	if h := readHost(t, r); len(h.Fans) != 1 || h.Fans[0].RPM != gpu.Of[gpu.RPM](812) {
		t.Errorf("got %+v", h.Fans)
	}
}
