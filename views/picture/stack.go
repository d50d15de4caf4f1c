package picture

import (
	"cmp"
	"slices"
)

// A Layer is one user's draw, filled from the floor to its upper edge. The highest layer comes first, and the others cover it.
type Layer struct {
	Key, Hue string // both are [Rest] for the draw of nobody
	Path     string
}

// Rest is the key and the hue of draw that belongs to nobody.
const Rest = "rest"

// A Share is one user's draw by point; NaN if unknown.
type Share struct {
	Key, Hue string
	Watts    []float32
}

// mostLayers is how many users a picture tells apart; the others are merged.
const mostLayers = 8

// Stack divides a draw among users. The bottom layer is draw that belongs to nobody: the idle draw, and draw that can't be
// attributed.
func (s Steps) Stack(draw []float32, shares []Share, scale Scale) (out []Layer) {
	if draw == nil {
		return nil
	}
	shares = fewShares(shares)
	below := make([]float32, len(draw)) // lower edge of the layer
	for i, d := range draw {
		below[i] = d
		for _, share := range shares {
			if w := share.Watts[i]; w == w {
				below[i] -= w
			}
		}
		below[i] = max(below[i], 0)
	}
	out = append(out, Layer{Rest, Rest, s.area(runs(len(draw), known(draw)), below, scale)})
	for _, share := range shares {
		edge := slices.Clone(below)
		for i, w := range share.Watts {
			if w == w {
				edge[i] = min(below[i]+w, draw[i])
			}
		}
		seen := func(i int) bool {
			return edge[i] == edge[i] && scale.steps(float64(edge[i])) > scale.steps(float64(below[i]))
		}
		beside := runs(len(draw), func(i int) bool { // plus a point beside, where the line rises or falls
			return seen(i) || edge[i] == edge[i] && (i > 0 && seen(i-1) || i+1 < len(edge) && seen(i+1))
		})
		if len(beside) > 0 {
			out = append(out, Layer{share.Key, share.Hue, s.area(beside, edge, scale)})
		}
		below = edge
	}
	slices.Reverse(out)
	return slices.DeleteFunc(out, func(l Layer) bool { return l.Path == "" })
}

// Sum adds up known draw, in watts times steps.
func Sum(watts []float32) (sum float64) {
	for _, w := range watts {
		if w == w {
			sum += float64(w)
		}
	}
	return sum
}

// Add adds the known values of more to sum, which must be as long.
func Add(sum, more []float32) {
	for i, v := range more {
		if v == v {
			sum[i] += v
		}
	}
}

// fewShares merges the smallest shares if there are too many.
func fewShares(shares []Share) []Share {
	shares = slices.DeleteFunc(shares, func(s Share) bool { return Sum(s.Watts) <= 0 })
	if len(shares) <= mostLayers {
		return shares
	}
	byEnergy := slices.SortedStableFunc(slices.Values(shares), func(a, b Share) int { return cmp.Compare(Sum(b.Watts), Sum(a.Watts)) })
	least := Sum(byEnergy[mostLayers-2].Watts)
	others := Share{"others", "p6", make([]float32, len(shares[0].Watts))}
	shares = slices.DeleteFunc(shares, func(s Share) bool {
		if Sum(s.Watts) >= least {
			return false
		}
		Add(others.Watts, s.Watts)
		return true
	})
	return append(shares, others)
}
