package record

import (
	"math"
	"slices"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
)

// A row is a reading that waits to be written. Its values are whole numbers of 1/Scale: a store keeps them so, and
// their sums are exact.
type row struct {
	store.Key
	columns  store.Columns
	time     time.Time
	state    gpu.State
	numbers  []float64 // by column; NaN: absent
	doubtful []int     // columns
}

// bytes is about what it holds.
func (w *row) bytes() int { return 160 + 8*len(w.numbers) + 8*len(w.doubtful) }

// deviceReadings and machineReadings say what the value of a column is. The reading of a device stands for some time.
func deviceReadings(d *gpu.Device, stands time.Duration) func(column int) gpu.Reading[float64] {
	return func(i int) gpu.Reading[float64] {
		switch {
		case i != store.ReadSeconds:
			return store.Readings[i].Number(d)
		case d.State != gpu.StateOK:
			return gpu.Reading[float64]{}
		}
		return gpu.Of(stands.Seconds())
	}
}

// mostStands is for how long a reading of a device that answers slowly stands at most, or for two and a half intervals.
const mostStands = 30 * time.Second

// stands is for how long a new reading of a device stands: see [store.ReadSeconds].
func (r *Recorder) stands(d *device, readAt time.Time) time.Duration {
	before := d.read
	d.read = readAt
	if before.IsZero() {
		return 0
	}
	return min(readAt.Sub(before), max(r.longest(), mostStands))
}

func machineReadings(h *gpu.Host) func(column int) gpu.Reading[float64] {
	return func(i int) gpu.Reading[float64] { return catalog.OfHost[i].Number(h) }
}

// observeRow takes a reading in.
func (r *Recorder) observeRow(n *node, d *device, readAt time.Time, state gpu.State, value func(column int) gpu.Reading[float64]) {
	w := row{Key: d.Key(), columns: d.columns, time: readAt, state: state, numbers: make([]float64, len(d.columns))}
	for i := range w.numbers {
		v := value(i)
		w.numbers[i] = number(&d.columns[i], v)
		if v.Quality() == gpu.Doubtful && !math.IsNaN(w.numbers[i]) {
			w.doubtful = append(w.doubtful, i)
		}
	}
	r.out.row(w)
	r.addToSpans(n, d, &w)
	if readAt.After(d.newest) {
		d.newest = readAt
	}
}

// number is how many 1/Scale a reading is; NaN where it is absent, or more than a table can hold.
func number(c *store.Column, r gpu.Reading[float64]) float64 {
	v, ok := r.Get()
	if scaled := math.Round(v * c.Scale); ok && math.Abs(scaled) < 1<<63 {
		return scaled
	}
	return math.NaN()
}

// row is what the store gets. Its values are at the end of those of the rows before it.
func (w *row) row(values []store.Value) (store.Row, []store.Value) {
	begin := len(values)
	for i, scaled := range w.numbers {
		var v store.Value
		if !math.IsNaN(scaled) {
			f := scaled / w.columns[i].Scale
			v = store.Value{Least: f, Mean: f, Most: f, Count: 1, Doubtful: slices.Contains(w.doubtful, i)}
		}
		values = append(values, v)
	}
	return store.Row{Key: w.Key, Tier: store.Raw, Time: w.time, Readings: 1, Values: values[begin:len(values):len(values)], State: w.state}, values
}
