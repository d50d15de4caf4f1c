// Command gpuwhy shows live what the GPUs of a machine do, which processes use them, and why the
// fans run. It serves this to browsers, over WebSocket and over REST. This package has the flags,
// the sources and the commands; package app wires and runs the parts.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gpuwhy/gpuwhy/gpu"
	"github.com/gpuwhy/gpuwhy/internal/alerts"
	"github.com/gpuwhy/gpuwhy/internal/fleet/broker"
	"github.com/gpuwhy/gpuwhy/internal/helper"
	"github.com/gpuwhy/gpuwhy/internal/past/scribe"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/sampler/host"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // the command failed
	exitUsage = 2 // the command line, the environment or the file is wrong
)

// A topCommand is one of gpuwhy's commands. Its type has its flags and, for some, subcommands.
type topCommand struct {
	name, help string
	blank      func() any // a new value of its type, with nothing set
}

// blank makes a command, so that none keeps settings of an earlier command line.
func blank[T any]() any { return new(T) }

// commands are all commands, in the order of the help.
var commands = []topCommand{
	{"serve", "Read the GPUs and serve the dashboard (the default).", blank[serveCommand]},
	{"agent", "Read the GPUs and publish the readings to a fleet; serve a page only with --listen.", blank[agentCommand]},
	{"hub", "Show the machines of a fleet; read no GPU here.", blank[hubCommand]},
	{"record", "Store the past of a fleet (--fleet) in one database (--history). Several recorders share the work.", blank[recordCommand]},
	{"snapshot", "Read every GPU once and print it.", blank[snapshotCommand]},
	{"top", "Show live in the terminal why the fans run, the GPUs and the processes on them.", blank[terminalCommand]},
	{"why", "Say why the fan runs, and show the figures behind it: from a running gpuwhy, or from a few seconds of readings.", blank[whyCommand]},
	{"past", "Say what the GPUs did in the past, such as last night.", blank[pastCommand]},
	{"sessions", "List the processes that used GPUs.", blank[sessionsCommand]},
	{"usage", "Say who used GPUs, for how long, and how much energy that took.", blank[usageCommand]},
	{"audit", "Show who did what, and check that nobody changed that record.", blank[auditCommand]},
	{"history", "Manage the database of the past: show its size, export it, compact it, check it for damage.", blank[historyCommand]},
	{"capture", "Record this machine for a bug report, as a folder of plain files without the names of people and programs.", blank[captureCommand]},
	{"healthcheck", "Ask a running gpuwhy whether it is ready; exit with status 1 if not.", blank[healthcheckCommand]},
	{"doctor", "Check what gpuwhy needs here, such as drivers, permissions, ports and disks, and say how to mend what is not fine.", blank[doctorCommand]},
	{"check-config", "Check whether gpuwhy would start with these settings and alert rules.", blank[checkConfigCommand]},
	{"config", "Show the settings in force, and check them.", blank[configCommand]},
	{"do", "Do what the dashboard's buttons do, such as acknowledge and silence alerts, in a running gpuwhy.", newDo},
	{"user", "Add, list, change and remove the accounts with which people sign in.", newAccounts("user", userList{})},
	{"token", "Make, list and remove the API tokens with which programs read gpuwhy.", newAccounts("token", tokenList{})},
	{"session", "List and end the sessions of people who have signed in.", newAccounts("session", sessionList{})},
	{"notify", "Test the targets that alerts are sent to.", blank[notifyCommand]},
	{"fleet", "Let machines join a fleet, list them, and remove them.", blank[fleetCommand]},
	{"completion", "Print a script that completes commands and flags in a shell.", blank[completionCommand]},
	{"man", "Write the man pages of gpuwhy and its commands.", blank[manCommand]},
	{"version", "Print the version, as --version does.", blank[versionCommand]},
	{"help", "Print the help of gpuwhy or of a command, as --help does.", blank[helpCommand]},
}

// A runner is a command that checks its settings and then runs.
type runner interface {
	check() error
	Run(env *environment) error
}

// logging is a command that has a log.
type logging interface {
	logger(w io.Writer) *slog.Logger
}

// environment is what a command runs with.
type environment struct {
	ctx            context.Context
	args           []string // as they were given
	log            *slog.Logger
	stdout, stderr io.Writer
	notes          *term.Notes // stderr, with what takes long
}

// usageError is an error in a setting that was found only on use.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errQuiet is an error that has already been printed.
var errQuiet = errors.New("told already")

// helperTasks are what helper processes of the program do, by their names.
var helperTasks = map[string]func(*helper.Task){
	scribe.Name: scribe.Serve(databases),
	broker.Name: func(t *helper.Task) { broker.Serve(t, host.FreeSpace) },
}

func main() {
	if helper.Asked(os.Args) {
		os.Exit(helper.Run(os.Args, helperTasks))
	}
	nameZone()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if err := unsetEmpty(); err != nil {
		tell(stderr, err)
		return exitError
	}
	cmd, err := parse(args, stdout, stderr)
	if errors.Is(err, errHelped) {
		return exitOK
	}
	if err == nil {
		err = cmd.check()
	}
	if err != nil {
		tell(stderr, err)
		return exitUsage
	}
	// Until here, a signal ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log, notes := slog.New(slog.DiscardHandler), term.NewNotes(stderr)
	if c, ok := cmd.(logging); ok {
		log = c.logger(notes)
	}
	switch err := cmd.Run(&environment{ctx, args, log, stdout, notes, notes}); {
	case err == nil:
		return exitOK
	case errors.Is(err, errQuiet):
		return exitError
	default:
		tell(stderr, err)
		if _, ok := errors.AsType[usageError](err); ok {
			return exitUsage
		}
		return exitError
	}
}

// tell prints an error for a person, in one line, with what to do if that is known.
func tell(w io.Writer, err error) {
	if lines := alerts.ErrorLines(err); len(lines) > 1 {
		for _, line := range lines {
			fmt.Fprintf(w, "gpuwhy: %s\n", term.Printable(line))
		}
		return
	}
	if long, ok := errors.AsType[interface {
		error
		Lines() []string
	}](err); ok {
		for _, line := range long.Lines() {
			fmt.Fprintf(w, "gpuwhy: %s\n", term.Printable(line))
		}
		return
	}
	text := err.Error()
	if advice, ok := errors.AsType[*gpu.Advice](err); ok {
		text = advice.Text()
	}
	fmt.Fprintf(w, "gpuwhy: %s\n", term.Printable(strings.Join(strings.Fields(text), " ")))
}

// unsetEmpty unsets our variables without a value, since compose files pass variables that nobody has set.
func unsetEmpty() error {
	var errs []error
	for _, entry := range os.Environ() {
		if name, ok := strings.CutSuffix(entry, "="); ok && strings.HasPrefix(name, "GPUWHY_") {
			errs = append(errs, os.Unsetenv(name))
		}
	}
	return errors.Join(errs...)
}
