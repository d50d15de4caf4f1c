package recent

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

const aQuarter = 15 * time.Second

// A gpuwhy that has just begun to hear of a node has its past from the node, and what it knows itself stays.
func TestAPastIsHandedOver(t *testing.T) {
	near, far, always := New(), New(), New()
	const end, began = 20 * time.Minute, 18 * time.Minute
	for after := time.Duration(0); after < end; after += 5 * time.Second {
		near.Observe(full("a", after, false))
		always.Observe(full("a", after, true))
		if after >= began {
			m := full("a", after, true)
			far.Observe(m)
			far.Observe(full("b", after, true))
		}
	}
	text, err := near.Past("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the past of eight devices takes %d bytes", len(text))
	first := start.Add(began).Truncate(aQuarter) // of that step it knows a part itself, which stays
	before := far.Generation()
	if err := far.Fill("a", text); err != nil || far.Generation() == before {
		t.Fatalf("%v", err)
	}
	for round := range 2 { // and goes on
		q := Question{Node: "a", Step: aQuarter, Interval: 5 * time.Second}
		want, got := always.Table(q), far.Table(q)
		if !got.From.Equal(want.From) || got.Points != want.Points || len(got.Rows) != 8 {
			t.Fatalf("round %d: %d rows of %d points from %v, want %d from %v", round, len(got.Rows), got.Points, got.From, want.Points, want.From)
		}
		for i := range want.Rows {
			for metric := range rowOf {
				row := want.Rows[i].Values(metric)
				for j, v := range got.Rows[i].Values(metric) {
					if !got.From.Add(time.Duration(j)*aQuarter).Equal(first) && !(math.Abs(float64(v-row[j])) <= 1e-5*math.Abs(float64(row[j]))) && !(math.IsNaN(float64(v)) && math.IsNaN(float64(row[j]))) {
						t.Fatalf("round %d: %s of device %d at %d is %v, want %v", round, metric, i, j, v, row[j])
					}
				}
			}
			if len(got.Rows[i].Workers) != 1 || len(got.Rows[i].Workers[0].Visits) != 1 {
				t.Fatalf("round %d: the workers of device %d are %+v", round, i, got.Rows[i].Workers)
			}
			wanted, v := &want.Rows[i].Workers[0], &got.Rows[i].Workers[0]
			if v.Name != wanted.Name || v.User != wanted.User || !v.Visits[0].Open || v.Visits[0].From.After(start.Add(end-Span)) || !v.Visits[0].To.Equal(wanted.Visits[0].To) {
				t.Errorf("round %d: %+v on device %d, want %+v", round, v.Worker, i, wanted.Worker)
			}
			for j, watts := range v.Watts {
				if !got.From.Add(time.Duration(j)*aQuarter).Equal(first) && !(math.Abs(float64(watts-wanted.Watts[j])) <= 1e-3) {
					t.Fatalf("round %d: the work on device %d at %d drew %v W, want %v", round, i, j, watts, wanted.Watts[j])
				}
			}
		}
		for after := end; after < end+time.Minute; after += 5 * time.Second {
			always.Observe(full("a", after, true))
			far.Observe(full("a", after, true))
		}
	}
	if table := far.Table(Question{Node: "b", Step: aQuarter, Interval: 5 * time.Second}); len(table.Rows) != 8 || !strings.HasPrefix(string(pointsOf(table.Rows[0].Values("sm_clock_mhz"))), "- ") {
		t.Errorf("another node has a past that it never told")
	}
}

// Somebody who was there and left is there once, and nothing is invented of a node of which nothing is known.
func TestWhoLeftIsHandedOver(t *testing.T) {
	near, far := New(), New()
	for after := time.Duration(0); after < 10*time.Minute; after += 5 * time.Second {
		m := full("a", after, false)
		if after > 5*time.Minute {
			for i := range m.Snapshot.Devices {
				m.Snapshot.Devices[i].Processes = gpu.Of([]gpu.Process{})
				m.Attribution[i].Shares = nil
			}
		}
		near.Observe(m)
	}
	far.Observe(full("b", 10*time.Minute, true))
	text, err := near.Past("a")
	if err == nil {
		err = far.Fill("a", text)
	}
	if v := far.View(nil); err != nil || len(v.Series) != 8 || v.Series[0].Node != "b" {
		t.Fatalf("%d devices, %v", len(v.Series), err)
	}
	far.Observe(full("a", 10*time.Minute, true))
	for range 2 { // twice is once
		if err := far.Fill("a", text); err != nil {
			t.Fatal(err)
		}
	}
	visits := far.far.devices[key{"a", "GPU-a-0"}].workers[0].Visits
	if len(visits) != 2 || visits[0].Open || !visits[0].To.Equal(start.Add(5*time.Minute)) || !visits[1].Open {
		t.Errorf("visits %+v", visits)
	}
}

// What can't be is refused, and changes nothing.
func TestABadPastIsRefused(t *testing.T) {
	const begin = `"from":"2026-01-02T03:04:00Z"`
	many := strings.Repeat(`{"from":"2026-01-02T03:04:00Z","to":"2026-01-02T03:05:00Z","open":false},`, mostVisits+1)
	for what, text := range map[string]string{
		"no JSON":    `{`,
		"a word":     `{` + begin + `,"devices":[{"uuid":"GPU-a-0","values":{"power_watts":"1 many"}}]}`,
		"not finite": `{` + begin + `,"devices":[{"uuid":"GPU-a-0","values":{"power_watts":"1 NaN"}}]}`,
		"watts":      `{` + begin + `,"devices":[{"uuid":"GPU-a-0","values":{"power_watts":"1"},"work":[{"name":"a","visits":[],"watts":"1e99"}]}]}`,
		"a name":     `{` + begin + `,"devices":[{"uuid":"GPU-a-0","work":[{"name":"` + strings.Repeat("a", longestName+1) + `","visits":[],"watts":""}]}]}`,
		"visits":     `{` + begin + `,"devices":[{"uuid":"GPU-a-0","work":[{"name":"a","visits":[` + strings.TrimSuffix(many, ",") + `],"watts":""}]}]}`,
		"length":     strings.Repeat(" ", mostHanded+1),
	} {
		s := New()
		s.Observe(full("a", 0, true))
		before := fmt.Sprint(s.View(nil))
		if err := s.Fill("a", []byte(text)); err == nil || fmt.Sprint(s.View(nil)) != before {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, text := range map[string]string{ // odd, and no harm
		"of the future":   `{"from":"2126-01-02T03:04:00Z","devices":[{"uuid":"GPU-a-0","values":{"power_watts":"1 2"}}]}`,
		"far past":        `{"from":"0001-01-02T03:04:00Z","devices":[{"uuid":"GPU-a-0","values":{"power_watts":"1 2"}}]}`,
		"another version": `{` + begin + `,"new":1,"devices":[{"uuid":"GPU-a-0","values":{"new":"1 2"},"work":[{"name":"","visits":null,"watts":"1"}]}]}`,
		"too many":        `{` + begin + `,"devices":[{"uuid":"GPU-a-0","values":{"power_watts":"` + strings.Repeat("7 ", 10_000) + `"}}]}`,
	} {
		s := New()
		for after := time.Duration(0); after < 20*time.Minute; after += 5 * time.Second {
			s.Observe(full("a", after, true))
		}
		before := fmt.Sprint(s.View(nil))
		if err := s.Fill("a", []byte(text)); err != nil || fmt.Sprint(s.View(nil)) != before {
			t.Errorf("%s: %v", what, err)
		}
		s.Observe(full("a", 20*time.Minute, true))
	}
}
