package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhy/gpuwhy/client"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

type healthcheckCommand struct {
	URL string `arg:"" optional:"" help:"Where gpuwhy is served; by default what --listen and --base-path say."`
}

// Run asks a running gpuwhy whether it is ready. A container's health check has the variables of the container, and not the
// arguments of its program: where nobody listens at the address of these settings, that program is looked for.
func (c healthcheckCommand) Run(env *environment) error {
	err := env.ready(c.URL, env.cfg)
	if errors.Is(err, client.ErrNobody) && c.URL == "" && !slices.ContainsFunc(env.args, saysWhere) {
		found, records := beside("/proc", env.cfg)
		if records {
			_, err := fmt.Fprintln(env.stdout, "gpuwhy record runs")
			return err
		}
		if found != env.cfg {
			err = env.ready("", found)
		}
	}
	if p, ok := errors.AsType[*client.Problem](err); ok {
		return fmt.Errorf("not ready: %s: %s", p.Line, term.Printable(p.Detail))
	}
	if err == nil {
		_, err = fmt.Fprintln(env.stdout, "ready")
	}
	return err
}

// ready asks the gpuwhy at an address whether it is ready; if that is empty, the one that settings are for.
func (env *environment) ready(address string, of *Config) error {
	const longest = 5 * time.Second
	c, err := newClient(address, of, client.Options{Patience: client.Patience{Silent: longest, Working: longest, Stalled: longest}})
	if err != nil {
		return err
	}
	return c.Ready(env.ctx)
}

// saysWhere reports whether an argument says where gpuwhy is served.
func saysWhere(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains([]string{"--listen", "--base-path", "--config"}, name)
}

// beside returns the settings of the gpuwhy that runs in the container of this program, by its arguments and the variables that both
// have. They are own where none runs there, where several do, or where one does with these. records says that a recorder
// runs there, which serves nothing.
func beside(proc string, own *Config) (found *Config, records bool) {
	group, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return own, false
	}
	all, err := os.ReadDir(proc)
	if err != nil {
		return own, false
	}
	var others []*Config
	recorders := 0
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join(proc, entry.Name())
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
		if err != nil || filepath.Base(args[0]) != filepath.Base(os.Args[0]) {
			continue
		}
		if of, err := os.ReadFile(filepath.Join(dir, "cgroup")); err != nil || !bytes.Equal(of, group) { // another container, or the host
			continue
		}
		switch c, command := settingsOf(args[1:]); {
		case command == "record":
			recorders++
		case c == nil, strings.HasSuffix(c.address(), ":0"): // which port that is, nobody says
		case c.address() == own.address() && c.BasePath == own.BasePath:
			return own, false
		default:
			others = append(others, c)
		}
	}
	switch {
	case len(others) == 1 && recorders == 0:
		return others[0], false
	case len(others) == 0 && recorders > 0:
		return own, true
	}
	return own, false
}

// settingsOf are those of a gpuwhy with these arguments and our variables, and its command; nil where it serves nothing.
func settingsOf(args []string) (c *Config, command string) {
	cmd := new(commands)
	exited := false
	parser, err := newParser(cmd, io.Discard, io.Discard, func(int) { exited = true })
	if err != nil {
		return nil, ""
	}
	parsed, err := parser.Parse(pastArgs(asCommands(args)))
	if err != nil || exited || tidy(parsed) != nil {
		return nil, ""
	}
	command, _, _ = strings.Cut(parsed.Command(), " ")
	switch {
	case command == "record":
		return nil, command
	case command != "serve" && command != "hub" && (command != "agent" || cmd.Listen == ""), cmd.check() != nil:
		return nil, command
	}
	return &cmd.Config, command
}
