package smi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/smi/fakesmi"
	"github.com/gpuwhy/gpuwhy/sampler/sourcetest"
)

func TestValues(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{share("97"), "97"}, {share("97 %"), "97"}, {share(" 97 %\r"), "97"}, {share("0"), "0"}, {share("-1"), "not_reported"},
		{share("31337 %"), "100 (doubtful)"}, {share(""), "not_reported"}, {share("%"), "not_reported"},
		{share("nan"), "not_reported"},
		{share("0x10"), "not_reported"}, {share("1e3"), "not_reported"}, {share("9 7"), "9"},
		{share("4294967295"), "not_reported"},
		{share("18446744073709551615"), "not_reported"}, {share("9223372036854775808"), "not_reported"},
		{share("Infinity"), "not_reported"},
		{share("[N/A]"), "not_supported"}, {share("N/A"), "not_supported"}, {share("[Not Supported]"), "not_supported"},
		{share("[Requested functionality has been deprecated]"), "not_supported"},
		{share("Requested functionality has been deprecated"), "not_supported"},
		{share("[Insufficient Permissions]"), "not_permitted"}, {share("[Unknown Error]"), "not_reported"},
		{share("[GPU is lost]"), "not_reported"},
		{share("ERR!"), "not_reported"},
		{watts("97.43 W"), "97.43"}, {watts("97,43 W"), "97.43"}, {watts("1,234.50 W"), "1234.5"},
		{watts("600000"), "600000 (doubtful)"},
		{mebibytes("81,920 MiB"), fmt.Sprint(81920 << 20)}, {mebibytes("0 MiB"), "0"},
		{mebibytes("17592186044415 MiB"), "not_reported"},
		{mebibytes("4294967296 MiB"), fmt.Sprint(uint64(4294967296)<<20) + " (doubtful)"}, {mebibytes("N/A"), "not_supported"},
		{degrees("-5 C"), "-5"}, {degrees("65535"), "65535 (doubtful)"}, {degrees("45 C"), "45"},
		{limitDegrees("0 C"), "not_supported"},
		{count[int]("16x"), "16"}, {count[int]("16"), "16"}, {count[int]("1.5"), "not_reported"},
		{count[uint64]("9007199254740993"), "9007199254740992"},
		{state("P8"), "8"}, {state("P32"), "not_reported"}, {state("8"), "not_reported"}, {state("[N/A]"), "not_supported"},
		{state("P-1"), "not_reported"},
		{reasons("0x0000000000000004"), "4"}, {reasons("0xFFFFFFFFFFFFFFFF"), "not_reported"},
		{reasons("[N/A]"), "not_supported"},
		{reasons("0x8000000000000000"), "0"}, {reasons("Active"), "not_reported"},
		{flag("Enabled"), "true"}, {flag("No"), "false"}, {flag("[N/A]"), "not_supported"}, {flag("maybe"), "not_reported"},
		{name("  NVIDIA\x00 \x1b[1mH100 "), "NVIDIA [1mH100"}, {name("[N/A]"), "not_supported"}, {name(""), "not_reported"},
		{name(value(strings.Repeat("ä", 200))), strings.Repeat("ä", 64)}, {name("[Unknown Error]"), "not_reported"},
		{computeMode("Exclusive_Process"), "exclusive_process"}, {computeMode("E. Process"), "not_reported"},
		{kilobytes("528 KB/s"), "528000"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestBusAddress(t *testing.T) {
	for text, want := range map[string]string{
		"00000000:01:00.0": "0000:01:00.0", "0000:0C:00.0": "0000:0c:00.0", "0000000A:10:1F.1": "000a:10:1f.1", "00010000:E1:00.0": "10000:e1:00.0",
		"": "", "01:00.0": "", "0000:01:00": "", "0000:1:00.0": "", "GPU-1": "", "0000:01:00.0 ": "0000:01:00.0", "0000:zz:00.0": "", "000000000:01:00.0": "",
	} {
		if got, ok := busAddress(value(text)); got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestKnownFields(t *testing.T) {
	q := known("List of valid properties to query for the switch \"--query-gpu\":\r\n\r\n\"timestamp\"\r\nThe time.\r\n\r\n" +
		"Section about \"power.draw\" properties\n\"0: Default\" means several.\n\n\"clocks_event_reasons.active\" or \"clocks_throttle_reasons.active\"\nBits.\n\n" +
		"\"clocks.current.sm\" or \"clocks.sm\"\nMHz.\n\"temperature.gpu\"\n Core.\n")
	var got []string
	for _, f := range q {
		got = append(got, f.names[0])
	}
	if want := []string{"temperature.gpu", "clocks.current.sm", "clocks_event_reasons.active"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if q := known("\"clocks.gr\"\n\"clocks_throttle_reasons.active\"\n"); len(q) != 2 || q[0].names[0] != "clocks.gr" ||
		q[1].names[0] != "clocks_throttle_reasons.active" {
		t.Errorf("older names: %v", q)
	}
	if q := known("Failed to initialize NVML: Unknown Error\n"); len(q) != 0 {
		t.Errorf("%v", q)
	}
}

// lineOf returns a line of a query in which every field has a value of its form, except the given ones.
func lineOf(q query, fields map[string]string) string {
	parts := []string{"0", "GPU-1", "550.1", "2"}
	for _, f := range q {
		v, ok := fields[f.names[0]]
		if !ok {
			v = string(usual(f))
		}
		parts = append(parts, v)
	}
	end := []string{"A card", "00000000:01:00.0"}
	for i, key := range ends {
		if v, ok := fields[key]; ok {
			end[i] = v
		}
	}
	return strings.Join(append(parts, end...), ", ")
}

// usual returns a value of the field's form.
func usual(f field) value {
	values := []value{"1", "Disabled", "P0", "0x0", "Default", "None"}
	return values[slices.IndexFunc(values, f.form)]
}

var all = query(fields)

func TestLines(t *testing.T) {
	good := lineOf(all, nil)
	for what, line := range map[string]string{
		"empty": "", "cut in the middle": good[:len(good)/2], "cut at the end": good[:len(good)-1], "without an index": "x" + good[1:],
		"two glued together": good[:40] + good, "a header": all.names(), "a sentence": "No devices were found",
		"a negative index": "-1" + good[1:], "a huge index": "99999999999" + good[1:],
		"nobody":     strings.Replace(lineOf(all, map[string]string{"pci.bus_id": "[N/A]"}), "GPU-1", "[N/A]", 1),
		"no address": strings.TrimSuffix(good, "00000000:01:00.0"),
	} {
		if r, ok := all.parse(line); ok {
			t.Errorf("%s is a line: %+v", what, r.device.Identity)
		}
	}
	r, ok := all.parse(lineOf(all, map[string]string{"name": "A, B, and C"}))
	if !ok || r.device.Name != "A, B, and C" || r.key != "0000:01:00.0" || r.device.UUID != "GPU-1" || r.count != 2 ||
		r.device.PCI != r.key {
		t.Errorf("%+v", r)
	}
	if r, ok := all.parse(lineOf(all, map[string]string{"pci.bus_id": "[N/A]", "name": "[N/A]"})); !ok || r.key != "GPU-1" ||
		r.device.Name != "NVIDIA GPU" || r.device.PCI != "" {
		t.Errorf("without an address: %+v", r)
	}
	if r, ok := all.parse(strings.Replace(good, "GPU-1", "[N/A]", 1)); !ok || r.device.UUID != "PCI-0000:01:00.0" {
		t.Errorf("without a UUID: %+v", r)
	}
}

// A bad field costs only itself, whatever it contains.
func TestOneBadField(t *testing.T) {
	healthy, _ := all.parse(lineOf(all, nil))
	for _, bad := range []string{"[N/A]", "[Unknown Error]", "a sentence in place of a number", "", "18446744073709551615", "99999999999999999999"} {
		for _, f := range all {
			r, ok := all.parse(lineOf(all, map[string]string{f.names[0]: bad}))
			if !ok || r.err != nil {
				t.Fatalf("%s is %q: %v, %v", f.names[0], bad, ok, r.err)
			}
			changed := r.device
			f.set(&changed, usual(f))
			changed.Power.Draw, changed.Memory, changed.Identity = healthy.device.Power.Draw, healthy.device.Memory, healthy.device.Identity
			if diff := cmp.Diff(fmt.Sprintf("%+v", healthy.device), fmt.Sprintf("%+v", changed)); diff != "" {
				t.Errorf("%s is %q, and more changed:\n%s", f.names[0], bad, diff)
			}
		}
	}
}

// A whole device fails if its driver says that it is lost, or if it reports nothing that a working device can report.
func TestFailingLines(t *testing.T) {
	core := map[string]string{}
	for _, f := range all {
		if f.core {
			core[f.names[0]] = "[Unknown Error]"
		}
	}
	none := map[string]string{}
	for k := range core {
		none[k] = "[N/A]"
	}
	for what, c := range map[string]struct {
		fields map[string]string
		want   string
	}{
		"lost":              {map[string]string{"fan.speed": "[GPU is lost]"}, "the device has fallen off the bus"},
		"unknown errors":    {core, "the NVIDIA driver reports: unknown error"},
		"nothing supported": {none, ""},
	} {
		r, ok := all.parse(lineOf(all, c.fields))
		got := ""
		if r.err != nil {
			got = adviceOf(t, r.err).What
		}
		if !ok || got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestSentences(t *testing.T) {
	for text, want := range map[string]sentence{
		"Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system": {address: "0000:0b:00.0"},
		"Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error":                    {address: "0000:cb:00.0"},
		"Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error":                 {address: "0000:34:00.0"},
		"Unable to determine the device handle for GPU1: Unknown Error":                               {index: "1"},
		"Unable to determine the device handle for GPU 0: Unknown Error":                              {index: "0"},
		`Field "cuda_version" is not a valid field to query.`:                                         {field: "cuda_version"},
		"Not supported on the device(s)":                                                              {unsupported: true},
	} {
		got, ok := sentenceOf(text)
		got.err = nil
		if !ok || got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"", "Sat Mar 14 15:09:26 2026", "WARNING: infoROM is corrupted at gpu 0000:61:00.0", "2026/03/14 15:09:26.535", "+-----+"} {
		if got, ok := sentenceOf(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// Headers show where the columns are, in every version.
func TestPmonLines(t *testing.T) {
	type line struct {
		header, text string
		want         usage
		ok           bool
	}
	old := "# gpu     pid  type    sm   mem   enc   dec   command"
	many := "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command "
	moved := "#Time        gpu        pid  type    fb    sm   command"
	for _, c := range []line{
		{old, "    0    1201     G     2     1     -     -   Xorg", usage{gpu: 0, pid: 1201, kind: gpu.TypeGraphics, sm: "2", bandwidth: "1", encoder: "-", decoder: "-", size: "N/A"}, true},
		{many, "    0   2977   C+G      -      -      -      -      -      -     61      0    gnome shell with spaces", usage{pid: 2977, kind: gpu.TypeComputeGraphics, sm: "-", bandwidth: "-", encoder: "-", decoder: "-", size: "61"}, true},
		{many, "    1          -     -      -      -      -      -      -      -      -      -                 ", usage{gpu: 1, kind: gpu.TypeUnknown, sm: "-", bandwidth: "-", encoder: "-", decoder: "-", size: "-"}, true},
		{moved, " 15:09:26     3      77   M+C   12   99   nvidia-cuda-mps", usage{gpu: 3, pid: 77, kind: gpu.TypeMPS, sm: "99", bandwidth: "N/A", encoder: "N/A", decoder: "N/A", size: "12"}, true},
		{many, "    0   2977   C+G      -      -", usage{}, false},
		{many, "    0   4000000000   C      -      -      -      -      -      -     61      0    x", usage{}, false},
		{many, "    x   1   C      -      -      -      -      -      -     61      0    x", usage{}, false},
		{"", "    0    1201     G     2     1     -     -   Xorg", usage{}, false},
	} {
		h, _ := headerOf(c.header)
		got, ok := h.parse(c.text)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%q is %+v, %v; want %+v", c.text, got, ok, c.want)
		}
	}
	for _, text := range []string{"", "# Idx           #    C/G      %", "# a a gpu pid", "gpu pid", "#"} {
		if h, ok := headerOf(text); ok {
			t.Errorf("%q is a header: %v", text, h)
		}
	}
}

// A round has each process once; an ended process is missing in the next.
func TestRounds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := rounds{}
	say := func(text string, after time.Duration) {
		now = now.Add(after)
		if !r.add(text, now) {
			t.Errorf("%q is no line", text)
		}
	}
	pids := func(later time.Duration) (out []int) {
		round, _ := r.newest(now.Add(later))
		for _, u := range round {
			out = append(out, u.pid)
		}
		return out
	}
	check := func(what string, got []int, want ...int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	say("# gpu pid type sm mem enc dec fb command", 0)
	say("# Idx # C/G % % % % MB name", 0)
	say("0 5 C - - - - 1 a", 0)
	say("0 9 C - - - - 1 b", 0)
	say("1 - - - - - - - -", 0)
	check("the first round", pids(quiet), 5, 9, 0)
	say("0 9 C 3 - - - 1 b", time.Second)
	check("while the next is printed", pids(0), 5, 9, 0)
	say("0 12 C - - - - 1 c", 0)
	say("1 - - - - - - - -", 0)
	check("the next round", pids(quiet), 9, 12, 0)
	say("0 12 C - - - - 1 c", time.Second)
	say("1 7 C - - - - 1 d", 0)
	check("another", pids(quiet), 12, 7)
	say("0 13 C - - - - 1 e", 0) // without a pause, as from a delayed stream
	check("the one before it", pids(0), 12, 7)

	d := gpu.Device{}
	d.VendorIndex, d.Utilization.GPU = gpu.Of(0), gpu.Of(gpu.Percent(50))
	round, _ := r.newest(now.Add(quiet))
	if p := r.processes(round, &d); len(p) != 1 || p[0].SM != gpu.Of(gpu.Percent(0)) {
		t.Errorf("a device that takes samples has none of %+v", p)
	}
	d.VendorIndex = gpu.Of(1)
	other := []usage{{gpu: 1, pid: 3, kind: gpu.TypeCompute, sm: "-", bandwidth: "-", encoder: "-", decoder: "-", size: "-"}}
	if p := r.processes(other, &d); p[0].SM.Present() || p[0].Memory.Present() {
		t.Errorf("%+v of a device of which nobody knows whether it takes samples", p)
	}
	d.Utilization.GPU = gpu.Of(gpu.Percent(0))
	if p := r.processes(other, &d); p[0].SM != gpu.Of(gpu.Percent(0)) {
		t.Errorf("%+v of a device that did nothing", p)
	}
}

// The content of each machine's XML.
func TestXML(t *testing.T) {
	for name, want := range map[string]struct {
		gpus                   int
		architecture, cuda     string
		shutdown, target       string
		remapped, bar1, replay string
	}{
		"gtx1080-390":   {1, "not_supported", "", "99", "not_supported", "not_supported", "268435456", "0"},
		"laptop-470":    {1, "Ampere", "11.4", "105", "87", "not_supported", "8589934592", "0"},
		"a100-mig-535":  {2, "Ampere", "12.2", "92", "not_supported", "1", "137438953472", "0"},
		"rtx4090-550":   {1, "Ada Lovelace", "12.4", "98", "83", "not_supported", "34359738368", "3"},
		"blackwell-570": {2, "Blackwell", "12.8", "not_supported", "not_supported", "0", "137438953472", "0"},
		"windows-551":   {1, "Turing", "12.4", "100", "84", "not_supported", "268435456", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := parseXML(fakesmi.File(name, "query.xml"))
			if err != nil || len(doc.GPUs) != want.gpus || doc.CUDA != want.cuda {
				t.Fatalf("%v, %d devices, CUDA %q", err, len(doc.GPUs), doc.CUDA)
			}
			d := gpu.Device{}
			x := details{gpuElement: doc.GPUs[0]}
			x.fill(&d)
			got := fmt.Sprint(d.Architecture, " ", d.Thermal.Shutdown, " ", d.Thermal.Target, " ", d.Health.RemappedUncorrectable, " ", d.Memory.BAR1Total, " ", d.PCIe.Replays)
			if all := fmt.Sprint(want.architecture, " ", want.shutdown, " ", want.target, " ", want.remapped, " ", want.bar1, " ", want.replay); got != all {
				t.Errorf("%s, want %s", got, all)
			}
		})
	}
}

// Whatever is cut or unknown, the devices before it count.
func TestBrokenXML(t *testing.T) {
	text := string(fakesmi.File("blackwell-570", "query.xml"))
	second := strings.LastIndex(text, "<gpu id=")
	for what, c := range map[string]struct {
		text    string
		devices int
	}{
		"whole":            {text, 2},
		"noise before":     {"WARNING: infoROM is corrupted\n" + text, 2},
		"noise after":      {text + "more & <noise", 2},
		"cut in the first": {text[:len(text)/4], 0},
		"cut in the other": {text[:second+500], 1},
		"no end":           {strings.TrimSuffix(strings.TrimSpace(text), "</nvidia_smi_log>"), 2},
		"empty":            {"", 0},
		"a sentence":       {"No devices were found\n", 0},
		"latin 1":          {strings.Replace(text, `version="1.0"`, `version="1.0" encoding="ISO-8859-1"`, 1), 2},
		"a bad number":     {strings.Replace(text, "131072 MiB", "<b>?</b>", 1), 2},
		"entities":         {strings.Replace(text, "Blackwell<", "&#66;&lol;<", 1), 2},
	} {
		doc, _ := parseXML([]byte(c.text))
		if len(doc.GPUs) != c.devices {
			t.Errorf("%s: %d devices, want %d", what, len(doc.GPUs), c.devices)
		}
	}
}

// The instances have the names and UUIDs of nvidia-smi -L, or those of older drivers.
func TestInstances(t *testing.T) {
	doc, err := parseXML(fakesmi.File("a100-mig-535", "query.xml"))
	if err != nil {
		t.Fatal(err)
	}
	names := parseList(string(fakesmi.File("a100-mig-535", "list")))
	x := details{gpuElement: doc.GPUs[0]}
	x.setInstances(names[x.UUID], x.Name)
	bare := details{gpuElement: doc.GPUs[0]}
	bare.setInstances(nil, x.Name)
	text := func(in gpu.Instance) string {
		return fmt.Sprint(in.UUID, "; ", in.Name, "; ", in.GPUInstance, " ", in.ComputeInstance, " ", in.Memory.Used, " ", in.Multiprocessors, " ", in.MemorySlices, " ", in.ComputeSliceCount)
	}
	for i, want := range []string{
		"MIG-aaaaaaaa-0535-5000-8000-000000000003; NVIDIA A100-SXM4-80GB MIG 2g.20gb; 3 0 9751756800 28 2 2",
		"MIG-aaaaaaaa-0535-5000-8000-000000000004; NVIDIA A100-SXM4-80GB MIG 1c.2g.20gb; 4 0 985661440 14 2 1",
	} {
		if got := text(x.instances[i]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got, want := text(bare.instances[1]), "MIG-GPU-33333333-0535-4000-8000-000000000000/4/0; MIG instance; 4 0 985661440 14 not_supported not_supported"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	d := gpu.Device{}
	processes := x.processes(&d).Or(nil)
	if len(processes) != 2 || processes[0].GPUInstance != gpu.Of(3) || processes[1].Memory.Quality() != gpu.NotPermitted {
		t.Errorf("%+v", processes)
	}
}

// Tells apart: not supported, not permitted and none.
func TestNoInstances(t *testing.T) {
	for text, want := range map[string]map[gpu.Reading[bool]]gpu.Reading[int]{
		"None":                       {gpu.Of(true): gpu.Of(0), gpu.Of(false): gpu.Of(0), gpu.Absent[bool](gpu.NotSupported): gpu.Absent[int](gpu.NotSupported)},
		"[Insufficient Permissions]": {gpu.Of(true): gpu.Absent[int](gpu.NotPermitted), gpu.Of(false): gpu.Of(0)},
	} {
		for mig, want := range want {
			x, d := details{}, gpu.Device{}
			x.Instances.Text, d.Modes.MIG = text, mig
			if x.fill(&d); d.Modes.Instances != want {
				t.Errorf("%q with MIG %v: %v, want %v", text, mig, d.Modes.Instances, want)
			}
		}
	}
}

func TestVirtualization(t *testing.T) {
	for text, want := range map[value]gpu.Reading[string]{
		"None": gpu.Of("none"), "Pass-Through": gpu.Of("passthrough"), "VGPU": gpu.Of("vgpu"), "Host VGPU": gpu.Of("host_vgpu"),
		"Host VSGA": gpu.Of("host_vsga"), "N/A": gpu.Absent[string](gpu.NotSupported), "": gpu.Absent[string](gpu.NotSupported),
		"[Insufficient Permissions]": gpu.Absent[string](gpu.NotPermitted), "Something New": {},
	} {
		x, d := details{}, gpu.Device{}
		x.Virtualization = text
		if x.fill(&d); d.Modes.Virtualization != want {
			t.Errorf("%q: %v, want %v", text, d.Modes.Virtualization, want)
		}
	}
}

func TestOutputLines(t *testing.T) {
	var got []string
	l := &lines{f: func(s string) { got = append(got, s) }}
	for _, part := range []string{"a", "b\r\n", "\n", "c\nd", strings.Repeat("x", longestLine+1), "\ne\n", "rest"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Error(n, err)
		}
	}
	l.end()
	if want := []string{"ab", "", "c", "e", "rest"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// checked returns what is wrong with a device that was read.
func checked(d gpu.Device) []string {
	d.State, d.Since, d.SampledAt = gpu.StateOK, time.Unix(1, 0), time.Unix(1, 0)
	return sourcetest.Check(&d, d.SampledAt)
}

// Whatever a line says, its readings are possible or doubtful, and reading it again gives the same.
func FuzzLine(f *testing.F) {
	f.Add(lineOf(all, nil))
	f.Add(lineOf(all, map[string]string{"name": "a, b", "power.draw": "[N/A]", "pstate": "P8", "memory.used": "18446744073709551615"}))
	f.Add(lineOf(all, map[string]string{"fan.speed": "[GPU is lost]", "temperature.gpu": "-99999", "serial": "\x00\x1b"}))
	f.Fuzz(func(t *testing.T, line string) {
		_, _ = sentenceOf(line)
		r, ok := all.parse(line)
		if !ok || r.err != nil {
			return
		}
		for _, problem := range checked(r.device) {
			t.Error(problem)
		}
		if again, _ := all.parse(line); !reflect.DeepEqual(again.device, r.device) {
			t.Error("it is read differently each time")
		}
	})
}

func FuzzXML(f *testing.F) {
	for _, name := range fakesmi.Names() {
		f.Add(fakesmi.File(name, "query.xml"), fakesmi.File(name, "list"))
	}
	f.Add([]byte("<nvidia_smi_log><gpu><processes><process_info><pid>1</pid><used_memory>-1</used_memory></process_info></processes></gpu>"), []byte("GPU 0: x (UUID: GPU-1)\n"))
	f.Fuzz(func(t *testing.T, text, list []byte) {
		doc, _ := parseXML(text)
		names := parseList(string(list))
		for _, g := range doc.GPUs {
			d := gpu.Device{}
			d.Source, d.UUID = gpu.SourceNvidiaSMI, "GPU-1"
			x := details{gpuElement: g, read: time.Unix(1, 0)}
			x.setInstances(names["GPU-1"], "a card")
			d.Modes.MIG = flag(x.MIG)
			x.fill(&d)
			x.traffic(&d.Activity)
			if d.Modes.MIG.Or(false) {
				d.Instances = x.instances
			}
			setProcesses(&d, x.processes(&d))
			for _, problem := range checked(d) {
				t.Error(problem)
			}
		}
	})
}

func FuzzPmon(f *testing.F) {
	for _, name := range fakesmi.Names() {
		f.Add(string(fakesmi.File(name, "pmon")))
	}
	f.Add("# gpu pid type sm mem enc dec fb command\n0 1 C 31337 -1 nan 4294967295 99999999999999 x\n0 1 G - - - - - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, now := rounds{}, time.Unix(1, 0)
		for line := range strings.Lines(text) {
			r.add(strings.TrimRight(line, "\r\n"), now)
			now = now.Add(time.Millisecond)
		}
		d := gpu.Device{}
		d.Source, d.UUID, d.VendorIndex, d.Memory.Total = gpu.SourceNvidiaSMI, "GPU-1", gpu.Of(0), gpu.Of(gpu.Bytes(1<<34))
		round, _ := r.newest(now.Add(quiet))
		setProcesses(&d, gpu.Of(r.processes(round, &d)))
		for _, problem := range checked(d) {
			t.Error(problem)
		}
	})
}
