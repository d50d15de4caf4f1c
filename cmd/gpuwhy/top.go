package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/fleet/uplink"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/terminal"
	"github.com/gpuwhy/gpuwhy/internal/when"
)

type topFlags struct {
	At      string `placeholder:"WHEN" help:"Begin in the past: at a time such as \"yesterday 22:00\", or in a span such as \"last night\", of which the keys [ and ] then go through the minutes."`
	Machine string `placeholder:"NODE" help:"The machine of a fleet whose past --at shows; by default the one that is worst now."`
	URL     string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default, what --listen and --base-path say. If nothing listens there, the command reads the GPUs itself, and the database of --history for the past."`
}

type terminalCommand struct {
	topFlags
	askingFlags
	deviceFlags
	deadlineFlags

	from, to time.Time // of At
}

func (c *terminalCommand) check() error {
	return first(c.askingFlags.check, c.deadlineFlags.check, func() error { return c.deviceFlags.check(&c.sourceFlags) }, c.checkAt)
}

// logger returns a log that writes nothing over the view.
func (c *terminalCommand) logger(w io.Writer) *slog.Logger {
	if notes, is := w.(interface{ Terminal() bool }); is && notes.Terminal() {
		return slog.New(slog.DiscardHandler)
	}
	return c.brief(w)
}

// checkAt reads --at: a time, or else a span.
func (c *terminalCommand) checkAt() (err error) {
	if c.At == "" {
		return nil
	}
	now := time.Now()
	if c.from, err = when.Time(c.At, now); err == nil {
		return nil
	}
	s, err := when.Parse(c.At, now)
	if err != nil {
		return fmt.Errorf("--at: %w", err)
	}
	c.from, c.to = s.From, s.To
	return nil
}

// usualInterval is the default of --interval, for programs that run for months. Somebody who looks wants to see more.
const usualInterval = 5 * time.Second

// Run shows the view until somebody quits.
func (c terminalCommand) Run(env *environment) error {
	o := &terminal.Options{From: c.from, To: c.to, Machine: c.Machine, Zone: time.Local, Now: time.Now} //nolint:gosmopolitan // of the person who looks
	o.Past = func(ctx context.Context, r client.Request, w io.Writer) error {
		return c.askPast(&environment{ctx: ctx, log: env.log, stdout: io.Discard, stderr: io.Discard}, c.URL, r, w)
	}
	server, err := c.client(c.URL, client.Options{Flag: "--url"})
	if err != nil {
		return err
	}
	list, err := client.Do(env.ctx, server, client.ListMachines())
	switch {
	case err == nil:
		if len(list.Machines) > 1 && o.Machine == "" {
			o.Machine = list.Machines[0].Node // the worst
		}
		o.Server, o.Feed = server, terminal.NewServer(server)
	case !errors.Is(err, client.ErrNobody) || c.URL != "":
		return legible(err)
	default:
		feed, err := c.ownReadings(env)
		if err != nil {
			return err
		}
		o.Feed = feed
	}
	if columns, drawable := canvas(env.stdout); !drawable {
		return terminal.Print(env.ctx, o, env.stdout, columns)
	}
	return terminal.Run(env.ctx, o, env.stdout, os.Environ())
}

// ownReadings returns a feed of this command's own readings.
func (c *terminalCommand) ownReadings(env *environment) (*terminal.Own, error) {
	t := &target{&c.nameFlags, &c.sourceFlags, &c.paceFlags, &c.deadlineFlags, &c.deviceFlags, &c.privacyFlags, nil, uplink.DefaultAllow, nil}
	inputs, err := t.inputs(env.log)
	if err != nil {
		return nil, err
	}
	interval := c.Interval
	if interval == usualInterval {
		interval = ownInterval
	}
	return terminal.NewOwn(reading.NewReader(env.ctx, inputs, interval, c.Deadline, env.log), app.MonitorOf(inputs, c.name()), interval), nil
}

// printWidth is the width of a frame for an output that is no terminal, if COLUMNS does not say.
const printWidth = 100

// canvas reports whether an output is a terminal that can be drawn on, and its width if it is not.
func canvas(out io.Writer) (columns int, drawable bool) {
	columns = printWidth
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		columns = n
	}
	f, is := out.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return columns, false
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		columns = w
	}
	return columns, os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}
