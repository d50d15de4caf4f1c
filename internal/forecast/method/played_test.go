//go:build !race

package method_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
	"github.com/gpuwhy/gpuwhy/internal/insight/attribute"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

const gib = 1 << 30

// simulated plays a profile of the simulator, and calls see with each reading.
func simulated(t *testing.T, profile string, step, lasts time.Duration, see func(*gpu.Snapshot)) {
	t.Helper()
	now := start
	nodes, err := sim.Nodes(profile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for ; now.Before(start.Add(lasts)); now = now.Add(step) {
		s, err := nodes[0].Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		see(s)
	}
}

// A watched is what was read of a device.
type watched struct {
	memory, heat method.Series
	full, slows  float64
}

func (w *watched) see(now time.Time, d *gpu.Device) {
	if used, ok := d.Memory.Used.Get(); ok {
		w.memory.Points = append(w.memory.Points, method.Point{Time: now, Value: float64(used) / gib})
		w.full = float64(d.Memory.Total.Or(0)-d.Memory.Reserved.Or(0)) / gib
	}
	if celsius, ok := d.Thermal.GPU.Get(); ok {
		w.heat.Points = append(w.heat.Points, method.Point{Time: now, Value: float64(celsius)})
		w.slows = float64(d.Thermal.Slowdown.Or(0))
	}
}

// simulator plays a desktop and a server with eight GPUs.
func (t *table) simulator(lasts time.Duration) {
	for profile, cards := range map[string]int{"rtx-4090": 1, "dgx-h100": 8} {
		source := "simulator: " + profile
		devices := make([]watched, cards)
		history := explain.NewHistory()
		var floors attribute.Floors
		var cools cools
		simulated(t.t, profile, 5*time.Second, max(lasts/time.Duration(cards), time.Hour), func(s *gpu.Snapshot) {
			for i := range s.Devices {
				s.Devices[i].Index = i
				devices[i].see(s.Time, &s.Devices[i])
			}
			if profile == "rtx-4090" { // only it has fans
				a := history.Add(floors.Note(s))
				cools.see(s.Time, &s.Devices[0], a.Devices[0].Causes)
			}
		})
		for _, d := range devices {
			d.memory.Gap, d.heat.Gap = 15*time.Second, 15*time.Second
			t.reading(source, "memory full", d.memory, 61, d.full)
			t.reading(source, "limit reached", d.heat, 23, 0, 3, 6, 10)
			t.reading(source+", slowdown", "limit reached", d.heat, 23, d.slows)
		}
		if len(cools.told) > 0 {
			t.quiet(source, cools.told)
		}
		used, free := habitsOf(t.t, profile)
		t.energy(source, used)
		t.free(source, free, nil)
	}
}

// habitsOf is what the first device of a profile used in each hour of some weeks, in kWh, and which part of it nothing worked.
func habitsOf(t *testing.T, profile string) (used, free method.Series) {
	const an = 6 // times an hour
	before, works, n := 0.0, 0.0, 0
	simulated(t, profile, time.Hour/an, 12*7*24*time.Hour, func(s *gpu.Snapshot) {
		d := &s.Devices[0]
		if n%an == 0 {
			joules := float64(d.Power.Energy.Or(0))
			if n > 0 {
				earlier := s.Time.Add(-time.Hour)
				used.Points = append(used.Points, method.Point{Time: earlier, Value: math.Round((joules-before)/3.6) / 1e6})
				free.Points = append(free.Points, method.Point{Time: earlier, Value: 1 - works/an})
			}
			before, works = joules, 0
		}
		if d.Utilization.GPU.Or(0) > 20 {
			works++
		}
		n++
	})
	return used, free
}

// A cools follows what the answer says of cool-downs, until it is quiet.
type cools struct {
	begun time.Time
	open  []method.Told
	told  []method.Told // of cool-downs that are over
}

var soon = regexp.MustCompile(`should be quiet in about ((?:\d+ (?:h|min|s) ?)+)`)

func (c *cools) see(now time.Time, d *gpu.Device, causes []explain.Cause) {
	works := false
	for _, cause := range causes {
		works = works || cause.Kind == explain.Work
		if cause.Kind != explain.CoolingDown {
			continue
		}
		if c.begun.IsZero() {
			c.begun = now
		}
		if m := soon.FindStringSubmatch(cause.Sentence); m != nil {
			if said, err := time.ParseDuration(strings.NewReplacer(" min", "m", " s", "s", " h", "h").Replace(m[1])); err == nil {
				c.open = append(c.open, method.Told{Begun: c.begun, At: now, Said: said})
			}
		}
		if d.Fans.Fans[0].Commanded.Or(1) > 0 {
			return
		}
	}
	if !works { // it is quiet
		for _, t := range c.open {
			t.Took = now.Sub(t.At)
			c.told = append(c.told, t)
		}
	}
	c.begun, c.open = time.Time{}, nil
}

// recorded plays readings of real cards.
func (t *table) recorded(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil || len(files) == 0 {
		t.t.Fatalf("no readings in %s: %v", dir, err)
	}
	for _, file := range files {
		for _, d := range cards(t.t, file) {
			t.reading("real cards", "limit reached", d.heat, 7, 0, 3, 6, 10)
			if len(d.memory.Points) > 0 {
				now := d.memory.Points[0].Value
				t.reading("real cards", "memory full", d.memory, 7, 0, 0.02*now, 0.1*now, 0.3*now)
			}
		}
	}
}

// cards reads one file: a comment, the names of the columns, then a line a reading and card.
func cards(t *testing.T, file string) map[string]*watched {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	column, err := columnsOf(rows[0])
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	out := map[string]*watched{}
	for _, row := range rows[1:] {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(row[column[name]], 64)
			if err != nil {
				return math.NaN() // the log has none
			}
			return v
		}
		id, measured := row[column["gpu"]], start.Add(seconds(number("t_s")))
		if out[id] == nil {
			out[id] = &watched{memory: method.Series{Gap: 30 * time.Second}, heat: method.Series{Gap: 30 * time.Second}}
		}
		if v := number("temp_c"); !math.IsNaN(v) {
			out[id].heat.Points = append(out[id].heat.Points, method.Point{Time: measured, Value: v})
		}
		if v := number("mem_used_mib"); !math.IsNaN(v) {
			out[id].memory.Points = append(out[id].memory.Points, method.Point{Time: measured, Value: v / 1024})
		}
	}
	return out
}
