//go:build linux && cgo

package nvml

// symbols are the library's functions that gpuwhy may call. All are looked up
// when the library is loaded; what is missing is not called. Those that came
// after the 450 series, the oldest that gpuwhy supports, say when.
var symbols = []string{
	"nvmlInit_v2",
	"nvmlShutdown",
	"nvmlErrorString",
	"nvmlSystemGetDriverVersion",
	"nvmlSystemGetNVMLVersion",
	"nvmlSystemGetCudaDriverVersion_v2",
	"nvmlDeviceGetCount_v2",
	"nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetHandleByPciBusId_v2",

	"nvmlDeviceGetUUID",
	"nvmlDeviceGetName",
	"nvmlDeviceGetIndex",
	"nvmlDeviceGetPciInfo_v3",
	"nvmlDeviceGetSerial",
	"nvmlDeviceGetVbiosVersion",
	"nvmlDeviceGetArchitecture",

	"nvmlDeviceGetUtilizationRates",
	"nvmlDeviceGetEncoderUtilization",
	"nvmlDeviceGetDecoderUtilization",
	"nvmlDeviceGetJpgUtilization", // 525
	"nvmlDeviceGetOfaUtilization", // 525
	"nvmlDeviceGetEncoderStats",

	"nvmlGpmQueryDeviceSupport", // 520, and the next four
	"nvmlGpmSampleAlloc",
	"nvmlGpmSampleGet",
	"nvmlGpmSampleFree",
	"nvmlGpmMetricsGet",

	"nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMemoryInfo_v2", // 510
	"nvmlDeviceGetBAR1MemoryInfo",

	"nvmlDeviceGetTemperature",
	"nvmlDeviceGetTemperatureV", // 570
	"nvmlDeviceGetTemperatureThreshold",
	"nvmlDeviceGetMarginTemperature", // 560
	"nvmlDeviceGetFieldValues",

	"nvmlDeviceGetNumFans", // 460
	"nvmlDeviceGetFanSpeed",
	"nvmlDeviceGetFanSpeed_v2",
	"nvmlDeviceGetFanSpeedRPM",         // 565
	"nvmlDeviceGetTargetFanSpeed",      // 510
	"nvmlDeviceGetFanControlPolicy_v2", // 520

	"nvmlDeviceGetPowerUsage",
	"nvmlDeviceGetEnforcedPowerLimit",
	"nvmlDeviceGetPowerManagementDefaultLimit",
	"nvmlDeviceGetPowerManagementLimitConstraints",
	"nvmlDeviceGetTotalEnergyConsumption",

	"nvmlDeviceGetClockInfo",
	"nvmlDeviceGetMaxClockInfo",
	"nvmlDeviceGetPerformanceState",
	"nvmlDeviceGetCurrentClocksEventReasons", // 535
	"nvmlDeviceGetCurrentClocksThrottleReasons",

	"nvmlDeviceGetCurrPcieLinkGeneration",
	"nvmlDeviceGetCurrPcieLinkWidth",
	"nvmlDeviceGetMaxPcieLinkGeneration",
	"nvmlDeviceGetMaxPcieLinkWidth",
	"nvmlDeviceGetPcieReplayCounter",
	"nvmlDeviceGetPcieThroughput",

	"nvmlDeviceGetEccMode",
	"nvmlDeviceGetTotalEccErrors",
	"nvmlDeviceGetRemappedRows",
	"nvmlDeviceGetRetiredPages_v2",
	"nvmlDeviceGetRetiredPagesPendingStatus",

	"nvmlDeviceGetPersistenceMode",
	"nvmlDeviceGetComputeMode",
	"nvmlDeviceGetDisplayActive",

	"nvmlDeviceGetMigMode",
	"nvmlDeviceGetMaxMigDeviceCount",
	"nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId",
	"nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetAttributes_v2",

	"nvmlDeviceGetComputeRunningProcesses",
	"nvmlDeviceGetComputeRunningProcesses_v2", // 460
	"nvmlDeviceGetComputeRunningProcesses_v3", // 510
	"nvmlDeviceGetGraphicsRunningProcesses",
	"nvmlDeviceGetGraphicsRunningProcesses_v2",   // 460
	"nvmlDeviceGetGraphicsRunningProcesses_v3",   // 510
	"nvmlDeviceGetMPSComputeRunningProcesses",    // 465
	"nvmlDeviceGetMPSComputeRunningProcesses_v2", // 470
	"nvmlDeviceGetMPSComputeRunningProcesses_v3", // 510
	"nvmlDeviceGetProcessUtilization",

	"nvmlEventSetCreate",
	"nvmlEventSetFree",
	"nvmlEventSetWait_v2",
	"nvmlDeviceRegisterEvents",
}
