package views

// A chart is one of the pictures of the last minutes; scripts draw it.
type chart struct {
	Metric, Label, Unit string
}

// chartList names the charts by the metrics that the recent past is kept of.
func chartList() []chart {
	return []chart{
		{"utilization_percent", "Utilization", "%"},
		{"memory_percent", "Memory", "%"},
		{"temperature_celsius", "Temperature", "°C"},
		{"power_watts", "Power", "W"},
		{"fan_percent", "Fan", "%"},
		{"sm_clock_mhz", "Clock", "MHz"},
	}
}
