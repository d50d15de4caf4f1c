//go:build !race && !soak

package method_test

// familySeeds is how many series of each family are played, and familyShare is which part of the intervals must hold.
const (
	familySeeds = 3
	familyShare = 0.6 // of so few it is only known roughly
)
