package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

const (
	sensorsFor      = time.Minute            // how long the list of sensors is kept
	sensorsEvery    = time.Second            // least time between two readings of a chip: few measure more often
	sensorsPatience = 100 * time.Millisecond // how long a reading waits for all chips
	sensorsLast     = 30 * time.Second       // how long a value is valid while its chip does not answer
	maxFans         = 32
	maxTemperatures = 64
)

// sensors reads the fans and temperatures that the kernel's hwmon drivers report. Some drivers ask slow firmware, and one may hang, so each
// chip is read in the background. A reading waits briefly for the chips whose reads it has started itself. A chip that never answers holds
// up no later reading and no other chip.
type sensors struct {
	sysfs   string // where it is
	timeout timeout
	list    task[listed]
	adopted time.Time // the list that the chips come from
	err     error     // from that list
	chips   []*chip   // chips with sensors, except those that slept
	known   []*chip   // the whole list
	names   map[label]string
}

// A label is the name that a sensor's own chip uses; another chip may use the same name.
type label struct{ file, name string }

type listed struct {
	chips []*chip
	err   error
}

// A chip is one hwmon device.
type chip struct {
	dir, name string
	power     []string // files that say whether a parent device sleeps
	slept     bool     // when listed: its sensors have no labels
	sensors   []sensor
	values    task[[]gpu.Reading[float64]] // values of the sensors; nil: it sleeps
}

// A sensor is one fan or one temperature of a chip.
type sensor struct {
	fan   bool
	name  string // for people
	label string // the same, without regard to other chips
	file  string
	fault string // the file that says whether it is broken; empty: none
}

// readSensors reads the machine's own fans and temperatures.
func (r *Reader) readSensors(ctx context.Context, h *gpu.Host) error {
	now := r.now()
	ctx, cancel := r.sensors.timeout(ctx, sensorsPatience)
	defer cancel()
	err := r.sensors.look(ctx, now)
	r.sensors.ask(ctx, now)
	h.Fans, h.Temperatures = r.sensors.readings(now)
	if _, listed, _ := r.sensors.list.last(); len(h.Fans) == 0 && !listed.IsZero() {
		h.NoFans = r.noFans()
	}
	return err
}

// noFans says why no fan was found.
func (r *Reader) noFans() gpu.Advice {
	_, noSensors := os.Stat(r.sysfs + "/class/hwmon")
	switch {
	case r.virtual():
		return gpu.Advice{
			What: "this is a virtual machine, which has no fans of its own",
			Try:  "run gpuwhy on its host machine",
		}
	case noSensors != nil:
		return gpu.Advice{
			What: "the system exposes no sensors here",
			Try:  "in a container, mount the machine's sysfs and name it with --sysfs-root; otherwise load a driver for the board's sensors",
		}
	}
	return gpu.Advice{
		What: "no fan sensor driver is loaded, or this machine reports no fan",
		Try:  "run sensors-detect as root (package lm-sensors), and load the module it names, for example nct6775 or it87",
	}
}

// isVirtual reports whether the processors report a hypervisor. Reading the file is slow on machines with many processors.
func (r *Reader) isVirtual() bool {
	cpuinfo, err := os.ReadFile(r.path("proc/cpuinfo"))
	return err == nil && slices.ContainsFunc(fieldsOf(cpuinfo, "flags"), func(f []byte) bool { return string(f) == "hypervisor" })
}

// look lists the chips, from time to time.
func (s *sensors) look(ctx context.Context, now time.Time) error {
	if _, begun, _ := s.list.last(); begun.IsZero() || now.Sub(begun).Abs() >= sensorsFor {
		wait(ctx, s.list.start(now, func() listed { return listChips(s.sysfs) }))
	}
	found, begun, _ := s.list.last()
	if begun.Equal(s.adopted) {
		return s.err
	}
	s.adopted, s.err = begun, found.err
	s.name(found.chips)
	s.known = slices.Clone(found.chips)
	found.chips = slices.DeleteFunc(found.chips, func(c *chip) bool { return c.slept || len(c.sensors) == 0 })
	for i, c := range found.chips {
		// A known chip keeps its reads, even if one hangs: it gets no second goroutine.
		was := slices.IndexFunc(s.chips, func(old *chip) bool { return old.dir == c.dir })
		if was < 0 {
			continue
		}
		old := s.chips[was]
		if _, _, busy := old.values.last(); busy || old.name == c.name && slices.Equal(old.sensors, c.sensors) && slices.Equal(old.power, c.power) {
			found.chips[i] = old
		}
	}
	s.chips = found.chips
	return s.err
}

// name gives the sensors of a list distinct names. Sleeping sensors keep theirs too, and so do sensors that already had one: a name must
// not change when another chip falls asleep, or wakes and reports its labels.
func (s *sensors) name(chips []*chip) {
	for _, c := range chips {
		was := slices.IndexFunc(s.known, func(old *chip) bool { return old.dir == c.dir && old.name == c.name })
		if c.slept && was >= 0 {
			c.sensors = slices.Clone(s.known[was].sensors)
			for i := range c.sensors {
				c.sensors[i].name = c.sensors[i].label
			}
		}
	}
	most(chips)
	unique(chips, s.names)
	s.names = map[label]string{}
	for _, c := range chips {
		for _, sensor := range c.sensors {
			s.names[label{sensor.file, sensor.label}] = sensor.name
		}
	}
}

// ask starts reading all chips, and waits until they are read or ctx ends.
func (s *sensors) ask(ctx context.Context, now time.Time) {
	var asked []<-chan struct{}
	for _, c := range s.chips {
		if _, begun, _ := c.values.last(); begun.IsZero() || now.Sub(begun).Abs() >= sensorsEvery {
			asked = append(asked, c.values.start(now, c.read))
		}
	}
	for _, done := range asked {
		wait(ctx, done)
	}
}

// wait waits until done is closed or ctx ends; not at all if done is nil.
func wait(ctx context.Context, done <-chan struct{}) {
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// readings returns the newest readings of all chips.
func (s *sensors) readings(now time.Time) (fans []gpu.HostFan, temperatures []gpu.HostTemperature) {
	for _, c := range s.chips {
		values, begun, busy := c.values.last()
		if values == nil && !begun.IsZero() {
			continue // it sleeps
		}
		for i, sensor := range c.sensors {
			var value gpu.Reading[float64]
			if values != nil {
				value = values[i]
			}
			if busy && value.Present() && now.Sub(begun).Abs() > sensorsLast {
				value = gpu.Absent[float64](gpu.Stale)
			}
			if sensor.fan {
				rpm := gpu.Map(value, func(v float64) gpu.RPM { return gpu.RPM(v) })
				fans = append(fans, gpu.HostFan{Name: sensor.name, Chip: c.name, RPM: rpm})
			} else {
				celsius := gpu.Map(value, func(v float64) gpu.Celsius { return gpu.Celsius(v) })
				temperatures = append(temperatures, gpu.HostTemperature{Name: sensor.name, Chip: c.name, Celsius: celsius})
			}
		}
	}
	slices.SortStableFunc(fans, func(a, b gpu.HostFan) int { return ofCPUFirst(a.Name, b.Name) })
	slices.SortStableFunc(temperatures, func(a, b gpu.HostTemperature) int { return ofCPUFirst(a.Name, b.Name) })
	return fans, temperatures
}

func ofCPUFirst(a, b string) int {
	rank := func(name string) int {
		if strings.HasPrefix(name, "CPU") {
			return 0
		}
		return 1
	}
	return rank(a) - rank(b)
}

// read reads all sensors of a chip; none if a parent device sleeps, which reading would wake.
func (c *chip) read() []gpu.Reading[float64] {
	if asleep(c.power) {
		return nil
	}
	values := make([]gpu.Reading[float64], len(c.sensors))
	for i := range c.sensors {
		values[i] = c.sensors[i].read()
	}
	return values
}

// read returns a fan's RPM, or a temperature in °C.
func (s *sensor) read() gpu.Reading[float64] {
	if s.fault != "" {
		if fault, err := readOnce(s.fault); err == nil && fault == "1" {
			return gpu.Reading[float64]{}
		}
	}
	text, err := readOnce(s.file)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return gpu.Absent[float64](gpu.NotSupported)
		}
		return gpu.Absent[float64](absence(err))
	}
	n, err := strconv.Atoi(text)
	value, low, high := float64(n), 0.0, 30_000.0
	if !s.fan {
		value, low, high = value/1000, -40, 150
	}
	if err != nil || value < low || value > high {
		return gpu.Reading[float64]{} // an input without a connected sensor
	}
	return gpu.Of(value)
}

// asleep reports whether one of the devices sleeps. Reading anything below it would wake it.
func asleep(power []string) bool {
	return slices.ContainsFunc(power, func(file string) bool {
		status, err := readOnce(file)
		return err == nil && (status == "suspended" || status == "suspending")
	})
}

// notOurs are name prefixes of chips that are left out: of GPUs, which their own source reads, and of drives and wireless networks, which
// reading keeps awake.
var notOurs = []string{
	"amdgpu", "radeon", "i915", "xe", "nouveau", "nvidia", "drivetemp", "nvme", "iwlwifi", "mt7", "ath10k", "ath11k", "ath12k", "rtw8",
}

var sensorFile = lazy.Pattern(`^(fan|temp)([0-9]{1,3})_input$`)

// An input is a sensor's file, before the sensor has a name.
type input struct {
	sensor
	number int
	label  string
}

// listChips finds the chips.
func listChips(sysfs string) listed {
	class := sysfs + "/class/hwmon"
	entries, err := os.ReadDir(class)
	if errors.Is(err, fs.ErrNotExist) {
		return listed{} // a kernel without hwmon, or a container
	}
	errs := []error{err}
	var all []*chip
	for _, entry := range entries {
		c, err := listChip(filepath.Join(class, entry.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a chip may disappear while it is listed
			errs = append(errs, fmt.Errorf("%s: %w", entry.Name(), err))
		}
		if c != nil {
			all = append(all, c)
		}
	}
	// By chip; chips of the same kind by the device that they are part of: "coretemp.0".
	slices.SortFunc(all, func(a, b *chip) int {
		parent := func(c *chip) string { return filepath.Dir(filepath.Dir(c.dir)) }
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(len(parent(a)), len(parent(b))), cmp.Compare(parent(a), parent(b)), cmp.Compare(a.dir, b.dir))
	})
	return listed{all, errors.Join(errs...)}
}

// listChip lists the sensors of a chip. It returns nil for a chip that is left out.
func listChip(link string) (*chip, error) {
	dir, err := filepath.EvalSymlinks(link)
	if err != nil {
		return nil, err
	}
	name, err := readOnce(dir + "/name")
	if errors.Is(err, fs.ErrNotExist) { // an old driver has its files in the device folder
		dir += "/device"
		name, err = readOnce(dir + "/name")
	}
	if err != nil || slices.ContainsFunc(notOurs, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return nil, err
	}
	c := &chip{dir: dir, name: short(name)}
	for above := dir; filepath.Base(above) != "devices" && filepath.Dir(above) != above; above = filepath.Dir(above) {
		file := above + "/power/runtime_status"
		if status, err := readOnce(file); err == nil && status != "unsupported" {
			c.power = append(c.power, file)
		}
	}
	c.slept = asleep(c.power)
	files, err := os.ReadDir(dir)
	listed := map[string]bool{}
	for _, f := range files {
		listed[f.Name()] = true
	}
	var inputs []input
	for _, f := range files {
		m := sensorFile().FindStringSubmatch(f.Name())
		if m == nil {
			continue
		}
		in := input{sensor: sensor{fan: m[1] == "fan", file: dir + "/" + f.Name()}}
		in.number, _ = strconv.Atoi(m[2]) // the pattern has only digits here
		if label := m[1] + m[2] + "_label"; listed[label] && !c.slept {
			text, _ := readOnce(dir + "/" + label) // without a label it has a number
			in.label = cleanLabel(text)
		}
		if fault := m[1] + m[2] + "_fault"; listed[fault] {
			in.fault = dir + "/" + fault
		}
		inputs = append(inputs, in)
	}
	slices.SortFunc(inputs, func(a, b input) int { return cmp.Compare(a.number, b.number) })
	c.sensors = named(c.name, inputs)
	return c, err
}

var markup = lazy.Pattern("<[^<>]*>|[<>`]")

// cleanLabel returns a label as one line of text.
func cleanLabel(text string) string {
	return strings.Join(strings.Fields(markup().ReplaceAllString(clean(text), " ")), " ")
}

// most drops sensors beyond the maximum.
func most(chips []*chip) {
	fans, temperatures := 0, 0
	for _, c := range chips {
		c.sensors = slices.DeleteFunc(c.sensors, func(s sensor) bool {
			if s.fan {
				fans++
				return fans > maxFans
			}
			temperatures++
			return temperatures > maxTemperatures
		})
	}
}

// A task is work that may hang, such as reading a driver's file. It runs on its own goroutine, and starts again only after it has ended.
// Its value is the last result.
type task[T any] struct {
	mu    sync.Mutex
	done  chan struct{} // closed when the work ends; nil while none runs
	value T
	begun time.Time // when the work that returned the value began; zero: none has ended
}

// start starts the work, and returns a channel that is closed when it ends: nil if the work is already running.
func (k *task[T]) start(now time.Time, work func() T) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done != nil {
		return nil
	}
	done := make(chan struct{})
	k.done = done
	go func() {
		value := work()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.value, k.begun, k.done = value, now, nil
		close(done)
	}()
	return done
}

func (k *task[T]) last() (value T, begun time.Time, busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.value, k.begun, k.done != nil
}
