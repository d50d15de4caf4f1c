package terminal

import (
	"math"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// Each character of Braille has two columns of four dots.
const (
	dotColumns = 2
	dotRows    = 4
)

// dots are the bits of a character's dots, from the bottom up, by column.
var dots = [dotColumns][dotRows]rune{{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}}

const blank = '\u2800'

// columns are the means of points in each column of a span that ends at a time. Without a point, a column has no value: nothing is drawn between
// points that are further apart than a column, unless that is the usual distance.
func columns(points []point, m metric, end time.Time, length time.Duration, n int, usual time.Duration) []gpu.Reading[float64] {
	sums, counts := make([]float64, n), make([]int, n)
	width := length / time.Duration(n)
	begin := end.Add(-length)
	for i := range points {
		v, ok := points[i].values[m].Get()
		at := points[i].at.Sub(begin)
		if !ok || at <= 0 || at > length {
			continue
		}
		c := min(int((at-1)/width), n-1) // n parts of a length may be shorter than it
		sums[c] += v
		counts[c]++
	}
	out := make([]gpu.Reading[float64], n)
	reach := int((usual*5/2+3*time.Second)/width) + 1 // how far a point is seen; the newest ones that gpuwhy keeps are up to 3 s apart
	last := -1
	for c := range out {
		if counts[c] > 0 {
			out[c] = gpu.Of(sums[c] / float64(counts[c]))
			for gap := last + 1; last >= 0 && gap < c && c-last <= reach; gap++ {
				out[gap] = out[last]
			}
			last = c
		}
	}
	for c := last + 1; last >= 0 && c < n && c-last < reach; c++ { // the newest point, up to now
		out[c] = out[last]
	}
	return out
}

// area draws values from the bottom up, in rows of Braille, the top one first. top is the value at the upper edge. A value above zero has a dot at
// least, and one above the edge fills its column.
func area(values []gpu.Reading[float64], rows int, top float64) []string {
	cells := (len(values) + dotColumns - 1) / dotColumns
	grid := make([][]rune, rows)
	for r := range grid {
		grid[r] = []rune(strings.Repeat(" ", cells)) // some fonts draw circles for Braille without a dot
	}
	for i, v := range values {
		value, ok := v.Get()
		if !ok || top <= 0 {
			continue
		}
		height := int(math.Round(value / top * float64(rows*dotRows)))
		height = max(min(height, rows*dotRows), 1) // a reading of zero is seen, and none is not
		for dot := range height {
			cell := &grid[rows-1-dot/dotRows][i/dotColumns]
			if *cell == ' ' {
				*cell = blank
			}
			*cell |= dots[i%dotColumns][dot%dotRows]
		}
	}
	out := make([]string, rows)
	for r := range grid {
		out[r] = string(grid[r])
	}
	return out
}

// eighths are the parts of a character that a bar fills.
var eighths = []rune(" ▏▎▍▌▋▊▉█")

// bar fills a part of a width, from the left: the filled part, and the rest.
func bar(share float64, width int) (filled, empty string) {
	n := int(math.Round(max(0, min(share, 1)) * float64(width*8)))
	if share > 0 {
		n = max(n, 1)
	}
	full, rest := n/8, n%8
	filled = strings.Repeat("█", full)
	if rest > 0 {
		filled += string(eighths[rest])
		full++
	}
	return filled, strings.Repeat("·", width-full)
}
