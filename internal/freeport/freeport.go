// Package freeport finds ports for servers of tests that begin later, or stop and begin again.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

const (
	// lowest is the first port that is given; below it are those of many well-known services.
	lowest = 10_000
	// each is how many ports a process has before it takes those of the process with the next number.
	each = 64
)

// taken is how many ports this process was given, or found in use.
var taken atomic.Int64

// Take returns n ports of the loopback address that nobody listens on, none of them twice. They are lower than those that the kernel
// gives to connections and to listeners on port 0: none of these takes a port while its server is stopped. Processes that run at the
// same time are given different ones.
func Take(n int) (ports []int, err error) {
	end := firstOfKernel()
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := lowest + (os.Getpid()*each+int(taken.Add(1)))%(end-lowest)
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // somebody has it
		}
		if err := ln.Close(); err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return nil, errors.New("too few ports of 127.0.0.1 are free")
}

// firstOfKernel is the lowest port that the kernel gives by itself; Linux's own default where that is not known, or leaves too few.
func firstOfKernel() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first < lowest+1000 {
		return usual
	}
	return first
}
