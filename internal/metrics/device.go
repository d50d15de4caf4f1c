package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/gpu/catalog"
)

// A device is one in a snapshot, with what all its series share.
type device struct {
	*gpu.Device
	groups []group
	base   // of our family
	// Of the DCGM family; the parts are those of MIG mode.
	dcgmLabels []*dto.LabelPair
	parts      []part
}

// devices prepares the nodes' devices. It takes a device that is listed twice only
// once, since two equal series spoil the answer.
func (b *builder) devices(nodes gpu.Nodes, dcgm bool) []*device {
	var out []*device
	type key struct{ node, uuid string }
	seen := map[key]bool{}
	for _, s := range nodes {
		told := b.time(s.Time)
		for i := range s.Devices {
			d := &device{Device: &s.Devices[i], base: base{read: told, told: told}}
			if k := (key{d.Node, d.UUID}); seen[k] {
				continue
			} else {
				seen[k] = true
			}
			if !d.SampledAt.IsZero() {
				d.read = b.time(d.SampledAt)
			}
			d.groups = groupsOf(d.Processes.Or(nil))
			d.labels = []*dto.LabelPair{b.pair("node", d.Node), b.pair("uuid", d.UUID)}
			if dcgm {
				d.dcgmLabels = b.dcgmLabels(d.Device, "", "")
				d.parts = b.parts(d.Device)
			}
			out = append(out, d)
		}
	}
	return out
}

// deviceRows are the metrics of a device, as docs/metrics.md lists them.
var deviceRows = newDeviceRows()

func newDeviceRows() []Row[*device] {
	rows := stateRows
	for r := range catalog.All() {
		if r.ID == "instance.memory.total" {
			rows = append(rows, instanceRow)
		}
		if r.Metric != "" {
			rows = append(rows, fromCatalog(r))
		}
	}
	return append(rows, processRows...)
}

// partLabels name the label of a part, by the list that the part is in.
var partLabels = map[string]string{"fans": "fan", "health.xids": "xid", "health.faults": "kind", "nvlink.links": "link", "instances": "mig_uuid"}

// gpm writes the metrics of NVML's GPU performance monitoring with their full names.
var gpm = strings.NewReplacer(" (", ": NVML_GPM_METRIC_", ")", "")

// fromCatalog is the metric of a reading.
func fromCatalog(r *catalog.Row) Row[*device] {
	out := Row[*device]{
		name: r.Metric, unit: units[r.Unit], help: r.Help, absent: r.Absent, otel: r.OTel, always: r.Always, forms: newOTelForms(r.Metric, r.OTel),
		source: gpm.Replace(cmp.Or(r.From.Of(gpu.SourceNVML), r.From.Of(gpu.SourceAMD))), dcgm: newDCGMForm(r),
	}
	if r.Measured != nil {
		out.source += "; " + r.Measured.Of(gpu.SourceNVML)
		out.readAt = func(d *device) time.Time { return d.Activity.PCIeMeasuredAt.Or(time.Time{}) }
	}
	switch {
	case r.List != "":
		out.labels = []string{partLabels[r.List]}
		out.each = func(d *device, emit Emit) {
			r.Visit(d.Device, func(part string, ref catalog.Ref) {
				if r.ID == "fault.count" && gpu.FaultKind(part).Stands() {
					return // it ends, and a counter never falls
				}
				emit(catalog.Number(ref), part)
			})
		}
	case r.ID == "health.faults":
		out.each = func(d *device, emit Emit) { emit(gpu.Map(d.Health.Faults, countEvents)) }
	case r.Unit == catalog.Reasons:
		out.labels, out.each = []string{"reason"}, eachReason
	case r.Unit == catalog.Text: // the label says it
		out.labels = []string{"mode"}
		out.each = func(d *device, emit Emit) {
			text := r.At(d.Device).(*gpu.Reading[string])
			emit(catalog.Number(text), text.Or(""))
		}
	default:
		out.each = func(d *device, emit Emit) { emit(r.Number(d.Device)) }
	}
	return out
}

var states = []gpu.State{gpu.StateOK, gpu.StateNotAnswering, gpu.StateLost, gpu.StateAsleep}

// stateRows are also about devices that are not ok.
var stateRows = []Row[*device]{
	{
		name: "gpuwhy_gpu_info", always: true, unit: Number,
		labels: []string{"gpu", "name", "vendor", "source", "pci_bus_id", "driver_version", "architecture", "vbios", "serial"},
		help:   "Identity of a device: gpu is its index; source is simulated for a made-up device and recorded for a recording. Always 1.",
		source: "nvmlDeviceGetName and others",
		otel:   "hw.id, hw.name, hw.vendor, hw.serial_number, hw.driver_version, hw.firmware_version",
		each: func(d *device, emit Emit) {
			emit(one, strconv.Itoa(d.Index), d.Name, string(d.Vendor), d.Source, d.PCI,
				d.DriverVersion.Or(""), d.Architecture.Or(""), d.VBIOS.Or(""), d.Serial.Or(""))
		},
	},
	{
		name: "gpuwhy_gpu_state", always: true, unit: YesNo, labels: []string{"state"}, otel: "hw.status",
		forms: newOTelForms("gpuwhy_gpu_state", "hw.status"),
		help:  "Whether the device is in this state: ok, not_answering, lost or asleep.",
		each: func(d *device, emit Emit) {
			for _, s := range states {
				emit(gpu.Of(zeroOne(d.State == s)), string(s))
			}
		},
	},
}

var instanceRow = Row[*device]{
	name: "gpuwhy_gpu_mig_info", unit: Number, labels: []string{"mig_uuid", "name", "gpu_instance", "compute_instance"},
	help: "A MIG instance of the device. Always 1.", absent: "MIG mode is off",
	source: "nvmlDeviceGetMigDeviceHandleByIndex", otel: "hw.parent",
	each: Each(func(d *device) []gpu.Instance { return d.Instances }, func(in *gpu.Instance, emit Emit) {
		emit(one, in.UUID, in.Name, id(in.GPUInstance), id(in.ComputeInstance))
	}),
}

const noProcess = "the driver can't list processes, or there are none"

// processRows are about the processes on a device, by name and user.
var processRows = []Row[*device]{
	ofGroups("gpuwhy_gpu_process_pids", Number, "Processes of this name and user on the device.",
		noProcess, "as above, /proc", func(g *group) gpu.Reading[float64] { return gpu.Of(float64(g.pids)) }),
	ofGroups("gpuwhy_gpu_process_memory_bytes", Bytes,
		"Device memory held by processes of this name and user, as far as the driver reports it.",
		noProcess+", or does not report it for any of them", "as above, /proc",
		func(g *group) gpu.Reading[float64] { return g.memory }),
	ofGroups("gpuwhy_gpu_process_sm_ratio", percent, "Share of the SMs' time used by processes of this name and user.",
		noProcess+", or takes no samples", "nvmlDeviceGetProcessUtilization",
		func(g *group) gpu.Reading[float64] { return g.sm }),
}

func ofGroups(name string, u Unit, help, absent, source string, value func(*group) gpu.Reading[float64]) Row[*device] {
	return Row[*device]{
		name: name, unit: u, help: help, absent: absent, source: source, labels: []string{"name", "user"},
		each: Each(func(d *device) []group { return d.groups }, func(g *group, emit Emit) { emit(value(g), g.name, g.user) }),
	}
}

// doubtfulRow gets its series from all other rows.
var doubtfulRow = Row[*device]{
	name: "gpuwhy_gpu_reading_doubtful", unit: YesNo, labels: []string{"metric"},
	help:   "The device reported an impossible value for this metric, so the metric has no series. Always 1.",
	absent: "no value of the metric is doubtful",
}

// countEvents counts faults without those that stand: they end, and a counter never falls.
func countEvents(list []gpu.Fault) float64 {
	n := uint64(0)
	for _, f := range list {
		if !f.Kind.Stands() {
			n += f.Count
		}
	}
	return float64(n)
}

var allReasons = (^gpu.ClockEventReasons(0)).Names()

// eachReason says of every clock event reason whether the device has it now.
func eachReason(d *device, emit Emit) {
	names := gpu.Map(d.Clocks.EventReasons, gpu.ClockEventReasons.Names)
	for _, name := range allReasons {
		emit(gpu.Map(names, func(held []string) float64 { return zeroOne(slices.Contains(held, name)) }), name)
	}
}

func id(r gpu.Reading[int]) string {
	if v, ok := r.Get(); ok {
		return strconv.Itoa(v)
	}
	return ""
}
