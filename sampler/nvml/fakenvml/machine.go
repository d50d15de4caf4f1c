package fakenvml

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

const anyGPU = -1

// A Machine is what a library reports: a driver and its GPUs. Several goroutines may call its methods. The driver's next call sees each
// change, and so do hanging calls.
type Machine struct {
	target
	GPUs                []*Device
	SysfsRoot, ProcRoot string // a made-up /sys and /proc with the machine's GPUs

	tb   testing.TB
	lib  *Library
	base *control // the counters when the machine began; counting starts from them

	mu    sync.Mutex
	facts map[string]string
	rules []string // as in the state file

	together bool // while set, write does nothing
	epoch    int
}

// A Device is one GPU of a machine.
type Device struct {
	target
	UUID, PCI string // as set when the machine began
	facts     GPU
	xids      int // raised so far
}

// Machine replaces the library's machine, with the driver loaded. When the test ends, no call hangs any more.
func (l *Library) Machine(tb testing.TB, gpus ...GPU) *Machine {
	tb.Helper()
	if len(gpus) > maxGPUs {
		tb.Fatalf("fakenvml: %d GPUs, at most %d", len(gpus), maxGPUs)
	}
	m := &Machine{
		SysfsRoot: tb.TempDir(),
		ProcRoot:  tb.TempDir(),
		tb:        tb,
		lib:       l,
		facts: map[string]string{
			"driver": "550.54.15", "nvml": "12.550.54.15", "cuda": "12040", "loaded": "1", "gpus": fmt.Sprint(len(gpus)),
		},
	}
	m.target = target{m, anyGPU}
	m.base = m.control()
	for i, g := range gpus {
		m.GPUs = append(m.GPUs, &Device{target: target{m, i}, UUID: g[UUID], PCI: g[PCI], facts: maps.Clone(g)})
	}
	m.check(m.plugIn())
	m.write()
	tb.Cleanup(m.Heal)
	return m
}

// GPU returns the i-th GPU.
func (m *Machine) GPU(i int) *Device { return m.GPUs[i] }

// SetProcessRow sets the size of a row of the _v3 process lists in bytes: 24 as documented, 32 as in drivers 535.43 to 535.86.
func (m *Machine) SetProcessRow(bytes int) { m.setFact("process_row", fmt.Sprint(bytes)) }

// SetDriver replaces the driver's version.
func (m *Machine) SetDriver(version string) {
	m.change(func() { m.facts["driver"], m.facts["nvml"] = version, "12."+version })
}

// Count makes the driver find only the first gpus of its GPUs.
func (m *Machine) Count(gpus int) { m.setFact("gpus", fmt.Sprint(gpus)) }

// Unload unloads the driver: init returns NVML_ERROR_DRIVER_NOT_LOADED, and an initialized library returns NVML_ERROR_UNKNOWN, as in a
// container that has lost its GPUs.
func (m *Machine) Unload() { m.setFact("loaded", "0") }

// SetTime stops the driver's clock at t. Without it, the driver uses the system's clock.
func (m *Machine) SetTime(t time.Time) { m.setFact("time", fmt.Sprint(t.UnixMicro())) }

// Load loads the driver.
func (m *Machine) Load() { m.setFact("loaded", "1") }

// Reload loads the driver again: an initialized library returns NVML_ERROR_UNKNOWN until it is shut down and initialized again.
func (m *Machine) Reload() {
	m.change(func() {
		m.epoch++
		m.facts["epoch"] = fmt.Sprint(m.epoch)
	})
}

func (m *Machine) setFact(key, value string) { m.change(func() { m.facts[key] = value }) }

// Heal undoes Hang, Slow, Answer and Lost on every GPU.
func (m *Machine) Heal() { m.change(func() { m.rules = nil }) }

// AwaitHeld waits until n calls hang.
func (m *Machine) AwaitHeld(n int64) {
	m.tb.Helper()
	testkit.Until(m.tb, "calls to hang", func() bool { return m.Counters().Held >= n })
}

// Await waits until done reports true; what names it for the test's log.
func (m *Machine) Await(what string, done func() bool) {
	m.tb.Helper()
	testkit.Until(m.tb, what, done)
}

// plugIn creates the GPUs' files in /sys and /proc.
func (m *Machine) plugIn() error {
	driver := filepath.Join(m.SysfsRoot, "bus/pci/drivers/nvidia")
	err := os.MkdirAll(driver, 0o755)
	for _, d := range m.GPUs {
		dir := filepath.Join(m.devices(), d.PCI)
		err = cmp.Or(err,
			os.MkdirAll(filepath.Join(dir, "power"), 0o755),
			os.MkdirAll(filepath.Join(m.ProcRoot, "driver/nvidia/gpus", d.PCI), 0o755),
			os.WriteFile(filepath.Join(dir, "vendor"), []byte("0x10de\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "device"), []byte("0x2684\n"), 0o644),
			os.WriteFile(filepath.Join(dir, "class"), []byte("0x030000\n"), 0o644),
			os.Symlink(driver, filepath.Join(dir, "driver")),
			os.Symlink(dir, filepath.Join(driver, d.PCI)),
		)
		d.Wake()
		d.AllowSleep(false)
	}
	return err
}

func (m *Machine) devices() string { return filepath.Join(m.SysfsRoot, "bus/pci/devices") }

// change makes a change, and replaces the state file.
func (m *Machine) change(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	if !m.together {
		m.write()
	}
}

// Together makes changes that the driver sees as one.
func (m *Machine) Together(do func()) {
	m.hold(true)
	defer m.change(func() {})
	defer m.hold(false)
	do()
}

func (m *Machine) hold(together bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.together = together
}

// write replaces the state file. The caller holds mu.
func (m *Machine) write() {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m.facts)) {
		fmt.Fprintf(&b, "machine %s %s\n", key, m.facts[key])
	}
	for i, d := range m.GPUs {
		for _, key := range slices.Sorted(maps.Keys(d.facts)) {
			for _, part := range [...]string{"gpu ", strconv.Itoa(i), " ", string(key), " ", d.facts[key], "\n"} {
				b.WriteString(part)
			}
		}
	}
	b.WriteString(strings.Join(m.rules, ""))
	m.check(replace(filepath.Join(m.lib.dir, "state"), b.String()))
	m.publish()
}

// replace replaces a whole file: a reader never finds half of it.
func replace(path, text string) error {
	return cmp.Or(os.WriteFile(path+".new", []byte(text), 0o644), os.Rename(path+".new", path))
}

func (m *Machine) check(err error) {
	if err != nil {
		m.tb.Errorf("fakenvml: %v", err)
	}
}

// A target is what calls are for: one GPU of a machine, or all GPUs and none.
type target struct {
	m   *Machine
	gpu int
}

// Hang makes the functions (default: all) hang until Heal or Back.
func (t target) Hang(functions ...string) { t.rule("hang", functions) }

// Slow makes each call of the functions (default: all) take that much longer.
func (t target) Slow(delay time.Duration, functions ...string) {
	t.rule(fmt.Sprintf("slow %d", delay.Milliseconds()), functions)
}

// Answer makes the functions (default: all) return an NVML code.
func (t target) Answer(code int, functions ...string) {
	t.rule(fmt.Sprintf("return %d", code), functions)
}

func (t target) rule(action string, functions []string) {
	if len(functions) == 0 {
		functions = []string{"*"}
	}
	t.m.change(func() {
		for _, f := range functions {
			t.m.rules = append(t.m.rules, fmt.Sprintf("%s%s %s\n", t.prefix(), f, action))
		}
	})
}

// prefix begins the rules for a target.
func (t target) prefix() string {
	if t.gpu == anyGPU {
		return "rule * "
	}
	return fmt.Sprintf("rule %d ", t.gpu)
}

// Calls returns how often the functions (default: all) were called since the machine began, over all processes.
func (t target) Calls(functions ...string) int { return t.m.calls(t.gpu, functions) }

// Set changes a reading. Numbers are in NVML's own units; see the keys.
func (d *Device) Set(key Key, value any) { d.SetAll(map[Key]any{key: value}) }

// SetAll changes several readings at once.
func (d *Device) SetAll(values map[Key]any) {
	d.m.change(func() {
		for key, value := range values {
			d.facts[key] = fmt.Sprint(value)
		}
	})
}

// Unset makes readings unsupported by the device.
func (d *Device) Unset(keys ...Key) { d.m.change(func() { d.facts = d.facts.Without(keys...) }) }

// SetProcesses replaces the processes and their usage samples. Each process that uses something has one sample, taken whenever the driver
// is asked.
func (d *Device) SetProcesses(processes ...Process) {
	d.m.change(func() { d.facts.setProcesses(processes) })
}

// SetAccounted replaces the processes that the accounting mode remembers.
func (d *Device) SetAccounted(processes ...Accounted) {
	d.m.change(func() { d.facts.setAccounted(processes) })
}

// RaiseXID makes the driver report an XID error of the device, such as 79.
func (d *Device) RaiseXID(code int) {
	d.m.change(func() {
		d.facts[Key(fmt.Sprintf("xid%03d", d.xids))] = fmt.Sprint(code)
		d.xids++
	})
}

// Lost takes the device off the bus.
func (d *Device) Lost() { d.Answer(15) } // NVML_ERROR_GPU_IS_LOST

// Back undoes Hang, Slow, Answer and Lost on this device.
func (d *Device) Back() {
	d.m.change(func() {
		d.m.rules = slices.DeleteFunc(d.m.rules, func(r string) bool { return strings.HasPrefix(r, d.prefix()) })
	})
}

// Sleep powers the device down in the fake /sys. The library would still answer; Calls shows whether somebody called it.
func (d *Device) Sleep() { d.power("runtime_status", "suspended") }

// Wake powers the device up in the fake /sys.
func (d *Device) Wake() { d.power("runtime_status", "active") }

// AllowSleep sets in the fake /sys whether the system may power the device down when it is idle, as on a laptop. Initially it may not.
func (d *Device) AllowSleep(yes bool) {
	control := "on"
	if yes {
		control = "auto"
	}
	d.power("control", control)
}

func (d *Device) power(file, value string) {
	d.m.check(replace(filepath.Join(d.m.devices(), d.PCI, "power", file), value+"\n"))
}
