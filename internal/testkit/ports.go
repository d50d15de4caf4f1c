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
	// lowestPort is the first port in use. Below it are many well-known services, and all ports that browsers refuse.
	lowestPort = 11_000
	// portsInBlock is how many ports a block has. The process listens on the first of them as long as it lives, which reserves the
	// others.
	portsInBlock = 64
)

// A portBlock is a block of ports that this process has reserved.
type portBlock struct {
	net.Listener
	next, end int
}

var (
	portsMu    sync.Mutex
	portsLeft  portBlock
	usedBlocks []net.Listener // that this process keeps
)

// FreePorts returns n different ports for servers that start later, or stop and restart. Nobody listens on them on the loopback address. They
// are below the ports that the kernel gives to connections and to listeners on port 0, so none of these can take a port while its server is
// stopped. No other process gets them until this one has ended.
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

// firstOfKernel returns the lowest port that the kernel assigns; Linux's default if that is unknown, or leaves too few ports.
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
