package freeport_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/freeport"
)

func TestTake(t *testing.T) {
	ports, err := freeport.Take(50)
	if err != nil || len(ports) != 50 {
		t.Fatalf("%v, %v", ports, err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if port < 10_000 || port > 60_000 || seen[port] {
			t.Errorf("%d", port)
		}
		seen[port] = true
		ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	}
}
