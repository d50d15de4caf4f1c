package smi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
	"github.com/gpuwhy/gpuwhy/sampler/perdevice"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

const noDriver = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."

// What nvidia-smi says about the driver is an error with advice, and the devices return when it no longer says so.
func TestSentencesOfTheDriver(t *testing.T) {
	for text, c := range map[string]struct {
		exit int
		err  error
		what string
	}{
		noDriver: {9, gpu.ErrNoDriver, nvidia.NotLoaded.What},
		"Failed to initialize NVML: Driver/library version mismatch":            {18, gpu.ErrVersionMismatch, nvidia.VersionMismatch.What},
		"Failed to initialize NVML: Unknown Error":                              {255, gpu.ErrNoDriver, nvidia.Unknown.What},
		"Failed to initialize NVML: Insufficient Permissions":                   {4, gpu.ErrNotPermitted, nvidia.NotPermitted.What},
		"Failed to initialize NVML: Driver Not Loaded":                          {9, gpu.ErrNoDriver, nvidia.NotLoaded.What},
		"Failed to initialize NVML: GPU access blocked by the operating system": {17, gpu.ErrNoDriver, nvidia.Unknown.What},
		"No devices were found":                                                 {6, gpu.ErrNoDevices, nvidia.NoDevices.What},
		"NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed": {12, gpu.ErrNoLibrary, "nvidia-smi can't find NVIDIA's management library"},
		"something that nobody has seen": {9, gpu.ErrNoDriver, nvidia.NotLoaded.What},
		"nothing that a code explains":   {255, gpu.ErrNoDriver, "nvidia-smi prints output that gpuwhy does not understand: “nothing that a code explains”"},
	} {
		t.Run(text[:min(len(text), 40)], func(t *testing.T) {
			m := machine(t, "rtx4090-550")
			m.Fault(fmt.Sprintf("fail %d %s", c.exit, text))
			s := source(t, m)
			var failure error
			until(t, s, "an error that says so", func(_ *gpu.Snapshot, err error) bool {
				failure = err
				return errors.Is(err, c.err) && !errors.Is(err, gpu.ErrNotAnswering)
			})
			if a := adviceOf(t, failure); a.What != c.what {
				t.Errorf("%q, want %q", a.What, c.what)
			}
			m.Heal("fail")
			until(t, s, "the device is back", allOK)
		})
	}
}

func allOK(snap *gpu.Snapshot, err error) bool {
	if err != nil || len(snap.Devices) == 0 {
		return false
	}
	for _, d := range snap.Devices {
		if d.State != gpu.StateOK {
			return false
		}
	}
	return true
}

func TestNoProgram(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.Hide()
	s := source(t, m)
	_, err := try(t, s)
	if a := adviceOf(t, err); !errors.Is(err, gpu.ErrNoLibrary) || !strings.Contains(a.What, "not found") {
		t.Errorf("%v", err)
	}
	m.Show()
	until(t, s, "the device is there", allOK)
	// The program disappears while it runs: the loop continues.
	m.Hide()
	hidden := clockOf(s).Now()
	until(t, s, "it is read all the same", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].SampledAt.After(hidden)
	})
	m.Show()
}

func TestProgramMayNotBeRun(t *testing.T) {
	if os.Getuid() == 0 && runtime.GOOS == "windows" {
		t.Skip("everything may be run")
	}
	m := machine(t, "rtx4090-550")
	if err := os.Chmod(m.Program(), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := try(t, source(t, m))
	if _ = adviceOf(t, err); !errors.Is(err, gpu.ErrNotPermitted) {
		t.Errorf("%v, want not permitted", err)
	}
}

func TestProgramIsNone(t *testing.T) {
	m := machine(t, "rtx4090-550")
	if err := testkit.WriteProgram(m.Program(), []byte("#!/bin/sh\necho 42, nonsense, ,,\necho >&2 more nonsense\n")); err != nil {
		t.Fatal(err)
	}
	s := source(t, m)
	until(t, s, "an advice", func(_ *gpu.Snapshot, err error) bool {
		return errors.Is(err, gpu.ErrNoDriver) && adviceOf(t, err).What == "nvidia-smi does not list the fields it knows: “42, nonsense, ,,”"
	})
}

// A program that starts and prints nothing costs a reading its deadline, and nothing else.
func TestSilence(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.Fault("silent ")
	s := source(t, m)
	_, took, err := readFor(t, s, testDeadline/10)
	if !errors.Is(err, gpu.ErrNotAnswering) || took != testDeadline {
		t.Errorf("%v after %v", err, took)
	}
	_ = adviceOf(t, err)
	m.Heal()
	until(t, s, "the device is there", allOK)
}

// Lines that are not data cost nothing.
func TestNoise(t *testing.T) {
	m := machine(t, "blackwell-570")
	for _, text := range []string{
		"WARNING: infoROM is corrupted at gpu 0000:61:00.0", "\x1b[31m\x00\xff\xfe", strings.Repeat("x, ", 9000),
		"XID 31 error detected on GPU 0000:61:00.0", ", , , ,", "2026/03/14 15:09:26.535, 0, GPU-1",
	} {
		m.Fault("noise " + text)
		m.Fault("between " + text)
	}
	snap := whole(t, source(t, m))
	if len(snap.Devices) != 2 || !allOK(snap, nil) {
		t.Errorf("%+v", snap.Devices)
	}
	if got, want := snap.Devices[0].Name, "NVIDIA RTX PRO 6000 Blackwell, Max-Q Workstation Edition"; got != want {
		t.Errorf("the name is %q, want %q", got, want)
	}
}

// A loop that ends is restarted, and so is one that never loops.
func TestEnds(t *testing.T) {
	for _, fault := range []string{"die", "once"} {
		t.Run(fault, func(t *testing.T) {
			m := machine(t, "blackwell-570")
			s := source(t, m)
			if snap, err := try(t, s); !allOK(snap, err) {
				t.Fatalf("%+v, %v", snap, err)
			}
			m.Fault(fault)
			until(t, s, "the loop begins again", func(*gpu.Snapshot, error) bool { return m.Count("start --query-gpu") > 2 })
			m.Heal(fault)
			begun := clockOf(s).Now()
			until(t, s, "new readings", func(snap *gpu.Snapshot, err error) bool {
				return allOK(snap, err) && snap.Devices[0].SampledAt.After(begun) && snap.Devices[1].SampledAt.After(begun)
			})
		})
	}
}

// A device that nvidia-smi reports as lost at its start is lost, and no other.
func TestLostAtTheStart(t *testing.T) {
	for _, fault := range []string{"lost-ends", "lost-goes-on"} {
		t.Run(fault, func(t *testing.T) {
			m := machine(t, "blackwell-570")
			s := source(t, m)
			first, err := try(t, s)
			if !allOK(first, err) {
				t.Fatalf("%+v, %v", first, err)
			}
			lost, other := m.Addresses()[0], m.Addresses()[1]
			m.Fault(fault + " " + lost)
			m.Fault("gone " + lost)
			m.Fault("die")
			until(t, s, "the loop begins again", func(*gpu.Snapshot, error) bool { return m.Count("start --query-gpu") > 1 })
			m.Heal("die")
			snap := until(t, s, "one lost and one ok", func(snap *gpu.Snapshot, err error) bool {
				return err == nil && len(snap.Devices) == 2 && snap.Devices[0].State == gpu.StateLost &&
					snap.Devices[1].State == gpu.StateOK
			})
			if d := snap.Devices[0]; d.PCI != lost || d.UUID != first.Devices[0].UUID || d.Reason.What != nvidia.Lost.What ||
				!errors.Is(&d.Reason, perdevice.ErrLost) {
				t.Errorf("%s at %s: %q", d.UUID, d.PCI, d.Reason.Error())
			}
			if snap.Devices[1].PCI != other {
				t.Errorf("the other is at %s", snap.Devices[1].PCI)
			}
			begun := clockOf(s).Now()
			until(t, s, "the other goes on", func(snap *gpu.Snapshot, err error) bool {
				return err == nil && snap.Devices[0].State == gpu.StateLost && snap.Devices[1].SampledAt.After(begun)
			})
			m.Heal()
			until(t, s, "both are ok", func(snap *gpu.Snapshot, err error) bool {
				return allOK(snap, err) &&
					len(snap.Devices) == 2
			})
		})
	}
}

// A program that found a device lost may say so until it ends: it is restarted once a minute, and only for that device if another one
// works.
func TestLostUntilItBeginsAnew(t *testing.T) {
	m := machine(t, "blackwell-570")
	s := source(t, m)
	_, _ = try(t, s)
	lost := m.Addresses()[0]
	m.Fault("lost " + lost)
	until(t, s, "lost", func(snap *gpu.Snapshot, err error) bool { return err == nil && snap.Devices[0].State == gpu.StateLost })
	for minute := range 3 {
		pass(t, s, seldom)
		until(t, s, "a loop begins for the lost device alone", func(snap *gpu.Snapshot, err error) bool {
			if err != nil || snap.Devices[1].State != gpu.StateOK {
				t.Fatalf("%+v, %v", snap, err)
			}
			n := 0
			for _, line := range m.Log() {
				if strings.Contains(line, "start --query-gpu") && strings.HasSuffix(line, "--id="+lost) {
					n++
				}
			}
			return n > minute
		})
	}
	m.Heal("lost")
	until(t, s, "both are ok", allOK)
}

// The only device is lost: that is not a failure of the source.
func TestOnlyDeviceLost(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.Fault("lost-ends 0000:01:00.0")
	s := source(t, m)
	snap := until(t, s, "lost", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) == 1 && snap.Devices[0].State == gpu.StateLost
	})
	if d := snap.Devices[0]; d.PCI != "0000:01:00.0" || d.UUID != "PCI-0000:01:00.0" {
		t.Errorf("%+v", d.Identity)
	}
	m.Heal()
	until(t, s, "back", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].UUID[:4] == "GPU-"
	})
}

// A removed device is forgotten, and read again when it is back.
func TestGone(t *testing.T) {
	m := machine(t, "blackwell-570")
	s := source(t, m)
	_, _ = try(t, s)
	m.Fault("gone " + m.Addresses()[1])
	until(t, s, "one device", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == 1 })
	m.Heal("gone")
	until(t, s, "two devices", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == 2 })
}

// A cut line costs its own device, as long as it is cut.
func TestCut(t *testing.T) {
	m := machine(t, "blackwell-570")
	s := source(t, m)
	_, _ = try(t, s)
	m.Fault("cut " + m.Addresses()[0])
	m.Fault("cut-xml")
	until(t, s, "the other is ok", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) == 2 && snap.Devices[0].State == gpu.StateNotAnswering &&
			snap.Devices[1].State == gpu.StateOK
	})
	m.Heal("cut")
	until(t, s, "both are ok", allOK)
}

// A field that the version does not know after all is left out.
func TestRefusedField(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.Fault("refuse temperature.gpu.tlimit")
	m.Fault("refuse power.draw")
	snap := until(t, source(t, m), "the device is ok", allOK)
	d := snap.Devices[0]
	if q := d.Thermal.Margin.Quality(); q != gpu.NotSupported || d.Power.Draw.Quality() != gpu.NotSupported ||
		!d.Thermal.GPU.Present() {
		t.Errorf("the margin is %v, the draw %v, the temperature %v", d.Thermal.Margin, d.Power.Draw, d.Thermal.GPU)
	}
}

// A slow driver is read at its own pace.
func TestSlow(t *testing.T) {
	files := record(t, machine(t, "blackwell-570"))
	synctest.Test(t, func(t *testing.T) {
		answers := Recorded(files)
		s := New(Config{
			Interval: testInterval, Deadline: time.Second, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			Run: func(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
				loops := func(arg string) bool { return strings.HasPrefix(arg, "--loop-ms=") }
				if !slices.ContainsFunc(args, loops) {
					return answers(ctx, stdout, stderr, args...)
				}
				var round bytes.Buffer
				if err := answers(ctx, &round, stderr, slices.DeleteFunc(args, loops)...); err != nil {
					return err
				}
				for {
					for line := range strings.Lines(round.String()) {
						select {
						case <-time.After(60 * time.Millisecond):
							_, _ = io.WriteString(stdout, line)
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				}
			},
		})
		defer s.Close()
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			snap, err := s.Read(ctx)
			cancel()
			if !allOK(snap, err) {
				t.Fatalf("reading %d: %+v, %v", i, snap, err)
			}
			for _, d := range snap.Devices {
				if age := time.Since(d.SampledAt); age > 2*60*time.Millisecond {
					t.Errorf("reading %d has a line of %v ago", i, age)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// A hanging device gets its own command; pmon and the XML go on without it, and it shares a command again after it has answered for a
// while.
func TestHang(t *testing.T) {
	m := machine(t, "blackwell-570")
	// Its command is given up after 20 s, and restarted after 50.
	s := source(t, m, func(c *Config) { c.PCIeThroughput, c.Deadline = true, 4*time.Second })
	whole(t, s)
	hung, other := m.Addresses()[0], m.Addresses()[1]
	m.Fault("hang " + hung)
	until(t, s, "not answering", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap.Devices[0].State == gpu.StateNotAnswering && snap.Devices[1].State == gpu.StateOK
	})
	until(t, s, "all three commands begin for the other alone", func(*gpu.Snapshot, error) bool {
		return m.Count("--id="+other) > 1 && m.Count("pmon -s um -d 1 -i "+other) > 0
	})
	until(t, s, "processes of the other", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && snap.Devices[1].Processes.Present() && snap.Devices[1].Activity.PCIeMeasured()
	})
	begun := clockOf(s).Now()
	until(t, s, "the other goes on", func(snap *gpu.Snapshot, err error) bool {
		return err == nil &&
			snap.Devices[1].SampledAt.After(begun)
	})
	given := func() {
		t.Helper()
		until(t, s, "the command of the device is given up", func(*gpu.Snapshot, error) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return slices.ContainsFunc(s.loops, func(l *loop) bool { return slices.Equal(l.keys, []string{hung}) && l.stalled && l.back.IsZero() })
		})
	}
	given()
	// It answers now and then: nothing is restarted for that.
	pass(t, s, sometimes)
	starts := m.Count("start --query-gpu")
	for range 3 {
		m.Heal("hang")
		until(t, s, "both are ok", allOK)
		m.Fault("hang " + hung)
		given()
	}
	_, _ = try(t, s)
	if loops, both := m.Count("start --query-gpu"), m.Count("pmon -s um -d 1 -i "+hung+","+other); loops != starts || both != 0 {
		t.Errorf("for a device that answers now and then %d commands began, and pmon %d times", loops-starts, both)
	}
	// It answers again for a while.
	m.Heal("hang")
	until(t, s, "both are ok", allOK)
	starts = m.Count("start --query-gpu")
	pass(t, s, sometimes)
	until(t, s, "one command for both", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && len(s.loops) == 1 && m.Count("start --query-gpu") == starts+1
	})
	until(t, s, "processes of both", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Processes.Present() && snap.Devices[1].Processes.Present()
	})
}

// Not every machine has pmon: the XML has the processes, too.
func TestNoPmon(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.Fault("no-pmon")
	s := source(t, m)
	d := &whole(t, s).Devices[0]
	processes, ok := d.Processes.Get()
	if !ok || len(processes) != 3 || processes[0].PID != 30112 || processes[0].Memory != gpu.Of[gpu.Bytes](17600<<20) {
		t.Errorf("%+v", processes)
	}
	if q := processes[0].SM.Quality(); q != gpu.NotSupported {
		t.Errorf("what it uses is %v", q)
	}
}

// pmon only lists the first devices, 4 in older versions: the XML is read often enough for the processes of the others.
func TestBeyondPmon(t *testing.T) {
	m := machine(t, "blackwell-570")
	var first []string
	for line := range strings.Lines(m.Read("pmon")) {
		if !strings.HasPrefix(strings.TrimSpace(line), "1 ") {
			first = append(first, line)
		}
	}
	m.Write("pmon", strings.Join(first, ""))
	s := source(t, m)
	if d := whole(t, s).Devices[1]; !d.Processes.Present() {
		t.Errorf("the second device's processes are %v", d.Processes)
	}
	until(t, s, "the XML is due soon", func(*gpu.Snapshot, error) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := s.cfg.Clock.Until(s.detailsDue)
		return left > 0 && left <= sometimes
	})
}

// Everything that runs is ended, including what a script has started.
func TestGroupEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "nvidia-smi")
	text := "#!/bin/sh\nsleep 1000 &\necho $! > " + dir + "/child\necho $$ > " + dir + "/self\nsleep 1000\n"
	if err := testkit.WriteProgram(script, []byte(text)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- Program(script)(ctx, io.Discard, io.Discard, "-L") }()
	pids := func() (out []string) {
		for _, name := range []string{"child", "self"} {
			if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(b) > 1 {
				out = append(out, strings.TrimSpace(string(b)))
			}
		}
		return out
	}
	testkit.Until(t, "the script and its child", func() bool { return len(pids()) == 2 })
	cancel()
	if err := testkit.Receive(t, "the command to end", ended); err == nil {
		t.Error("a command that was killed has no error")
	}
	for i, pid := range pids() {
		var stat []byte
		testkit.Until(t, pid+" is gone", func() (gone bool) {
			var err error
			stat, err = os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || i == 0 && strings.Contains(string(stat), ") Z ") // an orphan belongs to its reaper
		}, func() string { return string(stat) })
	}
}

// No ended command is left as a zombie.
func TestNoZombies(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	m := machine(t, "rtx4090-550")
	s := source(t, m)
	m.Fault("once")
	for range 20 {
		_, _ = try(t, s)
		pass(t, s, step(s))
	}
	closes(t, s, nothing)
	for line := range strings.Lines(m.Read("log")) {
		pid, _, _ := strings.Cut(line, " ")
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err == nil && strings.Contains(string(stat), fmt.Sprintf(" %d ", os.Getpid())) {
			t.Errorf("%s is left: %s", pid, stat)
		}
	}
}

// A sleeping card is read by no command, and nothing runs if all sleep.
func TestAllAsleep(t *testing.T) {
	m := machine(t, "rtx4090-550")
	m.PlugIn()
	m.Sleep("0000:01:00.0", true)
	s := source(t, m)
	for range 5 {
		snap, err := try(t, s)
		if err != nil || len(snap.Devices) != 1 || snap.Devices[0].State != gpu.StateAsleep ||
			snap.Devices[0].UUID != "PCI-0000:01:00.0" {
			t.Fatalf("%+v, %v", snap, err)
		}
	}
	if log := m.Read("log"); log != "" {
		t.Errorf("it was run: %s", log)
	}
	m.Sleep("0000:01:00.0", false)
	until(t, s, "awake", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].UUID[:4] == "GPU-"
	})
}

// If a card falls asleep while a reading waits for its line, it is asleep, and the reading ends.
func TestFallsAsleepWhileRead(t *testing.T) {
	m := machine(t, "blackwell-570")
	m.PlugIn()
	s := source(t, m)
	if snap, err := try(t, s); !allOK(snap, err) {
		t.Fatalf("%+v, %v", snap, err)
	}
	first := m.Addresses()[0]
	m.Fault("hang " + first)
	until(t, s, "a line is waited for", func(*gpu.Snapshot, error) bool { return s.set.Flying() > 0 })
	m.Sleep(first, true)
	until(t, s, "it is asleep, the other is read", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) == 2 && snap.Devices[0].State == gpu.StateAsleep &&
			snap.Devices[1].State == gpu.StateOK
	})
	m.Heal("hang")
	m.Sleep(first, false)
	until(t, s, "both are read", allOK)
}

// TestSomeAsleep checks that commands are told which device to read.
func TestSomeAsleep(t *testing.T) {
	m := machine(t, "blackwell-570")
	m.PlugIn()
	asleep, awake := m.Addresses()[0], m.Addresses()[1]
	m.Sleep(asleep, true)
	s := source(t, m)
	snap := until(t, s, "a whole reading", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) == 2 && snap.Devices[1].State == gpu.StateOK && snap.Devices[1].Processes.Present()
	})
	if a := snap.Devices[0]; a.State != gpu.StateAsleep || a.PCI != asleep {
		t.Errorf("%s is %s", a.PCI, a.State)
	}
	if n := m.Count(" " + asleep); n != 0 {
		t.Errorf("the sleeping card was read %d times", n)
	}
	m.Await("the other to be read by all commands", func() bool { return m.Count("pmon "+awake) > 0 && m.Count("xml "+awake) > 0 })
	// The driver fails: the sleeping card stays listed.
	m.Fault("fail 9 " + noDriver)
	m.Fault("die")
	until(t, s, "the sleeping card beside an error", func(snap *gpu.Snapshot, err error) bool {
		return errors.Is(err, gpu.ErrNoDriver) && len(snap.Devices) == 1 && snap.Devices[0].State == gpu.StateAsleep
	})
}

// A driver that is slow to start is not started again by each reading, even beside a sleeping card.
func TestBeginsOnce(t *testing.T) {
	for _, sleeps := range []bool{false, true} {
		t.Run(fmt.Sprint("beside one that sleeps: ", sleeps), func(t *testing.T) {
			m := machine(t, "blackwell-570")
			m.PlugIn()
			m.Sleep(m.Addresses()[0], sleeps)
			m.Fault("silent ")
			s := source(t, m)
			for range 4 {
				if _, err := try(t, s); !errors.Is(err, gpu.ErrNotAnswering) {
					t.Errorf("%v", err)
				}
			}
			if n := m.Count("start --query-gpu"); n != 1 {
				t.Errorf("%d loops began, want 1", n)
			}
			m.Heal("silent")
			until(t, s, "read", func(snap *gpu.Snapshot, err error) bool {
				return err == nil && len(snap.Devices) == 2 && snap.Devices[1].State == gpu.StateOK
			})
		})
	}
}

// An idle laptop is left alone: nothing runs, so that its card can fall asleep.
func TestLeftAlone(t *testing.T) {
	m := machine(t, "laptop-470")
	m.PlugIn()
	address := m.Addresses()[0]
	m.AllowSleep(address, true)
	m.Set(address, "utilization.gpu", "0 %")
	m.Write("pmon", strings.ReplaceAll(m.Read("pmon"), "9120     C", "9120     G"))
	s := source(t, m)
	whole(t, s)
	begun := clockOf(s).Now()
	until(t, s, "all commands end", func(*gpu.Snapshot, error) bool { return len(m.Running()) == 0 })
	if took := clockOf(s).Since(begun); took > nvidia.CalmTime+time.Second {
		t.Errorf("it was left alone %v after it was idle, want %v", took, nvidia.CalmTime)
	}
	starts := m.Count("start")
	snap, err := try(t, s)
	if err != nil || snap.Devices[0].State != gpu.StateOK || snap.Devices[0].Reason.IsZero() ||
		!snap.Devices[0].SampledAt.IsZero() ||
		snap.Devices[0].Thermal.GPU.Quality() != gpu.Stale {
		t.Errorf("%+v, %v", snap, err)
	}
	m.Sleep(address, true)
	if snap, _ := try(t, s); snap.Devices[0].State != gpu.StateAsleep || m.Count("start") != starts {
		t.Errorf("%s after %d starts", snap.Devices[0].State, m.Count("start")-starts)
	}
	m.Sleep(address, false)
	until(t, s, "awake and read", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && !snap.Devices[0].SampledAt.IsZero()
	})
}

// A newly plugged-in card is read, without a restart.
func TestCardComes(t *testing.T) {
	m := machine(t, "blackwell-570")
	m.PlugIn()
	late := m.Addresses()[1]
	link := filepath.Join(m.SysfsRoot, "bus/pci/drivers/nvidia", late)
	target, err := os.Readlink(link)
	if err != nil || os.Remove(link) != nil {
		t.Fatal(err)
	}
	m.Fault("gone " + late)
	s := source(t, m)
	until(t, s, "one device", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == 1 })
	m.Heal("gone")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	until(t, s, "two devices", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == 2 })
}

// exitStatus is an error like those of an ssh session and of a command in a pod.
type exitStatus int

func (e exitStatus) Error() string   { return fmt.Sprint("exit status ", int(e)) }
func (e exitStatus) ExitStatus() int { return int(e) }

// The commands can run elsewhere.
func TestRunElsewhere(t *testing.T) {
	m := machine(t, "a100-mig-535")
	local, works := Program(m.Program()), atomic.Bool{}
	s := source(t, m, func(c *Config) {
		c.Program, c.SysfsRoot, c.ProcRoot = "/nowhere", "", ""
		c.Run = func(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
			if !works.Load() {
				return fmt.Errorf("in the pod: %w", exitStatus(127))
			}
			return local(ctx, stdout, stderr, args...)
		}
	})
	_, err := try(t, s)
	if _ = adviceOf(t, err); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("%v", err)
	}
	works.Store(true)
	until(t, s, "the devices", allOK)
}

// A command that can't be ended is neither waited for nor replaced.
func TestCanNotBeEnded(t *testing.T) {
	m := machine(t, "rtx4090-550")
	local, release := Program(m.Program()), make(chan struct{})
	starts := make(chan string, 1000)
	s := source(t, m, func(c *Config) {
		c.Run = func(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
			starts <- args[0]
			err := local(ctx, stdout, stderr, args...)
			if strings.HasPrefix(args[0], "--query-gpu") {
				<-release
			}
			return err
		}
	})
	until(t, s, "ok", allOK)
	if took := closes(t, s, func() bool { return len(m.Running()) == 0 }); took != time.Second {
		t.Errorf("Close waited %v, want a second", took)
	}
	if _, err := try(t, s); err == nil {
		t.Error("a closed source can be read")
	}
	close(release)
	close(starts)
	loops := 0
	for args := range starts {
		if strings.HasPrefix(args, "--query-gpu") {
			loops++
		}
	}
	if loops != 1 {
		t.Errorf("%d loops were started, want 1", loops)
	}
}

// Sixteen devices, two of them with the same UUID.
func TestManyDevices(t *testing.T) {
	const n = 16
	files := map[string][]byte{}
	repeat := func(line string, cell func(i int) string) string {
		key, _, _ := strings.Cut(line, " = ")
		all := make([]string, n)
		for i := range all {
			all[i] = cell(i)
		}
		return key + " = " + strings.Join(all, " | ") + "\n"
	}
	var fields strings.Builder
	for line := range strings.Lines(string(fakesmi.File("rtx4090-550", "query-gpu"))) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " = ")
		if !ok {
			continue
		}
		fields.WriteString(repeat(key, func(i int) string {
			switch key {
			case "uuid":
				return fmt.Sprintf("GPU-%012d", max(i, 1))
			case "pci.bus_id":
				return fmt.Sprintf("0000000A:%02X:00.0", i+1)
			case "index":
				return fmt.Sprint(i)
			case "count":
				return fmt.Sprint(n)
			}
			return value
		}))
	}
	files["query-gpu"] = []byte(fields.String())
	m := endsAll(t, fakesmi.Make(t, files))
	s := source(t, m)
	snap := until(t, s, "all are ok", func(snap *gpu.Snapshot, err error) bool { return allOK(snap, err) && len(snap.Devices) == n })
	seen := map[string]bool{}
	for i := range snap.Devices {
		d := &snap.Devices[i]
		if seen[d.UUID] {
			t.Errorf("%s is there twice", d.UUID)
		}
		seen[d.UUID] = true
		for _, problem := range sourcetest.Check(d, clockOf(s).Now()) {
			t.Error(problem)
		}
	}
	if d := snap.Devices[15]; d.PCI != "000a:10:00.0" {
		t.Errorf("the last is at %s", d.PCI)
	}
}
