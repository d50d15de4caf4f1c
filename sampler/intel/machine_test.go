//go:build linux

package intel

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/drm"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The cards below are made up from public facts: the files that the kernel's documents and
// drivers name, with numbers such as products of that kind have. None is of a real machine.

// kernel gives the machine a version of the kernel.
func kernel(m *drmtest.Machine, version string) {
	m.Write(filepath.Join(m.Proc, "sys/kernel/osrelease"), version+"\n")
}

func i915GT(number int, act, most string) map[string]string {
	dir := fmt.Sprintf("drm/card%d/gt/gt%d/", 0, number)
	files := map[string]string{
		dir + "id": fmt.Sprintln(number), dir + "rps_act_freq_mhz": act + "\n", dir + "rps_cur_freq_mhz": act + "\n",
		dir + "rps_RP0_freq_mhz": most + "\n", dir + "rps_max_freq_mhz": most + "\n", dir + "rc6_residency_ms": "100000\n",
		dir + "throttle_reason_status": "0\n",
	}
	for _, reason := range []string{"pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"} {
		files[dir+"throttle_reason_"+reason] = "0\n"
	}
	return files
}

func xeGT(tile, number int, media bool, act, most string) map[string]string {
	dir := fmt.Sprintf("tile%d/gt%d/", tile, number)
	kind := "rc"
	if media {
		kind = "mc"
	}
	files := map[string]string{
		dir + "freq0/act_freq": act + "\n", dir + "freq0/cur_freq": act + "\n", dir + "freq0/rp0_freq": most + "\n",
		dir + "freq0/max_freq": most + "\n",
		dir + "gtidle/name": fmt.Sprintf("gt%d-%s\n", number,
			kind), dir + "gtidle/idle_residency_ms": "100000\n", dir + "gtidle/idle_status": "gt-c0\n",
		dir + "freq0/throttle/status": "0\n",
	}
	for _, reason := range []string{"pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"} {
		files[dir+"freq0/throttle/reason_"+reason] = "0\n"
	}
	return files
}

func merge(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, files := range all {
		maps.Copy(out, files)
	}
	return out
}

func ids(product string) map[string]string {
	return map[string]string{"vendor": "0x8086\n", "device": product + "\n", "revision": "0x04\n",
		"subsystem_vendor": "0x8086\n", "subsystem_device": "0x1020\n"}
}

// uhd770 is the integrated GPU of an Alder Lake desktop under i915 (Linux 6.8), with a
// display: no sensors of its own.
func uhd770(m *drmtest.Machine) *drmtest.Card {
	c := m.Card(0, "0000:00:02.0", "i915", merge(ids("0x4680"), i915GT(0, "350", "1550"), map[string]string{
		"drm/card0/card0-DP-1/enabled": "enabled\n", "drm/card0/card0-DP-1/dpms": "On\n",
		"drm/card0/card0-DP-1/status":      "connected\n",
		"drm/card0/card0-HDMI-A-1/enabled": "disabled\n", "drm/card0/card0-HDMI-A-1/dpms": "Off\n",
	}))
	rapl := filepath.Join(m.Sysfs, "class/powercap")
	for name, domain := range map[string]string{"intel-rapl:0:0": "core", "intel-rapl:0:1": "uncore"} {
		m.Write(filepath.Join(rapl, name, "name"), domain+"\n")
		m.Write(filepath.Join(rapl, name, "energy_uj"), "5000000\n")
		m.Write(filepath.Join(rapl, name, "max_energy_range_uj"), "262143328850\n")
	}
	return c
}

// hd530 is the integrated GPU of a Skylake desktop under i915 of Linux 5.10, which has the
// files of its only gt in the folder of the node.
func hd530(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:00:02.0", "i915", merge(ids("0x1912"), map[string]string{
		"drm/card0/gt_act_freq_mhz": "350\n", "drm/card0/gt_cur_freq_mhz": "350\n", "drm/card0/gt_RP0_freq_mhz": "1150\n",
		"drm/card0/gt_max_freq_mhz": "1150\n", "drm/card0/power/rc6_residency_ms": "100000\n",
		"drm/card0/power/rc6_enable": "1\n",
	}))
}

// arcA380 is a card under i915 of Linux 6.2: no temperature, no fan.
func arcA380(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon1/"
	return m.Card(0, "0000:03:00.0", "i915", merge(ids("0x56a5"), i915GT(0, "2450", "2450"), map[string]string{
		hwmon + "name": "i915\n", hwmon + "in0_input": "1050\n", hwmon + "energy1_input": "800000000\n",
		hwmon + "power1_max": "0\n", hwmon + "power1_rated_max": "55000000\n",
		"current_link_speed": "16.0 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "8\n",
		"max_link_width": "8\n",
	}))
}

// alchemistOnXe is an Arc A750 that was given to xe (Linux 6.12): sensors of the chip alone.
func alchemistOnXe(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon6/"
	return m.Card(0, "0000:03:00.0", "xe", merge(ids("0x56a1"), xeGT(0, 0, false, "600", "2400"), map[string]string{
		hwmon + "name": "xe\n", hwmon + "energy2_input": "3000000000\n", hwmon + "energy2_label": "pkg\n",
		hwmon + "power2_max": "190000000\n", hwmon + "power2_rated_max": "190000000\n", hwmon + "power2_label": "pkg\n",
		hwmon + "in2_input": "800\n", hwmon + "in2_label": "pkg\n",
	}))
}

// unknown is a card of a product that is in no list yet, under a driver that says little.
func unknown(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:03:00.0", "xe", ids("0xe2ff"))
}

// meteorLake is the integrated GPU of a laptop under i915 (Linux 6.8): its media engines
// have a clock of their own, and its processor has no domain "uncore".
func meteorLake(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:00:02.0", "i915", merge(ids("0x7d55"), i915GT(0, "1200", "2250"), i915GT(1, "800", "1300")))
}

// lunarLake is the integrated GPU of a laptop under xe (Linux 6.12).
func lunarLake(m *drmtest.Machine) *drmtest.Card {
	return m.Card(0, "0000:00:02.0", "xe", merge(ids("0x64a0"), xeGT(0, 0, false, "0", "2050"), xeGT(0, 1, true, "0", "1500")))
}

// Each card of Arc has a switch with two bridges, and a link within itself that reads as
// the slowest.
var (
	arcBridges = []string{"0000:00:01.0", "0000:01:00.0", "0000:02:01.0"}
	slowLink   = map[string]string{"current_link_speed": "2.5 GT/s PCIe\n", "max_link_speed": "2.5 GT/s PCIe\n",
		"current_link_width": "1\n", "max_link_width": "1\n"}
	arcResources = "0x0000000081000000 0x0000000081ffffff 0x0000000000140204\n" +
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n" +
		"0x0000006000000000 0x00000063ffffffff 0x000000000014220c\n"
)

// arcSwitch fills in the bridges above a card: the root port and the card's own two.
func arcSwitch(c *drmtest.Card) {
	port := map[string]string{"vendor": "0x8086\n", "class": "0x060400\n"}
	link := map[string]string{"current_link_speed": "16.0 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n",
		"current_link_width": "8\n", "max_link_width": "16\n"}
	for i, files := range []map[string]string{merge(port, link), merge(port, link), merge(port, slowLink)} {
		dir := c.Dir
		for range len(arcBridges) - i {
			dir = filepath.Dir(dir)
		}
		for name, text := range files {
			c.Write(filepath.Join(dir, name), text)
		}
	}
}

// arcA770 is a card under i915 (Linux 6.14).
func arcA770(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon4/"
	c := m.Card(0, "0000:03:00.0", "i915", merge(ids("0x56a0"), i915GT(0, "2400", "2400"), slowLink, map[string]string{
		"resource":     arcResources,
		hwmon + "name": "i915\n", hwmon + "in0_input": "990\n", hwmon + "energy1_input": "12620000000\n",
		hwmon + "power1_max": "190000000\n", hwmon + "power1_rated_max": "190000000\n", hwmon + "power1_max_interval": "28000\n",
		hwmon + "fan1_input": "1260\n", hwmon + "temp1_input": "45000\n",
		"hwmon/hwmon5/name": "i915_gt0\n", "hwmon/hwmon5/energy1_input": "1\n",
	}), arcBridges...)
	arcSwitch(c)
	return c
}

// arcB580 is a card under xe (Linux 7.0).
func arcB580(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon3/"
	c := m.Card(1, "0000:03:00.0", "xe", merge(ids("0xe20b"), xeGT(0, 0, false, "2850", "2850"), xeGT(0, 1, true, "1200",
		"1500"), slowLink, map[string]string{
		"resource":     arcResources,
		hwmon + "name": "xe\n", hwmon + "energy1_input": "5000000000\n", hwmon + "energy1_label": "card\n",
		hwmon + "energy2_input": "3000000000\n", hwmon + "energy2_label": "pkg\n",
		hwmon + "power1_cap": "230000000\n", hwmon + "power1_max": "190000000\n", hwmon + "power1_crit": "300000000\n",
		hwmon + "power1_label": "card\n",
		hwmon + "power2_max":   "0\n", hwmon + "power2_cap": "150000000\n", hwmon + "power2_label": "pkg\n",
		hwmon + "temp2_input": "52000\n", hwmon + "temp2_label": "pkg\n", hwmon + "temp2_crit": "100000\n",
		hwmon + "temp2_emergency": "105000\n",
		hwmon + "temp3_input":     "54000\n", hwmon + "temp3_label": "vram\n", hwmon + "temp3_crit": "105000\n",
		hwmon + "temp4_input": "40000\n", hwmon + "temp4_label": "mctrl\n", hwmon + "temp6_input": "50000\n",
		hwmon + "temp6_label": "vram_ch_0\n",
		hwmon + "fan1_input":  "1500\n", hwmon + "fan2_input": "0\n", hwmon + "in1_input": "1010\n", hwmon + "in1_label": "pkg\n",
	}), arcBridges...)
	arcSwitch(c)
	return c
}

// flex170 is a card of the data center under Intel's own build of i915, cooled by the
// chassis.
func flex170(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon2/"
	c := m.Card(0, "0000:4d:00.0", "i915", merge(ids("0x56c0"), i915GT(0, "1950", "2050"), map[string]string{
		"drm/card0/lmem_total_bytes": "16225243136\n", "drm/card0/lmem_avail_bytes": "12225243136\n",
		hwmon + "name": "i915\n", hwmon + "energy1_input": "99000000\n", hwmon + "power1_max": "120000000\n",
	}))
	m.Write(filepath.Join(m.Sysfs, "module/i915/version"), "1.25.2.17.240520\n")
	return c
}

// max1550 is a module of the data center under xe (Linux 6.12), with two tiles.
func max1550(m *drmtest.Machine) *drmtest.Card {
	const hwmon = "hwmon/hwmon2/"
	tile := func(n int) map[string]string {
		dir := fmt.Sprintf("tile%d/", n)
		return map[string]string{dir + "physical_vram_size_bytes": "68719476736\n",
			dir + "memory/freq0/max_freq": "3200\n", dir + "memory/freq0/min_freq": "3200\n"}
	}
	return m.Card(0, "0000:3a:00.0", "xe", merge(ids("0x0bd5"), xeGT(0, 0, false, "1000", "1600"), xeGT(1, 1, false,
		"1550", "1600"), tile(0), tile(1), map[string]string{
		"class": "0x038000\n", hwmon + "name": "xe\n", hwmon + "energy1_input": "777000000\n", hwmon + "curr1_crit": "900000\n",
		hwmon + "power1_max": "600000000\n", hwmon + "power1_rated_max": "600000000\n",
	}))
}

// i915Client is the fdinfo of a client of i915 since Linux 6.8, without regions before.
func i915Client(address string, id, render, video uint64, memory string) string {
	return fmt.Sprintf("drm-driver:\ti915\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n%s"+
		"drm-engine-render:\t%d ns\ndrm-engine-copy:\t0 ns\n"+
		"drm-engine-video:\t%d ns\ndrm-engine-capacity-video:\t2\ndrm-engine-video-enhance:\t0 ns\n", id, address,
		memory, render, video)
}

// xeClient is the fdinfo of a client of xe since Linux 6.11.
func xeClient(address string, id, rcs, ccs, vcs, total uint64, memory string) string {
	return fmt.Sprintf("drm-driver:\txe\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n%sdrm-cycles-rcs:\t%d\ndrm-total-cycles-rcs:\t%d\n"+
		"drm-cycles-ccs:\t%d\ndrm-total-cycles-ccs:\t%[5]d\ndrm-engine-capacity-ccs:\t4\n"+
		"drm-cycles-vcs:\t%[7]d\ndrm-total-cycles-vcs:\t%[5]d\ndrm-engine-capacity-vcs:\t2\n",
		id, address, memory, rcs, total, ccs, vcs)
}

const (
	// patient is for tests in which nothing hangs: a busy machine must not fail them.
	patient = 20 * time.Second
	// hurried is the deadline where something hangs.
	hurried = 400 * time.Millisecond
)

// source is a source of a machine, which the test closes.
func source(t *testing.T, m *drmtest.Machine) *Source {
	t.Helper()
	return sourceWithin(t, m, patient)
}

func sourceWithin(t *testing.T, m *drmtest.Machine, deadline time.Duration) *Source {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s := New(Config{SysfsRoot: m.Sysfs, ProcRoot: m.Proc, Deadline: deadline, Log: log})
	t.Cleanup(func() {
		_ = s.Close()
		for s.set.Flying() > 0 {
			time.Sleep(time.Millisecond)
		}
	})
	return s
}

func try(t *testing.T, s *Source) (*gpu.Snapshot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	return s.Read(ctx)
}

// read reads the only card.
func read(t *testing.T, s *Source) gpu.Device {
	t.Helper()
	snap, err := try(t, s)
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

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) use(s *Source) {
	for _, card := range s.cards {
		card.now = func() time.Time { return c.now }
	}
}
