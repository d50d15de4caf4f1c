package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/action"
	"github.com/gpuwhy/gpuwhy/internal/regular"
	"github.com/gpuwhy/gpuwhy/internal/term"
)

// configCommand is about settings.
type configCommand struct {
	Show  configShow         `cmd:"" help:"Show the settings in force, and where each comes from: the command line, a variable, a line of the file, or the default."`
	Check checkConfigCommand `cmd:"" help:"Check whether gpuwhy would start with these settings and alert rules, as check-config does."`
}

type configShow struct {
	Changed bool `env:"-" help:"Only settings that somebody has set."`
	JSON    bool `name:"json" help:"Print them for programs."`
	serveFlags

	parsed *kong.Context
}

// A tracer is a command that says where settings come from.
type tracer interface {
	// trace takes the command line as it was parsed, before the command is checked.
	trace(parsed *kong.Context)
}

func (c *configShow) trace(parsed *kong.Context) { c.parsed = parsed }

// A setting is a flag with its value in force.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	From    string `json:"from"`            // "command line", "environment", "file" or "default"
	Where   string `json:"where,omitempty"` // the variable, or the file and its line
}

// Run prints the settings. Secrets in them are masked.
func (c configShow) Run(env *environment) error {
	all, err := settingsIn(c.parsed)
	if err != nil {
		return err
	}
	// Two defaults are not in the flags.
	for i := range all {
		switch s := &all[i]; s.Name {
		case "listen":
			s.Value = cmp.Or(s.Value, c.address())
		case "node":
			s.Value = cmp.Or(s.Value, c.name())
		}
	}
	if c.Changed {
		all = slices.DeleteFunc(all, func(s setting) bool { return s.From == fromDefault })
	}
	if c.JSON {
		return term.JSON(env.stdout, all)
	}
	rows := make([][]string, len(all))
	for i, s := range all {
		from := s.From
		if s.Where != "" {
			from = s.Where
		}
		rows[i] = []string{s.Name, cmp.Or(s.Value, "-"), from}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(env.stdout, "All settings are the default.")
		return err
	}
	return term.Rows(term.ScreenOf(env.stdout), []term.Column{{Title: "SETTING"}, {Title: "VALUE", Least: 12}, {Title: "FROM", Least: 12}}, rows)
}

// Where settings come from.
const (
	fromLine        = "command line"
	fromEnvironment = "environment"
	fromFile        = "file"
	fromDefault     = "default"
)

// settingsIn returns the settings of a command, in the order of the help.
func settingsIn(parsed *kong.Context) (all []setting, err error) {
	given := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag.Name] = true
		}
	}
	flags := parsed.Selected().Flags
	name, lines, err := linesOf(flags)
	if err != nil {
		return nil, err
	}
	flags = slices.DeleteFunc(slices.Clone(flags), func(f *kong.Flag) bool { return len(f.Tag.Envs) == 0 || f.Name == "json" })
	slices.SortStableFunc(flags, func(a, b *kong.Flag) int { return groupOf(a) - groupOf(b) })
	for _, f := range flags {
		s := setting{Name: f.Name, Value: valueOf(f), Default: f.Default, From: fromDefault}
		variable := slices.IndexFunc(f.Tag.Envs, func(name string) bool { _, set := os.LookupEnv(name); return set })
		switch line, inFile := lines[f.Name]; {
		case given[f.Name]:
			s.From, s.Where = fromLine, "--"+f.Name
		case variable >= 0:
			s.From, s.Where = fromEnvironment, "$"+f.Tag.Envs[variable]
		case inFile:
			s.From, s.Where = fromFile, fmt.Sprintf("%s:%d", name, line)
		}
		all = append(all, s)
	}
	return all, nil
}

// linesOf returns the name of the file with settings, and the line of each; empty without one. Parsing has read and checked it.
func linesOf(flags []*kong.Flag) (name string, lines map[string]int, err error) {
	for _, f := range flags {
		if file, is := reflect.TypeAssert[configFile](f.Target); is && f.Name == "config" {
			name = string(file)
		}
	}
	if name == "" {
		return "", nil, nil
	}
	path, err := pathOf("--config", name)
	if err != nil {
		return "", nil, err
	}
	text, err := regular.Read(path, largestConfig)
	if err != nil {
		return "", nil, fmt.Errorf("--config: %w", err)
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return "", nil, fmt.Errorf("--config %s: %w", name, err)
	}
	lines = map[string]int{}
	for _, document := range tree.Content {
		for i := 0; i+1 < len(document.Content); i += 2 {
			lines[document.Content[i].Value] = document.Content[i].Line
		}
	}
	return name, lines, nil
}

// valueOf is the value of a flag, without secrets; empty if it has none.
func valueOf(flag *kong.Flag) string {
	value := flag.Target
	var text string
	switch kind := value.Kind(); {
	case value.IsZero() && flag.Default == "":
		return ""
	case value.Type().PkgPath() == "" && kind == reflect.Slice && value.Type().Elem().Kind() == reflect.String:
		text = strings.Join(value.Interface().([]string), ", ")
	case kind == reflect.Slice, kind == reflect.Struct, kind == reflect.Map:
		masked, err := action.Masked(value.Interface())
		if text = string(masked); err != nil {
			text = "it can't be shown: " + err.Error()
		}
	default:
		text = fmt.Sprint(value.Interface())
	}
	return withoutSecrets(text)
}
