package metrics

import (
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// dcgm makes the DCGM_FI_* families: NVIDIA's devices alone, with the labels of
// dcgm-exporter.
func (b *builder) dcgm(devices []*device) {
	for i := range deviceRows {
		r := &deviceRows[i]
		if r.dcgm == nil {
			continue
		}
		value := r.dcgm.value
		if value == nil {
			value = r.value
		}
		f := newFamily(r.dcgm.name, r.dcgmHelp(), r.dcgm.kind, len(devices))
		for _, d := range devices {
			if d.State != gpu.StateOK && !r.always || d.Vendor != gpu.NVIDIA {
				continue
			}
			if r.dcgm.part != nil && len(d.parts) > 0 { // as dcgm-exporter: the parts, not the whole
				for _, p := range d.parts {
					if n, ok := r.dcgm.part(p.instance).Trusted(); ok {
						f.add(p.labels, r.unit.dcgm(n))
					}
				}
				continue
			}
			if n, ok := value(d).Trusted(); ok {
				f.add(d.dcgmLabels, r.unit.dcgm(n))
			}
		}
		b.close(f)
	}
}

// dcgmHelp is the row's help with the unit, which DCGM's names don't say,
// unless the form has help of its own.
func (r *row[T]) dcgmHelp() string {
	if r.dcgm.help != "" {
		return r.dcgm.help
	}
	if r.unit.dcgmName == "" {
		return r.help
	}
	return r.help + " In " + r.unit.dcgmName + "."
}

// A part is a MIG instance with memory of its own. Compute instances that share
// one are one part.
type part struct {
	instance *gpu.Instance
	labels   []*dto.LabelPair
}

// dcgmLabels returns the labels in the order in which dcgm-exporter writes
// them. Simulated devices say so in one more.
func (b *builder) dcgmLabels(d *gpu.Device, profile, id string) []*dto.LabelPair {
	simulated := ""
	if d.Source == gpu.SourceSimulated {
		simulated = "true"
	}
	index := ""
	if i, ok := d.VendorIndex.Get(); ok {
		index = "nvidia" + strconv.Itoa(i)
	}
	names := []string{
		"gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID",
		"hostname", "DCGM_FI_DRIVER_VERSION", "simulated",
	}
	return b.labels(nil, names, []string{
		strconv.Itoa(d.Index), d.UUID, busID(d.PCI), index, d.Name, profile, id,
		d.Node, d.DriverVersion.Or(""), simulated,
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
		out = append(out, part{instance: in, labels: b.dcgmLabels(d, profile(in.Name), strconv.Itoa(id))})
	}
	return out
}

// profile is the GPU instance's part of a MIG device's name: "3g.40gb" of
// "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb".
func profile(name string) string {
	_, p, ok := strings.Cut(name, " MIG ")
	if !ok {
		return ""
	}
	if compute, rest, ok := strings.Cut(p, "."); ok && strings.HasSuffix(compute, "c") {
		return rest
	}
	return p
}

// busID is a PCI address as NVML writes it: "00000000:0F:00.0" for the
// kernel's "0000:0f:00.0".
func busID(pci string) string {
	domain, rest, ok := strings.Cut(pci, ":")
	if !ok {
		return ""
	}
	return strings.Repeat("0", max(0, 8-len(domain))) + strings.ToUpper(domain+":"+rest)
}

// keepName returns a family whose samples OpenMetrics calls as we do: there a
// counter's must end in _total, and would be renamed. Such a one is "unknown".
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

// dcgmMissing are the metrics that dcgm-exporter exports by default and that
// have no reading here, with the reason. They have no series: none is invented.
var dcgmMissing = map[string]string{
	"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "the counters of the links are not read; their traffic is `DCGM_FI_PROF_NVLINK_TX_BYTES` and `…_RX_BYTES`",
	"DCGM_FI_DEV_VGPU_LICENSE_STATUS":    "vGPU licenses are not read",
}
