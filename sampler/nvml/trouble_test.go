//go:build linux && cgo

package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// recorder is a log that a test can read.
type recorder struct {
	mu      sync.Mutex
	records []slog.Record
}

func (r *recorder) use(c *Config)                            { c.Log = slog.New(r) }
func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }
func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	return nil
}

func (r *recorder) count(message string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.records {
		if record.Message == message {
			n++
		}
	}
	return n
}

// loud counts the messages that an operator sees at the usual level: warnings and above.
func (r *recorder) loud() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range r.records {
		if record.Level >= slog.LevelWarn {
			n++
		}
	}
	return n
}

// TestOneLinePerDevice checks that, however many functions fail, the log has one line per device when that begins and one when it is over,
// and that initializing the library again repeats none.
func TestOneLinePerDevice(t *testing.T) {
	four := func() (gpus []fakenvml.GPU) {
		for i := range 4 {
			gpus = append(gpus, fakenvml.H100().At(0x18+i))
		}
		return gpus
	}
	open := func(t *testing.T) (*fakenvml.Machine, *Source, *recorder) {
		m, log := machine(t, four()...), &recorder{}
		s := source(t, m, log.use)
		read(t, s)
		return m, s, log
	}
	check := func(t *testing.T, log *recorder, when string, begun, over int) {
		t.Helper()
		if a, b, all := log.count("readings fail"), log.count("all readings work again"), log.loud(); a != begun || b != over || all != begun {
			t.Errorf("%s the log has %d lines of readings that fail and %d that they work, %d warnings in all; want %d, %d, %d", when, a, b, all, begun, over, begun)
		}
	}
	t.Run("a device", func(t *testing.T) {
		m, s, log := open(t)
		m.GPU(2).Answer(int(timeout))
		for range 3 {
			read(t, s)
		}
		check(t, log, "while it fails", 1, 0)
		m.GPU(2).Back()
		read(t, s)
		check(t, log, "then", 1, 1)
	})
	t.Run("all devices, initialized anew", func(t *testing.T) {
		m, s, log := open(t)
		for _, d := range m.GPUs {
			d.Answer(int(timeout))
		}
		for range 8 {
			read(t, s)
			pass(s, seldom+time.Second)
		}
		if n := m.Calls("nvmlInit_v2"); n < 3 {
			t.Fatalf("%d initializations, want several", n)
		}
		check(t, log, "while they fail", 4, 0)
		m.Heal()
		until(t, s, "all answer", allOK)
		check(t, log, "then", 4, 4)
	})
	t.Run("the driver is taken away", func(t *testing.T) {
		m, s, log := open(t)
		for range 3 {
			m.Unload()
			until(t, s, "an error", func(_ *gpu.Snapshot, err error) bool { return err != nil })
			pass(s, seldom+time.Second)
		}
		check(t, log, "without the driver", 4, 0)
		m.Load()
		until(t, s, "all answer", allOK)
		check(t, log, "with it", 4, 4)
	})
	t.Run("a few functions, asked now and then", func(t *testing.T) {
		m, s, log := open(t)
		m.GPU(0).Answer(int(unknown), "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMigMode", "nvmlDeviceGetClockInfo")
		s.session.devices[0].due["state"] = time.Time{}
		for range 3 {
			read(t, s)
		}
		m.GPU(0).Back()
		read(t, s)
		check(t, log, "while one was not asked again", 1, 0)
		s.session.devices[0].due["state"] = time.Time{}
		read(t, s)
		check(t, log, "then", 1, 1)
	})
}

// TestFallbackIsForgotten checks that a function that is only called when another fails does not stay failed forever.
func TestFallbackIsForgotten(t *testing.T) {
	const call = "nvmlDeviceGetFanSpeed"
	now := time.Now()
	d := &device{record: &record{}, log: slog.New(slog.DiscardHandler)}
	d.began, d.failing = now, map[string]failure{call: {unknown, now}}
	d.report(success)
	if !slices.Equal(d.logged, []string{call}) {
		t.Errorf("at once %v, want the function", d.logged)
	}
	d.began = now.Add(2*seldom + time.Second)
	d.report(success)
	if len(d.logged) != 0 || len(d.failing) != 0 {
		t.Errorf("later %v, want none", d.logged)
	}
}

func TestInitErrors(t *testing.T) {
	tests := map[int]error{
		int(driverNotLoaded): gpu.ErrNoDriver,
		int(versionMismatch): gpu.ErrVersionMismatch,
		int(noPermission):    gpu.ErrNotPermitted,
		int(unknown):         gpu.ErrNoDriver,
		int(timeout):         gpu.ErrNotAnswering,
	}
	for c, want := range tests {
		t.Run(code(c).String(), func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090())
			s := source(t, m)
			m.Answer(c, "nvmlInit_v2")
			snap, err := try(t, s)
			advice, ok := errors.AsType[*gpu.Advice](err)
			if errors.Is(err, gpu.ErrNoLibrary) {
				t.Error("the library counts as not loaded")
			}
			if snap != nil || !errors.Is(err, want) || !ok || advice.What == "" || advice.Try == "" {
				t.Fatalf("%v, %v; want advice that wraps %v", snap, err, want)
			}
			m.Heal()
			if d := readOne(t, s); d.State != gpu.StateOK {
				t.Errorf("after that it is %s", d.State)
			}
		})
	}
}

func TestNoDevices(t *testing.T) {
	m := machine(t)
	if _, err := try(t, source(t, m)); !errors.Is(err, gpu.ErrNoDevices) {
		t.Errorf("a driver without GPUs: %v", err)
	}
}

// TestUpdate checks that after a driver update the process still has the old library, and only a restart helps.
func TestUpdate(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	read(t, s)
	m.Reload()
	m.Answer(int(versionMismatch), "nvmlInit_v2")
	var err error
	until(t, s, "the versions differ", func(_ *gpu.Snapshot, e error) bool {
		err = e
		return errors.Is(e, gpu.ErrVersionMismatch)
	})
	if a, _ := errors.AsType[*gpu.Advice](err); !strings.HasPrefix(a.Try, "restart gpuwhy") {
		t.Errorf("the advice is %q", a.Text())
	}
}

func TestReload(t *testing.T) {
	for name, change := range map[string]func(*Config){"by address": func(*Config) {}, "by index": withoutSysfs} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
			s := source(t, m, change)
			read(t, s)
			m.Reload()
			snap := read(t, s)
			for _, d := range snap.Devices {
				if d.State != gpu.StateNotAnswering {
					t.Errorf("%s is %s while the driver is loaded again", d.UUID, d.State)
				}
			}
			until(t, s, "all answer again", allOK)
			if n := m.Counters().Initialized; n != 1 {
				t.Errorf("the library is initialized %d times", n)
			}
		})
	}
}

// TestReloadWhileCallsOverlap checks that the library is initialized again although some call is running at every reading.
func TestReloadWhileCallsOverlap(t *testing.T) {
	const call = "nvmlDeviceGetPowerUsage"
	m := machine(t, fakenvml.RTX4090().At(1), fakenvml.RTX4090().At(2))
	s := source(t, m, func(c *Config) { c.Deadline = time.Minute })
	read(t, s)
	glance := func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	flying := func(n int) {
		t.Helper()
		m.Await(fmt.Sprint(n, " calls"), func() bool { return s.set.Flying() == n && m.Counters().Held == int64(n) })
	}
	a, b := m.GPU(0), m.GPU(1)
	for _, d := range m.GPUs {
		d.Hang(call)
	}
	m.Reload()
	glance()
	flying(2)
	m.Heal()
	flying(0) // both fail
	for _, d := range m.GPUs {
		d.Hang(call)
	}
	glance()
	flying(2)
	a.Back()
	flying(1)
	a.Hang(call)
	glance()
	b.Back()
	m.Await("the library to be shut down", func() bool { return m.Calls("nvmlShutdown") == 1 })
	m.Heal()
	until(t, s, "all answer again", allOK)
}

func TestUnload(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	read(t, s)
	m.Unload()
	until(t, s, "an error of the driver, not of its library", func(snap *gpu.Snapshot, err error) bool {
		return snap == nil && errors.Is(err, gpu.ErrNoDriver) && !errors.Is(err, gpu.ErrNoLibrary)
	})
	m.Load()
	until(t, s, "it answers again", allOK)
}

// TestBadFromTheStart checks that a driver that can't attach its only device is not initialized again at each reading.
func TestBadFromTheStart(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	m.Answer(int(unknown), "nvmlDeviceGetHandleByPciBusId_v2")
	for range 5 {
		if d := readOne(t, s); d.State != gpu.StateNotAnswering || d.UUID != "PCI-0000:01:00.0" {
			t.Errorf("%s is %s", d.UUID, d.State)
		}
	}
	if n := m.Calls("nvmlInit_v2"); n != 1 {
		t.Errorf("%d initializations, want 1", n)
	}
	m.Heal()
	if d := readOne(t, s); d.State != gpu.StateOK || d.UUID != m.GPU(0).UUID {
		t.Errorf("after that %s is %s", d.UUID, d.State)
	}
}

// TestNoLibrary checks that a missing library is reported.
func TestNoLibrary(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m, func(c *Config) { c.LibraryPath = "/nonexistent/libnvidia-ml.so.1" })
	if _, err := try(t, s); !errors.Is(err, gpu.ErrNoLibrary) {
		t.Errorf("%v, want no library", err)
	}
}

func TestInitHangs(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	m.Hang("nvmlInit_v2")
	for i, want := range []time.Duration{testDeadline, 0, 0, 0} {
		begun := clockOf(s).Now()
		if _, err := try(t, s); !errors.Is(err, gpu.ErrNotAnswering) || !strings.Contains(err.Error(), "while its library is being initialized") {
			t.Errorf("while init hangs: %v", err)
		}
		if took := clockOf(s).Since(begun); took != want {
			t.Errorf("Read %d waited %v, want %v", i, took, want)
		}
	}
	if n := m.Calls("nvmlInit_v2"); n != 1 {
		t.Errorf("%d calls of init while the first hangs", n)
	}
	m.Heal()
	until(t, s, "it answers", allOK)
}

func TestInitHangsAndNobodyWaits(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m, func(c *Config) { c.Deadline = time.Hour })
	m.Hang("nvmlInit_v2")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Read(ctx)
		done <- err
	}()
	m.AwaitHeld(1)
	cancel()
	if err := testkit.Receive(t, "Read to come back", done); !errors.Is(err, gpu.ErrNotAnswering) {
		t.Errorf("after canceling: %v", err)
	}
}

// TestHangAtAttach checks that a card that hangs at its first call holds up no other, and is identified by its address.
func TestHangAtAttach(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	s := source(t, m)
	m.GPU(1).Hang()
	snap := read(t, s)
	if d := snap.Devices[0]; d.State != gpu.StateOK {
		t.Errorf("the healthy card is %s", d.State)
	}
	if d := snap.Devices[1]; d.State != gpu.StateNotAnswering || d.UUID != "PCI-0000:18:00.0" {
		t.Errorf("the hanging card %s is %s", d.UUID, d.State)
	}
	for range 5 {
		read(t, s)
	}
	if n := m.GPU(1).Calls(); n != 1 {
		t.Errorf("%d calls of the hanging card, want the one that hangs", n)
	}
	m.GPU(1).Back()
	until(t, s, "both answer", allOK)
}

// TestHangAtAttachByIndex checks that a device known only by its index is listed by it, until it reports its identity.
func TestHangAtAttachByIndex(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	s := source(t, m, withoutSysfs)
	hanging := func(snap *gpu.Snapshot, i int) {
		t.Helper()
		if len(snap.Devices) != 2 {
			t.Fatalf("%d devices, want both", len(snap.Devices))
		}
		d := snap.Devices[i]
		if d.State != gpu.StateNotAnswering || d.UUID != fmt.Sprint("nvml-index-", i) || d.VendorIndex != gpu.Of(i) || d.Name == "" || d.Vendor != gpu.NVIDIA {
			t.Errorf("the hanging card is %+v, %s", d.Identity, d.State)
		}
	}
	m.GPU(0).Hang()
	m.GPU(1).Hang()
	snap := read(t, s)
	hanging(snap, 0)
	hanging(snap, 1)
	m.GPU(0).Back()
	snap = until(t, s, "the first answers", func(snap *gpu.Snapshot, _ error) bool { return snap.Devices[0].State == gpu.StateOK })
	hanging(snap, 1)
	if d := snap.Devices[0]; d.UUID != m.GPU(0).UUID {
		t.Errorf("the healthy card is %s", d.UUID)
	}
	m.GPU(1).Back()
	snap = until(t, s, "both answer", allOK)
	if d := snap.Devices[1]; len(snap.Devices) != 2 || d.UUID != m.GPU(1).UUID || d.VendorIndex != gpu.Of(1) {
		t.Errorf("then it is %+v", d.Identity)
	}
	// Once known it keeps its name, even if it hangs in a new session.
	m.Unload()
	until(t, s, "an error", func(_ *gpu.Snapshot, err error) bool { return err != nil })
	m.GPU(1).Hang()
	m.Load()
	snap = until(t, s, "the first answers", func(snap *gpu.Snapshot, err error) bool { return err == nil && snap.Devices[0].State == gpu.StateOK })
	if d := snap.Devices[1]; d.State != gpu.StateNotAnswering || d.UUID != m.GPU(1).UUID {
		t.Errorf("in a new session %s is %s", d.UUID, d.State)
	}
}

// TestTellApart checks that a reloaded driver may list its devices in another order, and that a hanging device is not mistaken for an
// answering one.
func TestTellApart(t *testing.T) {
	is := func(state gpu.State, uuid string) gpu.Device {
		return gpu.Device{State: state, Identity: gpu.Identity{UUID: uuid}}
	}
	for name, tt := range map[string]struct {
		byAddress bool
		devices   []gpu.Device
		want      []string
	}{
		"all answer":              {false, []gpu.Device{is(gpu.StateOK, "a"), is(gpu.StateOK, "b")}, []string{"a", "b"}},
		"one hangs":               {false, []gpu.Device{is(gpu.StateNotAnswering, "a"), is(gpu.StateOK, "b")}, []string{"a", "b"}},
		"taken for a later one":   {false, []gpu.Device{is(gpu.StateNotAnswering, "b"), is(gpu.StateOK, "b")}, []string{"nvml-index-0", "b"}},
		"taken for an earlier":    {false, []gpu.Device{is(gpu.StateOK, "a"), is(gpu.StateLost, "a")}, []string{"a", "nvml-index-1"}},
		"both taken for the same": {false, []gpu.Device{is(gpu.StateNotAnswering, "a"), is(gpu.StateNotAnswering, "a")}, []string{"a", "nvml-index-1"}},
		"known by its address":    {true, []gpu.Device{is(gpu.StateNotAnswering, "a"), is(gpu.StateOK, "a")}, []string{"a", "a"}},
	} {
		tellApart(tt.byAddress, tt.devices)
		var got []string
		for _, d := range tt.devices {
			got = append(got, d.UUID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestSlowCard(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m, func(c *Config) { c.Deadline = time.Minute })
	first := readOne(t, s)
	m.GPU(0).Hang("nvmlDeviceGetPowerUsage") // as a call that takes longer than a reader may wait
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	snap, err := s.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d := snap.Devices[0]
	if d.State != gpu.StateOK || !d.SampledAt.Equal(first.SampledAt) || d.Power.Draw != first.Power.Draw {
		t.Errorf("a slow card is %s, sampled at %v; want ok with what was sampled at %v", d.State, d.SampledAt, first.SampledAt)
	}
	m.Heal()
	until(t, s, "a newer reading", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].SampledAt.After(first.SampledAt)
	})
}

func TestPermissions(t *testing.T) {
	t.Run("of no card", func(t *testing.T) {
		for name, change := range map[string]func(*Config){"by address": func(*Config) {}, "by index": withoutSysfs} {
			t.Run(name, func(t *testing.T) {
				m := machine(t, fakenvml.RTX4090())
				s := source(t, m, change)
				m.Answer(int(noPermission), "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetHandleByIndex_v2")
				if snap, err := try(t, s); snap != nil || !errors.Is(err, gpu.ErrNotPermitted) {
					t.Errorf("%+v, %v", snap, err)
				}
			})
		}
	})
	t.Run("of one card", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
		s := source(t, m)
		m.GPU(0).Answer(int(noPermission), "nvmlDeviceGetHandleByPciBusId_v2")
		if d := readOne(t, s); d.UUID != m.GPU(1).UUID {
			t.Errorf("lists %s, want the permitted card alone", d.UUID)
		}
	})
	t.Run("of a reading", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		m.Answer(int(noPermission), "nvmlDeviceGetPowerUsage")
		if d := readOne(t, source(t, m)); d.Power.Draw.Quality() != gpu.NotPermitted {
			t.Errorf("power %v", d.Power.Draw)
		}
	})
}

// TestStrangeAddresses checks cards whose addresses in the kernel's list the driver does not know.
func TestStrangeAddresses(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	m.GPU(0).Set(fakenvml.PCI, "0000:77:00.0")
	if snap, err := try(t, s); snap != nil || !errors.Is(err, gpu.ErrNoDevices) {
		t.Errorf("at first %+v, %v", snap, err)
	}
	snap := until(t, s, "it is found in the driver's list", allOK)
	if d := snap.Devices[0]; d.UUID != m.GPU(0).UUID || d.PCI != "0000:77:00.0" {
		t.Errorf("found %s at %s", d.UUID, d.PCI)
	}
}

// TestFewerThanTheKernel checks a container that sees all cards in /sys, but was given only some.
func TestFewerThanTheKernel(t *testing.T) {
	whole := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	kernel := func(c *Config) { c.SysfsRoot, c.ProcRoot = whole.SysfsRoot, whole.ProcRoot }
	m := machine(t, fakenvml.H100())
	if d := readOne(t, source(t, m, kernel)); d.UUID != m.GPU(0).UUID {
		t.Errorf("lists %s", d.UUID)
	}
}

func TestFailingCard(t *testing.T) {
	for c, want := range map[int]string{
		int(timeout): "gave up waiting",
		16:           "must be reset", // reset required
		8:            "enough power",  // insufficient power
	} {
		t.Run(want, func(t *testing.T) {
			m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
			s := source(t, m)
			read(t, s)
			m.GPU(0).Answer(c)
			snap := read(t, s)
			if d := snap.Devices[0]; d.State != gpu.StateNotAnswering || !strings.Contains(d.Reason.What, want) {
				t.Errorf("%s because %q, want %q", d.State, d.Reason.What, want)
			}
			if d := snap.Devices[1]; d.State != gpu.StateOK {
				t.Errorf("the other card is %s", d.State)
			}
		})
	}
}

// TestLostHalfway checks a device that falls off the bus in the middle of a reading.
func TestLostHalfway(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	s := source(t, m)
	read(t, s)
	m.GPU(0).Answer(int(gpuIsLost), "nvmlDeviceGetClockInfo")
	if d := readOne(t, s); d.State != gpu.StateLost || d.Utilization.GPU.Present() {
		t.Errorf("it is %s, with a utilization of %v", d.State, d.Utilization.GPU)
	}
}

// TestNoShutdownUnderACall checks that, while one device hangs, nothing that happens to the others shuts the library down.
func TestNoShutdownUnderACall(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	s := source(t, m)
	read(t, s)
	m.GPU(0).Hang()
	m.GPU(1).Lost()
	for range 3 {
		read(t, s)
		pass(s, 2*seldom)
	}
	if n := m.Calls("nvmlShutdown"); n != 0 {
		t.Errorf("the library was shut down %d times under a call", n)
	}
	m.GPU(0).Back()
	m.GPU(0).Lost()
	until(t, s, "the library is initialized anew", func(*gpu.Snapshot, error) bool {
		pass(s, 2*seldom)
		return m.Calls("nvmlInit_v2") > 1
	})
}

// TestCardAppears checks that the driver can take over another card while gpuwhy runs.
func TestCardAppears(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	bound := filepath.Join(m.SysfsRoot, "bus/pci/drivers/nvidia", m.GPU(1).PCI)
	device, err := os.Readlink(bound)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(bound); err != nil {
		t.Fatal(err)
	}
	s := source(t, m)
	read(t, s)
	if s.session.byAddress {
		t.Error("devices are taken by address, and the kernel does not list them all")
	}
	if err := os.Symlink(device, bound); err != nil {
		t.Fatal(err)
	}
	if snap := read(t, s); !allOK(snap, nil) || len(snap.Devices) != 2 || !s.session.byAddress {
		t.Errorf("%d devices, by address: %v", len(snap.Devices), s.session.byAddress)
	}
}

// TestCardVanishes checks that the library is initialized again when the kernel loses a card, and when the card returns; the other card is
// read all the time.
func TestCardVanishes(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	bound := filepath.Join(m.SysfsRoot, "bus/pci/drivers/nvidia", m.GPU(1).PCI)
	device, err := os.Readlink(bound)
	if err != nil {
		t.Fatal(err)
	}
	s := source(t, m)
	read(t, s)
	m.GPU(0).RaiseXID(31)
	read(t, s)
	m.GPU(1).Lost()
	if err := os.Remove(bound); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if snap := read(t, s); len(snap.Devices) != 1 || !allOK(snap, nil) || len(snap.Devices[0].Health.XIDs.Or(nil)) != 1 {
			t.Errorf("without the card: %+v", snap.Devices)
		}
	}
	if n := m.Calls("nvmlInit_v2"); n != 2 {
		t.Errorf("%d initializations after a card has gone, want another one", n)
	}
	m.GPU(1).Back()
	if err := os.Symlink(device, bound); err != nil {
		t.Fatal(err)
	}
	if snap := read(t, s); !allOK(snap, nil) || len(snap.Devices) != 2 || m.Calls("nvmlInit_v2") != 3 {
		t.Errorf("with the card again: %+v after %d initializations", snap.Devices, m.Calls("nvmlInit_v2"))
	}
}

func TestXIDs(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	m.GPU(0).RaiseXID(31) // before anyone listens
	s := source(t, m)
	if d := readOne(t, s); d.Health.XIDs.Quality() != gpu.Good || len(d.Health.XIDs.Or(nil)) != 0 {
		t.Errorf("at first %v, want a reported none", d.Health.XIDs)
	}
	begun := clockOf(s).Now()
	for _, code := range []int{79, 13, 13} {
		m.GPU(0).RaiseXID(code)
	}
	check := func(when string) {
		t.Helper()
		got := readOne(t, s).Health.XIDs.Or(nil)
		if len(got) != 2 || got[0].Code != 13 || got[0].Count != 2 || got[1].Code != 79 || got[1].Count != 1 || got[0].Last.Before(begun) {
			t.Errorf("%s: %+v, want 13 twice and 79 once", when, got)
		}
	}
	check("after three")
	check("again")
	m.GPU(0).Lost()
	m.GPU(0).RaiseXID(79)
	if d := readOne(t, s); d.State != gpu.StateLost || len(d.Health.XIDs.Or(nil)) != 2 || d.Health.XIDs.Or(nil)[1].Count != 2 || d.Thermal.GPU.Present() {
		t.Errorf("lost: %s, %+v", d.State, d.Health.XIDs)
	}
	m.GPU(0).Back()
	until(t, s, "it is back", allOK)
	m.Reload()
	until(t, s, "the driver is loaded again", func(snap *gpu.Snapshot, err error) bool { return m.Calls("nvmlInit_v2") == 2 && allOK(snap, err) })
	if got := readOne(t, s).Health.XIDs.Or(nil); len(got) != 2 || got[1].Count != 2 {
		t.Errorf("after the driver was loaded again: %+v, want 79 twice", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	awaitInitialized(m, 0)
	if n := m.Counters().EventSets; n != 0 {
		t.Errorf("%d sets of events were not given back", n)
	}
}

// TestXIDsOfAnotherDevice checks that an event counts for the device that it names, whichever device receives it, and explains why that one
// is lost.
func TestXIDsOfAnotherDevice(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	m.GPU(1).Set(keyXIDsHeardBy, 0)
	s := source(t, m)
	read(t, s)
	m.GPU(1).RaiseXID(79)
	snap := until(t, s, "the event has come", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices[1].Health.XIDs.Or(nil)) == 1
	})
	if got := snap.Devices[0].Health.XIDs.Or(nil); len(got) != 0 {
		t.Errorf("the device that was given the event has %+v", got)
	}
	m.GPU(1).Lost()
	if d := read(t, s).Devices[1]; d.State != gpu.StateLost || d.Reason.What != "XID 79: the GPU has fallen off the bus" || d.Reason.Try == "" {
		t.Errorf("it is %s: %+v", d.State, d.Reason)
	}
}

// TestCoreReadingsDecide checks that a device whose utilization, memory, temperature and power all fail counts as failed, even if it
// answers other calls.
func TestCoreReadingsDecide(t *testing.T) {
	functions := slices.Collect(maps.Keys(core))
	for _, c := range []int{999, 16, 10, 17, 23, 2, 4, 6} {
		for name, refused := range map[string][]string{"all": nil, "core": functions} {
			t.Run(fmt.Sprintf("%s %d", name, c), func(t *testing.T) {
				m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
				s := source(t, m)
				read(t, s)
				m.GPU(0).Answer(c, refused...)
				m.GPU(0).Answer(int(notSupported), "nvmlDeviceGetEncoderUtilization")
				for range 4 {
					snap := read(t, s)
					if len(snap.Devices) != 2 || snap.Devices[0].State != gpu.StateNotAnswering || snap.Devices[1].State != gpu.StateOK {
						t.Fatalf("%+v", snap.Devices)
					}
					if d := snap.Devices[0]; d.Reason.What == "" || d.Reason.Try == "" || d.Utilization.GPU.Present() {
						t.Errorf("%+v, utilization %v", d.Reason, d.Utilization.GPU)
					}
				}
				m.GPU(0).Back()
				until(t, s, "it works again", allOK)
			})
		}
	}
	t.Run("offered by none", func(t *testing.T) { // as on some boards
		m := machine(t, fakenvml.RTX4090())
		m.Answer(int(notSupported), functions...)
		if d := readOne(t, source(t, m)); d.State != gpu.StateOK || d.Utilization.GPU.Quality() != gpu.NotSupported {
			t.Errorf("%s: %+v", d.State, d.Reason)
		}
	})
}

func TestXIDsNotSupported(t *testing.T) {
	m := machine(t, fakenvml.RTX4090())
	m.Answer(int(notSupported), "nvmlDeviceRegisterEvents")
	s := source(t, m)
	for range 3 {
		if d := readOne(t, s); d.Health.XIDs.Quality() != gpu.NotSupported {
			t.Errorf("XIDs %v, want not_supported", d.Health.XIDs)
		}
	}
	if n, sets := m.Calls("nvmlDeviceRegisterEvents"), m.Counters().EventSets; n != 1 || sets != 0 {
		t.Errorf("asked %d times, %d sets kept; want once and none", n, sets)
	}
}

func TestCloseWhileHanging(t *testing.T) {
	t.Run("a device", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		s := source(t, m)
		read(t, s)
		m.GPU(0).Hang()
		read(t, s)
		if took := closes(t, s); took != 0 {
			t.Errorf("Close waited %v, want 0", took)
		}
		if m.Counters().Initialized != 1 {
			t.Error("the library was shut down under a call")
		}
		if _, err := try(t, s); err == nil {
			t.Error("a closed source reads")
		}
		m.Heal()
		awaitInitialized(m, 0)
	})
	t.Run("init", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		s := source(t, m)
		m.Hang("nvmlInit_v2")
		if _, err := try(t, s); err == nil {
			t.Fatal("it reads")
		}
		if took := closes(t, s); took != 0 {
			t.Errorf("Close waited %v, want 0", took)
		}
		m.Heal()
		m.Await("a shutdown of what init brought in the end", func() bool { return m.Calls("nvmlShutdown") > 0 })
	})
	t.Run("shutdown", func(t *testing.T) {
		m := machine(t, fakenvml.RTX4090())
		s := source(t, m)
		read(t, s)
		m.Hang("nvmlShutdown")
		if took := closes(t, s); took != testDeadline {
			t.Errorf("Close waited %v, want %v", took, testDeadline)
		}
	})
}

func TestCards(t *testing.T) {
	m := machine(t, fakenvml.RTX4090(), fakenvml.H100())
	k := source(t, m).kernel
	if got, want := nvidia.Addresses(k.Cards()), []string{"0000:01:00.0", "0000:18:00.0"}; !slices.Equal(got, want) {
		t.Errorf("cards %v, want %v", got, want)
	}
	if got := source(t, m, withoutSysfs).kernel.Cards(); len(got) != 0 {
		t.Errorf("cards %v where there is no /sys", got)
	}
}
