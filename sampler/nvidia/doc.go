// Package nvidia has everything that is the same for NVML and nvidia-smi: the cards that the kernel lists, when to leave them alone, which
// values are impossible, and what the driver's errors mean for people. It makes the sources nvml and nvidia-smi report the same about one
// machine.
package nvidia
