package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// ConventionsVersion is the version of OpenTelemetry's semantic conventions whose hardware names are used. That part of
// them is still in development.
const ConventionsVersion = "1.43.0"

// An Instrument is how OpenTelemetry's conventions describe a metric.
type Instrument struct {
	Unit string // as UCUM writes it
	Sum  bool   // a sum; else a gauge
	// Grows says that a sum only grows.
	Grows bool
	Whole bool // its numbers are whole
}

// Instruments are the instruments by name.
var Instruments = map[string]Instrument{
	"hw.gpu.utilization":        {Unit: "1"},
	"hw.gpu.memory.limit":       {Unit: "By", Sum: true, Whole: true},
	"hw.gpu.memory.usage":       {Unit: "By", Sum: true, Whole: true},
	"hw.gpu.memory.utilization": {Unit: "1"},
	"hw.temperature":            {Unit: "Cel"},
	"hw.temperature.limit":      {Unit: "Cel"},
	"hw.fan.speed":              {Unit: "rpm", Whole: true},
	"hw.fan.speed_ratio":        {Unit: "1"},
	"hw.power":                  {Unit: "W"},
	"hw.energy":                 {Unit: "J", Sum: true, Grows: true},
	"hw.errors":                 {Unit: "{error}", Sum: true, Grows: true, Whole: true},
	"hw.status":                 {Unit: "1", Sum: true, Whole: true},
}

// An otelForm says how a device's metric is written under an OpenTelemetry name.
type otelForm struct {
	name          string
	component     string // what it is of: gpu, fan or temperature
	names, values []string
	sensor        string // which of a component's it is; empty for the only one
	part          string // the attribute that names the part of the device; empty where the part is a component itself
	prefix        string // of that name
	each          func(*device, Emit)
}

// newOTelForms makes the forms of a metric. text is the name in the conventions, with attributes in braces.
func newOTelForms(metric, text string) []otelForm {
	name, attributes, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	if _, ok := Instruments[name]; !ok {
		return nil
	}
	f := otelForm{name: name, component: "gpu"}
	for attribute := range strings.SplitSeq(attributes, ",") {
		if name, value, ok := strings.Cut(attribute, "="); ok && name != "hw.type" {
			f.names, f.values = append(f.names, name), append(f.values, value)
			if name == "hw.sensor_location" {
				f.sensor = value
			}
		}
	}
	switch {
	case strings.HasPrefix(name, "hw.fan."):
		f.component = "fan"
	case strings.HasPrefix(name, "hw.temperature"):
		f.component = "temperature"
	}
	switch metric {
	case "gpuwhy_gpu_xid_errors_total":
		f.part, f.prefix = "error.type", "xid_"
	case "gpuwhy_gpu_fault_errors_total":
		f.part = "error.type"
	case "gpuwhy_gpu_state":
		f.part, f.each = "hw.state", eachStatus
	case "gpuwhy_gpu_memory_used_bytes":
		share := otelForm{name: "hw.gpu.memory.utilization", component: "gpu", each: func(d *device, emit Emit) {
			emit(gpu.Map(d.Memory.Utilization(), func(p gpu.Percent) float64 { return float64(p) / 100 }))
		}}
		return []otelForm{f, share}
	}
	return []otelForm{f}
}

// eachStatus says of the conventions' states which the device is in. One that is asleep is well.
func eachStatus(d *device, emit Emit) {
	well := d.State == gpu.StateOK || d.State == gpu.StateAsleep
	emit(gpu.Of(zeroOne(well)), "ok")
	emit(gpu.Of(zeroOne(!well)), "failed")
}

// otel makes the families of OpenTelemetry's names. Several metrics may have one name, and differ in attributes.
func (b *builder) otel(devices []*device) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	families := map[string]*family{}
	attributes := make([]map[string][]*dto.LabelPair, len(devices)) // by component
	for i := range attributes {
		attributes[i] = map[string][]*dto.LabelPair{}
	}
	for i := range deviceRows {
		r := &deviceRows[i]
		for j := range r.forms {
			form := &r.forms[j]
			f := families[form.name]
			if f == nil {
				f = newFamily(form.name, r.help, Instruments[form.name].Grows, len(devices))
				families[form.name], out = f, append(out, f.out)
			}
			for k, d := range devices {
				if d.State != gpu.StateOK && !r.always {
					continue
				}
				stamp := b.timeOf(r.always, &d.base)
				emit := func(v gpu.Reading[float64], part ...string) {
					n, ok := v.Trusted()
					if !ok {
						return
					}
					component := form.component
					if form.part == "" && len(part) > 0 {
						component += "/" + part[0]
					}
					if form.sensor != "" {
						component += "/" + form.sensor
					}
					labels := attributes[k][component]
					if labels == nil {
						labels = b.component(d.Device, form.component, component)
						attributes[k][component] = labels
					}
					names, values := form.names, form.values
					if form.part != "" {
						names, values = append(slices.Clip(names), form.part), append(slices.Clip(values), form.prefix+part[0])
					}
					f.add(b.labels(labels, names, values), n, stamp)
				}
				if form.each != nil {
					form.each(d, emit)
				} else {
					r.each(d, func(v gpu.Reading[float64], part ...string) { emit(gpu.Map(v, r.unit.ours), part...) })
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(f *dto.MetricFamily) bool { return len(f.GetMetric()) == 0 })
}

// component makes the attributes of a GPU, or of a fan or a sensor in it.
func (b *builder) component(d *gpu.Device, kind, id string) []*dto.LabelPair {
	model := cmp.Or(d.Name, string(d.Vendor))
	if kind == "gpu" {
		return b.labels(nil,
			[]string{"hw.id", "hw.type", "hw.name", "hw.model", "hw.vendor", "hw.serial_number", "hw.driver_version", "hw.firmware_version"},
			[]string{d.UUID, "gpu", "GPU " + strconv.Itoa(d.Index), model, string(d.Vendor), d.Serial.Or(""), d.DriverVersion.Or(""), d.VBIOS.Or("")})
	}
	return b.labels(nil, []string{"hw.id", "hw.type", "hw.name", "hw.parent"},
		[]string{d.UUID + "/" + id, kind, "GPU " + strconv.Itoa(d.Index) + " " + strings.ReplaceAll(id, "/", " "), d.UUID})
}
