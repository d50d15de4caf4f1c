// Package nvidia has everything about NVIDIA's driver that is the same for NVML and nvidia-smi. It knows
// the cards that the kernel lists, when to leave them alone, which values are impossible, and what the
// driver's errors mean for people. So the nvml and nvidia-smi sources report the same about one machine.
package nvidia
