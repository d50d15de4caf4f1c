package metrics

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A dcgmForm says how a device's metric is written in the DCGM family.
type dcgmForm struct {
	name   string
	counts bool // it is a counter, which DCGM's names do not say
	unit   Unit
	help   string
	value  func(*device) gpu.Reading[float64]
	// part reads an instance instead of the device if MIG mode divides the device. It
	// is nil if instances do not have the reading.
	part func(*gpu.Instance) gpu.Reading[gpu.Bytes]
}

// newDCGMForm returns the form of a reading. It is nil if DCGM has no such metric.
func newDCGMForm(r *catalog.Row) *dcgmForm {
	if r.DCGM == "" {
		return nil
	}
	f := dcgmForms[r.DCGM]
	f.name, f.unit = r.DCGM, units[r.Unit]
	f.counts = r.Unit == catalog.Total || r.Unit == catalog.Joules
	if r.Unit == catalog.Percent && strings.HasPrefix(r.DCGM, "DCGM_FI_PROF_") { // shares are ratios there
		f.unit.dcgmName, f.unit.dcgm = "", f.unit.ours
	}
	if f.value == nil && r.At != nil {
		f.help, f.value = r.Help, func(d *device) gpu.Reading[float64] { return r.Number(d.Device) }
		if f.unit.dcgmName != "" { // DCGM's names don't say it
			f.help += " In " + f.unit.dcgmName + "."
		}
	}
	return &f
}

// dcgmForms are the forms whose value is not just the reading.
var dcgmForms = map[string]dcgmForm{
	"DCGM_FI_DEV_FB_TOTAL":    {part: func(in *gpu.Instance) gpu.Reading[gpu.Bytes] { return in.Memory.Total }},
	"DCGM_FI_DEV_FB_USED":     {part: func(in *gpu.Instance) gpu.Reading[gpu.Bytes] { return in.Memory.Used }},
	"DCGM_FI_DEV_FB_FREE":     {part: func(in *gpu.Instance) gpu.Reading[gpu.Bytes] { return in.Memory.Free }},
	"DCGM_FI_DEV_FB_RESERVED": {part: func(in *gpu.Instance) gpu.Reading[gpu.Bytes] { return in.Memory.Reserved }},
	"DCGM_FI_DEV_FAN_SPEED": {
		help:  "Highest speed that the driver requests of the device's fans. In %.",
		value: func(d *device) gpu.Reading[float64] { return num(d.Fans.Commanded()) },
	},
	"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": {
		help:  "What limits the clocks, as the driver's own bits.",
		value: func(d *device) gpu.Reading[float64] { return gpu.Map(d.Clocks.EventReasons, dcgmReasons) },
	},
	"DCGM_FI_DEV_XID_ERRORS": {
		help:  "Code of the driver's newest error event for the device; 0 if there was none.",
		value: func(d *device) gpu.Reading[float64] { return gpu.Map(d.Health.XIDs, lastXID) },
	},
	"DCGM_FI_PROF_PCIE_TX_BYTES": {
		help:  "PCIe traffic from the device since the previous reading. In bytes/s.",
		value: func(d *device) gpu.Reading[float64] { return counted(d, d.Activity.PCIeSent) },
	},
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": {
		help:  "Flow control digits received with errors, over all NVLinks.",
		value: overLinks(func(l *gpu.Link) gpu.Reading[uint64] { return l.CRCFlit }),
	},
	"DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": {
		help:  "Data received with errors, over all NVLinks.",
		value: overLinks(func(l *gpu.Link) gpu.Reading[uint64] { return l.CRCData }),
	},
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": {
		help:  "Number of resends over all NVLinks.",
		value: overLinks(func(l *gpu.Link) gpu.Reading[uint64] { return l.Replays }),
	},
	"DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": {
		help:  "Number of recoveries over all NVLinks.",
		value: overLinks(func(l *gpu.Link) gpu.Reading[uint64] { return l.Recoveries }),
	},
	"DCGM_FI_PROF_PCIE_RX_BYTES": {
		help:  "PCIe traffic to the device since the previous reading. In bytes/s.",
		value: func(d *device) gpu.Reading[float64] { return counted(d, d.Activity.PCIeReceived) },
	},
}

// overLinks adds a count up over the links that report it.
func overLinks(count func(*gpu.Link) gpu.Reading[uint64]) func(*device) gpu.Reading[float64] {
	return func(d *device) (sum gpu.Reading[float64]) {
		for i := range d.NVLink.Links {
			if n, ok := count(&d.NVLink.Links[i]).Trusted(); ok {
				sum = gpu.Of(sum.Or(0) + float64(n))
			}
		}
		return sum
	}
}

// counted is the traffic by the hardware's counters, which DCGM's names promise. It
// is absent if the driver measured the traffic in another way.
func counted(d *device, r gpu.Reading[gpu.BytesPerSecond]) gpu.Reading[float64] {
	if d.Activity.PCIeMeasured() {
		return gpu.Absent[float64](gpu.NotSupported)
	}
	return num(r)
}

// dcgmReasons are clock event reasons as DCGM's bits, the lowest first.
func dcgmReasons(set gpu.ClockEventReasons) float64 {
	bits := 0
	for i, reason := range []gpu.ClockEventReasons{
		gpu.ReasonIdle, gpu.ReasonApplicationClocks, gpu.ReasonPowerCap, gpu.ReasonHardwareSlowdown, gpu.ReasonSyncBoost,
		gpu.ReasonThermalSlowdown, gpu.ReasonHardwareThermal, gpu.ReasonHardwarePowerBrake, gpu.ReasonDisplayClockSetting,
		gpu.ReasonBoardLimit, gpu.ReasonReliability,
	} {
		if set&reason != 0 {
			bits |= 1 << i
		}
	}
	return float64(bits)
}

// lastXID is the code of the newest error event. It is 0 if there was none.
func lastXID(xids []gpu.XID) float64 {
	var last gpu.XID
	for _, x := range xids {
		if x.Last.After(last.Last) || last.Code == 0 {
			last = x
		}
	}
	return float64(last.Code)
}

// dcgm makes the DCGM_FI_* families, of NVIDIA's devices alone.
func (b *builder) dcgm(devices []*device) {
	for i := range deviceRows {
		r, form := &deviceRows[i], deviceRows[i].dcgm
		if form == nil {
			continue
		}
		f := newFamily(form.name, form.help, form.counts, len(devices))
		for _, d := range devices {
			if d.State != gpu.StateOK && !r.always || d.Vendor != gpu.NVIDIA {
				continue
			}
			stamp := b.timeOf(r.always, &d.base)
			if form.part != nil && len(d.parts) > 0 { // as dcgm-exporter: the parts, not the whole
				for _, p := range d.parts {
					if n, ok := form.part(p.instance).Trusted(); ok {
						f.add(p.labels, form.unit.dcgm(float64(n)), stamp)
					}
				}
				continue
			}
			if n, ok := form.value(d).Trusted(); ok {
				f.add(d.dcgmLabels, form.unit.dcgm(n), stamp)
			}
		}
		b.close(f)
	}
}

// A part is a MIG instance with memory of its own, which compute instances share.
type part struct {
	instance *gpu.Instance
	labels   []*dto.LabelPair
}

// dcgmLabels are in dcgm-exporter's order. Devices that are not live have one more.
func (b *builder) dcgmLabels(d *gpu.Device, profile, id string) []*dto.LabelPair {
	simulated, recorded := "", ""
	switch gpu.KindOf(d.Source) {
	case gpu.Simulated:
		simulated = "true"
	case gpu.Recorded:
		recorded = "true"
	}
	index := ""
	if i, ok := d.VendorIndex.Get(); ok {
		index = "nvidia" + strconv.Itoa(i)
	}
	names := []string{
		"gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID",
		"hostname", "DCGM_FI_DRIVER_VERSION", "simulated", "recorded",
	}
	return b.labels(nil, names, []string{
		strconv.Itoa(d.Index), d.UUID, busID(d.PCI), index, d.Name, profile, id,
		d.Node, d.DriverVersion.Or(""), simulated, recorded,
	})
}

// parts lists the GPU instances of a device.
func (b *builder) parts(d *gpu.Device) []part {
	var out []part
	var seen []int
	for i := range d.Instances {
		in := &d.Instances[i]
		id, ok := in.GPUInstance.Get()
		if !ok || slices.Contains(seen, id) {
			continue
		}
		seen = append(seen, id)
		out = append(out, part{instance: in, labels: b.dcgmLabels(d, profile(in.Profile.Or("")), strconv.Itoa(id))})
	}
	return out
}

// profile is that of the GPU instance: "3g.40gb" of "1c.3g.40gb".
func profile(p string) string {
	if compute, rest, ok := strings.Cut(p, "."); ok && strings.HasSuffix(compute, "c") {
		return rest
	}
	return p
}

// busID is NVML's "00000000:0F:00.0" for the kernel's "0000:0f:00.0".
func busID(pci string) string {
	domain, rest, ok := strings.Cut(pci, ":")
	if !ok {
		return ""
	}
	return strings.Repeat("0", max(0, 8-len(domain))) + strings.ToUpper(domain+":"+rest)
}

// keepName keeps OpenMetrics from adding _total to a counter's name: type "unknown".
func keepName(f *dto.MetricFamily) *dto.MetricFamily {
	if f.GetType() != dto.MetricType_COUNTER || strings.HasSuffix(f.GetName(), "_total") {
		return f
	}
	out := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: dto.MetricType_UNTYPED.Enum()}
	for _, m := range f.GetMetric() {
		out.Metric = append(out.Metric, &dto.Metric{
			Label:   m.GetLabel(),
			Untyped: &dto.Untyped{Value: m.GetCounter().Value},
		})
	}
	return out
}
