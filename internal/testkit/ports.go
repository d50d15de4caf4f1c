package testkit

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
	// lowestPort is the first port that is given. Below it are those of many well-known services, and all that browsers refuse.
	lowestPort = 11_000
	// portsInBlock is how many ports lie in a block. The first of them is listened on for as long as the process lives: so the others
	// are its own.
	portsInBlock = 64
)

// A portBlock is ports that this process has.
type portBlock struct {
	net.Listener
	next, end int
}

var (
	portsMu    sync.Mutex
	portsLeft  portBlock
	usedBlocks []net.Listener // that this process keeps
)

// FreePorts returns n ports for servers that begin later, or stop and begin again: ports of the loopback address that nobody listens on, none of them twice. They are lower than those that the kernel
// gives to connections and to listeners on port 0: none of these takes a port while its server is stopped. No other process is given
// them until this one has ended.
func FreePorts(n int) (ports []int, err error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for len(ports) < n {
		if portsLeft.next == portsLeft.end {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		port := portsLeft.next
		portsLeft.next++
		ln, err := listenOn(port)
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

// takeBlock takes a block that no process has.
func takeBlock() error {
	blocks := (firstOfKernel() - lowestPort) / portsInBlock
	for i := range blocks {
		first := lowestPort + (os.Getpid()+i)%blocks*portsInBlock
		if ln, err := listenOn(first); err == nil {
			if portsLeft.Listener != nil {
				usedBlocks = append(usedBlocks, portsLeft.Listener)
			}
			portsLeft = portBlock{ln, first + 1, first + portsInBlock}
			return nil
		}
	}
	return errors.New("too few ports of 127.0.0.1 are free")
}

func listenOn(port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// firstOfKernel is the lowestPort port that the kernel gives by itself; Linux's own default where that is not known, or leaves too few.
func firstOfKernel() int {
	const usual = 32768
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return usual
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || first < lowestPort+1000 {
		return usual
	}
	return first
}
