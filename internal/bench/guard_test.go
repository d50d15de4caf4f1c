//go:build !race && linux

package bench

import (
	"fmt"
	"slices"
	"testing"
)

// The most that the hub may cost. Measurements are lower: see docs/performance.md. All limits except the CPU's are counts,
// which are the same on a busy machine.
const (
	maxWrites     = 1.1 // calls for each message delivered: one, and a few of the process' own
	maxMallocs    = 0.5 // for each message delivered: those for all viewers together, of which there are about 46
	maxGoroutines = 1.1 // for each viewer
	maxMemory     = 20  // kB for each viewer
	maxCPU        = 4.0 // as many times what ready frames cost that are written straight to the sockets; who encodes for each viewer takes 6 to 9 times
)

// excess names the costs that exceed their limits.
func excess(s, raw *side) (names []string) {
	for _, c := range []struct {
		name    string
		is, may float64
	}{
		{"writes", median(s.writes), maxWrites},
		{"mallocs", median(s.mallocs), maxMallocs},
		{"goroutines", s.goroutines, maxGoroutines},
		{"memory", s.memory, maxMemory},
		{"cpu", slices.Min(s.cpu) / slices.Min(raw.cpu), maxCPU}, // what others do can only add to it
	} {
		if c.is > c.may {
			names = append(names, fmt.Sprintf("%s: %.3g, of %.3g at most", c.name, c.is, c.may))
		}
	}
	return names
}

// The hub costs little more than a server that only writes ready frames. The limits would
// catch a naive server.
func TestFanOutIsCheap(t *testing.T) {
	kinds := []string{kindRaw, kindNaive, kindPatient}
	sides := fanOut(t, kinds, 200, 16_000, 3, 40)
	raw, naive := sides[kindRaw], sides[kindNaive]
	for _, e := range excess(sides[kindPatient], raw) {
		t.Error(e)
	}
	if median(naive.writes) <= maxWrites || median(naive.mallocs) <= maxMallocs || naive.goroutines <= maxGoroutines {
		t.Errorf("the naive server is not noticed: %v", excess(naive, raw))
	}
	for _, kind := range kinds {
		s := sides[kind]
		t.Logf("%s: %.3f writes, %.3f mallocs, %.2f goroutines, %.1f kB, %.2f times raw's CPU", kind,
			median(s.writes), median(s.mallocs), s.goroutines, s.memory, slices.Min(s.cpu)/slices.Min(raw.cpu))
	}
}

// A stream finds the same frames wherever the received bytes are cut.
func TestStream(t *testing.T) {
	var sent []byte
	sizes := []int{0, 5, 125, 126, 300, 70_000, 1}
	for i, size := range sizes {
		sent = append(sent, header(size)...)
		sent = append(sent, slices.Repeat([]byte{byte('a' + i)}, size)...)
	}
	for _, piece := range []int{1, 2, 3, 7, 1000, len(sent)} {
		var s stream
		var got []string
		for part := range slices.Chunk(sent, piece) {
			for len(part) > 0 {
				var whole bool
				if part, whole = s.take(part); whole {
					got = append(got, string(s.begin))
				}
			}
		}
		if len(got) != len(sizes) {
			t.Fatalf("in pieces of %d: %d frames, not %d", piece, len(got), len(sizes))
		}
		for i, size := range sizes {
			if want := string(slices.Repeat([]byte{byte('a' + i)}, min(size, keep))); got[i] != want {
				t.Errorf("in pieces of %d: frame %d begins %.20q, not %.20q", piece, i, got[i], want)
			}
		}
	}
}
