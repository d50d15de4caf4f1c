package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/past/store"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres"
	"github.com/gpuwhy/gpuwhy/internal/past/store/postgres/pgtest"
)

// durable is a server that writes all through to the disk.
func durable(b *testing.B) *pgtest.Server {
	b.Helper()
	server(b)
	s, err := pgtest.Start(b.Context(), "fsync=on")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allCPU is the time that the server and this program have worked.
func allCPU(b *testing.B, s *pgtest.Server) time.Duration {
	b.Helper()
	spent, err := s.CPU()
	if err != nil {
		b.Fatal(err)
	}
	return spent + ownCPU(b)
}

// made is a row with all but every seventh quantity.
func made(random *rand.Rand, k store.Key, tier store.Tier, when time.Time, readings int) store.Row {
	r := store.Row{Key: k, Tier: tier, Time: when, Readings: readings, State: gpu.StateOK}
	r.Values = make([]store.Value, len(store.DeviceColumns))
	for i, c := range store.DeviceColumns {
		if i%7 == 6 || tier != store.Raw && !c.Spans {
			continue
		}
		v := c.Value(random.Int64N(1 << 36))
		r.Values[i] = store.Value{Least: v, Mean: v, Most: v, Count: readings}
		if tier != store.Raw {
			r.Values[i].Least, r.Values[i].Most = v/2, v*2
		}
	}
	return r
}

// BenchmarkWrite writes what 2,000 devices make at 5 s, with a row a minute of each: of one gpuwhy, and of 250 machines that
// write for themselves. An operation is 5 s of that.
func BenchmarkWrite(b *testing.B) {
	const devices = 2000
	for _, machines := range []int{1, 250} {
		b.Run(fmt.Sprintf("2,000 devices at 5 s, %d machines", machines), func(b *testing.B) {
			srv := durable(b)
			random := rand.New(rand.NewPCG(1, 1))
			stores := make([]*postgres.Store, min(machines, 20)) // which take turns: the server has not so many connections
			for i := range stores {
				stores[i] = open(b, postgres.Config{URL: srv.URL("postgres", "postgres"), Owner: fmt.Sprint(i)})
			}
			batches := make([]store.Batch, machines)
			for m := range batches {
				for d := range devices / machines {
					k := store.Key{Node: fmt.Sprint("node ", m), UUID: fmt.Sprint("GPU-", d)}
					batches[m].Rows = append(batches[m].Rows, made(random, k, store.Raw, begin, 1))
					if (m*devices/machines+d)%12 == 0 { // a twelfth of the minute's rows each 5 s
						batches[m].Rows = append(batches[m].Rows, made(random, k, store.Minute, begin, 12))
					}
				}
			}
			write := func() {
				for m := range batches {
					if err := stores[m%len(stores)].Write(b.Context(), &batches[m]); err != nil {
						b.Fatal(err)
					}
					for i := range batches[m].Rows {
						batches[m].Rows[i].Time = batches[m].Rows[i].Time.Add(5 * time.Second)
					}
				}
			}
			write() // tables, and connections
			server, err := srv.CPU()
			if err != nil {
				b.Fatal(err)
			}
			own := ownCPU(b)
			for b.Loop() {
				write()
			}
			own = ownCPU(b) - own
			after, err := srv.CPU()
			if err != nil {
				b.Fatal(err)
			}
			share := func(d time.Duration) float64 { return 100 * d.Seconds() / (float64(b.N) * 5 * 2) }
			b.ReportMetric(share(own), "%gpuwhy-of-2-cores")
			b.ReportMetric(share(after-server), "%server-of-2-cores")
		})
	}
}

// BenchmarkRead asks as a page does: one quantity of all devices, and all.
func BenchmarkRead(b *testing.B) {
	for _, q := range []struct {
		name    string
		tier    store.Tier
		devices int
		length  time.Duration
	}{
		{"24 h of 8 devices by the minute", store.Minute, 8, 24 * time.Hour},
		{"a year of a device by the quarter of an hour", store.Quarter, 1, 365 * 24 * time.Hour},
		{"a year of 8 devices by the quarter of an hour", store.Quarter, 8, 365 * 24 * time.Hour},
	} {
		s := open(b, postgres.Config{URL: server(b).Schema()})
		random := rand.New(rand.NewPCG(1, 1))
		batch := new(store.Batch)
		for at := begin; at.Before(begin.Add(q.length)); at = at.Add(q.tier.Span()) {
			for d := range q.devices {
				batch.Rows = append(batch.Rows, made(random, store.Key{Node: "n", UUID: fmt.Sprint("GPU-", d)}, q.tier, at, 12))
			}
			if last := !at.Add(q.tier.Span()).Before(begin.Add(q.length)); last || len(batch.Rows) > 5000 {
				if err := s.Write(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
				batch = new(store.Batch)
			}
		}
		if err := s.Compact(b.Context()); err != nil { // as the server does by itself in time
			b.Fatal(err)
		}
		for name, columns := range map[string][]int{"watts": {store.DeviceColumns.Find("power_draw")}, "all": nil} {
			b.Run(q.name+", "+name, func(b *testing.B) {
				n, before := 0, allCPU(b, server(b))
				for b.Loop() {
					n = 0
					for _, err := range s.Rows(b.Context(), store.Query{Tier: q.tier, From: begin, Columns: columns, Reuse: true}) {
						if err != nil {
							b.Fatal(err)
						}
						n++
					}
				}
				b.ReportMetric(float64((allCPU(b, server(b))-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(n), "rows")
			})
		}
	}
}

func BenchmarkSessionsOfAMonth(b *testing.B) {
	s := open(b, postgres.Config{URL: server(b).Schema()})
	random := rand.New(rand.NewPCG(1, 1))
	batch := new(store.Batch)
	for i := range 2 * 365 * 50 { // fifty a day
		start := begin.Add(time.Duration(i) * 24 * time.Hour / 50)
		batch.Sessions = append(batch.Sessions, store.Session{
			SessionKey: store.SessionKey{
				Key: store.Key{Node: "n", UUID: fmt.Sprint("GPU-", i%8)}, Boot: "b", PID: 1000 + i, Started: start, Begin: start,
			},
			From: start, To: start.Add(time.Duration(random.IntN(7200)) * time.Second), Outcome: store.Ended, Seen: time.Hour,
			User: fmt.Sprint("user", i%20), Name: "python", Program: "train.py", Container: "train",
			Command: "python train.py --learning-rate 3e-4 --batch 256", PeakMemory: gpu.Of(gpu.Bytes(random.Int64N(80 << 30))),
			SMSeconds: random.Float64() * 7200, Joules: random.Float64() * 1e6,
		})
	}
	if err := s.Write(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
	if err := s.Compact(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, month := range []int{0, 11, 23} {
		b.Run(fmt.Sprintf("month %d of 24", month+1), func(b *testing.B) {
			n := 0
			for b.Loop() {
				n = 0
				start := begin.AddDate(0, month, 0)
				for _, err := range s.Sessions(b.Context(), store.Query{From: start, To: start.AddDate(0, 1, 0)}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n), "sessions")
		})
	}
}
