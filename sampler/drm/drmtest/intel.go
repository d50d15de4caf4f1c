//go:build unix

package drmtest

import (
	"fmt"
	"maps"
	"path/filepath"
)

// The cards of this package are made up from public facts: the files that the kernel's documentation and drivers name, with numbers typical
// of such products. None is from a real machine.

// I915GT returns the files of an i915 GT: its current and highest clock in MHz.
func I915GT(number int, act, most string) map[string]string {
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

// XeGT returns the files of an xe GT, either for the media engines or for the others.
func XeGT(tile, number int, media bool, act, most string) map[string]string {
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

// Merge returns the files of all.
func Merge(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, files := range all {
		maps.Copy(out, files)
	}
	return out
}

// IntelIDs returns the files that identify an Intel product.
func IntelIDs(product string) map[string]string {
	return map[string]string{"vendor": "0x8086\n", "device": product + "\n", "revision": "0x04\n",
		"subsystem_vendor": "0x8086\n", "subsystem_device": "0x1020\n"}
}

// SlowLink are the files of the internal link of an Arc card, which reads as the slowest: the card has a switch with two bridges.
var SlowLink = map[string]string{"current_link_speed": "2.5 GT/s PCIe\n", "max_link_speed": "2.5 GT/s PCIe\n",
	"current_link_width": "1\n", "max_link_width": "1\n"}

// The bridges above an Arc card, and its memory windows.
var (
	arcBridges   = []string{"0000:00:01.0", "0000:01:00.0", "0000:02:01.0"}
	ArcResources = "0x0000000081000000 0x0000000081ffffff 0x0000000000140204\n" +
		"0x0000000000000000 0x0000000000000000 0x0000000000000000\n" +
		"0x0000006000000000 0x00000063ffffffff 0x000000000014220c\n"
)

// arcSwitch adds the bridges above a card: the root port and the card's own two.
func arcSwitch(c *Card) {
	port := map[string]string{"vendor": "0x8086\n", "class": "0x060400\n"}
	link := map[string]string{"current_link_speed": "16.0 GT/s PCIe\n", "max_link_speed": "16.0 GT/s PCIe\n",
		"current_link_width": "8\n", "max_link_width": "16\n"}
	for i, files := range []map[string]string{Merge(port, link), Merge(port, link), Merge(port, SlowLink)} {
		dir := c.Dir
		for range len(arcBridges) - i {
			dir = filepath.Dir(dir)
		}
		for name, text := range files {
			c.Write(filepath.Join(dir, name), text)
		}
	}
}

// ArcA770 plugs in a card that i915 drives (Linux 6.14).
func ArcA770(m *Machine) *Card {
	const hwmon = "hwmon/hwmon4/"
	c := m.Card(0, "0000:03:00.0", "i915", Merge(IntelIDs("0x56a0"), I915GT(0, "2400", "2400"), SlowLink, map[string]string{
		"resource":     ArcResources,
		hwmon + "name": "i915\n", hwmon + "in0_input": "990\n", hwmon + "energy1_input": "12620000000\n",
		hwmon + "power1_max": "190000000\n", hwmon + "power1_rated_max": "190000000\n", hwmon + "power1_max_interval": "28000\n",
		hwmon + "fan1_input": "1260\n", hwmon + "temp1_input": "45000\n",
		"hwmon/hwmon5/name": "i915_gt0\n", "hwmon/hwmon5/energy1_input": "1\n",
	}), arcBridges...)
	arcSwitch(c)
	return c
}

// ArcB580 plugs in a card that xe drives (Linux 7.0).
func ArcB580(m *Machine) *Card {
	const hwmon = "hwmon/hwmon3/"
	c := m.Card(1, "0000:03:00.0", "xe", Merge(IntelIDs("0xe20b"), XeGT(0, 0, false, "2850", "2850"), XeGT(0, 1, true, "1200",
		"1500"), SlowLink, map[string]string{
		"resource":     ArcResources,
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
