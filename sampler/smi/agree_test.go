//go:build linux && cgo

package smi

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/testkit"
	"github.com/gpuwhy/gpuwhy/sampler/nvml"
	"github.com/gpuwhy/gpuwhy/sampler/nvml/fakenvml"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
)

// differs are the readings that nvidia-smi does not report as the library does, and why.
var differs = map[string]string{
	"identity.source":      "it is the name of the source",
	"identity.state_since": "each source has its own",
	"identity.sampled_at":  "each source has its own",
	"fans.count":           "nvidia-smi has one speed, whatever the number of fans",
	"fans.combined":        "so it stands for all",
	"nvlink.count":         "that is another program for each reading (nvidia-smi nvlink)",
	"fan.commanded":        "so it has one fan, which is compared below",
	"fan.rpm":              "nvidia-smi has no tachometer",
	"fan.target":           "nor a target",
	"fan.policy":           "nor a policy",
	"fan.manual":           "nor a policy",
	"power.energy":         "nvidia-smi has no counter of energy",
	"health.xids":          "nvidia-smi has no events",
	"processes":            "they are compared below",
	"memory.share":         "it follows from memory, which is rounded",
}

// rounding is how much a reading may differ because nvidia-smi rounds it.
var rounding = map[catalog.Unit]float64{catalog.Bytes: 1<<20 - 1, catalog.Watts: 0.005}

// sharedLibrary is the only library that a process can use.
var sharedLibrary = sync.OnceValues(func() (*fakenvml.Library, error) {
	dir, err := os.MkdirTemp("", "fakenvml-")
	if err != nil {
		return nil, err
	}
	atExit = append(atExit, func() { _ = os.RemoveAll(dir) })
	return fakenvml.New(dir)
})

// TestAgreement checks that, if the library and the program describe one machine, both sources report the same, field by field.
func TestAgreement(t *testing.T) {
	gpus := []fakenvml.GPU{
		fakenvml.RTX4090(), fakenvml.H100(),
		// A device that does not support much, refuses some calls, and has odd values.
		fakenvml.RTX4090().At(0x41).Without("power_limit", "power_max_limit", "power_min_limit", "margin", "fans", "encoder", "threshold5").
			With("serial", fakenvml.Error(4)).With("memory_used", 12345678901).With("power", 61_234).With("event_reasons", 0x64).
			With("memory_utilization", 117).With("temperature", 0).With("persistence", 1).With("display_active", 0).With("compute_mode", 3).
			With("name", "NVIDIA Test, with a comma").With("virtualization", 1),
		// A device that uses the machine's memory.
		fakenvml.RTX4090().At(0x61).Without("memory_total", "memory_used", "memory_reserved", "bar1_total", "bar1_used"),
	}
	lib, err := sharedLibrary()
	if err != nil {
		t.Fatal(err)
	}
	library := lib.Machine(t, gpus...)
	program := endsAll(t, fakesmi.Make(t, printed(gpus)))
	program.Fault("pmon-ms 20")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	clock := testkit.NewClock()
	library.SetTime(clock.Now())
	byLibrary := nvml.New(nvml.Config{
		LibraryPath: lib.Path(), SysfsRoot: library.SysfsRoot, ProcRoot: library.ProcRoot, Deadline: time.Second, Window: time.Minute, Clock: clock, Log: log,
	})
	defer func() {
		if err := byLibrary.Close(); err != nil {
			t.Error(err)
		}
	}()
	byProgram := source(t, program, func(c *Config) { c.SysfsRoot, c.ProcRoot = library.SysfsRoot, library.ProcRoot })
	want, err := byLibrary.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := whole(t, byProgram)
	if len(got.Devices) != len(want.Devices) || len(want.Devices) != len(gpus) {
		t.Fatalf("%d devices by the program, %d by the library", len(got.Devices), len(want.Devices))
	}
	if g, w := got.Drivers[0], want.Drivers[0]; g.Version != w.Version || g.CUDA != w.CUDA {
		t.Errorf("the driver is %+v by the program, %+v by the library", g, w)
	}
	compared := 0
	for i := range want.Devices {
		g, w := &got.Devices[i], &want.Devices[i]
		for r := range catalog.All() {
			if differs[r.ID] == "" && !strings.HasPrefix(r.ID, "activity.") {
				compared += compare(t, r, g, w)
			}
		}
		if g.Fans.Commanded() != w.Fans.Commanded() {
			t.Errorf("%s: the fan is commanded to %v by the program, %v by the library", w.Name, g.Fans.Commanded(), w.Fans.Commanded())
		}
		compareProcesses(t, w.Name, g.Processes.Or(nil), w.Processes.Or(nil))
		if !g.Activity.Engine.Present() && g.Activity != gpu.AbsentActivity(gpu.NotSupported) {
			t.Errorf("%s: %+v", w.Name, g.Activity)
		}
	}
	if compared < 4*60 {
		t.Errorf("only %d readings were compared", compared)
	}
}

func compare(t *testing.T, r *catalog.Row, got, want *gpu.Device) (n int) {
	var refs []catalog.Ref
	r.Visit(want, func(_ string, ref catalog.Ref) { refs = append(refs, ref) })
	r.Visit(got, func(part string, g catalog.Ref) {
		if n >= len(refs) {
			t.Errorf("%s has one more %s (%s)", want.Name, r.ID, part)
			return
		}
		w := refs[n]
		n++
		text := func(ref catalog.Ref) string { return fmt.Sprint(reflect.ValueOf(ref).Elem().Interface()) }
		a, b := catalog.Number(g), catalog.Number(w)
		near := rounding[r.Unit] > 0 && a.Quality() == b.Quality() && math.Abs(a.Or(0)-b.Or(0)) <= rounding[r.Unit]
		if text(g) != text(w) && !near {
			t.Errorf("%s: %s is %s by the program, %s by the library", want.Name, r.ID, text(g), text(w))
		}
	})
	return n
}

func compareProcesses(t *testing.T, device string, got, want []gpu.Process) {
	if len(got) != len(want) {
		t.Errorf("%s: %d processes by the program, %d by the library", device, len(got), len(want))
		return
	}
	for i := range want {
		g, w := got[i], want[i]
		if d := float64(g.Memory.Or(0)) - float64(w.Memory.Or(0)); math.Abs(d) < 1<<20 &&
			g.Memory.Quality() == w.Memory.Quality() {
			g.Memory = w.Memory
		}
		if !reflect.DeepEqual(g, w) {
			t.Errorf("%s: a process is %+v by the program, %+v by the library", device, g, w)
		}
	}
}

// printed returns the output of nvidia-smi 550 for devices that the library describes.
func printed(gpus []fakenvml.GPU) map[string][]byte {
	text := func(format string, scale float64) func(fakenvml.GPU, string) string {
		return func(g fakenvml.GPU, key string) string {
			v, ok := g[fakenvml.Key(key)]
			switch {
			case v == fakenvml.Error(4):
				return "[Insufficient Permissions]"
			case !ok || strings.HasPrefix(v, "!"):
				return "[N/A]"
			case scale == 0:
				return v
			}
			n, _ := strconv.ParseFloat(v, 64)
			return fmt.Sprintf(format, n/scale)
		}
	}
	plain, percent, mhz, watts := text("", 0), text("%.0f %%", 1), text("%.0f MHz", 1), text("%.2f W", 1000)
	mebi := func(g fakenvml.GPU, key string) string { // rounded up, as newer versions do
		n, err := strconv.ParseFloat(g[fakenvml.Key(key)], 64)
		if err != nil {
			return "[N/A]"
		}
		return fmt.Sprintf("%.0f MiB", math.Ceil(n/(1<<20)))
	}
	free := func(g fakenvml.GPU, _ string) string {
		total, err := strconv.ParseFloat(g["memory_total"], 64)
		if err != nil {
			return "[N/A]"
		}
		used, _ := strconv.ParseFloat(g["memory_used"], 64)
		reserved, _ := strconv.ParseFloat(g["memory_reserved"], 64)
		return fmt.Sprintf("%.0f MiB", math.Ceil((total-used-reserved)/(1<<20)))
	}
	word := func(words ...string) func(fakenvml.GPU, string) string {
		return func(g fakenvml.GPU, key string) string {
			n, err := strconv.Atoi(g[fakenvml.Key(key)])
			if err != nil {
				return "[N/A]"
			}
			return words[n]
		}
	}
	enabled := word("Disabled", "Enabled")
	fan := func(g fakenvml.GPU, _ string) string {
		if n, err := strconv.Atoi(g["fans"]); err != nil || n == 0 {
			return "[N/A]"
		}
		return g["fan0.speed"] + " %"
	}
	var fields strings.Builder
	for _, f := range []struct {
		name, key string
		value     func(fakenvml.GPU, string) string
	}{
		{"driver_version", "", func(fakenvml.GPU, string) string { return "550.54.15" }},
		{"count", "", func(fakenvml.GPU, string) string { return fmt.Sprint(len(gpus)) }},
		{"uuid", "uuid", plain}, {"name", "name", plain},
		{"pci.bus_id", "pci", func(g fakenvml.GPU, _ string) string { return "0000" + strings.ToUpper(g["pci"]) }},
		{"serial", "serial", plain}, {"vbios_version", "vbios", plain},
		{"utilization.gpu [%]", "utilization", percent}, {"utilization.memory [%]", "memory_utilization", percent},
		{"utilization.encoder [%]", "encoder", percent}, {"utilization.decoder [%]", "decoder", percent},
		{"utilization.jpeg [%]", "jpeg", percent}, {"utilization.ofa [%]", "ofa", percent},
		{"encoder.stats.sessionCount", "encoder_sessions", plain}, {"encoder.stats.averageFps", "encoder_fps", plain},
		{"encoder.stats.averageLatency", "encoder_latency", plain},
		{"memory.total [MiB]", "memory_total", mebi}, {"memory.reserved [MiB]", "memory_reserved", mebi},
		{"memory.used [MiB]", "memory_used", mebi}, {"memory.free [MiB]", "", free},
		{"temperature.gpu", "temperature", plain}, {"temperature.gpu.tlimit", "margin", plain},
		{"temperature.memory", "field82", plain},
		{"fan.speed [%]", "", fan},
		{"power.draw [W]", "power", watts}, {"enforced.power.limit [W]", "power_limit", watts},
		{"power.default_limit [W]", "power_default_limit", watts},
		{"power.min_limit [W]", "power_min_limit", watts}, {"power.max_limit [W]", "power_max_limit", watts},
		{"clocks.current.graphics [MHz]", "clock0", mhz}, {"clocks.current.sm [MHz]", "clock1", mhz},
		{"clocks.current.memory [MHz]", "clock2", mhz}, {"clocks.current.video [MHz]", "clock3", mhz},
		{"clocks.max.graphics [MHz]", "max_clock0", mhz}, {"clocks.max.sm [MHz]", "max_clock1", mhz},
		{"clocks.max.memory [MHz]", "max_clock2", mhz},
		{"pstate", "pstate", func(g fakenvml.GPU, key string) string { return "P" + g[fakenvml.Key(key)] }},
		{"clocks_event_reasons.active", "event_reasons", func(g fakenvml.GPU, key string) string {
			n, _ := strconv.Atoi(g[fakenvml.Key(key)])
			return fmt.Sprintf("0x%016X", n)
		}},
		{"pcie.link.gen.gpucurrent", "pcie_generation", plain}, {"pcie.link.gen.max", "pcie_max_generation", plain},
		{"pcie.link.width.current", "pcie_width", plain}, {"pcie.link.width.max", "pcie_max_width", plain},
		{"ecc.mode.current", "ecc", enabled}, {"ecc.mode.pending", "ecc", enabled},
		{"ecc.errors.corrected.volatile.total", "ecc_errors.0.0", plain},
		{"ecc.errors.corrected.aggregate.total", "ecc_errors.0.1", plain},
		{"ecc.errors.uncorrected.volatile.total", "ecc_errors.1.0", plain},
		{"ecc.errors.uncorrected.aggregate.total", "ecc_errors.1.1", plain},
		{"persistence_mode", "persistence", enabled}, {"display_active", "display_active", enabled},
		{"compute_mode", "compute_mode", word("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")},
		{"mig.mode.current", "mig", enabled}, {"mig.mode.pending", "mig", enabled},
		{"index", "", nil},
	} {
		values := make([]string, len(gpus))
		for i, g := range gpus {
			if f.value == nil {
				values[i] = fmt.Sprint(i)
			} else {
				values[i] = f.value(g, f.key)
			}
		}
		fmt.Fprintf(&fields, "%s = %s\n", f.name, strings.Join(values, " | "))
	}
	pmon := "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command \n" +
		"# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name \n"
	xml := "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>\n<driver_version>550.54.15</driver_version>\n<cuda_version>12.4</cuda_version>\n"
	degrees := text("%.0f C", 1)
	for i, g := range gpus {
		trimmed := func(f func(fakenvml.GPU, string) string, key string) string { return strings.Trim(f(g, key), "[]") }
		architecture := map[string]string{"8": "Ada Lovelace", "9": "Hopper"}[g["architecture"]]
		rows := "N/A"
		if _, ok := g["remapped_correctable"]; ok {
			yes := func(key string) string { return trimmed(word("No", "Yes"), key) }
			rows = fmt.Sprintf("<remapped_row_corr>%s</remapped_row_corr><remapped_row_unc>%s</remapped_row_unc>"+
				"<remapped_row_pending>%s</remapped_row_pending><remapped_row_failure>%s</remapped_row_failure>",
				g["remapped_correctable"], g["remapped_uncorrectable"], yes("remap_pending"), yes("remap_failed"))
		}
		xml += fmt.Sprintf(`<gpu id="0000%s">
<product_architecture>%s</product_architecture><uuid>%s</uuid>
<pci><pci_bus_id>0000%[1]s</pci_bus_id><replay_counter>%[4]s</replay_counter></pci>
<bar1_memory_usage><total>%[5]s</total><used>%[6]s</used></bar1_memory_usage>
<temperature><gpu_temp_max_threshold>%[7]s</gpu_temp_max_threshold><gpu_temp_slow_threshold>%[8]s</gpu_temp_slow_threshold>
<gpu_target_temperature>%[9]s</gpu_target_temperature><gpu_temp_max_mem_threshold>%[10]s</gpu_temp_max_mem_threshold></temperature>
<max_clocks><video_clock>%[11]s</video_clock></max_clocks><remapped_rows>%[12]s</remapped_rows>
<gpu_virtualization_mode><virtualization_mode>%[13]s</virtualization_mode></gpu_virtualization_mode>
</gpu>
`, strings.ToUpper(g["pci"]), architecture, g["uuid"], trimmed(plain, "pcie_replays"), trimmed(mebi, "bar1_total"), trimmed(mebi, "bar1_used"),
			trimmed(degrees, "threshold0"), trimmed(degrees, "threshold1"), trimmed(degrees, "threshold5"), trimmed(degrees, "threshold2"), trimmed(mhz, "max_clock3"), rows,
			trimmed(word("None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"), "virtualization"))
		pmon += processLine(i, g)
	}
	return map[string][]byte{"query-gpu": []byte(fields.String()), "pmon": []byte(pmon), "query.xml": []byte(xml + "</nvidia_smi_log>\n")}
}

// processLine returns pmon's line for the models' only process.
func processLine(i int, g fakenvml.GPU) string {
	var kind, gi, ci string
	var pid, bytes uint64
	if n, _ := fmt.Sscan(g["process000"], &kind, &pid, &bytes, &gi, &ci); n < 3 {
		return fmt.Sprintf("%5d          -     -      -      -      -      -      -      -      -      -    -\n", i)
	}
	used := [4]string{"-", "-", "-", "-"}
	var stamp string
	if n, _ := fmt.Sscan(g["sample000"], &pid, &stamp, &used[0], &used[1], &used[2], &used[3]); n < 6 {
		used = [4]string{"-", "-", "-", "-"}
	}
	return fmt.Sprintf("%5d %10d %5s %6s %6s %6s %6s      -      - %6d      0    a name\n",
		i, pid, map[string]string{"graphics": "G", "compute": "C"}[kind], used[0], used[1], used[2], used[3], bytes>>20)
}
