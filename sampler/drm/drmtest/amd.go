//go:build unix

package drmtest

import "encoding/binary"

// Metrics is a gpu_metrics table of amdgpu under construction.
type Metrics []byte

// NewMetrics returns a table with all bits set: nothing is known.
func NewMetrics(format, content byte, size int) Metrics {
	t := make(Metrics, size)
	for i := range t {
		t[i] = 0xff
	}
	binary.LittleEndian.PutUint16(t, uint16(size))
	t[2], t[3] = format, content
	return t
}

// Short stores a 16-bit number at an offset.
func (t Metrics) Short(offset int, v uint16) Metrics {
	binary.LittleEndian.PutUint16(t[offset:], v)
	return t
}

// Word stores a 32-bit number at an offset.
func (t Metrics) Word(offset int, v uint32) Metrics {
	binary.LittleEndian.PutUint32(t[offset:], v)
	return t
}

// Long stores a 64-bit number at an offset.
func (t Metrics) Long(offset int, v uint64) Metrics {
	binary.LittleEndian.PutUint64(t[offset:], v)
	return t
}

// Navi31 returns the files of a Radeon RX 7900 XTX, a desktop card.
func Navi31() map[string]string {
	m := NewMetrics(1, 3, 120).Short(4, 51).Short(6, 67).Short(8, 70).Short(16, 37).Short(18, 11).Short(22, 212)
	m = m.Long(24, 123456789).Short(54, 2290).Short(58, 1249).Short(60, 1200)
	m = m.Word(68, 0).Short(72, 1123).Short(74, 16).Short(76, 160)
	m = m.Long(112, 0)
	return map[string]string{
		"vendor": "0x1002\n", "device": "0x744c\n", "revision": "0xc8\n",
		"subsystem_vendor": "0x1da2\n", "subsystem_device": "0xe471\n",
		"unique_id": "4c1a9f7e0b35d262\n", "vbios_version": "113-D7020100-102\n",
		"gpu_busy_percent": "37\n", "mem_busy_percent": "11\n",
		"mem_info_vram_total": "25753026560\n", "mem_info_vram_used": "3221225472\n",
		"mem_info_vis_vram_total": "25753026560\n", "mem_info_vis_vram_used": "3221225472\n",
		"mem_info_gtt_total": "33554432000\n", "mem_info_gtt_used": "104857600\n",
		"pp_dpm_sclk": "0: 500Mhz \n1: 2290Mhz *\n2: 2525Mhz \n", "pp_dpm_mclk": "0: 96Mhz \n1: 456Mhz \n2: 1249Mhz *\n",
		"pp_dpm_vclk":        "0: 1200Mhz *\n1: 2400Mhz \n",
		"current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n",
		"max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n", "pcie_replay_count": "3\n",
		"gpu_metrics": string(m), "drm/card0/card0-DP-1/enabled": "enabled\n", "drm/card0/card0-HDMI-A-1/enabled": "disabled\n",
		"hwmon/hwmon4/name":               "amdgpu\n",
		"hwmon/hwmon4/temp1_input":        "51000\n",
		"hwmon/hwmon4/temp1_label":        "edge\n",
		"hwmon/hwmon4/temp1_crit":         "100000\n",
		"hwmon/hwmon4/temp1_emergency":    "105000\n",
		"hwmon/hwmon4/temp2_input":        "67000\n",
		"hwmon/hwmon4/temp2_label":        "junction\n",
		"hwmon/hwmon4/temp2_crit":         "110000\n",
		"hwmon/hwmon4/temp2_emergency":    "115000\n",
		"hwmon/hwmon4/temp3_input":        "70000\n",
		"hwmon/hwmon4/temp3_label":        "mem\n",
		"hwmon/hwmon4/temp3_crit":         "108000\n",
		"hwmon/hwmon4/power1_average":     "212000000\n",
		"hwmon/hwmon4/power1_label":       "PPT\n",
		"hwmon/hwmon4/power1_cap":         "339000000\n",
		"hwmon/hwmon4/power1_cap_max":     "389000000\n",
		"hwmon/hwmon4/power1_cap_min":     "305000000\n",
		"hwmon/hwmon4/power1_cap_default": "339000000\n",
		"hwmon/hwmon4/pwm1":               "102\n",
		"hwmon/hwmon4/pwm1_max":           "255\n",
		"hwmon/hwmon4/pwm1_min":           "0\n",
		"hwmon/hwmon4/pwm1_enable":        "2\n",
		"hwmon/hwmon4/fan1_input":         "1123\n",
		"hwmon/hwmon4/fan1_max":           "3300\n",
		"hwmon/hwmon4/freq1_input":        "2290000000\n",
		"hwmon/hwmon4/freq1_label":        "sclk\n",
		"hwmon/hwmon4/freq2_input":        "1249000000\n",
		"hwmon/hwmon4/freq2_label":        "mclk\n",
		"hwmon/hwmon4/in0_input":          "1087\n",
	}
}
