// Package nvidia has what does not depend on the way to NVIDIA's driver: the cards that
// the kernel lists, when they are left alone, which values can't be right, and what its
// errors mean for people. So the sources nvml and nvidia-smi say the same of one machine.
package nvidia
