//go:build linux && cgo

package nvml

import (
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/sampler/nvidia"
)

const (
	sometimes = 10 * time.Second
	seldom    = time.Minute
)

// readLimits reads what hardly changes, and limits that other readings are compared with.
func (d *device) readLimits() {
	h, r := &d.handle, &d.readings
	r.Power.DefaultLimit = reading(h, "nvmlDeviceGetPowerManagementDefaultLimit", nvml.Device.GetPowerManagementDefaultLimit, watts)
	limits, c := ask(h, "nvmlDeviceGetPowerManagementLimitConstraints", both(nvml.Device.GetPowerManagementLimitConstraints))
	r.Power.MinLimit = converted(limits.a, c, watts)
	r.Power.MaxLimit = converted(limits.b, c, watts)

	threshold := func(which nvml.TemperatureThresholds) gpu.Reading[gpu.Celsius] {
		return reading(h, "nvmlDeviceGetTemperatureThreshold", bind(which, nvml.Device.GetTemperatureThreshold), limitDegrees)
	}
	r.Thermal.Shutdown = threshold(nvml.TEMPERATURE_THRESHOLD_SHUTDOWN)
	r.Thermal.Slowdown = threshold(nvml.TEMPERATURE_THRESHOLD_SLOWDOWN)
	r.Thermal.MemoryMax = threshold(nvml.TEMPERATURE_THRESHOLD_MEM_MAX)
	r.Thermal.Target = threshold(nvml.TEMPERATURE_THRESHOLD_ACOUSTIC_CURR)

	clock := func(which nvml.ClockType) gpu.Reading[gpu.Megahertz] {
		return reading(h, "nvmlDeviceGetMaxClockInfo", bind(which, nvml.Device.GetMaxClockInfo), clockRate)
	}
	r.Clocks.MaxGraphics = clock(nvml.CLOCK_GRAPHICS)
	r.Clocks.MaxSM = clock(nvml.CLOCK_SM)
	r.Clocks.MaxMemory = clock(nvml.CLOCK_MEM)
	r.Clocks.MaxVideo = clock(nvml.CLOCK_VIDEO)
	r.PCIe.MaxGeneration = reading(h, "nvmlDeviceGetMaxPcieLinkGeneration", nvml.Device.GetMaxPcieLinkGeneration, plain[int])
	r.PCIe.MaxWidth = reading(h, "nvmlDeviceGetMaxPcieLinkWidth", nvml.Device.GetMaxPcieLinkWidth, plain[int])

	bar1, c := ask(h, "nvmlDeviceGetBAR1MemoryInfo", nvml.Device.GetBAR1MemoryInfo)
	r.Memory.BAR1Total = converted(bar1.Bar1Total, c, memorySize)
	r.Memory.BAR1Used = nvidia.Within(converted(bar1.Bar1Used, c, memorySize), r.Memory.BAR1Total)

	pages := func(cause nvml.PageRetirementCause) gpu.Reading[uint64] {
		return reading(h, "nvmlDeviceGetRetiredPages_v2", func(dev nvml.Device) (uint64, nvml.Return) {
			addresses, _, ret := dev.GetRetiredPages_v2(cause)
			return uint64(len(addresses)), ret
		}, gpu.Of)
	}
	r.Health.RetiredSingleBit = pages(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)
	r.Health.RetiredDoubleBit = pages(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
	r.Modes.Virtualization = reading(h, "nvmlDeviceGetVirtualizationMode", nvml.Device.GetVirtualizationMode, virtualization)
	r.Modes.ComputePartition, r.Modes.MemoryPartition = gpu.Absent[string](gpu.NotSupported), gpu.Absent[string](gpu.NotSupported)
	r.Health.RetirementPending = reading(h, "nvmlDeviceGetRetiredPagesPendingStatus", nvml.Device.GetRetiredPagesPendingStatus, enabled)
}

// readState reads modes and error counts, which change now and then.
func (d *device) readState() {
	h, r := &d.handle, &d.readings
	ecc, c := ask(h, "nvmlDeviceGetEccMode", both(nvml.Device.GetEccMode))
	r.Health.ECCMode = converted(ecc.a, c, enabled)
	r.Health.ECCModePending = converted(ecc.b, c, enabled)
	errors := func(kind nvml.MemoryErrorType, since nvml.EccCounterType) gpu.Reading[uint64] {
		return reading(h, "nvmlDeviceGetTotalEccErrors", func(dev nvml.Device) (uint64, nvml.Return) {
			return dev.GetTotalEccErrors(kind, since)
		}, plain[uint64])
	}
	r.Health.CorrectedVolatile = errors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC)
	r.Health.UncorrectedVolatile = errors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	r.Health.CorrectedAggregate = errors(nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC)
	r.Health.UncorrectedAggregate = errors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC)
	readRemappedRows(h, &r.Health)

	r.Modes.Persistence = reading(h, "nvmlDeviceGetPersistenceMode", nvml.Device.GetPersistenceMode, enabled)
	r.Modes.Compute = reading(h, "nvmlDeviceGetComputeMode", nvml.Device.GetComputeMode, computeMode)
	r.Modes.DisplayActive = reading(h, "nvmlDeviceGetDisplayActive", nvml.Device.GetDisplayActive, enabled)
	mig, c := ask(h, "nvmlDeviceGetMigMode", both(nvml.Device.GetMigMode))
	isEnabled := func(v int) gpu.Reading[bool] { return gpu.Of(v == nvml.DEVICE_MIG_ENABLE) }
	r.Modes.MIG = converted(mig.a, c, isEnabled)
	r.Modes.MIGPending = converted(mig.b, c, isEnabled)

	d.listInstances()
	d.readAsks()
	d.policies = nil // readFans reads them again
}

func (d *device) readLive() {
	h, r := &d.handle, &d.readings
	rates, c := ask(h, "nvmlDeviceGetUtilizationRates", nvml.Device.GetUtilizationRates)
	r.Utilization.GPU = converted(rates.Gpu, c, share)
	r.Utilization.Memory = converted(rates.Memory, c, share)
	r.Utilization.Encoder = reading(h, "nvmlDeviceGetEncoderUtilization", first(nvml.Device.GetEncoderUtilization), share)
	r.Utilization.Decoder = reading(h, "nvmlDeviceGetDecoderUtilization", first(nvml.Device.GetDecoderUtilization), share)
	r.Utilization.JPEG = reading(h, "nvmlDeviceGetJpgUtilization", first(nvml.Device.GetJpgUtilization), share)
	r.Utilization.OFA = reading(h, "nvmlDeviceGetOfaUtilization", first(nvml.Device.GetOfaUtilization), share)
	r.Utilization.Video = gpu.Absent[gpu.Percent](gpu.NotSupported) // NVML reports encoder and decoder separately
	r.Encoding = encoding(h)
	d.readActivity()
	d.readTraffic()
	readMemory(h, &r.Memory)

	r.Thermal.GPU = temperature(h)
	r.Thermal.HotSpot = gpu.Absent[gpu.Celsius](gpu.NotSupported) // NVML has no call for it
	r.Thermal.Memory = memoryTemperature(h)
	r.Thermal.Margin = reading(h, "nvmlDeviceGetMarginTemperature", nvml.Device.GetMarginTemperature, marginDegrees)
	d.readFans()

	r.Power.Draw = nvidia.Plausible(reading(h, "nvmlDeviceGetPowerUsage", nvml.Device.GetPowerUsage, watts), r.Power.MaxLimit)
	r.Power.EnforcedLimit = reading(h, "nvmlDeviceGetEnforcedPowerLimit", nvml.Device.GetEnforcedPowerLimit, watts)
	r.Power.Energy = reading(h, "nvmlDeviceGetTotalEnergyConsumption", nvml.Device.GetTotalEnergyConsumption, joules)

	clock := func(which nvml.ClockType) gpu.Reading[gpu.Megahertz] {
		return reading(h, "nvmlDeviceGetClockInfo", bind(which, nvml.Device.GetClockInfo), clockRate)
	}
	r.Clocks.Graphics = clock(nvml.CLOCK_GRAPHICS)
	r.Clocks.SM = clock(nvml.CLOCK_SM)
	r.Clocks.Memory = clock(nvml.CLOCK_MEM)
	r.Clocks.Video = clock(nvml.CLOCK_VIDEO)
	r.Clocks.PerformanceState = reading(h, "nvmlDeviceGetPerformanceState", nvml.Device.GetPerformanceState, performanceState)
	r.Clocks.EventReasons = eventReasons(h)

	r.PCIe.Generation = reading(h, "nvmlDeviceGetCurrPcieLinkGeneration", nvml.Device.GetCurrPcieLinkGeneration, plain[int])
	r.PCIe.Width = reading(h, "nvmlDeviceGetCurrPcieLinkWidth", nvml.Device.GetCurrPcieLinkWidth, plain[int])
	r.PCIe.Replays = reading(h, "nvmlDeviceGetPcieReplayCounter", nvml.Device.GetPcieReplayCounter, plain[uint64])

	d.readLinks()
	d.readInstances()
	d.readProcesses()
	r.CountProcesses()
	d.readAccounting()
	d.readXIDs()
	none := gpu.Absent[gpu.Bytes](gpu.NotSupported)
	r.Shared = gpu.SharedMemory{Unified: nvidia.Unified(&d.identity, r), Total: none, Used: none}
	r.PCIe = nvidia.Link(r.PCIe, r.Shared.Unified)
}

func encoding(h *handle) gpu.Encoding {
	type stats struct {
		sessions           int
		frameRate, latency uint32
	}
	v, c := ask(h, "nvmlDeviceGetEncoderStats", func(dev nvml.Device) (v stats, ret nvml.Return) {
		v.sessions, v.frameRate, v.latency, ret = dev.GetEncoderStats()
		return v, ret
	})
	return gpu.Encoding{
		Sessions:  nvidia.Within(converted(v.sessions, c, plain[int]), gpu.Of(nvidia.MostSessions)),
		FrameRate: nvidia.Within(converted(v.frameRate, c, plain[gpu.FramesPerSecond]), gpu.Of(nvidia.FastestVideo)),
		Latency:   nvidia.Within(converted(v.latency, c, plain[gpu.Microseconds]), gpu.Of(nvidia.LongestLatency)),
	}
}

// readMemory prefers the function that does not count the driver's own reserve as used. The readings show which one succeeded.
func readMemory(h *handle, memory *gpu.Memory) {
	m, c := ask(h, "nvmlDeviceGetMemoryInfo_v2", nvml.Device.GetMemoryInfo_v2)
	memory.Reserved = converted(m.Reserved, c, memorySize)
	if c.older() {
		var v1 nvml.Memory
		v1, c = ask(h, "nvmlDeviceGetMemoryInfo", nvml.Device.GetMemoryInfo)
		m.Total, m.Used, m.Free = v1.Total, v1.Used, v1.Free
	}
	memory.Total = converted(m.Total, c, memorySize)
	memory.Used = nvidia.Within(converted(m.Used, c, memorySize), memory.Total)
	memory.Free = nvidia.Within(converted(m.Free, c, memorySize), memory.Total)
	memory.Reserved = nvidia.Within(memory.Reserved, memory.Total)
}

func temperature(h *handle) gpu.Reading[gpu.Celsius] {
	t, c := ask(h, "nvmlDeviceGetTemperatureV", func(dev nvml.Device) (nvml.Temperature, nvml.Return) {
		return dev.GetTemperatureV().V1()
	})
	if c.older() {
		return reading(h, "nvmlDeviceGetTemperature", bind(nvml.TEMPERATURE_GPU, nvml.Device.GetTemperature), degrees[uint32])
	}
	return converted(t.Temperature, c, degrees)
}

func memoryTemperature(h *handle) gpu.Reading[gpu.Celsius] {
	v, c := fieldValue(h, nvml.FI_DEV_MEMORY_TEMP)
	return converted(v, c, fieldDegrees)
}

// fieldDegrees converts a field; NotReported if it has an unexpected type.
func fieldDegrees(v nvml.FieldValue) gpu.Reading[gpu.Celsius] {
	n, ok := fieldNumber(v)
	if !ok {
		return gpu.Reading[gpu.Celsius]{}
	}
	return degrees(n)
}

// marginDegrees converts a margin, which may be -1, unlike other temperatures.
func marginDegrees(m nvml.MarginTemperature) gpu.Reading[gpu.Celsius] {
	if m.MarginTemperature == -1 {
		return gpu.Of(gpu.Celsius(-1))
	}
	return degrees(m.MarginTemperature)
}

// limitDegrees converts a limit; 0 means none.
func limitDegrees(v uint32) gpu.Reading[gpu.Celsius] {
	if v == 0 {
		return gpu.Absent[gpu.Celsius](gpu.NotSupported)
	}
	return degrees(v)
}

// readFans reads the speed of each fan, and the policies that are not known yet.
func (d *device) readFans() {
	h := &d.handle
	count, one := fanCount(h)
	d.fanFails = false
	d.readings.Fans = gpu.Fans{Count: count, Combined: gpu.Map(count, func(int) bool { return one })}
	for i := range d.readings.Fans.Count.Or(0) {
		commanded, c := ask(h, "nvmlDeviceGetFanSpeed_v2", bind(i, nvml.Device.GetFanSpeed_v2))
		fan := gpu.Fan{
			Commanded: converted(commanded, c, speed),
			RPM:       fanRPM(h, i),
			Target:    reading(h, "nvmlDeviceGetTargetFanSpeed", bind(i, nvml.Device.GetTargetFanSpeed), speed),
		}
		if !fan.Commanded.Present() && i == 0 {
			if commanded, result := ask(h, "nvmlDeviceGetFanSpeed", nvml.Device.GetFanSpeed); result != functionNotFound {
				fan.Commanded, c = converted(commanded, result, speed), result
			}
		}
		d.fanFails = d.fanFails || !c.answered() && c != resetRequired && h.fatal == success
		if i == len(d.policies) {
			policy := reading(h, "nvmlDeviceGetFanControlPolicy_v2", bind(i, nvml.Device.GetFanControlPolicy_v2), policyName)
			d.policies = append(d.policies, policy)
		}
		fan.Policy = d.policies[i]
		d.readings.Fans.Fans = append(d.readings.Fans.Fans, fan)
	}
}

// fanCount returns the number of fans. It is 1, with one set, if the driver can't count fans but reports one speed, which then stands for
// all.
func fanCount(h *handle) (count gpu.Reading[int], one bool) {
	const most = 16
	n, c := ask(h, "nvmlDeviceGetNumFans", nvml.Device.GetNumFans)
	if c == functionNotFound {
		if _, c = ask(h, "nvmlDeviceGetFanSpeed", nvml.Device.GetFanSpeed); c == success {
			n, one = 1, true
		}
	}
	return converted(n, c, func(n int) gpu.Reading[int] { return reported(n >= 0 && n <= most, n) }), one
}

func fanRPM(h *handle, i int) gpu.Reading[gpu.RPM] {
	v, c := askRaw(h, "nvmlDeviceGetFanSpeedRPM", func(function, device unsafe.Pointer) (uint32, code) {
		return rawFanRPM(function, device, i)
	})
	return nvidia.Within(converted(v, c, plain[gpu.RPM]), gpu.Of(nvidia.FastestFan))
}

var policyName = named(map[nvml.FanControlPolicy]string{
	nvml.FAN_POLICY_TEMPERATURE_CONTINOUS_SW: "automatic", //nolint:misspell // the driver's own spelling
	nvml.FAN_POLICY_MANUAL:                   "manual",
})

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
		return gpu.Of(nvidia.EventReasons(bits))
	})
}

func readRemappedRows(h *handle, health *gpu.Health) {
	type rows struct {
		correctable, uncorrectable int
		pending, failed            bool
	}
	v, c := ask(h, "nvmlDeviceGetRemappedRows", func(dev nvml.Device) (v rows, ret nvml.Return) {
		v.correctable, v.uncorrectable, v.pending, v.failed, ret = dev.GetRemappedRows()
		return v, ret
	})
	health.RemappedCorrectable = converted(v.correctable, c, plain[uint64])
	health.RemappedUncorrectable = converted(v.uncorrectable, c, plain[uint64])
	health.RemapPending = converted(v.pending, c, gpu.Of)
	health.RemapFailed = converted(v.failed, c, gpu.Of)
}

var virtualization = named(map[nvml.GpuVirtualizationMode]string{
	nvml.GPU_VIRTUALIZATION_MODE_NONE:        "none",
	nvml.GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
	nvml.GPU_VIRTUALIZATION_MODE_VGPU:        "vgpu",
	nvml.GPU_VIRTUALIZATION_MODE_HOST_VGPU:   "host_vgpu",
	nvml.GPU_VIRTUALIZATION_MODE_HOST_VSGA:   "host_vsga",
})

var computeMode = named(map[nvml.ComputeMode]string{
	nvml.COMPUTEMODE_DEFAULT:           "default",
	nvml.COMPUTEMODE_EXCLUSIVE_THREAD:  "exclusive_thread",
	nvml.COMPUTEMODE_PROHIBITED:        "prohibited",
	nvml.COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive_process",
})
