//go:build !race

package method_test

import (
	"math"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/forecast/method"
)

// aDay is 24 hours of one device: its memory with a leak since six hours, and a temperature of each minute.
func aDay() (memory, temperature method.Series) {
	memory.Gap, temperature.Gap = 5*time.Minute, 5*time.Minute
	r := noise(1)
	for i := range 24 * 60 {
		at := start.Add(time.Duration(i) * time.Minute)
		used := 8e9 + 1e8*r.Float64()
		if i > 18*60 {
			used += 1e8 * float64(i-18*60)
		}
		// Each half hour it works for twenty minutes.
		in := float64(i % 30)
		celsius := 40 + 40*math.Exp(-(in-20)/4)
		if in < 20 {
			celsius = 40 + 40*(1-math.Exp(-in/4))
		}
		memory.Points = append(memory.Points, method.Point{Time: at, Value: used})
		temperature.Points = append(temperature.Points, method.Point{Time: at, Value: math.Floor(celsius)})
	}
	temperature.Points = temperature.Points[:len(temperature.Points)-25]
	return memory, temperature
}

// BenchmarkDay is all that is forecast of one device from 24 hours of points, one a minute.
func BenchmarkDay(b *testing.B) {
	memory, temperature := aDay()
	hours, free := habits(12, noise(1))
	begin := hours.Points[len(hours.Points)-1].Time.AddDate(0, 0, -10)
	for b.Loop() {
		method.MemoryFull(memory, 80e9)
		method.LimitReached(temperature, 79)
		method.Energy(hours, begin, begin.AddDate(0, 1, 0))
		method.UsuallyFree(free, time.UTC)
	}
}

func BenchmarkMemoryFull(b *testing.B) {
	memory, _ := aDay()
	for b.Loop() {
		method.MemoryFull(memory, 80e9)
	}
}

func BenchmarkLimitReached(b *testing.B) {
	_, temperature := aDay()
	for b.Loop() {
		method.LimitReached(temperature, 79)
	}
}

func BenchmarkEnergy(b *testing.B) {
	hours, _ := habits(12, noise(1))
	begin := hours.Points[len(hours.Points)-1].Time.AddDate(0, 0, -10)
	for b.Loop() {
		method.Energy(hours, begin, begin.AddDate(0, 1, 0))
	}
}

func BenchmarkUsuallyFree(b *testing.B) {
	_, free := habits(12, noise(1))
	for b.Loop() {
		method.UsuallyFree(free, time.UTC)
	}
}
