//go:build !race

package contract_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/testkit/fixture"
)

// A reading is where one reading of a device lies, and where it is written.
type reading struct {
	path string
	set  func(d *gpu.Device, kind int) // kind: see the constants
	zero string                        // how its zero is written
	one  string                        // and its one
}

const (
	kindZero = iota
	kindOne
	kindDoubtfulOne
	kindNotReported
	kindNotSupported
	kindNotPermitted
	kindStale
	kinds
)

var qualityOf = [kinds]gpu.Quality{gpu.Good, gpu.Good, gpu.Doubtful, gpu.NotReported, gpu.NotSupported, gpu.NotPermitted, gpu.Stale}

func field[T any](path string, at func(*gpu.Device) *gpu.Reading[T], one T, zeroText, oneText string) reading {
	return reading{path, func(d *gpu.Device, kind int) {
		var zero T
		switch kind {
		case kindZero:
			*at(d) = gpu.Of(zero)
		case kindOne:
			*at(d) = gpu.Of(one)
		case kindDoubtfulOne:
			*at(d) = gpu.DoubtfulOf(one)
		default:
			*at(d) = gpu.Absent[T](qualityOf[kind])
		}
	}, zeroText, oneText}
}

func number[T ~float64](path string, at func(*gpu.Device) *gpu.Reading[T]) reading {
	return field(path, at, 1, "0.0", "1.0")
}

func count[T int | uint64](path string, at func(*gpu.Device) *gpu.Reading[T]) reading {
	return field(path, at, 1, "0", "1")
}

func amount(path string, at func(*gpu.Device) *gpu.Reading[gpu.Bytes]) reading {
	return field(path, at, 1<<20, "0.0", "1.0")
}

func text(path string, at func(*gpu.Device) *gpu.Reading[string]) reading {
	return field(path, at, "1", `""`, `"1"`)
}

func truth(path string, at func(*gpu.Device) *gpu.Reading[bool]) reading {
	return field(path, at, true, "false", "true")
}

// readings are all single readings of a device.
var readings = []reading{
	count("vendor_index", func(d *gpu.Device) *gpu.Reading[int] { return &d.VendorIndex }),
	text("architecture", func(d *gpu.Device) *gpu.Reading[string] { return &d.Architecture }),
	text("serial", func(d *gpu.Device) *gpu.Reading[string] { return &d.Serial }),
	text("vbios_version", func(d *gpu.Device) *gpu.Reading[string] { return &d.VBIOS }),
	text("driver_version", func(d *gpu.Device) *gpu.Reading[string] { return &d.DriverVersion }),

	number("utilization.gpu_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.GPU }),
	number("utilization.memory_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.Memory }),
	number("utilization.encoder_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.Encoder }),
	number("utilization.decoder_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.Decoder }),
	number("utilization.jpeg_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.JPEG }),
	number("utilization.ofa_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.OFA }),

	number("utilization.video_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Utilization.Video }),

	count("encoder.session_count", func(d *gpu.Device) *gpu.Reading[int] { return &d.Encoding.Sessions }),
	number("encoder.average_fps", func(d *gpu.Device) *gpu.Reading[gpu.FramesPerSecond] { return &d.Encoding.FrameRate }),
	number("encoder.average_latency_us", func(d *gpu.Device) *gpu.Reading[gpu.Microseconds] { return &d.Encoding.Latency }),

	number("activity.engine_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.Engine }),
	number("activity.sm_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.SM }),
	number("activity.sm_occupancy_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.Occupancy }),
	number("activity.tensor_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.Tensor }),
	number("activity.fp64_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.FP64 }),
	number("activity.fp32_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.FP32 }),
	number("activity.fp16_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.FP16 }),
	number("activity.integer_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.Integer }),
	number("activity.memory_bandwidth_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Activity.MemoryBandwidth }),
	number("activity.pcie_sent_bytes_per_second", func(d *gpu.Device) *gpu.Reading[gpu.BytesPerSecond] { return &d.Activity.PCIeSent }),
	number("activity.pcie_received_bytes_per_second", func(d *gpu.Device) *gpu.Reading[gpu.BytesPerSecond] { return &d.Activity.PCIeReceived }),
	number("activity.nvlink_sent_bytes_per_second", func(d *gpu.Device) *gpu.Reading[gpu.BytesPerSecond] { return &d.Activity.NVLinkSent }),
	number("activity.nvlink_received_bytes_per_second", func(d *gpu.Device) *gpu.Reading[gpu.BytesPerSecond] { return &d.Activity.NVLinkReceived }),
	field("activity.pcie_measured_at", func(d *gpu.Device) *gpu.Reading[time.Time] { return &d.Activity.PCIeMeasuredAt },
		time.Unix(1, 5e8), `"0001-01-01T00:00:00.000000Z"`, `"1970-01-01T00:00:01.500000Z"`),

	amount("memory.total_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.Total }),
	amount("memory.used_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.Used }),
	amount("memory.free_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.Free }),
	amount("memory.reserved_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.Reserved }),
	amount("memory.bar1_total_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.BAR1Total }),
	amount("memory.bar1_used_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Memory.BAR1Used }),

	truth("shared_memory.unified", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Shared.Unified }),
	amount("shared_memory.total_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Shared.Total }),
	amount("shared_memory.used_mb", func(d *gpu.Device) *gpu.Reading[gpu.Bytes] { return &d.Shared.Used }),

	number("temperature.current_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.GPU }),
	number("temperature.hot_spot_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.HotSpot }),
	number("temperature.memory_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.Memory }),
	number("temperature.slowdown_threshold_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.Slowdown }),
	number("temperature.shutdown_threshold_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.Shutdown }),
	number("temperature.target_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.Target }),
	number("temperature.memory_max_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.MemoryMax }),
	number("temperature.margin_celsius", func(d *gpu.Device) *gpu.Reading[gpu.Celsius] { return &d.Thermal.Margin }),

	count("fan_count", func(d *gpu.Device) *gpu.Reading[int] { return &d.Fans.Count }),
	truth("fans_combined", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Fans.Combined }),
	number("fans.0.percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Fans.Fans[0].Commanded }),
	number("fans.0.rpm", func(d *gpu.Device) *gpu.Reading[gpu.RPM] { return &d.Fans.Fans[0].RPM }),
	number("fans.0.target_percent", func(d *gpu.Device) *gpu.Reading[gpu.Percent] { return &d.Fans.Fans[0].Target }),
	text("fans.0.policy", func(d *gpu.Device) *gpu.Reading[string] { return &d.Fans.Fans[0].Policy }),

	number("power.power_draw_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.Power.Draw }),
	number("power.power_limit_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.Power.EnforcedLimit }),
	number("power.default_limit_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.Power.DefaultLimit }),
	number("power.min_limit_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.Power.MinLimit }),
	number("power.max_limit_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.Power.MaxLimit }),
	number("power.total_energy_joules", func(d *gpu.Device) *gpu.Reading[gpu.Joules] { return &d.Power.Energy }),

	number("attribution.idle_floor_watts", func(d *gpu.Device) *gpu.Reading[gpu.Watts] { return &d.IdleFloor }),

	number("clocks.graphics_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.Graphics }),
	number("clocks.sm_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.SM }),
	number("clocks.memory_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.Memory }),
	number("clocks.video_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.Video }),
	number("clocks.max_graphics_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.MaxGraphics }),
	number("clocks.max_sm_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.MaxSM }),
	number("clocks.max_memory_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.MaxMemory }),
	number("clocks.max_video_clock_mhz", func(d *gpu.Device) *gpu.Reading[gpu.Megahertz] { return &d.Clocks.MaxVideo }),
	field("performance_state", func(d *gpu.Device) *gpu.Reading[int] { return &d.Clocks.PerformanceState }, 1, `"P0"`, `"P1"`),
	field("clock_event_reasons", func(d *gpu.Device) *gpu.Reading[gpu.ClockEventReasons] { return &d.Clocks.EventReasons }, gpu.ReasonIdle, "[]", `["gpu_idle"]`),

	count("pcie.generation", func(d *gpu.Device) *gpu.Reading[int] { return &d.PCIe.Generation }),
	count("pcie.max_generation", func(d *gpu.Device) *gpu.Reading[int] { return &d.PCIe.MaxGeneration }),
	count("pcie.width", func(d *gpu.Device) *gpu.Reading[int] { return &d.PCIe.Width }),
	count("pcie.max_width", func(d *gpu.Device) *gpu.Reading[int] { return &d.PCIe.MaxWidth }),
	count("pcie.replay_count", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.PCIe.Replays }),

	count("nvlink.link_count", func(d *gpu.Device) *gpu.Reading[int] { return &d.NVLink.Count }),
	truth("nvlink.links.0.active", func(d *gpu.Device) *gpu.Reading[bool] { return &d.NVLink.Links[0].Active }),
	text("nvlink.links.0.version", func(d *gpu.Device) *gpu.Reading[string] { return &d.NVLink.Links[0].Version }),
	number("nvlink.links.0.speed_bytes_per_second", func(d *gpu.Device) *gpu.Reading[gpu.BytesPerSecond] { return &d.NVLink.Links[0].Speed }),
	text("nvlink.links.0.peer", func(d *gpu.Device) *gpu.Reading[string] { return &d.NVLink.Links[0].Peer }),
	text("nvlink.links.0.peer_pci_bus_id", func(d *gpu.Device) *gpu.Reading[string] { return &d.NVLink.Links[0].PeerPCI }),
	count("nvlink.links.0.crc_flit_errors", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.NVLink.Links[0].CRCFlit }),
	count("nvlink.links.0.crc_data_errors", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.NVLink.Links[0].CRCData }),
	count("nvlink.links.0.replays", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.NVLink.Links[0].Replays }),
	count("nvlink.links.0.recoveries", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.NVLink.Links[0].Recoveries }),

	truth("processes_partial", func(d *gpu.Device) *gpu.Reading[bool] { return &d.ProcessesPartial }),

	truth("health.ecc_enabled", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Health.ECCMode }),
	truth("health.ecc_pending", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Health.ECCModePending }),
	count("health.ecc_corrected_volatile", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.CorrectedVolatile }),
	count("health.ecc_uncorrected_volatile", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.UncorrectedVolatile }),
	count("health.ecc_corrected_aggregate", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.CorrectedAggregate }),
	count("health.ecc_uncorrected_aggregate", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.UncorrectedAggregate }),
	count("health.remapped_rows_correctable", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.RemappedCorrectable }),
	count("health.remapped_rows_uncorrectable", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.RemappedUncorrectable }),
	truth("health.remapped_rows_pending", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Health.RemapPending }),
	truth("health.remapped_rows_failed", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Health.RemapFailed }),
	count("health.retired_pages_single_bit", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.RetiredSingleBit }),
	count("health.retired_pages_double_bit", func(d *gpu.Device) *gpu.Reading[uint64] { return &d.Health.RetiredDoubleBit }),
	truth("health.retired_pages_pending", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Health.RetirementPending }),

	field("health.xids", func(d *gpu.Device) *gpu.Reading[[]gpu.XID] { return &d.Health.XIDs },
		[]gpu.XID{{Code: 777, Count: 2, Earlier: 1, Last: fixture.Time, Culprit: gpu.Culprit{PID: 7, Name: "python3"}}}, "[]",
		`[{"code":777,"count":2,"earlier":1,"last":"2026-03-14T15:09:26.535897Z","severity":null,"meaning":null,"advice":null,`+
			`"process":"python3","pid":7}]`),
	field("health.faults", func(d *gpu.Device) *gpu.Reading[[]gpu.Fault] { return &d.Health.Faults },
		[]gpu.Fault{{Kind: gpu.FaultWedged, Count: 1, Last: fixture.Time}}, "[]",
		`[{"kind":"wedged","engine":null,"count":1,"earlier":0,"last":"2026-03-14T15:09:26.535897Z","severity":"critical",`+
			`"meaning":"the driver has given the GPU up","advice":"Restart the machine. If it comes again, update the driver and the firmware, `+
			`and have the GPU tested.","process":null,"pid":null}]`),

	field("reservations", func(d *gpu.Device) *gpu.Reading[[]gpu.Reservation] { return &d.Reservations },
		[]gpu.Reservation{{Namespace: "ml", Pod: "train-0", Container: "cuda", Resource: "nvidia.com/gpu"}}, "[]",
		`[{"namespace":"ml","pod":"train-0","container":"cuda","resource":"nvidia.com/gpu","mig_instance_uuid":null}]`),

	truth("modes.persistence", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Modes.Persistence }),
	text("modes.compute", func(d *gpu.Device) *gpu.Reading[string] { return &d.Modes.Compute }),
	truth("modes.mig", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Modes.MIG }),
	truth("modes.mig_pending", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Modes.MIGPending }),
	truth("modes.display_active", func(d *gpu.Device) *gpu.Reading[bool] { return &d.Modes.DisplayActive }),
	count("modes.instance_count", func(d *gpu.Device) *gpu.Reading[int] { return &d.Modes.Instances }),
	text("modes.virtualization", func(d *gpu.Device) *gpu.Reading[string] { return &d.Modes.Virtualization }),
	text("modes.compute_partition", func(d *gpu.Device) *gpu.Reading[string] { return &d.Modes.ComputePartition }),
	text("modes.memory_partition", func(d *gpu.Device) *gpu.Reading[string] { return &d.Modes.MemoryPartition }),
}

// Whatever a device reports and does not report: an absent reading is null with
// its reason, a zero is a zero, a doubtful one has its value and says so.
func TestAbsentIsNullAndZeroIsZero(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		d := gpu.Device{Readings: gpu.Readings{
			Fans: gpu.Fans{Fans: make([]gpu.Fan, 1)}, NVLink: gpu.NVLink{Links: make([]gpu.Link, 1)},
		}}
		chosen := make([]int, len(readings))
		for i, r := range readings {
			chosen[i] = random.IntN(kinds)
			r.set(&d, chosen[i])
		}
		got := flatten(t, one(&d))
		for i, r := range readings {
			want := "null"
			switch chosen[i] {
			case kindZero:
				want = r.zero
			case kindOne, kindDoubtfulOne:
				want = r.one
			}
			if got[r.path] != want {
				t.Errorf("%s of %v is %s, want %s", r.path, qualityOf[chosen[i]], got[r.path], want)
			}
			quality := ""
			if q := qualityOf[chosen[i]]; q != gpu.Good && q != gpu.NotReported {
				quality = `"` + q.String() + `"`
			}
			if got["quality "+r.path] != quality {
				t.Errorf("the quality of %s is %s, want %s", r.path, got["quality "+r.path], quality)
			}
		}
	}
}

// flatten returns every value of v's JSON by its path; those of the qualities,
// whose names have dots, as "quality NAME".
func flatten(t *testing.T, v any) map[string]string {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	var add func(path string, value json.RawMessage)
	add = func(path string, value json.RawMessage) {
		out[path] = string(value)
		var object map[string]json.RawMessage
		if json.Unmarshal(value, &object) == nil {
			separator := "."
			if path == "quality" {
				separator = " "
			}
			for name, field := range object {
				add(strings.TrimPrefix(path+separator+name, "."), field)
			}
		}
		if path == "fans" || path == "nvlink.links" {
			var list []json.RawMessage
			if err := json.Unmarshal(value, &list); err != nil {
				t.Fatal(err)
			}
			if len(list) > 0 {
				add(path+".0", list[0])
			}
		}
	}
	add("", encoded)
	return out
}

// The list above has every reading of a device.
func TestReadingsAreComplete(t *testing.T) {
	device := reflect.TypeFor[gpu.Device]()
	parts := countReadings(reflect.TypeFor[gpu.Fan]()) + countReadings(reflect.TypeFor[gpu.Link]())
	want := countReadings(device) + parts - 2 // processes are no single reading, and those of the accounting are sessions of the past
	if len(readings) != want {
		t.Errorf("the test knows %d readings, a device has %d", len(readings), want)
	}
}

func countReadings(t reflect.Type) int {
	if strings.HasPrefix(t.Name(), "Reading[") {
		return 1
	}
	n := 0
	if t.Kind() == reflect.Struct && strings.HasSuffix(t.PkgPath(), "/gpu") {
		for f := range t.Fields() {
			n += countReadings(f.Type)
		}
	}
	return n
}

// NVLinks are told of one GPU alone: those of eight are more than all else.
func TestLinksOfOneGPU(t *testing.T) {
	d := gpu.Device{Readings: gpu.Readings{NVLink: gpu.NVLink{Count: gpu.Of(1), Links: make([]gpu.Link, 1)}}}
	d.NVLink.Links[0].Speed = gpu.Absent[gpu.BytesPerSecond](gpu.NotPermitted)
	for _, n := range []int{1, 2} {
		s := &gpu.Snapshot{Devices: slices.Repeat([]gpu.Device{d}, n)}
		for _, g := range contract.NewUpdate(insight.Of(s), nil).GPUs {
			_, said := g.Quality["nvlink.links.0.speed_bytes_per_second"]
			if told := len(g.NVLink.Links) == 1; told != (n == 1) || said != told || g.NVLink.Links == nil || g.NVLink.Count != gpu.Of(1) {
				t.Errorf("of %d GPUs: %+v, quality %v", n, g.NVLink, g.Quality)
			}
		}
		for _, g := range contract.NewGPUMetrics(monitor, alone(s)).GPUs {
			if len(g.NVLink.Links) != 1 {
				t.Errorf("the metrics of %d GPUs have %+v", n, g.NVLink)
			}
		}
	}
}

// What no JSON number can be is null, and never breaks an answer.
func TestNumbersThatAreNone(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64} {
		d := gpu.Device{Identity: gpu.Identity{Name: "a\xffb"}, Readings: gpu.Readings{Fans: gpu.Fans{Fans: make([]gpu.Fan, 1)}}}
		d.Power.Draw, d.Power.EnforcedLimit = gpu.Of(gpu.Watts(v)), gpu.Of[gpu.Watts](1e-300)
		d.Utilization.GPU, d.Thermal.GPU = gpu.Of(gpu.Percent(v)), gpu.Of(gpu.Celsius(v))
		d.Health.CorrectedVolatile = gpu.Of[uint64](math.MaxUint64)
		s := &gpu.Snapshot{Devices: []gpu.Device{d, d}}
		for _, answer := range []any{contract.NewUpdate(insight.Of(s), nil), contract.NewDevices(monitor, alone(s))} {
			encoded, err := json.Marshal(answer)
			if err != nil {
				t.Errorf("%v: %v", v, err)
			}
			if !json.Valid(encoded) {
				t.Errorf("%v is encoded to what is no JSON: %s", v, encoded)
			}
		}
		devices := contract.NewDevices(monitor, alone(s))
		if _, ok := devices.Devices[0].Utilization.Get(); ok {
			t.Errorf("the whole number of %v is %v, want none", v, devices.Devices[0].Utilization)
		}
		if n := flatten(t, one(&d))["health.ecc_corrected_volatile"]; n != "null" {
			t.Errorf("a count beyond all numbers is %s, want none", n)
		}
	}
}

// Clients written in Go read what they are sent.
func TestNumbersRoundTrip(t *testing.T) {
	for _, text := range []string{"null", "0.0", "71.57", "-3.5", "2718281.83"} {
		var f contract.Float
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(f); err != nil || string(again) != text {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	}
	for _, text := range []string{"null", "0", "-4", "81559"} {
		var i contract.Int
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(i); err != nil || string(again) != text {
			t.Errorf("%s becomes %s, %v", text, again, err)
		}
	}
	var f contract.Float
	var i contract.Int
	if json.Unmarshal([]byte(`"5"`), &f) == nil || json.Unmarshal([]byte(`"5"`), &i) == nil {
		t.Error("text is taken for a number")
	}
}

// one is the answer about a device alone.
func one(d *gpu.Device) contract.GPU {
	return contract.NewGPUMetrics(monitor, alone(&gpu.Snapshot{Devices: []gpu.Device{*d}})).GPUs[0]
}
