package main

import (
	"cmp"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/gpuwhy/gpuwhy/internal/lazy"
	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// tidy normalizes what people write in settings: lists may have spaces after commas, and paths a ~. It refuses control characters
// and quotes around a value.
func tidy(parsed *kong.Context) error {
	for _, flag := range parsed.Flags() {
		if err := tidyValue("--"+flag.Name, flag.PlaceHolder, flag.Target); err != nil {
			return err
		}
	}
	return nil
}

func tidyValue(name, kind string, v reflect.Value) error {
	switch value := v.Interface().(type) {
	case string:
		if err := printable(name, value); err != nil {
			return err
		}
		if !slices.Contains([]string{"FILE", "DIR", "PATH"}, kind) {
			v.SetString(strings.TrimSpace(value))
			return unquoted(name, strings.TrimSpace(value))
		}
		path, err := pathOf(name, value)
		v.SetString(path)
		return err
	case []string:
		played, err := tidyReplay(name, value)
		if played != nil || err != nil {
			v.Set(reflect.ValueOf(played))
			return err
		}
		var list []string
		for _, item := range value {
			if err := printable(name, item); err != nil {
				return err
			}
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
			if err := unquoted(name, item); err != nil {
				return err
			}
		}
		v.Set(reflect.ValueOf(list))
	}
	return nil
}

// tidyReplay keeps a folder of --source whole, since its name may have a comma; nil for anything else.
func tidyReplay(name string, value []string) ([]string, error) {
	dir, played := strings.CutPrefix(strings.Join(value, ","), recorded)
	if name != "--source" || !played {
		return nil, nil
	}
	dir, err := pathOf(name, dir)
	return []string{recorded + dir}, err
}

// printable returns an error if a value has a control character, such as a carriage return from Windows.
func printable(name, value string) error {
	switch i := strings.IndexFunc(value, unicode.IsControl); {
	case i < 0:
		return nil
	case strings.HasSuffix(value, "\r") && i == len(value)-1:
		return fmt.Errorf("%s %q: the value ends with a carriage return: save its file with Unix line endings", name, value)
	default:
		return fmt.Errorf("%s %q: remove the control character %q", name, value, []rune(value[i:])[0])
	}
}

// pathOf returns the path of a setting; see [regular.Path].
func pathOf(name, path string) (string, error) {
	if err := printable(name, path); err != nil {
		return "", err
	}
	whole, err := regular.Path(path)
	if err != nil {
		return "", fmt.Errorf("%s %q: %w", name, path, err)
	}
	return whole, nil
}

// unquoted returns an error if a value still has quotes, for example from a container's file of variables.
func unquoted(name, value string) error {
	if strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'") {
		return fmt.Errorf("%s %q: remove the quotes: no shell strips them here", name, value)
	}
	return nil
}

// kubernetesVariable matches the variables that Kubernetes gives each pod for a service called gpuwhy or gpuwhy-hub, and
// kubernetesPort those whose value is an address. docs/deploy.md says how to turn them off.
var (
	kubernetesVariable = lazy.Pattern(`^GPUWHY_(?:[A-Z0-9_]+_)?(?:SERVICE_(?:HOST|PORT(?:_[A-Z0-9_]+)?)|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$`)
	kubernetesPort     = lazy.Pattern(`^GPUWHY_(?:[A-Z0-9_]+_)?PORT=(?:tcp|udp|sctp)://`)
)

// variables is the prefix of our variables' names.
const variables = "GPUWHY_"

// otherWords are names that settings have in other programs.
var otherWords = map[string]string{
	"PORT": "LISTEN", "ADDRESS": "LISTEN", "ADDR": "LISTEN", "BIND": "LISTEN", "HOST": "LISTEN", "RULES": "ALERT_RULES", "ALERTS": "ALERT_RULES", "DATABASE": "HISTORY",
	"DATABASE_URL": "HISTORY", "DB": "HISTORY", "RETENTION": "HISTORY_RETENTION", "DATA_DIR": "STATE_DIR", "HOSTNAME": "NODE", "NAME": "NODE", "HOSTS": "ALLOW_HOST",
	"ORIGINS": "ALLOW_ORIGIN", "CORS": "ALLOW_ORIGIN", "PREFIX": "BASE_PATH", "PATH_PREFIX": "BASE_PATH", "PRICE": "ELECTRICITY_PRICE", "PROXY": "TRUSTED_PROXY", "DEBUG": "LOG_LEVEL", "REFRESH": "INTERVAL",
}

// unknownVariables returns notes about variables that look like settings but are not. others are names that settings mention.
func unknownVariables(environ []string, others []string) (notes []string) {
	known := sync.OnceValue(func() (names []string) { // of all commands, which only takes time where there is such a variable
		for _, leaf := range grammar().Leaves(false) {
			for _, flag := range leaf.Flags {
				for _, name := range flag.Envs {
					names = append(names, strings.TrimPrefix(name, variables))
				}
			}
		}
		return names
	})
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		variable, ours := strings.CutPrefix(name, variables)
		switch {
		case !ours, value == "", name == tokenVariable, slices.Contains(others, name):
			continue
		case kubernetesVariable().MatchString(name), kubernetesPort().MatchString(entry):
			continue
		case slices.Contains(known(), variable):
			continue
		}
		like := cmp.Or(otherWords[variable], nearest.Name(variable, known()))
		hint := "'gpuwhy --help' lists the flags; a variable is GPUWHY_ followed by the flag's name in capitals"
		if like != "" {
			hint = "did you mean " + variables + like + "?"
		}
		notes = append(notes, fmt.Sprintf("the variable %s is not a setting and is ignored: %s", name, hint))
	}
	slices.Sort(notes)
	return notes
}

// tellUnknown logs the variables that are ignored.
func (env *environment) tellUnknown(others []string) {
	for _, note := range unknownVariables(os.Environ(), others) {
		env.log.Warn("a variable is ignored", "why", note)
	}
}

// bareLetters turns "-o=json" into "-ojson", since people write both, and flags of one letter take no equals sign.
func bareLetters(args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if a == "--" {
			break
		}
		if len(a) > 3 && a[0] == '-' && unicode.IsLetter(rune(a[1])) && a[2] == '=' {
			args[i] = a[:2] + a[3:]
		}
	}
	return args
}

// asCommands turns "--version" into a command and "help" into a flag.
func asCommands(args []string) []string {
	switch {
	case len(args) == 0:
	case slices.Contains(args, "--version"), slices.Contains([]string{"-version", "-V", "-v"}, args[0]):
		return []string{"version"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "-help":
		return []string{"--help"}
	}
	return args
}

// helpCommand exists only to be listed; see [asCommands].
type helpCommand struct {
	Command []string `arg:"" optional:"" words:"@commands" help:"The command to explain."`
}

func (helpCommand) check() error { return nil }

// Run is never called.
func (helpCommand) Run(*environment) error { return usageError{errNoHelp} }

var (
	notOneOf = lazy.Pattern(`must be one of (.*) but got "(.*)"$`)
	quotedIn = lazy.Pattern(`"([^"]*)"`)
	// noNumber matches kong's error about a value that is not a duration or not a number.
	noNumber = lazy.Pattern(`^(--[a-z-]+): expected (duration|a float|a valid \d+ bit u?int|.*int.*) but got ("(?:[^"\\]|\\.)*")`)
)

// wantedNumbers says which values a kind of setting takes.
var wantedNumbers = map[string]string{"duration": "give a time with a unit, such as 5s, 500ms or 1h30m", "a float": "give a number, such as 0.3"}

// hinted returns a clearer error of the command line and, for a choice of words, adds the word that was probably meant.
func hinted(err error) error {
	if err == nil {
		return nil
	}
	if found := noNumber().FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("%s %s: %s", found[1], found[3], cmp.Or(wantedNumbers[found[2]], "give a whole number, such as 100"))
	}
	found := notOneOf().FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	var words []string
	for _, word := range quotedIn().FindAllStringSubmatch(found[1], -1) {
		words = append(words, word[1])
	}
	return fmt.Errorf("%w%s", err, nearest.Hint(found[2], words))
}
