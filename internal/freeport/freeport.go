// Package freeport finds ports for servers of tests that begin later, or stop and begin again.
package freeport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

const (
	// lowest is the first port that is given. Below it are those of many well-known services, and all that browsers refuse.
	lowest = 11_000
	// each is how many ports lie in a block. The first of them is listened on for as long as the process lives: so the others
	// are its own.
	each = 64
)

// A block is one of ports that this process has.
type block struct {
	net.Listener
	next, end int
}

var (
	mu   sync.Mutex
	have block
	kept []net.Listener // of blocks that are used up
)

// Take returns n ports of the loopback address that nobody listens on, none of them twice. They are lower than those that the kernel
// gives to connections and to listeners on port 0: none of these takes a port while its server is stopped. No other process is given
// them until this one has ended.
func Take(n int) (ports []int, err error) {
	mu.Lock()
	defer mu.Unlock()
	for len(ports) < n {
		if have.next == have.end {
			if err := another(); err != nil {
				return nil, err
			}
		}
		port := have.next
		have.next++
		ln, err := listen(port)
		if err != nil {
			continue // somebody has it
		}
		if err := ln.Close(); err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// another takes a block that no process has.
func another() error {
	blocks := (firstOfKernel() - lowest) / each
	for i := range blocks {
		first := lowest + (os.Getpid()+i)%blocks*each
		if ln, err := listen(first); err == nil {
			if have.Listener != nil {
				kept = append(kept, have.Listener)
			}
			have = block{ln, first + 1, first + each}
			return nil
		}
	}
	return errors.New("too few ports of 127.0.0.1 are free")
}

func listen(port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
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
