// Package nvml reads NVIDIA GPUs through the driver's management library
// (libnvidia-ml.so.1), and is the only package that knows it. The binding is
// github.com/NVIDIA/go-nvml; it needs Linux and cgo. On other systems [New] returns
// a source that says so.
//
// # Which driver
//
// The package reads drivers from the 450 series on (2020). The binding ends the
// process when it calls a function that the library lacks. So every function is
// looked up before its first call: its name stands beside each call (see ask), and a
// test compares it with the function that the binding really calls. Where a newer
// function is missing or answers that it is not supported, the older one is asked.
//
// Three calls don't use the binding (raw.go). The rows of the process lists have
// 16, 24 or 32 bytes, depending on function and driver. The number of process samples
// may grow between two calls, for which the binding panics. And the binding reads only
// the tachometer of the first fan.
//
// # Counters
//
// From Hopper on the hardware counts what its units do and what passes PCIe (GPM).
// Older products need a profiling session, which only one program can have; so their
// counters are not read. In MIG mode each GPU instance has counters of its own.
//
// # Accounting
//
// Where an administrator has turned the driver's accounting mode on, it remembers processes that ended
// (accounting.go). gpuwhy never turns it on.
//
// # Sleep
//
// A driver call wakes a GPU that the system has powered down, and so does reading its
// file under /proc/driver/nvidia. So the package looks at the kernel's
// power/runtime_status first, and leaves a GPU alone that sleeps. nvmlInit_v2 attaches
// no GPU, nvmlDeviceGetHandleBy… does: only GPUs that are awake are attached.
//
// An open handle keeps a GPU awake. Where all GPUs may sleep (power/control is "auto",
// on laptops), the package shuts the library down when all have been idle for some
// readings, and pauses (pauses.go). Meanwhile the readings are stale, and the device
// says why.
//
// # Devices that hang, fail or are lost
//
// While a call hangs, no second call replaces it, and the library is neither shut down
// nor initialized again (package perdevice).
//
// A device that is lost or fails is called at each reading, and gets a new handle
// once a minute. That may not be enough: a library that has found a device lost can
// report that until it is initialized again. So it is initialized again once a minute
// where no device answers, and when the kernel shows a new GPU; but not while another
// device answers, since that can take long or hang. There a device that was repaired in
// place may stay lost until gpuwhy is started again.
package nvml
