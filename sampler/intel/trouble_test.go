//go:build linux

package intel

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// TestNoGPU checks that each way to have no GPU says what it is and what to do.
func TestNoGPU(t *testing.T) {
	tests := map[string]struct {
		make func(*drmtest.Machine)
		want error
		what string
	}{
		"nothing":  {func(*drmtest.Machine) {}, gpu.ErrNoDriver, "none of Intel's graphics drivers"},
		"no sysfs": {func(m *drmtest.Machine) { _ = os.RemoveAll(m.Sysfs) }, gpu.ErrNoDriver, "none of Intel's"},
		"another vendor": {func(m *drmtest.Machine) {
			m.Card(0, "0000:01:00.0", "amdgpu", map[string]string{"vendor": "0x1002\n", "device": "0x744c\n"})
		}, gpu.ErrNoDriver, "none of Intel's"},
		"driver without GPU": {func(m *drmtest.Machine) { uhd770(m).Unplug() }, gpu.ErrNoDevices, "they handle no GPU"},
		"no driver": {func(m *drmtest.Machine) {
			c := arcB580(m)
			_, _ = os.Remove(c.File("driver")), os.Remove(filepath.Join(m.Sysfs, "class/drm/card1"))
		}, gpu.ErrNoDriver, "no driver handles the Intel GPU at 0000:03:00.0"},
		"given away": {func(m *drmtest.Machine) {
			m.Card(3, "0000:03:00.0", "vfio-pci", ids("0xe20b"))
			_ = os.Remove(filepath.Join(m.Sysfs, "class/drm/card3"))
		}, gpu.ErrNoDevices, "vfio-pci"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			tt.make(m)
			snap, err := drmtest.Read(t, source(t, m))
			advice, ok := errors.AsType[*gpu.Advice](err)
			if !ok || snap != nil || !errors.Is(err, tt.want) || !strings.Contains(advice.What, tt.what) || advice.Try == "" {
				t.Errorf("%v, %v; want %v with %q", snap, err, tt.want, tt.what)
			}
		})
	}
}

// TestVirtualFunction checks that a card's functions for virtual machines are not listed as cards.
func TestVirtualFunction(t *testing.T) {
	m := drmtest.New(t)
	c := flex170(m)
	v := m.Card(1, "0000:4d:00.1", "i915", ids("0x56c0"))
	if err := os.Symlink(c.Dir, v.File("physfn")); err != nil {
		t.Fatal(err)
	}
	if d := read(t, source(t, m)); d.PCI != c.Address {
		t.Errorf("the GPU is %s", d.PCI)
	}
}

// Each thing that can be wrong with each file of a card costs exactly what it should: no crash, no wrong value that counts as good, and the
// card continues.
func TestEachFile(t *testing.T) {
	cards := map[string]func(*drmtest.Machine) *drmtest.Card{
		"UHD 770": uhd770, "Meteor Lake": meteorLake, "Lunar Lake": lunarLake, "A770": arcA770, "B580": arcB580,
		"Flex": flex170, "Max": max1550,
	}
	faults := map[string]string{
		"empty": "", "text": "no data\n", "2^64-1": "18446744073709551615\n", "2^63-1": "9223372036854775807\n",
		"negative": "-99999999999999\n", "2^32-1": "4294967295\n", "long": strings.Repeat("9",
			5000), "binary": "\x00\xff\x1b[2J\n",
	}
	quiet := func(s *Source) { s.cfg.Log = slog.New(slog.DiscardHandler) }
	for name, plug := range cards {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			plugged := plug(m)
			s := source(t, m)
			quiet(s)
			var files []string
			err := filepath.WalkDir(plugged.Dir, func(file string, e os.DirEntry, err error) error {
				relative, _ := filepath.Rel(plugged.Dir, file)
				if err == nil && e.Type().IsRegular() && !strings.HasPrefix(relative, "power/") {
					files = append(files, relative)
				}
				return err
			})
			if err != nil || len(files) < 15 {
				t.Fatal(files, err)
			}
			fresh := func() gpu.Device {
				s.cards = map[string]*card{}
				read(t, s)
				return read(t, s)
			}
			lasting := func() string { // readings that don't depend on the time
				all := shown(new(fresh()))
				delete(all, "identity.state_since")
				delete(all, "identity.sampled_at")
				return fmt.Sprint(all)
			}
			whole := lasting()
			for _, file := range files {
				good, err := os.ReadFile(plugged.File(file))
				if err != nil {
					t.Fatal(err)
				}
				check := func(what string) {
					d := fresh()
					if d.State != gpu.StateOK {
						t.Errorf("%s of %s: it is %s (%s)", what, file, d.State, d.Reason.Text())
					}
					for _, problem := range sourcetest.Check(&d, clockOf(s).Now()) {
						t.Errorf("%s of %s: %s", what, file, problem)
					}
				}
				for what, text := range faults {
					plugged.Set(map[string]string{file: text})
					check(what)
				}
				plugged.Remove(file)
				check("no file")
				if err := os.Mkdir(plugged.File(file), 0o755); err != nil { // reading it is an error
					t.Fatal(err)
				}
				check("error")
				plugged.Remove(file)
				plugged.Set(map[string]string{file: string(good)})
			}
			if got := lasting(); got != whole {
				t.Errorf("after all faults it reports %s, before %s", got, whole)
			}
		})
	}
}

// TestAllFilesFail checks that the card does not answer if none of the driver's files can be read.
func TestAllFilesFail(t *testing.T) {
	m := drmtest.New(t)
	card := lunarLake(m)
	s := source(t, m)
	read(t, s)
	var files []string
	for _, dir := range []string{"tile0/gt0/freq0", "tile0/gt0/gtidle", "tile0/gt1/freq0", "tile0/gt1/gtidle"} {
		entries, err := os.ReadDir(card.File(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	files = append(files, "tile0/gt0/freq0/throttle/status", "tile0/gt1/freq0/throttle/status")
	good := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(card.File(file))
		if err != nil {
			t.Fatal(err)
		}
		good[file] = string(text)
		card.Remove(file)
		if err := os.Mkdir(card.File(file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d := read(t, s)
	if d.State != gpu.StateNotAnswering || d.Reason.Try == "" || !errors.Is(&d.Reason, gpu.ErrNotAnswering) {
		t.Errorf("it is %s: %s", d.State, d.Reason.Error())
	}
	card.Remove(files...)
	card.Set(good)
	if d := read(t, s); d.State != gpu.StateOK || d.Clocks.MaxGraphics != gpu.Of[gpu.Megahertz](2050) {
		t.Errorf("well again it is %s with %v", d.State, d.Clocks.MaxGraphics)
	}
}

// TestEachFileHangs checks that, whichever file hangs, the other card is read, and that the card returns when the file no longer hangs.
func TestEachFileHangs(t *testing.T) {
	files := []string{
		"tile0/gt0/freq0/act_freq", "tile0/gt0/freq0/throttle/status", "tile0/gt1/gtidle/idle_residency_ms",
		"hwmon/hwmon3/energy1_input", "hwmon/hwmon3/temp2_input", "hwmon/hwmon3/temp3_input", "hwmon/hwmon3/fan1_input",
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := drmtest.New(t)
			uhd770(m)
			card := arcB580(m)
			s := source(t, m)
			drmtest.Answers(t, s)
			good, err := os.ReadFile(card.File(file))
			if err != nil {
				t.Fatal(err)
			}
			m.Hang(card.File(file))
			drmtest.Hangs(t, s, clockOf(s), deadline, 1)
			m.Release(card.File(file), string(good))
			drmtest.Answers(t, s)
		})
	}
}

// TestProcfsHangs checks that a hanging fdinfo makes its own card hang, and not the other one.
func TestProcfsHangs(t *testing.T) {
	m := drmtest.New(t)
	uhd770(m)
	arcB580(m)
	info := xeClient("0000:03:00.0", 3, 1, 0, 0, 100, "")
	m.Open(100, 7, "dri/renderD129", info)
	s := source(t, m)
	drmtest.Answers(t, s)
	file := filepath.Join(m.Proc, "100/fdinfo/7")
	m.Hang(file)
	drmtest.Hangs(t, s, clockOf(s), deadline, 1)
	m.Release(file, info)
	drmtest.Answers(t, s)
}

// TestVanishes checks that a removed card is lost, stays lost, and is new when it is plugged in again; a card taken by another driver is
// another card.
func TestVanishes(t *testing.T) {
	m := drmtest.New(t)
	c := arcB580(m)
	s := source(t, m)
	read(t, s)
	c.Unplug()
	for range 2 {
		if d := read(t,
			s); d.State != gpu.StateLost || d.UUID != "PCI-0000:03:00.0" || d.Name != "Intel Arc B580" || d.Reason.Try == "" {
			t.Errorf("taken out, %s %q is %s", d.UUID, d.Name, d.State)
		}
	}
	c.Plug()
	if d := read(t, s); d.State != gpu.StateOK || d.Power.Draw.Present() {
		t.Errorf("put back it is %s with %v", d.State, d.Power.Draw)
	}
	other := filepath.Join(m.Sysfs, "bus/pci/drivers/vfio-pci")
	if err := errors.Join(os.MkdirAll(other, 0o755), os.Remove(c.File("driver")), os.Symlink(other,
		c.File("driver"))); err != nil {
		t.Fatal(err)
	}
	if d := read(t, s); d.State != gpu.StateLost {
		t.Errorf("with another driver it is %s", d.State)
	}
}

// TestProcessesComeAndGo checks that processes that change while their list is read cost nothing else.
func TestProcessesComeAndGo(t *testing.T) {
	m := drmtest.New(t)
	arcB580(m)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			pid := 100 + int(i%7)
			m.Open(pid, 7, "dri/renderD129", xeClient("0000:03:00.0", i%7, i, 0, 0, 100+i, "drm-resident-vram0:\t1 MiB\n"))
			if i%3 == 0 {
				m.Exit(pid)
			}
		}
	}()
	s := source(t, m)
	for range 8 {
		d := after(t, s, time.Second)
		if d.State != gpu.StateOK {
			t.Errorf("it is %s", d.State)
		}
		for _, problem := range sourcetest.Check(&d, clockOf(s).Now()) {
			t.Error(problem)
		}
	}
	close(stop)
	<-done
}

func TestDraw(t *testing.T) {
	now := time.Now()
	joules := func(j float64) gpu.Reading[gpu.Joules] { return gpu.Of(gpu.Joules(j)) }
	var none gpu.Reading[gpu.Watts]
	steps := []struct {
		name   string
		energy gpu.Reading[gpu.Joules]
		wrap   gpu.Joules
		after  time.Duration
		want   gpu.Reading[gpu.Watts]
	}{
		{"the first", joules(1000), 0, 0, none},
		{"a second later", joules(1100), 0, time.Second, gpu.Of[gpu.Watts](100)},
		{"too soon", joules(1190), 0, 10 * time.Millisecond, gpu.Of[gpu.Watts](100)},
		{"counted from the last one used", joules(1300), 0, 1990 * time.Millisecond, gpu.Of[gpu.Watts](100)},
		{"the counter began anew", joules(5), 0, time.Second, none},
		{"and goes on", joules(10), 0, time.Second, gpu.Of[gpu.Watts](5)},
		{"it wraps", joules(3), 20, time.Second, gpu.Of[gpu.Watts](13)},
		{"after too long", joules(9000), 0, 10 * time.Minute, none},
		{"not permitted", gpu.Absent[gpu.Joules](gpu.NotPermitted), 0, time.Second, gpu.Absent[gpu.Watts](gpu.NotPermitted)},
		{"again the first", joules(9100), 0, time.Second, none},
		{"doubtful", gpu.DoubtfulOf(gpu.Joules(1e18)), 0, time.Second, none},
		{"again", joules(9200), 0, time.Second, none},
		{"more than there is", joules(9e9), 0, time.Second, gpu.DoubtfulOf(gpu.Watts(9e9 - 9200))},
		{"the clock goes back", joules(9e9), 0, -time.Hour, none},
	}
	var d draw
	for _, step := range steps {
		now = now.Add(step.after)
		if got := d.measure(step.energy, step.wrap, now); got != step.want {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
	if got := plausible(gpu.Of[gpu.Watts](600), gpu.Of[gpu.Watts](190)); got != gpu.DoubtfulOf[gpu.Watts](600) {
		t.Errorf("600 W of 190 are %v", got)
	}
}

func TestThrottle(t *testing.T) {
	m := drmtest.New(t)
	c := lunarLake(m)
	s := source(t, m)
	const everything = gpu.ReasonHardwareThermal | gpu.ReasonBoardLimit | gpu.ReasonPowerCap | gpu.ReasonHardwareSlowdown
	dir := "tile0/gt0/freq0/throttle/"
	all := map[string]string{}
	for _, reason := range []string{"pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"} {
		all[dir+"reason_"+reason] = "1\n"
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  gpu.Reading[gpu.ClockEventReasons]
	}{
		{"nothing", nil, gpu.Of[gpu.ClockEventReasons](0)},
		{"over already", map[string]string{dir + "status": "1\n"}, gpu.Of[gpu.ClockEventReasons](0)},
		{"an unknown one", map[string]string{dir + "reason_flux": "1\n"}, gpu.Reading[gpu.ClockEventReasons]{}},
		{"and heat", map[string]string{dir + "reason_soc_thermal": "1\n"}, gpu.Of(gpu.ReasonHardwareThermal)},
		{"and the other gt", map[string]string{"tile0/gt1/freq0/throttle/status": "1\n",
			"tile0/gt1/freq0/throttle/reason_vr_tdc": "1\n"}, gpu.Of(gpu.ReasonHardwareThermal | gpu.ReasonBoardLimit)},
		{"all", merge(all, map[string]string{dir + "reason_p0_freq": "1\n"}),
			gpu.DoubtfulOf(everything)},
	} {
		c.Set(tt.files)
		if d := read(t, s); d.Clocks.EventReasons != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, d.Clocks.EventReasons, tt.want)
		}
	}
}

func FuzzWindowSize(f *testing.F) {
	for _, text := range []string{drmtest.ArcResources, "", "\n\n0x0 0x0 0x0", "\n\n0x0 0xffffffffffffffff 0x0",
		"\n\n0x2 0x1 0x0", "\n\nx y z"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if v, ok := windowSize(text, 2).Trusted(); ok && (v == 0 || v > 1<<50) {
			t.Errorf("%d bytes", v)
		}
	})
}

// FuzzFile checks that, whatever a file says, no good reading is out of bounds.
func FuzzFile(f *testing.F) {
	names := []string{"hwmon/hwmon3/temp2_input", "hwmon/hwmon3/energy1_input", "hwmon/hwmon3/power1_max",
		"hwmon/hwmon3/fan1_input", "tile0/gt0/freq0/act_freq", "tile0/gt0/gtidle/idle_residency_ms",
		"hwmon/hwmon3/temp2_label", "tile0/gt0/gtidle/name"}
	for i, text := range []string{"52000\n", "5000000000\n", "0\n", "1500\n", "2850\n", "18446744073709551615\n",
		"pkg\n", "gt0-mc\n"} {
		f.Add(uint8(i), text)
	}
	m := drmtest.New(f)
	card := arcB580(m)
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		name := names[int(which)%len(names)]
		good, err := os.ReadFile(card.File(name))
		if err != nil {
			t.Fatal(err)
		}
		write := func(text string) {
			if err := os.WriteFile(card.File(name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(text)
		defer write(string(good))
		s := source(t, m)
		read(t, s)
		d := read(t, s)
		for _, problem := range sourcetest.Check(&d, clockOf(s).Now()) {
			t.Error(problem)
		}
		if v, ok := d.Power.Draw.Trusted(); ok && (math.IsNaN(float64(v)) || v < 0) {
			t.Errorf("%v W", v)
		}
	})
}

// TestLimitOfAnotherPart checks that the chip's limit is not taken for the card's.
func TestLimitOfAnotherPart(t *testing.T) {
	m := drmtest.New(t)
	c := arcB580(m)
	c.Remove("hwmon/hwmon3/power1_cap", "hwmon/hwmon3/power1_max", "hwmon/hwmon3/power1_crit", "hwmon/hwmon3/power1_label")
	if d := read(t, source(t,
		m)); d.Power.EnforcedLimit.Quality() != gpu.NotSupported || d.Power.Energy != gpu.Of[gpu.Joules](5000) {
		t.Errorf("the limit is %v, the energy %v", d.Power.EnforcedLimit, d.Power.Energy)
	}
	// Alchemist with xe has only the chip's sensors.
	c.Remove("hwmon/hwmon3/energy1_input", "hwmon/hwmon3/energy1_label")
	if d := read(t, source(t, m)); d.Power.EnforcedLimit != gpu.Of[gpu.Watts](150) || d.Power.Energy != gpu.Of[gpu.Joules](3000) {
		t.Errorf("the limit is %v, the energy %v", d.Power.EnforcedLimit, d.Power.Energy)
	}
}

// TestIdleState checks that the upper bound is known only if the counters of all parts are plausible.
func TestIdleState(t *testing.T) {
	m := drmtest.New(t)
	c := lunarLake(m)
	card := newCard(cards(t, m)[0], &Config{ProcRoot: m.Proc, SysfsRoot: m.Sysfs, Read: drm.ReadFile,
		Log: slog.New(slog.DiscardHandler)})
	parts := gts(&card.Card, true)
	now := time.Now()
	var i idling
	for _, tt := range []struct {
		name     string
		gt0, gt1 string
		bound    gpu.Percent
		known    bool
	}{
		{"the first", "1000", "2000", 0, false},
		{"all idle", "2000", "3000", 0, true},
		{"one awake", "2500", "4000", 50, true},
		{"both awake", "2500", "4000", 100, true},
		{"a little more than the time", "3520", "5020", 0, true},
		{"another unit", "5000", "6020", 0, false},
		{"began anew", "10", "7020", 0, false},
		{"and goes on", "510", "8020", 50, true},
		{"text", "x", "9020", 0, false},
		{"again the first", "1510", "10020", 0, false},
	} {
		now = now.Add(time.Second)
		c.Set(map[string]string{"tile0/gt0/gtidle/idle_residency_ms": tt.gt0 + "\n",
			"tile0/gt1/gtidle/idle_residency_ms": tt.gt1 + "\n"})
		if bound, known := i.busy(parts, now); known != tt.known || math.Abs(float64(bound-tt.bound)) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, bound, known, tt.bound, tt.known)
		}
	}
}

// TestBeyondSense checks that impossible values for this kind of GPU are doubtful.
func TestBeyondSense(t *testing.T) {
	m := drmtest.New(t)
	c := arcB580(m)
	s := source(t, m)
	read(t, s)
	clockOf(s).Advance(10 * time.Second)
	c.Set(map[string]string{"tile0/gt0/freq0/act_freq": "8516\n", "hwmon/hwmon3/temp2_input": "255000\n",
		"hwmon/hwmon3/energy1_input": "15000000000\n"})
	d := read(t, s)
	for what, r := range map[string]catalog.Ref{"clock": &d.Clocks.Graphics, "temperature": &d.Thermal.GPU,
		"draw": &d.Power.Draw} {
		if r.Quality() != gpu.Doubtful {
			t.Errorf("the %s is %v, want doubtful", what, r)
		}
	}
}

// TestNotPermitted checks that readings without permission say so instead of being missing.
func TestNotPermitted(t *testing.T) {
	m := drmtest.New(t)
	uhd770(m)
	domain := graphicsDomain(m.Sysfs)
	if err := os.Chmod(filepath.Join(domain.Path, "energy_uj"), 0); err != nil {
		t.Fatal(err)
	}
	var energy gpu.Reading[gpu.Joules]
	done := make(chan struct{})
	go func() { // on a thread that ends with it and is not shared
		defer close(done)
		runtime.LockOSThread()
		_ = unix.Setfsuid(65534)
		energy, _ = domainJoules(domain)
	}()
	<-done
	if energy.Quality() != gpu.NotPermitted {
		t.Errorf("the energy is %v", energy)
	}
	c := &card{}
	c.hidesPower.Store(true)
	if all := notes([]*card{{}, c}); len(all) != 1 || all[0].Try == "" {
		t.Errorf("the notes are %v", all)
	}
}

// On a system without sysfs this source finds no card.
func TestElsewhere(t *testing.T) {
	s := New(Config{Deadline: time.Second})
	defer s.Close()
	if snap, err := s.Read(t.Context()); snap != nil || !errors.Is(err, gpu.ErrNoCard) || !strings.Contains(gpu.AsAdvice(err).What, "only on Linux") {
		t.Errorf("%v %v", snap, err)
	}
}
