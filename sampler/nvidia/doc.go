// Package nvidia has everything that does not depend on how NVIDIA's driver is asked: the cards that
// the kernel lists, when to leave them alone, which values can't be right, and what the
// driver's errors mean for people. So the nvml and nvidia-smi sources report the same about one machine.
package nvidia
