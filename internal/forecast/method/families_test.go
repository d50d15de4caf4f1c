//go:build !race

package method_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

// A family makes series of one kind, each from its seed, one point each five seconds.
type family struct {
	name string
	make func(r *rand.Rand) story
}

// A story is what a series does, and what it is asked about.
type story struct {
	series method.Series
	limit  float64
	begins time.Duration // when it begins to go towards the limit
	freed  time.Duration // when the first tooth was freed; 0: there is none
}

const beat = 5 * time.Second

// comes is when the series is at its limit, after its start; false where it never is.
func (s *story) comes() (time.Duration, bool) {
	for _, p := range s.series.Points {
		if p.Value >= s.limit {
			return p.Time.Sub(start), true
		}
	}
	return 0, false
}

// A tale is what was told of the series of one family.
type tale struct {
	series, told, held    int
	came, warned, alarmed int       // series that came to the limit, those of them that were told of, and series with a false alarm
	after                 int       // told after the first tooth was freed
	leads                 []float64 // of the warned: which part of the way was over when it was told first
}

func (t *tale) String() string {
	lead := "-"
	if len(t.leads) > 0 {
		slices.Sort(t.leads)
		lead = fmt.Sprintf("%.2f, at most %.2f", t.leads[len(t.leads)/2], t.leads[len(t.leads)-1])
	}
	return fmt.Sprintf("%3d, came %3d, warned %3d | told %4d, held %4d | alarmed %3d | first %s",
		t.series, t.came, t.warned, t.told, t.held, t.alarmed, lead)
}

// tell asks a story at many times, as the program does.
func (t *tale) tell(s story, every time.Duration, ask func(s *story, elapsed time.Duration) method.Forecast) {
	comes, came := s.comes()
	t.series++
	end := s.series.Points[len(s.series.Points)-1].Time.Sub(start)
	if came {
		t.came++
		end = comes
	}
	warned, alarmed := false, false
	for elapsed := every; elapsed < end; elapsed += every {
		f := ask(&s, elapsed)
		if !f.Shown {
			continue
		}
		t.told++
		over := f.At.Add(seconds(f.High)).Sub(start)
		switch {
		case !came && over > end: // the series ends before
			t.told--
		case !came:
			alarmed = true
			if s.freed > 0 && elapsed > s.freed {
				t.after++
			}
		default:
			if took := comes - f.At.Sub(start); seconds(f.Low) <= took && took <= seconds(f.High) {
				t.held++
			}
			if !warned {
				warned = true
				t.leads = append(t.leads, float64(elapsed-s.begins)/float64(comes-s.begins))
			}
		}
	}
	if warned {
		t.warned++
	}
	if alarmed {
		t.alarmed++
	}
}

func until(s method.Series, elapsed time.Duration) []method.Point {
	return s.Points[:min(int(elapsed/beat)+1, len(s.Points))]
}

func askHeat(s *story, elapsed time.Duration) method.Forecast {
	all := until(s.series, elapsed)
	return method.LimitReached(method.Series{Points: all[max(0, len(all)-3000):], Gap: 3 * beat}, s.limit)
}

// askMemory has the minutes of a day, and the readings of the last half hour.
func askMemory(s *story, elapsed time.Duration) method.Forecast {
	const minute = int(time.Minute / beat)
	all := until(s.series, elapsed)
	fine := max(0, (len(all)-int(fineFor/beat))/minute*minute)
	past := method.Series{Gap: 3 * time.Minute}
	for i := 0; i < fine; i += minute {
		sum := 0.0
		for _, p := range all[i : i+minute] {
			sum += p.Value
		}
		past.Points = append(past.Points, method.Point{Time: all[i].Time.Add(time.Minute / 2), Value: sum / float64(minute)})
	}
	past.Points = append(past.Points, all[fine:]...)
	return method.MemoryFull(past, s.limit)
}

const fineFor = 30 * time.Minute

// A part of a body warms up towards its share of a rise, in its time in seconds.
type part struct{ share, tau float64 }

// shortly is a warming that begins after six minutes of rest, towards a ceiling above or below the limit of 88 °C.
func shortly(r *rand.Rand, above, jitter float64, parts ...part) story {
	const rest, cold = 360.0, 40.0
	rise := 88 + above - cold
	s := story{limit: 88, begins: rest * time.Second}
	s.series = each(beat, 720, func(i int) float64 {
		v := cold + 0.3*r.NormFloat64()
		if t := float64(i)*beat.Seconds() - rest; t > 0 {
			for _, p := range parts {
				v += rise * p.share * (1 - math.Exp(-t/p.tau))
			}
			v += jitter * r.NormFloat64()
		}
		return math.Floor(v)
	})
	return s
}

func oneTime(above float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story { return shortly(r, above, 0, part{1, 60 + 340*r.Float64()}) }
}

func twoTimes(above float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		fast := 0.3 + 0.4*r.Float64()
		return shortly(r, above, 0, part{fast, 8 + 25*r.Float64()}, part{1 - fast, 120 + 380*r.Float64()})
	}
}

func threeTimes(above float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		return shortly(r, above, 0, part{0.4, 8 + 15*r.Float64()}, part{0.45, 90 + 200*r.Float64()}, part{0.15, 600 + 900*r.Float64()})
	}
}

// regulated is a warming that a fan, or a cap of the power, stops below the limit: by and by, or within a degree.
func regulated(below, width float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		die, goal, tau := 40.0, 95+15*r.Float64(), 80+220*r.Float64()
		hold := 88 - below
		s := story{limit: 88, begins: 6 * time.Minute}
		s.series = each(beat, 720, func(i int) float64 {
			target := 40.0
			if i > 72 {
				target = goal
				if over := (die - (hold - width)) / width; over > 0 { // the more, the closer it is to what it holds
					target -= (goal - hold) * min(over, 1.5)
				}
			}
			die += (target - die) * beat.Seconds() / tau
			return math.Floor(die + 0.3*r.NormFloat64())
		})
		return s
	}
}

// varied is a warming by power that varies from one half minute to the next.
func varied(above float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		die, sink, power := 0.0, 0.0, 1.0
		tau, fast := 100+300*r.Float64(), 10+20*r.Float64()
		s := story{limit: 88, begins: 6 * time.Minute}
		s.series = each(beat, 720, func(i int) float64 {
			if i%6 == 0 {
				power = 0.7 + 0.6*r.Float64()
			}
			if i > 72 {
				sink += (power - sink) * beat.Seconds() / tau
				die += (power - die) * beat.Seconds() / fast
			}
			return math.Floor(40 + (48+above)*(0.7*sink+0.3*die) + 0.3*r.NormFloat64())
		})
		return s
	}
}

func failing(r *rand.Rand) story { return failingTo(r, 96+20*r.Float64()) }

func failingTo(r *rand.Rand, goal float64) story {
	s := story{limit: 90, begins: 2 * time.Hour}
	die, target, tau := 66.0, 68.0, 60.0
	s.series = each(beat, 3*720, func(i int) float64 {
		if i == 2*720 {
			target, tau = goal, 200+800*r.Float64()
		}
		die += (target + r.NormFloat64() - die) * 5 / tau
		return math.Floor(die + 0.3*r.NormFloat64())
	})
	return s
}

// again is a card that works for ten minutes of each twenty, and levels off below the limit each time.
func again(r *rand.Rand) story {
	tau, fast, below := 90+60*r.Float64(), 10+10*r.Float64(), 1+4*r.Float64()
	die, sink := 0.0, 0.0
	s := story{limit: 88}
	s.series = each(beat, 3*720, func(i int) float64 {
		power := 0.0
		if i%240 >= 120 {
			power = 1
		}
		sink += (power - sink) * beat.Seconds() / tau
		die += (power - die) * beat.Seconds() / fast
		return math.Floor(40 + (48-below)*(0.6*sink+0.4*die) + 0.3*r.NormFloat64())
	})
	return s
}

var heatFamilies = []family{
	{"one time constant, 4 below", oneTime(-4)},
	{"one time constant, 1 below", oneTime(-1)},
	{"one time constant, at the limit", oneTime(-0.2)},
	{"one time constant, 1 above", oneTime(1)},
	{"one time constant, 2 above", oneTime(2)},
	{"one time constant, 4 above", oneTime(4)},
	{"one time constant, 15 above", oneTime(15)},
	{"two time constants, 4 below", twoTimes(-4)},
	{"two time constants, 1 below", twoTimes(-1)},
	{"two time constants, at the limit", twoTimes(-0.2)},
	{"two time constants, 1 above", twoTimes(1)},
	{"two time constants, 4 above", twoTimes(4)},
	{"two time constants, 15 above", twoTimes(15)},
	{"three time constants, 1 below", threeTimes(-1)},
	{"three time constants, 4 above", threeTimes(4)},
	{"three time constants, 15 above", threeTimes(15)},
	{"fan holds 3 below, by and by", regulated(3, 20)},
	{"fan holds 1 below, by and by", regulated(1, 10)},
	{"cap holds 1 below, within 3", regulated(1, 3)},
	{"cap holds 2 below, within 1", regulated(2, 1)},
	{"power varies, 3 below", varied(-3)},
	{"power varies, 10 above", varied(10)},
	{"fan fails, to 96 and more", failing},
	{"fan fails, to 88", func(r *rand.Rand) story { return failingTo(r, 88) }},
	{"works and rests, 1 to 5 below", again},
}

// grown is memory in GiB that is as it was, and then grows to more than 80 GiB.
func grown(r *rand.Rand, minutes, wobble float64, shape func(x float64) float64) story {
	base, before := 4+20*r.Float64(), 40+20*r.Float64()
	s := story{limit: 80, begins: time.Duration(before * float64(time.Minute))}
	s.series = each(beat, int((before+1.2*minutes)*12), func(i int) float64 {
		x := (float64(i)/12 - before) / minutes
		return base + (80-base)*shape(max(x, 0)) + wobble*r.NormFloat64()
	})
	return s
}

func leakOf(minutes, wobble float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		return grown(r, minutes, wobble, func(x float64) float64 { return x })
	}
}

// blocks is a leak that takes its memory in many blocks.
func blocks(minutes, count float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		return grown(r, minutes, 0.01, func(x float64) float64 { return math.Floor(x*count) / count })
	}
}

// sawed is memory that is taken and freed again, of a limit of 32.
func sawed(minutes, most, more float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		in, length, height := 0.0, minutes, most
		s := story{limit: 32}
		s.series = each(beat, 4*720, func(i int) float64 {
			if in += beat.Minutes(); in > length {
				if s.freed == 0 {
					s.freed = time.Duration(i) * beat
				}
				in, length, height = 0, minutes*(0.9+0.2*r.Float64()), min(height*more, 30)
			}
			if i < 240 {
				in = 0
			}
			return 2 + height*in/length + 0.05*r.NormFloat64()
		})
		return s
	}
}

// staged is a job that loads in some stages to most of the memory, and stays.
func staged(stages int, minutes, most float64) func(*rand.Rand) story {
	return func(r *rand.Rand) story {
		starts := make([]float64, stages)
		for i := range starts {
			starts[i] = 30 + minutes*(float64(i)+0.6*r.Float64())/float64(stages)
		}
		s := story{limit: 80}
		s.series = each(beat, 2*720, func(i int) float64 {
			n := 0
			for _, a := range starts {
				if float64(i)/12 > a {
					n++
				}
			}
			return 3 + (most-3)*float64(n)/float64(stages) + 0.02*r.NormFloat64()
		})
		return s
	}
}

var memoryFamilies = []family{
	{"leak that fills in 5 min", leakOf(5, 0.05)},
	{"leak that fills in 8 min", leakOf(8, 0.2)},
	{"leak that fills in 10 min", leakOf(10, 0.05)},
	{"leak that fills in 20 min", leakOf(20, 0.5)},
	{"leak that fills in 30 min", leakOf(30, 0.2)},
	{"leak that fills in 90 min", leakOf(90, 0.2)},
	{"leak that fills in 15 min, in 60 blocks", blocks(15, 60)},
	{"leak that fills in 10 min, in 150 blocks", blocks(10, 150)},
	{"teeth of 3 min, half full", sawed(3, 15, 1)},
	{"teeth of 10 min, half full", sawed(10, 15, 1)},
	{"teeth of 30 min, half full", sawed(30, 15, 1)},
	{"teeth of 5 min, growing", sawed(5, 6, 1.15)},
	{"teeth of 20 min, growing", sawed(20, 6, 1.3)},
	{"teeth of 3 min, nearly full", sawed(3, 26, 1)},
	{"teeth of 10 min, nearly full", sawed(10, 26, 1)},
	{"teeth of 40 min, nearly full", sawed(40, 26, 1)},
	{"load in 3 stages, 3 min", staged(3, 3, 70)},
	{"load in 5 stages, 10 min", staged(5, 10, 70)},
	{"load in 8 stages, 4 min", staged(8, 4, 75)},
	{"load in 8 stages, 20 min", staged(8, 20, 75)},
	{"load in 12 stages, 12 min", staged(12, 12, 75)},
	{"load in 60 stages, 1 min", staged(60, 1, 75)},
}

// plays tells the stories of families, and returns what was told of each.
func plays(t *testing.T, families []family, seeds uint64) map[string]*tale {
	t.Helper()
	all := map[string]*tale{}
	for _, f := range families {
		told := &tale{}
		for seed := range seeds {
			s := f.make(noise(seed))
			if strings.HasPrefix(f.name, "leak") || strings.HasPrefix(f.name, "teeth") || strings.HasPrefix(f.name, "load") {
				told.tell(s, time.Minute, askMemory)
			} else {
				told.tell(s, 30*time.Second, askHeat)
			}
		}
		t.Logf("%-42s %s", f.name, told)
		all[f.name] = told
	}
	return all
}

// Of warmings, few are told of that a fan or a cap stops, those that come mostly, and the intervals hold what they promise.
func judgeHeat(t *testing.T, all map[string]*tale) {
	t.Helper()
	var came, stopped tale
	for name, f := range all {
		sum := &stopped
		if f.came == f.series {
			sum = &came
		}
		sum.series, sum.told, sum.held, sum.alarmed = sum.series+f.series, sum.told+f.told, sum.held+f.held, sum.alarmed+f.alarmed
		if !strings.Contains(name, "holds") && f.alarmed > 0 {
			t.Errorf("%s: %d false alarms", name, f.alarmed)
		}
	}
	if 10*stopped.alarmed > stopped.series {
		t.Errorf("false alarms of %d in %d warmings that never came to the limit", stopped.alarmed, stopped.series)
	}
	if held := float64(came.held) / float64(came.told+stopped.told); held < familyShare {
		t.Errorf("%.2f of %d intervals held what came", held, came.told+stopped.told)
	}
	for _, name := range []string{"one time constant, 4 above", "one time constant, 2 above", "fan fails, to 96 and more"} {
		if f := all[name]; 2*f.warned < f.series {
			t.Errorf("%s: only %d of %d were told", name, f.warned, f.series)
		}
	}
}

// Each leak is told in time. Loads in stages never are, and teeth at most once: the first one is like a leak until it is freed.
func judgeMemory(t *testing.T, all map[string]*tale) {
	t.Helper()
	for name, f := range all {
		switch {
		case strings.HasPrefix(name, "leak"):
			slices.Sort(f.leads)
			if f.warned < f.series || f.leads[len(f.leads)/2] > 0.7 || float64(f.held) < 0.8*float64(f.told) {
				t.Errorf("%s: %s", name, f)
			}
		case strings.Contains(name, "nearly full") || name == "teeth of 10 min, half full":
			if f.after > 0 {
				t.Errorf("%s: told %d times after the first tooth", name, f.after)
			}
		case f.alarmed > 0:
			t.Errorf("%s: %s", name, f)
		}
	}
}

func TestHeatFamilies(t *testing.T) { judgeHeat(t, plays(t, heatFamilies, familySeeds)) }

func TestMemoryFamilies(t *testing.T) { judgeMemory(t, plays(t, memoryFamilies, familySeeds)) }
