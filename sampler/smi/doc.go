// Package smi reads NVIDIA GPUs through the program nvidia-smi if the driver's library can't be loaded: on Windows, in a build without cgo,
// or if the program runs elsewhere (see [Run]). It supports drivers from the 390 series on (2018).
//
// # Commands
//
// If nvidia-smi started anew for each reading, a driver without persistence mode would initialize and tear down the card each time. So two
// commands run for as long as the source is read:
//
//	nvidia-smi --query-gpu=… --format=csv,noheader,nounits -lms …   a line for each device
//	nvidia-smi pmon -s um -d …                                      a line for each process
//
// Everything else comes from nvidia-smi -q -x, once a minute, while these two keep the driver loaded. It runs every 10 s if only it knows
// the processes or the MIG instances, or if the PCIe traffic is wanted: it measures that for 20 ms in each direction. In MIG mode it is
// followed by nvidia-smi -L, which alone knows the UUIDs of instances. --help-query-gpu lists the fields that this version knows.
//
// # Trust
//
// The output is for people and changes between versions. An unreadable value costs only its own reading, and a line that is cut or unknown
// costs only itself. If a value contains a comma, a line has more parts than fields: they are joined in the one way that makes all of them
// look like values of their fields. If there is no such way, or several, the device has the XML's readings until lines can be matched
// again. Output that is neither data nor a known sentence is logged at level debug; if there is no other output, the error quotes it.
//
// # Differences from the library
//
// nvidia-smi rounds: memory to whole MiB, power to hundredths of a watt. It has no energy counter, no activity counters, no tachometers,
// targets and policies of fans, no error events (XIDs), no counters of MIG instances, and its library version differs from the library's
// own. NVLinks would cost another program start at each reading (nvidia-smi nvlink), and are not offered. It reports one fan speed per
// device, and not the number of fans: such a device has one fan, which stands for all, and no count. Older versions report no utilization
// of the video engines (before 545). A process's share that pmon prints as "-" is 0 if the device has ever printed a share or did nothing,
// and not reported otherwise. In MIG mode processes have no shares. The driver's accounting is not read: nvidia-smi does not report when
// such a process began.
//
// SampledAt is when a line arrived, some milliseconds after it was read. Values from the XML are up to a minute older, like the limits that
// NVML is asked for once a minute.
//
// # Devices that hang, fail or are lost
//
// A single command for all devices stops at the first one that hangs. Then each device gets its own command, so that the others go on, and
// the devices that answer soon share one again. A command that was killed but has not ended is not replaced for the same device.
//
// # Sleep
//
// A command keeps the devices that it reads awake. So if the kernel says that one device sleeps, the commands are told to read only the
// others. All commands end if all devices may fall asleep and have been idle (see [nvidia.Pauses]).
package smi
