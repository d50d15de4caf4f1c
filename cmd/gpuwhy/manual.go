package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/internal/app"
	"github.com/gpuwhy/gpuwhy/internal/manual"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/release"
	"github.com/gpuwhy/gpuwhy/internal/term"
	"github.com/gpuwhy/gpuwhy/sampler/sim"
)

// A finder is a command that ends with status 1 also where it has done its work, because of what it found.
type finder interface {
	// Fails says when, for the documents: "the database is damaged".
	Fails() string
}

// failsWhen says when a command ends with status 1.
func failsWhen(command *kong.Node) string {
	if command.Target.IsValid() && command.Target.CanAddr() {
		if f, is := reflect.TypeAssert[finder](command.Target.Addr()); is {
			return f.Fails() + ", or the command failed"
		}
	}
	return "the command failed, and says why"
}

// exits are the statuses with which commands end.
var exits = []manual.Exit{
	{Code: exitOK, Text: "The command did what it was asked for. A program that runs until it is stopped was stopped."},
	{Code: exitError, Of: func(c *kong.Node) string { return capital(failsWhen(c)) + "." }},
	{Code: exitUsage, Text: "The command line, an environment variable or the configuration is wrong. Nothing was done."},
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// wordLists are lists for the tag "words", which says what a value may be. The tag has the words themselves, or @ and the name of a list.
var wordLists = map[string]func() []string{
	"@sources": sourceWords,
	"@tiers":   func() []string { return []string{"raw", "1m", "15m", "6h"} },
	"@results": func() []string { return []string{"begun", "done", "refused", "failed"} },
	"@commands": func() (names []string) {
		for _, c := range commands {
			names = append(names, c.name)
		}
		return names
	},
	"@actions": func() (names []string) {
		for _, a := range app.Actions() {
			names = append(names, a.ID)
		}
		return names
	},
}

// sourceWords are the values of --source that are known.
func sourceWords() []string {
	words := append([]string{sourceAuto}, realSources...)
	for _, profile := range sim.Profiles() {
		words = append(words, simulation+profile)
	}
	return append(words, simulation+"fleet:16", recorded)
}

// knownWords returns what a value may be, or some of that; nil if nothing is known about it.
func knownWords(v *kong.Value) []string {
	switch tag := v.Tag.Get("words"); {
	case v.Enum != "":
		return v.EnumSlice()
	case tag == "":
		return nil
	case strings.HasPrefix(tag, "@"):
		return wordLists[tag]()
	default:
		return strings.Split(tag, ",")
	}
}

// oneOf refuses a value that is not one of a list. An empty one is not given.
func oneOf(flag, value, list string) error {
	words := wordLists[list]()
	if value == "" || slices.Contains(words, value) {
		return nil
	}
	return bad(flag, value, "must be one of "+strings.Join(words, ", ")+nearest.Hint(value, words))
}

// documents is where the documents are.
const documents = "https://github.com/gpuwhy/gpuwhy/tree/main/docs"

// commandLine returns what shells and man are told.
func commandLine() *manual.CommandLine {
	app := grammar()
	l := &manual.CommandLine{
		App: app, Root: child(app.Node, "serve").Flags, Words: knownWords, Version: release.Version, Exits: exits, Manual: "gpuwhy", See: [][]string{{"Documents", documents}},
	}
	if build := release.ThisBuild(); !build.Date.IsZero() {
		l.Date = build.Date.Format("2006-01-02")
	}
	for _, g := range helpGroups {
		l.Groups = append(l.Groups, manual.Group{Key: g.Key, Title: g.Title})
	}
	return l
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

func (completionCommand) check() error { return nil }

// Help says how to use the script.
func (completionCommand) Help() string {
	return "bash: source <(gpuwhy completion bash), for example in ~/.bashrc.\n\n" +
		"zsh: gpuwhy completion zsh > \"${fpath[1]}/_gpuwhy\".\n\n" +
		"fish: gpuwhy completion fish > ~/.config/fish/completions/gpuwhy.fish."
}

// Run prints the script.
func (c completionCommand) Run(env *environment) error {
	l := commandLine()
	write := map[string]func(io.Writer) error{"bash": l.Bash, "zsh": l.Zsh, "fish": l.Fish}[c.Shell]
	return write(env.stdout)
}

type manCommand struct {
	Dir string `arg:"" help:"Folder to write the pages to, such as /usr/local/share/man/man1."`
}

func (manCommand) check() error { return nil }

// Run writes the pages.
func (c manCommand) Run(env *environment) error {
	dir, err := pathOf("the folder", c.Dir)
	if err != nil {
		return usageError{err}
	}
	names, err := commandLine().Man(dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s has %d pages.\n", term.Printable(dir), len(names))
	return err
}
