package terminal

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A chart shows means by column, holes where nothing was read for long, and a dot for a zero.
func TestColumns(t *testing.T) {
	t.Parallel()
	end := time.Unix(1000, 0)
	var points []point
	for _, p := range []struct {
		ago   float64
		value float64
	}{{95, 10}, {94, 30}, {88, 40}, {10, 0}, {0, 60}} {
		points = append(points, point{at: end.Add(-time.Duration(p.ago * float64(time.Second))), values: [metrics]gpu.Reading[float64]{power: gpu.Of(p.value)}})
	}
	points = append(points, point{at: end.Add(-50 * time.Second)}) // absent
	got := columns(points, power, end, 100*time.Second, 10, time.Second)
	want := []gpu.Reading[float64]{gpu.Of(20.0), gpu.Of(40.0), {}, {}, {}, {}, {}, {}, gpu.Of(0.0), gpu.Of(60.0)}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("column %d is %v, want %v", i, got[i], want[i])
		}
	}
	if got := columns(points, power, end, 100*time.Second, 10, 40*time.Second)[5]; got != gpu.Of(40.0) {
		t.Errorf("between readings that are usually 40 s apart there is %v", got)
	}
	if got := columns(points, power, end, 100*time.Second, 84, time.Second); len(got) != 84 { // 84 parts of a length are shorter than it
		t.Error(len(got))
	}
	rows := area([]gpu.Reading[float64]{gpu.Of(0.0), gpu.Of(50.0), {}, {}, gpu.Of(100.0), gpu.Of(300.0)}, 2, 100)
	if got, want := strings.Join(rows, "|"), "  ⣿|⣸ ⣿"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	for share, want := range map[float64]string{0: "····", 0.001: "▏···", 0.5: "██··", 0.6: "██▍·", 1: "████", 1.2: "████", -1: "····"} {
		if filled, empty := bar(share, 4); filled+empty != want {
			t.Errorf("%v is %q, want %q", share, filled+empty, want)
		}
	}
}

func TestIndexes(t *testing.T) {
	t.Parallel()
	if got := indexes([]int{7, 0, 1, 2, 4, 5}); got != "0–2,4,5,7" {
		t.Error(got)
	}
}

func TestRunning(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{75 * time.Second: "1:15", 2*time.Hour + 3*time.Minute: "2h03", 99*time.Hour + 59*time.Minute: "99h59", 400 * time.Hour: "16d"} {
		if got := running(d); got != want || width(got) > 6 {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
