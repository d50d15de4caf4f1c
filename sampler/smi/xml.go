package smi

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

// longestXML is how much of nvidia-smi -q -x is read: one card's list of supported clocks alone can have 100 KiB.
const longestXML = 8 << 20

// A document is what the XML has and the lines don't have. Older versions have other element names.
type document struct {
	CUDA string       `xml:"cuda_version"`
	GPUs []gpuElement `xml:"gpu"`
}

type gpuElement struct {
	ID           string `xml:"id,attr"`
	UUID         string `xml:"uuid"`
	Name         string `xml:"product_name"`
	Architecture string `xml:"product_architecture"`
	PCI          struct {
		Address  string `xml:"pci_bus_id"`
		Replays  value  `xml:"replay_counter"`
		Sent     value  `xml:"tx_util"`
		Received value  `xml:"rx_util"`
	} `xml:"pci"`
	BAR1    memoryElement `xml:"bar1_memory_usage"`
	Retired struct {
		Single  value `xml:"multiple_single_bit_retirement>retired_count"`
		Double  value `xml:"double_bit_retirement>retired_count"`
		Pending value `xml:"pending_retirement"`
		Older   value `xml:"pending_blacklist"`
	} `xml:"retired_pages"`
	Remapped struct {
		Text          string `xml:",chardata"`
		Correctable   value  `xml:"remapped_row_corr"`
		Uncorrectable value  `xml:"remapped_row_unc"`
		Pending       value  `xml:"remapped_row_pending"`
		Failed        value  `xml:"remapped_row_failure"`
	} `xml:"remapped_rows"`
	Temperature struct {
		Shutdown  value `xml:"gpu_temp_max_threshold"`
		Slowdown  value `xml:"gpu_temp_slow_threshold"`
		MemoryMax value `xml:"gpu_temp_max_mem_threshold"`
		Target    value `xml:"gpu_target_temperature"`
		GPU       value `xml:"gpu_temp"`
		Memory    value `xml:"memory_temp"`
	} `xml:"temperature"`
	MaxVideo  value `xml:"max_clocks>video_clock"`
	MIG       value `xml:"mig_mode>current_mig"`
	Instances struct {
		Text string            `xml:",chardata"`
		List []instanceElement `xml:"mig_device"`
	} `xml:"mig_devices"`
	Virtualization value `xml:"gpu_virtualization_mode>virtualization_mode"`
	Recovery       value `xml:"gpu_recovery_action"`
	Reset          value `xml:"gpu_reset_status>reset_required"`
	DrainAndReset  value `xml:"gpu_reset_status>drain_and_reset_recommended"`
	lineElements
	Processes struct {
		Text string           `xml:",chardata"`
		List []processElement `xml:"process_info"`
	} `xml:"processes"`
}

// lineElements are elements that the lines have, too, for a device whose lines can't be read.
type lineElements struct {
	Serial      string        `xml:"serial"`
	VBIOS       string        `xml:"vbios_version"`
	Fan         value         `xml:"fan_speed"`
	State       value         `xml:"performance_state"`
	Framebuffer memoryElement `xml:"fb_memory_usage"`
	GPUShare    value         `xml:"utilization>gpu_util"`
	MemoryShare value         `xml:"utilization>memory_util"`
	Encoder     value         `xml:"utilization>encoder_util"`
	Decoder     value         `xml:"utilization>decoder_util"`
	JPEG        value         `xml:"utilization>jpeg_util"`
	OFA         value         `xml:"utilization>ofa_util"`
	Graphics    value         `xml:"clocks>graphics_clock"`
	SM          value         `xml:"clocks>sm_clock"`
	MemoryClock value         `xml:"clocks>mem_clock"`
	Video       value         `xml:"clocks>video_clock"`
	MaxGraphics value         `xml:"max_clocks>graphics_clock"`
	MaxSM       value         `xml:"max_clocks>sm_clock"`
	MaxMemory   value         `xml:"max_clocks>mem_clock"`
	Power       powerElement  `xml:"gpu_power_readings"`
	OldPower    powerElement  `xml:"power_readings"`
	ECC         value         `xml:"ecc_mode>current_ecc"`
	ECCPending  value         `xml:"ecc_mode>pending_ecc"`
	Persistent  value         `xml:"persistence_mode"`
	Compute     value         `xml:"compute_mode"`
	Display     value         `xml:"display_active"`
	MIGPending  value         `xml:"mig_mode>pending_mig"`
}

type powerElement struct {
	Draw    value `xml:"power_draw"`
	Instant value `xml:"instant_power_draw"`
	Limit   value `xml:"current_power_limit"`
	Older   value `xml:"enforced_power_limit"`
	Default value `xml:"default_power_limit"`
	Least   value `xml:"min_power_limit"`
	Most    value `xml:"max_power_limit"`
}

type memoryElement struct {
	Total    value `xml:"total"`
	Reserved value `xml:"reserved"`
	Used     value `xml:"used"`
	Free     value `xml:"free"`
}

type instanceElement struct {
	Index           value         `xml:"index"`
	GPUInstance     value         `xml:"gpu_instance_id"`
	ComputeInstance value         `xml:"compute_instance_id"`
	Multiprocessors value         `xml:"device_attributes>shared>multiprocessor_count"`
	Memory          memoryElement `xml:"fb_memory_usage"`
	BAR1            memoryElement `xml:"bar1_memory_usage"`
}

type processElement struct {
	GPUInstance     value `xml:"gpu_instance_id"`
	ComputeInstance value `xml:"compute_instance_id"`
	PID             value `xml:"pid"`
	Type            value `xml:"type"`
	Memory          value `xml:"used_memory"`
}

// parseXML reads the documents in the output, which may have other lines before them. Even with an error it returns what it could read: the
// devices before a cut.
func parseXML(output []byte) (document, error) {
	var doc document
	if i := bytes.Index(output, []byte("<?xml")); i > 0 {
		output = output[i:]
	}
	d := xml.NewDecoder(bytes.NewReader(output))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	inside := false
	for {
		token, err := d.Token()
		if err != nil {
			if inside && len(doc.GPUs) > 0 && errors.Is(err, io.EOF) {
				return doc, nil
			}
			return doc, fmt.Errorf("nvidia-smi -q -x: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			if end, ok := token.(xml.EndElement); ok && end.Name.Local == "nvidia_smi_log" {
				return doc, nil
			}
			continue
		}
		switch start.Name.Local {
		case "nvidia_smi_log":
			inside = true
		case "cuda_version":
			if err := d.DecodeElement(&doc.CUDA, &start); err != nil {
				return doc, fmt.Errorf("nvidia-smi -q -x: %w", err)
			}
		case "gpu":
			var g gpuElement
			if err := d.DecodeElement(&g, &start); err != nil {
				return doc, fmt.Errorf("nvidia-smi -q -x: %w", err)
			}
			doc.GPUs = append(doc.GPUs, g)
		default:
			if err := d.Skip(); err != nil {
				return doc, fmt.Errorf("nvidia-smi -q -x: %w", err)
			}
		}
	}
}

// key is the device's key, as in a [row].
func (g *gpuElement) key() string {
	for _, s := range []string{g.PCI.Address, g.ID} {
		if address, ok := busAddress(value(s)); ok {
			return address
		}
	}
	return strings.TrimSpace(g.UUID)
}

// A details is what the XML said about a device.
type details struct {
	gpuElement
	read      time.Time
	instances []gpu.Instance
}

// fill sets the readings that the lines don't have.
func (x *details) fill(d *gpu.Device) {
	if x.Architecture == "" {
		d.Architecture = gpu.Absent[string](gpu.NotSupported)
	} else {
		d.Architecture = name(value(x.Architecture))
	}
	d.Memory.BAR1Total = mebibytes(x.BAR1.Total)
	d.Memory.BAR1Used = nvidia.Within(mebibytes(x.BAR1.Used), d.Memory.BAR1Total)
	t := &x.Temperature
	d.Thermal.Shutdown, d.Thermal.Slowdown = limit(t.Shutdown), limit(t.Slowdown)
	d.Thermal.MemoryMax, d.Thermal.Target = limit(t.MemoryMax), limit(t.Target)
	d.Clocks.MaxVideo = megahertz(orNone(x.MaxVideo))
	d.PCIe.Replays = count[uint64](orNone(x.PCI.Replays))
	d.Modes.Virtualization = virtualization(orNone(x.Virtualization))
	d.Modes.Instances = gpu.Map(d.Modes.MIG, func(active bool) int {
		if !active {
			return 0
		}
		return len(x.instances)
	})
	if text := value(x.Instances.Text); d.Modes.MIG.Or(false) && len(x.instances) == 0 && text.absent() == gpu.NotPermitted {
		d.Modes.Instances = gpu.Absent[int](gpu.NotPermitted)
	}
	h := &d.Health
	h.RetiredSingleBit, h.RetiredDoubleBit = count[uint64](orNone(x.Retired.Single)), count[uint64](orNone(x.Retired.Double))
	h.RetirementPending = flag(orNone(x.Retired.Pending))
	if x.Retired.Pending == "" {
		h.RetirementPending = flag(orNone(x.Retired.Older))
	}
	h.RemappedCorrectable, h.RemappedUncorrectable = x.rows(x.Remapped.Correctable), x.rows(x.Remapped.Uncorrectable)
	h.RemapPending, h.RemapFailed = flag(orNone(x.Remapped.Pending)), flag(orNone(x.Remapped.Failed))
}

// row fills a row with what the document has of a line's values.
func (x *details) row(r *row) {
	d, e := &r.device, &x.lineElements
	first := func(values ...value) value {
		for _, v := range values {
			if isNumber(v) {
				return v
			}
		}
		return orNone(cmp.Or(values...))
	}
	gpu.Withdraw(&d.Readings, gpu.NotReported) // values that the document lacks
	d.Name, d.Serial, d.VBIOS = name(value(x.Name)).Or(unnamed), name(value(e.Serial)), name(value(e.VBIOS))
	u := &d.Utilization
	u.GPU, u.Memory, u.Encoder, u.Decoder = share(orNone(e.GPUShare)), share(orNone(e.MemoryShare)), share(orNone(e.Encoder)), share(orNone(e.Decoder))
	u.JPEG, u.OFA = share(orNone(e.JPEG)), share(orNone(e.OFA))
	d.Memory = e.Framebuffer.memory()
	d.Thermal.GPU, d.Thermal.Memory = degrees(orNone(x.Temperature.GPU)), degrees(orNone(x.Temperature.Memory))
	setFan(d, orNone(e.Fan))
	now, old := &e.Power, &e.OldPower
	d.Power.Draw = watts(first(now.Draw, now.Instant, old.Draw))
	d.Power.EnforcedLimit = watts(first(now.Limit, now.Older, old.Older, old.Limit))
	d.Power.DefaultLimit = watts(first(now.Default, old.Default))
	d.Power.MinLimit, d.Power.MaxLimit = watts(first(now.Least, old.Least)), watts(first(now.Most, old.Most))
	c := &d.Clocks
	c.Graphics, c.SM, c.Memory, c.Video = megahertz(orNone(e.Graphics)), megahertz(orNone(e.SM)), megahertz(orNone(e.MemoryClock)), megahertz(orNone(e.Video))
	c.MaxGraphics, c.MaxSM, c.MaxMemory = megahertz(orNone(e.MaxGraphics)), megahertz(orNone(e.MaxSM)), megahertz(orNone(e.MaxMemory))
	c.PerformanceState = state(orNone(e.State))
	d.Health.ECCMode, d.Health.ECCModePending = flag(orNone(e.ECC)), flag(orNone(e.ECCPending))
	m := &d.Modes
	m.Persistence, m.Compute, m.DisplayActive = flag(orNone(e.Persistent)), computeMode(orNone(e.Compute)), flag(orNone(e.Display))
	m.MIG, m.MIGPending = flag(orNone(x.MIG)), flag(orNone(e.MIGPending))
	crossCheck(d)
	if e.Fan.isError() {
		r.says = append(r.says, gpu.FaultFanUnreadable)
	}
	r.unread, r.err = "", nil
}

// says returns the recovery that the driver asks for, if the lines have no field for it.
func (x *details) says() (kinds []gpu.FaultKind, known bool) {
	take := func(kind gpu.FaultKind, is bool) {
		if known = known || is; kind != "" {
			kinds = append(kinds, kind)
		}
	}
	take(nvidia.NeedsByWords(string(x.Recovery)))
	take(yes(gpu.FaultNeedsReset)(x.Reset))
	if len(kinds) == 0 {
		take(yes(gpu.FaultNeedsLaterReset)(x.DrainAndReset))
	}
	return kinds, known
}

// limit converts a temperature limit; a missing element is not supported.
func limit(v value) gpu.Reading[gpu.Celsius] { return limitDegrees(orNone(v)) }

// orNone returns a value or, for a missing element, the word for what a product does not have.
func orNone(v value) value {
	if strings.TrimSpace(string(v)) == "" {
		return "N/A"
	}
	return v
}

func (x *details) rows(v value) gpu.Reading[uint64] { return count[uint64](orNone(v)) }

// traffic sets the PCIe traffic, as measured for the document.
func (x *details) traffic(a *gpu.Activity) {
	a.PCIeSent, a.PCIeReceived = kilobytes(orNone(x.PCI.Sent)), kilobytes(orNone(x.PCI.Received))
	if a.PCIeSent.Present() || a.PCIeReceived.Present() {
		a.PCIeMeasuredAt = gpu.Of(x.read.UTC())
	} else {
		a.PCIeMeasuredAt = gpu.Absent[time.Time](a.PCIeSent.Quality())
	}
}

// processes returns the device's processes, without their usage.
func (x *details) processes(d *gpu.Device) gpu.Reading[[]gpu.Process] {
	if text := value(x.Processes.Text); len(x.Processes.List) == 0 && text.plain() != "" && text.plain() != "none" {
		return gpu.Absent[[]gpu.Process](text.absent())
	}
	list := processList{}
	for i := range x.Processes.List {
		e := &x.Processes.List[i]
		pid, ok := pidOf(e.PID)
		if !ok {
			continue
		}
		p := gpu.Process{PID: pid, Type: kindOf(e.Type), Memory: nvidia.Within(memoryOf(e.Memory), d.Memory.Total)}
		p.GPUInstance, p.ComputeInstance = identifier(e.GPUInstance), identifier(e.ComputeInstance)
		none := gpu.Absent[gpu.Percent](gpu.NotSupported)
		p.SM, p.MemoryBandwidth, p.Encoder, p.Decoder, p.Video = none, none, none, none, none
		list.add(p)
	}
	return gpu.Of(list.sorted())
}

// identifier converts the number of an instance; not reported outside MIG mode.
func identifier(v value) gpu.Reading[int] {
	r := count[int](v)
	if !r.Present() {
		return gpu.Reading[int]{}
	}
	return r
}

// An instanceName is what nvidia-smi -L says about one MIG instance.
type instanceName struct{ profile, uuid string }

var (
	listedGPU = lazy.Pattern(`^GPU (\d+): .*\(UUID: ([^)\s]+)\)\s*$`)
	listedMIG = lazy.Pattern(`^\s+MIG (\S+)\s+Device\s+(\d+):\s+\(UUID: (MIG-[^)\s]+)\)\s*$`)
	// A profile's name contains its slices: 1c.3g.20gb is one of three.
	slicesOf = lazy.Pattern(`^(?:(\d)c\.)?(\d)g\.`)
)

// parseList reads the output of nvidia-smi -L: the instances of each device, by the device's UUID and the instance's number.
func parseList(output string) map[string]map[string]instanceName {
	all := map[string]map[string]instanceName{}
	uuid := ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if m := listedGPU().FindStringSubmatch(line); m != nil {
			uuid = m[2]
			all[uuid] = map[string]instanceName{}
		} else if m := listedMIG().FindStringSubmatch(line); m != nil && uuid != "" {
			all[uuid][m[2]] = instanceName{profile: clean(m[1]), uuid: clean(m[3])}
		}
	}
	return all
}

// setInstances joins the XML's instances and their names into one list. An instance without a UUID gets the one that drivers before the 470
// series used.
func (x *details) setInstances(names map[string]instanceName, device string) {
	for _, e := range x.Instances.List {
		gi, ci := count[int](e.GPUInstance), count[int](e.ComputeInstance)
		in := gpu.Instance{
			UUID: fmt.Sprintf("MIG-%s/%d/%d", strings.TrimSpace(x.UUID), gi.Or(0), ci.Or(0)), Name: "MIG instance",
			GPUInstance: gi, ComputeInstance: ci, Memory: e.Memory.memory(),
			Multiprocessors: count[int](orNone(e.Multiprocessors)),
		}
		for _, r := range []any{&in.MemorySlices, &in.ComputeSliceCount, &in.Engine, &in.SM, &in.Tensor, &in.MemoryBandwidth} {
			gpu.Withdraw(r, gpu.NotSupported)
		}
		in.Memory.BAR1Total = mebibytes(orNone(e.BAR1.Total))
		in.Memory.BAR1Used = nvidia.Within(mebibytes(orNone(e.BAR1.Used)), in.Memory.BAR1Total)
		if n, known := names[strings.TrimSpace(string(e.Index))]; known {
			in.UUID, in.Name, in.Profile = n.uuid, device+" MIG "+n.profile, gpu.Of(n.profile)
			if m := slicesOf().FindStringSubmatch(n.profile); m != nil {
				in.MemorySlices, in.ComputeSliceCount = count[int](value(m[2])), count[int](value(m[2]))
				if m[1] != "" {
					in.ComputeSliceCount = count[int](value(m[1]))
				}
			}
		}
		x.instances = append(x.instances, in)
	}
}

func (e *memoryElement) memory() gpu.Memory {
	m := gpu.Memory{Total: mebibytes(orNone(e.Total))}
	m.Used, m.Free = nvidia.Within(mebibytes(orNone(e.Used)), m.Total), nvidia.Within(mebibytes(orNone(e.Free)), m.Total)
	m.Reserved = nvidia.Within(mebibytes(orNone(e.Reserved)), m.Total)
	return m
}
