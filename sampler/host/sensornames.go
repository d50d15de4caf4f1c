package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
)

// cpuChips measure the processor itself.
var cpuChips = []string{"coretemp", "k10temp", "k8temp", "zenpower", "via_cputemp", "cpu_thermal", "cpu-thermal", "cpu0_thermal"}

// named gives the sensors of one chip names for people. Of a processor it keeps only the sensor of the whole: the cores follow it, and
// reading a core's sensor wakes the core.
func named(chip string, inputs []input) []sensor {
	// The board chip's reading of the chipset is 0 on most boards.
	inputs = slices.DeleteFunc(inputs, func(in input) bool { return strings.HasPrefix(in.label, "PCH_") })
	inputs = wholeCPU(inputs)
	sensors := make([]sensor, len(inputs))
	for i := range inputs {
		in := &inputs[i]
		if in.fan {
			in.name = fanName(chip, in.number, in.label)
		} else {
			in.name = temperatureName(chip, in.number, in.label)
		}
		in.name = short(in.name)
		in.sensor.label = in.name
		sensors[i] = in.sensor
	}
	return sensors
}

// wholeCPU keeps only the sensor of the whole processor, if there is one.
func wholeCPU(inputs []input) []input {
	for _, whole := range []string{"Package id ", "Tdie", "Tctl"} {
		isWhole := func(in input) bool { return !in.fan && strings.HasPrefix(in.label, whole) }
		if i := slices.IndexFunc(inputs, isWhole); i >= 0 {
			inputs[i].label = "CPU"
			return slices.DeleteFunc(inputs, func(in input) bool {
				return isWhole(in) || strings.HasPrefix(in.label, "Core ") || strings.HasPrefix(in.label, "Tccd") || in.label == "Tctl"
			})
		}
	}
	return inputs
}

var numbered = lazy.Pattern(`(?i)^(?:fan|temp|sensor) ?#?[0-9]*$`)

func fanName(chip string, number int, label string) string {
	label = people(label)
	for _, unit := range []string{" speed", " rpm", " RPM"} {
		label = strings.TrimSuffix(label, unit)
	}
	if label == "" || numbered().MatchString(label) {
		return fmt.Sprintf("fan %d of %s", number, chip)
	}
	for word := range strings.FieldsSeq(label) {
		if word == "fan" || word == "fans" || word == "pump" || word == "blower" {
			return label
		}
	}
	return label + " fan"
}

func temperatureName(chip string, number int, label string) string {
	label = people(label)
	switch {
	case strings.HasPrefix(label, "core ") && slices.Contains(cpuChips, chip):
		return "CPU " + label
	case slices.Contains(cpuChips, chip):
		return "CPU"
	case strings.HasPrefix(chip, "pch_"):
		return "chipset"
	case chip == "jc42" || chip == "spd5118":
		return "memory module"
	case strings.HasPrefix(chip, "BAT"):
		return "battery"
	case label == "" || numbered().MatchString(label):
		return fmt.Sprintf("sensor %d of %s", number, chip)
	case speaks(label):
		return label
	}
	return label + " of " + chip
}

// spoken maps words of labels to the words that people use.
var spoken = map[string]string{
	"cpu": "CPU", "processor": "CPU", "gpu": "GPU", "video": "graphics", "soc": "SoC", "cha": "case", "chassis": "case", "sys": "case",
	"system": "case", "case": "case", "mb": "motherboard", "mobo": "motherboard", "mainboard": "motherboard", "motherboard": "motherboard",
	"systin": "motherboard", "cputin": "CPU socket", "pch": "chipset", "chipset": "chipset", "vrm": "VRM", "psu": "PSU", "dimm": "memory",
	"sodimm": "memory", "memory": "memory", "ambient": "ambient", "aio": "AIO", "fan": "fan", "pump": "pump", "opt": "optional", "rpm": "RPM",
	"water": "water", "coolant": "coolant", "battery": "battery",
}

var ending = lazy.Pattern(`^([A-Za-z]+?)([0-9]+)$`)

// people writes a label as people would: "CPU fan" for "CPU_FAN" or "Processor Fan", "case fan 2" for "CHA_FAN2".
func people(label string) string {
	var words []string
	for word := range strings.FieldsSeq(strings.ReplaceAll(label, "_", " ")) {
		number := ""
		if m := ending().FindStringSubmatch(word); m != nil && spoken[strings.ToLower(m[1])] != "" {
			word, number = m[1], m[2]
		}
		if said, ok := spoken[strings.ToLower(word)]; ok {
			word = said
		} else if title := strings.ToLower(word); len(word) > 1 && word[1:] == title[1:] {
			word = title
		}
		words = append(words, word)
		if number != "" {
			words = append(words, number)
		}
	}
	return strings.Join(words, " ")
}

// speaks reports whether a label says what is measured even without the name of the chip.
func speaks(label string) bool {
	for word := range strings.FieldsSeq(label) {
		for _, said := range spoken {
			if strings.Contains(" "+said+" ", " "+word+" ") {
				return true
			}
		}
	}
	// A word, not a manufacturer's short mark.
	return len(label) > 3 && strings.IndexFunc(label, func(r rune) bool { return !unicode.IsLower(r) && r != ' ' }) < 0
}

// unique makes the names distinct: by the chip, then by a number. Sensors that already had a name keep it.
func unique(chips []*chip, had map[label]string) {
	for _, fan := range []bool{true, false} {
		type named struct {
			*sensor
			chip string
		}
		byName := map[string][]named{}
		var order []string
		taken := map[string]bool{}
		group := func() {
			byName, order = map[string][]named{}, nil
			for _, c := range chips {
				for i := range c.sensors {
					s := &c.sensors[i]
					if s.fan != fan {
						continue
					}
					if name, ok := had[label{s.file, s.label}]; ok {
						s.name, taken[name] = name, true
						continue
					}
					if byName[s.name] == nil {
						order = append(order, s.name)
					}
					byName[s.name] = append(byName[s.name], named{s, c.name})
				}
			}
		}
		group()
		for _, name := range order {
			all := byName[name]
			main := all[0].chip
			for _, s := range all {
				if slices.Contains(cpuChips, s.chip) {
					main = s.chip // the chip that knows the processor best
				}
			}
			for _, s := range all {
				if s.chip != main || taken[name] {
					s.name = short(name + " of " + s.chip)
				}
			}
		}
		group()
		for _, name := range order {
			if len(byName[name]) == 1 && !taken[name] {
				continue
			}
			n := 0
			for _, s := range byName[name] {
				for again := true; again; {
					n++
					s.name = short(name) + " " + strconv.Itoa(n)
					_, again = byName[s.name]
					again = again || taken[s.name]
				}
				taken[s.name] = true
			}
		}
	}
}
