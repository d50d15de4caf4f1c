// Gpuwhy answers one question: why is my GPU fan running? It reads every GPU of the
// machine and shows live, in a browser, over WebSocket and over REST, what the GPUs
// do and which processes use them. This package has the flags, the table of sources
// and the commands; package app wires and runs the parts.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
