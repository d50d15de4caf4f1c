//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
)

// lib is the only library that this process uses. Tests of another library run in their own process; see child_test.go.
var lib *fakenvml.Library

func TestMain(m *testing.M) {
	if scenario := os.Getenv(childScenario); scenario != "" {
		child(scenario)
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "fakenvml-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if lib, err = fakenvml.New(dir); err != nil {
		return 1, err
	}
	return testkit.RunTests(m), nil
}

// Readings of the fake library that only these tests change, in NVML's own units.
const (
	keySerial            fakenvml.Key = "serial"
	keyEncoder           fakenvml.Key = "encoder"
	keyEncoderSessions   fakenvml.Key = "encoder_sessions"
	keyEncoderFPS        fakenvml.Key = "encoder_fps"
	keyEncoderLatency    fakenvml.Key = "encoder_latency" // microseconds
	keyTensorActive      fakenvml.Key = "gpm5"            // percent, also with decimals
	keyNVLinkSent        fakenvml.Key = "gpm61"           // MiB a second, also with decimals
	keyMemoryTotal       fakenvml.Key = "memory_total"    // bytes
	keyMemoryUsed        fakenvml.Key = "memory_used"     // without the reserved ones
	keyBAR1Used          fakenvml.Key = "bar1_used"
	keyMemoryTemperature fakenvml.Key = "field82" // NVML_FI_DEV_MEMORY_TEMP
	keySlowdownThreshold fakenvml.Key = "threshold1"
	keyMargin            fakenvml.Key = "margin"
	keyFans              fakenvml.Key = "fans"        // their number
	keyPowerLimit        fakenvml.Key = "power_limit" // milliwatts
	keyEnergy            fakenvml.Key = "energy"      // millijoules
	keyMaxSMClock        fakenvml.Key = "max_clock1"
	keyPCIeReplays       fakenvml.Key = "pcie_replays"
	keyPCIeThroughputTX  fakenvml.Key = "pcie_throughput0" // KB a second
	keyPCIeThroughputRX  fakenvml.Key = "pcie_throughput1"
	keyComputeMode       fakenvml.Key = "compute_mode"
	keyDisplayActive     fakenvml.Key = "display_active"
	keyMIG               fakenvml.Key = "mig"
	keyVirtualization    fakenvml.Key = "virtualization"
	keyProcessLists      fakenvml.Key = "processes"     // any value: the device supports them
	keyXIDsHeardBy       fakenvml.Key = "xids_heard_by" // the GPU whose event set the driver gives this one's events
	keyProcessSamples    fakenvml.Key = "samples"       // the same
)

// testDeadline is the time after which a call hangs in these tests.
const testDeadline = 500 * time.Millisecond

// testWindow is how long a process's sample is current in these tests.
const testWindow = 5 * time.Second

// machine gives the process's library a new machine. When the test ends, the library must have been shut down.
func machine(tb testing.TB, gpus ...fakenvml.GPU) *fakenvml.Machine {
	tb.Helper()
	m := lib.Machine(tb, gpus...)
	tb.Cleanup(func() {
		m.Heal()
		awaitInitialized(m, 0)
		if n := m.Counters().Samples; n != 0 {
			tb.Errorf("%d samples of counters are left", n)
		}
	})
	return m
}

// awaitInitialized waits until the library has n initializations.
func awaitInitialized(m *fakenvml.Machine, n int64) {
	m.Await(fmt.Sprintf("the library to be initialized %d times", n), func() bool { return m.Counters().Initialized == n })
}

type migInstance struct {
	UUID, Name                                   string
	GPUInstance, ComputeInstance                 uint32
	MemoryTotal, MemoryUsed                      uint64
	Multiprocessors, MemorySlices, ComputeSlices uint32
}

// setInstances turns MIG mode on with these instances, or off if there are none.
func setInstances(d *fakenvml.Device, instances ...migInstance) {
	values := map[fakenvml.Key]any{keyMIG: min(len(instances), 1)}
	for i, in := range instances {
		for k, v := range map[string]any{
			"uuid": in.UUID, "name": in.Name, "gi": in.GPUInstance, "ci": in.ComputeInstance,
			"memory_total": in.MemoryTotal, "memory_used": in.MemoryUsed,
			"multiprocessors": in.Multiprocessors, "slices": in.MemorySlices, "compute_slices": in.ComputeSlices,
		} {
			values[fakenvml.Key(fmt.Sprintf("mig%d.%s", i, k))] = v
		}
	}
	d.SetAll(values)
}

// source returns a source of the machine, closed when the test ends. Its clock and the driver's stand still until the test moves them, so a
// healthy device is never late.
func source(tb testing.TB, m *fakenvml.Machine, change ...func(*Config)) *Source {
	tb.Helper()
	cfg := Config{
		LibraryPath: lib.Path(),
		SysfsRoot:   m.SysfsRoot,
		ProcRoot:    m.ProcRoot,
		Deadline:    testDeadline,
		Window:      testWindow,
		Clock:       testkit.NewClock(),
		Log:         slog.New(slog.NewTextHandler(tb.Output(), nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	drivers[s] = m
	pass(s, 0)
	tb.Cleanup(func() {
		closes(tb, s)
		delete(drivers, s)
	})
	return s
}

// drivers are the machines of the sources.
var drivers = map[*Source]*fakenvml.Machine{}

// pass advances the clocks of a source and its driver, once all calls except hanging ones have ended: otherwise an answer on its way could
// miss its deadline.
func pass(s *Source, d time.Duration) {
	drivers[s].Await("calls to end or hang", func() bool { return inFlight(s) == drivers[s].Counters().Held })
	clockOf(s).Advance(d)
	drivers[s].SetTime(clockOf(s).Now())
}

// A fakeClock is a clock that a test moves.
type fakeClock interface {
	clockwork.Clock
	Advance(d time.Duration)
}

func clockOf(s *Source) fakeClock { return s.cfg.Clock.(fakeClock) }

// withoutSysfs makes the kernel show no PCI devices, as under WSL.
func withoutSysfs(c *Config) { c.SysfsRoot = c.SysfsRoot + "/none" }

// waits runs something that waits on a source's clock, until it is done. Whenever it waits and all running driver calls hang, the clock
// advances. It returns by how much.
func waits(tb testing.TB, s *Source, what string, do func()) time.Duration {
	tb.Helper()
	begun, done, ended := clockOf(s).Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if clock, ok := s.cfg.Clock.(*testkit.Clock); ok && clock.Waited() && allHang(s) {
					pass(s, s.cfg.Deadline/16)
				}
			}
		}
	}()
	go func() {
		defer close(done)
		do()
	}()
	testkit.Receive(tb, what+" to come back", done)
	<-ended
	return clockOf(s).Now().Sub(begun)
}

// allHang reports whether driver calls are running, and all of them hang.
func allHang(s *Source) bool {
	calls := inFlight(s)
	return calls > 0 && drivers[s].Counters().Held == calls
}

// inFlight returns how many library calls have not returned.
func inFlight(s *Source) int64 {
	calls := s.set.Flying()
	s.locked(func() {
		if s.job != nil {
			calls++
		}
	})
	return int64(calls)
}

// closes returns how long Close waits.
func closes(tb testing.TB, s *Source) time.Duration {
	tb.Helper()
	return waits(tb, s, "Close", func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
}

// try reads, and waits for hanging calls as long as Read does.
func try(tb testing.TB, s *Source) (snap *gpu.Snapshot, err error) {
	tb.Helper()
	waits(tb, s, "Read", func() { snap, err = s.Read(tb.Context()) })
	return snap, err
}

// read returns a reading that must succeed.
func read(tb testing.TB, s *Source) *gpu.Snapshot {
	tb.Helper()
	snap, err := try(tb, s)
	if err != nil {
		tb.Fatalf("Read: %v", err)
	}
	return snap
}

// readOne returns the only device of a reading that must succeed.
func readOne(tb testing.TB, s *Source) *gpu.Device {
	tb.Helper()
	snap := read(tb, s)
	if len(snap.Devices) != 1 {
		tb.Fatalf("%d devices, want 1", len(snap.Devices))
	}
	return &snap.Devices[0]
}

// until reads until the condition holds. The clock advances between the readings.
func until(tb testing.TB, s *Source, what string, holds func(*gpu.Snapshot, error) bool) (snap *gpu.Snapshot) {
	tb.Helper()
	var err error
	testkit.Until(tb, what, func() bool {
		if snap, err = try(tb, s); holds(snap, err) {
			return true
		}
		pass(s, s.cfg.Deadline/4)
		return false
	}, func() string { return fmt.Sprintf("the last reading is %+v, %v", snap, err) })
	return snap
}

func allOK(snap *gpu.Snapshot, err error) bool {
	if err != nil || snap == nil || len(snap.Devices) == 0 {
		return false
	}
	for _, d := range snap.Devices {
		if d.State != gpu.StateOK {
			return false
		}
	}
	return true
}
