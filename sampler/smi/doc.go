// Package smi reads NVIDIA GPUs through the program nvidia-smi, where the driver's library can't be loaded. That is
// the case on Windows, in a build without cgo, and where the program runs elsewhere (see [Run]). It reads drivers from
// the 390 series on (2018).
//
// # Commands
//
// Starting nvidia-smi for each reading would let a driver without persistence mode build
// the card up and tear it down each time. So two commands run as long as the source is
// read:
//
//	nvidia-smi --query-gpu=… --format=csv,noheader,nounits -lms …   a line for each device
//	nvidia-smi pmon -s um -d …                                      a line for each process
//
// Everything else comes from nvidia-smi -q -x, once a minute, while these two
// keep the driver loaded. It runs every 10 s if it is the only command that knows the
// processes or the MIG instances, or if the traffic over PCIe is wanted: it measures
// that for 20 ms in each direction. In MIG mode nvidia-smi -L follows it, the only command that
// knows the UUIDs of instances. --help-query-gpu lists the fields that this version knows.
//
// # Trust
//
// The output is for people and changes between versions. A value that can't be read costs
// its own reading, a line that is cut or foreign costs itself. Where a value holds a comma, a line has more
// parts than fields: they are joined in the one way in which every part looks like a value
// of its field; if there is no such way, or several, the device gets its readings from the XML
// until lines can be matched again. Output that is neither data nor a known sentence
// is logged at level debug; if nothing else comes, the error quotes it.
//
// # Differences from the library
//
// nvidia-smi rounds: memory to whole MiB, power to hundredths of a watt. It has no counter
// of energy, no counters of activity, no tachometers, targets and policies of fans, no
// error events (XIDs), no counters of MIG instances and no version of the library as the
// library gives it. NVLinks would need another program at each reading (nvidia-smi nvlink),
// and are not offered. It reports one fan speed per device, and not how many fans there
// are: such a device has one fan, which stands for all, and no count. Older versions have
// no utilization of the video engines (before 545). A share of a process that pmon prints
// as "-" is 0 where the device has printed any or did nothing, and not reported otherwise.
// In MIG mode processes have no shares. The driver's accounting is not read, because nvidia-smi does not say when such
// a process began.
//
// SampledAt is when a line arrived, some milliseconds after it was read. What comes from the
// XML is up to a minute older, as the limits that the library is asked for once a minute.
//
// # Devices that hang, fail or are lost
//
// One command for all devices stops at the first that hangs. Then each gets a command of its
// own, so that the others go on, and those that answer share one again soon. A command that
// has not ended, though it was killed, is not replaced for the same device.
//
// # Sleep
//
// A command keeps the devices awake that it reads. So it is told which to read where the
// kernel says that another one sleeps, and all commands end where all devices may fall
// asleep and have been idle (see [nvidia.Pauses]).
package smi
