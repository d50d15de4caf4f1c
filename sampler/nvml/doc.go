// Package nvml reads NVIDIA GPUs through the driver's management library
// (libnvidia-ml.so.1), and is the only package that knows it. The binding is
// github.com/NVIDIA/go-nvml; it needs Linux and cgo. On other systems [New] returns
// a source that says so.
//
// # Which driver
//
// The package reads drivers from the 450 series on (2020). The binding ends the
// process when it calls a function that the library lacks. So every function is
// looked up in the library before its first call: the name of the function stands
// beside each call in the code (see ask), and a test compares it with the function
// that the binding really calls. Where a newer function is missing, or answers that
// it is not supported or does not know the layout, the older one is asked.
//
// A process uses one library. It stays loaded even where its file is replaced, so
// gpuwhy must be restarted after a driver update, and says so.
//
// Three calls don't use the binding (raw.go). The rows of the process lists have
// 16, 24 or 32 bytes, depending on function and driver, and some drivers differ from
// the documentation. The number of process samples may grow between two calls, for
// which the binding panics. And of the fans' tachometers the binding reads only the
// first.
//
// # What is called when
//
// What changes all the time is read at each reading (readLive): 30 calls for a GPU
// without fans that counts what its units do. Modes and errors are read every ten
// seconds (readState), limits and the identity every minute (readLimits).
//
// # Counters
//
// From Hopper on the hardware counts what its units do and what passes PCIe, and
// everybody may read the counters (GPM). Older products need a profiling session for
// that, which only one program can have and often only root; so it is not read. The
// package compares the sample of this reading with that of the last one. Samples that
// are less than 150 ms apart are not compared, since the hardware renews the counters
// every 100 ms: such a reading repeats the result of the last one. Neither are samples
// that are more than two windows apart, since their mean says nothing about the
// present. In MIG mode each instance has counters of its own, which are not read.
//
// # Sleep
//
// A call for a GPU that the system has powered down wakes it, and so does reading
// its information file under /proc/driver/nvidia. So the package always looks at the
// kernel's power/runtime_status first, and does nothing else with a GPU that sleeps.
// The library is initialized while any GPU is awake: nvmlInit_v2 attaches no GPU,
// nvmlDeviceGetHandleBy… does, and only the GPUs that are awake are attached, by
// address.
//
// An open handle keeps a GPU awake. On a machine where all GPUs may sleep
// (power/control is "auto", on laptops), the package shuts the library down when all
// have been idle for some readings, and looks at nothing but runtime_status for
// 20 s. If a GPU is still awake then, it is read again, and the next pause is twice
// as long, up to two minutes. Meanwhile the readings are stale, and the device says
// why.
//
// # Devices that hang, fail or are lost
//
// Loading, initializing and reading run on goroutines of their own, see package
// perdevice. While a call hangs, no second call replaces it, and the library is
// neither shut down nor initialized again.
//
// A device that is lost or fails is called at each reading, and gets a new handle
// once a minute. That may not be enough, since a library that has found a device lost
// can report that until it is initialized again. So the library is initialized again
// once a minute where no device answers, and when the kernel shows a GPU that was not
// there before. It is not while another device answers, since initializing can take
// long or hang: there a device that was repaired in place may stay lost until gpuwhy
// is started again.
//
// Until a GPU has answered, its UUID is "PCI-" and the address; or "nvml-index-1",
// made of its index, where the kernel shows no addresses, as in many containers.
package nvml
