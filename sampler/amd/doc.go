// Package amd reads AMD GPUs through the files of the kernel's amdgpu driver: sysfs,
// hwmon, the gpu_metrics table, fdinfo of processes, and the compute driver's
// /sys/class/kfd. It needs no library of the vendor's. What all drivers of the kernel have
// in common is in package drm.
//
// # What is read from where
//
// D is the folder of the PCI device, H its hwmon folder of the name "amdgpu".
//
//   - Utilization: D/gpu_busy_percent, D/mem_busy_percent. Some products do not offer the first:
//     then it is what processes use of the GPU (fdinfo), where all may be seen, and none of them
//     computes through the compute driver. So are those of the video engines. From VCN 4 on
//     (RDNA 3) one queue encodes and decodes: both are "video" then.
//   - Memory: D/mem_info_vram_total and _used; the window of the host is mem_info_vis_vram.
//     On an APU this is what the firmware sets apart of the host's memory. Several signs tell
//     an APU from a card, see (*signs).integrated.
//   - Temperatures: H/temp*_input by label: edge, junction, mem. A product without an edge
//     sensor, as an Instinct, has its junction as the temperature of the GPU, too.
//   - Power: H/power1_average, or power1_input where there is no mean. On an APU it is that
//     of the whole package, the CPU's cores included.
//   - Clocks: H/freq*_input by label, D/pp_dpm_* for the highest.
//   - Fans: H/pwm1 of pwm1_max, fan1_input.
//   - Energy, the video clock and why clocks are held: D/gpu_metrics, see [parseMetrics].
//   - Errors of the memory: D/ras.
//   - Processes: fdinfo, and /sys/class/kfd/kfd/proc for memory of compute.
//
// Of the traffic over PCIe nothing is read: the driver takes a second to answer pcie_bw.
//
// # Sleep
//
// Reading most files wakes a card that the system has powered down, or starts its wait for
// that anew. So the package looks at power/runtime_status first, and leaves a card alone
// for a while that is idle and may sleep (see [drm.Rest]).
//
// # Devices that hang, fail or are lost
//
// A card is read on a goroutine of its own (package perdevice). While the driver resets a
// card, it refuses all readings; when a card is lost, it says that there is no such device.
package amd
