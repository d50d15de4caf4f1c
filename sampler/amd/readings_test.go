//go:build linux

package amd

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/sampler/drm/drmtest"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// facts returns the readings of a device by the catalog, without unsupported ones and without those that another part of the program reads.
func facts(d *gpu.Device) string {
	all := map[string]string{}
	for r := range catalog.All() {
		switch r.ID {
		case "identity.index", "identity.node", "identity.reserved_by", "identity.state_since", "identity.sampled_at",
			"processes", "power.idle_floor":
			continue
		}
		r.Visit(d, func(part string, ref catalog.Ref) {
			if ref.Quality() == gpu.NotSupported {
				return
			}
			id := r.ID
			if part != "" {
				id += " of " + part
			}
			all[id] = fmt.Sprint(ref)
		})
	}
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&out, "%s: %s\n", id, all[id])
	}
	return out.String()
}

// Each kind of card has exactly the readings in its files.
func TestReadings(t *testing.T) {
	m := drmtest.New(t)
	m.Write(m.Proc+"/sys/kernel/osrelease", "6.12.9\n")
	topology(m)
	m.Card(0, "0000:03:00.0", "amdgpu", navi31())
	phoenix := phoenix()
	phoenix["product_name"] = "AMD Radeon 780M\n" // the test must not depend on this machine's lists of names
	m.Card(1, "0000:0c:00.0", "amdgpu", phoenix)
	m.Card(2, "0000:75:00.0", "amdgpu", mi300x())
	polaris := polaris()
	polaris["product_name"] = "Radeon RX 580\n"
	m.Card(3, "0000:85:00.0", "amdgpu", polaris)
	s := newSource(t, m, nil)
	read(t, s)
	snap := read(t, s)
	if want := []gpu.Driver{{
		Source: "amdgpu", Version: gpu.Of("6.12.9"),
		CUDA: gpu.Absent[string](gpu.NotSupported), Library: gpu.Absent[string](gpu.NotSupported),
	}}; !slices.Equal(snap.Drivers, want) {
		t.Errorf("the driver is %v, want %v", snap.Drivers, want)
	}
	for i, name := range []string{"navi31", "phoenix", "mi300x", "polaris"} {
		file := filepath.Join("testdata", name+".txt")
		got := facts(&snap.Devices[i])
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A laptop's card has no fan and reports no power limit.
func TestLaptop(t *testing.T) {
	m := drmtest.New(t)
	m.Card(1, "0000:03:00.0", "amdgpu", laptop())
	d := only(t, newSource(t, m, nil))
	notSupported := gpu.Absent[gpu.Percent](gpu.NotSupported)
	if d.Fans.Count != gpu.Absent[int](gpu.NotSupported) || d.Fans.Commanded() != notSupported || d.Power.EnforcedLimit.Present() {
		t.Errorf("fans %+v, limit %v", d.Fans, d.Power.EnforcedLimit)
	}
	if d.Modes.DisplayActive.Present() {
		t.Errorf("its display is %v; it has no output", d.Modes.DisplayActive)
	}
}

// A bad file costs only its own reading.
func TestBadFiles(t *testing.T) {
	big := "18446744073709551615\n"
	for _, tt := range []struct {
		file, text string
		errno      syscall.Errno
		want       []string // readings that differ from a healthy card's
	}{
		{"gpu_busy_percent", "12345\n", 0, []string{"utilization.gpu: 100 (doubtful)"}},
		{"gpu_busy_percent", "", 0, nil},       // the table has it
		{"gpu_busy_percent", "busy\n", 0, nil}, // the table has it
		{"mem_info_vram_used", big, 0, []string{
			"memory.used: not_reported", "memory.free: not_reported", "memory.share: not_reported",
		}},
		{"mem_info_vram_used", "99999999999\n", 0, []string{
			"memory.used: 99999999999 (doubtful)", "memory.free: not_reported", "memory.share: not_reported",
		}},
		{"mem_info_vram_total", "0\n", syscall.EIO, []string{
			"memory.total: not_reported", "memory.free: not_reported", "memory.share: not_reported",
		}},
		{"mem_info_vram_total", "", syscall.EACCES, []string{
			"memory.total: not_permitted", "memory.free: not_permitted", "memory.share: not_reported",
		}},
		{"hwmon/hwmon4/temp2_input", "-2147483648\n", 0, []string{"thermal.hot_spot: -2.147483648e+06 (doubtful)"}},
		{"hwmon/hwmon4/temp1_input", "300000\n", 0, []string{"thermal.gpu: 300 (doubtful)"}},
		{"hwmon/hwmon4/power1_average", "4000000000\n", 0, []string{"power.draw: 4000 (doubtful)"}},
		{"hwmon/hwmon4/power1_average", big, 0, nil},            // the table has it
		{"hwmon/hwmon4/power1_average", "4294967274\n", 0, nil}, // an error as a number; the table has the value
		{"hwmon/hwmon4/power1_cap", big, 0, []string{"power.enforced_limit: not_reported"}},
		{"hwmon/hwmon4/power1_cap", "", syscall.EACCES, []string{"power.enforced_limit: not_permitted"}},
		{"hwmon/hwmon4/fan1_input", "3400\n", 0, []string{"fan.rpm of 0: 3400"}}, // fan1_max is 3300, and fans differ
		{"hwmon/hwmon4/fan1_input", "3700\n", 0, []string{"fan.rpm of 0: 3700 (doubtful)"}},
		{"hwmon/hwmon4/fan1_input", "200000\n", 0, []string{"fan.rpm of 0: 200000 (doubtful)"}},
		{"hwmon/hwmon4/pwm1", "999\n", 0, []string{"fan.commanded of 0: 100 (doubtful)", "fans.commanded: 100 (doubtful)"}},
		{"hwmon/hwmon4/pwm1", "", syscall.EIO, []string{"fan.commanded of 0: not_reported", "fans.commanded: not_reported"}},
		{"hwmon/hwmon4/pwm1_enable", "7\n", 0, []string{"fan.policy of 0: not_reported", "fan.manual of 0: not_reported"}},
		{"hwmon/hwmon4/pwm1_enable", "1\n", 0, []string{"fan.policy of 0: manual", "fan.manual of 0: true"}},
		{"current_link_speed", "Unknown\n", 0, nil}, // the table has it
		{"max_link_width", "255\n", 0, []string{"pcie.max_width: not_reported"}},
		{"pcie_replay_count", big, 0, []string{"pcie.replays: not_reported"}},
		{"pp_dpm_sclk", "\x00\xff: no clocks\n", 0, []string{"clocks.max_graphics: gone", "clocks.max_sm: gone"}},
		{"vbios_version", "113\x1b[31m\n", 0, []string{"identity.vbios: 113\uFFFD[31m"}},
		{"unique_id", "../../etc/passwd\n", 0, []string{"identity.uuid: PCI-0000:03:00.0"}},
		{"unique_id", "0000000000000000\n", 0, []string{"identity.uuid: PCI-0000:03:00.0"}},
		{"product_name", strings.Repeat("x", 500) + "\n", 0, []string{"identity.name: " + strings.Repeat("x", 128)}},
		{"product_name", "\n", 0, nil},
		{"gpu_metrics", "short", 0, []string{"clocks.event_reasons: gone"}}, // the video clock is in another table, too
		{"gpu_metrics", "", syscall.EIO, []string{
			"clocks.event_reasons: not_reported", "clocks.video: not_reported", "power.energy: not_reported",
		}},
		{"gpu_od/fan_ctrl/fan_target_temperature", "FAN_TARGET_TEMPERATURE:\n83\nOD_RANGE:\nTARGET_TEMPERATURE: 25 105\n", 0, []string{
			"thermal.target: 83",
		}},
		{"ras/umc_err_count", "ue: 1\nce: 2\n", 0, []string{"health.corrected_volatile: 2", "health.uncorrected_volatile: 1"}},
		{"ras/umc_err_count", "ue: many\nce: " + big, 0, []string{
			"health.corrected_volatile: not_reported", "health.uncorrected_volatile: not_reported",
		}},
	} {
		t.Run(tt.file+" "+tt.errno.Error(), func(t *testing.T) {
			m, f := drmtest.New(t), &faults{}
			c := m.Card(0, "0000:03:00.0", "amdgpu", navi31())
			lines := func() map[string]string {
				s := newSource(t, m, f)
				all := map[string]string{}
				for line := range strings.Lines(facts(only(t, s))) {
					id, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
					all[id] = value
				}
				return all
			}
			well := lines()
			c.Set(map[string]string{tt.file: tt.text})
			f.set(c.File(tt.file), tt.errno)
			var got []string
			ill := lines()
			for id := range well {
				if _, ok := ill[id]; !ok {
					ill[id] = "gone"
				}
			}
			for id, value := range ill {
				if well[id] != value {
					got = append(got, id+": "+value)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("with %q %q instead of %q", tt.text, got, tt.want)
			}
		})
	}
}

// Without any sensor the card is not lost: the driver still reports its memory use, and its clients their usage.
func TestWithoutSensors(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, "0000:03:00.0", "amdgpu", navi31())
	c.Remove("hwmon", "gpu_metrics", "gpu_busy_percent", "mem_busy_percent", "pp_dpm_sclk", "pp_dpm_mclk")
	s := newSource(t, m, nil)
	d := only(t, s)
	if d.State != gpu.StateOK || !d.Memory.Used.Present() || d.Thermal.GPU != gpu.Absent[gpu.Celsius](gpu.NotSupported) ||
		d.Utilization.GPU.Present() {
		t.Errorf("%s %s\n%s", d.State, d.Reason.Text(), facts(d))
	}
	if d := only(t, s); d.Utilization.GPU != gpu.Of[gpu.Percent](0) { // nobody has it open
		t.Errorf("then the utilization is %v", d.Utilization.GPU)
	}
}

// The reasons that hold the clocks down are those whose residency has grown since the previous reading.
func TestResidencies(t *testing.T) {
	m := drmtest.New(t)
	c := m.Card(0, "0000:75:00.0", "amdgpu", mi300x())
	s := newSource(t, m, nil)
	throttled := func(power, socket uint32) gpu.Reading[gpu.ClockEventReasons] {
		files := mi300x()
		c.Set(map[string]string{"gpu_metrics": string(drmtest.Metrics(files["gpu_metrics"]).Word(40, power).Word(44, socket))})
		return only(t, s).Clocks.EventReasons
	}
	for _, tt := range []struct {
		power, socket uint32
		want          gpu.Reading[gpu.ClockEventReasons]
	}{
		{500, 3, gpu.Reading[gpu.ClockEventReasons]{}}, // the first
		{500, 3, gpu.Of(gpu.ClockEventReasons(0))},
		{510, 3, gpu.Of(gpu.ReasonPowerCap)},
		{520, 9, gpu.Of(gpu.ReasonPowerCap | gpu.ReasonThermalSlowdown)},
		{0, 0, gpu.Of(gpu.ClockEventReasons(0))}, // after a reset
	} {
		if got := throttled(tt.power, tt.socket); got != tt.want {
			t.Errorf("at %d and %d: %v, want %v", tt.power, tt.socket, got, tt.want)
		}
	}
}

func TestLevels(t *testing.T) {
	for text, want := range map[string][]level{
		"0: 500Mhz \n1: 2290Mhz *\n":             {{500, false}, {2290, true}},
		"S: 19Mhz *\n0: 615Mhz \n1: 2000MHz\n":   {{19, true}, {615, false}, {2000, false}},
		"":                                       nil,
		"500\n":                                  nil,
		"0: Mhz\n1: -5Mhz\n2: 99999999999Mhz\n":  nil,
		"0: 200000Mhz\n":                         nil, // above the possible maximum
		strings.Repeat("0: 1Mhz\n", 1000)[:8*64]: slices.Repeat([]level{{1, false}}, 64),
		"0: 2.5GT/s, x8 \n1: 16.0GT/s, x16 619Mhz *": nil,
	} {
		if got := levels([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func FuzzTexts(f *testing.F) {
	for _, files := range []map[string]string{navi31(), mi300x()} {
		for _, text := range files {
			f.Add(text)
		}
	}
	f.Add("heap_type 1\nsize_in_bytes 25753026560\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range levels([]byte(text)) {
			if l.clock < 0 || l.clock > 100_000 {
				t.Errorf("a clock of %v", l.clock)
			}
		}
		if c, u := errorCounts([]byte(text)); c.Or(0) > mostErrors || u.Or(0) > mostErrors {
			t.Errorf("errors: %v, %v", c, u)
		}
		badPages([]byte(text))
		if n := len(properties([]byte(text))); n > 256 {
			t.Errorf("%d properties", n)
		}
		if name := nameIn(strings.NewReader(text), 0x744c, 0xc8); len(name) > 128 {
			t.Errorf("a name of %d bytes", len(name))
		}
	})
}

// Limits are read once a minute, errors every ten seconds, everything else each time.
func TestDue(t *testing.T) {
	m, f := drmtest.New(t), &faults{}
	c := m.Card(0, "0000:75:00.0", "amdgpu", mi300x())
	s := newSource(t, m, f)
	only(t, s)
	c.Set(map[string]string{"ras/umc_err_count": "ue: 0\nce: 99\n", "serial_number": "2\n", "gpu_busy_percent": "1\n"})
	for _, tt := range []struct {
		after  time.Duration
		errors uint64
		serial string
	}{{0, 12, "692251001234"}, {sometimes, 99, "692251001234"}, {seldom, 99, "2"}} {
		clockOf(s).Advance(tt.after)
		d := only(t, s)
		if d.Health.CorrectedVolatile.Or(0) != tt.errors || d.Serial.Or("") != tt.serial || d.Utilization.GPU.Or(0) != 1 {
			t.Errorf("after %v more: %v errors, number %v, busy %v", tt.after, d.Health.CorrectedVolatile, d.Serial, d.Utilization.GPU)
		}
	}
}

// The second die of an MI250 reports 0 for power and its limits; a card with a limit may draw 0.
func TestDieWithoutPower(t *testing.T) {
	files := navi31()
	files["hwmon/hwmon4/power1_average"] = "0\n"
	m := drmtest.New(t)
	c := m.Card(0, address, "amdgpu", files)
	s := newSource(t, m, nil)
	if d := only(t, s); d.Power.Draw != gpu.Of[gpu.Watts](0) {
		t.Errorf("with a limit the power is %v", d.Power.Draw)
	}
	c.Set(map[string]string{"hwmon/hwmon4/power1_cap": "0\n"})
	if d := only(t, s); d.Power.Draw.Quality() != gpu.NotSupported {
		t.Errorf("without a limit it is %v", d.Power.Draw)
	}
}

// Version 1.5 has the usage of 4 video engines and of 32 JPEG engines before its energy.
func TestMetricsOfVideo(t *testing.T) {
	table := newTable(1, 5, 360).Short(4, 55).Short(12, 97).Long(88, 7<<16).Long(96, 1).Word(104, 0)
	table = table.Short(112, 16).Short(114, 320).Long(152, 5).Short(312, 2100).Short(336, 1200).Short(352, 1300)
	for offset := 24; offset < 88; offset += 2 {
		table.Short(offset, 0) // no JPEG
	}
	m, err := parseMetrics(table)
	if err != nil {
		t.Fatal(err)
	}
	if m.energy != gpu.Of[gpu.Joules](7) || m.width != gpu.Of(16) || m.generation != gpu.Of(5) || m.replays != gpu.Of[uint64](5) {
		t.Errorf("energy %v, width %v, generation %v, replays %v", m.energy, m.width, m.generation, m.replays)
	}
	if m.graphics != gpu.Of[gpu.Megahertz](2100) || m.video != gpu.Of[gpu.Megahertz](1200) || m.memClock != gpu.Of[gpu.Megahertz](1300) {
		t.Errorf("clocks %v, %v, %v", m.graphics, m.video, m.memClock)
	}
	// For some months 1.6 was a different table, of 392 bytes.
	if _, err := parseMetrics(newTable(1, 6, 392)); !errors.Is(err, errMetrics) {
		t.Error("a short 1.6 is read:", err)
	}
}
