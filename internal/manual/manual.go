// Package manual describes a command line to shells and to man: it writes completion scripts and man pages, from kong's model of the
// commands and their flags. The scripts are static: they start no program.
package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// A CommandLine is what is described.
type CommandLine struct {
	App     *kong.Application
	Root    []*kong.Flag                     // the flags without a command
	Words   func(value *kong.Value) []string // what a value may be, or some of it; nil if that is not known
	Version string
	Date    string     // of the version, for the man pages, as 2026-11-28; empty if unknown
	Exits   []Exit     // in the order of their codes
	Groups  []Group    // of flags, in their order
	Manual  string     // its name, for the head of its pages
	See     [][]string // for the pages: name and address of further documents
}

// An Exit is a status with which commands end, and what it means.
type Exit struct {
	Code int
	Text string
	Of   func(command *kong.Node) string // more about one command; empty if there is nothing
}

// A Group is a title of flags.
type Group struct{ Key, Title string }

// command is a command or the program itself, as completion sees it.
type command struct {
	node     *kong.Node
	path     string // "gpuwhy history export"
	commands []*command
	flags    []*option
	args     []*argument
}

// option is a flag.
type option struct {
	name   string // without dashes
	short  string // one letter; empty for none
	help   string // its first sentence
	takes  bool   // a value follows
	again  bool   // it can be repeated
	label  string // what the value is
	values values
}

// argument is a word that is no flag.
type argument struct {
	name     string
	optional bool
	again    bool
	values   values
}

// values are what can be offered for a flag or an argument.
type values struct {
	words []string
	list  bool   // several, separated by commas
	files string // "file" or "dir"; empty for neither
}

// newCommand returns a command with those below it.
func (l *CommandLine) newCommand(node *kong.Node, path string, flags []*kong.Flag) *command {
	c := &command{node: node, path: path}
	for _, f := range append(slices.Clone(flags), l.App.HelpFlag) {
		if f == nil || f.Hidden || slices.ContainsFunc(c.flags, func(o *option) bool { return o.name == f.Name }) {
			continue
		}
		c.flags = append(c.flags, l.newOption(f))
	}
	for _, p := range node.Positional {
		c.args = append(c.args, &argument{p.Name, !p.Required, p.IsCumulative(), l.valuesOf(p, strings.ToUpper(p.Name))})
	}
	for _, n := range node.Children {
		if !n.Hidden {
			c.commands = append(c.commands, l.newCommand(n, path+" "+n.Name, n.Flags))
		}
	}
	return c
}

// root is the program, with all its commands.
func (l *CommandLine) root() *command {
	return l.newCommand(l.App.Node, l.App.Name, append(slices.Clone(l.App.Flags), l.Root...))
}

// all are a command and those below it.
func (c *command) all() []*command {
	out := []*command{c}
	for _, below := range c.commands {
		out = append(out, below.all()...)
	}
	return out
}

func (l *CommandLine) newOption(f *kong.Flag) *option {
	o := &option{name: f.Name, help: sentence(f.Help), takes: !f.IsBool() && !f.IsCounter(), again: f.IsCumulative()}
	if f.Short != 0 {
		o.short = string(f.Short)
	}
	if o.takes {
		o.label = f.PlaceHolder
		if o.label == "" {
			o.label = f.Name
		}
		o.values = l.valuesOf(f.Value, f.PlaceHolder)
	}
	return o
}

func (l *CommandLine) valuesOf(v *kong.Value, label string) values {
	out := values{words: l.Words(v), list: v.IsSlice() && v.Flag != nil && v.Tag.Sep != -1}
	switch label {
	case "FILE", "PATH":
		out.files = "file"
	case "DIR":
		out.files = "dir"
	}
	return out
}

// sentence is the first sentence of a help text, without its full stop.
func sentence(help string) string {
	help, _, _ = strings.Cut(help, ". ")
	help, _, _ = strings.Cut(help, "; ")
	return strings.TrimSuffix(help, ".")
}
