// Package nvml reads NVIDIA GPUs through the driver's management library (libnvidia-ml.so.1). No other package uses that library. The
// binding is github.com/NVIDIA/go-nvml; it needs Linux and cgo. On other systems [New] returns a source whose errors say so.
//
// # Driver versions
//
// The package supports drivers from the 450 series on (2020). The binding ends the process when it calls a function that the library lacks.
// So every function is looked up before its first call: each call names its function (see ask), and a test compares that name with the
// function that the binding really calls. If a newer function is missing or not supported, the older one is called.
//
// Three calls bypass the binding (raw.go). The rows of the process lists have 16, 24 or 32 bytes, depending on function and driver. The
// number of process samples may grow between two calls, which makes the binding panic. And the binding reads only the first fan's
// tachometer.
//
// # Counters
//
// Since Hopper the hardware counts the activity of its units and the PCIe traffic (GPM). Older products need a profiling session, which
// only one program can have, so their counters are not read. In MIG mode each GPU instance has its own counters.
//
// # Accounting
//
// If an administrator has turned on the driver's accounting mode, it remembers ended processes (accounting.go). gpuwhy never turns it on.
//
// # Sleep
//
// A driver call wakes a GPU that the system has powered down, and so does reading its file under /proc/driver/nvidia. So the package first
// checks the kernel's power/runtime_status, and leaves a sleeping GPU alone. nvmlInit_v2 attaches no GPU, but nvmlDeviceGetHandleBy… does:
// only awake GPUs are attached.
//
// An open handle keeps a GPU awake. If all GPUs may sleep (power/control is "auto", on laptops), the package shuts the library down after
// all have been idle for some readings, and pauses (pauses.go). During a pause the readings are stale, and the device says why.
//
// # Devices that hang, fail or are lost
//
// While a call hangs, no second call replaces it, and the library is neither shut down nor initialized again (package perdevice).
//
// A lost or failing device is called at each reading, and gets a new handle once a minute. That may not be enough: a library that has found
// a device lost can report it lost until it is initialized again. So the library is initialized again once a minute while no device
// answers, and when the kernel shows a new GPU. It is not initialized again while another device answers, since that can take long or hang.
// In that case a device that was repaired in place may stay lost until gpuwhy restarts.
package nvml
