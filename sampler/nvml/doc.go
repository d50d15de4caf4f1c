// Package nvml reads NVIDIA GPUs through the driver's management library
// (libnvidia-ml.so.1), and is the only package that knows it. The binding is
// github.com/NVIDIA/go-nvml; it needs Linux and cgo, and elsewhere [New] returns
// a source that says so.
//
// # Which driver
//
// Drivers from the 450 series on (2020) can be read. Every function is looked
// up in the library before it is called, since the binding ends the process
// where one is missing: a call and the name of its function stand side by side
// in the code (see ask), and a test compares them with what the binding really
// calls. Where a newer function is missing, or answers that it is not supported
// or does not know the layout, the older one is asked; where there is none, the
// reading is not supported.
//
// A process uses one library. Once loaded it stays loaded, also where its file
// is replaced: after a driver update gpuwhy has to be restarted, and says so.
//
// Three calls go past the binding (raw.go): the process lists, whose rows have
// 16, 24 or 32 bytes depending on function and driver, some not as documented;
// the process samples, whose number may grow between two calls, for which the
// binding panics; and the fans' tachometers, of which the binding reads the
// first only.
//
// # What is called when
//
// At each reading, for each device: utilization rates, encoder, decoder, JPEG
// and optical flow utilization; the encoder's sessions; a sample of the hardware's counters, and what lies
// between it and the last; memory, temperature, memory temperature, margin;
// number of fans, and for each its speed, tachometer and target; power, limit in
// force, energy; four clocks, performance state, event reasons; PCIe generation,
// width and replays; three process lists and the process samples; the events that
// tell of XIDs; memory of each MIG instance. That is 30 calls for a card without
// fans that has such counters.
//
// Every ten seconds: ECC errors and modes, remapped rows, persistence, compute,
// MIG and display modes, fan policies, MIG instances. Every minute: limits,
// thresholds, maximal clocks and link, BAR1, retired pages, name, serial number,
// VBIOS. The intervals are in the table of groups (groups.go).
//
// PCIe throughput is what the counters say. Where there are none it is read only
// if that was asked for (Config.PCIeThroughput), each ten seconds at most, since
// nvmlDeviceGetPcieThroughput counts for 20 ms in each direction and comes back
// after that. Readings between have the last values with the time at which they
// were measured; a slow rest of a reading is not waited for any longer than else.
//
// # Counters
//
// From Hopper on the hardware counts what its units do, for anybody to see (GPM);
// on products before, the same takes a profiling session, which only one program
// can have and often only root, and is not read. Two samples are compared, this
// reading's and the last one's, of which the driver keeps one buffer each for us.
// Samples less than 150 ms apart are not compared, as the counters are renewed
// each 100 ms: a reading on demand says what the one before said. Nor are samples
// further apart than two windows, since their mean says nothing of the present. In MIG
// mode the counters are each instance's own, and are not read.
//
// # Sleep
//
// A card that the system has powered down is woken by a call for it, and by
// reading its information file under /proc/driver/nvidia too. So the kernel's
// power/runtime_status is looked at first, always, and nothing else is done with
// a card that sleeps. What is known of one that slept from the start is its
// address and its PCI ids; its UUID is "PCI-" and the address until it wakes.
//
// While every card sleeps, the library is not initialized. If some sleep and
// some are awake, it is: nvmlInit_v2 attaches no GPU, nvmlDeviceGetHandleBy…
// does, and handles are then taken by address, of the awake ones only.
// NVML_INIT_FLAG_NO_ATTACH would go further and attach none at all later on.
//
// An open handle keeps a card from falling asleep. On a machine where all cards
// may sleep (power/control is "auto", on laptops), the library is shut down when
// all have been idle for some readings, and the cards are left alone for 20 s,
// looking at nothing but runtime_status. If one is awake after that still, it is
// read again, and the next pause is twice as long, up to two minutes. The
// readings are stale meanwhile, and the device says why. Where power/control is
// "on", on servers and most desktops, none of this happens.
//
// # Hanging calls
//
// Loading, initializing and reading run on goroutines of their own, see package
// perdevice. While one hangs no second call is made in its place, and the
// library is neither shut down nor initialized again.
//
// A device that hangs from the start is listed all the same: by its address, its
// UUID being "PCI-" and the address; or, where the kernel shows no addresses, as in
// many containers, by its index, as "nvml-index-1".
//
// # Lost and failing devices
//
// The calls of a device that is lost or fails are tried at each reading, and its
// handle is taken anew once a minute. That may not be enough: a library that has
// found a device lost can say so until it is initialized again. It is, once a
// minute, where no device answers, and when the kernel shows a card that was not
// there before. Beside a device that answers it is not, since initializing can
// take long or hang: there a device that was repaired in place may stay lost until
// gpuwhy is started again.
package nvml
