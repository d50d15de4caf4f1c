package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

// hwmon adds a chip below a device, such as "pci0000:00/0000:00:18.3", with its files.
func (m *machine) hwmon(number int, device, name string, files map[string]string) (dir string) {
	m.t.Helper()
	dir = fmt.Sprintf("sys/devices/%s/hwmon/hwmon%d/", device, number)
	m.link(fmt.Sprintf("sys/class/hwmon/hwmon%d", number), fmt.Sprintf("../../devices/%s/hwmon/hwmon%d", device, number))
	m.write(dir+"name", name+"\n")
	for file, text := range files {
		m.write(dir+file, text+"\n")
	}
	return dir
}

// sensed returns the values of a machine's sensors, as text.
func sensed(t *testing.T, r *Reader) map[string]string {
	t.Helper()
	h := readHost(t, r)
	out := map[string]string{}
	add := func(name, value string) {
		if _, twice := out[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		out[name] = value
	}
	for _, f := range h.Fans {
		add(f.Name, f.RPM.String()+" RPM")
	}
	for _, s := range h.Temperatures {
		add(s.Name, s.Celsius.String()+" °C")
	}
	return out
}

func check(t *testing.T, r *Reader, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, sensed(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSensors(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(m *machine)
		want    map[string]string
	}{
		"no hwmon": {func(*machine) {}, map[string]string{}},
		"a desktop": {func(m *machine) {
			m.hwmon(0, "pci0000:00/0000:00:18.3", "k10temp", map[string]string{
				"temp1_input": "61250", "temp1_label": "Tctl", "temp3_input": "58000", "temp3_label": "Tccd1",
			})
			m.hwmon(1, "platform/nct6775.656", "nct6798", map[string]string{
				"fan1_input": "0", "fan2_input": "1205", "fan10_input": "740",
				"temp1_input": "34000", "temp1_label": "SYSTIN", "temp2_input": "55000", "temp2_label": "CPUTIN",
				"temp3_input": "26000", "temp3_label": "AUXTIN0", "temp4_input": "127000000", "temp4_label": "AUXTIN1",
				"temp7_input": "61000", "temp7_label": "SMBUSMASTER 0", "temp8_input": "0", "temp8_label": "PCH_CHIP_TEMP",
			})
			m.hwmon(2, "virtual/thermal/thermal_zone0", "acpitz", map[string]string{"temp1_input": "16800", "temp2_input": "-5000"})
			m.hwmon(3, "pci0000:00/0000:01:00.0", "amdgpu", map[string]string{"temp1_input": "40000", "fan1_input": "900"})
			m.hwmon(4, "pci0000:00/0000:02:00.0/nvme/nvme0", "nvme", map[string]string{"temp1_input": "40000"})
			m.hwmon(5, "pci0000:00/0000:03:00.0", "xe", map[string]string{"temp1_input": "40000"})
		}, map[string]string{
			"CPU": "61.25 °C", "fan 1 of nct6798": "0 RPM", "fan 2 of nct6798": "1205 RPM", "fan 10 of nct6798": "740 RPM",
			"motherboard": "34 °C", "CPU socket": "55 °C", "AUXTIN0 of nct6798": "26 °C", "AUXTIN1 of nct6798": "not_reported °C",
			"SMBUSMASTER 0 of nct6798": "61 °C", "sensor 1 of acpitz": "16.8 °C", "sensor 2 of acpitz": "-5 °C",
		}},
		"labels": {func(m *machine) {
			m.hwmon(0, "platform/coretemp.0", "coretemp", map[string]string{
				"temp1_input": "50000", "temp1_label": "Package id 0", "temp2_input": "49000", "temp2_label": "Core 0",
			})
			m.hwmon(1, "platform/dell_smm_hwmon", "dell_smm", map[string]string{
				"fan1_input": "1801", "fan1_label": "Processor Fan", "fan2_input": "900", "fan2_label": "Motherboard Fan",
				"fan3_input": "2300", "fan3_label": "Video Fan", "temp1_input": "51000", "temp1_label": "CPU", "temp2_input": "40000", "temp2_label": "Ambient",
			})
			m.hwmon(2, "platform/asus_ec", "asusec", map[string]string{
				"fan1_input": "700", "fan1_label": "CPU_Opt", "fan2_input": "800", "fan2_label": "CHA_FAN2", "fan3_input": "2900", "fan3_label": "Pump speed",
				"fan4_input": "600", "fan4_label": "FAN 4", "fan5_input": "601", "fan5_label": " Left\x1b side  ",
				"temp1_input": "45000", "temp1_label": "VRM", "temp2_input": "46000", "temp2_label": "T_Sensor", "temp3_input": "1", "temp3_label": "Chipset",
			})
			m.hwmon(3, "virtual/x", "pch_cannonlake", map[string]string{"temp1_input": "47000"})
			m.hwmon(4, "i2c-0/0-0018", "jc42", map[string]string{"temp1_input": "31000"})
			m.hwmon(5, "i2c-0/0-0019", "jc42", map[string]string{"temp1_input": "32000"})
		}, map[string]string{
			"CPU": "50 °C", "CPU of dell_smm": "51 °C", "CPU fan": "1801 RPM", "motherboard fan": "900 RPM", "graphics fan": "2300 RPM",
			"ambient": "40 °C", "CPU optional fan": "700 RPM", "case fan 2": "800 RPM", "pump": "2900 RPM", "fan 4 of asusec": "600 RPM",
			"left\uFFFD side fan": "601 RPM", "VRM": "45 °C", "T sensor of asusec": "46 °C", "chipset": "0.001 °C", "chipset of pch_cannonlake": "47 °C",
			"memory module 1": "31 °C", "memory module 2": "32 °C",
		}},
		"two processors": {func(m *machine) {
			for i, number := range []int{9, 10} {
				m.hwmon(number, fmt.Sprint("platform/coretemp.", i), "coretemp", map[string]string{
					"temp1_input": fmt.Sprint(50+i, "000"), "temp1_label": fmt.Sprint("Package id ", i), "temp2_input": "49000", "temp2_label": "Core 0",
				})
			}
		}, map[string]string{"CPU 1": "50 °C", "CPU 2": "51 °C"}},
		"an old processor": {func(m *machine) {
			m.hwmon(0, "platform/coretemp.0", "coretemp", map[string]string{
				"temp2_input": "49000", "temp2_label": "Core 0", "temp3_input": "48000", "temp3_label": "Core 1",
			})
		}, map[string]string{"CPU core 0": "49 °C", "CPU core 1": "48 °C"}},
		"an old driver": {func(m *machine) {
			m.link("sys/class/hwmon/hwmon0", "../../devices/platform/applesmc.768/hwmon/hwmon0")
			m.link("sys/devices/platform/applesmc.768/hwmon/hwmon0/device", "../../../applesmc.768")
			m.write("sys/devices/platform/applesmc.768/name", "applesmc\n")
			m.write("sys/devices/platform/applesmc.768/fan1_input", "2000\n")
			m.write("sys/devices/platform/applesmc.768/fan1_label", "Exhaust  \n")
		}, map[string]string{"exhaust fan": "2000 RPM"}},
		"what can't be": {func(m *machine) {
			m.hwmon(0, "platform/x", "x", map[string]string{
				"fan1_input": "30001", "fan2_input": "-1", "fan3_input": "many", "fan4_input": "", "fan5_input": "1000", "fan5_fault": "1", "fan6_input": "30000", "fan6_fault": "0",
				"temp1_input": "-40001", "temp2_input": "150001", "temp3_input": "-40000", "temp4_input": "150000",
				"fan7_label": "CPU", "fanx_input": "5", "temp1_max": "1", "in0_input": "3",
			})
		}, map[string]string{
			"fan 1 of x": "not_reported RPM", "fan 2 of x": "not_reported RPM", "fan 3 of x": "not_reported RPM", "fan 4 of x": "not_reported RPM",
			"fan 5 of x": "not_reported RPM", "fan 6 of x": "30000 RPM",
			"sensor 1 of x": "not_reported °C", "sensor 2 of x": "not_reported °C", "sensor 3 of x": "-40 °C", "sensor 4 of x": "150 °C",
		}},
		"asleep": {func(m *machine) {
			m.hwmon(0, "pci0000:00/0000:00:1c.0/0000:03:00.0", "nic", map[string]string{"temp1_input": "49000"})
			m.write("sys/devices/pci0000:00/0000:00:1c.0/power/runtime_status", "active\n")
			m.write("sys/devices/pci0000:00/0000:00:1c.0/0000:03:00.0/power/runtime_status", "suspended\n")
			m.hwmon(1, "pci0000:00/0000:00:1d.0/0000:04:00.0", "nic", map[string]string{"temp1_input": "48000"})
			m.write("sys/devices/pci0000:00/0000:00:1d.0/0000:04:00.0/power/runtime_status", "active\n")
			m.write("sys/devices/pci0000:00/0000:00:1d.0/0000:04:00.0/hwmon/hwmon1/power/runtime_status", "unsupported\n")
		}, map[string]string{"sensor 1 of nic 2": "48 °C"}},
		"markup": {func(m *machine) {
			m.hwmon(0, "platform/x", "x", map[string]string{
				"temp1_input": "42000", "temp1_label": "<b onmouseover=alert(1)>CPU</b>", "temp2_input": "43000", "temp2_label": "a<b",
				"fan1_input": "900", "fan1_label": "CPU\u200b Fan\x1b",
			})
		}, map[string]string{"CPU": "42 °C", "a b of x": "43 °C", "CPU fan\uFFFD fan": "900 RPM"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tt.prepare(m)
			check(t, m.reader(ShowOwn), tt.want)
		})
	}
}

func TestSensorsOfCPUFirst(t *testing.T) {
	m := newMachine(t)
	m.hwmon(0, "platform/a", "a", map[string]string{"fan1_input": "1", "fan2_input": "2", "fan2_label": "CPU Fan", "temp1_input": "3"})
	m.hwmon(1, "platform/coretemp.0", "coretemp", map[string]string{"temp1_input": "4", "temp1_label": "Package id 0"})
	h := readHost(t, m.reader(ShowOwn))
	if h.Fans[0].Name != "CPU fan" || h.Fans[0].Chip != "a" || h.Temperatures[0].Name != "CPU" || h.Temperatures[0].Chip != "coretemp" {
		t.Errorf("fans %v, temperatures %v", h.Fans, h.Temperatures)
	}
}

func TestTooManySensors(t *testing.T) {
	m := newMachine(t)
	files := map[string]string{}
	for i := range 200 {
		files[fmt.Sprintf("fan%d_input", i)], files[fmt.Sprintf("temp%d_input", i)] = "1000", "1000"
	}
	m.hwmon(0, "platform/x", "x", files)
	if h := readHost(t, m.reader(ShowOwn)); len(h.Fans) != maxFans || len(h.Temperatures) != maxTemperatures || h.Fans[maxFans-1].Name != "fan 31 of x" {
		t.Errorf("%d fans, %d temperatures: %v", len(h.Fans), len(h.Temperatures), h.Fans)
	}
}

// The list is up to a minute old, but the values are current.
func TestSensorsAreReadAgain(t *testing.T) {
	m := newMachine(t)
	dir := m.hwmon(0, "platform/x", "x", map[string]string{"fan1_input": "1000"})
	r := m.reader(ShowOwn)
	check(t, r, map[string]string{"fan 1 of x": "1000 RPM"})
	m.write(dir+"fan1_input", "1100\n")
	m.write(dir+"fan2_input", "500\n")
	m.now = m.now.Add(sensorsEvery - time.Millisecond)
	check(t, r, map[string]string{"fan 1 of x": "1000 RPM"}) // no chip is read so often
	m.now = m.now.Add(time.Millisecond)
	check(t, r, map[string]string{"fan 1 of x": "1100 RPM"})
	m.now = m.now.Add(sensorsFor)
	check(t, r, map[string]string{"fan 1 of x": "1100 RPM", "fan 2 of x": "500 RPM"})
	m.write("sys/devices/platform/x/power/runtime_status", "active\n")
	m.now = m.now.Add(sensorsFor)
	check(t, r, map[string]string{"fan 1 of x": "1100 RPM", "fan 2 of x": "500 RPM"})
	m.write("sys/devices/platform/x/power/runtime_status", "suspended\n") // between two lists
	m.now = m.now.Add(time.Second)
	check(t, r, map[string]string{})
	m.write("sys/devices/platform/x/power/runtime_status", "active\n")
	m.remove(dir + "fan1_input")
	m.now = m.now.Add(time.Second)
	check(t, r, map[string]string{"fan 1 of x": "not_reported RPM", "fan 2 of x": "500 RPM"})
	m.remove("sys/class/hwmon/hwmon0")
	m.now = m.now.Add(sensorsFor)
	check(t, r, map[string]string{})
}

// A name stays the same when other chips fall asleep and wake, and when one that slept from the start reports its labels.
func TestNamesOfSensorsStay(t *testing.T) {
	m := newMachine(t)
	power := func(device, status string) { m.write("sys/devices/"+device+"/power/runtime_status", status+"\n") }
	for i, device := range []string{"pci/a", "platform/b", "pci/c"} {
		m.hwmon(i, device, device[strings.Index(device, "/")+1:], map[string]string{"fan1_input": fmt.Sprint(700 + i), "fan1_label": "CPU Fan"})
	}
	power("pci/a", "active")
	power("pci/c", "suspended")
	r := m.reader(ShowOwn)
	again := func(want map[string]string) {
		t.Helper()
		m.now = m.now.Add(sensorsFor)
		check(t, r, want)
	}
	again(map[string]string{"CPU fan": "700 RPM", "CPU fan of b": "701 RPM"})
	power("pci/a", "suspended")
	again(map[string]string{"CPU fan of b": "701 RPM"})
	again(map[string]string{"CPU fan of b": "701 RPM"})
	power("pci/c", "active")
	again(map[string]string{"CPU fan of b": "701 RPM", "CPU fan of c": "702 RPM"})
	power("pci/a", "active")
	again(map[string]string{"CPU fan": "700 RPM", "CPU fan of b": "701 RPM", "CPU fan of c": "702 RPM"})
	m.hwmon(3, "platform/d", "b", map[string]string{"fan1_input": "703", "fan1_label": "CPU Fan"})
	again(map[string]string{"CPU fan": "700 RPM", "CPU fan of b": "701 RPM", "CPU fan of c": "702 RPM", "CPU fan of b 1": "703 RPM"})
	m.remove("sys/class/hwmon/hwmon0")
	again(map[string]string{"CPU fan of b": "701 RPM", "CPU fan of c": "702 RPM", "CPU fan of b 1": "703 RPM"})
}

// A chip without any kept sensor is not read.
func TestChipsWithoutSensors(t *testing.T) {
	m := newMachine(t)
	for i := range 2 * maxTemperatures {
		m.hwmon(i, fmt.Sprint("platform/c", i), "chip", map[string]string{"fan1_input": "1000", "temp1_input": "30000"})
	}
	m.hwmon(1000, "platform/x", "x", map[string]string{"in0_input": "3"})
	r := m.reader(ShowOwn)
	h := readHost(t, r)
	if len(h.Fans) != maxFans || len(h.Temperatures) != maxTemperatures || len(r.sensors.chips) != maxTemperatures {
		t.Errorf("%d fans, %d temperatures, %d chips", len(h.Fans), len(h.Temperatures), len(r.sensors.chips))
	}
}

func TestSensorsThatMayNotBeRead(t *testing.T) {
	if !boundByPermissions(t) {
		return
	}
	m := newMachine(t)
	dir := m.hwmon(0, "platform/x", "x", map[string]string{"fan1_input": "1000", "fan2_input": "900"})
	if err := os.Chmod(filepath.Join(m.root, dir, "fan1_input"), 0); err != nil {
		t.Fatal(err)
	}
	r := m.reader(ShowOwn)
	check(t, r, map[string]string{"fan 1 of x": "not_permitted RPM", "fan 2 of x": "900 RPM"})
	class := filepath.Join(m.root, "sys/class/hwmon")
	if err := os.Chmod(class, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(class, 0o755) })
	m.now = m.now.Add(sensorsFor)
	if h, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "sensors: ") || h.Fans != nil {
		t.Errorf("fans %v, err %v", h.Fans, err)
	}
}

// A chip that hangs delays one reading, by little, and no other chip.
func TestSensorThatHangs(t *testing.T) {
	m := newMachine(t)
	m.hwmon(0, "platform/x", "x", map[string]string{"fan1_input": "1000"})
	dir := m.hwmon(1, "platform/y", "y", map[string]string{"fan1_input": "2000", "fan2_input": "3000"})
	r := m.reader(ShowOwn)
	check(t, r, map[string]string{"fan 1 of x": "1000 RPM", "fan 1 of y": "2000 RPM", "fan 2 of y": "3000 RPM"})

	file := filepath.Join(m.root, dir, "fan2_input")
	m.remove(dir + "fan2_input")
	if err := syscall.Mkfifo(file, 0o644); err != nil {
		t.Fatal(err)
	}
	reads := make(chan struct{})
	var hanging *os.File
	go func() {
		defer close(reads)
		var err error
		if hanging, err = os.OpenFile(file, os.O_WRONLY, 0); err != nil { // once somebody reads it
			t.Error(err)
		}
	}()
	release := func() {
		hangs := &r.sensors.chips[1].values
		hangs.mu.Lock()
		done := hangs.done
		hangs.mu.Unlock()
		if _, err := hanging.WriteString("3300\n"); err != nil {
			t.Fatal(err)
		}
		hanging.Close()
		testkit.Receive(t, "the chip is read", done)
		m.remove(dir + "fan2_input")
		m.write(dir+"fan2_input", "3400\n")
	}
	checked := func(want map[string]string) <-chan struct{} {
		done := make(chan struct{})
		go func() { defer close(done); check(t, r, want) }()
		return done
	}
	m.now = m.now.Add(time.Second)
	first := checked(map[string]string{"fan 1 of x": "1000 RPM", "fan 1 of y": "2000 RPM", "fan 2 of y": "3000 RPM"})
	m.pass(reads)
	testkit.Receive(t, "the first reading comes back", first)
	testkit.Until(t, "the other chip is read", func() bool { _, _, busy := r.sensors.chips[0].values.last(); return !busy })
	m.hwmon(0, "platform/x", "x", map[string]string{"fan1_input": "1010"})
	m.now = m.now.Add(time.Second)
	second := checked(map[string]string{"fan 1 of x": "1010 RPM", "fan 1 of y": "2000 RPM", "fan 2 of y": "3000 RPM"})
	testkit.Receive(t, "the second reading comes back, without a wait for the chip that hangs", second)
	m.now = m.now.Add(sensorsFor) // listed again: it is the same chip, and is not read again
	hung := r.sensors.chips[1]
	check(t, r, map[string]string{"fan 1 of x": "1010 RPM", "fan 1 of y": "stale RPM", "fan 2 of y": "stale RPM"})
	if r.sensors.chips[1] != hung {
		t.Error("the chip that hangs is another one")
	}
	release()
	check(t, r, map[string]string{"fan 1 of x": "1010 RPM", "fan 1 of y": "2000 RPM", "fan 2 of y": "3400 RPM"})
}

// Names are safe to show, whatever firmware calls its sensors.
func FuzzSensorNames(f *testing.F) {
	f.Add("nct6798", "CPU_FAN1")
	f.Add("x\xff", "\x1bSystem  Fan 2 speed")
	f.Fuzz(func(t *testing.T, chip, label string) {
		chip = short(chip)
		for _, in := range []input{{sensor: sensor{fan: true}, number: 1, label: label}, {number: 1, label: label}} {
			in.label = cleanLabel(label)
			for _, s := range named(chip, []input{in}) {
				if s.name == "" || len(s.name) > maxName || clean(s.name) != s.name {
					t.Errorf("%q of %q is %q", label, chip, s.name)
				}
			}
		}
	})
}

func BenchmarkSensors(b *testing.B) {
	m := &machine{t: nil, root: b.TempDir()}
	for i := range 4 {
		dir := fmt.Sprintf("%s/sys/devices/platform/x.%d/hwmon/hwmon%d", m.root, i, i)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for name, text := range map[string]string{"name": "nct6798", "fan1_input": "900", "fan2_input": "901", "temp1_input": "33000", "temp2_input": "34000"} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
		if err := os.MkdirAll(m.root+"/sys/class/hwmon", 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.Symlink(dir, fmt.Sprintf("%s/sys/class/hwmon/hwmon%d", m.root, i)); err != nil {
			b.Fatal(err)
		}
	}
	now := time.Now()
	r := &Reader{now: func() time.Time { return now }, sensors: sensors{sysfs: m.root + "/sys", timeout: context.WithTimeout}}
	var h gpu.Host
	for b.Loop() {
		now = now.Add(time.Second)
		if err := r.readSensors(b.Context(), &h); err != nil {
			b.Fatal(err)
		}
	}
	if len(h.Fans) != 8 || !h.Fans[0].RPM.Present() {
		b.Fatalf("fans = %v", h.Fans)
	}
}
