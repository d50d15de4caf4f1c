// Package amd reads AMD GPUs through the files of the kernel's amdgpu driver: sysfs, hwmon, the gpu_metrics table, fdinfo of processes, and
// the compute driver's /sys/class/kfd. It needs no vendor library. Package drm has what all kernel drivers have in common.
//
// # Where the readings come from
//
// D is the folder of the PCI device, H its hwmon folder named "amdgpu".
//
//   - Utilization: D/gpu_busy_percent, D/mem_busy_percent. Some products lack the first: then
//     it is what processes use of the GPU (fdinfo), if all processes are visible and none
//     of them computes through the compute driver. The utilization of the video engines is
//     read from fdinfo too. From VCN 4 on (RDNA 3) one queue encodes and decodes: both
//     are then "video".
//   - Memory: D/mem_info_vram_total and _used; the host's window is mem_info_vis_vram.
//     On an APU this is the part of the host's memory that the firmware sets apart. Several
//     signs tell an APU from a card, see (*signs).integrated.
//   - Temperatures: H/temp*_input by label: edge, junction, mem. A product without an edge
//     sensor, such as an Instinct, reports its junction as the GPU's temperature, too.
//   - Power: H/power1_average, or power1_input without an average. On an APU it is the power
//     of the whole package, including the CPU cores.
//   - Clocks: H/freq*_input by label; the highest clocks from D/pp_dpm_*.
//   - Fans: H/pwm1 as part of pwm1_max, fan1_input.
//   - Energy, the video clock and why clocks are held down: D/gpu_metrics, see [parseMetrics].
//   - Memory errors: D/ras.
//   - Processes: fdinfo, and /sys/class/kfd/kfd/proc for compute memory.
//
// The PCIe traffic is not read: the driver takes a second to answer pcie_bw.
//
// # Sleep
//
// Reading most files wakes a card that the system has powered down, or restarts its countdown to sleep. So the package first checks
// power/runtime_status, and leaves an idle card that may sleep alone for a while (see [drm.Rest]).
//
// # Devices that hang, fail or are lost
//
// Each card is read on its own goroutine (package perdevice). While the driver resets a card, it refuses all readings; when a card is lost,
// the driver says that no such device exists.
package amd
