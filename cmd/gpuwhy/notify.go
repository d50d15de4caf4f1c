package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gpuwhy/gpuwhy/internal/alerts/notify"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

type notifyCommand struct {
	Test notifyTestCommand `cmd:"" help:"Send a test message to the targets in the alert rules file, and say which accepted it."`
}

type notifyTestCommand struct {
	Targets []string `arg:"" optional:"" name:"target" help:"Names of targets; all by default."`
	commonFlags
	alertFlags
}

// Run sends a message to all targets at once. It fails if a target does not accept it.
func (c notifyTestCommand) Run(env *environment) error {
	targets, err := c.targets()
	if err != nil {
		return usageError{err}
	}
	var result error
	failures := make([]error, len(targets))
	var all sync.WaitGroup
	for i := range targets {
		all.Go(func() { failures[i] = notify.Test(env.ctx, targets[i]) })
	}
	all.Wait()
	for i, failure := range failures {
		said := "ok"
		if failure != nil {
			said, result = "failed: "+term.Printable(failure.Error()), errQuiet
		}
		if _, err := fmt.Fprintf(env.stdout, "%s: %s\n", targets[i].Name, said); err != nil {
			return err
		}
	}
	return result
}

// Fails says when the command ends with status 1.
func (notifyTestCommand) Fails() string { return "a target did not accept the message" }

// targets returns the targets named on the command line, or all.
func (c notifyTestCommand) targets() ([]notify.Target, error) {
	if c.AlertRules == "" {
		return nil, errors.New("no targets are known: name the file that lists them with --alert-rules")
	}
	file, err := c.rules()
	if err != nil {
		return nil, err
	}
	all := file.Notify.Targets
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no targets: the guide says how to write them, at /guide/notifications", c.AlertRules)
	}
	if len(c.Targets) == 0 {
		return all, nil
	}
	var out []notify.Target
	for _, name := range c.Targets {
		i := slices.IndexFunc(all, func(t notify.Target) bool { return t.Name == name })
		if i < 0 {
			var names []string
			for i := range all {
				names = append(names, all[i].Name)
			}
			return nil, fmt.Errorf("there is no target %q%s; the targets are %s", name, nearest.Hint(name, names), strings.Join(names, ", "))
		}
		out = append(out, all[i])
	}
	return out, nil
}
