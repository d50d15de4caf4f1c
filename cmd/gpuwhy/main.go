// Gpuwhy answers one question: why is my GPU fan running? It reads every GPU
// of the machine and shows live, in a browser, over WebSocket and over REST,
// what they do and who makes them do it.
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
