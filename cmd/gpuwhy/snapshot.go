package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/contract"
	"github.com/gpuwhy/gpuwhy/internal/insight"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

type snapshotCommand struct {
	Output string `short:"o" default:"table" enum:"table,wide,csv,json" env:"-" help:"What to print: a table that fits the terminal, a wide table with all columns, csv with one line for each GPU, or json, which is the reading as /api/gpu/metrics would print it."`
	JSON   bool   `name:"json" help:"The same as -o json."`
	Watch  bool   `env:"-" help:"Read again every --interval, until interrupted."`
	readingFlags
}

func (c *snapshotCommand) check() error {
	if c.JSON {
		if c.Output != "table" && c.Output != "json" {
			return bad("output", c.Output, "can't be used with --json")
		}
		c.Output = "json"
	}
	return c.readingFlags.check()
}

// Fails says when the command ends with status 1.
func (snapshotCommand) Fails() string { return "no GPU can be read" }

// Run reads every GPU and prints what it reports. It fails if no GPU can be read.
func (c snapshotCommand) Run(env *environment) error {
	inputs, err := c.target().inputs(env.log)
	if err != nil {
		return err
	}
	p := &snapshotPrinter{snapshotCommand: &c, screen: term.ScreenOf(env.stdout), monitor: app.MonitorOf(inputs, c.name())}
	end := env.notes.During("reading the GPUs", nil)
	if c.Watch {
		r := reading.NewReader(env.ctx, inputs, c.Interval, c.Deadline, env.log)
		defer end()
		for err == nil {
			var f *insight.Fleet
			if f, err = r.Next(env.ctx); err == nil {
				end()
				err = p.print(f)
			}
		}
		if env.ctx.Err() != nil { // interrupted, which is how it ends
			err = nil
		}
		return cmp.Or(err, r.Close())
	}
	f, err := reading.ReadOnce(env.ctx, inputs, c.Deadline, env.log)
	end()
	if err == nil {
		err = p.print(f)
	}
	if err != nil {
		return err
	}
	if f.Nodes().Totals().Devices == 0 {
		fmt.Fprintln(env.stderr, "gpuwhy: "+term.Printable(f.Answer().Sentence))
		return errQuiet
	}
	return nil
}

// A snapshotPrinter prints one snapshot after another.
type snapshotPrinter struct {
	*snapshotCommand
	screen  term.Screen
	monitor contract.Monitor
	printed bool
}

// cleared is a terminal with the cursor at its first line.
const cleared = "\x1b[H\x1b[2J"

func (p *snapshotPrinter) print(f *insight.Fleet) (err error) {
	first := !p.printed
	p.printed = true
	if p.Watch && (p.Output == "table" || p.Output == "wide") {
		switch {
		case p.screen.Terminal:
			_, err = io.WriteString(p.screen, cleared)
		case !first:
			_, err = io.WriteString(p.screen, "\n")
		}
		_, said := fmt.Fprintf(p.screen, "%s, every %v\n", time.Now().Format(time.TimeOnly), p.Interval)
		err = errors.Join(err, said)
	}
	switch {
	case err != nil:
		return err
	case p.Output == "json" && p.Watch:
		return term.JSONLine(p.screen, contract.NewFleetUpdate(p.monitor, f))
	case p.Output == "json":
		return term.JSON(p.screen, contract.NewFleetUpdate(p.monitor, f))
	case p.Output == "csv":
		return term.CSV(p.screen, f, first)
	default:
		return term.Table(p.screen, f, p.Output == "wide")
	}
}
