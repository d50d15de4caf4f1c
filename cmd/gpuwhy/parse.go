package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
)

// newParser returns a parser that reads the command line, the environment and the file into one of some commands. It takes about
// 20 µs for each flag of these commands.
func newParser(some []topCommand, stdout, stderr io.Writer, exit func(code int)) *kong.Kong {
	options := []kong.Option{
		kong.Name("gpuwhy"),
		kong.Description("Why is my GPU fan running? A live dashboard that names the process, user and container behind the heat."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.ExplicitGroups(helpGroups),
		kong.Help(printHelp),
		kong.ValueFormatter(formatHelp),
		kong.Writers(stdout, stderr),
		kong.DefaultEnvars("GPUWHY"),
		kernelFiles(),
		kong.Vars{"listen": defaultListen},
		kong.Exit(exit),
	}
	for _, c := range some {
		options = append(options, kong.DynamicCommand(c.name, c.help, "", c.blank()))
	}
	return kong.Must(new(struct{}), options...)
}

// grammar returns the model of the command line with all commands.
func grammar() *kong.Application {
	return newParser(commands, io.Discard, io.Discard, func(int) {}).Model
}

// settings returns the flags of serve, which are all settings.
func settings() []*kong.Flag {
	return child(newParser(meant(nil), io.Discard, io.Discard, func(int) {}).Model.Node, "serve").Flags
}

// errHelped means that the help was asked for and has been printed.
var errHelped = errors.New("help is printed")

// parse returns the command of a command line with its flags, still unchecked. A valid command line needs only the flags of its
// command. The help and errors need those of all commands, since a flag may belong to another one.
func parse(args []string, stdout, stderr io.Writer) (runner, error) {
	args = pastArgs(asCommands(bareLetters(args)))
	if cmd, err := parseAs(meant(args), args, io.Discard, io.Discard); err == nil {
		return cmd, nil
	}
	return parseAs(commands, args, stdout, stderr)
}

// meant returns the command that a command line probably names: the first word that is a command, or serve.
func meant(args []string) []topCommand {
	called := func(name string) int {
		return slices.IndexFunc(commands, func(c topCommand) bool { return c.name == name })
	}
	for _, arg := range append(slices.Clone(args), "serve") {
		if i := called(arg); i >= 0 {
			return commands[i : i+1]
		}
	}
	return nil
}

// parseAs is parse for a command line that names one of some commands.
func parseAs(some []topCommand, args []string, stdout, stderr io.Writer) (runner, error) {
	helped := false
	parser := newParser(some, stdout, stderr, func(int) { helped = true })
	args = commandFirst(parser.Model, args)
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return nil, errHelped
	case err != nil:
		return nil, hinted(suggested(parser.Model, args, elsewhere(parser.Model, args, err)))
	}
	if err := tidy(parsed); err != nil {
		return nil, err
	}
	cmd := parsed.Selected().Target.Addr().Interface().(runner)
	if c, is := cmd.(tracer); is {
		c.trace(parsed)
	}
	if recorded, is := cmd.(rememberer); is {
		recorded.remember(unusual(parsed.Flags()))
	}
	return cmd, nil
}

// child returns the subcommand with a name; nil if there is none.
func child(parent *kong.Node, name string) *kong.Node {
	for _, n := range parent.Children {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// commandFirst moves the words of the command before all flags, since people write flags anywhere. Without a command, it adds serve.
func commandFirst(app *kong.Application, args []string) []string {
	takesValue := map[string]bool{}
	for _, leaf := range app.Leaves(false) {
		for _, flag := range leaf.Flags {
			takesValue["--"+flag.Name] = !flag.IsBool()
			if flag.Short != 0 {
				takesValue["-"+string(flag.Short)] = !flag.IsBool()
			}
		}
	}
	node, words, rest := app.Node, []string(nil), slices.Clone(args)
walk:
	for i := 0; i < len(rest) && len(node.Children) > 0; {
		name, _, whole := strings.Cut(rest[i], "=")
		value, isFlag := takesValue[name]
		next := child(node, rest[i])
		switch {
		case next != nil:
			node, words, rest = next, append(words, rest[i]), slices.Delete(rest, i, i+1)
		case isFlag && value && !whole:
			i += 2
		case isFlag, rest[i] == "-h", rest[i] == "--help", rest[i] == "--":
			i++
		case strings.HasPrefix(rest[i], "-"): // an unknown flag
			break walk
		default: // an unknown command
			words, rest = append(words, rest[i]), slices.Delete(rest, i, i+1)
			return append(words, rest...)
		}
	}
	switch {
	case len(words) > 0:
		return append(words, rest...)
	case slices.Contains(rest, "-h"), slices.Contains(rest, "--help"):
		return []string{"--help"}
	}
	return append([]string{"serve"}, rest...)
}

// unknownFlag matches kong's error about a flag that a command does not take.
var unknownFlag = lazy.Pattern(`^unknown flag (--[a-z0-9-]+)`)

// elsewhere returns an error that names the commands which take a flag that this one does not.
func elsewhere(app *kong.Application, args []string, err error) error {
	found := unknownFlag().FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	var takers []string
	for _, leaf := range app.Leaves(true) {
		if slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return "--"+f.Name == found[1] }) {
			takers = append(takers, leaf.Path())
		}
	}
	if len(takers) == 0 {
		return err
	}
	node := app.Node
	for _, word := range args {
		next := child(node, word)
		if next == nil {
			break
		}
		node = next
	}
	return fmt.Errorf("'%s' doesn't take %s, which is a flag of %s", node.FullPath(), found[1], listed(takers))
}

// unexpected matches kong's error about a word that is no command.
var unexpected = lazy.Pattern(`^unexpected argument (\S+)$`)

// suggested adds the command or flag that was probably meant, where kong finds none.
func suggested(app *kong.Application, args []string, err error) error {
	if strings.Contains(err.Error(), "did you mean") {
		return err
	}
	node := app.Node
	for _, word := range args {
		next := child(node, word)
		if next == nil {
			break
		}
		node = next
	}
	if found := unexpected().FindStringSubmatch(err.Error()); found != nil {
		var names []string
		for _, n := range node.Children {
			names = append(names, n.Name)
		}
		if node.Parent == nil { // a word of a command may have been meant: "gpuwhy export"
			for _, leaf := range app.Leaves(true) {
				names = append(names, leaf.Path())
			}
		}
		return fmt.Errorf("%w%s", err, nearest.Hint(found[1], names))
	}
	if found := unknownFlag().FindStringSubmatch(err.Error()); found != nil {
		var names []string
		for _, f := range node.Flags {
			names = append(names, "--"+f.Name)
		}
		return fmt.Errorf("%w%s", err, nearest.Hint(found[1], names))
	}
	return err
}

// listed joins names as in a sentence.
func listed(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// printHelp prints the flags of a command by group. gpuwhy without a command serves, so its help has the flags of serve.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
		node.Flags = append(node.Flags, child(node, "serve").Flags...)
	}
	slices.SortStableFunc(node.Flags, func(a, b *kong.Flag) int { return groupOf(a) - groupOf(b) })
	return kong.DefaultHelpPrinter(options, ctx)
}

// groupOf returns the position of a flag's group in the help; -1 for none.
func groupOf(flag *kong.Flag) int {
	return slices.IndexFunc(helpGroups, func(g kong.Group) bool { return flag.Group != nil && flag.Group.Key == g.Key })
}

// formatHelp returns the text of a flag or an argument, with its variable, and with its default if the placeholder does not show it.
func formatHelp(v *kong.Value) string {
	var more []string
	if v.Flag != nil && v.Flag.PlaceHolder != "" && v.Default != "" {
		more = append(more, "default "+v.Default)
	}
	for _, name := range v.Tag.Envs {
		more = append(more, "$"+name)
	}
	if len(more) == 0 {
		return v.Help
	}
	return strings.TrimSuffix(v.Help, ".") + " (" + strings.Join(more, ", ") + ")."
}

// errNoHelp is never shown: asCommands turns the help command into a flag first.
var errNoHelp = errors.New("write: gpuwhy help [COMMAND]")
