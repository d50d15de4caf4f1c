package recent

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

var start = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC) // begins a bucket

// card has the utilization, which may be absent, and no other reading.
func card(uuid string, index int, util gpu.Reading[gpu.Percent]) gpu.Device {
	d := gpu.Device{Identity: gpu.Identity{Node: "n", UUID: uuid, Name: "Card " + uuid, Index: index}}
	d.Utilization.GPU = util
	return d
}

func snapshotAt(after time.Duration, devices ...gpu.Device) *gpu.Snapshot {
	return &gpu.Snapshot{Time: start.Add(after), Devices: devices}
}

func busy(v gpu.Percent) gpu.Reading[gpu.Percent] { return gpu.Of(v) }

// equal compares values with numbers of which NaN stands for none.
func equal(a []gpu.Reading[float64], b []float64) bool {
	return slices.EqualFunc(a, b, func(x gpu.Reading[float64], y float64) bool { return x == gpu.Of(y) || !x.Present() && math.IsNaN(y) })
}

func TestManyReadingsBecomeFewPoints(t *testing.T) {
	s := New()
	const step = 250 * time.Millisecond
	perPoint := int(bucket / step)
	for i := range int(20 * time.Minute / step) {
		s.Add(snapshotAt(time.Duration(i)*step, card("GPU-a", 0, busy(gpu.Percent(i%perPoint)))))
		if i%perPoint > 0 {
			continue
		}
		if n := len(s.View(nil).Times); n > MaxPoints {
			t.Fatalf("%d points after %d readings", n, i+1)
		}
	}
	v := s.View(nil)
	if len(v.Times) != MaxPoints {
		t.Errorf("%d points, want %d", len(v.Times), MaxPoints)
	}
	if span := v.Times[len(v.Times)-1].Sub(v.Times[0]); span > Span || span < Span-2*bucket {
		t.Errorf("the view spans %v, want about %v", span, Span)
	}
	mean := float64(perPoint-1) / 2
	for i, got := range v.Series[0].Values["utilization_percent"] {
		if got != gpu.Of(mean) {
			t.Fatalf("point %d is %v, want the mean of its readings, %v", i, got, mean)
		}
	}
	if n := len(v.Series[0].Values["power_watts"]); n != MaxPoints {
		t.Errorf("a metric that was never read has %d points, want %d gaps", n, MaxPoints)
	}
}

func TestGaps(t *testing.T) {
	const step = 5 * time.Second
	absent := gpu.Absent[gpu.Percent](gpu.Stale)
	nan := math.NaN()
	s := New()
	s.Add(snapshotAt(0*step, card("GPU-a", 0, busy(10))))
	s.Add(snapshotAt(1*step, card("GPU-a", 0, absent), card("GPU-b", 1, busy(0))))
	s.Add(snapshotAt(2*step, card("GPU-b", 1, busy(5))))
	s.Add(snapshotAt(3*step, card("GPU-b", 1, busy(7)), card("GPU-a", 0, busy(0))))
	v := s.View(nil)
	for i, want := range [][]float64{{10, nan, nan, 0}, {nan, 0, 5, 7}} {
		if got := v.Series[i].Values["utilization_percent"]; !equal(got, want) {
			t.Errorf("device %d: %v, want %v", i, got, want)
		}
	}
}

// An absent reading takes nothing from the mean of the others in its point.
func TestMeanOfWhatWasRead(t *testing.T) {
	s := New()
	s.Add(snapshotAt(0, card("GPU-a", 0, busy(30))))
	s.Add(snapshotAt(time.Second, card("GPU-a", 0, gpu.Reading[gpu.Percent]{})))
	s.Add(snapshotAt(2*time.Second, card("GPU-a", 0, busy(0))))
	v := s.View(nil)
	if got := v.Series[0].Values["utilization_percent"]; !equal(got, []float64{15}) {
		t.Errorf("%v, want the mean of 30 and 0", got)
	}
	if !v.Times[0].Equal(start) {
		t.Errorf("the point is at %v, want its first reading's time, %v", v.Times[0], start)
	}
}

func TestAllMetrics(t *testing.T) {
	d := card("GPU-a", 0, busy(1))
	d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](200), gpu.Of[gpu.Bytes](4)
	d.Thermal.GPU = gpu.Of[gpu.Celsius](3)
	d.Power.Draw = gpu.Of[gpu.Watts](4)
	d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](0)}, {Commanded: gpu.Of[gpu.Percent](5)}}
	d.Clocks.SM = gpu.Of[gpu.Megahertz](6)
	d.Activity.MemoryBandwidth = gpu.Of[gpu.Percent](7)
	s := New()
	s.Add(snapshotAt(0, d))
	want := map[string]float64{
		"utilization_percent": 1, "memory_percent": 2, "temperature_celsius": 3, "power_watts": 4, "fan_percent": 5, "sm_clock_mhz": 6, "memory_bandwidth_percent": 7,
	}
	values := s.View(nil).Series[0].Values
	if len(values) != len(want) {
		t.Errorf("%d metrics, want %d", len(values), len(want))
	}
	for m, want := range want {
		if got := values[m]; !equal(got, []float64{want}) {
			t.Errorf("%v is %v, want %v", m, got, want)
		}
	}
}

// A metric is there as long as one of its readings is kept, of the devices that
// are asked for.
func TestHas(t *testing.T) {
	s := New()
	fan := card("GPU-a", 0, busy(1))
	fan.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](0)}}
	s.Add(snapshotAt(0, fan, card("GPU-b", 1, busy(2))))
	s.Add(snapshotAt(5*time.Second, card("GPU-a", 0, busy(1)), card("GPU-b", 1, busy(2))))
	only := func(uuid string) func(string, string) bool {
		return func(_, other string) bool { return other == uuid }
	}
	for _, tt := range []struct {
		metric string
		keep   func(node, uuid string) bool
		want   bool
	}{
		{"fan_percent", nil, true},
		{"fan_percent", only("GPU-a"), true},
		{"fan_percent", only("GPU-b"), false},
		{"utilization_percent", only("GPU-b"), true},
		{"power_watts", nil, false},
		{"no_metric", nil, false},
	} {
		if got := s.Reports(tt.metric, tt.keep); got != tt.want {
			t.Errorf("%s: %v", tt.metric, got)
		}
	}
	s.Add(snapshotAt(Span+4*time.Second, card("GPU-a", 0, busy(1))))
	if s.Reports("fan_percent", nil) {
		t.Error("there is a reading that is forgotten")
	}
}

func TestForgetsAfterSpan(t *testing.T) {
	s := New()
	const step = 5 * time.Second
	s.Add(snapshotAt(0, card("GPU-gone", 0, busy(99)), card("GPU-a", 1, busy(1))))
	for after := step; after <= Span; after += step {
		s.Add(snapshotAt(after, card("GPU-a", 1, busy(1))))
	}
	if v := s.View(nil); len(v.Series) != 2 || !v.Times[0].Equal(start) {
		t.Fatalf("after exactly %v there are %d devices since %v, want both since the start", Span, len(v.Series), v.Times[0])
	}
	s.Add(snapshotAt(Span+step, card("GPU-a", 1, busy(1))))
	v := s.View(nil)
	if len(v.Series) != 1 || v.Series[0].UUID != "GPU-a" {
		t.Errorf("%d devices, want GPU-a alone", len(v.Series))
	}
	if !v.Times[0].Equal(start.Add(step)) {
		t.Errorf("the oldest point is of %v, want %v", v.Times[0], start.Add(step))
	}

	s.Add(snapshotAt(time.Hour, card("GPU-b", 2, busy(2))))
	if v := s.View(nil); len(v.Times) != 1 || len(v.Series) != 1 || v.Series[0].UUID != "GPU-b" {
		t.Errorf("after a long pause %d points of %d devices are left, want the new one", len(v.Times), len(v.Series))
	}
}

// A device of which nothing is left goes also where points are dropped for their
// number, not their age.
func TestForgetsWhenFull(t *testing.T) {
	s := New()
	s.Add(snapshotAt(0, card("GPU-gone", 0, busy(99))))
	for i := range MaxPoints {
		s.Add(snapshotAt(time.Duration(i+1)*bucket, card("GPU-a", 1, busy(1))))
	}
	if v := s.View(nil); len(v.Series) != 1 || len(v.Times) != MaxPoints {
		t.Errorf("%d devices and %d points, want 1 and %d", len(v.Series), len(v.Times), MaxPoints)
	}
}

func TestIgnoresWhatIsOlder(t *testing.T) {
	s := New()
	s.Add(snapshotAt(10*time.Second, card("GPU-a", 0, busy(1))))
	before := s.Generation()
	s.Add(snapshotAt(0, card("GPU-a", 0, busy(99))))
	if v := s.View(nil); !equal(v.Series[0].Values["utilization_percent"], []float64{1}) {
		t.Errorf("%v, want the newer reading alone", v.Series[0].Values["utilization_percent"])
	}
	if s.Generation() != before {
		t.Error("what was ignored changed the generation")
	}
	s.Add(snapshotAt(10*time.Second, card("GPU-a", 0, busy(3))))
	if s.Generation() == before {
		t.Error("what was taken in left the generation as it was")
	}
}

func TestViewOrderAndChoice(t *testing.T) {
	s := New()
	s.Add(snapshotAt(0, card("GPU-c", 2, busy(1)), card("GPU-a", 0, busy(1)), card("GPU-b", 1, busy(1))))
	uuids := func(v View) (out []string) {
		for _, series := range v.Series {
			out = append(out, series.UUID)
		}
		return out
	}
	if got, want := uuids(s.View(nil)), []string{"GPU-a", "GPU-b", "GPU-c"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	some := s.View(func(node, uuid string, index int) bool { return node == "n" && (uuid == "GPU-b" || index == 2) })
	if got, want := uuids(some), []string{"GPU-b", "GPU-c"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if v := New().View(nil); len(v.Times) != 0 || len(v.Series) != 0 {
		t.Errorf("an empty store has a past: %v", v)
	}
}

// A view is a copy: nothing that is added later shows in it.
func TestViewStaysAsItIs(t *testing.T) {
	s := New()
	s.Add(snapshotAt(0, card("GPU-a", 0, busy(1))))
	v := s.View(nil)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				s.Add(snapshotAt(time.Duration(i*50+j)*100*time.Millisecond, card("GPU-a", 0, busy(50))))
				_ = s.View(nil)
				_ = s.Generation()
			}
		})
	}
	all.Wait()
	if !equal(v.Series[0].Values["utilization_percent"], []float64{1}) || len(v.Times) != 1 {
		t.Errorf("the view changed: %v", v)
	}
}
