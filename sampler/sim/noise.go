package sim

import "hash/fnv"

// mix is a hash of two numbers (the finalizer of splitmix64).
func mix(a, b uint64) uint64 {
	x := a + 0x9e3779b97f4a7c15*(b+1)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func seedOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// signed maps a hash to −1 … 1.
func signed(h uint64) float64 { return float64(h>>11)/(1<<52) - 1 }

// wobble is a smooth random function of the second of a cycle, −1 … 1.
func wobble(seed uint64, second int) float64 {
	const grid = 6 // seconds; divides a cycle
	cell, in := second/grid, float64(second%grid)/grid
	cell %= cycleSeconds / grid
	next := (cell + 1) % (cycleSeconds / grid)
	in = in * in * (3 - 2*in)
	smooth := signed(mix(seed, uint64(cell)))*(1-in) + signed(mix(seed, uint64(next)))*in
	return 0.8*smooth + 0.2*signed(mix(seed^1, uint64(second)))
}

// An order is the order of a roster's jobs, by index.
type order [maxRoster]uint8

// shuffled returns the numbers 0 … n−1, shuffled by the seed and the round.
func shuffled(n int, seed uint64, round int64) (o order) {
	for i := range n {
		o[i] = uint8(i)
	}
	seed = mix(seed, uint64(round))
	for i := n - 1; i > 0; i-- {
		j := mix(seed, uint64(i)) % uint64(i+1)
		o[i], o[j] = o[j], o[i]
	}
	return o
}

// floorDiv divides and rounds down, even for negative numbers; rest is never negative.
func floorDiv(a, b int64) (quotient, rest int64) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}
