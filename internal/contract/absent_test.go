//go:build !race

package contract_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
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

func written[T any](path string, find func(*gpu.Device) *gpu.Reading[T], one T, zeroText, oneText string) reading {
	return reading{path, func(d *gpu.Device, kind int) {
		var zero T
		switch kind {
		case kindZero:
			*find(d) = gpu.Of(zero)
		case kindOne:
			*find(d) = gpu.Of(one)
		case kindDoubtfulOne:
			*find(d) = gpu.DoubtfulOf(one)
		default:
			*find(d) = gpu.Absent[T](qualityOf[kind])
		}
	}, zeroText, oneText}
}

// blank is a device with one of each part.
func blank() gpu.Device {
	return gpu.Device{Readings: gpu.Readings{Fans: gpu.Fans{Fans: make([]gpu.Fan, 1)}, NVLink: gpu.NVLink{Links: make([]gpu.Link, 1)}}}
}

// readings are all single readings of a device: those of the catalog, where it says that they are written, and those that it does not have.
func readings() []reading {
	all := []reading{
		written("reservations", func(d *gpu.Device) *gpu.Reading[[]gpu.Reservation] { return &d.Reservations },
			[]gpu.Reservation{{Namespace: "ml", Pod: "train-0", Container: "cuda", Resource: "nvidia.com/gpu"}}, "[]",
			`[{"namespace":"ml","pod":"train-0","container":"cuda","resource":"nvidia.com/gpu","mig_instance_uuid":null}]`),
	}
	for row := range catalog.All() {
		d := blank()
		path, first := row.Path, find(row, &d)
		if row.List != "" {
			path = row.List + ".0." + path
		}
		if path == "" || first == nil || first != find(row, &d) { // not written so, of a part that there is not, or made of other readings
			continue
		}
		all = append(all, readingOf(row, path, first))
	}
	return all
}

func find(row *catalog.Row, d *gpu.Device) (found catalog.Ref) {
	row.Visit(d, func(_ string, r catalog.Ref) { found = r })
	return found
}

// readingOf knows how each type is written.
func readingOf(row *catalog.Row, path string, found catalog.Ref) reading {
	switch found.(type) {
	case *gpu.Reading[int]:
		if row.ID == "clocks.performance_state" {
			return cataloged(row, path, 1, `"P0"`, `"P1"`)
		}
		return cataloged(row, path, 1, "0", "1")
	case *gpu.Reading[uint64]:
		return cataloged[uint64](row, path, 1, "0", "1")
	case *gpu.Reading[bool]:
		return cataloged(row, path, true, "false", "true")
	case *gpu.Reading[string]:
		return cataloged(row, path, "1", `""`, `"1"`)
	case *gpu.Reading[gpu.Bytes]:
		return cataloged[gpu.Bytes](row, path, 1<<20, "0.0", "1.0")
	case *gpu.Reading[time.Time]:
		return cataloged(row, path, time.Unix(1, 5e8), `"0001-01-01T00:00:00.000000Z"`, `"1970-01-01T00:00:01.500000Z"`)
	case *gpu.Reading[gpu.ClockEventReasons]:
		return cataloged(row, path, gpu.ReasonIdle, "[]", `["gpu_idle"]`)
	case *gpu.Reading[[]gpu.XID]:
		return cataloged(row, path, []gpu.XID{{Code: 777, Count: 2, Earlier: 1, Last: fixture.Time, Culprit: gpu.Culprit{PID: 7, Name: "python3"}}}, "[]",
			`[{"code":777,"count":2,"earlier":1,"last":"2026-03-14T15:09:26.535897Z","severity":null,"meaning":null,"advice":null,`+
				`"process":"python3","pid":7}]`)
	case *gpu.Reading[[]gpu.Fault]:
		return cataloged(row, path, []gpu.Fault{{Kind: gpu.FaultWedged, Count: 1, Last: fixture.Time}}, "[]",
			`[{"kind":"wedged","engine":null,"count":1,"earlier":0,"last":"2026-03-14T15:09:26.535897Z","severity":"critical",`+
				`"meaning":"the driver has given up on the GPU","advice":"Restart the machine. If it happens again, update the driver and the firmware, `+
				`and have the GPU tested.","process":null,"pid":null}]`)
	case *gpu.Reading[gpu.Percent]:
		return number[gpu.Percent](row, path)
	case *gpu.Reading[gpu.Celsius]:
		return number[gpu.Celsius](row, path)
	case *gpu.Reading[gpu.Watts]:
		return number[gpu.Watts](row, path)
	case *gpu.Reading[gpu.Joules]:
		return number[gpu.Joules](row, path)
	case *gpu.Reading[gpu.Megahertz]:
		return number[gpu.Megahertz](row, path)
	case *gpu.Reading[gpu.RPM]:
		return number[gpu.RPM](row, path)
	case *gpu.Reading[gpu.BytesPerSecond]:
		return number[gpu.BytesPerSecond](row, path)
	case *gpu.Reading[gpu.FramesPerSecond]:
		return number[gpu.FramesPerSecond](row, path)
	case *gpu.Reading[gpu.Microseconds]:
		return number[gpu.Microseconds](row, path)
	}
	panic(fmt.Sprintf("%s: how is a %T written?", row.ID, found))
}

func cataloged[T any](row *catalog.Row, path string, one T, zeroText, oneText string) reading {
	return written(path, func(d *gpu.Device) *gpu.Reading[T] { return find(row, d).(*gpu.Reading[T]) }, one, zeroText, oneText)
}

func number[T ~float64](row *catalog.Row, path string) reading {
	return cataloged[T](row, path, 1, "0.0", "1.0")
}

// Whatever a device reports and does not report: an absent reading is null with
// its reason, a zero is a zero, a doubtful one has its value and says so.
func TestAbsentIsNullAndZeroIsZero(t *testing.T) {
	random, readings := rand.New(rand.NewPCG(1, 2)), readings()
	for range 200 {
		d := blank()
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
	if got := len(readings()); got != want {
		t.Errorf("the catalog has %d readings, a device has %d", got, want)
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
