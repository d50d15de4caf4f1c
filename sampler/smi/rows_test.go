package smi

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// A comma in a value shifts no other value: the line is read in the only possible way, or not at all.
func TestValuesWithCommas(t *testing.T) {
	good := map[string]string{"temperature.gpu": "61", "fan.speed": "40", "power.draw": "97.43", "memory.free": "15260", "serial": "[N/A]", "vbios_version": "95.02", "memory.total": "24564", "power.max_limit": "450"}
	changed := func(changes map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{good, changes} {
			maps.Copy(out, m)
		}
		return out
	}
	none := map[string]string{"name": "Orin (nvgpu), revision B"}
	for _, f := range all {
		none[f.names[0]] = "[N/A]"
	}
	for what, c := range map[string]struct {
		fields            map[string]string
		driver            string // instead of 550.1
		name, version     string
		unread, absentAll bool
	}{
		"none":                            {fields: good, name: "A card", version: "550.1"},
		"in the name":                     {fields: changed(map[string]string{"name": "RTX PRO 6000, Max-Q, Server"}), name: "RTX PRO 6000, Max-Q, Server", version: "550.1"},
		"in brackets behind the version":  {fields: good, driver: "610.47 [Deprecated; use kmd_version, umd_version]", name: "A card", version: "610.47"},
		"in brackets, and in the name":    {fields: changed(map[string]string{"name": "A, B"}), driver: "610.47 [Deprecated; a, b]", name: "A, B", version: "610.47"},
		"behind the version":              {fields: good, driver: "610.47, deprecated", name: "A card", version: "610.47"},
		"in a value in brackets":          {fields: changed(map[string]string{"temperature.memory": "[Not available, see the manual]"}), name: "A card", version: "550.1"},
		"in the name where all is absent": {fields: none, name: "Orin (nvgpu), revision B", version: "550.1", absentAll: true},
		"in the serial":                   {fields: changed(map[string]string{"serial": "12, 34"}), unread: true},
		"in a number":                     {fields: changed(map[string]string{"memory.free": "15, 260"}), unread: true},
		"in two values":                   {fields: changed(map[string]string{"name": "A, B", "serial": "1, 2"}), unread: true},
		"a bracket that does not end":     {fields: changed(map[string]string{"memory.free": "[15, 260"}), unread: true},
	} {
		line := lineOf(all, c.fields)
		if c.driver != "" {
			line = strings.Replace(line, "550.1", c.driver, 1)
		}
		r, ok := all.parse(line)
		if !ok {
			t.Errorf("%s: it is no line", what)
			continue
		}
		d := &r.device
		if d.UUID != "GPU-1" || d.PCI != "0000:01:00.0" || (r.unread != "") != c.unread {
			t.Errorf("%s: %s at %s, unread %q", what, d.UUID, d.PCI, r.unread)
		}
		if c.unread {
			if d.Thermal.GPU.Present() || d.Memory.Free.Present() || r.err == nil || !strings.Contains(r.err.Error(), "“0, GPU-1, 550.1") {
				t.Errorf("%s: it is %v, %v, and says %v", what, d.Thermal.GPU, d.Memory.Free, r.err)
			}
			continue
		}
		if d.Name != c.name || d.DriverVersion != gpu.Of(c.version) || r.count != 2 {
			t.Errorf("%s: %q of driver %v, count %d", what, d.Name, d.DriverVersion, r.count)
		}
		if c.absentAll {
			if d.Thermal.GPU.Quality() != gpu.NotSupported || d.Power.Draw.Quality() != gpu.NotSupported {
				t.Errorf("%s: %v, %v", what, d.Thermal.GPU, d.Power.Draw)
			}
			continue
		}
		if d.Thermal.GPU != gpu.Of(gpu.Celsius(61)) || d.Fans.Commanded() != gpu.Of(gpu.Percent(40)) || d.Power.Draw != gpu.Of(gpu.Watts(97.43)) {
			t.Errorf("%s: %v, %v, %v", what, d.Thermal.GPU, d.Fans.Commanded(), d.Power.Draw)
		}
	}
}

// A known name shows where the values end, so that a bad value costs only itself.
func TestAKnownNameWithCommas(t *testing.T) {
	line := lineOf(all, map[string]string{"name": "A, B", "pstate": "a sentence", "temperature.gpu": "61"})
	if r, ok := all.parse(line); !ok || r.unread == "" {
		t.Errorf("without the name: %q", r.unread)
	}
	r, ok := all.read(line, func(uuid string) string { return map[string]string{"GPU-1": "A, B"}[uuid] })
	if !ok || r.unread != "" || r.device.Name != "A, B" || r.device.Thermal.GPU != gpu.Of(gpu.Celsius(61)) || r.device.Clocks.PerformanceState.Present() {
		t.Errorf("%q, %q, %v", r.unread, r.device.Name, r.device.Thermal.GPU)
	}
	if r, ok := all.read(lineOf(all, nil), func(uuid string) string {
		t.Errorf("it asks for the name of %s, of a line without commas", uuid)
		return ""
	}); !ok {
		t.Errorf("without commas: %q", r.unread)
	}
	if r, ok := all.read(line, func(string) string { return "C, D" }); !ok || r.unread == "" {
		t.Errorf("with the name of another: %q", r.device.Name)
	}
}

// A device whose row can't be matched has the XML's readings, and its own again once rows match.
func TestUnreadRowHasTheXML(t *testing.T) {
	m := machine(t, "blackwell-570")
	first, other := m.Addresses()[0], m.Addresses()[1]
	m.Write("query.xml", strings.ReplaceAll(m.Read("query.xml"), "<fan_speed>", "<fb_memory_usage><total>97887 MiB</total><used>3 MiB</used></fb_memory_usage><fan_speed>"))
	m.Set(first, "serial", "1790425, 000000")
	m.Set(first, "temperature.gpu", "77")
	m.Set(other, "temperature.gpu", "78")
	s := source(t, m)
	snap := until(t, s, "both devices", allOK)
	d, beside := &snap.Devices[0], &snap.Devices[1]
	if d.Thermal.GPU != gpu.Of(gpu.Celsius(24)) || d.Memory.Total != gpu.Of(gpu.Bytes(97887<<20)) || d.Fans.Commanded() != gpu.Of(gpu.Percent(30)) ||
		d.Serial != gpu.Of("1790425000000") || d.Name != beside.Name || d.DriverVersion != gpu.Of("570.133.07") {
		t.Errorf("by the XML: %v, %v, %v, %v, %q, %v", d.Thermal.GPU, d.Memory.Total, d.Fans.Commanded(), d.Serial, d.Name, d.DriverVersion)
	}
	if beside.Thermal.GPU != gpu.Of(gpu.Celsius(78)) {
		t.Errorf("the device beside it is at %v", beside.Thermal.GPU)
	}
	m.Set(first, "serial", "1790425000000")
	until(t, s, "its own readings", func(snap *gpu.Snapshot, err error) bool {
		return allOK(snap, err) && snap.Devices[0].Thermal.GPU == gpu.Of(gpu.Celsius(77))
	})
}

// Without the XML it can't be read, and its reason quotes the row.
func TestUnreadRowIsQuoted(t *testing.T) {
	m := machine(t, "blackwell-570")
	m.Fault("command xml missing")
	m.Set(m.Addresses()[0], "vbios_version", "98.02, 6A")
	snap := until(t, source(t, m), "one of two", func(snap *gpu.Snapshot, err error) bool {
		return err == nil && len(snap.Devices) == 2 && snap.Devices[0].State == gpu.StateNotAnswering && snap.Devices[1].State == gpu.StateOK
	})
	if why := snap.Devices[0].Reason; !strings.Contains(why.What, "“0, GPU-55555555-0570-4000-8000-000000000000, 570.133.07, 2, ") || why.Try == "" {
		t.Errorf("%q, %q", why.What, why.Try)
	}
}

// The GPUs of Orin and Thor have a UUID without "GPU-", and are on no PCI bus.
func TestUUIDsOfJetsons(t *testing.T) {
	const uuid, whole = "11112222-3333-4444-8555-666677778888", "GPU-aaaabbbb-3333-4444-8555-666677778888"
	table := func(uuid, address, memory string) string {
		lines := []string{
			"index = 0", "count = 1", "driver_version = 540.4.0", "name = Orin (nvgpu)", "uuid = " + uuid, "pci.bus_id = " + address,
			"utilization.gpu [%] = [N/A]", "memory.total [MiB] = " + memory, "temperature.gpu = [N/A]", "power.draw [W] = [N/A]", "fan.speed [%] = [N/A]",
		}
		return strings.Join(lines, "\n") + "\n"
	}
	for what, c := range map[string]struct{ uuid, address, memory string }{
		"without an address":  {uuid, "[N/A]", "[N/A]"},
		"in capital letters":  {strings.ToUpper(uuid), "N/A", "[N/A]"},
		"with an address":     {uuid, "00000000:01:00.0", "62841 MiB"},
		"as others have them": {whole, "[N/A]", "[N/A]"},
	} {
		t.Run(what, func(t *testing.T) {
			m := endsAll(t, fakesmi.Make(t, map[string][]byte{
				"query-gpu": []byte(table(c.uuid, c.address, c.memory)), "list": []byte("GPU 0: Orin (nvgpu) (UUID: " + c.uuid + ")\n"),
			}))
			m.Fault("no-pmon")
			snap := until(t, source(t, m), "the device", allOK)
			if len(snap.Devices) != 1 {
				t.Fatalf("%d devices", len(snap.Devices))
			}
			d := &snap.Devices[0]
			if d.UUID != c.uuid || d.Name != "Orin (nvgpu)" || d.Thermal.GPU.Quality() != gpu.NotSupported || d.Power.Draw.Quality() != gpu.NotSupported {
				t.Errorf("%q, %q: %v, %v", d.UUID, d.Name, d.Thermal.GPU, d.Power.Draw)
			}
			if !gpu.OneDevice(d.UUID) {
				t.Errorf("%q is not taken for that of one device", d.UUID)
			}
		})
	}
}

// Unknown output is quoted, with what to do: it means neither "no answer" nor "no GPU".
func TestForeignOutputIsQuoted(t *testing.T) {
	m := machine(t, "rtx4090-550")
	script := "#!/bin/sh\ncase $1 in\n--help*) cat <<'END'\n" + "\"temperature.gpu\"\nDegrees.\n" + "END\n;;\n*) while :; do echo 'Karte 0: 41 Grad'; sleep 0.02; done;;\nesac\n"
	if err := testkit.WriteProgram(m.Program(), []byte(script)); err != nil {
		t.Fatal(err)
	}
	s := source(t, m, func(c *Config) { c.SysfsRoot, c.ProcRoot = "", "" })
	until(t, s, "an error that quotes it", func(snap *gpu.Snapshot, err error) bool {
		if err == nil {
			t.Fatalf("it is no error: %+v", snap)
		}
		a := adviceOf(t, err)
		return errors.Is(err, errForeign) && strings.Contains(a.What, "“Karte 0: 41 Grad”") && strings.Contains(a.Try, "--query-gpu")
	})
	if _, err := os.Stat(filepath.Join(m.Dir(), "log")); err != nil {
		t.Fatal(err)
	}
}

// A recovery that the driver asks for is a current fault, and the reason, of only the device that it is about.
func TestWhatTheDriverAsksFor(t *testing.T) {
	add := func(m *fakesmi.Machine, field, values string) {
		m.Write("query-gpu", m.Read("query-gpu")+field+" = "+values+"\n")
	}
	kinds := func(d *gpu.Device) string {
		if !d.Health.Faults.Present() {
			return d.Health.Faults.Quality().String()
		}
		var all []string
		for _, f := range d.Health.Faults.Or(nil) {
			all = append(all, string(f.Kind))
		}
		return strings.Join(all, " ")
	}
	for what, c := range map[string]struct {
		change func(m *fakesmi.Machine, address string)
		want   string
		beside string // of the other device
	}{
		"nothing is said":     {func(*fakesmi.Machine, string) {}, "not_supported", "not_supported"},
		"nothing":             {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "None | None") }, "", ""},
		"a reset":             {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "Reset | None") }, "needs_reset", ""},
		"a restart":           {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "Reboot | None") }, "needs_restart", ""},
		"a drain":             {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "Drain P2P | None") }, "needs_drain", ""},
		"a drain and a reset": {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "Drain and Reset | [N/A]") }, "needs_drain_and_reset", "not_supported"},
		"an older driver":     {func(m *fakesmi.Machine, _ string) { add(m, "reset_status.reset_required", "Yes | No") }, "needs_reset", ""},
		"by the XML": {func(m *fakesmi.Machine, _ string) {
			m.Write("query.xml", strings.Replace(m.Read("query.xml"), "<fan_speed>", "<gpu_recovery_action>Reset</gpu_recovery_action><fan_speed>", 1))
		}, "needs_reset", "not_supported"},
		"by the XML of old": {func(m *fakesmi.Machine, _ string) {
			m.Write("query.xml", strings.Replace(m.Read("query.xml"), "<fan_speed>", "<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status><fan_speed>", 1))
		}, "needs_reset", "not_supported"},
		"in place of a reading":  {func(m *fakesmi.Machine, address string) { m.Set(address, "utilization.gpu", "[GPU requires reset]") }, "needs_reset", "not_supported"},
		"in place of the fan":    {func(m *fakesmi.Machine, address string) { m.Set(address, "fan.speed", "[GPU requires reset]") }, "needs_reset", "not_supported"},
		"a fan that is an error": {func(m *fakesmi.Machine, address string) { m.Set(address, "fan.speed", "ERR!") }, "fan_unreadable", "not_supported"},
		"a fan and a reset": {func(m *fakesmi.Machine, address string) {
			m.Set(address, "fan.speed", "[Unknown Error]")
			add(m, "gpu_recovery_action", "Reset | None")
		}, "fan_unreadable needs_reset", ""},
		"no fan, in other words":       {func(m *fakesmi.Machine, address string) { m.Set(address, "fan.speed", "[Not Found]") }, "not_supported", "not_supported"},
		"a fan that is not known now":  {func(m *fakesmi.Machine, address string) { m.Set(address, "fan.speed", "[Timeout]") }, "not_supported", "not_supported"},
		"a word that asks for nothing": {func(m *fakesmi.Machine, _ string) { add(m, "gpu_recovery_action", "ERR! | Not Active") }, "not_supported", "not_supported"},
		"no fan":                       {func(m *fakesmi.Machine, address string) { m.Set(address, "fan.speed", "[N/A]") }, "not_supported", "not_supported"},
	} {
		t.Run(what, func(t *testing.T) {
			m := machine(t, "blackwell-570")
			c.change(m, m.Addresses()[0])
			s := source(t, m)
			whole(t, s)
			pass(t, s, 3*time.Second)
			snap := whole(t, s)
			d := &snap.Devices[0]
			if got, other := kinds(d), kinds(&snap.Devices[1]); got != c.want || other != c.beside {
				t.Errorf("%q, and beside it %q", got, other)
			}
			asks := len(d.Health.Standing()) > 0
			if errors.Is(&d.Reason, gpu.ErrNeedsAction) != asks || (d.Reason.What != "") != asks || snap.Devices[1].Reason.What != "" {
				t.Errorf("the reasons are %q and %q", d.Reason.Text(), snap.Devices[1].Reason.Text())
			}
			if want := map[bool]gpu.Status{true: gpu.StatusDegraded, false: gpu.StatusOK}[asks]; snap.Status() != want {
				t.Errorf("the machine is %s, want %s", snap.Status(), want)
			}
		})
	}
}

// It ends when the driver stops asking, and counts again when it begins again.
func TestWhatTheDriverAsksForEnds(t *testing.T) {
	m := machine(t, "blackwell-570")
	address := m.Addresses()[1]
	s := source(t, m)
	fault := func(count uint64) func(*gpu.Snapshot, error) bool {
		return func(snap *gpu.Snapshot, err error) bool {
			if !allOK(snap, err) || len(snap.Devices) < 2 {
				return false
			}
			list := snap.Devices[1].Health.Standing()
			return len(list) == min(int(count), 1) && (count == 0 || list[0].Count == count && list[0].Last.Before(s.cfg.Clock.Now().UTC().Add(1)))
		}
	}
	m.Set(address, "fan.speed", "[Unknown Error]")
	until(t, s, "the fan fails", fault(1))
	m.Set(address, "fan.speed", "31 %")
	until(t, s, "the fan is back", fault(0))
	m.Set(address, "fan.speed", "ERR!")
	until(t, s, "the fan fails again", fault(2))
}
