//go:build !race

package main

import (
	"debug/elf"
	"runtime"
	"testing"
)

// largestProgram is how much of the program's file may be code and data, in bytes: what -ldflags '-s -w' leaves. A larger program
// reads more at the start, and keeps more in memory. The test catches a library that is far too large for its use here.
const largestProgram = 71_000_000 // the server of a fleet, NATS's, is 10 MB of it, what talks to Kubernetes 8, sign-in 5, and the guide with its pictures 2

func TestSizeOfTheProgram(t *testing.T) {
	if runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
		t.Skip("only the program as it is built for linux/amd64 is measured")
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var size uint64
	for _, part := range file.Progs {
		if part.Type == elf.PT_LOAD {
			size += part.Filesz
		}
	}
	t.Logf("%d bytes", size)
	if size > largestProgram {
		t.Errorf("the program has %d bytes of code and data, more than %d: see which package brought them (go tool nm -size -sort size)", size, largestProgram)
	}
	if size < largestProgram/2 {
		t.Errorf("the program has %d bytes of code and data: this test measures something else, or its bound is far too large", size)
	}
}
