package recent

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight"
)

// working is a card that draws 120 W, of which 20 W are at rest, with processes that share the rest alike.
func working(after time.Duration, programs ...string) *insight.Moment {
	d := card("GPU-a", 0, busy(100))
	d.State = gpu.StateOK
	d.Power.Draw, d.IdleFloor = gpu.Of[gpu.Watts](120), gpu.Of[gpu.Watts](20)
	var list []gpu.Process
	for i, program := range programs {
		p := gpu.Process{PID: 10 + i, SM: gpu.Of(gpu.Percent(100 / float64(len(programs))))}
		p.Facts.Program, p.Facts.User, p.Facts.Exists = gpu.Of(program), gpu.Of("anna"), gpu.Of(true)
		list = append(list, p)
	}
	d.Processes = gpu.Of(list)
	s := snapshotAt(after, d)
	s.Node = "n"
	return insight.Of(s)
}

func watched(s *Store, from, to int, programs ...string) {
	for i := from; i < to; i++ {
		s.Observe(working(time.Duration(i)*time.Second, programs...))
	}
}

var ofAll = Question{Step: 15 * time.Second, Interval: time.Second}

func wattsAt(t *testing.T, table *Table, program string, after time.Duration) float64 {
	t.Helper()
	i := int(start.Add(after).Sub(table.From) / table.Step)
	for _, w := range table.Rows[0].Workers {
		if w.Name == program {
			return float64(w.Watts[i])
		}
	}
	return -1
}

func TestTableOfWork(t *testing.T) {
	s := New()
	watched(s, 0, 60, "train.py")
	watched(s, 60, 120, "train.py", "eval.py")
	watched(s, 120, 180)
	after := New()
	restore(t, after, s, start.Add(3*time.Minute))
	for name, s := range map[string]*Store{"first": s, "restored": after} {
		table := s.Table(ofAll)
		if len(table.Rows) != 1 || len(table.Rows[0].Workers) != 2 {
			t.Fatalf("%s: %d rows", name, len(table.Rows))
		}
		for _, tt := range []struct {
			program string
			after   time.Duration
			want    float64
		}{{"train.py", 30 * time.Second, 100}, {"eval.py", 30 * time.Second, 0}, {"train.py", 90 * time.Second, 50}, {"eval.py", 90 * time.Second, 50}, {"train.py", 150 * time.Second, 0}} {
			if got := wattsAt(t, table, tt.program, tt.after); math.Abs(got-tt.want) > .1 {
				t.Errorf("%s: after %v %s drew %v W, want %v", name, tt.after, tt.program, got, tt.want)
			}
		}
		w := table.Rows[0].Workers[0]
		if v := w.Visits; len(v) != 1 || !v[0].From.Equal(start) || !v[0].To.Equal(start.Add(119*time.Second)) || v[0].Open {
			t.Errorf("%s: %s was there %v", name, w.Name, v)
		}
	}
}

// Where it is not known who is on a device, nobody is said to be.
func TestVisitsEndWithTheList(t *testing.T) {
	for name, change := range map[string]func(*gpu.Device){
		"lost":       func(d *gpu.Device) { d.State, d.Processes = gpu.StateLost, gpu.Reading[[]gpu.Process]{} },
		"not listed": func(d *gpu.Device) { d.Processes = gpu.Absent[[]gpu.Process](gpu.NotPermitted) },
	} {
		s := New()
		watched(s, 0, 60, "train.py")
		m := working(time.Minute, "train.py")
		change(&m.Snapshot.Devices[0])
		s.Observe(insight.Of(m.Snapshot))
		v := s.Table(ofAll).Rows[0].Workers[0].Visits
		if len(v) != 1 || v[0].Open || !v[0].To.Equal(start.Add(59*time.Second)) {
			t.Errorf("%s: %+v", name, v)
		}
		watched(s, 61, 120, "train.py")
		if v := s.Table(ofAll).Rows[0].Workers[0].Visits; !v[len(v)-1].Open {
			t.Errorf("%s, and back: %+v", name, v)
		}
	}
}

// A table has only steps that are over, and is the same until another one is.
func TestTableIsOfStepsThatAreOver(t *testing.T) {
	s := New()
	var last *Table
	made := 0
	for i := range 20 * 60 {
		s.Observe(working(time.Duration(i)*time.Second, "train.py"))
		table := s.Table(ofAll)
		now := start.Add(time.Duration(i+1) * time.Second)
		if table.End.After(now) || now.Sub(table.End) >= 15*time.Second {
			t.Fatalf("at %v it ends at %v", now, table.End)
		}
		if length := table.End.Sub(table.From); length > Span+time.Minute || i > 1000 && length < Span {
			t.Fatalf("it has %v", length)
		}
		if table != last {
			made++
		}
		last = table
		if n := len(table.Rows); n > 0 && table.Points > 0 {
			for j, v := range table.Rows[0].Values("utilization_percent") {
				if v != 100 {
					t.Fatalf("after %d s point %d is %v", i, j, v)
				}
			}
		}
	}
	if made > 20*60/15+1 {
		t.Errorf("%d tables were made", made)
	}
	if last.From.Second() != 0 {
		t.Errorf("it begins at %v", last.From)
	}
}

// Readings that come less often than a step have longer steps, so that each has one.
func TestTableOfRareReadings(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second} {
		s := New()
		for after := time.Duration(0); after < 10*time.Minute; after += interval {
			s.Observe(working(after))
		}
		table := s.Table(Question{Step: 3 * time.Second, Interval: interval})
		for i, v := range table.Rows[0].Values("utilization_percent") {
			if v != v {
				t.Errorf("every %v: point %d of %d of %v is a gap", interval, i, table.Points, table.Step)
			}
		}
	}
}

func TestManyProgramsAreNotKept(t *testing.T) {
	s := New()
	for i := range 3000 {
		watched(s, i, i+1, fmt.Sprintf("job-%d", i))
	}
	if n := len(s.near.devices[key{"n", "GPU-a"}].workers); n > mostWorkers+1 {
		t.Errorf("%d workers are kept", n)
	}
	watched(s, 3000, 3000+34*60, "train.py") // for as long as what had no room is known, and as long again
	if got := s.Table(ofAll).Rows[0].Workers; len(got) != 1 || got[0].Name != "train.py" {
		t.Errorf("%d workers are left: %+v", len(got), got[0].Worker)
	}
}

func TestSpread(t *testing.T) {
	s := New()
	for i := range 60 {
		s.Add(snapshotAt(time.Duration(i)*time.Second, card("GPU-a", 0, busy(10)), card("GPU-b", 1, busy(20)), card("GPU-c", 2, busy(60)), card("GPU-d", 3, gpu.Reading[gpu.Percent]{})))
	}
	table := s.Table(ofAll)
	spread := table.Spread("utilization_percent")
	for i := range table.Points {
		if spread.Least[i] != 10 || spread.Median[i] != 20 || spread.Most[i] != 60 || spread.Sum[i] != 90 {
			t.Errorf("point %d: %v %v %v %v", i, spread.Least[i], spread.Median[i], spread.Most[i], spread.Sum[i])
		}
	}
	if none := table.Spread("power_watts"); none.Sum[0] == none.Sum[0] {
		t.Errorf("what is not read sums up to %v", none.Sum[0])
	}
}

// A table is made when the first node has another reading, and those of the others are in it, too.
func TestTableOfSeveralNodes(t *testing.T) {
	nodes := []string{"a", "b", "c", "d"}
	for _, interval := range []time.Duration{time.Second, 10 * time.Second} {
		s := New()
		q := Question{Step: 15 * time.Second, Interval: interval}
		read := func(after time.Duration, nodes ...string) (tables []*Table) {
			for i, node := range nodes {
				d := card("GPU-"+node, 0, busy(1))
				d.Node, d.Power.Draw = node, gpu.Of[gpu.Watts](100)
				snap := snapshotAt(after+time.Duration(i)*100*time.Millisecond, d)
				snap.Node = node
				s.Add(snap)
				tables = append(tables, s.Table(q))
			}
			return tables
		}
		read(0, nodes...)
		after := interval
		for ; after < 5*time.Minute; after += interval {
			for _, table := range read(after, nodes...) {
				for i, sum := range table.Spread("power_watts").Sum {
					if sum != 400 && after > 2*interval {
						t.Fatalf("every %v: after %v point %d of %d is %v W", interval, after, i, table.Points, sum)
					}
				}
			}
		}
		for range 10 { // one is not heard of any more
			after += max(interval, 5*time.Second)
			read(after, nodes[1:]...)
		}
		table := s.Table(q)
		if late := start.Add(after).Sub(table.End); late > 15*time.Second {
			t.Errorf("every %v: without a node it ends %v ago", interval, late)
		}
		if sums := table.Spread("power_watts").Sum; sums[len(sums)-1] != 300 {
			t.Errorf("every %v: %v", interval, sums)
		}
	}
}
