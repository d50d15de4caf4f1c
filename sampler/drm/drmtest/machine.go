//go:build unix

package drmtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// A Machine has its own roots of sysfs and procfs.
type Machine struct {
	Sysfs, Proc string
	t           testing.TB
	files       int
}

// New returns a machine without cards and processes.
func New(t testing.TB) *Machine {
	root := t.TempDir()
	return In(t, filepath.Join(root, "sys"), filepath.Join(root, "proc"))
}

// In returns a machine below existing roots, which may already have other cards.
func In(t testing.TB, sysfs, proc string) *Machine {
	m := &Machine{Sysfs: sysfs, Proc: proc, t: t}
	for _, dir := range []string{"class/drm", "bus/pci/devices", "bus/pci/drivers", "dev/char", "devices"} {
		m.mkdir(filepath.Join(m.Sysfs, dir))
	}
	m.mkdir(m.Proc)
	return m
}

func (m *Machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *Machine) mkdir(dir string) {
	m.t.Helper()
	m.must(os.MkdirAll(dir, 0o755))
}

// Write writes a file in one step: a reader sees the old text or the new.
func (m *Machine) Write(file, text string) {
	m.t.Helper()
	m.replace(file, func(name string) error { return os.WriteFile(name, []byte(text), 0o600) })
}

// Hang makes readers of the file wait until Release.
func (m *Machine) Hang(file string) {
	m.t.Helper()
	m.replace(file, func(name string) error { return syscall.Mkfifo(name, 0o600) })
}

// Release lets the waiting readers go on, and gives the file a text.
func (m *Machine) Release(file, text string) {
	m.t.Helper()
	was := file + ".released"
	m.must(os.Rename(file, was))
	m.Write(file, text)
	testkit.Until(m.t, "nobody waits for "+file, func() bool {
		fd, err := syscall.Open(was, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return true // nobody reads it
		}
		_, _ = syscall.Write(fd, []byte(text)) // the reader may have gone
		_ = syscall.Close(fd)
		return false
	})
	m.must(os.Remove(was))
}

// Fail makes reading the file fail with EIO or EACCES, even for root.
func (m *Machine) Fail(file string, errno syscall.Errno) {
	m.t.Helper()
	fails := map[syscall.Errno]string{
		syscall.EIO:    "/proc/self/mem",           // nothing is mapped at its start
		syscall.EACCES: "/proc/sys/vm/drop_caches", // writable but not readable
	}
	m.replace(file, func(name string) error { return os.Symlink(fails[errno], name) })
}

func (m *Machine) replace(file string, create func(string) error) {
	m.t.Helper()
	m.mkdir(filepath.Dir(file))
	m.files++
	next := filepath.Join(m.Sysfs, fmt.Sprintf(".new%d", m.files))
	m.must(create(next))
	m.must(os.Rename(next, file))
}

func (m *Machine) link(name, target string) {
	m.t.Helper()
	m.mkdir(filepath.Dir(name))
	relative, err := filepath.Rel(filepath.Dir(name), target)
	m.must(err)
	_ = os.Remove(name) // it may not exist
	m.must(os.Symlink(relative, name))
}

// A Card is a card of the machine.
type Card struct {
	*Machine
	Address, Driver string
	Nodes           []string
	Dir             string // of the PCI device
	unplugged       string
}

// Card plugs a card in: number 0 has the nodes card0 and renderD128. The bridges above it are named from the root port down. files are the
// device's files, such as "vendor" and "hwmon/hwmon3/temp1_input".
func (m *Machine) Card(number int, address, driver string, files map[string]string, bridges ...string) *Card {
	m.t.Helper()
	dir := filepath.Join(append([]string{m.Sysfs, "devices/pci" + address[:7]}, bridges...)...)
	for i := range bridges {
		bridge := filepath.Join(append([]string{m.Sysfs, "devices/pci" + address[:7]}, bridges[:i+1]...)...)
		m.link(filepath.Join(m.Sysfs, "bus/pci/devices", bridges[i]), bridge)
	}
	c := &Card{
		Machine: m, Address: address, Driver: driver, Dir: filepath.Join(dir, address),
		Nodes: []string{fmt.Sprint("card", number), fmt.Sprint("renderD", 128+number)},
	}
	m.mkdir(c.Dir)
	c.plug()
	c.Set(map[string]string{"power/runtime_status": "active\n", "power/control": "on\n", "class": "0x030000\n"})
	c.Set(files)
	return c
}

func (c *Card) plug() {
	c.t.Helper()
	driver := filepath.Join(c.Sysfs, "bus/pci/drivers", c.Driver)
	c.mkdir(driver)
	c.link(filepath.Join(c.Dir, "driver"), driver)
	c.link(filepath.Join(driver, c.Address), c.Dir)
	c.link(filepath.Join(c.Sysfs, "bus/pci/devices", c.Address), c.Dir)
	for _, node := range c.Nodes {
		dir := filepath.Join(c.Dir, "drm", node)
		c.mkdir(dir)
		c.link(filepath.Join(dir, "device"), c.Dir)
		c.link(filepath.Join(c.Sysfs, "class/drm", node), dir)
		minor := strings.TrimPrefix(strings.TrimPrefix(node, "card"), "renderD")
		c.link(filepath.Join(c.Sysfs, "dev/char/226:"+minor), dir)
	}
}

func (c *Card) links() []string {
	all := []string{
		filepath.Join(c.Sysfs, "bus/pci/drivers", c.Driver, c.Address),
		filepath.Join(c.Sysfs, "bus/pci/devices", c.Address),
	}
	for _, node := range c.Nodes {
		all = append(all, filepath.Join(c.Sysfs, "class/drm", node))
	}
	return all
}

// Unplug takes the card out of the machine; Plug puts it back.
func (c *Card) Unplug() {
	c.t.Helper()
	for _, link := range c.links() {
		c.must(os.Remove(link))
	}
	c.unplugged = filepath.Join(c.Sysfs, "unplugged-"+c.Address)
	c.must(os.Rename(c.Dir, c.unplugged))
}

// Plug puts the card back.
func (c *Card) Plug() {
	c.t.Helper()
	c.must(os.Rename(c.unplugged, c.Dir))
	c.plug()
}

// File returns the path of one of the device's files.
func (c *Card) File(name string) string { return filepath.Join(c.Dir, name) }

// Files returns the device's files with their texts.
func (c *Card) Files() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	c.must(filepath.WalkDir(c.Dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		all[strings.TrimPrefix(file, c.Dir+"/")] = string(text)
		return err
	}))
	return all
}

// Set writes files of the device.
func (c *Card) Set(files map[string]string) {
	c.t.Helper()
	for name, text := range files {
		c.Write(c.File(name), text)
	}
}

// Remove removes files of the device.
func (c *Card) Remove(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.must(os.RemoveAll(c.File(name)))
	}
}

// Sleep powers the card down; Wake powers it up.
func (c *Card) Sleep() {
	c.t.Helper()
	c.Set(map[string]string{"power/control": "auto\n", "power/runtime_status": "suspended\n"})
}

// Wake powers the card up.
func (c *Card) Wake() {
	c.t.Helper()
	c.Set(map[string]string{"power/runtime_status": "active\n"})
}

// Open makes a process open a file of /dev, such as "dri/renderD128", with the given fdinfo.
func (m *Machine) Open(pid, descriptor int, file, info string) {
	m.t.Helper()
	dir := filepath.Join(m.Proc, strconv.Itoa(pid))
	m.mkdir(filepath.Join(dir, "fd"))
	name := filepath.Join(dir, "fd", strconv.Itoa(descriptor))
	_ = os.Remove(name) // it may be open already
	m.must(os.Symlink("/dev/"+file, name))
	m.Write(filepath.Join(dir, "fdinfo", strconv.Itoa(descriptor)), "pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t1\n"+info)
}

// Exit ends a process.
func (m *Machine) Exit(pid int) {
	m.t.Helper()
	m.must(os.RemoveAll(filepath.Join(m.Proc, strconv.Itoa(pid))))
}
