package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"github.com/gpuwhy/gpuwhy/internal/nearest"
	"github.com/gpuwhy/gpuwhy/internal/regular"
)

// file resolves flags that neither the command line nor the environment sets.
type file struct {
	name   string
	values map[string]any
}

// A configFile is the name of a YAML file whose keys are the names of flags.
type configFile string

// largestConfig is how large the file may be, in bytes. It has one line per flag.
const largestConfig = 64 << 10

// BeforeResolve reads the file, once kong knows its name.
func (configFile) BeforeResolve(ctx *kong.Context, path *kong.Path) error {
	name, _ := ctx.FlagValue(path.Flag).(configFile)
	if name == "" || !slices.Contains(ctx.Flags(), path.Flag) { // a variable sets the flags of all commands
		return nil
	}
	whole, err := pathOf("--config", string(name))
	if err != nil {
		return err
	}
	text, err := regular.Read(whole, largestConfig)
	if err != nil {
		return fmt.Errorf("--config: %w: name a YAML file whose keys are the flags' names", err)
	}
	f := &file{name: string(name)}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&f.values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config %s: %w", name, err)
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config %s: the file has several YAML documents, and only one is allowed", name)
	}
	ctx.AddResolver(f)
	return nil
}

// Validate refuses unknown keys.
func (f *file) Validate(*kong.Application) error {
	known := map[string]bool{}
	for _, flag := range settings() {
		known[flag.Name] = flag.Name != "config"
	}
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if !known[key] {
			return fmt.Errorf("%s: unknown key %q%s; the keys are the names of the flags, which 'gpuwhy --help' lists", f.name, key, nearest.Hint(key, slices.Collect(maps.Keys(known))))
		}
	}
	return nil
}

// Resolve returns the file's value of a flag, unless its variable is set. A flag without a variable is no setting, but an argument of
// an action.
func (f *file) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := f.values[flag.Name]
	if !ok || len(flag.Tag.Envs) == 0 {
		return nil, nil //nolint:nilnil // kong's way to say that there is none
	}
	for _, name := range flag.Tag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil //nolint:nilnil // as above
		}
	}
	if _, whole := reflect.TypeAssert[wholeValue](flag.Target); whole && value != nil {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	switch value := value.(type) {
	case nil:
		return nil, fmt.Errorf("%s: %s has no value", f.name, flag.Name)
	case []any:
		texts := make([]string, len(value))
		for i, v := range value {
			texts[i] = fmt.Sprint(v)
		}
		return strings.Join(texts, ","), nil
	case map[string]any:
		return nil, fmt.Errorf("%s: %s must be one value, not a map", f.name, flag.Name)
	default:
		return fmt.Sprint(value), nil
	}
}
