//go:build soak

package browsertest

// Soak says that tests take their time: "make soak" runs them in full.
const Soak = true
