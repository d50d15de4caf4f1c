//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
)

// A group is a function that reads some readings, as often as they can change.
type group struct {
	name  string
	every time.Duration // 0: at each reading
	read  func(d *device, r *gpu.Readings)
}

const (
	sometimes = 10 * time.Second
	seldom    = time.Minute
)

// groups are all readings of a device. The rare ones come first, since other groups
// compare their readings with them.
var groups = []group{
	{"identity", seldom, func(d *device, _ *gpu.Readings) { d.identify() }},
	{"power limits", seldom, readPowerLimits},
	{"thresholds", seldom, readThresholds},
	{"maximal clocks", seldom, readMaxClocks},
	{"maximal link", seldom, readMaxLink},
	{"BAR1", seldom, readBAR1},
	{"retired pages", seldom, readRetiredPages},

	{"ECC", sometimes, readECC},
	{"remapped rows", sometimes, readRemappedRows},
	{"modes", sometimes, readModes},
	{"fan policies", sometimes, readFanPolicies},
	{"MIG instances", sometimes, readInstances},

	{"utilization", 0, readUtilization},
	{"encoding", 0, readEncoding},
	{"activity", 0, readActivity},
	{"PCIe traffic", 0, readTraffic},
	{"memory", 0, readMemory},
	{"temperature", 0, readTemperature},
	{"fans", 0, readFans},
	{"power", 0, readPower},
	{"clocks", 0, readClocks},
	{"link", 0, readLink},
	{"instance memory", 0, readInstanceMemory},
	{"processes", 0, readProcesses},
	{"XIDs", 0, readXIDs},
}

func readUtilization(d *device, r *gpu.Readings) {
	rates, c := ask(&d.handle, "nvmlDeviceGetUtilizationRates", nvml.Device.GetUtilizationRates)
	r.Utilization = gpu.Utilization{
		GPU:     converted(rates.Gpu, c, share),
		Memory:  converted(rates.Memory, c, share),
		Encoder: reading(&d.handle, "nvmlDeviceGetEncoderUtilization", first(nvml.Device.GetEncoderUtilization), share),
		Decoder: reading(&d.handle, "nvmlDeviceGetDecoderUtilization", first(nvml.Device.GetDecoderUtilization), share),
		JPEG:    reading(&d.handle, "nvmlDeviceGetJpgUtilization", first(nvml.Device.GetJpgUtilization), share),
		OFA:     reading(&d.handle, "nvmlDeviceGetOfaUtilization", first(nvml.Device.GetOfaUtilization), share),
	}
}

func readEncoding(d *device, r *gpu.Readings) {
	type stats struct {
		sessions           int
		frameRate, latency uint32
	}
	v, c := ask(&d.handle, "nvmlDeviceGetEncoderStats", func(dev nvml.Device) (v stats, ret nvml.Return) {
		v.sessions, v.frameRate, v.latency, ret = dev.GetEncoderStats()
		return v, ret
	})
	r.Encoding = gpu.Encoding{
		Sessions:  within(converted(v.sessions, c, plain[int]), gpu.Of(mostSessions)),
		FrameRate: within(converted(v.frameRate, c, plain[gpu.FramesPerSecond]), gpu.Of(fastestVideo)),
		Latency:   within(converted(v.latency, c, plain[gpu.Microseconds]), gpu.Of(longestLatency)),
	}
}

func readMemory(d *device, r *gpu.Readings) {
	bar1Total, bar1Used := r.Memory.BAR1Total, r.Memory.BAR1Used
	r.Memory = memoryOf(&d.handle)
	r.Memory.BAR1Total, r.Memory.BAR1Used = bar1Total, bar1Used
}

// memoryOf asks the function that does not count the driver's own reserve as used, as
// nvidia-smi does. Older drivers have only the one that does.
func memoryOf(h *handle) gpu.Memory {
	m, c := ask(h, "nvmlDeviceGetMemoryInfo_v2", nvml.Device.GetMemoryInfo_v2)
	reserved := converted(m.Reserved, c, plain[gpu.Bytes])
	if c.older() {
		var v1 nvml.Memory
		v1, c = ask(h, "nvmlDeviceGetMemoryInfo", nvml.Device.GetMemoryInfo)
		m.Total, m.Used, m.Free = v1.Total, v1.Used, v1.Free
	}
	total := within(converted(m.Total, c, plain[gpu.Bytes]), gpu.Of(mostMemory))
	return gpu.Memory{
		Total:    total,
		Used:     within(converted(m.Used, c, plain[gpu.Bytes]), total),
		Free:     within(converted(m.Free, c, plain[gpu.Bytes]), total),
		Reserved: within(reserved, total),
	}
}

func readBAR1(d *device, r *gpu.Readings) {
	m, c := ask(&d.handle, "nvmlDeviceGetBAR1MemoryInfo", nvml.Device.GetBAR1MemoryInfo)
	r.Memory.BAR1Total = converted(m.Bar1Total, c, plain[gpu.Bytes])
	r.Memory.BAR1Used = within(converted(m.Bar1Used, c, plain[gpu.Bytes]), r.Memory.BAR1Total)
}

func readTemperature(d *device, r *gpu.Readings) {
	h := &d.handle
	t, c := ask(h, "nvmlDeviceGetTemperatureV", func(dev nvml.Device) (nvml.Temperature, nvml.Return) {
		return dev.GetTemperatureV().V1()
	})
	if c.older() {
		var old uint32
		old, c = ask(h, "nvmlDeviceGetTemperature", at(nvml.TEMPERATURE_GPU, nvml.Device.GetTemperature))
		t.Temperature = int32(old)
	}
	margin := func(m nvml.MarginTemperature) gpu.Reading[gpu.Celsius] {
		if m.MarginTemperature == -1 { // a margin may be negative
			return gpu.Of(gpu.Celsius(-1))
		}
		return degrees(int64(m.MarginTemperature))
	}
	r.Thermal.GPU = converted(int64(t.Temperature), c, degrees)
	r.Thermal.HotSpot = gpu.Absent[gpu.Celsius](gpu.NotSupported) // NVML has no call for it
	r.Thermal.Memory = memoryTemperature(h)
	r.Thermal.Margin = reading(h, "nvmlDeviceGetMarginTemperature", nvml.Device.GetMarginTemperature, margin)
}

// memoryTemperature asks for a numbered field, the only one that is read. Its number
// has 32 bits.
func memoryTemperature(h *handle) gpu.Reading[gpu.Celsius] {
	v, c := ask(h, "nvmlDeviceGetFieldValues", func(dev nvml.Device) (nvml.FieldValue, nvml.Return) {
		one := []nvml.FieldValue{{FieldId: nvml.FI_DEV_MEMORY_TEMP}}
		ret := dev.GetFieldValues(one)
		return one[0], ret
	})
	if c == success {
		c = code(v.NvmlReturn)
	}
	return converted(v, c, fieldDegrees)
}

// fieldDegrees is not reported where the field has an unexpected type.
func fieldDegrees(v nvml.FieldValue) gpu.Reading[gpu.Celsius] {
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT, nvml.VALUE_TYPE_SIGNED_INT:
		return degrees(int64(int32(binary.NativeEndian.Uint32(v.Value[:]))))
	default:
		return gpu.Reading[gpu.Celsius]{}
	}
}

func readThresholds(d *device, r *gpu.Readings) {
	threshold := func(which nvml.TemperatureThresholds) gpu.Reading[gpu.Celsius] {
		return reading(&d.handle, "nvmlDeviceGetTemperatureThreshold", at(which, nvml.Device.GetTemperatureThreshold), limitDegrees)
	}
	r.Thermal.Shutdown = threshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN)
	r.Thermal.Slowdown = threshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	r.Thermal.MemoryMax = threshold(nvml.TEMPERATURE_THRESHOLD_MEM_MAX)
	r.Thermal.Target = threshold(nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_CURR)
}

// limitDegrees is a limit: 0 stands for none.
func limitDegrees(v uint32) gpu.Reading[gpu.Celsius] {
	if v == 0 {
		return gpu.Absent[gpu.Celsius](gpu.NotSupported)
	}
	return degrees(int64(int32(v)))
}

// readFans reads the speeds of each fan, and keeps its policy, which is read less
// often.
func readFans(d *device, r *gpu.Readings) {
	h := &d.handle
	before := r.Fans.Fans
	r.Fans = gpu.Fans{Count: fanCount(h)}
	for i := range r.Fans.Count.Or(0) {
		fan := gpu.Fan{
			Commanded: reading(h, "nvmlDeviceGetFanSpeed_v2", at(i, nvml.Device.GetFanSpeed_v2), speed),
			RPM:       fanRPM(h, i),
			Target:    reading(h, "nvmlDeviceGetTargetFanSpeed", at(i, nvml.Device.GetTargetFanSpeed), speed),
		}
		if !fan.Commanded.Present() && i == 0 {
			fan.Commanded = reading(h, "nvmlDeviceGetFanSpeed", nvml.Device.GetFanSpeed, speed)
		}
		if i < len(before) {
			fan.Policy = before[i].Policy
		} else {
			fan.Policy = fanPolicy(h, i)
		}
		r.Fans.Fans = append(r.Fans.Fans, fan)
	}
}

// fanCount is the number of fans. A driver that can't count fans can still report the
// speed of the first one.
func fanCount(h *handle) gpu.Reading[int] {
	const most = 16
	n, c := ask(h, "nvmlDeviceGetNumFans", nvml.Device.GetNumFans)
	if c == functionNotFound {
		if _, c = ask(h, "nvmlDeviceGetFanSpeed", nvml.Device.GetFanSpeed); c == success {
			n = 1
		}
	}
	return converted(n, c, func(n int) gpu.Reading[int] { return reported(n >= 0 && n <= most, n) })
}

func fanRPM(h *handle, i int) gpu.Reading[gpu.RPM] {
	v, c := askRaw(h, "nvmlDeviceGetFanSpeedRPM", func(function, device unsafe.Pointer) (uint32, code) {
		return rawFanRPM(function, device, i)
	})
	return within(converted(v, c, plain[gpu.RPM]), gpu.Of(fastestFan))
}

func readFanPolicies(d *device, r *gpu.Readings) {
	for i := range r.Fans.Fans {
		r.Fans.Fans[i].Policy = fanPolicy(&d.handle, i)
	}
}

func fanPolicy(h *handle, i int) gpu.Reading[string] {
	return reading(h, "nvmlDeviceGetFanControlPolicy_v2", at(i, nvml.Device.GetFanControlPolicy_v2), policyName)
}

var policyName = named(map[nvml.FanControlPolicy]string{
	nvml.FAN_POLICY_TEMPERATURE_CONTINOUS_SW: "automatic", //nolint:misspell // the driver's own spelling
	nvml.FAN_POLICY_MANUAL:                   "manual",
})

func readPower(d *device, r *gpu.Readings) {
	h := &d.handle
	r.Power.Draw = plausible(reading(h, "nvmlDeviceGetPowerUsage", nvml.Device.GetPowerUsage, watts), r.Power.MaxLimit)
	r.Power.EnforcedLimit = reading(h, "nvmlDeviceGetEnforcedPowerLimit", nvml.Device.GetEnforcedPowerLimit, watts)
	r.Power.Energy = reading(h, "nvmlDeviceGetTotalEnergyConsumption", nvml.Device.GetTotalEnergyConsumption, joules)
}

// plausible marks a power as doubtful that is far above the most that the device may
// draw. Short peaks above the limit are real.
func plausible(draw, most gpu.Reading[gpu.Watts]) gpu.Reading[gpu.Watts] {
	const far = 2
	v, ok := draw.Get()
	limit, known := most.Get()
	if ok && known && limit > 0 && v > far*limit {
		return gpu.DoubtfulOf(v)
	}
	return draw
}

func readPowerLimits(d *device, r *gpu.Readings) {
	h := &d.handle
	r.Power.DefaultLimit = reading(h, "nvmlDeviceGetPowerManagementDefaultLimit", nvml.Device.GetPowerManagementDefaultLimit, watts)
	limits, c := ask(h, "nvmlDeviceGetPowerManagementLimitConstraints", both(nvml.Device.GetPowerManagementLimitConstraints))
	r.Power.MinLimit = converted(limits.a, c, watts)
	r.Power.MaxLimit = converted(limits.b, c, watts)
}

func readClocks(d *device, r *gpu.Readings) {
	h := &d.handle
	clock := func(which nvml.ClockType) gpu.Reading[gpu.Megahertz] {
		return reading(h, "nvmlDeviceGetClockInfo", at(which, nvml.Device.GetClockInfo), clockRate)
	}
	r.Clocks.Graphics = clock(nvml.CLOCK_GRAPHICS)
	r.Clocks.SM = clock(nvml.CLOCK_SM)
	r.Clocks.Memory = clock(nvml.CLOCK_MEM)
	r.Clocks.Video = clock(nvml.CLOCK_VIDEO)
	r.Clocks.PerformanceState = reading(h, "nvmlDeviceGetPerformanceState", nvml.Device.GetPerformanceState, performanceState)
	r.Clocks.EventReasons = eventReasons(h)
}

func performanceState(p nvml.Pstates) gpu.Reading[int] {
	return reported(p >= nvml.PSTATE_0 && p <= nvml.PSTATE_15, int(p))
}

func eventReasons(h *handle) gpu.Reading[gpu.ClockEventReasons] {
	bits, c := ask(h, "nvmlDeviceGetCurrentClocksEventReasons", nvml.Device.GetCurrentClocksEventReasons)
	if c.older() {
		bits, c = ask(h, "nvmlDeviceGetCurrentClocksThrottleReasons", nvml.Device.GetCurrentClocksThrottleReasons)
	}
	return converted(bits, c, func(bits uint64) gpu.Reading[gpu.ClockEventReasons] {
		if !known(bits) {
			return gpu.Absent[gpu.ClockEventReasons](gpu.NotReported)
		}
		var set gpu.ClockEventReasons
		for _, r := range reasons {
			if bits&r.bit != 0 {
				set |= r.reason
			}
		}
		return gpu.Of(set)
	})
}

// reasons translates NVML's bits.
var reasons = []struct {
	bit    uint64
	reason gpu.ClockEventReasons
}{
	{nvml.ClocksEventReasonGpuIdle, gpu.ReasonIdle},
	{nvml.ClocksEventReasonApplicationsClocksSetting, gpu.ReasonApplicationClocks},
	{nvml.ClocksEventReasonSwPowerCap, gpu.ReasonPowerCap},
	{nvml.ClocksThrottleReasonHwSlowdown, gpu.ReasonHardwareSlowdown},
	{nvml.ClocksEventReasonSyncBoost, gpu.ReasonSyncBoost},
	{nvml.ClocksEventReasonSwThermalSlowdown, gpu.ReasonThermalSlowdown},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, gpu.ReasonHardwareThermal},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, gpu.ReasonHardwarePowerBrake},
	{nvml.ClocksEventReasonDisplayClockSetting, gpu.ReasonDisplayClockSetting},
	{nvml.ClocksEventReasonBoardLimit, gpu.ReasonBoardLimit},
	{nvml.ClocksEventReasonReliability, gpu.ReasonReliability},
}

func readMaxClocks(d *device, r *gpu.Readings) {
	clock := func(which nvml.ClockType) gpu.Reading[gpu.Megahertz] {
		return reading(&d.handle, "nvmlDeviceGetMaxClockInfo", at(which, nvml.Device.GetMaxClockInfo), clockRate)
	}
	r.Clocks.MaxGraphics = clock(nvml.CLOCK_GRAPHICS)
	r.Clocks.MaxSM = clock(nvml.CLOCK_SM)
	r.Clocks.MaxMemory = clock(nvml.CLOCK_MEM)
	r.Clocks.MaxVideo = clock(nvml.CLOCK_VIDEO)
}

func readLink(d *device, r *gpu.Readings) {
	h := &d.handle
	r.PCIe.Generation = reading(h, "nvmlDeviceGetCurrPcieLinkGeneration", nvml.Device.GetCurrPcieLinkGeneration, plain[int])
	r.PCIe.Width = reading(h, "nvmlDeviceGetCurrPcieLinkWidth", nvml.Device.GetCurrPcieLinkWidth, plain[int])
	r.PCIe.Replays = reading(h, "nvmlDeviceGetPcieReplayCounter", nvml.Device.GetPcieReplayCounter, plain[uint64])
}

func readMaxLink(d *device, r *gpu.Readings) {
	h := &d.handle
	r.PCIe.MaxGeneration = reading(h, "nvmlDeviceGetMaxPcieLinkGeneration", nvml.Device.GetMaxPcieLinkGeneration, plain[int])
	r.PCIe.MaxWidth = reading(h, "nvmlDeviceGetMaxPcieLinkWidth", nvml.Device.GetMaxPcieLinkWidth, plain[int])
}

func readECC(d *device, r *gpu.Readings) {
	h := &d.handle
	mode, c := ask(h, "nvmlDeviceGetEccMode", both(nvml.Device.GetEccMode))
	r.Health.ECCMode = converted(mode.a, c, enabled)
	r.Health.ECCModePending = converted(mode.b, c, enabled)
	errors := func(kind nvml.MemoryErrorType, since nvml.EccCounterType) gpu.Reading[uint64] {
		return reading(h, "nvmlDeviceGetTotalEccErrors", func(dev nvml.Device) (uint64, nvml.Return) {
			return dev.GetTotalEccErrors(kind, since)
		}, plain[uint64])
	}
	r.Health.CorrectedVolatile = errors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	r.Health.UncorrectedVolatile = errors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	r.Health.CorrectedAggregate = errors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)
	r.Health.UncorrectedAggregate = errors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
}

func readRemappedRows(d *device, r *gpu.Readings) {
	type rows struct {
		correctable, uncorrectable int
		pending, failed            bool
	}
	v, c := ask(&d.handle, "nvmlDeviceGetRemappedRows", func(dev nvml.Device) (v rows, ret nvml.Return) {
		v.correctable, v.uncorrectable, v.pending, v.failed, ret = dev.GetRemappedRows()
		return v, ret
	})
	r.Health.RemappedCorrectable = converted(v.correctable, c, plain[uint64])
	r.Health.RemappedUncorrectable = converted(v.uncorrectable, c, plain[uint64])
	r.Health.RemapPending = converted(v.pending, c, gpu.Of)
	r.Health.RemapFailed = converted(v.failed, c, gpu.Of)
}

func readRetiredPages(d *device, r *gpu.Readings) {
	h := &d.handle
	pages := func(cause nvml.PageRetirementCause) gpu.Reading[uint64] {
		return reading(h, "nvmlDeviceGetRetiredPages_v2", func(dev nvml.Device) (uint64, nvml.Return) {
			addresses, _, ret := dev.GetRetiredPages_v2(cause)
			return uint64(len(addresses)), ret
		}, gpu.Of)
	}
	r.Health.RetiredSingleBit = pages(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
	r.Health.RetiredDoubleBit = pages(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
	r.Health.RetirementPending = reading(h, "nvmlDeviceGetRetiredPagesPendingStatus", nvml.Device.GetRetiredPagesPendingStatus, enabled)
}

func readModes(d *device, r *gpu.Readings) {
	h := &d.handle
	r.Modes.Persistence = reading(h, "nvmlDeviceGetPersistenceMode", nvml.Device.GetPersistenceMode, enabled)
	r.Modes.Compute = reading(h, "nvmlDeviceGetComputeMode", nvml.Device.GetComputeMode, computeMode)
	r.Modes.DisplayActive = reading(h, "nvmlDeviceGetDisplayActive", nvml.Device.GetDisplayActive, enabled)
	mig, c := ask(h, "nvmlDeviceGetMigMode", both(nvml.Device.GetMigMode))
	on := func(v int) gpu.Reading[bool] { return gpu.Of(v == nvml.DEVICE_MIG_ENABLE) }
	r.Modes.MIG = converted(mig.a, c, on)
	r.Modes.MIGPending = converted(mig.b, c, on)
}

var computeMode = named(map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_DEFAULT:           "default",
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD:  "exclusive_thread",
	nvml.COMPUTEMODE_PROHIBITED:        "prohibited",
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
})
