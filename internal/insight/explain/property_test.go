package explain_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/insight/explain"
)

// check checks an answer against what every answer promises.
func check(t *testing.T, a explain.Answer) {
	t.Helper()
	isSentence(t, a.Sentence)
	ids := map[string]bool{}
	for _, c := range a.Causes() {
		isSentence(t, c.Sentence)
		if c.Advice != "" {
			isSentence(t, c.Advice)
		}
		if !(c.Confidence > 0 && c.Confidence <= 1) {
			t.Errorf("%s: confidence %v", c.ID, c.Confidence)
		}
		if id := c.ID; c.Device != nil {
			id = c.Device.Node + id
			if ids[id] {
				t.Errorf("%s is told twice", c.ID)
			}
			ids[id] = true
		}
		for _, e := range c.Evidence {
			isText(t, e.Name)
			isText(t, e.Text)
			if v, ok := e.Value.Get(); ok && (math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Errorf("%s: %s is %v", c.ID, e.Name, v)
			}
		}
	}
	for _, d := range a.Devices {
		isSentence(t, d.Sentence)
		if len(d.Causes) == 0 {
			t.Errorf("GPU %d has no cause", d.Device.Index)
		}
	}
}

func isSentence(t *testing.T, s string) {
	t.Helper()
	if !strings.HasSuffix(s, ".") || strings.HasSuffix(s, "..") || strings.Contains(s, "  ") {
		t.Errorf("%q is no sentence", s)
	}
	isText(t, s)
}

func isText(t *testing.T, s string) {
	t.Helper()
	if s == "" || strings.Contains(s, "NaN") || strings.Contains(s, "Inf") || strings.Contains(s, "%!") || strings.Contains(s, " -0 ") {
		t.Errorf("%q is no text for people", s)
	}
}

// scramble sets every reading below v to something: absent in each way, zero, likely, large, and NaN.
func scramble(random *rand.Rand, v reflect.Value) {
	if strings.HasPrefix(v.Type().Name(), "Reading[") {
		set := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface()
		switch r := set.(type) {
		case *gpu.Reading[gpu.Percent]:
			*r = reading[gpu.Percent](random, 0, 3, 50, 100, 130)
		case *gpu.Reading[gpu.Celsius]:
			*r = reading[gpu.Celsius](random, -5, 0, 34, 71, 96)
		case *gpu.Reading[gpu.Watts]:
			*r = reading[gpu.Watts](random, 0, 17, 63, 431, 450)
		case *gpu.Reading[gpu.RPM]:
			*r = reading[gpu.RPM](random, 0, 900, 2100)
		case *gpu.Reading[gpu.Megahertz]:
			*r = reading[gpu.Megahertz](random, 0, 210, 2700, 3120)
		case *gpu.Reading[int]:
			*r = gpu.Map(reading[gpu.Percent](random, 0, 2, 8), func(p gpu.Percent) int { return int(min(max(p, -1e6), 1e6)) })
		case *gpu.Reading[bool]:
			*r = gpu.Map(reading[gpu.Percent](random, 0, 1), func(p gpu.Percent) bool { return p == 1 })
		case *gpu.Reading[gpu.Bytes]:
			*r = gpu.Map(reading[gpu.Percent](random, 0, 1<<30), func(p gpu.Percent) gpu.Bytes { return gpu.Bytes(uint64(min(max(p, 0), 1e15))) })
		case *gpu.Reading[gpu.ClockEventReasons]:
			*r = gpu.Of(gpu.ClockEventReasons(random.Uint64N(1 << 10)))
		case *gpu.Reading[string]:
			*r = [...]gpu.Reading[string]{{}, gpu.Absent[string](gpu.NotPermitted), gpu.Of(""), gpu.Of("manual"), gpu.Of("automatic"), gpu.Of("a.b."), gpu.Of("\xff\n")}[random.IntN(7)]
		case *gpu.Reading[time.Time]:
			*r = [...]gpu.Reading[time.Time]{{}, gpu.Of(start), gpu.Of(time.Time{})}[random.IntN(3)]
		case *gpu.Reading[[]gpu.Reservation]:
			*r = [...]gpu.Reading[[]gpu.Reservation]{{}, gpu.Absent[[]gpu.Reservation](gpu.NotPermitted), gpu.Of([]gpu.Reservation{}),
				gpu.Of([]gpu.Reservation{{}, {Namespace: "\x1b", Pod: strings.Repeat("p", 300), Instance: "MIG-\n"}})}[random.IntN(4)]
		case *gpu.Reading[[]gpu.Process]:
			*r = [...]gpu.Reading[[]gpu.Process]{{}, gpu.Absent[[]gpu.Process](gpu.NotSupported), gpu.Absent[[]gpu.Process](gpu.NotPermitted), gpu.Of(scrambledProcesses(random))}[random.IntN(4)]
		}
		return
	}
	if v.Kind() == reflect.Struct && strings.HasSuffix(v.Type().PkgPath(), "/gpu") {
		for _, field := range v.Fields() {
			scramble(random, field)
		}
	}
}

func reading[T ~float64](random *rand.Rand, likely ...T) gpu.Reading[T] {
	odd := []T{T(math.NaN()), T(math.Inf(1)), T(math.Inf(-1)), math.MaxFloat64, -1, -0.2}
	switch random.IntN(12) {
	case 0:
		return gpu.Reading[T]{}
	case 1:
		return gpu.Absent[T](gpu.NotSupported)
	case 2:
		return gpu.Absent[T](gpu.NotPermitted)
	case 3:
		return gpu.DoubtfulOf(likely[random.IntN(len(likely))])
	case 4:
		return gpu.Of(odd[random.IntN(len(odd))])
	default:
		return gpu.Of(likely[random.IntN(len(likely))])
	}
}

func scrambledProcesses(random *rand.Rand) []gpu.Process {
	out := make([]gpu.Process, random.IntN(7))
	for i := range out {
		scramble(random, reflect.ValueOf(&out[i]).Elem())
		out[i].PID = random.IntN(5)
		out[i].Type = [...]gpu.ProcessType{gpu.TypeCompute, gpu.TypeGraphics, ""}[random.IntN(3)]
	}
	return out
}

func scrambledDevice(random *rand.Rand, index int) gpu.Device {
	d := gpu.Device{}
	scramble(random, reflect.ValueOf(&d).Elem())
	d.Index, d.UUID, d.Name, d.Vendor = index, string(rune('A'+index)), [...]string{"", "X", "Y."}[random.IntN(3)], [...]gpu.Vendor{gpu.NVIDIA, gpu.AMD}[random.IntN(2)]
	d.State = gpu.StateOK
	if random.IntN(8) == 0 {
		d.State = [...]gpu.State{gpu.StateLost, gpu.StateNotAnswering, gpu.StateAsleep}[random.IntN(3)]
		d.Reason = gpu.Advice{What: "it is so.", Try: "wait."}
	}
	d.Fans.Fans = make([]gpu.Fan, random.IntN(11))
	for i := range d.Fans.Fans {
		scramble(random, reflect.ValueOf(&d.Fans.Fans[i]).Elem())
	}
	return d
}

// Whatever devices report and leave out, in whatever order times come: there is an answer, the same each time, and it consists of
// sentences.
func TestAnyReadings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		one, two := explain.NewHistory(), explain.NewHistory()
		now := start
		for range 40 {
			now = now.Add(time.Duration(random.Int64N(int64(20*time.Second))) - 2*time.Second)
			if random.IntN(20) == 0 {
				now = now.Add(time.Hour)
			}
			s := &gpu.Snapshot{Time: now}
			for i := range random.IntN(4) {
				s.Devices = append(s.Devices, scrambledDevice(random, i))
			}
			beside := one.Beside(s)
			check(t, beside)
			a, b := one.Add(s), two.Add(s)
			check(t, a)
			check(t, explain.Explain(s))
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("two answers to the same:\n%+v\n%+v", a, b)
			}
			if !reflect.DeepEqual(a, beside) {
				t.Fatalf("beside the feed the answer is another:\n%+v\n%+v", a, beside)
			}
			if !reflect.DeepEqual(a.Causes(), b.Causes()) {
				t.Fatal("the order is another")
			}
		}
	}
}

// One goroutine feeds readings, others read.
func TestConcurrentReaders(t *testing.T) {
	h := explain.NewHistory()
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					check(t, h.Beside(snapshot(made(working(98, python)))))
				}
			}
		})
	}
	for i := range 200 {
		s := snapshot(made(working(98, python)))
		s.Time = start.Add(time.Duration(i) * time.Second)
		h.Add(s)
	}
	close(done)
	wg.Wait()
}

// Eight busy GPUs with 25 processes each.
func BenchmarkExplain8(b *testing.B) {
	var devices []gpu.Device
	var processes []gpu.Process
	for i := range 25 {
		processes = append(processes, process(1000+i, "python", gpu.Percent(i)))
	}
	for i := range 8 {
		devices = append(devices, made(indexed(i), working(98, processes...), passive))
	}
	h := explain.NewHistory()
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		s := snapshot(devices...)
		s.Time = now
		h.Add(s)
	}
}
