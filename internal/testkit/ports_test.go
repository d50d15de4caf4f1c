package testkit_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhy/gpuwhy/internal/testkit"
)

const takesPorts = "TESTKIT_TAKES_PORTS" // how many ports another process takesPorts

func TestMain(m *testing.M) {
	n, err := strconv.Atoi(os.Getenv(takesPorts))
	if err != nil {
		os.Exit(m.Run())
	}
	ports, err := testkit.FreePorts(n)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(strings.Trim(fmt.Sprint(ports), "[]"))
	_, _ = os.Stdin.Read(make([]byte, 1)) // it keeps them until its input ends
}

// Each port is given out once, whichever processes ask, and can be listened on.
func TestFreePorts(t *testing.T) {
	const processes, each = 4, 100
	var given []string // the ports of each, as text
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), takesPorts+"="+strconv.Itoa(each))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 8*each)
		n, err := out.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		given = append(given, string(text[:n]))
		defer func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}()
	}
	ports, err := testkit.FreePorts(each)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, text := range append(given, strings.Trim(fmt.Sprint(ports), "[]")) {
		fields := strings.Fields(text)
		if len(fields) != each {
			t.Fatalf("%d ports", len(fields))
		}
		for _, f := range fields {
			port, err := strconv.Atoi(f)
			if err != nil || port < 11_000 || seen[port] {
				t.Errorf("%s, %v", f, err)
			}
			seen[port] = true
			ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", f))
			if err != nil {
				t.Fatal(err)
			}
			if err := ln.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
