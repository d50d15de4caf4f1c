// Package kube reads the NVIDIA GPUs of Kubernetes clusters where no gpuwhy runs. It watches the nodes that offer GPUs and
// the pods that have nvidia-smi, and executes that there; package smi reads what it prints.
//
// # What is executed
//
// A shell in the container of the driver, as long as its stream lasts ([Loop]): each interval it gets the commands on its
// standard input, one a line, and runs nvidia-smi for each. So nothing is left there once the stream ends: the shell finds its
// input at an end, and no command of it loops. Where streams don't last, or can't have an input, one exec for all commands
// is made at a longer interval ([Once]). Each command has a limit of time where the container has timeout(1).
//
// # Whose processes they are
//
// The same shell reads the control group of processes from /proc, where the container has the pids of the machine, as a
// driver's has. Their pods have names in the API, which is asked for the pods of a node when one is new. Where the
// container has pids of its own the facts are absent.
//
// # What goes wrong
//
// Each node is a source of its own, whose error says what is wrong with it: the driver's pod is missing or restarts,
// the node is not ready, exec is forbidden. What concerns a whole cluster is its [State]. Nothing is read in place of what can't
// be read.
package kube
