package gpu

// The units of readings.
type (
	// Percent is a share of a whole, 0 to 100. Only a fan's commanded speed may
	// pass 100: its scale is the maker's noise limit.
	Percent         float64
	Bytes           uint64
	Celsius         float64
	Watts           float64
	Joules          float64
	Megahertz       float64
	RPM             float64 // revolutions of a fan per minute
	BytesPerSecond  float64
	FramesPerSecond float64
	Microseconds    float64
)

// MiB returns the amount in units of 2^20 bytes, as the drivers' own tools
// print it.
func (b Bytes) MiB() float64 { return float64(b) / (1 << 20) }
