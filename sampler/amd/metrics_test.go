package amd

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// tables has one table of each version, with 42 in each known field: a throttle status of 42 has the bits 1, 3 and 5.
func tables() map[string][]byte {
	all := map[string][]byte{}
	for version, l := range layouts {
		t := make([]byte, l.size)
		for i := range t {
			t[i] = 0xff
		}
		binary.LittleEndian.PutUint16(t, uint16(l.size))
		t[2], t[3] = version[0], version[1]
		for _, offset := range []int{
			l.edge, l.hotSpot, l.memory, l.gfx, l.controller, l.power, l.graphics, l.memClock, l.video, l.fan, l.width, l.speed,
		} {
			if offset != 0 {
				binary.LittleEndian.PutUint16(t[offset:], 42)
			}
		}
		for _, offset := range []int{l.ofProduct} {
			if offset != 0 {
				binary.LittleEndian.PutUint32(t[offset:], 42)
			}
		}
		for _, offset := range []int{l.energy, l.replays, l.throttle} {
			if offset != 0 {
				binary.LittleEndian.PutUint64(t[offset:], 42)
			}
		}
		all[string('0'+rune(version[0]))+"."+string('0'+rune(version[1]))] = t
	}
	return all
}

func TestParseMetrics(t *testing.T) {
	for version, table := range tables() {
		m, err := parseMetrics(table)
		if err != nil || m.version != version {
			t.Fatalf("version %s: %q, %v", version, m.version, err)
		}
		whole := m.hotSpot == gpu.Of[gpu.Celsius](42) && m.gfx == gpu.Of[gpu.Percent](42) && m.power == gpu.Of[gpu.Watts](42)
		if version < "2" && !whole {
			t.Errorf("version %s: %+v", version, m)
		}
		if version >= "2" && (m.hotSpot.Present() || m.gfx.Present() || m.power.Present()) {
			t.Errorf("version %s, of unknown units: %+v", version, m)
		}
		want := map[string]gpu.Reading[gpu.ClockEventReasons]{
			"1.0": {}, "1.1": {}, "1.2": {}, "2.0": {}, "2.1": {}, // 42 means something else for each product
			"1.3": gpu.Of(gpu.ReasonPowerCap), "2.2": gpu.Of(gpu.ReasonPowerCap),
			"2.3": gpu.Of(gpu.ReasonPowerCap), "2.4": gpu.Of(gpu.ReasonPowerCap),
			"1.4": gpu.Absent[gpu.ClockEventReasons](gpu.NotSupported), // the driver always writes 0
			"1.5": gpu.Absent[gpu.ClockEventReasons](gpu.NotSupported),
		}
		if r, ok := want[version]; ok && m.reasons != r {
			t.Errorf("version %s: reasons %v, want %v", version, m.reasons, r)
		}
	}
}

// A table that the firmware leaves empty has no values.
func TestEmptyMetrics(t *testing.T) {
	for version, table := range tables() {
		for i := range table[4:] {
			table[4+i] = 0xff
		}
		m, err := parseMetrics(table)
		if err != nil {
			t.Fatal(err)
		}
		absent := gpu.Absent[gpu.Celsius](gpu.NotSupported)
		if m.edge != absent || m.hotSpot != absent || m.gfx.Present() || m.energy.Present() || m.reasons.Present() ||
			len(m.residencies) > 0 || m.width.Present() || m.generation.Present() || m.replays.Present() || m.video.Present() {
			t.Errorf("version %s: %+v", version, m)
		}
	}
}

// Anything that is not a complete table of a known version is rejected.
func TestBadMetrics(t *testing.T) {
	whole := tables()["1.3"]
	for name, table := range map[string][]byte{
		"nothing":       nil,
		"a header":      whole[:4],
		"cut off":       whole[:100],
		"from future":   append([]byte{120, 0, 1, 9}, whole[4:]...),
		"of format 9":   append([]byte{120, 0, 9, 3}, whole[4:]...),
		"says too few":  append([]byte{8, 0, 1, 3}, whole[4:]...),
		"says no bytes": append([]byte{0, 0, 1, 3}, whole[4:]...),
	} {
		if _, err := parseMetrics(table); !errors.Is(err, errMetrics) {
			t.Errorf("%s is read: %v", name, err)
		}
	}
	// A later kernel may append fields.
	if _, err := parseMetrics(append(append([]byte{128, 0, 1, 3}, whole[4:]...), make([]byte, 8)...)); err != nil {
		t.Error("a longer table:", err)
	}
}

// The layouts are those of the kernel's structs, whose sizes are public. TestParseMetrics checks that each field is within its table.
func TestLayouts(t *testing.T) {
	sizes := map[[2]byte]int{
		{1, 0}: 80, {1, 1}: 96, {1, 2}: 104, {1, 3}: 120, {1, 4}: 288, {1, 5}: 360, {1, 6}: 1664, {1, 7}: 2208, {1, 8}: 3360,
		{2, 0}: 120, {2, 1}: 120, {2, 2}: 128, {2, 3}: 152, {2, 4}: 168, {3, 0}: 264,
	}
	for version, l := range layouts {
		if l.size != sizes[version] {
			t.Errorf("version %v has %d bytes", version, l.size)
		}
	}
}

func FuzzParseMetrics(f *testing.F) {
	for _, table := range tables() {
		f.Add(table)
	}
	f.Add([]byte{120, 0, 1, 9, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, table []byte) {
		m, err := parseMetrics(table)
		if err != nil {
			return
		}
		if v, ok := m.gfx.Trusted(); ok && (v < 0 || v > 100) {
			t.Errorf("busy %v", v)
		}
		if v, ok := m.hotSpot.Trusted(); ok && (v < -60 || v > 200) {
			t.Errorf("hot spot %v", v)
		}
		if v, ok := m.power.Trusted(); ok && (v < 0 || v > 10_000) {
			t.Errorf("power %v", v)
		}
		if v, ok := m.width.Get(); ok && (v < 1 || v > 32) {
			t.Errorf("%d lanes", v)
		}
		if len(m.residencies) > 11 {
			t.Errorf("%d residencies", len(m.residencies))
		}
	})
}
