package kernellog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

const (
	card0 = "0000:01:00.0"
	card1 = "0000:02:00.0"
	// booted is how long before noon the machine booted.
	booted = 100 * time.Second
)

// A machine has a log, and devices whose sources report XIDs.
type machine struct {
	t       *testing.T
	log     *Log
	written *scripted
	records int           // so far
	elapsed time.Duration // since noon
	late    time.Duration // how long after the wall clock the uptime is read
	devices []gpu.Device
	notes   []gpu.Advice
	said    strings.Builder
}

// scripted is a log with a scripted result for each read. It is empty at the end of the script.
type scripted struct {
	reads []any // string: records; error: that error
	open  error
}

func (s *scripted) read(buf []byte) (int, error) {
	if len(s.reads) == 0 {
		return 0, io.EOF
	}
	next := s.reads[0]
	s.reads = s.reads[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(buf, next.(string)), nil
}

func (*scripted) close() error { return nil }

func newMachine(t *testing.T, devices ...gpu.Device) *machine {
	m := &machine{t: t, written: &scripted{}, devices: devices}
	m.log = New(Config{
		Path:   "/dev/kmsg",
		Log:    slog.New(slog.NewTextHandler(&m.said, nil)),
		uptime: func() time.Duration { return booted + m.elapsed + m.late },
		open:   func(string) (reader, error) { return m.written, m.written.open },
	})
	return m
}

func card(vendor gpu.Vendor, pci string) gpu.Device {
	d := gpu.Device{Identity: gpu.Identity{UUID: pci, PCI: pci, Vendor: vendor}, State: gpu.StateOK}
	if vendor == gpu.NVIDIA {
		d.Health.XIDs = gpu.Of([]gpu.XID{})
	}
	return d
}

// write adds a kernel line to the log, at a time after noon.
func (m *machine) write(elapsed time.Duration, text string) {
	m.records++
	m.written.reads = append(m.written.reads, fmt.Sprintf("3,%d,%d,-;%s\n SUBSYSTEM=pci\n", m.records, (booted+elapsed).Microseconds(), text))
}

// look makes a reading at a time after noon; the source reports the devices' XIDs.
func (m *machine) look(elapsed time.Duration) []gpu.Device {
	m.t.Helper()
	m.elapsed = elapsed
	now := noon.Add(elapsed)
	seen := slices.Clone(m.devices)
	for i := range seen {
		if seen[i].State == gpu.StateOK {
			seen[i].SampledAt = now
		}
	}
	m.log.Read(m.t.Context(), now)
	m.notes = m.log.Describe(now, seen)
	return seen
}

// tell makes the source of the first device report how often it has seen XID 31, as of a time.
func (m *machine) tell(count uint64, elapsed time.Duration) {
	m.devices[0].Health.XIDs = gpu.Of([]gpu.XID{{Code: 31, Count: count, Last: noon.Add(elapsed)}})
}

const xid31 = "NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python3, Ch 1"

// An XID that both the driver's events and the log report counts once.
func TestEachErrorCountsOnce(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, tt := range map[string]struct {
		happens func(m *machine)
		want    gpu.XID
	}{
		"both in one reading": {
			func(m *machine) { m.write(2*second, xid31); m.tell(1, 5*second); m.look(5 * second) },
			gpu.XID{Count: 1, Last: noon.Add(2 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"the log first": {
			func(m *machine) {
				m.write(5*second, xid31)
				m.look(5 * second)
				m.tell(1, 10*second)
				m.look(10 * second)
			},
			gpu.XID{Count: 1, Last: noon.Add(5 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"the driver first": {
			func(m *machine) {
				m.tell(1, 5*second)
				m.look(5 * second)
				m.write(4*second, xid31)
				m.look(10 * second)
			},
			gpu.XID{Count: 1, Last: noon.Add(5 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"two at once in both": {
			func(m *machine) {
				m.write(2*second, xid31)
				m.write(2*second, xid31)
				m.tell(2, 5*second)
				m.look(5 * second)
			},
			gpu.XID{Count: 2, Last: noon.Add(2 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"the driver told of one of two": {
			func(m *machine) {
				m.write(2*second, xid31)
				m.write(3*second, xid31)
				m.tell(1, 5*second)
				m.look(5 * second)
			},
			gpu.XID{Count: 2, Last: noon.Add(3 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"the log lost it": {
			func(m *machine) { m.tell(3, 5*second); m.look(5 * second) },
			gpu.XID{Count: 3, Last: noon.Add(5 * second)},
		},
		"two events, of which each told one": {
			func(m *machine) {
				m.write(2*second, xid31)
				for at := 5 * second; at < 25*second; at += 5 * second { // the driver answers, but reports nothing
					m.look(at)
				}
				m.tell(1, 40*second)
				m.look(40 * second)
			},
			gpu.XID{Count: 2, Last: noon.Add(40 * second)},
		},
		"the driver did not answer for a minute": {
			func(m *machine) {
				m.devices[0].State = gpu.StateNotAnswering
				m.write(2*second, xid31)
				m.look(5 * second)
				m.look(60 * second)
				m.devices[0].State = gpu.StateOK
				m.tell(1, 65*second)
				m.look(65 * second)
			},
			gpu.XID{Count: 1, Last: noon.Add(2 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
		"the source began anew": {
			func(m *machine) { m.tell(2, 5*second); m.look(5 * second); m.tell(1, 60*second); m.look(60 * second) },
			gpu.XID{Count: 3, Last: noon.Add(60 * second)},
		},
		"before gpuwhy began, and after": {
			func(m *machine) { m.write(20*second, xid31); m.tell(1, 20*second); m.look(20 * second) },
			gpu.XID{Count: 1, Last: noon.Add(20 * second), Culprit: gpu.Culprit{PID: 7, Name: "python3"}},
		},
	} {
		m := newMachine(t, card(gpu.NVIDIA, card0), card(gpu.NVIDIA, card1))
		m.look(0)
		tt.happens(m)
		for _, again := range []string{"", ", looked at again"} {
			m.elapsed += second
			seen := m.look(m.elapsed)
			tt.want.Code = 31
			if diff := cmp.Diff([]gpu.XID{tt.want}, seen[0].Health.XIDs.Or(nil)); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", name, again, diff)
			}
			if other := seen[1].Health.XIDs; !other.Present() || len(other.Or(nil)) != 0 {
				t.Errorf("%s: the other device has %v", name, other)
			}
		}
	}
}

// Lines from before gpuwhy began count with their own time, and are marked as earlier.
func TestWhatWasBefore(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0), card(gpu.AMD, card1))
	m.write(-90*time.Second, xid31)
	m.write(-80*time.Second, "amdgpu 0000:02:00.0: amdgpu: GPU reset begin!")
	m.look(0)
	m.write(3*time.Second, xid31)
	seen := m.look(5 * time.Second)
	culprit := gpu.Culprit{PID: 7, Name: "python3"}
	if diff := cmp.Diff([]gpu.XID{{Code: 31, Count: 2, Earlier: 1, Last: noon.Add(3 * time.Second), Culprit: culprit}}, seen[0].Health.XIDs.Or(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := []gpu.Fault{{Kind: gpu.FaultDeviceReset, Count: 1, Earlier: 1, Last: noon.Add(-80 * time.Second)}}
	if diff := cmp.Diff(want, seen[1].Health.Faults.Or(nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	old := newMachine(t, card(gpu.NVIDIA, card0))
	for range mostEarlier + 10 {
		old.write(-time.Minute, xid31)
	}
	if x := old.look(0)[0].Health.XIDs.Or(nil); x[0].Count != mostEarlier || x[0].Earlier != mostEarlier {
		t.Errorf("of many old ones: %+v", x)
	}
}

// The log's clock drifts: whatever appears after everything was read is new.
func TestADriftingClock(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.look(0)
	m.look(60 * time.Second)
	m.write(10*time.Second, xid31) // it was missing a minute after noon
	m.write(1000*time.Second, "NVRM: Xid (PCI:0000:01:00): 45, pid=7, name=python3, Ch 1")
	x := m.look(65 * time.Second)[0].Health.XIDs.Or(nil)
	if len(x) != 2 || !x[0].Last.Equal(noon.Add(60*time.Second)) || !x[1].Last.Equal(noon.Add(65*time.Second)) || x[0].Earlier != 0 {
		t.Errorf("%+v", x)
	}

	m = newMachine(t, card(gpu.NVIDIA, card0))
	m.look(0)
	m.write(-50*time.Second, xid31)
	m.late = time.Millisecond // between reading the two clocks
	if x := m.look(5 * time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Count != 1 || x[0].Earlier != 0 {
		t.Errorf("by a clock that was read later than the other: %+v", x)
	}
}

// The lines of one hang give one event of each kind, with the program that the kernel names.
func TestHangs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		vendor gpu.Vendor
		lines  []string
		want   []gpu.Fault
	}{
		"amdgpu": {gpu.AMD, []string{
			"amdgpu 0000:01:00.0: amdgpu: Dumping IP State",
			"amdgpu 0000:01:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=5, emitted seq=7",
			"amdgpu 0000:01:00.0: amdgpu:  Process WoWClassic.exe pid 47714 thread dxvk-submit pid 47850",
			"amdgpu 0000:01:00.0: amdgpu: Starting gfx_0.0.0 ring reset",
			"amdgpu 0000:01:00.0: amdgpu: Ring gfx_0.0.0 reset failed",
			"amdgpu 0000:01:00.0: amdgpu: GPU reset begin!",
			"amdgpu 0000:01:00.0: amdgpu: MODE1 reset",
			"amdgpu 0000:01:00.0: amdgpu: GPU reset succeeded, trying to resume",
			"amdgpu 0000:01:00.0: amdgpu: GPU reset(1) succeeded!",
			"amdgpu 0000:01:00.0: [drm] device wedged, but recovered through reset",
		}, []gpu.Fault{
			{Kind: gpu.FaultDeviceReset},
			{Kind: gpu.FaultEngineHang, Engine: "gfx_0.0.0", Culprit: gpu.Culprit{PID: 47714, Name: "WoWClassic.exe"}},
		}},
		"amdgpu of older kernels": {gpu.AMD, []string{
			"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, signaled seq=73, emitted seq=75",
			"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process gnome-shell pid 977 thread gnome-shel:cs0 pid 1005",
			"amdgpu 0000:01:00.0: GPU reset begin!",
		}, []gpu.Fault{
			{Kind: gpu.FaultDeviceReset},
			{Kind: gpu.FaultEngineHang, Engine: "gfx", Culprit: gpu.Culprit{PID: 977, Name: "gnome-shell"}},
		}},
		"amdgpu, and the reset fails": {gpu.AMD, []string{
			"amdgpu 0000:01:00.0: amdgpu: GPU reset begin!. Source:  1",
			"amdgpu 0000:01:00.0: amdgpu: device lost from bus!",
			"amdgpu 0000:01:00.0: amdgpu: GPU reset(1) failed",
			"amdgpu 0000:01:00.0: amdgpu: GPU reset end with ret = -19",
			"amdgpu 0000:01:00.0: amdgpu: GPU Recovery Failed: -19",
		}, []gpu.Fault{{Kind: gpu.FaultDeviceReset}, {Kind: gpu.FaultOffBus}, {Kind: gpu.FaultResetFailed}}},
		"a storm of page faults": {gpu.AMD, slices.Concat(slices.Repeat([]string{
			"amdgpu 0000:01:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771)",
			"amdgpu 0000:01:00.0: amdgpu:  in process python3 pid 2263 thread python3 pid 2263",
			"amdgpu 0000:01:00.0: amdgpu:   in page starting at address 0x00007fc991c04000 from client 0x1b (UTCL2)",
		}, 10)), []gpu.Fault{{Kind: gpu.FaultPage, Engine: "gfxhub", Culprit: gpu.Culprit{PID: 2263, Name: "python3"}}}},
		"i915": {gpu.Intel, []string{
			"i915 0000:01:00.0: [drm] GPU HANG: ecode 12:1:85dffffb, in renderThread [22381]",
			"i915 0000:01:00.0: [drm] Resetting rcs0 for stopped heartbeat on rcs0",
			"i915 0000:01:00.0: [drm] renderThread[22381] context reset due to GPU hang",
		}, []gpu.Fault{
			{Kind: gpu.FaultEngineHang, Culprit: gpu.Culprit{PID: 22381, Name: "renderThread"}},
			{Kind: gpu.FaultEngineReset, Engine: "rcs0"},
		}},
		"xe": {gpu.Intel, []string{
			"xe 0000:01:00.0: [drm] Tile0: GT0: Fault response: Unsuccessful -EINVAL",
			"xe 0000:01:00.0: [drm] Tile0: GT0: Engine memory CAT error [18]: class=bcs, logical_mask: 0x1, guc_id=18",
			"xe 0000:01:00.0: [drm] Tile0: GT0: Engine reset: engine_class=bcs, logical_mask: 0x1, guc_id=18, state=0x249",
			"xe 0000:01:00.0: [drm] Tile0: GT0: Timedout job: seqno=4294967260, lrc_seqno=4, guc_id=18, flags=0x0 in python3 [99]",
			"xe 0000:01:00.0: [drm] Tile0: GT0: reset started",
			"xe 0000:01:00.0: [drm] *ERROR* Tile0: GT0: reset failed (-ETIMEDOUT)",
			`xe 0000:01:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:01:00.0 as wedged.\x0aIOCTLs and executions are blocked.`,
			"xe 0000:01:00.0: [drm] device wedged, needs recovery",
		}, []gpu.Fault{
			{Kind: gpu.FaultDeviceReset},
			{Kind: gpu.FaultEngineHang, Culprit: gpu.Culprit{PID: 99, Name: "python3"}},
			{Kind: gpu.FaultEngineReset, Engine: "bcs"},
			{Kind: gpu.FaultPage},
			{Kind: gpu.FaultResetFailed},
			{Kind: gpu.FaultWedged},
		}},
	} {
		m := newMachine(t, card(tt.vendor, card0), card(tt.vendor, card1))
		m.look(0)
		for _, line := range tt.lines {
			m.write(time.Second, line)
		}
		seen := m.look(5 * time.Second)
		for i := range tt.want {
			tt.want[i].Count, tt.want[i].Last = 1, noon.Add(time.Second)
		}
		if diff := cmp.Diff(tt.want, seen[0].Health.Faults.Or(nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if other := seen[1].Health.Faults; !other.Present() || len(other.Or(nil)) != 0 {
			t.Errorf("%s: the other device has %v", name, other)
		}
		if seen[0].Health.XIDs.Present() {
			t.Errorf("%s: it has XIDs: %v", name, seen[0].Health.XIDs)
		}
	}
}

// A line without a device is about the only device, or is dropped.
func TestLinesWithoutADevice(t *testing.T) {
	t.Parallel()
	const line = "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered"
	alone := newMachine(t, card(gpu.NVIDIA, card0), card(gpu.AMD, card1))
	alone.write(0, line)
	if f := alone.look(time.Second)[1].Health.Faults.Or(nil); len(f) != 1 {
		t.Errorf("the only one has %v", f)
	}
	two := newMachine(t, card(gpu.AMD, card0), card(gpu.AMD, card1))
	two.write(0, line)
	two.look(time.Second)
	two.write(time.Minute, "amdgpu 0000:02:00.0: amdgpu: GPU reset begin!") // a minute later it is a different event
	seen := two.look(time.Minute)
	if a, b := seen[0].Health.Faults.Or(nil), seen[1].Health.Faults.Or(nil); len(a) != 0 || len(b) != 1 || b[0].Kind != gpu.FaultDeviceReset {
		t.Errorf("of two: %v, %v", a, b)
	}
}

// Lines can be many and made up: what is kept is bounded.
func TestWhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.look(0)
	for i := range 500 {
		m.write(time.Second, fmt.Sprintf("NVRM: Xid (PCI:0000:01:00): %d, x", i+1))
		m.write(time.Second, fmt.Sprintf("NVRM: Xid (PCI:0000:%02x:1f): 31, x", i%256))
		m.write(time.Second, xid31)
		m.write(time.Second, "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, but soft recovered")
	}
	x := m.look(5 * time.Second)[0].Health.XIDs.Or(nil)
	if len(x) != mostCodes || len(m.log.devices) > mostDevices || len(m.log.pending) > mostPending {
		t.Errorf("%d codes, %d devices, %d that wait", len(x), len(m.log.devices), len(m.log.pending))
	}
	m.tell(7, 8*time.Second) // the source's own reports still have room
	m.devices[0].PCI = "0000:ff:00.0"
	if x := m.look(10 * time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Count != 7 {
		t.Errorf("a device of a source has %v", x)
	}
	if t31 := m.log.devices[card0].tallies[code{xid: 31}]; t31.count != 501 || len(t31.open) > mostOpen {
		t.Errorf("%d, of which %d wait", t31.count, len(t31.open))
	}
}

// Records that the kernel has overwritten are reported, and the records after them are read.
func TestLostRecords(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.written.reads = append(m.written.reads, errGap)
	m.look(0)
	if strings.Contains(m.said.String(), "lost") {
		t.Errorf("what was before gpuwhy is said to be lost: %s", &m.said)
	}
	for i := range 3 {
		m.written.reads = append(m.written.reads, errGap, errGap)
		m.write(time.Second, xid31)
		m.look(time.Duration(i+1) * 5 * time.Second)
	}
	if x := m.look(20 * time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Count != 3 {
		t.Errorf("%+v", x)
	}
	if n := strings.Count(m.said.String(), "lost lines"); n != 1 {
		t.Errorf("said %d times: %s", n, &m.said)
	}
}

// A log that can't be read is not the same as one without errors.
func TestALogThatCantBeRead(t *testing.T) {
	t.Parallel()
	deaf := card(gpu.NVIDIA, card0)
	deaf.Health.XIDs = gpu.Absent[[]gpu.XID](gpu.NotSupported)
	other := card(gpu.AMD, card1)
	other.Health.Faults = gpu.Absent[[]gpu.Fault](gpu.NotSupported)
	for name, tt := range map[string]struct {
		err  error
		want gpu.Quality
		says string
	}{
		"dmesg_restrict":           {syscall.EPERM, gpu.NotPermitted, "CAP_SYSLOG"},
		"the file's mode":          {syscall.EACCES, gpu.NotPermitted, "CAP_SYSLOG"},
		"a service manager's node": {syscall.ENXIO, gpu.NotPermitted, "CAP_SYSLOG"},
		"a container":              {fs.ErrNotExist, gpu.NotSupported, "--device /dev/kmsg"},
		"anything else":            {syscall.EIO, gpu.NotSupported, "input/output error"}, // as the source says
	} {
		m := newMachine(t, deaf, other)
		m.written.open = tt.err
		seen := m.look(0)
		if a, b := seen[0].Health.XIDs.Quality(), seen[1].Health.Faults.Quality(); a != tt.want || b != tt.want {
			t.Errorf("%s: %v and %v, want %v", name, a, b, tt.want)
		}
		if len(m.notes) != 1 || !strings.Contains(m.notes[0].Text(), tt.says) {
			t.Errorf("%s: notes %v", name, m.notes)
		}
		m.look(time.Second)
		if n := strings.Count(m.said.String(), "\n"); n != 1 {
			t.Errorf("%s: logged %d times: %s", name, n, &m.said)
		}
		m.written.open = nil
		m.write(0, xid31)
		if x := m.look(2 * time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || len(m.notes) != 0 {
			t.Errorf("%s: once it can be read: %v, notes %v", name, x, m.notes)
		}
	}

	// A device whose driver reports errors itself lacks nothing.
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.written.open = syscall.EPERM
	m.tell(2, 0)
	if x := m.look(0)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Count != 2 || len(m.notes) != 0 {
		t.Errorf("%v, notes %v", x, m.notes)
	}
}

// After an error the log is reopened, and begins with records that were already read.
func TestALogThatIsOpenedAnew(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.write(-time.Second, xid31)
	all := slices.Clone(m.written.reads)
	m.look(0)
	m.written.reads = []any{syscall.EIO}
	if x := m.look(5 * time.Second)[0].Health.XIDs; len(x.Or(nil)) != 1 {
		t.Errorf("what is known is forgotten: %v", x)
	}
	m.written.reads = all
	m.write(7*time.Second, xid31)
	if x := m.look(10 * time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Count != 2 {
		t.Errorf("%+v", x)
	}
}

// The reason why a device is lost, known only from the log.
func TestWhyADeviceIsLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		vendor  gpu.Vendor
		line    string
		elapsed time.Duration
		want    string
	}{
		"NVIDIA":       {gpu.NVIDIA, "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", time.Second, "XID 79: the GPU has fallen off the bus"},
		"AMD":          {gpu.AMD, "amdgpu 0000:01:00.0: amdgpu: GPU reset(1) failed", time.Second, "the GPU could not be reset"},
		"Intel":        {gpu.Intel, "xe 0000:01:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:01:00.0 as wedged.", time.Second, "the driver has given up on the GPU"},
		"a mere hang":  {gpu.AMD, "amdgpu 0000:01:00.0: amdgpu: ring gfx timeout, signaled seq=1, emitted seq=2", time.Second, "gone"},
		"an hour late": {gpu.AMD, "amdgpu 0000:01:00.0: amdgpu: GPU reset(1) failed", time.Hour, "gone"},
	} {
		m := newMachine(t, card(tt.vendor, card0))
		m.look(0)
		m.devices[0].Enter(gpu.StateLost, noon.Add(4*time.Second), gpu.Advice{What: "gone"})
		m.write(tt.elapsed, tt.line)
		if got := m.look(tt.elapsed + 4*time.Second)[0].Reason.What; got != tt.want {
			t.Errorf("%s: lost because %q, want %q", name, got, tt.want)
		}
	}
}

// The real file: records that come in pieces, and a pipe that nobody writes to.
func TestFilesAndPipes(t *testing.T) {
	t.Parallel()
	for _, pipe := range []bool{false, true} {
		name := filepath.Join(t.TempDir(), "kmsg")
		if pipe {
			if err := syscall.Mkfifo(name, 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		log := New(Config{Path: name, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		count := func() uint64 {
			devices := []gpu.Device{card(gpu.AMD, card1)}
			log.Read(t.Context(), time.Now())
			if notes := log.Describe(time.Now(), devices); len(notes) > 0 || !devices[0].Health.Faults.Present() {
				t.Fatalf("%v, %v", notes, devices[0].Health.Faults)
			}
			n := uint64(0)
			for _, f := range devices[0].Health.Faults.Or(nil) {
				n += f.Count
			}
			return n
		}
		if n := count(); n != 0 {
			t.Errorf("%d before anything was written", n)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range []struct {
			text string
			want uint64
		}{
			{"3,1,1,-;amdgpu 0000:02:00.0: amdgpu: GPU reset begin!\n", 1},
			{"3,2,2,-;amdgpu 0000:02:00.0: amd", 1},
			{"gpu: GPU reset begin!\n SUBSYSTEM=pci\n DEVICE=+pci:0000:02:00.0\n", 2},
			{strings.Repeat("6,3,3,-;"+strings.Repeat("x", 1000)+"\n", 100), 2},
			{strings.Repeat("y", 2*mostLine), 2},
			{"\n3,4,4,-;amdgpu 0000:02:00.0: amdgpu: GPU reset begin!\n", 3},
		} {
			if len(step.text) > 4096 && pipe {
				step.text = step.text[len(step.text)-4000:]
			}
			if _, err := io.WriteString(f, step.text); err != nil {
				t.Fatal(err)
			}
			if n := count(); n != step.want {
				t.Errorf("pipe %v, after step %d: %d, want %d", pipe, i, n, step.want)
			}
		}
		if err := errors.Join(f.Close(), log.Close(), log.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A read ends with its context, and the next one continues.
func TestAReadingEnds(t *testing.T) {
	t.Parallel()
	m := newMachine(t, card(gpu.NVIDIA, card0))
	m.write(-time.Second, xid31)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m.log.Read(ended, noon)
	if len(m.written.reads) != 1 {
		t.Error("it has read on")
	}
	if x := m.look(time.Second)[0].Health.XIDs.Or(nil); len(x) != 1 || x[0].Earlier != 1 {
		t.Errorf("%+v", x)
	}
}

// The machine's own log, if this test may read it: it ends, and is not waited for.
func TestTheMachinesLog(t *testing.T) {
	t.Parallel()
	log := New(Config{Path: "/dev/kmsg", Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	log.Read(t.Context(), time.Now())
	if !log.state.ok {
		if log.state.advice.What == "" {
			t.Error("it can't be read, and nothing says why")
		}
		t.Skip(log.state.advice.Text())
	}
	if log.caught == 0 || log.last == nil {
		t.Errorf("it was read until %v, record %v", log.caught, log.last)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// What NVIDIA's driver writes without an XID is a fault of the card that it names, and one problem counts once.
func TestNVIDIAWithoutAnXID(t *testing.T) {
	t.Parallel()
	const fell, xid79 = "NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
	for name, tt := range map[string]struct {
		lines    []string
		want     string // of the first card
		suspects string
	}{
		"in one message": {[]string{
			`NVRM: The NVIDIA GPU 0000:01:00.0\x0aNVRM: (PCI ID: 10de:26b5) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.`,
			"NVRM: The NVIDIA probe routine failed for 1 device(s).",
		}, "off_bus 1", "0000:01:00.0 off_bus"},
		"in three messages": {[]string{
			"NVRM: The NVIDIA GPU 0000:01:00.0", "NVRM: (PCI ID: 10de:26b5) installed in this system has", "NVRM: fallen off the bus and is not responding to commands.",
		}, "off_bus 1", "0000:01:00.0 off_bus"},
		"with an XID before it": {[]string{xid79, fell}, "xid 79", "0000:01:00.0 off_bus"},
		"with an XID after it":  {[]string{fell, xid79}, "xid 79", "0000:01:00.0 off_bus"},
		"alone":                 {[]string{fell}, "off_bus 1", "0000:01:00.0 off_bus"},
		"not started": {[]string{
			"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x65:1239)", "NVRM: GPU 0000:01:00.0: rm_init_adapter failed, device minor number 0",
		}, "init_failed 1", "0000:01:00.0 init_failed"},
		"not started, by an older driver": {[]string{
			"NVRM: GPU at 0000:01:00.0: GPU-71dcdf29-68ae-87d1-b57b-86d9f8f01ffc", "NVRM: RmInitAdapter failed! (0x30:0xffff:660)",
			"NVRM: rm_init_adapter failed for device bearing minor number 0", "NVRM: nvidia_frontend_open: minor 0, module->open() failed, error -5",
		}, "init_failed 1", "0000:01:00.0 init_failed"},
		"nobody knows which": {[]string{"NVRM: RmInitAdapter failed! (0x30:0xffff:660)"}, "", ""},
		"of a program":       {[]string{"NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=python3, Ch 1"}, "xid 31", ""},
	} {
		m := newMachine(t, card(gpu.NVIDIA, card0), card(gpu.NVIDIA, card1))
		m.look(0)
		for i, line := range tt.lines {
			m.write(time.Second+time.Duration(i)*time.Millisecond, line)
		}
		m.look(5 * time.Second)
		seen := m.look(30 * time.Second)
		var said []string
		for _, x := range seen[0].Health.XIDs.Or(nil) {
			said = append(said, fmt.Sprint("xid ", x.Code))
		}
		for _, f := range seen[0].Health.Faults.Or(nil) {
			said = append(said, fmt.Sprint(f.Kind, " ", f.Count))
		}
		if got := strings.Join(said, ", "); got != tt.want || !seen[0].Health.Faults.Present() {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if other := &seen[1].Health; len(other.XIDs.Or(nil))+len(other.Faults.Or(nil)) != 0 {
			t.Errorf("%s: the other card has %v, %v", name, other.XIDs, other.Faults)
		}
		var suspects []string
		for _, s := range m.log.Suspects() {
			suspects = append(suspects, s.PCI+" "+string(s.Kind))
		}
		if got := strings.Join(suspects, ", "); got != tt.suspects {
			t.Errorf("%s: the suspects are %q, want %q", name, got, tt.suspects)
		}
	}
}

// A current fault reported by the source itself is kept beside those in the log.
func TestStandingFaultsStay(t *testing.T) {
	t.Parallel()
	asks := card(gpu.NVIDIA, card0)
	asks.Health.Faults = gpu.Of([]gpu.Fault{{Kind: gpu.FaultNeedsReset, Count: 1, Last: noon}})
	m := newMachine(t, asks)
	m.look(0)
	m.write(time.Second, "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x26:0x65:1239)")
	for range 2 {
		seen := m.look(5 * time.Second)
		want := []gpu.Fault{{Kind: gpu.FaultInitFailed, Count: 1, Last: noon.Add(time.Second)}, {Kind: gpu.FaultNeedsReset, Count: 1, Last: noon}}
		if diff := cmp.Diff(want, seen[0].Health.Faults.Or(nil)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
