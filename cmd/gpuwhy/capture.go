package main

import (
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/capture"
	"github.com/gpuwhy/gpuwhy/internal/reading"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/sampler"
	"github.com/gpuwhy/gpuwhy/sampler/recording"
	"github.com/gpuwhy/gpuwhy/sampler/replay"
	"github.com/gpuwhy/gpuwhy/sampler/smi"
)

const recorded = "replay:"

// replays returns the folder of the capture to play.
func (f *sourceFlags) replays() (dir string, ok bool) {
	return strings.CutPrefix(strings.Join(f.Source, ","), recorded) // the folder may have a comma in its name
}

// checkReplay returns what is wrong with a capture; "" for nothing.
func checkReplay(dir string) string {
	if _, err := recording.Open(dir); err != nil {
		advice := gpu.AsAdvice(err)
		return advice.Text()
	}
	return ""
}

// newReplay returns the inputs of the recorded machine.
func (m *target) newReplay(dir string, log *slog.Logger) ([]*reading.Inputs, error) {
	source, err := replay.Open(dir, replay.Config{Interval: m.Interval, Deadline: m.Deadline, Log: log.With("part", "replay")})
	if err != nil {
		return nil, err
	}
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	node := source.Node()
	if m.Node != "" {
		node = m.Node
	}
	return []*reading.Inputs{{Node: node, Origin: recorded + dir, Sources: []sampler.Source{source}}}, nil
}

type captureCommand struct {
	Dir       string        `arg:"" help:"Folder to write. It must not exist yet, or must be empty."`
	For       time.Duration `default:"1m" help:"How long to record, 1s to 24h. Ctrl-C stops early and keeps what was recorded."`
	Every     time.Duration `default:"1s" help:"Time between readings, 250ms to 1h."`
	ShowNames bool          `name:"show-names" help:"Keep names of users, hosts, processes, containers and similar, serial numbers and UUIDs. By default a number replaces each."`
	readingFlags
}

// Run records this machine.
func (c captureCommand) Run(env *environment) error {
	switch {
	case c.For < time.Second || c.For > 24*time.Hour:
		return usageError{bad("for", c.For.String(), "must be from 1s to 24h")}
	case c.Every < 250*time.Millisecond || c.Every > time.Hour:
		return usageError{bad("every", c.Every.String(), "must be from 250ms to 1h")}
	}
	dir, err := pathOf("the folder", c.Dir)
	if err != nil {
		return usageError{err}
	}
	c.Dir = dir
	if _, simulated := c.simulates(); simulated {
		return usageError{bad("source", c.Source[0], "a simulation can't be recorded, since nothing in it is real")}
	}
	if _, played := c.replays(); played {
		return usageError{bad("source", c.Source[0], "is already a recording: copy its folder")}
	}
	c.Interval = c.Every
	inputs, err := c.target().inputs(env.log)
	if err != nil {
		return err
	}
	reader := reading.NewReader(env.ctx, inputs, c.Every, c.Deadline, env.log)
	options := c.options(reader, env.log)
	options.Started = func() {
		fmt.Fprintf(env.stderr, "gpuwhy: recording into %s for %v; Ctrl-C stops early\n", term.Printable(c.Dir), c.For)
	}
	end := env.notes.During("recording", func(passed time.Duration) string {
		return fmt.Sprintf("%v of %v", passed.Truncate(time.Second), c.For)
	})
	s, err := capture.Record(env.ctx, options)
	end()
	if closing := reader.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return c.tell(env, s)
}

func (c captureCommand) options(reader *reading.Reader, log *slog.Logger) capture.Options {
	o := capture.Options{
		Dir: c.Dir, Names: c.ShowNames, Every: c.Every, For: c.For, Version: release.Version, Sources: c.Source, Host: c.hostname,
		SysfsRoot: c.SysfsRoot, ProcRoot: c.ProcRoot, NvidiaSMI: smi.Program(c.NvidiaSMI), Log: log.With("part", "capture"),
		Next: func(ctx context.Context) (*gpu.Snapshot, error) {
			f, err := reader.Next(ctx)
			if err != nil {
				return nil, err
			}
			return f.Nodes()[0], nil // a real machine is one node
		},
	}
	if me, err := user.Current(); err == nil { // without a name, there is nothing to replace
		o.User = me.Username
	}
	for vendor, names := range map[gpu.Vendor][]string{
		gpu.NVIDIA: {sourceNVML, sourceSMI}, gpu.AMD: {sourceAMD}, gpu.Intel: {sourceIntel},
	} {
		if slices.ContainsFunc(append(names, sourceAuto), func(name string) bool { return slices.Contains(c.Source, name) }) {
			o.Vendors = append(o.Vendors, vendor)
		}
	}
	slices.Sort(o.Vendors)
	return o
}

// tell prints what was recorded.
func (c captureCommand) tell(env *environment, s *capture.Summary) error {
	var out strings.Builder
	say := func(format string, args ...any) { out.WriteString(term.Printable(fmt.Sprintf(format, args...)) + "\n") }
	say("%s has %d readings over %v.", c.Dir, s.Readings, s.Ended.Sub(s.Began))
	if s.Full {
		say("The recording ended early: a capture holds at most %d MiB of readings. To record for longer, use a larger --every.",
			recording.MaxReadings>>20)
	}
	for _, text := range s.Missing {
		say("Not in it: %s", text)
	}
	if c.ShowNames {
		say("It contains all names, serial numbers and UUIDs, as you asked.")
	} else {
		say("Replaced by numbers: %s.", strings.Join(s.Masked, ", "))
	}
	say("Read it before you send it to anyone. 'gpuwhy --source %s%s' plays it.", recorded, c.Dir)
	_, err := fmt.Fprint(env.stdout, out.String())
	return err
}
