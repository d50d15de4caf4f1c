package sqlite

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A walk is a device whose readings wander as those of a real one: work comes and goes in jobs of some minutes, power
// follows work, heat follows power, and what an H100 does not report is absent.
type walk struct {
	random              *rand.Rand
	left                int // readings until the next job
	work, aim           float64
	watts, celsius, hot float64
	memory, energy      float64
}

func newWalk(seed uint64) *walk {
	return &walk{random: rand.New(rand.NewPCG(seed, 7)), celsius: 35, hot: 40, watts: 70, energy: 1e9}
}

func (w *walk) step(seconds float64) {
	if w.left--; w.left < 0 {
		w.left = 20 + w.random.IntN(300)
		w.aim = 0
		if w.random.IntN(3) > 0 {
			w.aim = 40 + 60*w.random.Float64()
		}
		w.memory = math.Round(w.aim*8e8) + float64(w.random.IntN(1<<20))*4096
	}
	w.work = min(100, max(0, w.aim+w.random.NormFloat64()*6*min(1, w.aim)))
	w.watts += (70 + 6*w.work - w.watts) * 0.6
	w.watts += w.random.NormFloat64() * 3
	w.celsius += (30 + w.watts/15 - w.celsius) * 0.05
	w.hot = w.celsius + 8 + w.random.Float64()
	w.energy += w.watts * seconds
}

// values are the readings, by the columns' names.
func (w *walk) values(out []store.Value) {
	set := func(name string, v float64) {
		out[store.DeviceColumns.Find(name)] = store.Value{Least: v, Mean: v, Most: v, Count: 1}
	}
	part := func(share float64) float64 { return math.Round(w.work * share * (0.95 + 0.1*w.random.Float64())) }
	for name, share := range map[string]float64{
		"utilization_gpu": 1, "utilization_memory": 0.5, "activity_engine": 0.99, "activity_sm": 0.9, "activity_occupancy": 0.4,
		"activity_tensor": 0.5,
		"activity_fp32":   0.2, "activity_fp16": 0.1, "activity_memory_bandwidth": 0.55,
	} {
		set(name, min(100, part(share)))
	}
	for _, name := range []string{"utilization_encoder", "utilization_decoder", "utilization_jpeg", "utilization_ofa",
		"activity_fp64", "activity_integer",
		"encoding_sessions", "encoding_frame_rate", "pcie_replays", "health_corrected_volatile", "health_uncorrected_volatile",
		"health_corrected_aggregate",
		"health_uncorrected_aggregate", "health_remapped_correctable", "health_remapped_uncorrectable"} {
		set(name, 0)
	}
	traffic := w.work * 1e8 * w.random.Float64()
	for name, v := range map[string]float64{
		"activity_pcie_sent": math.Round(traffic), "activity_pcie_received": math.Round(traffic / 3),
		"activity_nvlink_sent":     math.Round(traffic * 9),
		"activity_nvlink_received": math.Round(traffic * 9.1), "memory_total": 85_520_809_984, "memory_used": w.memory,
		"memory_share": w.memory / 855208099.84,
		"memory_free":  85_520_809_984 - w.memory, "memory_bar1_used": 2 << 20, "thermal_gpu": math.Round(w.celsius),
		"thermal_memory": math.Round(w.hot),
		"thermal_margin": math.Round(87 - w.celsius), "power_draw": w.watts, "power_enforced_limit": 700, "power_energy": w.energy,
		"power_idle_floor": 70.5,
		"clocks_graphics":  1980 - 15*math.Round(w.work/10), "clocks_sm": 1980 - 15*math.Round(w.work/10), "clocks_memory": 2619,
		"clocks_video":             1545,
		"clocks_performance_state": 0, "pcie_generation": 5, "pcie_width": 16, "processes": math.Round(w.aim / 30),
	} {
		set(name, v)
	}
}

func (w *walk) row(k store.Key, when time.Time, seconds float64) store.Row {
	w.step(seconds)
	r := store.Row{Key: k, Time: when, Readings: 1, State: gpu.StateOK, Values: make([]store.Value, len(store.DeviceColumns))}
	w.values(r.Values)
	return r
}

// span is a row about many readings. Of these it makes eight; their number does not change the row's size.
func (w *walk) span(k store.Key, tier store.Tier, when time.Time, readings int) store.Row {
	const made = 8
	var sum store.Row
	for n := range made {
		r := w.row(k, when, tier.Span().Seconds()/made)
		if n == 0 {
			sum = r
			continue
		}
		for i, v := range r.Values {
			s := &sum.Values[i]
			s.Least, s.Most, s.Mean = min(s.Least, v.Mean), max(s.Most, v.Mean), s.Mean+v.Mean
		}
	}
	for i := range sum.Values {
		if s := &sum.Values[i]; s.Count > 0 {
			s.Mean, s.Count = s.Mean/made, readings
			if s.Least == s.Most {
				s.Mean = s.Most
			}
		}
	}
	sum.Tier, sum.Readings = tier, readings
	return sum
}

// machineRow is a row of the machine.
func machineRow(random *rand.Rand, tier store.Tier, when time.Time, node string) store.Row {
	r := store.Row{Key: store.Key{Node: node}, Tier: tier, Time: when, Readings: 1, Values: make([]store.Value, len(store.MachineColumns))}
	for i := range r.Values {
		v := 10 + 90*random.Float64()
		r.Values[i] = store.Value{Least: v - 3, Mean: v, Most: v + 3, Count: 1}
	}
	return r
}

func keyOf(i int) store.Key { return store.Key{Node: "node", UUID: fmt.Sprintf("GPU-%08x", i)} }

var began = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this program in megabytes, without what is free.
func resident(b *testing.B) float64 {
	b.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / 1e6
}

// snapshots are frames of a simulated machine with 8 devices, five seconds apart.
func snapshots(b *testing.B, n int) (out []store.Frame) {
	b.Helper()
	now := began
	sources, err := sim.Nodes("dgx-h100", func() time.Time { return now })
	if err != nil {
		b.Fatal(err)
	}
	for range n {
		read, err := sources[0].Read(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		record, err := gpu.MarshalRecord(read)
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, store.Frame{Node: "node", Time: now, Snapshot: record})
		now = now.Add(5 * time.Second)
	}
	return out
}

// BenchmarkWrite writes what eight machines with 8 devices each make of each second: a row a device and second, the rows of
// minutes, and a frame of each machine each 5 s. The percentage is of one core, all included.
func BenchmarkWrite(b *testing.B) {
	for _, every := range []int{1, 5} {
		b.Run(fmt.Sprintf("64 devices each second, in batches of %d s", every), func(b *testing.B) {
			frames := snapshots(b, 24)
			var walks []*walk
			for i := range 64 {
				walks = append(walks, newWalk(uint64(i)))
			}
			second := 0
			var batches []*store.Batch // made before
			for range 120 / every {
				batch := new(store.Batch)
				for range every {
					when := began.Add(time.Duration(second) * time.Second)
					for i, w := range walks {
						batch.Rows = append(batch.Rows, w.row(keyOf(i), when, 1))
						if second%60 == 0 {
							batch.Rows = append(batch.Rows, w.span(keyOf(i), store.Minute, when, 60))
						}
					}
					if second%5 == 0 {
						for i := range 8 {
							f := frames[second/5]
							f.Node, f.Time = fmt.Sprint("node", i), when
							batch.Frames = append(batch.Frames, f)
						}
					}
					second++
				}
				batches = append(batches, batch)
			}
			empty := resident(b)
			s := open(b, filepath.Join(b.TempDir(), "past.db"))
			n, spent := 0, time.Duration(0)
			for b.Loop() {
				batch := batches[n%len(batches)]
				shift := time.Duration(n/len(batches)) * 120 * time.Second
				if n++; shift > 0 && n > len(batches) {
					for i := range batch.Rows {
						batch.Rows[i].Time = batch.Rows[i].Time.Add(120 * time.Second)
					}
					for i := range batch.Frames {
						batch.Frames[i].Time = batch.Frames[i].Time.Add(120 * time.Second)
					}
				}
				before := cpu()
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				spent += cpu() - before
			}
			seconds := float64(n * every)
			b.ReportMetric(100*spent.Seconds()/seconds, "%core")
			b.ReportMetric(resident(b)-empty, "MB-resident")
			runtime.KeepAlive(batches)
			runtime.KeepAlive(frames)
			runtime.KeepAlive(walks)
		})
	}
}

// fill writes a machine with 8 devices: spans of a tier, one after another, over a time.
func fill(b *testing.B, s *Store, tier store.Tier, devices int, length time.Duration) {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	var walks []*walk
	for i := range devices {
		walks = append(walks, newWalk(uint64(i)))
	}
	batch := new(store.Batch)
	step, readings := tier.Span(), int(tier.Span()/(5*time.Second))
	if tier == store.Raw {
		step = 5 * time.Second
	}
	for at := began; at.Before(began.Add(length)); at = at.Add(step) {
		for i, w := range walks {
			if tier == store.Raw {
				batch.Rows = append(batch.Rows, w.row(keyOf(i), at, 5))
			} else {
				batch.Rows = append(batch.Rows, w.span(keyOf(i), tier, at, readings))
			}
		}
		batch.Rows = append(batch.Rows, machineRow(random, tier, at, "node"))
		if len(batch.Rows) > 5000 {
			writeBatch(b, s, batch)
		}
	}
	writeBatch(b, s, batch)
}

func writeBatch(b *testing.B, s *Store, batch *store.Batch) {
	b.Helper()
	if err := s.Write(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	*batch = store.Batch{}
}

// BenchmarkRead asks as a page does: one quantity of all devices.
func BenchmarkRead(b *testing.B) {
	for _, q := range []struct {
		name    string
		tier    store.Tier
		devices int
		length  time.Duration
	}{
		{"24 h of 8 devices by the minute", store.Minute, 8, 24 * time.Hour},
		{"a year of a device by the quarter of an hour", store.Quarter, 1, 365 * 24 * time.Hour},
	} {
		s := open(b, filepath.Join(b.TempDir(), "past.db"))
		fill(b, s, q.tier, q.devices, q.length)
		for _, columns := range [][]int{{store.DeviceColumns.Find("power_draw")}, nil} {
			b.Run(fmt.Sprintf("%s, %d columns", q.name, len(columns)), func(b *testing.B) {
				n, before := 0, cpu()
				for b.Loop() {
					n = 0
					for _, err := range s.Rows(b.Context(), store.Query{Tier: q.tier, From: began, Columns: columns, Reuse: true}) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
				}
				b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(n), "rows")
			})
		}
	}
}

func BenchmarkSessionsOfAMonth(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "past.db"))
	random := rand.New(rand.NewPCG(1, 1))
	batch := new(store.Batch)
	for i := range 2 * 365 * 50 { // fifty a day
		begin := began.Add(time.Duration(i) * 24 * time.Hour / 50)
		batch.Sessions = append(batch.Sessions, store.Session{
			SessionKey: store.SessionKey{Key: keyOf(i % 8), Boot: "b", PID: 1000 + random.IntN(1<<20), Started: begin, Begin: begin},
			From:       begin,
			To:         begin.Add(time.Duration(random.IntN(7200)) * time.Second), User: fmt.Sprint("user", i%20), Name: "python",
			Program: "train.py",
			Command: "python train.py --learning-rate 3e-4 --batch 256", Container: "train", Outcome: store.Ended,
			PeakMemory: gpu.Of(gpu.Bytes(random.Int64N(80 << 30))),
			SMSeconds:  random.Float64() * 7200, Joules: random.Float64() * 1e6, Seen: time.Hour,
		})
	}
	writeBatch(b, s, batch)
	for _, month := range []int{0, 11, 23} {
		b.Run(fmt.Sprintf("month %d of 24", month+1), func(b *testing.B) {
			n, before := 0, cpu()
			for b.Loop() {
				n = 0
				begin := began.AddDate(0, month, 0)
				for _, err := range s.Sessions(b.Context(), store.Query{From: begin, To: begin.AddDate(0, 1, 0)}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(n), "sessions")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	file := filepath.Join(b.TempDir(), "past.db")
	s := open(b, file)
	fill(b, s, store.Minute, 8, 24*time.Hour)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("an existing file", func(b *testing.B) {
		for b.Loop() {
			if err := open(b, file).Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	n := 0
	b.Run("a new file", func(b *testing.B) {
		for b.Loop() {
			n++
			if err := open(b, fmt.Sprint(file, n)).Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkSize measures the rows of each tier, and says what the retention by default makes of 8 GPUs read each 5 s.
func BenchmarkSize(b *testing.B) {
	day := 24 * time.Hour
	total := 0.0
	for _, t := range []struct {
		tier        store.Tier
		wrote, kept time.Duration
	}{{store.Raw, 6 * time.Hour, 2 * day}, {store.Minute, 2 * day, 30 * day}, {store.Quarter, 30 * day, 730 * day}, {store.SixHours, 365 * day, 730 * day}} {
		file := filepath.Join(b.TempDir(), "past.db")
		s := open(b, file)
		fill(b, s, t.tier, 8, t.wrote)
		if err := s.Compact(b.Context()); err != nil {
			b.Fatal(err)
		}
		size, err := s.Size(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		table := size.Tables[t.tier]
		b.ReportMetric(float64(table.Bytes)/float64(table.Rows), "bytes/row/"+t.tier.String())
		total += float64(table.Bytes) * float64(t.kept) / float64(t.wrote)
		if info, err := os.Stat(file); err != nil || info.Size() < table.Bytes {
			b.Fatal(info, err)
		}
	}
	s, hour := open(b, filepath.Join(b.TempDir(), "past.db")), &store.Batch{Frames: snapshots(b, 720)}
	writeBatch(b, s, hour)
	size, err := s.Size(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	frames := float64(size.Tables[len(store.Tiers)].Bytes)
	b.ReportMetric(frames/720, "bytes/frame")
	b.ReportMetric((total+48*frames)/1e6, "MB/default")
	b.ReportMetric(0, "ns/op")
}
