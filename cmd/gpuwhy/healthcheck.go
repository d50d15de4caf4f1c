package main

import (
	"bytes"
	"context"
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
	URL string `arg:"" optional:"" help:"Where gpuwhy is served; by default, what --listen and --base-path say."`
	commonFlags
	reachFlags
}

// Run asks a running gpuwhy whether it is ready. A container's health check has the container's variables, but not the arguments
// of its program. So if nobody listens at the address of these settings, Run looks for that program.
func (c healthcheckCommand) Run(env *environment) error {
	err := c.ready(env.ctx, c.URL)
	if errors.Is(err, client.ErrNobody) && c.URL == "" && !slices.ContainsFunc(env.args, saysWhere) {
		found, records := beside("/proc", &c.addressFlags)
		if records {
			_, err := fmt.Fprintln(env.stdout, "gpuwhy record is running")
			return err
		}
		if found != &c.addressFlags {
			err = (&reachFlags{*found, c.trustFlags}).ready(env.ctx, "")
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

// Fails says when the command ends with status 1.
func (healthcheckCommand) Fails() string { return "gpuwhy is not ready, or none answers" }

// ready asks the gpuwhy at an address, or if that is empty the one with these settings, whether it is ready.
func (f *reachFlags) ready(ctx context.Context, address string) error {
	const longest = 5 * time.Second
	c, err := f.client(address, client.Options{Patience: client.Patience{Silent: longest, Working: longest, Stalled: longest}})
	if err != nil {
		return err
	}
	return c.Ready(ctx)
}

// saysWhere reports whether an argument says where gpuwhy is served.
func saysWhere(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains([]string{"--listen", "--base-path", "--config"}, name)
}

// beside returns the address settings of the gpuwhy that runs in this program's container, from its arguments and the shared variables. It
// returns own if none runs there, if several do, or if one runs with those settings. records says that a recorder runs there, which serves
// nothing.
func beside(proc string, own *addressFlags) (found *addressFlags, records bool) {
	group, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return own, false
	}
	all, err := os.ReadDir(proc)
	if err != nil {
		return own, false
	}
	var others []*addressFlags
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
		if theirs, err := os.ReadFile(filepath.Join(dir, "cgroup")); err != nil || !bytes.Equal(theirs, group) { // another container, or the host
			continue
		}
		switch c, writes := settingsOf(args[1:]); {
		case writes:
			recorders++
		case c == nil, strings.HasSuffix(c.address(), ":0"): // the port is unknown
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

// settingsOf returns the address settings of a gpuwhy with these arguments and our variables; nil if it serves nothing, such as a recorder.
func settingsOf(args []string) (f *addressFlags, records bool) {
	cmd, err := parse(args, io.Discard, io.Discard)
	if err != nil {
		return nil, false
	}
	switch c := cmd.(type) {
	case *recordCommand:
		return nil, true
	case *serveCommand:
		f = &c.addressFlags
	case *hubCommand:
		f = &c.addressFlags
	case *agentCommand:
		f = &c.addressFlags
		if f.Listen == "" {
			return nil, false
		}
	}
	if f == nil || cmd.check() != nil {
		return nil, false
	}
	return f, false
}
