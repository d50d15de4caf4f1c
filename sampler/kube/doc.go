// Package kube reads the NVIDIA GPUs of Kubernetes clusters that don't run gpuwhy. It watches the nodes that offer GPUs and the pods with
// nvidia-smi, and executes nvidia-smi there; package smi reads its output.
//
// # What is executed
//
// A shell in the driver's container, for as long as its stream lasts ([Loop]): at each interval it gets commands on its standard input, one
// per line, and runs nvidia-smi for each. So nothing is left running there once the stream ends: the shell reaches the end of its input,
// and none of its commands loops. If streams don't last, or can't have an input, one exec runs all commands, at a longer interval ([Once]).
// Each command has a time limit if the container has timeout(1).
//
// # Whose processes they are
//
// The same shell reads the control groups of processes from /proc, if the container has the machine's pids, as a driver container does. The
// API knows the names of their pods; when a process belongs to an unknown pod, it is asked for the pods of the node. If the container has
// its own pids, the facts are absent.
//
// # What goes wrong
//
// Each node is its own source, whose error says what is wrong with it: the driver's pod is missing or restarts, the node is not ready, exec
// is forbidden. Problems of a whole cluster are in its [State]. Nothing replaces readings that can't be read.
package kube
