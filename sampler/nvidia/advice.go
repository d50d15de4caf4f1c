package nvidia

import "github.com/gpuwhy/gpuwhy/gpu"

// What the driver's errors mean for people, whether the library or nvidia-smi reported them. A source adds the cause; see [gpu.Advice.Err].
var (
	Lost = gpu.Advice{
		What: "the device has fallen off the bus",
		Try:  "look for an XID in the kernel log (dmesg); a reset of the device or a restart of the machine may bring it back",
	}
	NotLoaded = gpu.Advice{
		What: "the NVIDIA library is installed, but the driver is not loaded",
		Try:  "load it with modprobe nvidia, or restart the machine if you have just installed it; check that nvidia-smi runs",
	}
	VersionMismatch = gpu.Advice{
		What: "the NVIDIA kernel driver and its library have different versions",
		Try:  "restart the machine, or reload the driver and restart gpuwhy; this is common after an update",
	}
	NotPermitted = gpu.Advice{
		What: "gpuwhy is not allowed to talk to the NVIDIA driver",
		Try: "give its user read and write access to /dev/nvidiactl and /dev/nvidia0 (often through the group video), " +
			"or start it with the NVIDIA container runtime",
	}
	Unknown = gpu.Advice{
		What: "the NVIDIA driver reports: unknown error",
		Try: "if gpuwhy runs in a container, that container has lost its GPUs, usually because systemd was reloaded: " +
			"recreate it; otherwise look for NVRM lines in the kernel log (dmesg)",
	}
	ResetRequired = gpu.Advice{
		What: "the device must be reset before it can be used again",
		Try:  "stop what uses it and run nvidia-smi --gpu-reset, or restart the machine",
	}
	Underpowered = gpu.Advice{
		What: "the device does not get enough power",
		Try:  "check that its power cables are plugged in",
	}
	Timeout = gpu.Advice{
		What: "the NVIDIA driver gave up waiting for the device",
		Try:  "look for an XID in the kernel log (dmesg)",
	}
	NoDevices = gpu.Advice{
		What: "the NVIDIA driver is loaded but finds no GPU",
		Try:  "check that the card is seated and powered and, in a container, that it is visible there",
	}
)
