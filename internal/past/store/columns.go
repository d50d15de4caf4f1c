package store

import (
	"math"
	"slices"
	"strings"

	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A Column is one quantity of a row.
type Column struct {
	Name  string // of the column in a table, such as "power_draw"
	Unit  string // for people; empty for a plain number
	Label string // for people
	// Scale is how many of the numbers in a table make one unit: 1000 for watts, which are kept in milliwatts. A value has
	// that resolution.
	Scale float64
	Kept  string // its name in package recent; empty where that does not keep it
	Spans bool   // it is also in rows of spans
	Total bool   // it counts since a beginning: only its growth means something
}

// Columns are the quantities of the rows of one kind.
type Columns []Column

// The columns of devices and of machines, from the catalog.
var (
	DeviceColumns  = deviceColumns()
	MachineColumns = machineColumns()
)

// Readings are the catalog's rows of the columns of [DeviceColumns], in their order.
var Readings = slices.DeleteFunc(slices.Collect(catalog.All()), func(r *catalog.Row) bool { return r.Past == catalog.Forgotten })

// ReadSeconds is the column of [DeviceColumns] that is no quantity of the device, the last one: for how many seconds a reading stands. That
// is the time since the reading before it, as far as gpuwhy looked in it: 0 for the first one after a start or a gap, and 30 s or two
// and a half intervals at most. It is absent of a device that did not answer, and of what an earlier gpuwhy wrote. The readings of a
// span stand for its mean times their number.
var ReadSeconds = len(Readings)

func deviceColumns() (out Columns) {
	for _, r := range Readings {
		out = append(out, Column{
			Name: strings.ReplaceAll(r.ID, ".", "_"), Unit: r.Unit.String(), Label: r.Label, Scale: scale(r.Unit), Kept: r.Kept,
			Spans: r.Past == catalog.InSpans, Total: r.Unit == catalog.Total || r.Unit == catalog.Joules,
		})
	}
	return append(out, Column{Name: "read_seconds", Unit: "s", Label: "Time read", Scale: 1000, Spans: true})
}

func machineColumns() (out Columns) {
	for i := range catalog.OfHost {
		r := &catalog.OfHost[i]
		out = append(out, Column{Name: r.Kept, Unit: r.Unit, Label: r.Label, Scale: 1000, Kept: r.Kept, Spans: true})
	}
	return out
}

// scale is the resolution that is kept of a unit. What drivers report is not finer, but for joules, which come in thousandths.
func scale(u catalog.Unit) float64 {
	switch u {
	case catalog.Percent, catalog.Celsius:
		return 100
	case catalog.Watts:
		return 1000
	case catalog.Bytes, catalog.BytesPerSecond:
		return 1. / 1024 // memory comes in pages of 4 KiB, and traffic in kilobytes
	default:
		return 1
	}
}

// Find is the number of the column with that name, which may also be that of package recent; less than 0: there is none.
func (c Columns) Find(name string) int {
	return slices.IndexFunc(c, func(c Column) bool { return c.Name == name || c.Kept != "" && c.Kept == name })
}

// Names are how the columns are asked for.
func (c Columns) Names() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

// Number is what a table has for a value: how many 1/Scale it is. ok is false for what no table holds: what is
// not a number, or too large.
func (c *Column) Number(v float64) (n int64, ok bool) {
	scaled := math.Round(v * c.Scale)
	return int64(scaled), math.Abs(scaled) < 1<<63
}

// Value is the value of such a number.
func (c *Column) Value(n int64) float64 { return float64(n) / c.Scale }

// Doubtful lists the columns of a reading whose values are doubtful, for a table: their names with commas between
// them, so that a later catalog reads them. It is empty where there is none.
func (c Columns) Doubtful(values []Value) string {
	var names []string
	for i := range min(len(c), len(values)) {
		if values[i].Doubtful && values[i].Count > 0 {
			names = append(names, c[i].Name)
		}
	}
	return strings.Join(names, ",")
}

// Doubt marks what such a list names. Columns that are not known any more are left out.
func (c Columns) Doubt(values []Value, list string) {
	if list == "" {
		return
	}
	for name := range strings.SplitSeq(list, ",") {
		if i := c.Find(name); i >= 0 {
			values[i].Doubtful = values[i].Count > 0
		}
	}
}
