package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// pastFlags are the flags of all commands about the past.
type pastFlags struct {
	TZ      string `name:"tz" placeholder:"ZONE" help:"Time zone of the times given and shown, such as Europe/Berlin; this machine's by default."`
	JSON    bool   `name:"json" help:"Print what the API answers."`
	CSV     bool   `name:"csv" help:"Print a table for other programs."`
	URL     string `name:"url" placeholder:"URL" help:"Where gpuwhy is served; by default, what --listen and --base-path say. If nothing listens there, the database of --history answers."`
	Machine string `placeholder:"NODE" help:"One machine of a fleet; all machines in the database by default."`
	askingFlags
}

type pastCommand struct {
	When string `arg:"" optional:"" default:"last night" help:"Time span: \"last night\" (22:00 to 06:00, the default), yesterday, 1.5h, 22:00-06:00 (the latest that has begun), \"yesterday at 22:00\" (until now), \"yesterday 22:00 to 06:00\", monday (that day), \"since monday\" (until now), RFC 3339 (seconds and zone may be left out), or seconds since 1970."`
	GPU  string `arg:"" optional:"" help:"One GPU, by index or UUID; all by default."`
	pastFlags
}

func (c *pastCommand) check() error {
	return first(c.askingFlags.check, func() error { return saysWhen(c.When) })
}

// Run prints what went on in a time span.
func (c pastCommand) Run(env *environment) error {
	return tellPast(env, &c.pastFlags, client.GetPastWhy(c.span(c.When, c.GPU)), term.Past)
}

type sessionsCommand struct {
	When string `arg:"" optional:"" default:"24h" help:"Time span, as for gpuwhy past; the last 24 hours by default."`
	GPU  string `help:"One GPU, by index or UUID; all by default."`
	User string `help:"One user; all by default."`
	pastFlags
}

func (c *sessionsCommand) check() error {
	return first(c.askingFlags.check, func() error { return saysWhen(c.When) })
}

// Run prints the processes that used GPUs.
func (c sessionsCommand) Run(env *environment) error {
	return tellPast(env, &c.pastFlags, client.ListSessions(c.span(c.When, c.GPU), c.User), term.Sessions)
}

type usageCommand struct {
	When  string `arg:"" optional:"" help:"Time span, as for gpuwhy past; by default this month, from its first day until now."`
	By    string `default:"user" enum:"user,process,job,pod,container,unit,gpu,node,cluster" help:"What to sum by: user, process, job, pod, container, unit (systemd), gpu, node or cluster. The longest use comes first, for GPUs too."`
	Since string `placeholder:"WHEN" help:"Start of a span that ends now. --since monday means from Monday until now; the argument monday means only that day."`
	User  string `help:"One user; all by default."`
	pastFlags
}

// Run prints who used GPUs.
func (c usageCommand) Run(env *environment) error {
	if c.When != "" && c.Since != "" {
		return usageError{errors.New("give the time span once: as an argument, or with --since")}
	}
	when := cmp.Or(c.When, since(c.Since), "this month")
	return tellPast(env, &c.pastFlags, client.GetUsage(c.span(when, ""), c.By, c.User), term.Usage)
}

// saysWhen refuses a time span that is given but empty, for example from an unset shell variable: it does not mean the default.
func saysWhen(when string) error {
	if when == "" {
		return errors.New(`the time span is empty: give one, such as "last night", or leave it out`)
	}
	return nil
}

// since returns the span from a time until now; empty without a time.
func since(begin string) string {
	if begin == "" {
		return ""
	}
	return "since " + begin
}

// pastArgs lets a time span begin with a minus, as in "gpuwhy past -5m", which would otherwise be a flag. No flag begins with a digit,
// and spaces around a span don't matter.
func pastArgs(args []string) []string {
	command := slices.IndexFunc(args, func(a string) bool { return slices.Contains([]string{"past", "sessions", "usage", "history"}, a) })
	if command < 0 {
		return args
	}
	args = slices.Clone(args)
	for i, a := range args[command:] {
		if a == "--" {
			break
		}
		if len(a) > 1 && a[0] == '-' && a[1] >= '0' && a[1] <= '9' {
			args[command+i] = " " + a
		}
	}
	return args
}

// span returns the span to ask about.
func (f *pastFlags) span(when, gpu string) client.Span {
	s := client.Span{From: when, TimeZone: zoneAsked(f.TZ), Node: f.Machine}
	if gpu != "" {
		s.GPU = []string{gpu}
	}
	return s
}

// tellPast prints gpuwhy's answer.
func tellPast[A any](env *environment, flags *pastFlags, call client.Call[A], show func(io.Writer, *A) error) error {
	switch {
	case flags.JSON && flags.CSV:
		return usageError{errors.New("--json and --csv can't be used together")}
	case flags.CSV:
		return flags.printPast(env, flags.URL, call.Table())
	}
	var body bytes.Buffer
	end := env.notes.During("asking about the past", nil)
	err := flags.askPast(env, flags.URL, call.Request, &body)
	end()
	if err != nil && body.Len() == 0 {
		return err
	}
	answer, unread := call.Decode(body.Bytes())
	if err = cmp.Or(err, unread); err != nil {
		return fmt.Errorf("can't read the answer: %w", err)
	}
	if flags.JSON {
		return term.JSON(env.stdout, answer)
	}
	return show(env.stdout, answer)
}

// zoneAsked returns the zone of --tz, or else this machine's.
func zoneAsked(tz string) string { return cmp.Or(tz, localZone()) }
