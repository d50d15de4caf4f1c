//go:build linux

package intel

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTests(m)) }

// The cards below come from the captures; some are made from the same files.

// kernel sets the machine's kernel version.
func kernel(m *drmtest.Machine, version string) {
	m.Write(filepath.Join(m.Proc, "sys/kernel/osrelease"), version+"\n")
}

var xeGT, merge, ids = drmtest.XeGT, drmtest.Merge, drmtest.IntelIDs

// uhd770 is the integrated GPU of an Alder Lake desktop with i915 (Linux 6.8), with a display, but no sensors of its own.
func uhd770(m *drmtest.Machine) *drmtest.Card { return m.Load("uhd-770") }

// hd530 is the integrated GPU of a Skylake desktop with i915 of Linux 5.10, which has the files of its only gt in the node's folder.
func hd530(m *drmtest.Machine) *drmtest.Card { return m.Load("hd-530") }

// arcA380 is a card with i915 of Linux 6.2: no temperature, no fan.
func arcA380(m *drmtest.Machine) *drmtest.Card { return m.Load("arc-a380") }

// alchemistOnXe is an Arc A750 with xe (Linux 6.12): only the chip's sensors.
func alchemistOnXe(m *drmtest.Machine) *drmtest.Card { return m.Load("arc-a750-xe") }

// unknown is a product that is in no list yet, with a driver that reports little.
func unknown(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:03:00.0", "xe", ids("0xe2ff"))
}

// meteorLake is the integrated GPU of a laptop with i915 (Linux 6.8): its media engines have their own clock, and its processor has no
// domain "uncore".
func meteorLake(m *drmtest.Machine) *drmtest.Card { return m.Load("meteor-lake") }

// lunarLake is the integrated GPU of a laptop with xe (Linux 6.12).
func lunarLake(m *drmtest.Machine) *drmtest.Card { return m.Load("lunar-lake") }

// slowLink is the internal link of an Arc card, which reads as the slowest.
var slowLink = map[string]string{
	"current_link_speed": "2.5 GT/s PCIe\n", "max_link_speed": "2.5 GT/s PCIe\n",
	"current_link_width": "1\n", "max_link_width": "1\n",
}

// arcA770 is a card with i915 (Linux 6.14).
func arcA770(m *drmtest.Machine) *drmtest.Card { return m.Load("arc-a770") }

// arcB580 is a card with xe (Linux 7.0).
func arcB580(m *drmtest.Machine) *drmtest.Card { return m.Load("arc-b580") }

// flex170 is a data center card with Intel's own build of i915, cooled by the chassis.
func flex170(m *drmtest.Machine) *drmtest.Card { return m.Load("flex-170") }

// max1550 is a data center module with xe (Linux 6.12), with two tiles.
func max1550(m *drmtest.Machine) *drmtest.Card { return m.Load("max-1550") }

// i915Client returns a client's fdinfo in i915, with regions as from Linux 6.8 on.
func i915Client(address string, id, render, video uint64, memory string) string {
	return fmt.Sprintf("drm-driver:\ti915\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n%s"+
		"drm-engine-render:\t%d ns\ndrm-engine-copy:\t0 ns\n"+
		"drm-engine-video:\t%d ns\ndrm-engine-capacity-video:\t2\ndrm-engine-video-enhance:\t0 ns\n", id, address,
		memory, render, video)
}

// xeClient returns a client's fdinfo in xe, as from Linux 6.11 on.
func xeClient(address string, id, rcs, ccs, vcs, total uint64, memory string) string {
	return fmt.Sprintf("drm-driver:\txe\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n%sdrm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d\n"+
		"drm-cycles-ccs:\t%d\ndrm-total-cycles-ccs:\t%[5]d\ndrm-engine-capacity-ccs:\t4\n"+
		"drm-cycles-vcs:\t%[7]d\ndrm-total-cycles-vcs:\t%[5]d\ndrm-engine-capacity-vcs:\t2\n",
		id, address, memory, rcs, total, ccs, vcs)
}

// deadline is a card's deadline. It passes when a test moves the clock.
const deadline = 2 * time.Second

// source returns a source of a machine, which is closed at the end of the test. The test moves its clock.
func source(t *testing.T, m *drmtest.Machine, change ...func(*Config)) *Source {
	t.Helper()
	cfg := Config{
		SysfsRoot: m.Sysfs, ProcRoot: m.Proc, Deadline: deadline, Clock: clockwork.NewFakeClock(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, c := range change {
		c(&cfg)
	}
	s := New(cfg)
	t.Cleanup(func() {
		_ = s.Close() // it never fails
		testkit.Until(t, "no card is read any more", func() bool { return s.set.Flying() == 0 })
	})
	return s
}

// clockOf returns a source's clock.
func clockOf(s *Source) *clockwork.FakeClock { return s.cfg.Clock.(*clockwork.FakeClock) }

// read reads the only card.
func read(t *testing.T, s *Source) gpu.Device {
	t.Helper()
	snap, err := drmtest.Read(t, s)
	if err != nil || len(snap.Devices) != 1 {
		t.Fatalf("%+v, %v; want one GPU", snap, err)
	}
	return snap.Devices[0]
}

// cards lists the machine's cards.
func cards(t *testing.T, m *drmtest.Machine) []drm.Card {
	t.Helper()
	all, err := drm.NewFinder(m.Sysfs, drm.ReadFile).Cards(driverI915, driverXe)
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all
}

// after reads the only card after some time, with a new walk over /proc.
func after(t *testing.T, s *Source, d time.Duration) gpu.Device {
	t.Helper()
	clockOf(s).Advance(d)
	return read(t, s)
}
