package nvidia

import "github.com/gpuwhy/gpuwhy/gpu"

// What the driver's errors mean for people, whether the library or nvidia-smi reported them. A source adds the cause; see [gpu.Advice.Err].
var (
	Lost = gpu.Advice{
		What: "the device has fallen off the bus",
		Try:  "look for an XID in the kernel log (dmesg); resetting the device or restarting the machine may bring it back",
	}
	NotLoaded = gpu.Advice{
		What: "the NVIDIA library is installed, and its driver is not loaded",
		Try:  "load it with modprobe nvidia, or restart the machine if it was just installed; check that nvidia-smi runs",
	}
	VersionMismatch = gpu.Advice{
		What: "the NVIDIA driver in the kernel and its library have different versions",
		Try:  "restart the machine, or unload and load the driver, and restart gpuwhy; this is usual after an update",
	}
	NotPermitted = gpu.Advice{
		What: "gpuwhy may not talk to the NVIDIA driver",
		Try: "let its user read and write /dev/nvidiactl and /dev/nvidia0 (often the group video), " +
			"or start it with the NVIDIA container runtime",
	}
	Unknown = gpu.Advice{
		What: "the NVIDIA driver answers: unknown error",
		Try: "if gpuwhy runs in a container, the container has lost its GPUs, usually because systemd was reloaded: " +
			"create it again; else look for lines with NVRM in the kernel log (dmesg)",
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
		What: "the NVIDIA driver is loaded and finds no GPU",
		Try:  "check that the card is seated and powered, and visible in this container if gpuwhy runs in one",
	}
)
