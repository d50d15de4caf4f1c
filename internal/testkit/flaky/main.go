//go:build linux

// Command flaky runs tests again and again under bad conditions that they must survive. Other processes keep the cores busy, and the
// tests and their children stop for seconds at random. It lists the failures.
//
//	go run ./internal/testkit/flaky -runs 30 -loads 2,8 ./sampler/smi ./internal/past/store/...
//
// It builds each package's tests once with the flags of -build and, for the folders in -plain, the tests that match -only again without
// them. Each run has a seed for the order of the tests and for the stops: -seed repeats both for a failed run, as far as the machine
// does. The output of failed runs is in the folder of -logs.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// busyArg makes this program one that keeps a core busy.
const busyArg = "keep-busy"

type options struct {
	runs, beside int
	loads        []int
	seed         uint64
	stops        bool
	build, plain []string
	run, only    string
	timeout      time.Duration
	logs         string
	packages     []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == busyArg {
		keepBusy()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := start(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case failed > 0:
		os.Exit(1)
	}
}

// start runs the tests as the arguments say, and returns how many runs failed.
func start(ctx context.Context, args []string, out io.Writer) (failed int, err error) {
	var o options
	flags := flag.NewFlagSet("flaky", flag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 30, "how often the tests of each package run with each load")
	flags.IntVar(&o.beside, "beside", 2, "how many packages are tested at a time")
	loads := flags.String("loads", "2,8", "how many busy processes run beside the tests, one number after the other")
	flags.Uint64Var(&o.seed, "seed", 0, "seed for the order of tests and the stops, to repeat a run; 0: a new one for each run")
	flags.BoolVar(&o.stops, "stops", true, "stop the tests and their children for 1 to 3 s at random")
	buildFlags := flags.String("build", "-race", "flags for go test, separated by spaces")
	plain := flags.String("plain", "", "folders whose tests also run without these flags, separated by spaces")
	flags.StringVar(&o.only, "only", "", "pattern that limits the tests without these flags")
	flags.StringVar(&o.run, "run", "", "pattern that limits the tests, as in go test")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "time after which a run has failed")
	flags.StringVar(&o.logs, "logs", "artifacts/flaky", "folder for the output of failed runs")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	for text := range strings.SplitSeq(*loads, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("-loads: %q is not a number of processes", text)
		}
		o.loads = append(o.loads, n)
	}
	if o.packages = flags.Args(); len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	o.beside, o.runs = max(o.beside, 1), max(o.runs, 1)
	o.build = strings.Fields(*buildFlags)
	for dir := range strings.FieldsSeq(*plain) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return 0, err
		}
		o.plain = append(o.plain, abs)
	}
	if o.logs, err = filepath.Abs(o.logs); err != nil {
		return 0, err
	}
	return test(ctx, o, out)
}

func test(ctx context.Context, o options, out io.Writer) (failed int, err error) {
	dir, err := os.MkdirTemp("", "flaky-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(o.logs, 0o755); err != nil {
		return 0, err
	}
	binaries, err := build(ctx, o, dir)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "%d test binaries, %d runs of each beside %v busy processes\n", len(binaries), o.runs, o.loads)
	var failures []result
	for _, load := range o.loads {
		release, err := occupy(load)
		if err != nil {
			return len(failures), err
		}
		more := runAll(ctx, o, binaries, load, out)
		failures = append(failures, more...)
		if err := errors.Join(release(), ctx.Err()); err != nil {
			return len(failures), err
		}
	}
	if len(failures) == 0 {
		fmt.Fprintln(out, "no run failed")
		return 0, nil
	}
	fmt.Fprintf(out, "\n%d runs failed:\n", len(failures))
	for _, f := range failures {
		fmt.Fprintf(out, "  %s beside %d, seed %d: %s\n    %s\n", f.binary.name, f.load, f.seed, cmp.Or(strings.Join(f.tests, ", "), "outside a test"), f.log)
	}
	return len(failures), nil
}
