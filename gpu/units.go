package gpu

// Percent is a share of a whole, 0 to 100. Only a fan's commanded speed may
// exceed 100: its scale is the maker's noise limit.
type Percent float64

// Bytes is an amount of memory or data.
type Bytes uint64

// MiB returns the amount in units of 2^20 bytes, as the drivers' own tools
// print it.
func (b Bytes) MiB() float64 { return float64(b) / (1 << 20) }

// Celsius is a temperature.
type Celsius float64

// Watts is a power.
type Watts float64

// Joules is an energy.
type Joules float64

// Megahertz is a clock frequency.
type Megahertz float64

// RPM is a fan's revolutions per minute.
type RPM float64

// BytesPerSecond is a data rate.
type BytesPerSecond float64

// FramesPerSecond is a video's frame rate.
type FramesPerSecond float64

// Microseconds is a short duration.
type Microseconds float64
