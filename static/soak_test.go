//go:build !race && soak

package static_test

import (
	"fmt"
	"testing"
)

// Long walks, of several seeds.
func TestSoakThePageIsTheServedPage(t *testing.T) {
	t.Parallel()
	for i, page := range walked {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("page %s, seed %d", page, seed), func(t *testing.T) {
				t.Parallel()
				staysTheSame(t, page, 100+10*seed+uint64(i), 300)
			})
		}
	}
}

func TestSoakPagesDoNotGrow(t *testing.T) {
	t.Parallel()
	doesNotGrow(t, "", 10_000)
}
