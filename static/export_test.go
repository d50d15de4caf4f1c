package static

// Strip is for the tests that see the package from outside.
var Strip = strip
