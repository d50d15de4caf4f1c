// Command gpuwhy-gallery serves every component of gpuwhy's page in every state, for people who
// work on the page. Its machines and values are made up: it reads no device. It is not part of the
// product.
//
// It runs the program's own server, hub and alerts; only the machines and their
// readings are made up. states.json lists the states, and tests open each of them
// in a browser. The machines in scene.go send, fall silent or refuse sockets, as
// the state needs. The gallery's own page shows the other pages in frames, so
// its Content-Security-Policy allows frames of itself; the product's does not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/auth"
	"github.com/gpuwhy/gpuwhy/internal/clock"
	"github.com/gpuwhy/gpuwhy/internal/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], clock.Clock{}, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gpuwhy-gallery:", err)
		os.Exit(1)
	}
}

// run serves the gallery until ctx ends. Its machines use the given clock.
func run(ctx context.Context, args []string, clock clock.Clock, stdout, stderr io.Writer) error {
	opt := app.Options{Version: "gallery", MaxViewers: 1000, Node: "gallery", Deadline: 2 * time.Second, AlertUtilization: 50, Clock: clock}
	flags := flag.NewFlagSet("gpuwhy-gallery", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opt.Listen, "listen", "127.0.0.1:8003", "address to serve on; port 0 takes a free one")
	flags.StringVar(&opt.BasePath, "base-path", "/", "path under which everything is served")
	flags.DurationVar(&opt.Interval, "interval", 5*time.Second, "time between readings")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if opt.BasePath = path.Clean("/" + opt.BasePath); strings.ContainsAny(opt.BasePath, " {}") {
		return fmt.Errorf("-base-path %q must be a plain path, such as /gallery", opt.BasePath)
	}
	opt.BasePath = strings.TrimRight(opt.BasePath, "/") + "/"
	opt.AllowEmbed = auth.Frames{"https://wiki.example.org"}
	log := slog.New(slog.NewTextHandler(stderr, nil))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, err := newGallery(ctx, opt, log)
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", opt.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "gpuwhy gallery: http://%s%s\n", ln.Addr(), opt.BasePath)
	srv := serve.HTTPServer(g, log)
	srv.ReadHeaderTimeout, srv.ReadTimeout, srv.WriteTimeout = 0, 0, 0  // a browser may stop in its debugger
	srv.BaseContext = func(net.Listener) context.Context { return ctx } // sockets end with it
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	err = srv.Serve(ln)
	cancel()
	g.wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
