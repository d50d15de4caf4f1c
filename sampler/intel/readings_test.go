//go:build linux

package intel

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

// shown returns a device's readings as text, by the ID of their row; absent ones as the reason.
func shown(d *gpu.Device) map[string]string {
	out := map[string]string{}
	for r := range catalog.All() {
		r.Visit(d, func(part string, ref catalog.Ref) {
			name := r.ID
			if part != "" {
				name += " " + part
			}
			out[name] = ref.(interface{ String() string }).String()
		})
	}
	return out
}

// TestLinkInABox checks that the bridges of an external Thunderbolt box are not taken for part of the card.
func TestLinkInABox(t *testing.T) {
	m := drmtest.New(t)
	bridges := []string{"0000:00:07.0", "0000:04:00.0", "0000:05:01.0", "0000:06:00.0", "0000:07:01.0"}
	c := m.Card(1, "0000:08:00.0", "xe", merge(ids("0xe20b"), xeGT(0, 0, false, "2850", "2850"), slowLink), bridges...)
	port := map[string]string{"vendor": "0x8086\n", "class": "0x060400\n"}
	dir := filepath.Dir(c.Dir)
	for i := range bridges {
		link := slowLink
		if i == 1 { // the card's own, towards the box
			link = map[string]string{
				"current_link_speed": "8.0 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n",
				"current_link_width": "4\n", "max_link_width": "8\n",
			}
		}
		for name, text := range merge(port, link) {
			m.Write(filepath.Join(dir, name), text)
		}
		dir = filepath.Dir(dir)
	}
	d := read(t, source(t, m))
	if d.PCIe.Generation != gpu.Of(3) || d.PCIe.Width != gpu.Of(4) {
		t.Errorf("the link is %+v", d.PCIe)
	}
}

// TestCards checks what each kind of card reports in the second reading, ten seconds after the first, when its counters have moved.
func TestCards(t *testing.T) {
	tests := map[string]struct {
		card func(*drmtest.Machine) *drmtest.Card
		then map[string]string // files that differ in the second reading
		want map[string]string
	}{
		"UHD 770, i915": {uhd770, nil, map[string]string{
			"identity.name": "Intel UHD Graphics 770", "identity.architecture": "Xe-LP", "identity.uuid": "PCI-0000:00:02.0",
			"identity.driver_version": "6.19.0-test", "identity.serial": "not_supported",
			"clocks.graphics": "350", "clocks.sm": "350", "clocks.max_graphics": "1550", "clocks.video": "not_supported",
			"clocks.event_reasons": "0", "power.draw": "2.5", "power.energy": "not_supported",
			"power.enforced_limit": "not_supported",
			"fans.count":           "0", "fans.commanded": "not_supported", "thermal.gpu": "not_supported",
			"memory.total": "not_supported",
			"memory.used":  "not_supported", "pcie.width": "not_supported", "modes.display_active": "true",
			"modes.persistence": "not_supported",
			"utilization.gpu":   "0", "utilization.memory": "not_supported", "activity.engine": "not_supported",
			"processes": "[]",
		}},
		"HD 530, i915 of 5.10": {hd530, nil, map[string]string{
			"identity.name": "Intel HD Graphics 530", "identity.architecture": "Gen9", "clocks.graphics": "350",
			"clocks.max_graphics":  "1150",
			"clocks.event_reasons": "not_supported", "power.draw": "not_supported", "fans.count": "0",
		}},
		"Arc A380, i915 of 6.2": {arcA380, map[string]string{"hwmon/hwmon1/energy1_input": "1200000000\n"}, map[string]string{
			"identity.name": "Intel Arc A380", "thermal.gpu": "not_supported", "fans.count": "not_supported", "power.draw": "40",
			"power.enforced_limit": "not_supported", "power.default_limit": "55", "pcie.generation": "4", "pcie.max_width": "8",
			"memory.bar1_total": "not_supported",
		}},
		"Arc A750, xe": {alchemistOnXe, map[string]string{"hwmon/hwmon6/energy2_input": "3250000000\n"}, map[string]string{
			"identity.name": "Intel Arc A750", "power.draw": "25", "power.enforced_limit": "190", "power.default_limit": "190",
			"clocks.video": "not_supported", "thermal.gpu": "not_supported",
		}},
		"an unknown card": {unknown, nil, map[string]string{
			"identity.architecture": "not_reported", "clocks.graphics": "not_supported", "clocks.event_reasons": "not_supported",
			"power.draw": "not_supported", "power.energy": "not_supported", "fans.count": "not_supported",
			"pcie.width":      "not_supported",
			"utilization.gpu": "0", "memory.total": "not_supported",
		}},
		"Meteor Lake, i915": {meteorLake, nil, map[string]string{
			"identity.name": "Intel Arc Graphics", "clocks.graphics": "1200", "clocks.video": "800", "clocks.max_video": "1300",
			"power.draw": "not_supported", "fans.count": "0", "modes.display_active": "false",
		}},
		"Lunar Lake, xe": {lunarLake, map[string]string{"tile0/gt0/freq0/throttle/status": "1\n",
			"tile0/gt0/freq0/throttle/reason_prochot": "1\n"}, map[string]string{
			"identity.name": "Intel Arc Graphics 130V/140V", "identity.architecture": "Xe2", "clocks.graphics": "0",
			"clocks.video":        "0",
			"clocks.max_graphics": "2050", "fans.count": "0", "memory.total": "not_supported", "clocks.event_reasons": "8",
		}},
		"Arc A770, i915": {arcA770, map[string]string{
			"hwmon/hwmon4/energy1_input": "13620000000\n", "drm/card0/gt/gt0/throttle_reason_status": "1\n",
			"drm/card0/gt/gt0/throttle_reason_pl1": "1\n", "drm/card0/gt/gt0/throttle_reason_thermal": "1\n",
		}, map[string]string{
			"identity.name": "Intel Arc A770", "identity.architecture": "Xe-HPG", "thermal.gpu": "45",
			"thermal.memory":   "not_supported",
			"thermal.slowdown": "not_supported", "fans.count": "1", "fan.rpm 0": "1260", "fan.commanded 0": "not_supported",
			"power.draw": "100", "power.energy": "13620", "power.enforced_limit": "190", "power.default_limit": "190",
			"power.max_limit": "not_supported",
			"clocks.graphics": "2400", "clocks.event_reasons": "68", "memory.total": "not_supported", "memory.used": "0",
			"memory.bar1_total": "17179869184", "pcie.generation": "4", "pcie.width": "8", "pcie.max_width": "16",
			"pcie.max_generation": "4", "pcie.replays": "not_supported",
		}},
		"Arc B580, xe": {arcB580, map[string]string{"hwmon/hwmon3/energy1_input": "6500000000\n"}, map[string]string{
			"identity.name": "Intel Arc B580", "thermal.gpu": "52", "thermal.memory": "54", "thermal.slowdown": "100",
			"thermal.shutdown":   "105",
			"thermal.memory_max": "105", "fans.count": "2", "fan.rpm 0": "1500", "fan.rpm 1": "0", "power.draw": "150",
			"power.energy":         "6500",
			"power.enforced_limit": "190", "power.default_limit": "not_supported", "clocks.graphics": "2850",
			"clocks.video":         "1200",
			"clocks.event_reasons": "0", "pcie.generation": "4", "pcie.width": "8",
		}},
		"Flex 170, Intel's i915": {flex170, nil, map[string]string{
			"identity.name": "Intel Data Center GPU Flex 170", "identity.driver_version": "1.25.2.17.240520",
			"memory.total": "16225243136",
			"memory.used":  "4000000000", "memory.free": "12225243136", "fans.count": "not_supported", "power.draw": "not_reported",
			"thermal.gpu": "not_supported",
		}},
		"whose card counts less than its chip": {
			func(m *drmtest.Machine) *drmtest.Card {
				c := arcB580(m)
				c.Set(map[string]string{"hwmon/hwmon3/energy2_input": "9000000000\n"})
				return c
			},
			map[string]string{"hwmon/hwmon3/energy1_input": "6500000000\n", "hwmon/hwmon3/energy2_input": "9220000000\n"},
			map[string]string{"power.draw": "150 (doubtful)", "power.energy": "6500 (doubtful)"},
		},
		"whose card lost more of its register than its chip": {
			func(m *drmtest.Machine) *drmtest.Card {
				c := arcB580(m)
				c.Set(map[string]string{"hwmon/hwmon3/energy2_input": "9000000000\n"})
				return c
			},
			map[string]string{"hwmon/hwmon3/energy1_input": "6500000000\n", "hwmon/hwmon3/energy2_input": "10100000000\n"},
			map[string]string{"power.draw": "150", "power.energy": "6500"},
		},
		"Max 1550, xe": {max1550, map[string]string{"hwmon/hwmon2/energy1_input": "4777000000\n"}, map[string]string{
			"identity.name": "Intel Data Center GPU Max 1550", "identity.architecture": "Xe-HPC",
			"memory.total": "137438953472", "clocks.graphics": "1550",
			"clocks.video": "not_supported", "clocks.max_memory": "3200", "power.draw": "400", "power.enforced_limit": "600",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := drmtest.New(t)
			kernel(m, "6.19.0-test")
			card := tt.card(m)
			s := source(t, m)
			first := read(t, s)
			if first.State != gpu.StateOK || first.Power.Draw.Present() {
				t.Fatalf("first it is %s with %v", first.State, first.Power.Draw)
			}
			for _, fan := range first.Fans.Fans {
				if fan.RPM.Present() {
					t.Errorf("the first speed of a fan is %v, a mean of an unknown time", fan.RPM)
				}
			}
			clockOf(s).Advance(10 * time.Second)
			card.Set(tt.then)
			if name == "UHD 770, i915" {
				m.Write(filepath.Join(m.Sysfs, "class/powercap/intel-rapl:0:1/energy_uj"), "30000000\n")
			}
			d := read(t, s)
			got := shown(&d)
			for id, want := range tt.want {
				if got[id] != want {
					t.Errorf("%s is %q, want %q", id, got[id], want)
				}
			}
			for _, problem := range sourcetest.Check(&d, clockOf(s).Now()) {
				t.Error(problem)
			}
		})
	}
}
