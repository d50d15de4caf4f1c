// Package kube reads the NVIDIA GPUs of Kubernetes clusters that don't run gpuwhy. It watches the nodes that offer GPUs and the pods
// that have nvidia-smi, and executes that there; package smi reads what it prints.
//
// # What is executed
//
// One shell runs in the driver's container for as long as its stream lasts ([Loop]). At each interval it gets the commands on its
// standard input, one per line, and runs nvidia-smi for each. Nothing is left behind once the stream ends: the shell reaches the end of
// its input, and none of its commands loops. If streams don't last, or can't have an input, one exec runs all commands
// at a longer interval ([Once]). Each command has a time limit if the container has timeout(1).
//
// # Whose processes they are
//
// The same shell reads the control groups of processes from /proc if the container has the machine's pids, as a
// driver's container has. The API knows the names of their pods; it is asked for a node's pods when one is new. If the
// container has its own pids, these facts are absent.
//
// # What goes wrong
//
// Each node is its own source, and its error says what is wrong with it: the driver's pod is missing or restarting,
// the node is not ready, exec is forbidden. Problems of a whole cluster are in its [State]. Nothing is read in place of something
// that can't be read.
package kube
