// Package fakesmi makes a fake nvidia-smi for tests. It prints what nvidia-smi would print on a made-up machine, and reproduces faults from
// the field.
//
//	m := fakesmi.New(t, "rtx4090-550")
//	smi.Config{Program: m.Program()}
//	m.Set("0000:01:00.0", "temperature.gpu", "83")
//	m.Fault("hang 0000:01:00.0")
//
// A machine consists of the nvidia-smi files of a capture, such as those in sampler/captures: query-gpu has a line for each field that its
// version knows, with a value for each device; query.xml, pmon and list are the output of -q -x, of one round of pmon, and of -L.
//
// The faults, one per line, last until they are healed. ADDRESS is a device's bus address, as the kernel writes it.
//
//	fail CODE TEXT        every command that needs the driver prints TEXT, and ends
//	silent                every command that needs the driver begins and prints nothing
//	hang ADDRESS          a command stops at the device
//	lost ADDRESS          its fields are "[GPU is lost]"
//	lost-ends ADDRESS     a command that begins says that the device is lost, and ends
//	lost-goes-on ADDRESS  it says so, and goes on with the others
//	gone ADDRESS          the device does not exist
//	cut ADDRESS           its line ends in the middle
//	cut-xml               the XML ends after the first device
//	refuse FIELD          the field is listed, but refused
//	noise TEXT            every command prints TEXT first
//	between TEXT          a loop prints TEXT after each line
//	slow MS               each line takes that long
//	once                  a loop prints one line for each device, and ends
//	die                   a loop ends without a word
//	no-pmon               pmon is not supported
//	command WORD KIND     help, query, pmon or xml fails: it is missing, dies or hangs, or its
//	                      output is cut, garbage, or has noise after each line
//	pmon-ms MS            the pause of pmon, instead of a second
package fakesmi

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/captures"
)

// folder is where a capture keeps the output of nvidia-smi.
func folder(machine string) string { return machine + "/raw/nvidia-smi" }

// Names returns the names of all machines.
func Names() (names []string) {
	for _, name := range captures.Names() {
		if _, err := fs.Stat(captures.Files, folder(name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// File returns a file of a machine.
func File(machine, name string) []byte {
	text, _ := fs.ReadFile(captures.Files, folder(machine)+"/"+name)
	return text
}

// A Machine is a folder with its own program. Several goroutines may call its methods.
type Machine struct {
	dir                 string
	SysfsRoot, ProcRoot string // a made-up /sys and /proc with the machine's devices, if wanted

	tb     testing.TB
	mu     sync.Mutex
	faults []string
}

// New makes a machine by its name.
func New(tb testing.TB, name string) *Machine {
	tb.Helper()
	files := map[string][]byte{}
	entries, err := fs.ReadDir(captures.Files, folder(name))
	if err != nil {
		tb.Fatalf("fakesmi: no machine %q", name)
	}
	for _, e := range entries {
		files[e.Name()] = File(name, e.Name())
	}
	return Make(tb, files)
}

// Make makes a machine from files.
func Make(tb testing.TB, files map[string][]byte) *Machine {
	tb.Helper()
	program, err := build()
	if err != nil {
		tb.Fatalf("fakesmi: %v", err)
	}
	m := &Machine{dir: tb.TempDir(), tb: tb, SysfsRoot: tb.TempDir(), ProcRoot: tb.TempDir()}
	for name, text := range files {
		m.write(name, string(text))
	}
	m.write("faults", "")
	m.write("log", "")
	if err := testkit.WriteProgram(m.Program(), program); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Heal() })
	return m
}

// build compiles the program once per process.
var build = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "fakesmi-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "nvidia-smi")
	cmd := exec.Command("go", "build", "-o", file, "github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return os.ReadFile(file)
})

// Dir returns the machine's folder.
func (m *Machine) Dir() string { return m.dir }

// Program returns the program's file.
func (m *Machine) Program() string { return filepath.Join(m.dir, "nvidia-smi") }

// Hide takes the program away; Show brings it back.
func (m *Machine) Hide() { m.check(os.Rename(m.Program(), m.Program()+".hidden")) }

// Show brings the program back.
func (m *Machine) Show() { m.check(os.Rename(m.Program()+".hidden", m.Program())) }

// Write replaces one of the machine's files.
func (m *Machine) Write(name, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(name, text)
}

// write replaces a whole file: a reader never finds half of it.
func (m *Machine) write(name, text string) {
	path := filepath.Join(m.dir, name)
	m.check(os.WriteFile(path+".new", []byte(text), 0o644))
	m.check(os.Rename(path+".new", path))
}

func (m *Machine) check(err error) {
	if err != nil {
		m.tb.Errorf("fakesmi: %v", err)
	}
}

// Read returns one of the machine's files.
func (m *Machine) Read(name string) string {
	text, err := os.ReadFile(filepath.Join(m.dir, name))
	m.check(err)
	return string(text)
}

// Set changes a field of a device, with its unit: "83 %".
func (m *Machine) Set(address, field, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	place, lines := m.place(address), strings.Split(m.Read("query-gpu"), "\n")
	for i, line := range lines {
		key, values, ok := strings.Cut(line, " = ")
		if name, _, _ := strings.Cut(key, " ["); ok && name == field {
			all := strings.Split(values, " | ")
			all[place] = value
			lines[i] = key + " = " + strings.Join(all, " | ")
		}
	}
	m.write("query-gpu", strings.Join(lines, "\n"))
}

// Addresses returns the devices' bus addresses.
func (m *Machine) Addresses() (all []string) {
	for line := range strings.Lines(m.Read("query-gpu")) {
		if values, ok := strings.CutPrefix(strings.TrimSpace(line), "pci.bus_id = "); ok {
			for v := range strings.SplitSeq(values, " | ") {
				all = append(all, strings.ToLower(strings.TrimPrefix(v, "0000")))
			}
		}
	}
	return all
}

func (m *Machine) place(address string) int {
	for i, a := range m.Addresses() {
		if a == address {
			return i
		}
	}
	m.tb.Errorf("fakesmi: no device at %s", address)
	return 0
}

// Fault begins a fault.
func (m *Machine) Fault(fault string) {
	m.change(func() { m.faults = append(m.faults, fault) })
}

// Heal ends the faults that begin with one of the texts, or all faults if none is given.
func (m *Machine) Heal(beginning ...string) {
	m.change(func() {
		var left []string
		for _, f := range m.faults {
			heals := func(b string) bool { return strings.HasPrefix(f, b) }
			if len(beginning) > 0 && !slices.ContainsFunc(beginning, heals) {
				left = append(left, f)
			}
		}
		m.faults = left
	})
}

func (m *Machine) change(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	if _, err := os.Stat(m.dir); err == nil {
		m.write("faults", strings.Join(m.faults, "\n"))
	}
}

// Log returns what the commands did, one event per line: a pid and "start" with the arguments, or "read", "pmon" or "xml" with the address
// of the device being read; if a fault holds the command up, "held" with the command ("query", "pmon", "xml" or "help") and the fault, and
// "released" when it goes on. A loop "rests" while all its devices are gone, and "goes on" when one is back.
func (m *Machine) Log() []string { return strings.Split(strings.TrimSpace(m.Read("log")), "\n") }

// Count returns how many lines of the log contain the text.
func (m *Machine) Count(text string) (n int) {
	for _, line := range m.Log() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Running returns the pids of the machine's commands that have not ended. It needs Linux.
func (m *Machine) Running() (pids []string) {
	seen := map[string]bool{}
	for _, line := range m.Log() {
		pid, what, _ := strings.Cut(line, " ")
		if strings.HasPrefix(what, "start") && !seen[pid] && m.runs(pid) {
			seen[pid] = true
			pids = append(pids, pid)
		}
	}
	return pids
}

func (m *Machine) runs(pid string) bool {
	exe, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
	return err == nil && strings.HasPrefix(exe, m.dir)
}

// Held returns the arguments of the commands that print nothing now: a fault holds them up, or they loop without a device. It needs Linux.
func (m *Machine) Held() (commands []string) {
	args, held := map[string]string{}, map[string]bool{}
	for _, line := range m.Log() {
		pid, text, _ := strings.Cut(line, " ")
		switch what, rest, _ := strings.Cut(text, " "); what {
		case "start":
			args[pid], held[pid] = rest, false
		case "held", "rests":
			held[pid] = true
		case "released", "goes":
			held[pid] = false
		}
	}
	for pid, is := range held {
		if is && m.runs(pid) {
			commands = append(commands, args[pid])
		}
	}
	return commands
}

// Await waits until done reports true; what names it for the test's log.
func (m *Machine) Await(what string, done func() bool) {
	m.tb.Helper()
	testkit.Until(m.tb, what, done)
}

// PlugIn creates the devices' files in /sys and /proc.
func (m *Machine) PlugIn() {
	driver := filepath.Join(m.SysfsRoot, "bus/pci/drivers/nvidia")
	m.check(os.MkdirAll(driver, 0o755))
	for _, address := range m.Addresses() {
		dir := filepath.Join(m.SysfsRoot, "bus/pci/devices", address)
		m.check(os.MkdirAll(filepath.Join(dir, "power"), 0o755))
		m.check(os.MkdirAll(filepath.Join(m.ProcRoot, "driver/nvidia/gpus", address), 0o755))
		for name, text := range map[string]string{"vendor": "0x10de", "device": "0x2684", "class": "0x030000"} {
			m.check(os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644))
		}
		m.check(os.Symlink(dir, filepath.Join(driver, address)))
		m.Sleep(address, false)
		m.AllowSleep(address, false)
	}
}

// Sleep powers a device down or up in the fake /sys. The program would still answer.
func (m *Machine) Sleep(address string, asleep bool) {
	m.power(address, "runtime_status", map[bool]string{true: "suspended", false: "active"}[asleep])
}

// AllowSleep sets whether the system may power the device down when it is idle.
func (m *Machine) AllowSleep(address string, yes bool) {
	m.power(address, "control", map[bool]string{true: "auto", false: "on"}[yes])
}

func (m *Machine) power(address, file, value string) {
	path := filepath.Join(m.SysfsRoot, "bus/pci/devices", address, "power", file)
	m.check(os.WriteFile(path+".new", []byte(value+"\n"), 0o644))
	m.check(os.Rename(path+".new", path))
}
