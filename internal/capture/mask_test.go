package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// shown are the texts of a snapshot that are not replaced, by their place. They name products,
// drivers and places on the bus, or are one of a few words. A new field needs a decision.
var shown = strings.Fields(`
	Source Devices.Identity.Vendor Devices.Identity.Source Devices.Identity.RecordedFrom Devices.Identity.Name
	Devices.Identity.PCI Devices.Identity.Architecture Devices.Identity.VBIOS Devices.Identity.DriverVersion
	Devices.State Devices.Reservations.Resource Devices.Readings.Fans.Fans.Policy Devices.Readings.Modes.Compute
	Devices.Readings.Processes.Type Devices.Readings.Processes.Facts.Container.Runtime
	Devices.Readings.Processes.Facts.Job.Step Devices.Readings.Instances.Name
	Drivers.Source Drivers.Version Drivers.CUDA Drivers.Library Failures.Source Tried.Source
	Host.OS Host.Kernel Host.CPUModel Host.Disks.FileSystem Host.Fans.Name Host.Fans.Chip Host.Temperatures.Name
	Host.Temperatures.Chip
	Devices.Readings.Health.Faults.Engine Devices.Readings.Health.Faults.Kind Devices.Readings.Instances.Profile
	Devices.Readings.Modes.ComputePartition Devices.Readings.Modes.MemoryPartition
	Devices.Readings.Modes.Virtualization Devices.Readings.NVLink.Links.Peer Devices.Readings.NVLink.Links.PeerPCI
	Devices.Readings.NVLink.Links.Version Host.Busiest.Facts.Container.Runtime Host.Busiest.Facts.Job.Step`)

// plant puts a secret into every text of a value, and returns the secrets by their place.
func plant(v reflect.Value, where string, secrets map[string]string) {
	if strings.HasPrefix(v.Type().String(), "gpu.Reading[") {
		value := reflect.New(v.Type()).MethodByName("Or").Type().In(0)
		inner := reflect.New(value).Elem()
		plant(inner, where, secrets)
		text, err := json.Marshal(inner.Interface())
		if err == nil {
			err = json.Unmarshal(text, v.Addr().Interface())
		}
		if err != nil && value.Kind() == reflect.String {
			panic(err)
		}
		set(v, inner)
		return
	}
	switch v.Kind() {
	case reflect.String:
		secret := fmt.Sprintf("Secret%03d", len(secrets))
		secrets[where] = secret
		v.SetString(secret)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[gpu.Advice]() {
			return // of names that are planted elsewhere
		}
		for field, value := range v.Fields() {
			if field.IsExported() && field.Tag.Get("record") != "-" {
				plant(value, strings.TrimPrefix(where+"."+field.Name, "."), secrets)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		plant(v.Index(0), where, secrets)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		plant(v.Elem(), where, secrets)
	}
}

// set makes a reading Good, for the kinds of readings that contain texts.
func set(v, inner reflect.Value) {
	switch value := inner.Interface().(type) {
	case string:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.Reservation:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.AccountedProcess:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.Process:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case gpu.Container:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case gpu.Pod:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case gpu.Unit:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case gpu.Job:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.XID:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.Fault:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case []gpu.HostProcess:
		v.Set(reflect.ValueOf(gpu.Of(value)))
	case bool, int, int64, uint64, float64:
	default:
		if k := inner.Kind(); k != reflect.Float64 && k != reflect.Uint64 && k != reflect.Int64 && inner.Type().String() != "time.Time" {
			panic("a kind of reading that nobody plants in: " + inner.Type().String())
		}
	}
}

// Every text of a snapshot is replaced, except those known to be harmless.
func TestEveryTextIsDecidedAbout(t *testing.T) {
	var s gpu.Snapshot
	secrets := map[string]string{}
	plant(reflect.ValueOf(&s).Elem(), "", secrets)
	if len(secrets) < 40 {
		t.Fatalf("%d texts are planted", len(secrets))
	}
	all := strings.Join(slices.Sorted(func(yield func(string) bool) {
		for _, secret := range secrets {
			if !yield(secret) {
				return
			}
		}
	}), " ")
	s.Notes = []gpu.Advice{{What: all, Try: "see /home/" + secrets["Node"] + "/x"}}
	s.Devices[0].Reason, s.Failures[0].Advice, s.Tried[0].Advice = s.Notes[0], s.Notes[0], gpu.Advice{Err: errors.New(all)}
	m := newMask(false)
	m.snapshot(&s)
	line, err := gpu.MarshalRecord(&s)
	if err != nil {
		t.Fatal(err)
	}
	s.Notes, s.Tried[0].Advice.Err = nil, nil
	without, err := gpu.MarshalRecord(&s)
	if err != nil {
		t.Fatal(err)
	}
	for where, secret := range secrets {
		harmless := slices.Contains(shown, where)
		if !harmless && strings.Contains(string(line), secret) {
			t.Errorf("%s is shown: %s\nReplace it, or say that it is harmless.", where, line)
		}
		if harmless && !strings.Contains(string(without), secret) {
			t.Errorf("%s is replaced, and is said to be harmless", where)
		}
	}
	for _, where := range shown {
		if secrets[where] == "" {
			t.Errorf("there is no %s", where)
		}
	}
}

// The same name gets the same replacement, and different names get different ones.
func TestNamesStayApart(t *testing.T) {
	m := newMask(false)
	if a, b, again := m.process("python3"), m.process("train.py"), m.process("python3"); a != "process-1" || b != "process-2" || again != a {
		t.Error(a, b, again)
	}
	if path := m.process("/home/alice/venv/bin/python3"); path != "process-1" {
		t.Errorf("with its path it is %s", path)
	}
	if win := m.process(`C:\Games\Half Life.exe`); win != "process-3" {
		t.Error(win)
	}
	if m.user("root") != "root" || m.user("alice") != "user-1" {
		t.Error(m.names)
	}
	id := m.uuid("GPU-5c8f21aa-aaaa-bbbb-cccc-0123456789ab")
	if id != "GPU-00000000-0000-0000-0000-000000000001" {
		t.Error(id)
	}
	for in, want := range map[string]string{
		"GPU-5C8F21AA-AAAA-BBBB-CCCC-0123456789AB": id,
		"GPU-4c1a9f7e0b35d262":                     "GPU-0000000000000002",
		"GPU-4c1a9f7e0b35d262-partition-3":         "GPU-0000000000000002-partition-3",
		"PCI-0000:01:00.0":                         "PCI-0000:01:00.0",
		"nvml-index-2":                             "nvml-index-2",
	} {
		if got := m.uuid(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	text := "alice's python3 (GPU-4c1a9f7e0b35d262) in /home/bob/x; alicex is another"
	want := "user-1's process-1 (GPU-0000000000000002) in /home/user-2/x; alicex is another"
	if got := m.text(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	// A replacement is no name, whatever names there are.
	m.replace(aHost, "1")
	m.replace(aHost, "user")
	if got := m.text("alice on 1"); got != "user-1 on host-1" {
		t.Error(got)
	}
	kept := newMask(true)
	if kept.text("/home/alice") != "/home/alice" || kept.process("python3") != "python3" || len(kept.kinds()) != 0 {
		t.Error("names are not kept that should be")
	}
}

// Sentences that name gpuwhy, which runs on every recorded machine, stay as they are.
func TestOwnNamesStay(t *testing.T) {
	m := newMask(false)
	if got := m.process("/usr/bin/gpuwhy"); !strings.HasSuffix(got, "gpuwhy") {
		t.Errorf("gpuwhy is %q", got)
	}
	m.process("nvidia-smi")
	m.process("train")
	if got, want := m.text("run gpuwhy as root, check that nvidia-smi runs; train"), "run gpuwhy as root, check that nvidia-smi runs; process-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// If a machine or a user has the name of something in nvidia-smi's output, that output stays readable.
func TestPrintedWordsStay(t *testing.T) {
	m := newMask(false)
	for _, name := range []string{"gpu", "pid", "name", "index", "power"} {
		m.replace(aHost, name)
	}
	for file, printed := range map[string]string{
		"query.xml": `<gpu id="00000000:01:00.0"><pid>7</pid><name/></gpu>` + "\n",
		"query-gpu": "index = 0 | 1\npower.draw = 4.00 W\nname = A\n",
		"pmon":      "# gpu         pid   type     sm    command\n# Idx           #    C/G      %    name\n    0          -      -      -    -\n",
	} {
		if got := m.printed(file, printed); got != printed {
			t.Errorf("%s: %s", file, got)
		}
	}
	for file, want := range map[string]string{
		"query.xml": "<gpu><a>host-1 is busy</a></gpu>",
		"query-gpu": "note = on host-1",
		"pmon":      "no such thing on host-1",
	} {
		if got := m.printed(file, strings.ReplaceAll(want, "host-1", "gpu")); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
	}
}

func TestPrinted(t *testing.T) {
	m := newMask(false)
	pmon := "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n" +
		"    0       1234     C    45    12     -     -   My Secret App\n    1          -     -     -     -     -     -   -\n"
	want := "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n" +
		"    0       1234     C    45    12     -     -   process-1\n    1          -     -     -     -     -     -   -\n"
	if got := m.printed("pmon", pmon); got != want {
		t.Errorf("%s", got)
	}
	xml := "<serial>1650522003820</serial><process_name>/opt/x&amp;y/My Secret App</process_name><process_name>[Not Found]</process_name>"
	if got := m.printed("query.xml", xml); got != "<serial>0000000000001</serial><process_name>process-1</process_name><process_name>[Not Found]</process_name>" {
		t.Error(got)
	}
	if got := m.printed("query-gpu", "serial = 1650522003820 | [N/A]\nname = A | B\n"); got != "serial = 0000000000001 | [N/A]\nname = A | B\n" {
		t.Error(got)
	}
	if got := m.printed("query-gpu.csv", "0, GPU-x, 1650522003820, A"); got != "0, GPU-x, 0000000000001, A" {
		t.Error(got)
	}
}
