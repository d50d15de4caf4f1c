// Package amd reads AMD GPUs through the files of the kernel's amdgpu driver. These are sysfs, hwmon,
// the gpu_metrics table, fdinfo of processes, and /sys/class/kfd of the compute driver. It needs none
// of AMD's libraries. Package drm has the parts that all kernel drivers share.
//
// # What is read from where
//
// D is the folder of the PCI device, H its hwmon folder of the name "amdgpu".
//
//   - Utilization: D/gpu_busy_percent, D/mem_busy_percent. Some products do not offer the first:
//     then it is the sum of what processes use of the GPU (fdinfo), if gpuwhy is allowed to see all of
//     them and none uses the compute driver. The same holds for the video engines. From VCN 4 on
//     (RDNA 3) one queue encodes and decodes: both are "video" then.
//   - Memory: D/mem_info_vram_total and _used; the window of the host is mem_info_vis_vram.
//     On an APU this is the part of the host's memory that the firmware sets aside. Several signs tell
//     an APU from a card, see (*signs).integrated.
//   - Temperatures: H/temp*_input by label: edge, junction, mem. For a product without an edge
//     sensor, such as an Instinct, the junction is also the temperature of the GPU.
//   - Power: H/power1_average, or power1_input if there is no mean. On an APU it is the power
//     of the whole package, including the CPU's cores.
//   - Clocks: H/freq*_input by label, D/pp_dpm_* for the highest.
//   - Fans: H/pwm1 of pwm1_max, fan1_input.
//   - Energy, the video clock and why clocks are held: D/gpu_metrics, see [parseMetrics].
//   - Memory errors: D/ras.
//   - Processes: fdinfo, and /sys/class/kfd/kfd/proc for compute memory.
//
// The traffic over PCIe is not read, because the driver takes a second to answer pcie_bw.
//
// # Sleep
//
// Reading most files wakes a card that the system has powered down, or restarts its idle
// timer. So the package checks power/runtime_status first, and leaves an idle card that may
// sleep alone for a while (see [drm.Rest]).
//
// # Devices that hang, fail or are lost
//
// A card is read on a goroutine of its own (package perdevice). While the driver resets a
// card, it refuses all readings; when a card is lost, it says that there is no such device.
package amd
