package recent

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// full is a Moment of a node of eight devices that report all that is kept, one program on each.
func full(node string, after time.Duration, remote bool) *insight.Moment {
	s := &gpu.Snapshot{Node: node, Time: start.Add(after)}
	for i := range 8 {
		d := gpu.Device{Identity: gpu.Identity{Node: node, UUID: fmt.Sprintf("GPU-%s-%d", node, i), Name: "Card", Index: i}, State: gpu.StateOK}
		seconds := after.Seconds()
		d.Utilization.GPU = gpu.Of(gpu.Percent(50 + 50*math.Sin(seconds/40+float64(i))))
		d.Memory.Total, d.Memory.Used = gpu.Of[gpu.Bytes](80<<30), gpu.Of(gpu.Bytes(1e9+1e7*seconds))
		d.Thermal.GPU, d.Power.Draw = gpu.Of(gpu.Celsius(40+math.Mod(seconds, 40))), gpu.Of(gpu.Watts(123.456+seconds))
		d.Fans.Fans = []gpu.Fan{{Commanded: gpu.Of[gpu.Percent](33)}}
		d.Clocks.SM, d.Activity.MemoryBandwidth = gpu.Of[gpu.Megahertz](1980), gpu.Of[gpu.Percent](7)
		p := gpu.Process{PID: 10 + i, SM: gpu.Of[gpu.Percent](50)}
		p.Facts.Program, p.Facts.User = gpu.Of("train.py"), gpu.Of("anna")
		d.Processes = gpu.Of([]gpu.Process{p})
		s.Devices = append(s.Devices, d)
	}
	return insight.Of(s).At(insight.Place{}, insight.Link{Remote: remote})
}

// What another program reads has the same means as what this one reads, over steps of 15 s.
func TestMeansOfWhatOthersRead(t *testing.T) {
	near, far, both := New(), New(), New()
	for after := time.Duration(0); after < 20*time.Minute; after += 5 * time.Second {
		near.Observe(full("a", after, false))
		far.Observe(full("a", after, true))
		both.Observe(full("b", after, true))
		both.Observe(full("a", after, false))
	}
	q := Question{Node: "a", Step: 15 * time.Second, Interval: 5 * time.Second}
	want, got := near.Table(q), far.Table(q)
	if !want.From.Equal(got.From) || want.Points != got.Points || want.Step != got.Step || len(got.Rows) != 8 {
		t.Fatalf("%d points of %v from %v, want %d of %v from %v", got.Points, got.Step, got.From, want.Points, want.Step, want.From)
	}
	for i := range want.Rows {
		for metric := range rowOf {
			row := want.Rows[i].Values(metric)
			for j, v := range got.Rows[i].Values(metric) {
				if math.Abs(float64(v-row[j])) > 1e-5*math.Abs(float64(v)) {
					t.Errorf("%s of device %d at %d is %v, want %v", metric, i, j, v, row[j])
				}
			}
		}
		for j, watts := range got.Rows[i].Workers[0].Watts {
			if expected := want.Rows[i].Workers[0].Watts[j]; math.Abs(float64(watts-expected)) > 1e-3 {
				t.Errorf("the work on device %d at %d drew %v W, want %v", i, j, watts, expected)
			}
		}
	}
	if step := far.Table(Question{Node: "a", Step: 3 * time.Second, Interval: 5 * time.Second}).Step; step != 15*time.Second {
		t.Errorf("a step of what another program reads is %v", step)
	}
	if step := both.Table(Question{Node: "a", Step: 3 * time.Second, Interval: 5 * time.Second}).Step; step != 6*time.Second {
		t.Errorf("a step of what this one reads beside it is %v", step)
	}
	all := both.Table(Question{Step: 3 * time.Second, Interval: 5 * time.Second})
	if all.Step != 15*time.Second || len(all.Rows) != 16 || all.Points != want.Points {
		t.Errorf("all have %d rows of %d points of %v", len(all.Rows), all.Points, all.Step)
	}
	sums := all.Spread("sm_clock_mhz").Sum
	for i, v := range sums {
		if v != 16*1980 {
			t.Errorf("the sum at %d is %v", i, v)
		}
	}
}

// A view has the times of both kinds of nodes, and gaps where a node has nothing. What others read is not kept.
func TestViewOfBothKinds(t *testing.T) {
	s := New()
	for after := time.Duration(0); after < 20*time.Minute; after += 5 * time.Second {
		s.Observe(full("far", after, true))
		s.Observe(full("near", after, false))
	}
	v := s.View(nil)
	if len(v.Times) > MaxPoints || len(v.Series) != 16 {
		t.Fatalf("%d points of %d devices", len(v.Times), len(v.Series))
	}
	for i := range v.Times[1:] {
		if !v.Times[i+1].After(v.Times[i]) {
			t.Fatalf("the times %v and %v are not in order", v.Times[i], v.Times[i+1])
		}
	}
	present := func(series *Series) (n int) {
		for _, r := range series.Values["sm_clock_mhz"] {
			if v, ok := r.Get(); ok {
				n++
				if v != 1980 {
					t.Errorf("a mean is %v", v)
				}
			}
		}
		return n
	}
	if far, near := present(&v.Series[0]), present(&v.Series[8]); far != 60 || near < 178 {
		t.Errorf("%d means of what another program reads, %d of the other", far, near)
	}
	if kept := s.Kept(); len(kept.Series) != 8 || kept.Series[0].Node != "near" {
		t.Errorf("%d devices are kept", len(kept.Series))
	}
	before := s.Generation()
	s.Forget("far")
	if v := s.View(nil); len(v.Series) != 8 || v.Series[0].Node != "near" || s.Reports("fan_percent", func(node, _ string) bool { return node == "far" }) || s.Generation() == before {
		t.Errorf("%d devices after one node was forgotten", len(v.Series))
	}
	if table := s.Table(Question{Step: 15 * time.Second, Interval: 5 * time.Second}); len(table.Rows) != 8 {
		t.Errorf("%d rows after one node was forgotten", len(table.Rows))
	}
}

// A reading of the time before, after the clock was set back, goes on with the mean that is there.
func TestAMeanGoesOnAfterTheClockWasSetBack(t *testing.T) {
	s := New()
	s.Add(snapshotAt(0, card("GPU-a", 0, busy(10))))
	s.Add(snapshotAt(3*time.Second, card("GPU-a", 0, busy(90))))
	back := snapshotAt(time.Second, card("GPU-a", 0, busy(20)))
	back.Breaks = 1
	s.Add(back)
	if got := s.View(nil).Series[0].Values["utilization_percent"]; !equal(got, []float64{15}) {
		t.Errorf("%v, want the mean of 10 and 20", got)
	}
}
